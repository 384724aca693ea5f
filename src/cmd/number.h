/* Whole numbers on the command line. */
#ifndef KAIJU_CMD_NUMBER_H
#define KAIJU_CMD_NUMBER_H

#include <stdint.h>

#include "base/error.h"

/* Decimal digits only, within [least, most]; KJ_INVALID names the option otherwise. */
int cmd_number(const char *option, const char *text, uint32_t least, uint32_t most, uint32_t *value,
               struct kj_error *error);
int cmd_number64(const char *option, const char *text, uint64_t *value, struct kj_error *error);

#endif
