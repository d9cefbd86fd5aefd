#include "client/compat/probe.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

/* Lets the kernel read the byte, because a bad address would end the process here. If the kernel
 * refuses the call altogether (in a container, say), the address counts as good. */
static bool is_there(const uint8_t *address)
{
    uint8_t byte;
    struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)address, 1};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1 || errno != EFAULT;
}

tcaresult probe_memory(const void *memory, uint64_t bytes)
{
    const uint8_t *first = memory;
    const uint64_t left = UINT64_MAX - (uint64_t)(uintptr_t)memory;
    if (bytes - 1 <= left && is_there(first) && is_there(first + (bytes - 1)))
        return TCA_SUCCESS;
    return compat_fail(
        TCA_ERROR_INVALID_VALUE,
        "tcaCreateHandle: %llu bytes at %p are not mapped in this process: the memory "
        "was freed, or is smaller",
        (unsigned long long)bytes, memory);
}
