/* cmocka with what it needs included before it. */
#ifndef KAIJU_TESTS_UNIT_H
#define KAIJU_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* The four above must come first. */
#include <cmocka.h>
#include <string.h>

#include "base/error.h"

#endif
