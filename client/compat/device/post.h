/*
 * Requests to agents and their replies. They use a separate group: all processes of the job, then
 * their agents.
 *
 *   desk (a process)                              inlet (an agent's, one for each process)
 *     request, data  ------- put, notify ------->   request, data
 *     replies, one for each agent <---- put, notify -------
 *
 * Each process has one request at a time. Everything received is checked as untrusted input.
 */
#pragma once

#include "client/compat/device/device.h"

enum post_kind {
    POST_STORE = 1,  /* copy the data to device memory */
    POST_EXPORT = 2, /* send a descriptor of the memory to the socket */
    POST_STOP = 3,   /* accepted from its own process only */
};

struct post_request {
    uint64_t sequence; /* of the desk's requests; increases */
    uint32_t kind;
    char socket[12]; /* abstract name of a datagram socket, with NUL */
    uint64_t ticket; /* sent with the descriptor */
    uint64_t memory; /* device_memory.number */
    uint64_t offset_bytes, pitch_bytes, width_bytes, height;
    uint64_t reserved[7];
};

struct post_reply {
    uint64_t sequence;
    int32_t result;
    uint32_t reserved;
    uint64_t bytes; /* of the exported memory */
    char text[104]; /* of a failure */
};
_Static_assert(sizeof(struct post_request) == 128 && sizeof(struct post_reply) == 128,
               "whole lines");

enum { POST_SLOT = 0 }; /* for all notifications */

/* Equal in all processes. */
struct post {
    char group[64];
    uint32_t agents;
    int32_t *agent_of;    /* by process: rank of its agent in the group; -1: none */
    uint64_t stage_bytes; /* most data of a request */
    int64_t timeout_ns;   /* for opening */
};
extern struct post post;

static inline uint64_t post_inlet_bytes(void)
{
    return sizeof(struct post_request) + post.stage_bytes;
}

static inline uint32_t post_ranks(void)
{
    return compat.size + post.agents;
}

/* Joins the group as `rank` and exchanges handles of a region of this size. After a failure, too,
 * *ret_session may be set and must then be closed. */
int post_join(uint32_t rank, uint64_t bytes, struct tca **ret_session,
              struct tca_region **ret_region, struct tca_handle **ret_handles);

/* ---- agent.c ---- */
tcaresult agent_start(void);
/* Waits until it has joined the group. Returns why it has not. */
tcaresult agent_started(void);
/* Waits for its end; it was told to stop, or its session has ended. */
void agent_join(void);
/* Called with the first GPU that the program uses. */
void agent_pin(struct cuda_place *place);

/* ---- desk.c ---- */
tcaresult desk_open(void);
bool desk_is_open(void);
void desk_close(void);
/* Where the caller puts the data before desk_ask(). */
void *desk_data(void);
/* Sends a request to the agent of a process and waits for the reply. Also returns the agent's
 * errors. ret_reply may be NULL. */
tcaresult desk_ask(uint32_t rank, struct post_request *request, uint64_t data_bytes,
                   struct post_reply *ret_reply);
/* Like agent_pin(). Stays pinned until the process ends. */
void desk_pin(struct cuda_place *place);
