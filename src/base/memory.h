/* How much memory this machine can give and this process has used. */
#ifndef KAIJU_BASE_MEMORY_H
#define KAIJU_BASE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that a new process can use without swapping: the kernel's MemAvailable, or less where a control group (a
 * container) allows less. 0 if unknown. */
uint64_t memory_available(void);

/* The most bytes that this process has had resident at once, mapped files included. 0 if unknown. */
uint64_t memory_peak(void);
/* Lets memory_peak count from now on; false, and nothing changes, where the kernel does not offer it. */
bool memory_reset_peak(void);

#endif
