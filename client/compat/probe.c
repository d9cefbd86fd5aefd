#include "client/compat/probe.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

/* The kernel reads a byte for us: it does not end the process where there is none. What it may not
 * do for anybody here (a container's rules) is taken for good. */
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
    return compat_fail(TCA_ERROR_INVALID_VALUE,
                       "tcaCreateHandle: this process has no memory of %llu bytes at %p: it was "
                       "freed, or is not as large",
                       (unsigned long long)bytes, memory);
}
