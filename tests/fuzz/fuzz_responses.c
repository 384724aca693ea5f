/* A request of /v1/responses, behind a NUL what the model says to it, behind another the query about its input items.
 */
// links: http_server
#include <stdlib.h>
#include <string.h>

#include "http/answer.h"
#include "http/json.h"
#include "http/responses.h"
#include "http/responses_calls.h"
#include "http/responses_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char KEPT[] = "resp_000000000000000000000000", NEW[] = "resp_111111111111111111111111";

static void check(bool holds) {
  if (!holds) abort();
}

static struct response_store *store_with_one(void) {
  struct response_store *store = response_store_create(2, 1 << 20);
  struct response_text text = {.input_count = 1};
  buffer_append_text(&text.response, "{}");
  buffer_append_text(
      &text.items,
      "[{\"role\":\"user\",\"content\":\"q\"},{\"type\":\"message\",\"id\":\"msg_00000000000000000000000000\","
      "\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"a\"}]}]");
  response_store_put(store, KEPT, &text);
  return store;
}

static void check_messages(const struct completion_request *request) {
  check(json_array_size(request->messages) > 0 && json_object_get(request->mirror, "response"));
  for (size_t i = 0; i < json_array_size(request->messages); i++)
    check(json_is_string(json_object_get(json_array_get(request->messages, i), "content")));
}

/* The output of the answer, from a stream in small pieces or whole. */
static json_t *output(struct completion_request *request, struct response_store *store, const char *text, size_t length,
                      bool streamed) {
  struct choice choice = {.end = length % 3 ? END_TURN : END_LENGTH, .logprobs = {.endpoint = ENDPOINT_RESPONSES}};
  struct answer answer = {.dialect = &responses_dialect,
                          .request = request,
                          .model = "m",
                          .responses = store,
                          .choices = &choice,
                          .choice_count = 1};
  struct buffer out = {0};
  memcpy(answer.id, NEW, sizeof NEW);
  check(reply_create(&choice.reply, request) == 0);
  if (streamed) responses_dialect.open(&answer, &out);
  for (size_t at = 0; at < length; at++) {
    buffer_append(reply_text(choice.reply), text + at, 1);
    reply_read(choice.reply);
    if (!streamed) continue;
    responses_dialect.progress(&answer, 0, &out);
    reply_clear(choice.reply);
  }
  reply_finish(choice.reply, choice.end == END_LENGTH);
  if (streamed) {
    responses_dialect.progress(&answer, 0, &out);
    responses_dialect.finish(&answer, 0, &out);
    responses_dialect.close(&answer, &out);
  } else {
    responses_dialect.whole(&answer, &out);
  }
  check(!buffer_failed(&out));
  const char *last = buffer_text(&out);
  for (const char *next = last; streamed && (next = strstr(next, "\ndata: ")); next++) last = next + 7;
  json_t *told = json_loadb(last, strlen(last), 0, NULL);
  check(told != NULL);
  const json_t *response = streamed ? json_object_get(told, "response") : told;
  json_t *items = json_deep_copy(json_object_get(response, "output"));
  check(json_array_size(items) > 0);
  json_decref(told);
  responses_dialect.release(&answer);
  reply_free(choice.reply);
  buffer_free(&out);
  return items;
}

static void check_output(struct completion_request *request, struct response_store *store, const char *text,
                         size_t length) {
  json_t *whole = output(request, store, text, length, false), *streamed = output(request, store, text, length, true);
  size_t i = 0;
  json_t *item = NULL;
  json_array_foreach(whole, i, item) json_object_del(item, "call_id");
  json_array_foreach(streamed, i, item) json_object_del(item, "call_id");
  check(json_equal(whole, streamed));
  json_decref(whole);
  json_decref(streamed);
}

static void check_listing(struct response_store *store, const char *query) {
  struct preparer_options options = {.responses = store};
  struct preparation preparation = {0};
  buffer_append_format(&preparation.body, "%s?%s", NEW, query);
  responses_list_input(&options, &preparation);
  if (preparation.error.status) {
    check(preparation.error.status == 400 || preparation.error.status == 404);
  } else {
    json_t *list = json_loadb(buffer_text(&preparation.answer), preparation.answer.length, 0, NULL);
    check(json_is_array(json_object_get(list, "data")));
    json_decref(list);
  }
  buffer_free(&preparation.body);
  buffer_free(&preparation.answer);
}

/* A detokenizer gives whole characters; these are. */
static bool is_ascii(const char *text) {
  while (*text && (unsigned char)*text < 0x80) text++;
  return !*text;
}

/* What stands before the next NUL; moves on behind it. */
static const char *next_field(const char **at, const char *end) {
  const char *field = *at;
  size_t length = strnlen(field, (size_t)(end - field));
  *at = field + length < end ? field + length + 1 : end;
  return field;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct config config = {
      .vocabulary = 1000, .generation = {.sample = true, .temperature = 1, .top_p = 1, .repetition_penalty = 1}};
  char *text = calloc(1, size + 1);
  if (size) memcpy(text, data, size);
  const char *at = text, *end = text + size;
  const char *body = next_field(&at, end), *said = next_field(&at, end), *query = next_field(&at, end);
  struct completion_request *request = NULL;
  struct api_error error = {0};
  struct response_store *store = store_with_one();
  if (responses_request_parse(&request, store, body, strlen(body), &config, &error) == 0) {
    check_messages(request);
    if (request->tools) {
      request->tool_form = TOOL_FORM_XML;
      check(tool_schemas_compile(&request->tool_schemas, request->tools, NULL) == 0);
    }
    request->thought = strlen(body) % 2 ? THOUGHT_MAY_BE : THOUGHT_NONE;
    if (is_ascii(said)) check_output(request, store, said, strlen(said));
    check_listing(store, query);
    completion_request_free(request);
  } else {
    check(!request && error.status == 400 && error.message[0]);
    json_t *answer = api_error_json(&error);
    check(answer != NULL);
    json_decref(answer);
  }
  response_store_free(store);
  free(text);
  return 0;
}
