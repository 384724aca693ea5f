#include "cmd/conversation.h"

#include <jansson.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "text/detokenizer.h"

struct conversation {
  struct conversation_options options;
  json_t *messages;

  pthread_mutex_t mutex;
  pthread_cond_t news;
  /* Of the reply at hand, under mutex; the engine's thread writes, the conversation's reads. */
  struct token_list tokens; /* text tokens that have come and are not printed yet */
  bool replying, out_of_memory;
  uint64_t request;
  enum finish finish;
  struct kj_error error;
  struct reply_statistics statistics;
  double started, first_at, last_at;
};

int conversation_create(struct conversation **result, const struct conversation_options *options,
                        struct kj_error *error) {
  *result = NULL;
  struct conversation *conversation = calloc(1, sizeof *conversation);
  if (!conversation) return kj_fail_memory(error, "the conversation");
  conversation->options = *options;
  pthread_mutex_init(&conversation->mutex, NULL);
  pthread_cond_init(&conversation->news, NULL);
  conversation->messages = json_array();
  int failed = !conversation->messages;
  if (!failed && options->system)
    failed = json_array_append_new(conversation->messages,
                                   json_pack("{s:s, s:s}", "role", "system", "content", options->system));
  if (failed) {
    conversation_free(conversation);
    return kj_fail(error, KJ_INVALID, "the system message is not UTF-8 text");
  }
  *result = conversation;
  return 0;
}

void conversation_free(struct conversation *conversation) {
  if (!conversation) return;
  json_decref(conversation->messages);
  token_list_free(&conversation->tokens);
  pthread_cond_destroy(&conversation->news);
  pthread_mutex_destroy(&conversation->mutex);
  free(conversation);
}

static void on_event(void *context, const struct engine_event *event) {
  struct conversation *conversation = context;
  pthread_mutex_lock(&conversation->mutex);
  if (event->has_token) {
    conversation->last_at = clock_seconds();
    if (event->completion_tokens == 1) conversation->first_at = conversation->last_at;
    if (event->finish != FINISH_EOS && token_list_push(&conversation->tokens, event->sampled.token, NULL))
      conversation->out_of_memory = true;
  }
  conversation->statistics.prompt_tokens = event->prompt_tokens;
  conversation->statistics.completion_tokens = event->completion_tokens;
  conversation->finish = event->finish;
  if (event->error) conversation->error = *event->error;
  pthread_cond_signal(&conversation->news);
  pthread_mutex_unlock(&conversation->mutex);
}

bool conversation_cancel(struct conversation *conversation) {
  pthread_mutex_lock(&conversation->mutex);
  bool replying = conversation->replying;
  uint64_t request = conversation->request;
  pthread_mutex_unlock(&conversation->mutex);
  if (replying) engine_cancel(conversation->options.engine, request);
  return replying;
}

static int encode_prompt(struct conversation *conversation, const char *prompt, struct token_list *tokens,
                         struct kj_error *error) {
  const struct conversation_options *options = &conversation->options;
  if (!options->chat) return tokenizer_encode(options->tokenizer, prompt, strlen(prompt), true, tokens, error);
  json_t *message = json_pack("{s:s, s:s}", "role", "user", "content", prompt);
  if (!message || json_array_append_new(conversation->messages, message))
    return kj_fail(error, KJ_INVALID, "the prompt is not UTF-8 text");
  struct buffer text = {0};
  int code = chat_template_render(options->chat, conversation->messages, NULL, NULL, true, &text, error);
  if (!code) code = tokenizer_encode(options->tokenizer, buffer_text(&text), text.length, true, tokens, error);
  buffer_free(&text);
  if (code) json_array_remove(conversation->messages, json_array_size(conversation->messages) - 1);
  return code;
}

