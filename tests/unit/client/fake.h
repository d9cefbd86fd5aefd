/*
 * A tcad for tests of the library alone: one session, a group of one, every plan in the client
 * seat, all puts to itself. It can lie on request; a lie must end in an error, never in a crash.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <sys/un.h>

#include "proto/message.h"
#include "proto/segment.h"

enum fake_lie {
    FAKE_HONEST,
    FAKE_VERSION,          /* Welcome of another version */
    FAKE_FRAME_VERSION,    /* a frame of another version */
    FAKE_NO_DESCRIPTORS,   /* Welcome without any */
    FAKE_SHORT_SEGMENT,    /* the session segment's file is shorter than it says */
    FAKE_UNSEALED_SEGMENT, /* the notification segment may shrink */
    FAKE_SEGMENT_VERSION,  /* its header is of another version */
    FAKE_WRONG_ANSWER,     /* Done to a RegionAlloc */
    FAKE_GARBAGE,          /* no protobuf */
    FAKE_SHORT_REGION,     /* the region's file is shorter than it says */
    FAKE_BAD_HANDLE,       /* granted with the region */
    FAKE_PLAN_NUMBER,      /* beyond the limit */
    FAKE_CHAIN_COUNT,
    FAKE_SEAT,
    FAKE_FEW_MAPPINGS,
    FAKE_DESCRIPTOR_INDEX, /* that the frame does not have */
    FAKE_UNKNOWN_REGION,   /* a mapping without a descriptor */
    FAKE_OFFSET,           /* puts that do not fit */
    FAKE_NOTIFY_BYTES,     /* a peer's notification segment that is too short */
    FAKE_LINE,             /* a line that no notification segment has */
    FAKE_SILENT_COMMIT,    /* no answer at all */
    FAKE_HANG_UP,          /* closes the connection on a commit */
    FAKE_DAEMON_SEAT,      /* no lie: chains go to the daemon seat, and are not run */
    FAKE_MIXED_SEATS,      /* no lie: every other chain goes to the daemon seat */
    FAKE_LATE_COMMIT,      /* answers once `go` is set */
    FAKE_LONG_RAIL,        /* a rail whose name is too long */
    FAKE_UNKNOWN_RAIL,     /* a chain on a rail that the Welcome does not list */
    FAKE_ORDERED,          /* no lie: each put is to another process, and after all before it */
    FAKE_REACH_DESCRIPTOR, /* a reached region without its descriptor */
    FAKE_REACH_SHORT,      /* a reached region that is shorter than its handle's part */
    FAKE_REACH_FILE,       /* whose file is shorter than it says */
    FAKE_REACH_BEYOND,     /* a part beyond its descriptor */
    FAKE_LIES,
};

enum { FAKE_SHM = 1, FAKE_OFI = 2 }; /* rails */

struct fake {
    struct sockaddr_un address;
    enum fake_lie lie;
    int listen_fd;
    int fd;
    pthread_t thread;
    /* what the session has */
    int segment_fd, notify_fd, engine_fd, region_fd;
    struct session_segment *segment;
    size_t segment_bytes;
    struct notify_segment *notify;
    uint64_t region_address, region_bytes;
    uint64_t commit_timeout_ns; /* of the last commit */
    _Atomic bool go;
    _Atomic unsigned released; /* PlanRelease and RegionFree messages */
};

/* Aborts when it cannot. */
void fake_start(struct fake *fake, enum fake_lie lie);
/* Waits until the client has closed the connection. */
void fake_stop(struct fake *fake);
/* From the test's thread: send an event. */
void fake_share(struct fake *fake, const Tca__Share *share, const int *fds, size_t fd_count);
void fake_withdraw(struct fake *fake, uint32_t target);
void fake_event(struct fake *fake, int kind, uint64_t object, int error);
