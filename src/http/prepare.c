#include "http/prepare.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http/json.h"
#include "http/responses_request.h"
#include "text/detokenizer.h"
#include "text/fill_in.h"
#include "text/thought.h"

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
  for (size_t i = 0; i < preparation->prompt_count; i++) token_list_free(&preparation->prompts[i]);
  free(preparation->prompts);
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
  if (request->continuation) {
    if (thought_opened(buffer_text(prompt), prompt->length))
      return api_fail(error, 400, "unsupported", "messages",
                      "the answer's beginning is given and the template begins a thought: turn thinking off");
    buffer_append_text(prompt, request->continuation);
  }
  return buffer_failed(prompt) ? api_fail_memory(error) : 0;
}

/* Text to tokens. Special tokens in it count as such, as with Transformers. */
static int encode(const struct preparer_options *options, const char *text, size_t length, struct token_list *tokens,
                  struct api_error *error) {
  struct kj_error cause;
  return tokenizer_encode(options->tokenizer, text, length, true, tokens, &cause) ? api_fail_from(error, &cause) : 0;
}

int prepare_chat_tokens(const struct preparer_options *options, struct completion_request *request,
                        struct token_list *tokens, struct api_error *error) {
  struct buffer text = {0};
  int failed = prepare_chat_prompt(options, request, &text, error);
  if (!failed && options->thinks && !request->continuation && !thought_closed(buffer_text(&text), text.length))
    request->thought = thought_opened(buffer_text(&text), text.length) ? THOUGHT_HAS_BEGUN : THOUGHT_MAY_BE;
  if (!failed) failed = encode(options, buffer_text(&text), text.length, tokens, error);
  buffer_free(&text);
  return failed;
}

/* What an echo of token ids reads. */
static int decode(const struct preparer_options *options, struct request_prompt *prompt, struct api_error *error) {
  struct buffer text = {0};
  detokenize(options->tokenizer, prompt->tokens, prompt->token_count, &text);
  prompt->length = text.length;
  buffer_append(&text, "", 1); /* so that it is never NULL */
  if (buffer_failed(&text))
    buffer_free(&text);
  else
    prompt->text = text.data;
  return prompt->text ? 0 : api_fail_memory(error);
}

static int prepare_completion(const struct preparer_options *options, const struct completion_request *request,
                              struct request_prompt *prompt, struct token_list *tokens, struct api_error *error) {
  struct fill_in_tokens fill_in;
  int failed = 0;
  if (request->suffix && !fill_in_tokens_find(&fill_in, options->tokenizer))
    return api_fail(error, 400, "unsupported", "suffix",
                    "'suffix' is not supported by this model: its vocabulary has no tokens for filling in");
  if (request->echo && prompt->tokens && decode(options, prompt, error)) return -1;
  if (request->suffix && token_list_push(tokens, fill_in.before, NULL)) return api_fail_memory(error);
  if (prompt->tokens && !request->suffix) {
    *tokens = (struct token_list){prompt->tokens, prompt->token_count, prompt->token_count};
    prompt->tokens = NULL;
  } else if (prompt->tokens) {
    for (size_t i = 0; !failed && i < prompt->token_count; i++)
      if (token_list_push(tokens, prompt->tokens[i], NULL)) failed = api_fail_memory(error);
  } else {
    failed = encode(options, prompt->text, prompt->length, tokens, error);
  }
  if (failed || !request->suffix) return failed;
  if (token_list_push(tokens, fill_in.between, NULL)) return api_fail_memory(error);
  if (encode(options, request->suffix, request->suffix_length, tokens, error)) return -1;
  return token_list_push(tokens, fill_in.after, NULL) ? api_fail_memory(error) : 0;
}

static int check_context(const struct preparer_options *options, struct preparation *preparation, size_t index) {
  size_t count = preparation->prompts[index].count;
  if (count == 0)
    return api_fail(&preparation->error, 400, "invalid_value", NULL,
                    "the prompt is empty: it needs one token at least");
  if (count < options->context) return 0;
  /* Agents know this sentence of Anthropic's, and then summarise what has been said. */
  if (preparation->endpoint == ENDPOINT_MESSAGES)
    return api_fail(&preparation->error, 400, "context_length_exceeded", "messages",
                    "prompt is too long: %zu tokens > %u maximum", count, options->context - 1);
  char which[32] = "the prompt";
  if (preparation->prompt_count > 1) snprintf(which, sizeof which, "prompt[%zu]", index);
  return api_fail(&preparation->error, 400, "context_length_exceeded",
                  preparation->endpoint == ENDPOINT_COMPLETIONS ? "prompt"
                  : preparation->endpoint == ENDPOINT_RESPONSES ? "input"
                                                                : "messages",
                  "the context is %u tokens, %s has %zu and needs room for one more: shorten it", options->context,
                  which, count);
}

