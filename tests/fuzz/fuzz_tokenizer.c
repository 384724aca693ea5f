// links: text
/* Any bytes as text, a NUL, and a tokenizer.json: it is refused, or it encodes the text if that is UTF-8, and decodes
 * the ids in whole characters. Seeds: corpus/tokenizer. */
#include <stdlib.h>
#include <string.h>

#include "text/detokenizer.h"
#include "text/utf8.h"

enum { TEXT_LIMIT = 128 }; /* an expression may take many steps at each place of the text */

static void decode(const struct tokenizer *tokenizer, const struct token_list *list, const uint8_t *text,
                   size_t length) {
  struct detokenizer *detokenizer;
  struct kj_error error;
  struct buffer released = {0};
  if (detokenizer_create(&detokenizer, tokenizer, (const char *const[]){"the", "\n\n"}, 2, &error)) abort();
  for (size_t i = 0; i < list->count; i++) {
    if (list->ids[i] >= tokenizer_size(tokenizer)) abort();
    detokenizer_push(detokenizer, list->ids[i], &released);
    if (!utf8_valid(buffer_text(&released), released.length, NULL)) abort();
  }
  for (size_t i = 0; i + 1 < length; i++)
    detokenizer_push(detokenizer, text[i] | (uint32_t)text[i + 1] << 8, &released);
  detokenizer_finish(detokenizer, &released);
  if (!utf8_valid(buffer_text(&released), released.length, NULL)) abort();
  buffer_free(&released);
  detokenizer_free(detokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
  size_t length = nul ? (size_t)(nul - data) : 0;
  const char *json = nul ? (const char *)nul + 1 : (const char *)data;
  struct tokenizer *tokenizer;
  struct kj_error error;
  if (length > TEXT_LIMIT) return 0;
  if (tokenizer_parse(&tokenizer, "fuzz", json, size - length - (nul != NULL), &error)) return 0;
  for (int special = 0; special < 2; special++) {
    struct token_list list = {0};
    const char *text = length ? (const char *)data : "";
    int code = tokenizer_encode(tokenizer, text, length, special, &list, &error);
    if (!code && !utf8_valid(text, length, NULL)) abort();
    decode(tokenizer, &list, data, length);
    token_list_free(&list);
  }
  tokenizer_free(tokenizer);
  return 0;
}
