/* The HTTP server over the fake engine, with the tokenizer and the template of the shipped model. */
#ifndef KAIJU_TESTS_SERVE_FAKE_H
#define KAIJU_TESTS_SERVE_FAKE_H

#include "http/server.h"
#include "unit/http/fake_engine.h"
#include "unit/http/http_client.h"

struct serve_fake {
  /* Set before the start. */
  uint32_t context;                   /* 0: FAKE_CONTEXT */
  uint32_t capacity;                  /* of the engine; 0: any */
  struct prompt_lines *dropped_lines; /* or NULL; the caller's, as the next two */
  const struct api_keys *keys;
  const struct cors *cors;
  const char *aliases;
  bool without_page;
  const char *template; /* in place of the shipped model's, or NULL */

  struct tokenizer *tokenizer;
  struct chat_template *chat;
  struct engine *engine;
  struct http_server *server;
  uint16_t port;
};

enum { FAKE_CONTEXT = 256 };

/* `serve` is zero but for what is set before the start; `limits` may be NULL. */
void serve_fake_start(struct serve_fake *serve, const struct http_limits *limits);
void serve_fake_stop(struct serve_fake *serve);
/* The engine generates this text, as the tokenizer cuts it. Returns the number of tokens. */
size_t serve_fake_say(struct serve_fake *serve, const char *text);
/* One token for each byte of the text, so that characters and stop strings span tokens. */
size_t serve_fake_say_bytes(struct serve_fake *serve, const char *text);

#endif
