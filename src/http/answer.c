#include "http/answer.h"

#include "http/anthropic.h"
#include "http/json.h"
#include "http/openai.h"
#include "http/responses.h"

const struct answer_dialect *answer_dialect(enum completion_endpoint endpoint) {
  static const struct answer_dialect *const dialects[] = {
      [ENDPOINT_CHAT] = &openai_chat_dialect,
      [ENDPOINT_COMPLETIONS] = &openai_completions_dialect,
      [ENDPOINT_MESSAGES] = &anthropic_dialect,
      [ENDPOINT_RESPONSES] = &responses_dialect,
  };
  return dialects[endpoint];
}

struct answer_usage answer_usage(const struct answer *answer) {
  struct answer_usage usage = {0};
  for (size_t i = 0; i < answer->choice_count; i++) {
    const struct choice *choice = &answer->choices[i];
    if (i == 0 || choice->prompt != answer->choices[i - 1].prompt) {
      usage.prompt_tokens += choice->usage.prompt_tokens;
      usage.cached_tokens += choice->usage.cached_tokens;
    }
    usage.completion_tokens += choice->usage.completion_tokens;
    usage.thought_tokens += choice->usage.thought_tokens;
    usage.drafted_tokens += choice->usage.drafted_tokens;
    usage.draft_accepted += choice->usage.draft_accepted;
  }
  return usage;
}

void answer_event(struct buffer *out, const char *name, json_t *value) {
  if (name) buffer_append_format(out, "event: %s\n", name);
  buffer_append_text(out, "data: ");
  if (!json_append(out, value)) out->failed = true;
  buffer_append_text(out, "\n\n");
}
