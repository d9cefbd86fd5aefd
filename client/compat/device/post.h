/*
 * What is sent to agents and answered, in a group of its own: first all processes of the job, then
 * their agents.
 *
 *   desk (a process)                              inlet (an agent's, one for each process)
 *     request, data  ------- put, notify ------->   request, data
 *     replies, one for each agent <---- put, notify -------
 *
 * One question at a time and process. Everything that comes is looked at as a stranger's.
 */
#pragma once

#include "client/compat/device/device.h"

enum post_kind {
    POST_STORE = 1,  /* the data go into device memory */
    POST_EXPORT = 2, /* a descriptor of the memory, to be sent to the socket */
    POST_STOP = 3,   /* of its own process only */
};

struct post_request {
    uint64_t sequence; /* of the desk's questions; rises */
    uint32_t kind;
    char socket[12]; /* the abstract name of a datagram socket, with its NUL */
    uint64_t ticket; /* comes with the descriptor */
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

enum { POST_SLOT = 0 }; /* of the notifications */

/* The same in all processes. */
struct post {
    char group[64];
    uint32_t agents;
    int32_t *agent_of;    /* by process: its agent's rank in the group; -1: it has none */
    uint64_t stage_bytes; /* as many data go with a request at most */
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

/* Joins the group as `rank`, with memory that the others find in ret_handles. The session is there
 * to be closed after most failures, too. */
int post_join(uint32_t rank, uint64_t bytes, struct tca **ret_session,
              struct tca_region **ret_region, struct tca_handle **ret_handles);

/* ---- agent.c ---- */
tcaresult agent_start(void);
/* Whether it has met the others, or why not. */
tcaresult agent_started(void);
/* It was asked to stop, or its session has ended. */
void agent_join(void);
/* From the first GPU that the program uses on. */
void agent_pin(struct cuda_place *place);

/* ---- desk.c ---- */
tcaresult desk_open(void);
bool desk_is_open(void);
void desk_close(void);
/* Where data go before desk_ask(). */
void *desk_data(void);
/* Asks the agent of a process. Its failure is ours. ret_reply may be NULL. */
tcaresult desk_ask(uint32_t rank, struct post_request *request, uint64_t data_bytes,
                   struct post_reply *ret_reply);
/* Likewise. It stays so until the process ends. */
void desk_pin(struct cuda_place *place);
