/* A checkpoint's own chat template (Jinja), from chat_template.jinja or tokenizer_config.json: messages to prompt text.
 *
 * The template is compiled at load; one that uses something the interpreter lacks is refused with line and reason.
 * A checkpoint may have a second one, "tool_use", for requests with tools.
 *
 * Rendering gives the template what Transformers gives it: messages, tools, documents, add_generation_prompt, the
 * special tokens by name, raise_exception, strftime_now, and the caller's own variables. As there, a message's members
 * that are null are left out, and its reasoning is there under each of the names reasoning_content and thinking,
 * whichever of reasoning_content, thinking and reasoning it came under. Immutable after loading.
 */
#ifndef KAIJU_TEXT_CHAT_H
#define KAIJU_TEXT_CHAT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"

struct chat_template;

/* KJ_NOT_FOUND if the checkpoint has no template. */
int chat_template_load(struct chat_template **chat, const char *directory, struct kj_error *error);
/* One template from memory, without special tokens; messages call it `name`. */
int chat_template_parse(struct chat_template **chat, const char *name, const char *source, size_t length,
                        struct kj_error *error);
void chat_template_free(struct chat_template *chat);
/* True if the source of one of the templates has the text. */
bool chat_template_mentions(const struct chat_template *chat, const char *text);

/* Appends the prompt. `messages` is a JSON array of objects {role, content, …}; `tools` an array or NULL; `extra` an
 * object of further variables or NULL. raise_exception in the template gives KJ_INVALID with its text. */
int chat_template_render(const struct chat_template *chat, const json_t *messages, const json_t *tools,
                         const json_t *extra, bool add_generation_prompt, struct buffer *out, struct kj_error *error);

#endif
