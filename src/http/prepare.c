#include "http/prepare.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

struct preparation_queue {
  struct preparation *first, *last;
};

struct preparer {
  struct preparer_options options;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct preparation_queue waiting, done;
  bool stopping;
};

static void append(struct preparation_queue *queue, struct preparation *preparation) {
  preparation->next = NULL;
  if (queue->last)
    queue->last->next = preparation;
  else
    queue->first = preparation;
  queue->last = preparation;
}

static struct preparation *take(struct preparation_queue *queue) {
  struct preparation *preparation = queue->first;
  if (!preparation) return NULL;
  queue->first = preparation->next;
  if (!queue->first) queue->last = NULL;
  return preparation;
}

void preparation_free(struct preparation *preparation) {
  if (!preparation) return;
  buffer_free(&preparation->body);
  buffer_free(&preparation->answer);
  completion_request_free(preparation->request);
  token_list_free(&preparation->tokens);
  free(preparation);
}

int prepare_chat_prompt(const struct preparer_options *options, const struct completion_request *request,
                        struct buffer *prompt, struct api_error *error) {
  struct kj_error cause;
  if (!options->chat)
    return api_fail(error, 400, "no_chat_template", NULL, "this model has no chat template: use /v1/completions");
  if (options->dropped_lines && prompt_lines_drop(options->dropped_lines, request->messages, error)) return -1;
  if (chat_template_render(options->chat, request->messages, request->tools, request->template_variables, true, prompt,
                           &cause))
    return api_fail_from(error, &cause);
  return buffer_failed(prompt) ? api_fail_memory(error) : 0;
}

/* The prompt's text to tokens. Special tokens in it count as such, as with Transformers. */
static int tokenize(const struct preparer_options *options, struct preparation *preparation,
                    const struct completion_request *request) {
  struct kj_error cause;
  struct buffer text = {0};
  const char *prompt = request->prompt;
  size_t length = request->prompt_length;
  int failed = 0;
  if (request->endpoint == ENDPOINT_CHAT) {
    failed = prepare_chat_prompt(options, request, &text, &preparation->error);
    prompt = buffer_text(&text);
    length = text.length;
  }
  if (!failed && tokenizer_encode(options->tokenizer, prompt, length, true, &preparation->tokens, &cause))
    failed = api_fail_from(&preparation->error, &cause);
  buffer_free(&text);
  return failed;
}

static int check_context(const struct preparer_options *options, struct preparation *preparation) {
  size_t count = preparation->tokens.count;
  if (count == 0)
    return api_fail(&preparation->error, 400, "invalid_value", NULL,
                    "the prompt is empty: it needs one token at least");
  if (count >= options->context)
    return api_fail(&preparation->error, 400, "context_length_exceeded",
                    preparation->endpoint == ENDPOINT_CHAT ? "messages" : "prompt",
                    "the context is %u tokens, the prompt has %zu and needs room for one more: shorten it",
                    options->context, count);
  return 0;
}

/* What the tools say about how calls in the answer are read. */
static int compile_tools(const struct preparer_options *options, struct preparation *preparation,
                         struct completion_request *request) {
  struct kj_error cause;
  if (!request->tools || options->tool_form == TOOL_FORM_NONE) return 0;
  request->tool_form = options->tool_form;
  return tool_schemas_compile(&request->tool_schemas, request->tools, &cause)
             ? api_fail_from(&preparation->error, &cause)
             : 0;
}

