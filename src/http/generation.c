#include "http/generation.h"

#include <stdlib.h>

#include "base/clock.h"
#include "http/json.h"
#include "http/logprobs.h"
#include "http/openai.h"
#include "http/reply.h"
#include "text/detokenizer.h"

struct generation {
  struct generation_service *service;
  struct generation *previous, *next;
  struct connection *connection;
  struct completion_identity identity;
  double arrived; /* seconds */

  struct preparation *preparation;    /* while it is in work; the preparer's */
  struct completion_request *request; /* from then on */
  struct completion_usage usage;      /* so far */

  struct mailbox *mailbox; /* once submitted */
  uint64_t engine_id;
  struct detokenizer *detokenizer;
  struct logprobs logprobs;
  struct reply reply;    /* what is released and not yet sent */
  struct event *silence; /* streams: since the last byte */
};

static void free_generation(struct generation *generation) {
  struct generation_service *service = generation->service;
  if (generation->previous)
    generation->previous->next = generation->next;
  else
    service->first = generation->next;
  if (generation->next) generation->next->previous = generation->previous;
  if (generation->preparation) preparer_abandon(service->preparer, generation->preparation);
  if (generation->mailbox) mailbox_close(generation->mailbox);
  if (generation->silence) event_free(generation->silence);
  completion_request_free(generation->request);
  detokenizer_free(generation->detokenizer);
  logprobs_free(&generation->logprobs);
  reply_free(&generation->reply);
  free(generation);
}

