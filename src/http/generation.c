#include "http/generation.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "http/answer.h"
#include "http/random_id.h"
#include "text/detokenizer.h"

/* A choice's way through the engine. */
struct choice_run {
  struct generation *generation;
  size_t index;
  struct mailbox *mailbox; /* once submitted */
  uint64_t engine_id;
  struct detokenizer *detokenizer;
};

struct generation {
  struct generation_service *service;
  struct generation *previous, *next;
  struct connection *connection;
  double arrived; /* seconds */

  struct preparation *preparation;    /* while it is in work; the preparer's */
  struct completion_request *request; /* from then on */
  struct answer answer;
  struct choice_run *runs; /* [answer.choice_count] */
  size_t left;             /* choices that have not ended */
  struct event *silence;   /* streams: since the last byte */
};

static void free_choices(struct generation *generation) {
  for (size_t i = 0; i < generation->answer.choice_count; i++) {
    struct choice_run *run = &generation->runs[i];
    struct choice *choice = &generation->answer.choices[i];
    if (run->mailbox) mailbox_close(run->mailbox);
    detokenizer_free(run->detokenizer);
    logprobs_free(&choice->logprobs);
    reply_free(choice->reply);
  }
  free(generation->answer.choices);
  free(generation->runs);
}

static void free_generation(struct generation *generation) {
  struct generation_service *service = generation->service;
  if (generation->previous)
    generation->previous->next = generation->next;
  else
    service->first = generation->next;
  if (generation->next) generation->next->previous = generation->previous;
  if (generation->preparation) preparer_abandon(service->preparer, generation->preparation);
  if (generation->silence) event_free(generation->silence);
  if (generation->answer.dialect->release) generation->answer.dialect->release(&generation->answer);
  free_choices(generation);
  completion_request_free(generation->request);
  free(generation);
}

/* The engine need not go on with it. Its last event then finds a closed mailbox. */
static void cancel_run(struct choice_run *run) {
  if (run->mailbox) engine_cancel(run->generation->service->engine, run->engine_id);
}

static void cancel(struct generation *generation) {
  for (size_t i = 0; i < generation->answer.choice_count; i++)
    if (generation->answer.choices[i].end == END_NONE) cancel_run(&generation->runs[i]);
}

static void client_left(void *owner) {
  struct generation *generation = owner;
  generation->service->metrics->clients_left++;
  cancel(generation);
  free_generation(generation);
}

/* The reader of a stream is too far behind, or memory ran out in the middle of one. */
static void drop(struct generation *generation) {
  struct connection *connection = generation->connection;
  client_left(generation);
  connection_abort(connection);
}

static void arm_silence(struct generation *generation) {
  double interval = generation->service->comment_interval;
  struct timeval time = {.tv_sec = (time_t)interval,
                         .tv_usec = (suseconds_t)((interval - (double)(time_t)interval) * 1e6)};
  evtimer_add(generation->silence, &time);
}

/* Writes what the dialect said, and releases it. False if the generation is gone. */
static bool send_events(struct generation *generation, struct buffer *events) {
  bool any = events->length > 0;
  bool written =
      !buffer_failed(events) && (!any || connection_write(generation->connection, events->data, events->length));
  buffer_free(events);
  if (!written)
    drop(generation);
  else if (any)
    arm_silence(generation);
  return written;
}

static void on_silence(evutil_socket_t descriptor, short what, void *context) {
  (void)descriptor, (void)what;
  struct generation *generation = context;
  struct buffer events = {0};
  const struct answer_dialect *dialect = generation->answer.dialect;
  if (dialect->live)
    dialect->live(&generation->answer, &events);
  else
    buffer_append_text(&events, dialect->sign_of_life);
  send_events(generation, &events);
}

/* Ends the generation with an error, whatever has been sent. */
static void fail(struct generation *generation, const struct api_error *error) {
  struct connection *connection = generation->connection;
  bool streaming = generation->silence != NULL;
  cancel(generation);
  if (streaming) {
    struct buffer events = {0};
    generation->answer.dialect->fail(&generation->answer, error, &events);
    if (!send_events(generation, &events)) return;
  }
  free_generation(generation);
  if (streaming)
    connection_end_stream(connection, true);
  else
    connection_respond_error(connection, error, NULL);
}

