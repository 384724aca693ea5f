#include "http/responses_output.h"

#include <stdlib.h>
#include <string.h>

#include "http/answer.h"
#include "http/responses_history.h"
#include "http/responses_items.h"
#include "http/responses_tools.h"

void responses_output_event(struct responses_output *output, const char *type, json_t *members) {
  if (!output->out) {
    json_decref(members);
    return;
  }
  json_t *event = json_pack("{s:s, s:I}", "type", type, "sequence_number", (json_int_t)output->sequence++);
  if (!members || json_object_update(event, members) != 0) {
    json_decref(event);
    event = NULL;
  }
  json_decref(members);
  answer_event(output->out, type, event);
}

static json_int_t output_index(const struct responses_output *output) {
  return (json_int_t)json_array_size(output->items);
}

/* An event about the open item, with one more member, which is taken over. */
static void item_event(struct responses_output *output, const char *type, const char *name, json_t *value) {
  responses_output_event(
      output, type,
      json_pack("{s:s, s:I, s:o}", "item_id", output->item_id, "output_index", output_index(output), name, value));
}

/* The same about its first and only content part. */
static void content_event(struct responses_output *output, const char *type, const char *name, json_t *value,
                          json_t *logprobs) {
  responses_output_event(output, type,
                         json_pack("{s:s, s:I, s:i, s:o, s:o*}", "item_id", output->item_id, "output_index",
                                   output_index(output), "content_index", 0, name, value, "logprobs", logprobs));
}

static json_t *text_json(struct responses_output *output) {
  return buffer_failed(&output->text) ? NULL : json_stringn(buffer_text(&output->text), output->text.length);
}

/* A copy of the log-probabilities from the given one on. */
static json_t *logprobs_from(const struct responses_output *output, size_t first) {
  json_t *copy = json_array();
  for (size_t i = first; i < json_array_size(output->logprobs); i++)
    json_array_append(copy, json_array_get(output->logprobs, i));
  return copy;
}

/* Those that belong to the open message. */
static json_t *message_logprobs(const struct responses_output *output, size_t first) {
  return output->message ? json_array() : logprobs_from(output, first);
}

/* The text of the open item as its content part; `text` is taken over. */
static json_t *content_part(const struct responses_output *output, json_t *text, json_t *logprobs) {
  if (output->open == ITEM_REASONING) {
    json_decref(logprobs);
    return json_pack("{s:s, s:o}", "type", "reasoning_text", "text", text);
  }
  return json_pack("{s:s, s:[], s:o, s:o}", "type", "output_text", "annotations", "logprobs", logprobs, "text", text);
}

/* What a custom tool gets, of the arguments of the function that stands for it; arguments that were cut, as they are.
 */
static json_t *custom_input(struct responses_output *output) {
  json_t *arguments = json_loadb(buffer_text(&output->text), output->text.length, 0, NULL);
  json_t *input = json_object_get(arguments, RESPONSES_CUSTOM_INPUT);
  input = json_is_string(input) ? json_incref(input) : text_json(output);
  json_decref(arguments);
  return input;
}

/* The open item as it is now. `part`, taken over, is its content, or its arguments or input; NULL: none yet. */
static json_t *item_json(const struct responses_output *output, const char *status, json_t *part) {
  switch (output->open) {
    case ITEM_REASONING: {
      json_t *item = json_pack("{s:s, s:s, s:[], s:s, s:o}", "id", output->item_id, "type", "reasoning", "summary",
                               "status", status, "content", part ? json_pack("[o]", part) : json_array());
      if (output->plain_reasoning && item)
        json_object_set_new(item, "encrypted_content",
                            json_sprintf("%s%s", RESPONSES_PLAIN_REASONING, buffer_text(&output->text)));
      return item;
    }
    case ITEM_MESSAGE:
      return json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", output->item_id, "type", "message", "status", status, "role",
                       "assistant", "content", part ? json_pack("[o]", part) : json_array());
    case ITEM_CUSTOM:
      return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s*, s:o}", "id", output->item_id, "type", "custom_tool_call",
                       "status", status, "call_id", output->call_id, "name", output->name, "namespace",
                       output->name_space, "input", part ? part : json_string(""));
    default:
      return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s*, s:o}", "id", output->item_id, "type", "function_call", "status",
                       status, "call_id", output->call_id, "name", output->name, "namespace", output->name_space,
                       "arguments", part ? part : json_string(""));
  }
}

static bool has_content(const struct responses_output *output) {
  return output->open == ITEM_REASONING || output->open == ITEM_MESSAGE;
}

static void open_item(struct responses_output *output, int kind) {
  static const char *const prefixes[] = {
      [ITEM_REASONING] = "rs_", [ITEM_MESSAGE] = "msg_", [ITEM_FUNCTION] = "fc_", [ITEM_CUSTOM] = "ctc_"};
  output->open = kind;
  buffer_clear(&output->text);
  responses_item_id(output->item_id, prefixes[kind], output->response_id, json_array_size(output->items));
  if (!output->out) return;
  responses_output_event(
      output, "response.output_item.added",
      json_pack("{s:I, s:o}", "output_index", output_index(output), "item", item_json(output, "in_progress", NULL)));
  if (has_content(output))
    content_event(output, "response.content_part.added", "part", content_part(output, json_string(""), json_array()),
                  NULL);
}

