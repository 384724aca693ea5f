/* The log: one line an event on standard error, "HH:MM:SS level message". Safe from any thread.
 * Standard output is kept for what a command was asked to print.
 */
#ifndef KAIJU_BASE_LOG_H
#define KAIJU_BASE_LOG_H

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR };

/* Lines below `level` are dropped. The default is LOG_INFO. Call it before threads are started. */
void log_set_level(enum log_level level);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_warning(...) log_write(LOG_WARNING, __VA_ARGS__)
#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)

#endif
