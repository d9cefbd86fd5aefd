/*
 * Internals of the TCA API, a library of its own (libtca-compat) over plans that uses tca.h only.
 *
 *   tcaDesc -- tcaDescSet() --> program (a committed plan), loaded into a channel
 *   channel -- tcaStartDMADesc() --> runs its program
 *
 * A notification of the TCA API is a notice: a few words put after the data into a place that the
 * receiver keeps for this sender (notice.h), followed by a notification of tca.h. A notification to
 * the same process is counted when the start completes (self.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/include/tca-api.h"
#include "client/include/tca.h"

enum {
    CHANNEL_COUNT = 4,
    /* Slots of tca.h, by purpose. */
    NOTIFY_NOTICE = 0,
    NOTIFY_TAKEN = 1, /* places for notices have become free */
    NOTIFY_NEVER = 2, /* never notified; tells whether the process is still alive */
    NOTIFY_PIO = 2,   /* never waited for; orders a store after earlier stores */
};

/* The contents of a tcaHandle. */
struct reference {
    uint32_t magic;
    uint32_t rank;    /* of the process that owns the memory */
    uint64_t address; /* in that process */
    uint64_t bytes;
    uint32_t type;            /* enum tcaMemoryType */
    uint32_t attached;        /* 1: memory that the program allocated itself */
    struct tca_handle memory; /* all zero if bytes is 0; for device memory, its card (memory.h) */
    uint64_t device;          /* id of the device memory in its process; 0: host memory */
    uint64_t device_offset_bytes;
};

struct compat {
    struct tca *session; /* NULL: tcaInit() was not called */
    uint32_t rank, size, node;
};
extern struct compat compat;

/* ---- error.c ---- */

/* Records the error text for this thread and returns `result`. */
__attribute__((format(printf, 2, 3))) tcaresult compat_fail(tcaresult result, const char *format,
                                                            ...);
/* The same for a negative errno of tca.h. The text is `what`, then tca_error_text(). */
tcaresult compat_fail_errno(int error, const char *what);
/* The same for a failure in another thread, where tcaGetErrorString() returned `text`. */
tcaresult compat_fail_as(tcaresult result, const char *text);
/* The text of the last failure in this thread. */
const char *compat_last_text(void);
/* TCA_SUCCESS, or an error if tcaInit() was not called or has failed. */
tcaresult compat_ready(void);

/* ---- handle.c ---- */

/* Checks and decodes a handle. `name`: of the calling function, for the error text. */
tcaresult reference_read(const tcaHandle *handle, const char *name,
                         struct reference *ret_reference);

/* The region and the offset in it, of a handle to host memory of this process. */
tcaresult reference_region(const struct reference *reference, struct tca_region **ret_region,
                           uint64_t *ret_offset_bytes);

/* ---- channel.c ---- */

/* Waits until every channel is idle, at most for the time-out. Results of starts are kept. */
void channels_finish(int64_t timeout_ns);
/* Returns a kept failure of any channel, once, or TCA_SUCCESS. A failure that is not fetched here
 * is returned by the next call for its channel. */
tcaresult channels_tell(void);