static void fail_memory(struct generation *generation) {
  struct api_error error;
  api_fail_memory(&error);
  fail(generation, &error);
}

void generation_start(struct generation_service *service, struct connection *connection,
                      enum completion_endpoint endpoint, struct buffer *body) {
  struct generation *generation = calloc(1, sizeof *generation);
  struct preparation *preparation = calloc(1, sizeof *preparation);
  const struct answer_dialect *dialect = answer_dialect(endpoint);
  if (!generation || !preparation ||
      random_id(generation->answer.id, sizeof generation->answer.id, dialect->id_prefix)) {
    free(generation);
    free(preparation);
    struct api_error error;
    api_fail_memory(&error);
    connection_respond_error(connection, &error, NULL);
    return;
  }
  generation->answer.dialect = dialect;
  generation->answer.created = (int64_t)time(NULL);
  generation->answer.model = model_names_at(service->names, 0);
  generation->answer.fingerprint = service->fingerprint;
  generation->answer.responses = service->responses;
  generation->service = service;
  generation->connection = connection;
  generation->arrived = clock_seconds();
  generation->next = service->first;
  if (service->first) service->first->previous = generation;
  service->first = generation;
  preparation->endpoint = endpoint;
  preparation->body = *body;
  *body = (struct buffer){0};
  preparation->owner = generation;
  generation->preparation = preparation;
  connection_set_owner(connection, client_left, generation);
  preparer_submit(service->preparer, preparation);
}

static int retry_after(struct engine *engine) {
  uint32_t seconds = engine_retry_after(engine);
  if (seconds == 0) return 1;
  return seconds > INT32_MAX ? INT32_MAX : (int)seconds;
}

/* Choices of one prompt must differ, and be the same ones whenever the request comes again. */
static uint64_t choice_seed(uint64_t seed, size_t choice) { return seed + choice * 0x9e3779b97f4a7c15u; }

static int submit(struct choice_run *run, const struct token_list *tokens, struct api_error *error) {
  struct generation *generation = run->generation;
  struct generation_service *service = generation->service;
  struct completion_request *request = generation->request;
  struct kj_error cause;
  struct mailbox *mailbox = mailbox_create(service->mailboxes, run);
  if (!mailbox) return api_fail_memory(error);
  struct request engine_request = {.tokens = tokens->ids,
                                   .token_count = tokens->count,
                                   .max_tokens = request->only_echo ? 1 : request->max_tokens,
                                   .ignore_eos = request->ignore_eos,
                                   .ignore_cache = request->ignore_cache,
                                   .score_prompt = request->echo && request->sampling.top_logprobs >= 0,
                                   .sampling = request->sampling,
                                   .on_event = mailbox_on_event,
                                   .context = mailbox};
  if (request->masks && constraint_create(&engine_request.constraint, request->masks, &cause)) {
    mailbox_not_submitted(mailbox);
    mailbox_close(mailbox);
    return api_fail_from(error, &cause);
  }
  engine_request.sampling.seed = choice_seed(request->sampling.seed, run->index % request->choices);
  if (engine_submit(service->engine, &engine_request, &run->engine_id, &cause)) {
    token_constraint_release(engine_request.constraint);
    mailbox_not_submitted(mailbox);
    mailbox_close(mailbox);
    api_fail_from(error, &cause);
    /* The one thing that an engine does not support about a valid request is its length. */
    if (cause.code == KJ_UNSUPPORTED) error->code = "context_length_exceeded";
    if (cause.code == KJ_BUSY) error->retry_after = retry_after(service->engine);
    return -1;
  }
  run->mailbox = mailbox;
  return 0;
}

