/* Patterns with lookaround that libraries write into the schemas that they generate, as patterns without. */
#ifndef KAIJU_GRAMMAR_KNOWN_PATTERN_H
#define KAIJU_GRAMMAR_KNOWN_PATTERN_H

/* A pattern of the same texts that grammar/pattern.h supports, or the pattern itself. */
const char *known_pattern(const char *pattern);

#endif
