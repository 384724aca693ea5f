#include "http/responses.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "http/json.h"
#include "http/response_store.h"
#include "http/responses_output.h"

/* In the answer's `state`. */
static struct responses_output *output_of(struct answer *answer, struct buffer *out) {
  struct responses_output *output = answer->state;
  if (!output && (output = calloc(1, sizeof *output))) {
    const json_t *mirror = answer->request->mirror;
    output->response_id = answer->id;
    output->tools = json_object_get(json_object_get(mirror, "response"), "tools");
    output->plain_reasoning = json_is_true(json_object_get(mirror, "plain_reasoning"));
    answer->state = output;
  }
  if (output)
    output->out = out;
  else
    out->failed = true;
  return output;
}

/* A float as it was written: 0.7, not 0.699999988. */
static json_t *number(float value) { return json_real(round((double)value * 1e6) / 1e6); }

static json_t *usage_json(const struct answer *answer) {
  struct answer_usage usage = answer_usage(answer);
  return json_pack("{s:I, s:{s:I, s:I}, s:I, s:{s:I}, s:I}", "input_tokens", (json_int_t)usage.prompt_tokens,
                   "input_tokens_details", "cached_tokens", (json_int_t)usage.cached_tokens, "cache_write_tokens",
                   (json_int_t)0, "output_tokens", (json_int_t)usage.completion_tokens, "output_tokens_details",
                   "reasoning_tokens", (json_int_t)usage.thought_tokens, "total_tokens",
                   (json_int_t)usage.prompt_tokens + (json_int_t)usage.completion_tokens);
}

/* The response object; `error` and `usage` are taken over and may be NULL. */
static json_t *response_json(struct answer *answer, const char *status, json_t *error, json_t *usage) {
  const struct responses_output *output = answer->state;
  const struct sampling *sampling = &answer->request->sampling;
  bool incomplete = strcmp(status, "incomplete") == 0, ended = strcmp(status, "in_progress") != 0;
  json_t *items = output && output->items ? json_incref(output->items) : json_array();
  json_t *response = json_pack("{s:s, s:s, s:I, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "id", answer->id,
                               "object", "response", "created_at", (json_int_t)answer->created, "status", status,
                               "completed_at", ended && !error ? json_integer((json_int_t)time(NULL)) : json_null(),
                               "error", error ? error : json_null(), "incomplete_details",
                               incomplete ? json_pack("{s:s}", "reason", "max_output_tokens") : json_null(), "model",
                               json_text(answer->model), "output", items, "usage", usage ? usage : json_null(),
                               "temperature", number(sampling->temperature), "top_p", number(sampling->top_p));
  const json_t *repeated = json_object_get(answer->request->mirror, "response");
  if (json_object_update_missing(response, (json_t *)repeated) == 0) return response;
  json_decref(response);
  return NULL;
}

static void tell(struct responses_output *output, const char *type, json_t *response) {
  responses_output_event(output, type, json_pack("{s:o}", "response", response));
}

static void open_stream(struct answer *answer, struct buffer *out) {
  struct responses_output *output = output_of(answer, out);
  if (!output) return;
  tell(output, "response.created", response_json(answer, "in_progress", NULL, NULL));
  tell(output, "response.in_progress", response_json(answer, "in_progress", NULL, NULL));
}

/* While a long prompt is computed, a real event: there are clients whose idle timeout sees no comments. Later a
 * comment, so that nobody takes the event for a new beginning. */
static void live(struct answer *answer, struct buffer *out) {
  struct responses_output *output = output_of(answer, out);
  if (!output) return;
  if (output->open == ITEM_NONE && !output->items)
    tell(output, "response.in_progress", response_json(answer, "in_progress", NULL, NULL));
  else
    buffer_append_text(out, ": still working\n\n");
}

static void read_parts(struct answer *answer, struct responses_output *output) {
  struct choice *choice = &answer->choices[0];
  responses_output_logprobs(output, logprobs_take(&choice->logprobs));
  size_t count = 0;
  const struct reply_part *parts = reply_parts(choice->reply, &count);
  for (size_t i = 0; i < count; i++) responses_output_part(output, &parts[i]);
}

static void progress(struct answer *answer, size_t choice, struct buffer *out) {
  (void)choice;
  struct responses_output *output = output_of(answer, out);
  if (output) read_parts(answer, output);
}

static void finish(struct answer *answer, size_t choice, struct buffer *out) {
  struct responses_output *output = output_of(answer, out);
  if (output) responses_output_finish(output, answer->choices[choice].end == END_LENGTH);
}

/* Remembers the response and the conversation with its output. */
static void keep(struct answer *answer, const json_t *response, const struct responses_output *output) {
  const json_t *mirror = answer->request->mirror;
  const json_t *conversation = json_object_get(mirror, "conversation");
  if (!answer->responses || !conversation) return;
  struct response_text text = {.input_count = (size_t)json_integer_value(json_object_get(mirror, "input_count"))};
  json_append(&text.response, json_incref((json_t *)response));
  /* Two arrays as one, without their brackets between. */
  size_t length = json_string_length(conversation);
  buffer_append(&text.items, json_string_value(conversation), length - 1);
  struct buffer items = {0};
  json_append(&items, json_incref(output->items));
  if (text.input_count) buffer_append_text(&text.items, ",");
  buffer_append(&text.items, buffer_text(&items) + 1, items.length ? items.length - 1 : 0);
  text.items.failed |= buffer_failed(&items);
  buffer_free(&items);
  response_store_put(answer->responses, answer->id, &text);
}

/* The whole response at its end, new, which is remembered before anybody can ask for it. */
static json_t *complete(struct answer *answer, const struct responses_output *output, const char *status) {
  json_t *response = output->failed ? NULL : response_json(answer, status, NULL, usage_json(answer));
  if (response) keep(answer, response, output);
  return response;
}

static const char *status_of(const struct answer *answer) {
  return answer->choices[0].end == END_LENGTH ? "incomplete" : "completed";
}

static void close_stream(struct answer *answer, struct buffer *out) {
  struct responses_output *output = output_of(answer, out);
  if (!output) return;
  const char *status = status_of(answer);
  tell(output, status[0] == 'i' ? "response.incomplete" : "response.completed", complete(answer, output, status));
}

/* Both events, as there are clients that look for one only. */
static void fail(struct answer *answer, const struct api_error *error, struct buffer *out) {
  struct responses_output *output = output_of(answer, out);
  if (!output) return;
  responses_output_event(output, "error",
                         json_pack("{s:s?, s:o, s:o}", "code", error->code, "message", json_text(error->message),
                                   "param", error->param[0] ? json_text(error->param) : json_null()));
  json_t *cause = json_pack("{s:s, s:o}", "code", "server_error", "message", json_text(error->message));
  tell(output, "response.failed", cause ? response_json(answer, "failed", cause, NULL) : NULL);
}

static void whole(struct answer *answer, struct buffer *out) {
  struct responses_output *output = output_of(answer, out);
  if (!output) return;
  output->out = NULL;
  read_parts(answer, output);
  responses_output_finish(output, answer->choices[0].end == END_LENGTH);
  if (!json_append(out, complete(answer, output, status_of(answer)))) out->failed = true;
}

static void release(struct answer *answer) {
  struct responses_output *output = answer->state;
  if (!output) return;
  responses_output_free(output);
  free(output);
  answer->state = NULL;
}

const struct answer_dialect responses_dialect = {
    .id_prefix = "resp_",
    .live = live,
    .open = open_stream,
    .progress = progress,
    .finish = finish,
    .close = close_stream,
    .fail = fail,
    .whole = whole,
    .release = release,
};
