#include "grammar/token_tree.h"

#include <stdlib.h>

#include "grammar/token_vocabulary.h"

static uint32_t common(const struct sorted_token *a, const struct sorted_token *b) {
  uint32_t length = 0;
  while (length < a->length && length < b->length && a->bytes[length] == b->bytes[length]) length++;
  return length;
}

int token_tree_build(struct token_tree *tree, const struct sorted_token *sorted, size_t count, struct kj_error *error) {
  *tree = (struct token_tree){0};
  size_t node_count = 0;
  for (size_t i = 0; i < count; i++) node_count += sorted[i].length - (i > 0 ? common(&sorted[i - 1], &sorted[i]) : 0);
  if (node_count >= UINT32_MAX) return kj_fail(error, KJ_UNSUPPORTED, "the tokens of the vocabulary are too long");
  tree->nodes = calloc(node_count + 1, sizeof *tree->nodes);
  tree->tokens = calloc(count + 1, sizeof *tree->tokens);
  if (!tree->nodes || !tree->tokens) {
    token_tree_free(tree);
    return kj_fail_memory(error, "the tree of a vocabulary");
  }
  uint32_t path[TOKEN_MAX_BYTES], depth = 0; /* nodes of the token before */
  for (size_t i = 0; i < count; i++) {
    const struct sorted_token *token = &sorted[i];
    uint32_t kept = i > 0 ? common(&sorted[i - 1], token) : 0;
    while (depth > kept) tree->nodes[path[--depth]].end = tree->node_count;
    for (; depth < token->length; depth++) {
      path[depth] = tree->node_count;
      tree->nodes[tree->node_count++] =
          (struct token_node){.first_token = tree->token_count, .depth = (uint16_t)depth, .byte = token->bytes[depth]};
    }
    tree->tokens[tree->token_count++] = token->id;
    if (token->length > tree->longest) tree->longest = token->length;
  }
  while (depth > 0) tree->nodes[path[--depth]].end = tree->node_count;
  tree->nodes[tree->node_count].first_token = tree->token_count;
  return 0;
}

void token_tree_free(struct token_tree *tree) {
  free(tree->nodes);
  free(tree->tokens);
  *tree = (struct token_tree){0};
}
