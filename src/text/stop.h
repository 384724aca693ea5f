/* Watches a stream of text for stop strings (the automaton of Aho and Corasick), holding back the least: the longest
 * end of the text that a stop string begins with. Time is linear in the text, whatever the strings are.
 */
#ifndef KAIJU_TEXT_STOP_H
#define KAIJU_TEXT_STOP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

struct stop_watch;

/* The strings are copied; none may be empty or ill-formed UTF-8. No string at all is allowed. */
int stop_watch_create(struct stop_watch **watch, const char *const *stops, size_t count, struct kj_error *error);
void stop_watch_free(struct stop_watch *watch);

/* Takes the next byte of a text of whole characters and appends to `out` what can be released. Returns true once a stop
 * string is complete: the text before it is released, and later bytes are ignored. */
bool stop_watch_push(struct stop_watch *watch, char byte, struct buffer *out);
/* The end of the text: releases what is held back, unless it has stopped. */
void stop_watch_finish(struct stop_watch *watch, struct buffer *out);
bool stop_watch_stopped(const struct stop_watch *watch);
/* The stop string that is complete, not ended by NUL; NULL before. */
const char *stop_watch_match(const struct stop_watch *watch, size_t *length);

#endif