/* The engine need not go on. Its last event then finds a closed mailbox. */
static void cancel(struct generation *generation) {
  if (generation->mailbox) engine_cancel(generation->service->engine, generation->engine_id);
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

/* Writes one server-sent event. False if the generation is gone. */
static bool send_event(struct generation *generation, json_t *value) {
  struct buffer event = {0};
  buffer_append_text(&event, "data: ");
  bool written = json_append(&event, value);
  buffer_append_text(&event, "\n\n");
  written = written && !buffer_failed(&event) && connection_write(generation->connection, event.data, event.length);
  buffer_free(&event);
  if (!written) {
    drop(generation);
    return false;
  }
  arm_silence(generation);
  return true;
}

static void on_silence(evutil_socket_t descriptor, short what, void *context) {
  (void)descriptor, (void)what;
  static const char comment[] = ": still working\n\n";
  struct generation *generation = context;
  if (connection_write(generation->connection, comment, sizeof comment - 1))
    arm_silence(generation);
  else
    drop(generation);
}

/* Ends the generation with an error, whatever has been sent. */
static void fail(struct generation *generation, const struct api_error *error) {
  struct connection *connection = generation->connection;
  bool streaming = generation->silence != NULL;
  cancel(generation);
  if (streaming && !send_event(generation, api_error_json(error))) return;
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
  if (!generation || !preparation ||
      completion_identify(&generation->identity, endpoint, model_names_at(service->names, 0))) {
    free(generation);
    free(preparation);
    struct api_error error;
    api_fail_memory(&error);
    connection_respond_error(connection, &error, NULL);
    return;
  }
  generation->identity.fingerprint = service->fingerprint;
  generation->service = service;
  generation->connection = connection;
  generation->arrived = clock_seconds();
  generation->logprobs = (struct logprobs){.endpoint = endpoint, .tokenizer = service->tokenizer};
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

static int submit(struct generation *generation, const struct token_list *tokens, struct api_error *error) {
  struct generation_service *service = generation->service;
  struct completion_request *request = generation->request;
  struct kj_error cause;
  struct mailbox *mailbox = mailbox_create(service->mailboxes, generation);
  if (!mailbox) return api_fail_memory(error);
  struct request engine_request = {.tokens = tokens->ids,
                                   .token_count = tokens->count,
                                   .max_tokens = request->max_tokens,
                                   .ignore_eos = request->ignore_eos,
                                   .ignore_cache = request->ignore_cache,
                                   .sampling = request->sampling,
                                   .on_event = mailbox_on_event,
                                   .context = mailbox};
  if (engine_submit(service->engine, &engine_request, &generation->engine_id, &cause)) {
    mailbox_not_submitted(mailbox);
    mailbox_close(mailbox);
    api_fail_from(error, &cause);
    /* The one thing that an engine does not support about a valid request is its length. */
    if (cause.code == KJ_UNSUPPORTED) error->code = "context_length_exceeded";
    if (cause.code == KJ_BUSY) error->retry_after = retry_after(service->engine);
    return -1;
  }
  generation->mailbox = mailbox;
  return 0;
}

/* The response's head and the chunk that names the role: clients with an idle timeout see a sign of life before a long
 * prefill. */
static void begin_stream(struct generation *generation) {
  generation->silence = evtimer_new(generation->service->base, on_silence, generation);
  if (!generation->silence) {
    fail_memory(generation);
    return;
  }
  connection_begin_stream(generation->connection, "text/event-stream; charset=utf-8");
  arm_silence(generation);
  if (generation->identity.endpoint == ENDPOINT_CHAT)
    send_event(generation,
               openai_chunk(&generation->identity, true, "", 0, json_null(), NULL, generation->request->include_usage));
}

/* A client that asks for an alias gets the answer in that name. */
static void name_model(struct generation *generation) {
  const char *asked = generation->request->model;
  const char *name = asked ? model_names_find(generation->service->names, asked) : NULL;
  if (name) generation->identity.model = name;
}

void generation_prepared(struct preparation *preparation) {
  struct generation *generation = preparation->owner;
  if (!generation) {
    preparation_free(preparation);
    return;
  }
  generation->preparation = NULL;
  connection_release_body(generation->connection);
  struct api_error error = preparation->error;
  int failed = preparation->request == NULL;
  if (!failed) {
    generation->request = preparation->request;
    preparation->request = NULL;
    name_model(generation);
    generation->usage.prompt_tokens = (uint32_t)preparation->tokens.count;
    struct kj_error cause;
    if (detokenizer_create(&generation->detokenizer, generation->service->tokenizer,
                           (const char *const *)generation->request->stops, generation->request->stop_count, &cause))
      failed = api_fail_from(&error, &cause);
    else if (reply_begin(&generation->reply, generation->request))
      failed = api_fail_memory(&error);
  }
  if (!failed) failed = submit(generation, &preparation->tokens, &error);
  preparation_free(preparation);
  if (failed)
    fail(generation, &error);
  else if (generation->request->stream)
    begin_stream(generation);
}

static void take_usage(struct completion_usage *usage, const struct mailbox_event *event) {
  usage->completion_tokens = event->completion_tokens;
  usage->cached_tokens = event->cached_tokens;
  usage->drafted_tokens = event->drafted_tokens;
  usage->draft_accepted = event->draft_accepted;
}

/* What the events come to; NULL while there is more to come. */
static const char *consume(struct generation *generation, const struct mailbox_event *events, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const struct mailbox_event *event = &events[i];
    bool has_text = event->has_token && event->finish != FINISH_EOS;
    if (event->has_token && generation->usage.completion_tokens == 0)
      histogram_observe(&generation->service->metrics->first_token, clock_seconds() - generation->arrived);
    take_usage(&generation->usage, event);
    if (has_text) {
      if (generation->request->sampling.top_logprobs >= 0) logprobs_add(&generation->logprobs, &event->sampled);
      bool stopped = detokenizer_push(generation->detokenizer, event->sampled.token, &generation->reply.text);
      if (reply_read(&generation->reply) || stopped) {
        if (event->finish == FINISH_NONE) cancel(generation);
        reply_finish(&generation->reply, true);
        return reply_reason(&generation->reply, "stop");
      }
    }
    if (event->finish == FINISH_EOS || event->finish == FINISH_LENGTH) {
      bool cut = event->finish == FINISH_LENGTH;
      detokenizer_finish_cut(generation->detokenizer, &generation->reply.text);
      reply_finish(&generation->reply, cut);
      return reply_reason(&generation->reply, cut ? "length" : "stop");
    }
  }
  return NULL;
}

/* The last chunks of a stream. */
static void complete_stream(struct generation *generation, const char *reason) {
  static const char done[] = "data: [DONE]\n\n";
  struct connection *connection = generation->connection;
  bool usage = generation->request->include_usage;
  if (!send_event(generation, openai_chunk(&generation->identity, false, NULL, 0, json_null(), reason, usage))) return;
  if (usage && !send_event(generation, openai_usage_chunk(&generation->identity, &generation->usage))) return;
  if (!connection_write(connection, done, sizeof done - 1)) {
    drop(generation);
    return;
  }
  free_generation(generation);
  connection_end_stream(connection, false);
}

static void complete_response(struct generation *generation, const char *reason) {
  struct connection *connection = generation->connection;
  const struct buffer *content = &generation->reply.content;
  struct buffer body = {0};
  if (!json_append(&body, openai_response(&generation->identity, buffer_text(content), content->length,
                                          reply_take_calls(&generation->reply), logprobs_take(&generation->logprobs),
                                          reason, &generation->usage))) {
    buffer_free(&body);
    fail_memory(generation);
    return;
  }
  free_generation(generation);
  connection_respond(connection, 200, "application/json", NULL, body.data, body.length);
  buffer_free(&body);
}

/* Sends the text and log-probabilities that have come together. False if the generation is gone. */
static bool flush_text(struct generation *generation) {
  struct buffer *content = &generation->reply.content;
  if (content->length == 0 && !generation->logprobs.value) return true;
  json_t *chunk = openai_chunk(&generation->identity, false, buffer_text(content), content->length,
                               logprobs_take(&generation->logprobs), NULL, generation->request->include_usage);
  buffer_clear(content);
  return send_event(generation, chunk);
}

/* Then the parts of tool calls, each in a chunk of its own: there are clients that look at the first of a chunk only.
 */
static bool flush_stream(struct generation *generation) {
  if (!flush_text(generation)) return false;
  json_t *parts = reply_take_calls(&generation->reply);
  bool sent = true;
  for (size_t i = 0; sent && i < json_array_size(parts); i++)
    sent = send_event(generation, openai_call_chunk(&generation->identity, json_incref(json_array_get(parts, i)),
                                                    generation->request->include_usage));
  json_decref(parts);
  return sent;
}

void generation_deliver(struct generation *generation) {
  size_t count = 0;
  struct kj_error cause;
  const struct mailbox_event *events = mailbox_take(generation->mailbox, &count, &cause);
  const char *reason = consume(generation, events, count);
  enum finish finish = !reason && count > 0 ? events[count - 1].finish : FINISH_NONE;
  if (reply_failed(&generation->reply)) {
    fail_memory(generation);
    return;
  }
  if (generation->request->stream && !flush_stream(generation)) return;
  if (finish == FINISH_ERROR || finish == FINISH_CANCELLED) {
    struct api_error error;
    if (finish == FINISH_CANCELLED) kj_fail(&cause, KJ_CANCELLED, "the server is stopping");
    api_fail_from(&error, &cause);
    fail(generation, &error);
  } else if (reason && generation->request->stream) {
    complete_stream(generation, reason);
  } else if (reason) {
    complete_response(generation, reason);
  }
}

void generations_stop(struct generation_service *service) {
  struct api_error error;
  api_fail(&error, 503, "stopping", NULL, "the server is stopping");
  while (service->first) fail(service->first, &error);
}
