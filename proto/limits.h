/* Limits on which both ends of a socket or a shared segment must agree. */
#pragma once

#ifndef PROTO_VERSION    /* tests define other versions */
#define PROTO_VERSION 20 /* of frames and of every shared structure */
#endif

enum {
    FRAME_INLINE_MAX = 64 * 1024, /* longest payload inside one SOCK_SEQPACKET message */
    GATHERED_INLINE_MAX = 4096,   /* longest result of a gather, or list of members, in its reply */
    FRAME_PAYLOAD_MAX = 64 << 20, /* longest payload in a sealed memfd or over TCP */
    FRAME_FDS_MAX = 16,           /* descriptors carried by one frame */
    NAME_MAX_BYTES = 64,          /* group, node, plan and publish names, with NUL */
    BLOB_MAX_BYTES = 4096,        /* one rank's contribution to an allgather */
    GROUP_SIZE_MAX = 1 << 20,     /* ranks of a group */
    NOTIFY_LINES_MAX = 1 << 20,   /* (rank, slot) that can notify a session */
    CHANNELS = 4,                 /* submission rings of a session */
    SUBMIT_ENTRIES = 256,         /* of one submission ring */
    COMPLETE_ENTRIES = 1024,      /* of the completion ring: each start in flight reserves one */
    PLANS_PER_SESSION_MAX = 4096, /* plan ids are below this */
    START_PARTS_MAX = 1024,       /* puts in parts of all plans of a session */
    PLAN_CHAINS_MAX = 64,
    PLAN_STEPS_MAX = 65536,        /* of all chains of a plan */
    COLLECTIVE_CANDIDATES_MAX = 8, /* algorithms that were compared */
    BIND_PUTS_MAX = 256,           /* of one PeerBind */
    LAYOUT_OPS_MAX = 1 << 20,
    LAYOUT_DEPTH_MAX = 16,   /* nested loops */
    ADDRESS_MAX_BYTES = 256, /* a driver's own address, opaque */
    OFFER_MAX_BYTES = 128,   /* a driver's description of a new peer for the other end, opaque */
    LANDING_MAX_BYTES = 128, /* a driver's description of a put's target, opaque */
    RAILS_MAX = 16,          /* open rails of a node */
    RAIL_SLOTS = 22, /* indexes of a node's rails are below this; 0: none. Besides the open ones,
                        drivers without a rail have one */
    RAIL_NAME_MAX_BYTES = 32, /* names of rails and planes, with NUL */
};

/* Region flags. */
enum {
    REGION_IN_PLACE =
        1 << 0, /* memory of the process's own memfd, whose descriptor comes with the request */
    REGION_DMABUF = 1 << 1, /* memory of a dmabuf, whose descriptor comes with the request */
};

/* How the process must allocate the pages of daemon-allocated memory. */
enum region_pages {
    REGION_PAGES_ANY,
    REGION_PAGES_TRY_HUGE, /* transparent huge pages if the kernel provides them */
    REGION_PAGES_HUGE,     /* the memfd consists of reserved huge pages */
};