/* Everything that a choice is made with, before the engine has it. */
static int create_choice(struct generation *generation, size_t index, const struct token_list *tokens,
                         struct api_error *error) {
  const struct completion_request *request = generation->request;
  const struct tokenizer *tokenizer = generation->service->tokenizer;
  struct choice *choice = &generation->answer.choices[index];
  struct choice_run *run = &generation->runs[index];
  struct kj_error cause;
  *run = (struct choice_run){.generation = generation, .index = index};
  *choice = (struct choice){.prompt = index / request->choices,
                            .logprobs = {.endpoint = request->endpoint, .tokenizer = tokenizer},
                            .usage = {.prompt_tokens = (uint32_t)tokens->count}};
  generation->answer.choice_count = index + 1;
  if (reply_create(&choice->reply, request)) return api_fail_memory(error);
  if (detokenizer_create(&run->detokenizer, tokenizer, (const char *const *)request->stops, request->stop_count,
                         &cause))
    return api_fail_from(error, &cause);
  if (!request->echo) return 0;
  const struct request_prompt *prompt = &request->prompts[choice->prompt];
  reply_put(choice->reply, prompt->text, prompt->length);
  if (request->sampling.top_logprobs >= 0) logprobs_first(&choice->logprobs, tokens->ids[0]);
  return 0;
}

static int create_choices(struct generation *generation, const struct preparation *preparation,
                          struct api_error *error) {
  size_t each = generation->request->choices, count = preparation->prompt_count * each;
  uint32_t capacity = engine_capacity(generation->service->engine);
  /* Told to come back later, the client would come back for ever. */
  if (count > capacity)
    return api_fail(error, 400, "invalid_value", "n",
                    "the request asks for %zu choices: at most %u can run and wait here (--parallel, --queue)", count,
                    capacity);
  generation->answer.choices = calloc(count, sizeof *generation->answer.choices);
  generation->runs = calloc(count, sizeof *generation->runs);
  if (!generation->answer.choices || !generation->runs) return api_fail_memory(error);
  for (size_t i = 0; i < count; i++)
    if (create_choice(generation, i, &preparation->prompts[i / each], error)) return -1;
  for (size_t i = 0; i < count; i++)
    if (submit(&generation->runs[i], &preparation->prompts[i / each], error)) return -1;
  generation->left = count;
  return 0;
}

/* The response's head and first events. */
static void begin_stream(struct generation *generation) {
  generation->silence = evtimer_new(generation->service->base, on_silence, generation);
  if (!generation->silence) {
    fail_memory(generation);
    return;
  }
  struct answer *answer = &generation->answer;
  struct buffer events = {0};
  connection_begin_stream(generation->connection, "text/event-stream; charset=utf-8");
  arm_silence(generation);
  answer->dialect->open(answer, &events);
  for (size_t i = 0; generation->request->echo && i < answer->choice_count; i++) {
    answer->dialect->progress(answer, i, &events);
    reply_clear(answer->choices[i].reply);
  }
  send_events(generation, &events);
}

/* A client that asks for an alias gets the answer in that name. */
static void name_model(struct generation *generation) {
  const char *asked = generation->request->model;
  const char *name = asked ? model_names_find(generation->service->names, asked) : NULL;
  if (name) generation->answer.model = name;
}

void generation_prepared(struct preparation *preparation) {
  struct generation *generation = preparation->owner;
  if (!generation) {
    preparation_free(preparation);
    return;
  }
  generation->preparation = NULL;
  /* What an answer repeats of its request counts as a body as long as it is held. */
  if (!preparation->request || !preparation->request->mirror) connection_release_body(generation->connection);
  struct api_error error = preparation->error;
  int failed = preparation->request == NULL;
  if (!failed) {
    generation->request = preparation->request;
    generation->answer.request = preparation->request;
    preparation->request = NULL;
    name_model(generation);
    failed = create_choices(generation, preparation, &error);
  }
  preparation_free(preparation);
  if (failed)
    fail(generation, &error);
  else if (generation->request->stream)
    begin_stream(generation);
}

/* The text is over for this reason. */
static void end_choice(struct choice_run *run, enum answer_end end, bool cut) {
  struct choice *choice = &run->generation->answer.choices[run->index];
  reply_finish(choice->reply, cut);
  choice->end = end;
  if (end == END_STOP_STRING) choice->stop = detokenizer_stop(run->detokenizer, &choice->stop_length);
  run->generation->left--;
}

