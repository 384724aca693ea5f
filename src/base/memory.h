/* How much memory this machine can give and this process has used. */
#ifndef KAIJU_BASE_MEMORY_H
#define KAIJU_BASE_MEMORY_H

#include <stdint.h>

/* Bytes that a new process can use without swapping: the kernel's MemAvailable, or less where a control group (a
 * container) allows less. 0 if unknown. */
uint64_t memory_available(void);

/* The most bytes that this process has had resident at once, mapped files included. 0 if unknown. */
uint64_t memory_peak(void);

#endif
