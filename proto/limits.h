/* Limits that both ends of a socket or of a shared segment must agree on. */
#pragma once

#ifndef PROTO_VERSION   /* tests build other ones */
#define PROTO_VERSION 3 /* of the frames and of every shared structure */
#endif

enum {
    FRAME_INLINE_MAX = 64 * 1024, /* longest payload inside one SOCK_SEQPACKET message */
    FRAME_PAYLOAD_MAX = 64 << 20, /* longest payload at all (a sealed memfd, or TCP) */
    FRAME_FDS_MAX = 16,           /* descriptors carried by one frame */
    NAME_MAX_BYTES = 64,          /* group, node, plan and publish names, with their NUL */
    BLOB_MAX_BYTES = 4096,        /* one rank's share of an allgather */
    GROUP_SIZE_MAX = 4096,        /* ranks of a group */
    SLOTS_PER_SOURCE = 64,        /* notification slots that each rank has at each other rank */
    CHANNELS = 4,                 /* submission rings of a session */
    SUBMIT_ENTRIES = 256,         /* of one submission ring */
    COMPLETE_ENTRIES = 1024,      /* of the completion ring: every start in flight owns one */
    PLANS_PER_SESSION_MAX = 4096, /* plan ids of a session are below this */
    PLAN_CHAINS_MAX = 64,
    PLAN_STEPS_MAX = 65536, /* of all chains of a plan */
    BIND_PUTS_MAX = 256,    /* of one PeerBind */
    LAYOUT_OPS_MAX = 1 << 20,
    LAYOUT_DEPTH_MAX = 16,   /* nested loops */
    ADDRESS_MAX_BYTES = 256, /* a driver's own address, opaque */
    LANDING_MAX_BYTES = 128, /* where a put lands, opaque to all but the driver */
};

enum { REGION_ATTACHED = 1 << 0 }; /* flags of a region: it is memory of the process's own */

/* How the process is to make the pages of memory that the daemon gives it. */
enum region_pages {
    REGION_PAGES_ANY,
    REGION_PAGES_TRY_HUGE, /* transparent huge pages where the kernel is willing */
    REGION_PAGES_HUGE,     /* they are reserved huge pages */
};