/* The events that end the text or the arguments; the content part or the arguments, new. */
static json_t *end_content(struct responses_output *output) {
  json_t *text = output->open == ITEM_CUSTOM ? custom_input(output) : text_json(output);
  json_t *logprobs = NULL;
  switch (output->open) {
    case ITEM_MESSAGE:
      logprobs = message_logprobs(output, 0);
      content_event(output, "response.output_text.done", "text", json_incref(text), json_incref(logprobs));
      break;
    case ITEM_REASONING:
      content_event(output, "response.reasoning_text.done", "text", json_incref(text), NULL);
      break;
    case ITEM_CUSTOM:
      if (json_string_length(text) > 0)
        item_event(output, "response.custom_tool_call_input.delta", "delta", json_incref(text));
      item_event(output, "response.custom_tool_call_input.done", "input", json_incref(text));
      return text;
    default:
      item_event(output, "response.function_call_arguments.done", "arguments", json_incref(text));
      return text;
  }
  json_t *part = content_part(output, text, logprobs);
  content_event(output, "response.content_part.done", "part", json_incref(part), NULL);
  return part;
}

static void close_item(struct responses_output *output, const char *status) {
  if (output->open == ITEM_NONE) return;
  json_t *item = item_json(output, status, end_content(output));
  responses_output_event(output, "response.output_item.done",
                         json_pack("{s:I, s:O}", "output_index", output_index(output), "item", item));
  if (!output->items) output->items = json_array();
  if (output->open == ITEM_MESSAGE && !output->message) output->message = item;
  if (json_array_append_new(output->items, item) != 0) {
    output->failed = true;
    output->message = NULL;
  }
  free(output->call_id);
  free(output->name);
  free(output->name_space);
  output->call_id = output->name = output->name_space = NULL;
  output->open = ITEM_NONE;
}

void responses_output_logprobs(struct responses_output *output, json_t *logprobs) {
  json_t *entries = json_object_get(logprobs, "content");
  if (json_array_size(entries) > 0 && !output->logprobs) output->logprobs = json_array();
  if (entries && json_array_extend(output->logprobs, entries) != 0) output->failed = true;
  json_decref(logprobs);
}

static void open_call(struct responses_output *output, const struct reply_part *part) {
  struct responses_tool tool = responses_tool_find(output->tools, part->name);
  output->call_id = strdup(part->id);
  output->name = strdup(tool.name);
  output->name_space = tool.name_space ? strdup(tool.name_space) : NULL;
  if (!output->call_id || !output->name || (tool.name_space && !output->name_space)) output->failed = true;
  open_item(output, tool.custom ? ITEM_CUSTOM : ITEM_FUNCTION);
}

static void add_call(struct responses_output *output, const struct reply_part *part) {
  if (part->begins) {
    close_item(output, "completed");
    open_call(output, part);
  }
  buffer_append(&output->text, buffer_text(&part->bytes), part->bytes.length);
  if (part->bytes.length && output->open == ITEM_FUNCTION)
    item_event(output, "response.function_call_arguments.delta", "delta",
               json_stringn(part->bytes.data, part->bytes.length));
  if (part->ends) close_item(output, "completed");
}

void responses_output_part(struct responses_output *output, const struct reply_part *part) {
  if (part->kind == REPLY_CALL) {
    add_call(output, part);
  } else if (part->bytes.length) {
    int kind = part->kind == REPLY_THOUGHT ? ITEM_REASONING : ITEM_MESSAGE;
    if ((int)output->open != kind) {
      close_item(output, "completed");
      open_item(output, kind);
    }
    buffer_append(&output->text, part->bytes.data, part->bytes.length);
    json_t *delta = json_stringn(part->bytes.data, part->bytes.length);
    if (kind == ITEM_REASONING) {
      content_event(output, "response.reasoning_text.delta", "delta", delta, NULL);
    } else {
      content_event(output, "response.output_text.delta", "delta", delta, message_logprobs(output, output->told));
      output->told = json_array_size(output->logprobs);
    }
  }
}

/* Log-probabilities that came after the first message had ended. */
static void complete_logprobs(struct responses_output *output) {
  if (!output->message || !output->logprobs) return;
  json_t *part = json_array_get(json_object_get(output->message, "content"), 0);
  if (json_object_set_new(part, "logprobs", logprobs_from(output, 0)) != 0) output->failed = true;
}

void responses_output_finish(struct responses_output *output, bool cut) {
  if (output->open == ITEM_NONE && !json_array_size(output->items)) open_item(output, ITEM_MESSAGE);
  /* A call that a stop string has cut is incomplete too. */
  bool in_call = output->open == ITEM_FUNCTION || output->open == ITEM_CUSTOM;
  close_item(output, cut || in_call ? "incomplete" : "completed");
  complete_logprobs(output);
}

void responses_output_free(struct responses_output *output) {
  json_decref(output->items);
  json_decref(output->logprobs);
  buffer_free(&output->text);
  free(output->call_id);
  free(output->name);
  free(output->name_space);
}
