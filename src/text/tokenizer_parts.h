/* What a tokenizer consists of, for the modules that read it (text/tokenizer_json.c) and run it (text/tokenizer.c). */
#ifndef KAIJU_TEXT_TOKENIZER_PARTS_H
#define KAIJU_TEXT_TOKENIZER_PARTS_H

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/split.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

enum { TOKENIZER_SPLIT_LIMIT = 9 }; /* 8 Splits and ByteLevel's own */

enum token_flag {
  TOKEN_SPECIAL = 1,
  TOKEN_ADDED = 2,
  TOKEN_NEW = 4 /* an added token that the model does not have */
};

struct tokenizer {
  struct vocabulary *vocabulary; /* the model's tokens and the added ones */
  uint32_t byte_ids[256];        /* the token of each single byte */
  struct merges *merges;
  bool ignore_merges; /* a piece that is a token of the model becomes it, whatever the merges say */
  bool normalize_nfc;
  struct split_expression *splits[TOKENIZER_SPLIT_LIMIT];
  size_t split_count;
  struct added_tokens raw, normalized; /* found before and after normalization */
  unsigned char *flags;                /* by id, of enum token_flag */
};

#endif
