/* SIGINT and SIGTERM, delivered as a function call on a thread of their own, where anything may be called. */
#ifndef KAIJU_CMD_SIGNALS_H
#define KAIJU_CMD_SIGNALS_H

#include "base/error.h"

/* Call before any other thread is started, so that all inherit the mask. SIGPIPE is ignored as well. */
void signals_block(void);
/* Starts the thread that calls handle(context, signal) for every SIGINT and SIGTERM until signals_unwatch. Once. */
int signals_watch(void (*handle)(void *context, int signal), void *context, struct kj_error *error);
/* After this returns the handler is not running and will not run again: its context may be destroyed. */
void signals_unwatch(void);

#endif