/* Every choice has a copy of its prompt, with log-probabilities for each of its tokens: a few ids could ask for more
 * than any memory. */
static int check_echo(const struct preparation *preparation, const struct completion_request *request,
                      struct api_error *error) {
  uint64_t bytes = 0, values = 0;
  uint32_t each = request->sampling.top_logprobs < 0 ? 0 : (uint32_t)request->sampling.top_logprobs + 1;
  if (!request->echo) return 0;
  for (size_t i = 0; i < request->prompt_count; i++) {
    bytes += (uint64_t)request->prompts[i].length * request->choices;
    values += (uint64_t)preparation->prompts[i].count * request->choices * each;
  }
  if (bytes > REQUEST_MAX_ECHO_BYTES)
    return api_fail(error, 400, "invalid_value", "echo",
                    "the choices would repeat %" PRIu64 " bytes of the prompts: at most %d are repeated", bytes,
                    REQUEST_MAX_ECHO_BYTES);
  if (values > JSON_MAX_VALUES)
    return api_fail(error, 400, "invalid_value", "logprobs",
                    "the prompts' tokens, with their alternatives and for all choices, would have %" PRIu64
                    " log-probabilities: at most %d are given",
                    values, JSON_MAX_VALUES);
  return 0;
}

/* The tokens of all prompts. */
static int prepare_prompts(const struct preparer_options *options, struct preparation *preparation,
                           struct completion_request *request) {
  bool chat = request->endpoint != ENDPOINT_COMPLETIONS;
  size_t count = chat ? 1 : request->prompt_count;
  preparation->prompts = calloc(count, sizeof *preparation->prompts);
  if (!preparation->prompts) return api_fail_memory(&preparation->error);
  preparation->prompt_count = count;
  for (size_t i = 0; i < count; i++) {
    struct token_list *tokens = &preparation->prompts[i];
    if (chat ? prepare_chat_tokens(options, request, tokens, &preparation->error)
             : prepare_completion(options, request, &request->prompts[i], tokens, &preparation->error))
      return -1;
    if (check_context(options, preparation, i)) return -1;
  }
  return check_echo(preparation, request, &preparation->error);
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

static int parse(struct completion_request **request, const struct preparer_options *options,
                 struct preparation *preparation) {
  const char *body = buffer_text(&preparation->body);
  size_t length = preparation->body.length;
  if (preparation->endpoint == ENDPOINT_RESPONSES)
    return responses_request_parse(request, options->responses, body, length, options->config, &preparation->error);
  return completion_request_parse(request, preparation->endpoint, body, length, options->config, &preparation->error);
}

static int compile_constraint(const struct preparer_options *options, struct preparation *preparation,
                              struct completion_request *request) {
  struct constraint_setting setting = {.tools = request->tools,
                                       .tool_form = options->tool_form,
                                       .only_one_call = request->only_one_call,
                                       .thought = request->thought};
  if (request->constraint.kind == CONSTRAINT_NONE || request->only_echo) return 0;
  if (!options->constraints)
    return api_fail(&preparation->error, 400, "unsupported", request->constraint.path,
                    "'%s': answers cannot be constrained here", request->constraint.path);
  return constraint_compile(options->constraints, &request->constraint, &setting, &request->masks, &preparation->error);
}

void prepare(const struct preparer_options *options, struct preparation *preparation) {
  struct completion_request *request = NULL;
  if (parse(&request, options, preparation)) return;
  int failed = prepare_prompts(options, preparation, request);
  if (!failed) failed = compile_tools(options, preparation, request);
  if (!failed) failed = compile_constraint(options, preparation, request);
  if (!failed && !request->has_seed && getentropy(&request->sampling.seed, sizeof request->sampling.seed) != 0)
    failed = api_fail(&preparation->error, 500, "internal_error", NULL, "no random seed could be drawn");
  if (failed) {
    if (preparation->endpoint == ENDPOINT_RESPONSES) responses_error_rename(&preparation->error);
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
