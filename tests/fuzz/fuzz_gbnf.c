// links: grammar
/* A grammar in GBNF: whatever it is, it is refused, or texts of it can be walked and are found in it. */
#include "grammar/gbnf.h"
#include "grammar_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct grammar *grammar;
  char text[WALK_STEPS];
  bool complete;
  if (gbnf_compile((const char *)data, size, &grammar, NULL)) return 0;
  size_t length = walk(grammar, size, text, &complete);
  if (complete) check(grammar_matches(grammar, text, length) != 0);
  grammar_release(grammar);
  return 0;
}
