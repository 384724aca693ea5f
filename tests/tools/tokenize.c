/* Drives the tokenizer from a test: tokenize DIRECTORY encode|encode-plain|decode|bytes
 *
 * Standard input is a sequence of records, each a 32-bit length in the machine's byte order and that many bytes. One
 * line of output a record:
 *   encode        text in (encode-plain: special tokens are text); the ids, or "error: " and the message
 *   decode        32-bit ids in; in hexadecimal what each token releases and what the end does, a "," after each
 *   bytes         32-bit ids in; in hexadecimal the bytes of all tokens, special ones too
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/detokenizer.h"

static void encode(const struct tokenizer *tokenizer, const char *text, size_t length, bool special) {
  struct token_list list = {0};
  struct kj_error error;
  if (tokenizer_encode(tokenizer, text, length, special, &list, &error)) printf("error: %s", error.message);
  for (size_t i = 0; i < list.count; i++) printf(i ? " %" PRIu32 : "%" PRIu32, list.ids[i]);
  putchar('\n');
  token_list_free(&list);
}

static void print_released(struct buffer *released) {
  for (size_t i = 0; i < released->length; i++) printf("%02x", (unsigned char)released->data[i]);
  putchar(',');
  buffer_clear(released);
}

static void print_bytes(const struct tokenizer *tokenizer, const char *ids, size_t length) {
  for (size_t at = 0; at + 4 <= length; at += 4) {
    uint32_t id;
    size_t count;
    memcpy(&id, ids + at, sizeof id);
    const char *bytes = tokenizer_bytes(tokenizer, id, &count);
    for (size_t i = 0; i < count; i++) printf("%02x", (unsigned char)bytes[i]);
  }
  putchar('\n');
}

static int decode(const struct tokenizer *tokenizer, const char *ids, size_t length) {
  struct detokenizer *detokenizer;
  struct kj_error error;
  struct buffer released = {0};
  if (detokenizer_create(&detokenizer, tokenizer, NULL, 0, &error)) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  for (size_t at = 0; at + 4 <= length; at += 4) {
    uint32_t id;
    memcpy(&id, ids + at, sizeof id);
    detokenizer_push(detokenizer, id, &released);
    print_released(&released);
  }
  detokenizer_finish(detokenizer, &released);
  print_released(&released);
  putchar('\n');
  buffer_free(&released);
  detokenizer_free(detokenizer);
  return 0;
}

int main(int argc, char **argv) {
  static const char *const modes[] = {"encode", "encode-plain", "decode", "bytes"};
  struct tokenizer *tokenizer;
  struct kj_error error;
  size_t mode = 0;
  while (argc == 3 && mode < 4 && strcmp(argv[2], modes[mode])) mode++;
  if (argc != 3 || mode == 4) {
    fprintf(stderr, "usage: tokenize DIRECTORY encode|encode-plain|decode|bytes\n");
    return 2;
  }
  if (tokenizer_load(&tokenizer, argv[1], &error)) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  uint32_t length;
  int code = 0;
  while (!code && fread(&length, sizeof length, 1, stdin) == 1) {
    char *record = malloc((size_t)length + 1);
    if (!record || fread(record, 1, length, stdin) != length) {
      fprintf(stderr, "a record of %" PRIu32 " bytes is cut\n", length);
      code = 1;
    } else if (mode < 2) {
      encode(tokenizer, record, length, mode == 0);
    } else if (mode == 2) {
      code = decode(tokenizer, record, length);
    } else {
      print_bytes(tokenizer, record, length);
    }
    free(record);
  }
  tokenizer_free(tokenizer);
  return code;
}
