/* Tokens in a tree of their bytes, in the order of a walk from the root: a token is found by following its bytes, and
 * everything that begins with bytes that cannot follow is skipped at once. */
#ifndef KAIJU_GRAMMAR_TOKEN_TREE_H
#define KAIJU_GRAMMAR_TOKEN_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct token_node {
  uint32_t end;         /* the first node that does not begin with this one's bytes */
  uint32_t first_token; /* those of tokens[first_token … the next node's) have just these bytes */
  uint16_t depth;       /* number of its last byte, from 0 */
  uint8_t byte;
};

struct token_tree {
  struct token_node *nodes; /* [node_count + 1] */
  uint32_t *tokens;         /* ids, sorted by bytes */
  uint32_t node_count, token_count;
  uint32_t longest; /* bytes of a token */
};

struct sorted_token {
  const unsigned char *bytes;
  uint32_t length, id;
};

/* `sorted` by bytes, none empty and none longer than TOKEN_MAX_BYTES. */
int token_tree_build(struct token_tree *tree, const struct sorted_token *sorted, size_t count, struct kj_error *error);
void token_tree_free(struct token_tree *tree);

#endif
