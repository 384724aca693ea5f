#include "unit/http/serve_fake.h"

#include <stdlib.h>

#include "unit/unit.h"

static const char model[] = KAIJU_SOURCE_DIR "/models/kaiju-mini";

static void check(int code, const struct kj_error *error) {
  if (code) fail_msg("%s", error->message);
}

void serve_fake_start(struct serve_fake *serve, const struct http_limits *limits) {
  struct kj_error error;
  check(tokenizer_load(&serve->tokenizer, model, &error), &error);
  if (serve->template)
    check(chat_template_parse(&serve->chat, "test", serve->template, strlen(serve->template), &error), &error);
  else
    check(chat_template_load(&serve->chat, model, &error), &error);
  struct fake_settings settings = {.vocabulary = tokenizer_size(serve->tokenizer),
                                   .context = serve->context ? serve->context : FAKE_CONTEXT,
                                   .capacity = serve->capacity};
  assert_true(tokenizer_find(serve->tokenizer, "<|im_end|>", &settings.eos));
  serve->engine = fake_engine_create(&settings);
  struct http_options options = {.host = "127.0.0.1",
                                 .model_name = "org/kaiju-mini",
                                 .engine = serve->engine,
                                 .tokenizer = serve->tokenizer,
                                 .chat = serve->chat,
                                 .dropped_lines = serve->dropped_lines,
                                 .keys = serve->keys,
                                 .cors = serve->cors,
                                 .aliases = serve->aliases,
                                 .without_page = serve->without_page,
                                 .fingerprint = "fp_fake"};
  if (limits) options.limits = *limits;
  check(http_server_start(&serve->server, &options, &serve->port, &error), &error);
}

void serve_fake_stop(struct serve_fake *serve) {
  engine_stop(serve->engine);
  http_server_stop(serve->server);
  engine_destroy(serve->engine);
  chat_template_free(serve->chat);
  tokenizer_free(serve->tokenizer);
}

size_t serve_fake_say(struct serve_fake *serve, const char *text) {
  struct token_list tokens = {0};
  struct kj_error error;
  check(tokenizer_encode(serve->tokenizer, text, strlen(text), false, &tokens, &error), &error);
  fake_engine_set_tokens(serve->engine, tokens.ids, tokens.count);
  size_t count = tokens.count;
  token_list_free(&tokens);
  return count;
}

/* The token that stands for exactly this byte. */
static uint32_t byte_token(const struct serve_fake *serve, char byte) {
  for (uint32_t id = 0; id < tokenizer_size(serve->tokenizer); id++) {
    size_t length = 0;
    const char *bytes = tokenizer_bytes(serve->tokenizer, id, &length);
    if (length == 1 && bytes[0] == byte) return id;
  }
  fail_msg("no token for byte %02x", (unsigned char)byte);
  return 0;
}

size_t serve_fake_say_bytes(struct serve_fake *serve, const char *text) {
  size_t length = strlen(text);
  uint32_t *tokens = calloc(length, sizeof *tokens);
  assert_non_null(tokens);
  for (size_t i = 0; i < length; i++) tokens[i] = byte_token(serve, text[i]);
  fake_engine_set_tokens(serve->engine, tokens, length);
  free(tokens);
  return length;
}