void prepare(const struct preparer_options *options, struct preparation *preparation) {
  struct completion_request *request = NULL;
  if (completion_request_parse(&request, preparation->endpoint, buffer_text(&preparation->body),
                               preparation->body.length, options->config, &preparation->error))
    return;
  int failed = 0;
  if (request->tokens) {
    preparation->tokens = (struct token_list){request->tokens, request->token_count, request->token_count};
    request->tokens = NULL;
  } else {
    failed = tokenize(options, preparation, request);
  }
  if (!failed) failed = check_context(options, preparation);
  if (!failed) failed = compile_tools(options, preparation, request);
  if (!failed && !request->has_seed && getentropy(&request->sampling.seed, sizeof request->sampling.seed) != 0)
    failed = api_fail(&preparation->error, 500, "internal_error", NULL, "no random seed could be drawn");
  if (failed) {
    completion_request_free(request);
    return;
  }
  /* Many requests may wait or generate for long: of the prompt they keep the tokens only. */
  completion_request_drop_prompt(request);
  preparation->request = request;
}

static void *run(void *context) {
  struct preparer *preparer = context;
  pthread_mutex_lock(&preparer->lock);
  while (!preparer->stopping) {
    struct preparation *preparation = take(&preparer->waiting);
    if (!preparation) {
      pthread_cond_wait(&preparer->changed, &preparer->lock);
      continue;
    }
    pthread_mutex_unlock(&preparer->lock);
    preparer_work *work = preparation->work ? preparation->work : prepare;
    work(&preparer->options, preparation);
    buffer_free(&preparation->body);
    pthread_mutex_lock(&preparer->lock);
    append(&preparer->done, preparation);
    preparer->options.wake(preparer->options.wake_context);
  }
  pthread_mutex_unlock(&preparer->lock);
  return NULL;
}

int preparer_create(struct preparer **result, const struct preparer_options *options, struct kj_error *error) {
  struct preparer *preparer = calloc(1, sizeof *preparer);
  if (!preparer) return kj_fail_memory(error, "the HTTP server");
  preparer->options = *options;
  pthread_mutex_init(&preparer->lock, NULL);
  pthread_cond_init(&preparer->changed, NULL);
  if (pthread_create(&preparer->thread, NULL, run, preparer) != 0) {
    pthread_mutex_destroy(&preparer->lock);
    pthread_cond_destroy(&preparer->changed);
    free(preparer);
    return kj_fail(error, KJ_IO, "cannot start a thread of the HTTP server");
  }
  *result = preparer;
  return 0;
}

void preparer_destroy(struct preparer *preparer) {
  if (!preparer) return;
  pthread_mutex_lock(&preparer->lock);
  preparer->stopping = true;
  pthread_cond_signal(&preparer->changed);
  pthread_mutex_unlock(&preparer->lock);
  pthread_join(preparer->thread, NULL);
  for (struct preparation *left = NULL; (left = take(&preparer->waiting)) || (left = take(&preparer->done));)
    preparation_free(left);
  pthread_mutex_destroy(&preparer->lock);
  pthread_cond_destroy(&preparer->changed);
  free(preparer);
}

void preparer_submit(struct preparer *preparer, struct preparation *preparation) {
  pthread_mutex_lock(&preparer->lock);
  append(&preparer->waiting, preparation);
  pthread_cond_signal(&preparer->changed);
  pthread_mutex_unlock(&preparer->lock);
}

/* True if it was in the queue. */
static bool withdraw(struct preparation_queue *queue, const struct preparation *preparation) {
  struct preparation *previous = NULL;
  for (struct preparation *at = queue->first; at; previous = at, at = at->next) {
    if (at != preparation) continue;
    if (previous)
      previous->next = at->next;
    else
      queue->first = at->next;
    if (queue->last == at) queue->last = previous;
    return true;
  }
  return false;
}

void preparer_abandon(struct preparer *preparer, struct preparation *preparation) {
  pthread_mutex_lock(&preparer->lock);
  bool waited = withdraw(&preparer->waiting, preparation);
  pthread_mutex_unlock(&preparer->lock);
  if (waited)
    preparation_free(preparation);
  else
    preparation->owner = NULL;
}

struct preparation *preparer_take(struct preparer *preparer) {
  pthread_mutex_lock(&preparer->lock);
  struct preparation *preparation = take(&preparer->done);
  pthread_mutex_unlock(&preparer->lock);
  return preparation;
}