/* Takes one event into the choice, which may end with it. */
static void consume(struct choice_run *run, const struct mailbox_event *event) {
  struct generation *generation = run->generation;
  struct choice *choice = &generation->answer.choices[run->index];
  struct buffer *text = reply_text(choice->reply);
  if (event->has_token && choice->usage.completion_tokens == 0)
    histogram_observe(&generation->service->metrics->first_token, clock_seconds() - generation->arrived);
  choice->usage.completion_tokens = event->completion_tokens;
  choice->usage.cached_tokens = event->cached_tokens;
  choice->usage.drafted_tokens = event->drafted_tokens;
  choice->usage.draft_accepted = event->draft_accepted;
  if (event->has_score) logprobs_echo(&choice->logprobs, &event->sampled);
  if (event->has_token && generation->request->only_echo) {
    choice->usage.completion_tokens = 0;
    end_choice(run, END_LENGTH, true);
    return;
  }
  if (event->has_token && event->finish != FINISH_EOS) {
    if (generation->request->sampling.top_logprobs >= 0) logprobs_add(&choice->logprobs, &event->sampled);
    bool stopped = detokenizer_push(run->detokenizer, event->sampled.token, text);
    bool complete = reply_read(choice->reply);
    if (reply_thinks(choice->reply)) choice->usage.thought_tokens++;
    if (complete || stopped) {
      if (event->finish == FINISH_NONE) cancel_run(run);
      end_choice(run, stopped ? END_STOP_STRING : END_TURN, true);
      return;
    }
  }
  if (event->finish == FINISH_EOS || event->finish == FINISH_LENGTH) {
    bool cut = event->finish == FINISH_LENGTH;
    detokenizer_finish_cut(run->detokenizer, text);
    end_choice(run, cut ? END_LENGTH : END_TURN, cut);
  }
}

static void complete_response(struct generation *generation) {
  struct connection *connection = generation->connection;
  struct buffer body = {0};
  generation->answer.dialect->whole(&generation->answer, &body);
  if (buffer_failed(&body)) {
    buffer_free(&body);
    fail_memory(generation);
    return;
  }
  free_generation(generation);
  connection_respond(connection, 200, "application/json", NULL, body.data, body.length);
  buffer_free(&body);
}

/* Streams what has come of a choice, and its end. False if the generation is gone. */
static bool stream(struct generation *generation, size_t index) {
  struct answer *answer = &generation->answer;
  const struct choice *choice = &answer->choices[index];
  struct buffer events = {0};
  answer->dialect->progress(answer, index, &events);
  reply_clear(choice->reply);
  if (choice->end != END_NONE) answer->dialect->finish(answer, index, &events);
  if (generation->left == 0) answer->dialect->close(answer, &events);
  return send_events(generation, &events);
}

static void complete(struct generation *generation) {
  struct connection *connection = generation->connection;
  if (!generation->request->stream) {
    complete_response(generation);
    return;
  }
  free_generation(generation);
  connection_end_stream(connection, false);
}

void generation_deliver(struct choice_run *run) {
  struct generation *generation = run->generation;
  struct choice *choice = &generation->answer.choices[run->index];
  size_t count = 0;
  struct kj_error cause;
  const struct mailbox_event *events = mailbox_take(run->mailbox, &count, &cause);
  if (choice->end != END_NONE) return; /* what the engine said before it knew */
  for (size_t i = 0; i < count && choice->end == END_NONE; i++) consume(run, &events[i]);
  enum finish finish = count > 0 && choice->end == END_NONE ? events[count - 1].finish : FINISH_NONE;
  if (reply_failed(choice->reply)) {
    fail_memory(generation);
    return;
  }
  if (generation->request->stream && !stream(generation, run->index)) return;
  if (finish == FINISH_ERROR || finish == FINISH_CANCELLED) {
    struct api_error error;
    if (finish == FINISH_CANCELLED) kj_fail(&cause, KJ_CANCELLED, "the server is stopping");
    api_fail_from(&error, &cause);
    fail(generation, &error);
  } else if (generation->left == 0) {
    complete(generation);
  }
}

void generations_stop(struct generation_service *service) {
  struct api_error error;
  api_fail(&error, 503, "stopping", NULL, "the server is stopping");
  while (service->first) fail(service->first, &error);
}
