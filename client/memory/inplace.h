/*
 * Makes memory that the process already has (heap, static data, stacks, private mappings) shared
 * memory, in place: its pages become pages of a memfd, at the same addresses and with the same
 * contents, and from then on other processes can map them.
 *
 * The process has one such memfd. It is sparse and as long as the address space: the page at an
 * address is the page at the same offset of the file. So any range of addresses is one range of the
 * file, whatever was shared before, and ranges may overlap. A page is shared as long as a range
 * contains it; then it becomes private memory again.
 *
 * While pages are moved, other threads that store to them wait for microseconds: userfaultfd(2)
 * holds them, but not those that store to initialized data. A forked child gets private copies of
 * all shared pages before fork() returns, in the parent as well; what other threads of the parent
 * store meanwhile may be in them. Of a thread's own stack, which parent and child would both use
 * until then, the pages are private during fork(). Pages are moved by the thread that calls, on a
 * stack of its own: a helper thread would make every process one with several threads, in which the
 * kernel must permit userfaultfd.
 *
 * All functions may be called by any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Shares the pages that contain these bytes. *ret_fd: the memfd, which remains the callee's. The
 * offset of a page in it is its address.
 *
 * -EFAULT: not all of it is mapped and readable. -EOPNOTSUPP: memory that cannot be shared in
 * place: stacks of other threads, shared mappings, code, reserved huge pages, devices. -EBUSY:
 * other threads could store to it meanwhile, and nothing can hold them. -ENOMEM, -EMFILE. After an
 * error nothing has changed. */
int inplace_share(const void *address, uint64_t bytes, int *ret_fd);

/* Ends what inplace_share() began, for the same range. Pages that cannot be made private again (no
 * memory, or as for -EBUSY) remain shared with whoever has mapped them. */
void inplace_unshare(const void *address, uint64_t bytes);

/* Around fork() (client/forks.c): in the child before anything else. */
void inplace_before_fork(void);
void inplace_after_fork(void);
void inplace_in_child(void);

/* ---- inplace_check.c ---- */

/* Of the calling thread. 0 to 0: unknown. */
void inplace_stack(uintptr_t *ret_first, uintptr_t *ret_end);

/* A part of a range that lies in one mapping. */
struct inplace_part {
    uintptr_t first, end; /* whole pages */
    int protection;       /* PROT_* */
    bool anonymous;       /* userfaultfd can hold those who store there */
    bool locked;          /* mlock() */
    bool shared;          /* of the process's memfd */
};

struct inplace_parts {
    struct inplace_part *list; /* of malloc() */
    size_t count, room;
};

/* Finds the parts of a range of whole pages; own: the inode of the memfd, 0: none. 0 or an error as
 * inplace_share(), with its text. */
int inplace_check(uintptr_t first, uintptr_t end, ino_t own, struct inplace_parts *parts);

/* Finds what of a range is mapped from the memfd; the rest does not matter. in_place: only pages at
 * the address of their offset. 0, -ENOMEM or an error of opening a file. */
int inplace_find(uintptr_t first, uintptr_t end, ino_t own, bool in_place,
                 struct inplace_parts *parts);

/* ---- inplace_move.c ---- */

/* What the pages become. */
enum inplace_kind { INPLACE_SHARED, INPLACE_PRIVATE };

/* Moves the parts that are of the other kind. before: NULL, or room for their contents when they
 * become private; of parts that are shared again, these: what the memfd has got meanwhile remains,
 * except for what the process has changed. 0 or a negative errno, without a text: -EBUSY: others
 * could store there, and nothing can hold them. *ret_done: everything before this address has been
 * moved. */
int inplace_move(const struct inplace_parts *parts, enum inplace_kind kind, int fd, bool alone,
                 uint8_t *before, uintptr_t *ret_done);
