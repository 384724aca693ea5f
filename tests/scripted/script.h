/* Recorded replies: what the double of the sampler says to which prompt.
 *
 * A script is a JSON file:
 *
 *   {"tokenizer": "DIRECTORY",       whose tokenizer.json the checkpoint has
 *    "end": "<|im_end|>",            the token after a reply
 *    "log": "FILE",                  optional: gets a line {"rule", "prompt"} for each prompt; rule -1: "otherwise"
 *    "rules": [{"when": …, "unless": …, "within": N, "say": "text", "delay_ms": N}, …],
 *    "otherwise": "text"}            the reply where no rule holds; default: "No rule holds."
 *
 * The first rule counts whose `when` (a string or an array of strings, all of them; default: none) stands in the prompt
 * and of whose `unless` (likewise, any of them) nothing does. `within` has them looked for in the last N bytes of the
 * prompt only. The prompt is the text of all its tokens, special ones included; texts to say may have special tokens,
 * too. delay_ms is waited before each token, as a slow model would.
 *
 * What is said depends on the prompt alone. Immutable after loading.
 */
#ifndef KAIJU_TESTS_SCRIPT_H
#define KAIJU_TESTS_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct script;

int script_load(struct script **script, const char *path, struct kj_error *error);
void script_free(struct script *script);

struct script_reply {
  const uint32_t *tokens; /* [count], the end token included */
  size_t count;
  uint32_t delay_ms;
};

/* The reply to a prompt. With `log`, the prompt is written to the script's log. */
int script_reply(const struct script *script, const uint32_t *prompt, size_t count, bool log,
                 struct script_reply *reply, struct kj_error *error);

#endif