/* Prints what comes until the last event; `reply` gathers the whole text. */
static int print_reply(struct conversation *conversation, FILE *file, struct buffer *reply, struct kj_error *error) {
  struct detokenizer *detokenizer;
  int code = detokenizer_create(&detokenizer, conversation->options.tokenizer, NULL, 0, error);
  bool done = false;
  if (code) engine_cancel(conversation->options.engine, conversation->request);
  /* Also then the last event must be waited for: the engine holds a pointer to us. */
  while (!done) {
    size_t printed = reply->length;
    pthread_mutex_lock(&conversation->mutex);
    while (conversation->tokens.count == 0 && conversation->finish == FINISH_NONE)
      pthread_cond_wait(&conversation->news, &conversation->mutex);
    for (size_t i = 0; i < conversation->tokens.count && detokenizer; i++)
      detokenizer_push(detokenizer, conversation->tokens.ids[i], reply);
    conversation->tokens.count = 0;
    done = conversation->finish != FINISH_NONE;
    pthread_mutex_unlock(&conversation->mutex);
    if (done && detokenizer) detokenizer_finish_cut(detokenizer, reply);
    size_t length = reply->length - printed;
    if (!code && (fwrite(buffer_text(reply) + printed, 1, length, file) < length || fflush(file))) {
      code = kj_fail_errno(error, "write", "the reply");
      engine_cancel(conversation->options.engine, conversation->request);
    }
  }
  detokenizer_free(detokenizer);
  return code;
}

static void fill_statistics(struct conversation *conversation, struct reply_statistics *statistics) {
  *statistics = conversation->statistics;
  statistics->finish = conversation->finish;
  if (statistics->completion_tokens == 0) return;
  statistics->first_token_seconds = conversation->first_at - conversation->started;
  double rest = conversation->last_at - conversation->first_at;
  if (rest > 0) statistics->tokens_per_second = (statistics->completion_tokens - 1) / rest;
}

static int submit(struct conversation *conversation, const struct token_list *tokens, struct kj_error *error) {
  struct request request = {.tokens = tokens->ids,
                            .token_count = tokens->count,
                            .max_tokens = conversation->options.max_tokens,
                            .sampling = conversation->options.sampling,
                            .on_event = on_event,
                            .context = conversation};
  if (!conversation->options.seed_given) randombytes_buf(&request.sampling.seed, sizeof request.sampling.seed);
  conversation->finish = FINISH_NONE;
  conversation->out_of_memory = false;
  conversation->statistics = (struct reply_statistics){0};
  conversation->started = clock_seconds();
  /* Locked, so that the first event and a cancel find the request's id. */
  pthread_mutex_lock(&conversation->mutex);
  int code = engine_submit(conversation->options.engine, &request, &conversation->request, error);
  conversation->replying = !code;
  pthread_mutex_unlock(&conversation->mutex);
  return code;
}

int conversation_say(struct conversation *conversation, const char *prompt, FILE *file,
                     struct reply_statistics *statistics, struct kj_error *error) {
  struct token_list tokens = {0};
  struct buffer reply = {0};
  bool chat = conversation->options.chat != NULL;
  int code = encode_prompt(conversation, prompt, &tokens, error);
  if (code) goto done;
  code = submit(conversation, &tokens, error);
  if (!code) {
    code = print_reply(conversation, file, &reply, error);
    pthread_mutex_lock(&conversation->mutex);
    conversation->replying = false;
    pthread_mutex_unlock(&conversation->mutex);
    if (!code && (conversation->out_of_memory || buffer_failed(&reply))) code = kj_fail_memory(error, "the reply");
    if (!code && conversation->finish == FINISH_ERROR)
      code = kj_fail(error, conversation->error.code, "%s", conversation->error.message);
    fill_statistics(conversation, statistics);
  }
  bool kept = false;
  if (chat && !code)
    kept = json_array_append_new(conversation->messages, json_pack("{s:s, s:s%}", "role", "assistant", "content",
                                                                   buffer_text(&reply), reply.length)) == 0;
  if (chat && !kept) json_array_remove(conversation->messages, json_array_size(conversation->messages) - 1);
done:
  token_list_free(&tokens);
  buffer_free(&reply);
  return code;
}
