/*
 * Inside the TCA API: a layer over plans, through tca.h only.
 *
 *   tcaDesc ---tcaDescSet---> program (a committed plan) ---loaded into---> channel
 * ---tcaStartDMADesc---> runs
 *
 * A notification is a notice: a few words put behind the data, into a place that the receiver keeps
 * for this sender (notice.h), and a notification of tca.h with them. One to this very process is
 * counted when the start is complete (self.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/include/tca-api.h"
#include "client/include/tca.h"

enum {
    CHANNEL_COUNT = 4,
    /* Slots of tca.h's notifications, by what they say. */
    NOTIFY_NOTICE = 0,
    NOTIFY_TAKEN = 1, /* places for notices have become free */
    NOTIFY_NEVER = 2, /* nobody notifies here: shows whether the process can still do so */
    NOTIFY_PIO = 2,   /* nobody waits for it: orders a store behind what was stored before */
};

/* What a tcaHandle holds. */
struct reference {
    uint32_t magic;
    uint32_t rank;    /* of the process that owns the memory */
    uint64_t address; /* there */
    uint64_t bytes;
    uint32_t type;            /* enum tcaMemoryType */
    uint32_t attached;        /* 1: of the program's own memory */
    struct tca_handle memory; /* all zero when bytes is 0; of device memory its card (memory.h) */
    uint64_t device;          /* the number of device memory in its process; 0: host memory */
    uint64_t device_offset_bytes;
};

struct compat {
    struct tca *session; /* NULL: tcaInit() was not called */
    uint32_t rank, size, node;
};
extern struct compat compat;

/* ---- error.c ---- */

/* Notes what was wrong and returns the result. */
__attribute__((format(printf, 2, 3))) tcaresult compat_fail(tcaresult result, const char *format,
                                                            ...);
/* From a negative errno of tca.h, with tca_error_text(). `what` comes before it. */
tcaresult compat_fail_errno(int error, const char *what);
/* From a failure in another thread: what tcaGetErrorString() said there. */
tcaresult compat_fail_as(tcaresult result, const char *text);
/* The last failure in this thread, in words. */
const char *compat_last_text(void);
/* TCA_SUCCESS, or tcaInit() was not called, or has failed. */
tcaresult compat_ready(void);

/* ---- handle.c ---- */

/* Checks the bytes of a handle. */
tcaresult reference_read(const tcaHandle *handle, const char *name,
                         struct reference *ret_reference);

/* The region and offset of own host memory that a handle names. */
tcaresult reference_region(const struct reference *reference, struct tca_region **ret_region,
                           uint64_t *ret_offset_bytes);

/* ---- channel.c ---- */

/* Waits until every channel is idle, at most so long. What starts have come to is kept. */
void channels_settle(int64_t timeout_ns);
/* A failure that was kept so, of any channel, once; TCA_SUCCESS: there is none. Where nobody asks,
 * the next call for the channel tells it. */
tcaresult channels_tell(void);
