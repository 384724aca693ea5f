/* Bodies of /tokenize, /detokenize and /apply-template; the first byte picks which. */
// links: http_server
#include <stdlib.h>
#include <string.h>

#include "http/text_calls.h"
#include "text/byte_level.h"
#include "text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
  if (!holds) abort();
}

/* Every byte is a token, and <|end|> is one. */
static struct tokenizer *make_tokenizer(void) {
  struct buffer json = {0};
  struct tokenizer *tokenizer;
  struct kj_error error;
  buffer_append_text(&json,
                     "{\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                     "\"trim_offsets\":false,\"use_regex\":true},\"post_processor\":null,\"decoder\":{\"type\":"
                     "\"ByteLevel\"},\"added_tokens\":[{\"id\":256,\"content\":\"<|end|>\",\"single_word\":false,"
                     "\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}],\"model\":{\"type\":"
                     "\"BPE\",\"dropout\":null,\"unk_token\":null,\"byte_fallback\":false,\"merges\":[],\"vocab\":{");
  for (unsigned byte = 0; byte < 256; byte++) {
    char spelling[5] = "";
    utf8_write(byte_level_character((unsigned char)byte), spelling);
    const char *escape = *spelling == '"' || *spelling == '\\' ? "\\" : "";
    buffer_append_format(&json, "%s\"%s%s\":%u", byte ? "," : "", escape, spelling, byte);
  }
  buffer_append_text(&json, "}}}");
  check(tokenizer_parse(&tokenizer, "fuzz", json.data, json.length, &error) == 0);
  buffer_free(&json);
  return tokenizer;
}

static struct chat_template *make_template(void) {
  static const char source[] = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<|end|>{% endfor %}{{ tools }}";
  struct chat_template *chat;
  struct kj_error error;
  check(chat_template_parse(&chat, "fuzz", source, sizeof source - 1, &error) == 0);
  return chat;
}

/* The only member of the answer. */
static json_t *answer_of(struct preparation *preparation, const char *name) {
  json_t *answer = json_loadb(buffer_text(&preparation->answer), preparation->answer.length, JSON_ALLOW_NUL, NULL);
  json_t *member = json_incref(json_object_get(answer, name));
  check(member && json_object_size(answer) == 1);
  json_decref(answer);
  return member;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct config config = {
      .vocabulary = 257, .generation = {.sample = true, .temperature = 1, .top_p = 1, .repetition_penalty = 1}};
  static struct tokenizer *tokenizer;
  static struct chat_template *chat;
  static preparer_work *const works[] = {text_tokenize, text_detokenize, text_apply_template};
  static const char *const names[] = {"tokens", "content", "prompt"};
  if (size == 0) return 0;
  if (!tokenizer) tokenizer = make_tokenizer();
  if (!chat) chat = make_template();
  size_t which = data[0] % 3;
  struct preparer_options options = {.tokenizer = tokenizer, .chat = chat, .config = &config, .context = 100};
  struct preparation *preparation = calloc(1, sizeof *preparation);
  check(preparation != NULL);
  buffer_append(&preparation->body, data + 1, size - 1);
  works[which](&options, preparation);
  if (preparation->error.status) {
    check(preparation->error.status == 400 && preparation->error.message[0]);
  } else {
    json_t *member = answer_of(preparation, names[which]);
    check(which == 0 ? json_is_array(member) : json_is_string(member));
    json_decref(member);
  }
  preparation_free(preparation);
  return 0;
}
