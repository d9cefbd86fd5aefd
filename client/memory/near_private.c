/* Private memory of other processes of the node: process_vm_readv(2). */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "client/core/error.h"
#include "client/memory/near.h"

/* Of one call: the kernel copies less than 2 GiB. */
enum { PIECE_BYTES = 1 << 30 };

static int unreachable(struct near_view *view, int error)
{
    if (error == -EPERM || error == -ENOSYS || error == -ESRCH)
        view->refused = error; /* others are matters of the place, and of the moment */
    return error_set(error, "private memory of process %d: %s%s", (int)view->owner_pid,
                     tca_strerror(error),
                     error == -EPERM ? ": kernel.yama.ptrace_scope, a seccomp profile or "
                                       "prctl(PR_SET_DUMPABLE) forbids process_vm_readv()"
                                     : "");
}

static int check(struct near_view *view)
{
    if (view->owner_pid == 0)
        return error_static(-EOPNOTSUPP, "private memory: the rank's process cannot be named here: "
                                         "tcad or the rank is in another PID namespace");
    return view->refused ? unreachable(view, view->refused) : 0;
}

/* Reads `bytes` bytes, and the proof that they are the owner's. */
static int read_piece(struct near_view *view, uint64_t address, uint8_t *target, uint64_t bytes)
{
    uint64_t proof = 0;
    const uint64_t right = view->directory->proof;
    const struct iovec here[] = {{target, bytes}, {&proof, sizeof(proof)}};
    const struct iovec there[] = {
        {(void *)(uintptr_t)address, bytes},
        {(void *)(uintptr_t)view->directory->proof_address, sizeof(proof)}};
    const uint32_t first = bytes == 0;
    const ssize_t got =
        process_vm_readv(view->owner_pid, here + first, 2 - first, there + first, 2 - first, 0);

    if (got < 0)
        return unreachable(view, -errno);
    if ((uint64_t)got != bytes + sizeof(proof))
        return unreachable(view, -EFAULT);
    return proof == right ? 0 : unreachable(view, -ESRCH);
}

int near_check_private(struct near_view *view)
{
    int r = check(view);

    return r < 0 ? r : read_piece(view, 0, NULL, 0);
}

int near_read_private(struct near_view *view, struct near_place place, void *target, uint64_t bytes)
{
    int r = check(view);

    for (uint64_t done = 0; r >= 0 && done < bytes; done += PIECE_BYTES) {
        const uint64_t left = bytes - done;
        r = read_piece(view, place.offset + done, (uint8_t *)target + done,
                       left < PIECE_BYTES ? left : PIECE_BYTES);
    }
    return r;
}
