#include "http/text_calls.h"

#include <stdlib.h>
#include <string.h>

#include "http/fields.h"
#include "http/json.h"
#include "text/detokenizer.h"
#include "text/utf8.h"

struct text_call {
  struct connection *connection;
  struct preparer *preparer;
  struct preparation *preparation;
};

/* Appends the ids of one piece of the content, which is text or an id itself. */
static int encode_piece(const struct tokenizer *tokenizer, const json_t *piece, bool special, struct token_list *tokens,
                        struct api_error *error) {
  struct kj_error cause;
  if (json_is_string(piece)) {
    if (tokenizer_encode(tokenizer, json_string_value(piece), json_string_length(piece), special, tokens, &cause) == 0)
      return 0;
    return api_fail_from(error, &cause);
  }
  if (!json_is_integer(piece) || json_integer_value(piece) < 0 ||
      json_integer_value(piece) >= tokenizer_size(tokenizer))
    return api_fail(error, 400, "invalid_type", "content",
                    "'content' must be a string or an array of strings and of token ids below %u",
                    tokenizer_size(tokenizer));
  return token_list_push(tokens, (uint32_t)json_integer_value(piece), NULL) ? api_fail_memory(error) : 0;
}

/* The bytes of a token as a string, or, where they are no whole characters, as an array of numbers. */
static json_t *piece_json(const struct tokenizer *tokenizer, uint32_t id) {
  size_t length = 0;
  const char *bytes = tokenizer_bytes(tokenizer, id, &length);
  if (utf8_valid(bytes, length, NULL)) return json_stringn(bytes, length);
  json_t *numbers = json_array();
  for (size_t i = 0; i < length; i++) json_array_append_new(numbers, json_integer((unsigned char)bytes[i]));
  return numbers;
}

/* Written without JSON values of all tokens at once: they would be many times the text. */
static void write_tokens(const struct tokenizer *tokenizer, const struct token_list *tokens, bool pieces,
                         struct buffer *answer) {
  buffer_append_text(answer, "{\"tokens\":[");
  for (size_t i = 0; i < tokens->count; i++) {
    if (i > 0) buffer_append_text(answer, ",");
    if (!pieces) {
      buffer_append_format(answer, "%u", tokens->ids[i]);
    } else {
      buffer_append_format(answer, "{\"id\":%u,\"piece\":", tokens->ids[i]);
      if (!json_append_value(answer, piece_json(tokenizer, tokens->ids[i]))) answer->failed = true;
      buffer_append_text(answer, "}");
    }
  }
  buffer_append_text(answer, "]}");
}

void text_tokenize(const struct preparer_options *options, struct preparation *preparation) {
  struct api_error *error = &preparation->error;
  json_t *object = json_decode(buffer_text(&preparation->body), preparation->body.length, error);
  if (!object) return;
  struct fields fields = {.object = object, .path = "", .error = error};
  struct token_list tokens = {0};
  bool special = true, pieces = false, add_special = false;
  field_boolean(&fields, "parse_special", &special);
  field_boolean(&fields, "with_pieces", &pieces);
  /* Tokenizers that add tokens of their own are refused when they are loaded. */
  field_boolean(&fields, "add_special", &add_special);
  int failed = fields.failed;
  const json_t *content = field_any(&fields, "content");
  if (!failed && !content) failed = api_fail(error, 400, "missing_field", "content", "'content' is required: the text");
  if (!failed && !json_is_array(content)) failed = encode_piece(options->tokenizer, content, special, &tokens, error);
  for (size_t i = 0; !failed && i < json_array_size(content); i++)
    failed = encode_piece(options->tokenizer, json_array_get(content, i), special, &tokens, error);
  if (!failed) write_tokens(options->tokenizer, &tokens, pieces, &preparation->answer);
  if (!failed && buffer_failed(&preparation->answer)) api_fail_memory(error);
  token_list_free(&tokens);
  json_decref(object);
}

/* Ends the answer's JSON with a text. */
static void write_text(struct preparation *preparation, const char *name, const struct buffer *text) {
  buffer_append_format(&preparation->answer, "{\"%s\":", name);
  if (buffer_failed(text) || !json_append_value(&preparation->answer, json_stringn(buffer_text(text), text->length)))
    preparation->answer.failed = true;
  buffer_append_text(&preparation->answer, "}");
  if (buffer_failed(&preparation->answer)) api_fail_memory(&preparation->error);
}

void text_detokenize(const struct preparer_options *options, struct preparation *preparation) {
  struct api_error *error = &preparation->error;
  json_t *object = json_decode(buffer_text(&preparation->body), preparation->body.length, error);
  if (!object) return;
  struct fields fields = {.object = object, .path = "", .error = error};
  struct buffer text = {0};
  struct token_list tokens = {0};
  uint32_t size = tokenizer_size(options->tokenizer);
  const json_t *ids = field_value(&fields, "tokens", JSON_ARRAY, "an array of token ids");
  int failed = fields.failed;
  if (!failed && !ids)
    failed = api_fail(error, 400, "missing_field", "tokens", "'tokens' is required: an array of token ids");
  for (size_t i = 0; !failed && i < json_array_size(ids); i++) {
    const json_t *id = json_array_get(ids, i);
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= size)
      failed = api_fail(error, 400, "invalid_value", "tokens", "'tokens[%zu]' must be a token id below %u", i, size);
    else if (token_list_push(&tokens, (uint32_t)json_integer_value(id), NULL))
      failed = api_fail_memory(error);
  }
  if (!failed) {
    detokenize(options->tokenizer, tokens.ids, tokens.count, &text);
    write_text(preparation, "content", &text);
  }
  token_list_free(&tokens);
  buffer_free(&text);
  json_decref(object);
}

void text_apply_template(const struct preparer_options *options, struct preparation *preparation) {
  struct completion_request *request = NULL;
  struct buffer prompt = {0};
  if (completion_request_parse(&request, ENDPOINT_CHAT, buffer_text(&preparation->body), preparation->body.length,
                               options->config, &preparation->error) == 0 &&
      prepare_chat_prompt(options, request, &prompt, &preparation->error) == 0)
    write_text(preparation, "prompt", &prompt);
  buffer_free(&prompt);
  completion_request_free(request);
}

static void client_left(void *owner) {
  struct text_call *call = owner;
  preparer_abandon(call->preparer, call->preparation);
  free(call);
}

void text_call_start(struct preparer *preparer, struct connection *connection, preparer_work *work,
                     struct buffer *body) {
  struct text_call *call = calloc(1, sizeof *call);
  struct preparation *preparation = calloc(1, sizeof *preparation);
  if (!call || !preparation) {
    free(call);
    free(preparation);
    struct api_error error;
    api_fail_memory(&error);
    connection_respond_error(connection, &error, NULL);
    return;
  }
  *preparation = (struct preparation){.work = work, .body = *body, .owner = call};
  *body = (struct buffer){0};
  *call = (struct text_call){connection, preparer, preparation};
  connection_set_owner(connection, client_left, call);
  preparer_submit(preparer, preparation);
}

void text_call_done(struct preparation *preparation) {
  struct text_call *call = preparation->owner;
  if (call) {
    struct connection *connection = call->connection;
    free(call);
    if (preparation->error.status)
      connection_respond_error(connection, &preparation->error, NULL);
    else
      connection_respond(connection, 200, "application/json", NULL, preparation->answer.data,
                         preparation->answer.length);
  }
  preparation_free(preparation);
}
