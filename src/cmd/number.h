/* Numbers on the command line. */
#ifndef KAIJU_CMD_NUMBER_H
#define KAIJU_CMD_NUMBER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Decimal digits only, within [least, most]; KJ_INVALID names the option otherwise. */
int cmd_number(const char *option, const char *text, uint32_t least, uint32_t most, uint32_t *value,
               struct kj_error *error);
/* A number of seconds above 0. */
int cmd_seconds(const char *option, const char *text, double *seconds, struct kj_error *error);
int cmd_number64(const char *option, const char *text, uint64_t *value, struct kj_error *error);

enum { CMD_MAX_LIST = 16 };
struct cmd_list {
  uint32_t values[CMD_MAX_LIST];
  size_t count;
};
/* "64,512,2048": 1…CMD_MAX_LIST numbers, each as in cmd_number. The list is unchanged on failure. */
int cmd_number_list(const char *option, const char *text, uint32_t least, uint32_t most, struct cmd_list *list,
                    struct kj_error *error);

#endif
