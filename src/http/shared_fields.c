#include "http/shared_fields.h"

#include <stddef.h>

void shared_fields_copy(struct fields *fields, json_t *chat) {
  static const char *const names[] = {"model",
                                      "stream",
                                      "temperature",
                                      "top_p",
                                      "top_k",
                                      "min_p",
                                      "seed",
                                      "repetition_penalty",
                                      "presence_penalty",
                                      "frequency_penalty",
                                      "logit_bias",
                                      "ignore_eos",
                                      "cache_prompt",
                                      "chat_template_kwargs",
                                      "grammar"};
  for (size_t i = 0; i < sizeof names / sizeof names[0] && !fields->failed; i++) {
    json_t *value = field_any(fields, names[i]);
    if (value && json_object_set(chat, names[i], value) != 0) field_fail_memory(fields);
  }
}
