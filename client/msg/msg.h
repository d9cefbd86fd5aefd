/*
 * Messages: what the files of this room share.
 *
 * Each rank has a *ring* of 16 packets in the memory of every other. A packet carries a short
 * message, or concerns a long one or a pair (ring.c). Long messages (large.c): the
 * sender offers, the receiver grants its address and a notification slot of its own, the sender
 * puts. Pairs (pair.c) keep address and slot; short ones, run by the processes themselves, have
 * places for messages that were not received yet (pair_short.c).
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "client/core/layouts.h"
#include "client/core/subgroup.h"
#include "client/core/wait.h"
#include "client/include/tca-msg.h"
#include "client/msg/match_table.h"
#include "client/msg/packet.h"

enum {
    MSG_EARLY_MAX = 65536,       /* unmatched messages of one rank */
    MSG_CACHE = 64,              /* plans for long messages that are kept */
    MSG_STAGES = 8,              /* that are kept */
    MSG_STAGE_BYTES_MIN = 65536, /* longer data is sent by a stage: client/msg/stage.c */

    MSG_CHUNK = 64, /* requests allocated at a time */
};

/* What came in a note. */
struct msg_target {
    uint64_t bytes;
    struct tca_handle handle;
    uint64_t base_bytes;
    struct tca_layout *layout; /* owned; NULL: contiguous */
};

/* A packet that waits for room in the ring. */
struct msg_out {
    struct msg_out *next;
    struct tca_msg_request
        *request;         /* whose message it carries or offers; NULL: from malloc(), with */
    struct msg_head head; /* head and */
    uint8_t *payload;     /* payload, in the same memory */
};

enum msg_state {
    MSG_IDLE = 0, /* persistent, not started */
    MSG_DONE,
    MSG_QUEUED,  /* a send waits for room in the ring, or for a place; a receive that has
                  * taken its message, or rejects it, for room; a pair's receive for an index */
    MSG_POSTED,  /* a receive waits for its message, or a pair for its other side */
    MSG_OFFERED, /* a send waits for its grant; a receive for a slot to grant */
    MSG_GRANTED, /* a send waits for a plan */
    MSG_MOVING,  /* the put runs, or data has been granted */
};

struct tca_msg_request {
    struct match_receive posted;  /* first: in msg->matching, while MSG_POSTED and one-shot */
    struct tca_msg_request *next; /* in one of the lists, by state */
    struct tca_msg *msg;
    struct msg_peer *peer; /* NULL: a receive from any rank has no message yet */
    uint32_t number;       /* in msg->requests */
    uint32_t tag;          /* TCA_MSG_ANY: likewise, of any tag */
    uint32_t context;
    enum msg_state state;
    int status; /* when done */
    bool used, sends, persistent;
    bool synchronous; /* a send: complete when it is matched */
    bool released;    /* by the program, while running */
    bool arrived;     /* a receive's data is here, but a pair's length is not, or its sender has not
                       * been told */
    bool in_use;      /* a running plan, here or at the other rank, may use the staging */
    bool planned;     /* a send: a plan is to copy it, also within the node */
    int word;         /* of an announced receive; -1: it is not */
    uint64_t room;    /* bytes of the buffer */
    uint64_t bytes;   /* of the message */
    void *address;
    const struct tca_layout *layout;
    struct tca_msg_request *announce_next, **announce_link; /* of those not yet announced */
    /* ---- NULL, unless it has a use: */
    struct tca_layout *own_layout; /* a pair's copy */
    void *staging;                 /* from tca_alloc(), `room` bytes */
    struct msg_stage *stage;       /* a send's, from tca_alloc() */
    struct msg_target target;      /* of a send; its layout */
    /* ---- while it has a use */
    struct msg_out out;
    uint32_t index;                   /* of the data slot */
    uint32_t offer;                   /* a receive's: the number of the send */
    struct near_place staged, source; /* a receive's: of the stage and of the data itself */
    uint64_t moved;                   /* to or from a stage, bytes */
    uint64_t seen, idle_ns;           /* a receive's: of moved, and since when */
    struct msg_kept *kept;
    /* ---- pairs: zero, unless it is persistent */
    struct tca_plan *plan; /* the put, or the notification that a receive has started */
    uint64_t starts, ends; /* starts, other than of a short receive; those that are complete */
    uint64_t limit;        /* once the other side is gone: starts that it has completed (a send),
                            * or made (a receive) */
    bool paired, gone;     /* the other side is known; has been released */
    bool announced;        /* a receive has its index, and the sender knows of it */
    bool cancelled;        /* a send: its plan waits for a start that will not come */
    int broken;            /* a negative errno: cannot be started */
    /* ---- short pairs */
    bool is_short;                     /* a receive without a send: may become so */
    bool quick;                        /* starts need no checks: both sides are there */
    struct tca_plan *puts[MSG_PLACES]; /* by place; NULL: not short. `plan` is the last */
    uint64_t confirmed;                /* messages that were received, as the sender knows */
    struct session_slot data;          /* a receive's */
    const uint8_t (*places)[TCA_MSG_SHORT_BYTES]; /* a receive's */
};

struct msg_list {
    struct tca_msg_request *first, **last; /* last NULL: empty, as first */
};

/* A message that came before its receive. */
struct tca_msg_message {
    struct match_message matched; /* first: in msg->matching, unless it was taken out */
    struct tca_msg *msg;
    struct tca_msg_message *next, **link; /* of msg->taken; link NULL: it was not taken out */
    uint32_t request;                     /* of the sender */
    bool offered;                         /* the sender waits for an answer */
    bool whole;                           /* the data is here: */
    struct msg_offer offer;               /* if it was not offered: its bytes */
    uint8_t data[];
};

/* A receive of a pair whose send does not exist yet, by index of its slot. */
struct msg_notice {
    uint64_t order; /* from 1 on; 0: none */
    uint32_t tag;
    bool is_short; /* may be */
    struct msg_target target;
};

/* What connects this rank with another one. */
struct msg_peer {
    uint32_t rank;
    int failed; /* a negative errno */
    /* ---- what each look at all ranks looks at: msg_peer_is_quiet() */
    struct session_slot arrivals;
    uint32_t pending;    /* notifications of packets that were not consumed */
    uint32_t owed;       /* credits */
    uint32_t data_taken; /* bits: data slots in use */
    struct msg_out *out, **out_last;
    struct msg_list granted; /* sends that wait for a plan */
    struct msg_list moving;  /* sends whose plan runs */
    struct msg_list held;    /* started sends: msg_short_hold() */
    struct msg_list waiting; /* receives of pairs that wait for an index */
    struct msg_list leaving; /* sends of pairs that the program has released while they run */
    /* ---- */
    uint32_t session_rank; /* as notifications name it */
    uint32_t slot;         /* first one of the other's messenger */
    char why[200];
    bool near;                 /* on this node */
    bool copies;               /* this rank may copy between here and there (direct.c) */
    struct msg_direct *direct; /* NULL: nothing was sent, received or announced yet */
    struct tca_handle area;    /* there: struct msg_area */
    uint64_t area_bytes;       /* its offset */
    struct msg_area *here;
    /* ---- sending packets */
    uint8_t *ring;         /* where they are written: */
    uint8_t *staging;      /* MSG_RING packets, from which they are put; NULL: not yet, or not */
    struct tca_plan *bell; /* they are written where they arrive, and it tells; NULL: likewise */
    struct tca_plan *puts[MSG_RING][MSG_CLASSES];
    uint32_t sent, confirmed;
    struct session_slot confirmations;
    /* ---- receiving them */
    uint32_t taken;                                  /* packets consumed */
    struct tca_plan *credits[MSG_RING / MSG_CREDIT]; /* used in turn */
    uint32_t given;
    uint32_t early_count;
    /* ---- requests */
    struct msg_list offered; /* receives that wait for a slot to grant */
    struct msg_list single;  /* sends of pairs without receive */
    uint32_t data_leaving; /* bits: of data_taken, receives that were released before their sends */
    uint32_t data_ended;   /* bits: both are, and notifications are on their way: */
    uint64_t left[TCA_MSG_PAIRS]; /* their number; while leaving: those taken */
    uint32_t receive_count;       /* receives of pairs that the program has not released */
    /* by index of the other rank's receives: notifications that the last send has taken of those
     * that say that its receive was started; and those that it has not, and that may be on their
     * way */
    uint64_t ready_taken[TCA_MSG_PAIRS], ready_left[TCA_MSG_PAIRS];
    struct tca_msg_request *receives[MSG_DATA];   /* by data slot */
    struct tca_msg_request *sends[TCA_MSG_PAIRS]; /* by data slot of the other rank */
    struct msg_notice notices[TCA_MSG_PAIRS];
    uint64_t notice_order;
};

/* Between two ranks of a node that copy straight from and to each other's memory. */
struct msg_direct {
    struct msg_area *there; /* for this rank, at the other one; NULL: not mapped yet */
    struct mapped_region *areas;
    bool unreachable;      /* it could not be */
    struct near_view view; /* of its regions */
    struct forecast forecast;
    struct announcer announcer;
    struct tca_msg_request *announced[ANNOUNCE_WORDS];
    struct tca_msg_request *waiting,
        **waiting_last;      /* receives that were not announced, in order */
    struct msg_list staging; /* sends that pack, and receives that unpack (stage.c) */
};

/* A plan for a long message. */
struct msg_kept {
    struct tca_plan *plan; /* NULL: this one is free */
    bool busy;
    uint64_t used; /* when, in uses */
    uint32_t rank, index;
    const void *source;
    uint64_t bytes;
    struct msg_target target;
};

struct tca_msg {
    struct tca *session;
    struct tca_msg *next, *previous; /* of the session's, in a ring */
    struct tca_plan_args args;       /* ranks are those of args.group */
    char name[64];
    uint32_t slot;
    bool shared; /* other ranks may notify the slots, at any time */
    uint32_t size;
    struct tca_region *areas;          /* struct msg_areas */
    struct near_owner owner;           /* of their directory */
    struct msg_peer *peers;            /* [size] */
    struct tca_msg_request **requests; /* [request_count] */
    uint32_t request_count;
    struct tca_msg_request *unused;
    struct matching matching;
    struct tca_msg_message *taken; /* out of it, for receives that name them */
    struct msg_kept kept[MSG_CACHE];
    uint64_t calls;                       /* of tests */
    uint64_t failures;                    /* of the session, when plans were last checked */
    uint64_t uses;                        /* of kept plans */
    uint64_t staged_bytes;                /* of all requests */
    struct msg_stage *stages[MSG_STAGES]; /* that no send uses */
    uint32_t stage_count, stages_used;
    uint64_t long_sends[MSG_CACHE]; /* what was sent, for which a plan may be worth it */
};

/* ---- request.c */

void msg_list_add(struct msg_list *list, struct tca_msg_request *request);
struct tca_msg_request *msg_list_take(struct msg_list *list);
/* False: it is not in the list. */
bool msg_list_remove(struct msg_list *list, struct tca_msg_request *request);

/* -EINVAL: not a rank of the group, nor, if that is possible, TCA_MSG_ANY. */
int msg_check_rank(const struct tca_msg *msg, uint32_t rank, bool any);
/* A request of the given buffer, in state MSG_IDLE. */
int msg_request_new(struct tca_msg *msg, const struct tca_msg_envelope *envelope,
                    const struct tca_msg_buffer *buffer, bool sends,
                    struct tca_msg_request **ret_request);
void msg_request_free(struct tca_msg_request *request);
void msg_done(struct tca_msg_request *request, int status);
/* Ends all communication with a rank, for the reason in tca_error_text(). Returns the error of its
 * requests. */
int msg_peer_fail(struct msg_peer *peer, struct tca_msg *msg, int error);
/* Drops the packets that wait for room in the ring. */
void msg_peer_drop(struct msg_peer *peer);
/* Sets the text and returns the error of a failed peer. */
int msg_peer_failed(const struct msg_peer *peer);

/* Whether a send's data goes in its packet. */
static inline bool msg_is_eager(const struct tca_msg_request *request)
{
    const uint64_t other = request->synchronous ? sizeof(struct msg_offer) : 0;

    return request->room <= TCA_MSG_EAGER_BYTES - other;
}

/* A rank that leaves frees memory before its process ends: for its messages, either is the end. */
static inline int msg_error_of(int error)
{
    return error == -ESTALE ? -EOWNERDEAD : error;
}

/* The other rank has ended. What it sent before must still be taken; whether earlier puts into its
 * memory have completed is known from their plans. */
static inline bool msg_has_ended(int error)
{
    return error == -EOWNERDEAD || error == -EHOSTDOWN || error == -ESTALE;
}

/* ---- memory.c */

/* Copies the message of a send to `data`, and the data of a message of a receive to its memory. */
int msg_gather(const struct tca_msg_request *request, void *data);
/* Copies `bytes` bytes of the data of a send, from `position` on, to `data`. */
static inline void msg_gather_part(const struct tca_msg_request *request, void *data,
                                   uint64_t position, uint64_t bytes)
{
    if (request->layout)
        layout_pack_part(request->layout, request->address, data, position, bytes);
    else
        memcpy(data, (const uint8_t *)request->address + position, bytes);
}
/* Copies `bytes` bytes of the data of a message, from `position` on, to the memory of a receive,
 * which has room for them. */
static inline void msg_scatter_part(const struct tca_msg_request *request, const void *data,
                                    uint64_t position, uint64_t bytes)
{
    if (request->layout)
        layout_unpack_part(request->layout, request->address, data, position, bytes);
    else if (bytes > 0)
        memcpy((uint8_t *)request->address + position, data, bytes);
}
static inline void msg_scatter(const struct tca_msg_request *request, const void *data,
                               uint64_t bytes)
{
    msg_scatter_part(request, data, 0, bytes);
}
/* Allocates a request's staging, unless it has some. */
int msg_staging_new(struct tca_msg_request *request);
/* The memory in a region from which a send's data goes: its own, or contiguous staging. pack:
 * whether own memory with a layout is staged, too. */
int msg_place(struct tca_msg_request *request, bool pack, void **ret_memory);
/* Makes the note with the place of `bytes` bytes of a receive: in its own memory, or staging.
 * Returns the size of the payload. */
int msg_note_make(struct tca_msg_request *request, uint64_t bytes,
                  uint8_t ret_payload[TCA_MSG_EAGER_BYTES]);
/* Reads a note that has arrived. -EPROTO: invalid. */
int msg_note_read(const struct msg_head *head, const uint8_t *payload,
                  struct msg_target *ret_target);
/* Adds the put of a send's `bytes` bytes to its target. If these do not fill the target's layout,
 * the source is contiguous. */
int msg_put_to(struct tca_plan *plan, const struct msg_target *target, const void *source,
               const struct tca_layout *source_layout, uint64_t bytes);

/* ---- wait.c */

/* Advances messages with one peer, or, if it is NULL, with all. */
void msg_progress(struct tca_msg *msg, struct msg_peer *peer);
void msg_progress_all(struct tca_msg *msg);

/* ---- plans.c */

/* Commits a plan for messages to this rank. Its memory may have ended before the end of the rank is
 * known here: that is the same error. */
int msg_commit(const struct msg_peer *peer, struct tca_plan *plan);

int msg_plan_new(struct tca_msg *msg, uint32_t rank, struct tca_plan **ret_plan);
/* What msg_put_to() takes. */
struct msg_put {
    const struct msg_target *target;
    const void *source;
    const struct tca_layout *layout;
    uint64_t bytes;
    bool apart; /* into memory of the messenger, where nothing else is put meanwhile */
};

/* Makes a plan that puts, unless `put` is NULL, and notifies the peer's slot. */
int msg_plan_put(struct msg_peer *peer, struct tca_msg *msg, const struct msg_put *put,
                 uint32_t slot, struct tca_plan **ret_plan);
/* A plan that only notifies. */
int msg_plan_notify(struct msg_peer *peer, struct tca_msg *msg, uint32_t slot,
                    struct tca_plan **ret_plan);
/* Starts a plan whose last start is about to complete. If that start failed, msg_peer_check() or a
 * test of the plan reports it. */
int msg_plan_start(struct tca_msg *msg, struct tca_plan *plan);
/* Frees the plan unless it is running; then tca_close() releases it. NULL is a no-op. */
void msg_plan_free(struct tca_plan *plan);
/* The same of a plan that is about to complete: waits for it. Returns NULL. */
struct tca_plan *msg_plan_end(struct tca_plan *plan);

/* ---- ring.c */

/* Sends a packet, or queues it: a note, from any memory, or a request's message, offer or
 * answer. */
int msg_note_send(struct msg_peer *peer, struct tca_msg *msg, struct msg_head head,
                  const void *payload);
int msg_request_send(struct tca_msg_request *request);
/* Everything that a rank waits for from this one, and what has arrived from it. 0 or a negative
 * errno: the peer has failed. */
int msg_peer_progress(struct msg_peer *peer, struct tca_msg *msg);
/* Whether it has nothing to do. */
static inline bool msg_peer_is_quiet(struct msg_peer *peer, struct tca_msg *msg)
{
    const bool works = peer->pending || peer->owed || peer->data_taken || peer->out ||
                       peer->granted.first || peer->moving.first || peer->held.first ||
                       peer->waiting.first || peer->leaving.first;

    return !works && (peer->failed || (session_is_quiet(msg->session, &peer->arrivals) &&
                                       !(peer->direct && peer->direct->staging.first)));
}
/* The same as msg_peer_fail(), after what the rank has sent before its end was taken. */
int msg_peer_lost(struct msg_peer *peer, struct tca_msg *msg, int error);
/* Fails the peer if the rail has lost one of its packets, or of its receives' notifications. */
void msg_peer_check(struct msg_peer *peer, struct tca_msg *msg);

/* ---- match.c: what arrives. Negative errors are those of this process; -EPROTO: invalid. */

/* What the functions below take out of msg->matching. */
static inline struct tca_msg_request *msg_request_of(struct match_receive *receive)
{
    return (struct tca_msg_request *)receive; /* its first member */
}

int msg_take(struct msg_peer *peer, struct tca_msg *msg, const struct msg_head *head,
             const uint8_t *payload);
/* Why no message of the peer, or, if NULL, of any can come any more; 0: one can. */
int msg_cannot_come(const struct tca_msg *msg, const struct msg_peer *peer);
/* The first message that a receive of this envelope would get; NULL: there is none. */
struct tca_msg_message *msg_find(const struct tca_msg *msg,
                                 const struct tca_msg_envelope *envelope);
/* It matches no receive any more. */
void msg_take_out(struct tca_msg_message *message);
/* Frees the messages that no receive has got. */
void msg_forget_messages(struct tca_msg *msg);

/* ---- direct.c: messages between ranks of one node that copy themselves */

void msg_direct_free(struct msg_peer *peer, struct tca_msg *msg);
/* Whether a plan is to copy a message that is about to be sent: it is long, and was sent before; at
 * times that is not remembered. */
bool msg_direct_is_planned(const struct tca_msg_request *request);
/* The packets that the other rank receives from this one. NULL: out of reach. */
uint8_t *msg_direct_ring(struct msg_peer *peer, struct tca_msg *msg);
/* A receive from a known rank was posted. */
void msg_announce(struct tca_msg_request *request);
/* It has got a message that was sent as if it were not announced, or has failed. */
void msg_unannounce(struct tca_msg_request *request);
/* Waits until a sender, which is alive, does not copy to a receive that was not withdrawn. */
void msg_announce_settle(const struct tca_msg_request *request);
/* The program withdraws it. False: a message is coming. */
bool msg_announce_withdraw(struct tca_msg_request *request);
/* A message is about to be sent as packet `seq` to a rank whose ring is here. False: call
 * msg_direct_send(). */
static inline bool msg_direct_pass(const struct tca_msg_request *request, uint32_t seq)
{
    const struct match_key key = {
        .context = request->context, .rank = request->peer->rank, .tag = request->tag};

    return forecast_pass(&request->peer->direct->forecast, key, seq);
}
/* A message is about to be sent as packet `seq`. Returns 1 and the packet's head if its data has
 * been copied to its receive, or 0. */
int msg_direct_send(struct tca_msg_request *request, uint32_t seq, struct msg_head *head);
/* The place of a send's data for its receiver, and of its stage; region 0: none. */
struct near_place msg_direct_place(struct tca_msg_request *request, struct near_place *ret_stage);
/* Copies a part of a message from a private place to a receive. 0, or a negative errno: it is out
 * of reach. */
int msg_direct_read(struct tca_msg_request *request, struct near_place place, uint64_t position,
                    uint64_t bytes);
/* Copies what was offered: 1: it does, or has; 0: the receive has to grant its memory; or a
 * negative errno of its answer. */
int msg_direct_pull(struct tca_msg_request *request, const struct msg_offer *offer);
int msg_take_placed(struct msg_peer *peer, const struct msg_head *head, uint64_t bytes);

/* ---- stage.c */

/* The place of a stage for a send, which is to be offered. region 0: there is none. */
struct near_place msg_stage_place(struct tca_msg_request *request);
/* It has been offered: packs. */
void msg_stage_pack(struct tca_msg_request *request);
/* Its receiver has answered. */
void msg_stage_end(struct tca_msg_request *request);
void msg_stage_free(struct tca_msg_request *request);
void msg_stages_free(struct tca_msg *msg);
/* A receive takes its message from a stage. 1: it does, or has; 0: the stage is out of reach; or a
 * negative errno of its answer. */
int msg_stage_pull(struct tca_msg_request *request, const struct msg_offer *offer);
int msg_stage_progress(struct msg_direct *direct);
/* The other rank has failed. NULL is a no-op. */
void msg_stage_forget(struct msg_direct *direct);

/* ---- large.c */

/* Grants a receive's memory to the offer that it has matched, or makes it wait. */
int msg_grant(struct tca_msg_request *request);
/* The receive is complete without a grant, so is the send. */
int msg_tell_taken(struct tca_msg_request *request, int status);
int msg_take_grant(struct msg_peer *peer, struct tca_msg *msg, const struct msg_head *head,
                   struct msg_target *target);
/* Frees a plan that does not run, and what belongs to it. */
void msg_kept_free(struct tca_msg *msg, struct msg_kept *kept);
/* Whether the data of a receive has arrived: > 0, 0, or the error with which notifications end.
 * *ret_error: < 0 if the next one could not be granted. */
int msg_large_test(struct tca_msg_request *request, int *ret_error);
/* The sends of a peer. */
int msg_large_progress(struct msg_peer *peer, struct tca_msg *msg);

/* ---- pair.c */

/* Makes the plan that notifies the sender that the receive was started. */
int msg_pair_ready_new(struct tca_msg_request *request);
int msg_take_notice(struct msg_peer *peer, struct tca_msg *msg, const struct msg_head *head,
                    struct msg_target *target);
int msg_take_paired(struct msg_peer *peer, uint32_t index, bool is_short, uint64_t bytes);
int msg_take_recv_gone(struct msg_peer *peer, struct tca_msg *msg, uint32_t index, uint64_t starts);
int msg_take_send_gone(struct msg_peer *peer, struct tca_msg *msg, uint32_t index, uint64_t ends);
/* Sends the other rank a packet about the state of a pair. */
int msg_pair_tell(struct msg_peer *peer, struct tca_msg *msg, enum msg_kind kind, uint32_t index,
                  uint64_t value);
/* Frees what a notice holds. */
void msg_notice_forget(struct msg_notice *notice);
/* Whether all notifications of the starts of earlier receives of a send's index have been taken. */
bool msg_pair_is_quiet(const struct tca_msg_request *request);
/* Announces receives that wait for an index. */
int msg_pair_introduce(struct msg_peer *peer, struct tca_msg *msg);
/* Both sides are released: frees the index when `left` more notifications have arrived. */
void msg_pair_end(struct msg_peer *peer, struct tca_msg *msg, uint32_t index, uint64_t left);

/* ---- pair_run.c */

/* Starts a send that has found its receive. */
int msg_pair_launch(struct tca_msg_request *request);
/* A receive's send has come, and the pair is not short. */
int msg_pair_lengthen(struct tca_msg_request *request);
/* A receive is started, or has got its index after it was. */
int msg_pair_receive(struct tca_msg_request *request);
/* 1: the start is complete, 0: not yet, or the error of the peer. */
int msg_pair_test(struct tca_msg_request *request);
/* Releases it now or, if it is running, when it is complete. */
void msg_pair_release(struct tca_msg_request *request);
/* After a request's state has changed: if the program has released it, and it is complete, frees
 * it. */
void msg_pair_reap(struct tca_msg_request *request);
/* The sends that were released while they ran. */
int msg_pair_progress(struct msg_peer *peer);

/* ---- pair_short.c */

/* Make the pair of a receive or a send short, if its plans complete in order: is_short says
 * whether. */
int msg_short_offer(struct tca_msg_request *request);
int msg_short_join(struct tca_msg_request *request);
/* Starts a send, at once or when a place is free. */
int msg_short_start(struct tca_msg_request *request);
/* Makes a send wait for a place or, if it is not short, until its index is quiet. */
void msg_short_hold(struct tca_msg_request *request);
/* Starts the sends that need not wait any more. */
int msg_short_progress(struct msg_peer *peer);
/* tca_msg_wait() of a quick receive: looks for its message only, for a fraction of a microsecond,
 * and then calls msg_wait(). */
int msg_short_wait(struct tca_msg_request *request, int64_t timeout_ns);
/* Copies the message that has arrived to the receive's memory and, when due, confirms. */
int msg_short_receive(struct tca_msg_request *request);
/* Puts the number of messages received to the sender, or leaves it to a later call. */
int msg_short_confirm(struct tca_msg_request *request);
static inline bool msg_short_is_due(const struct tca_msg_request *request)
{
    return request->ends - request->confirmed >= MSG_CONFIRM;
}
/* Frees the plans of a request other than request->plan. */
void msg_short_free(struct tca_msg_request *request);

/* ---- wait.c */

int msg_wait(struct tca_msg_request *request, int64_t timeout_ns);
/* Withdraws receives, and waits until what is buffered has been sent and released sends are done,
 * at most the session's time-out. */
void msg_drain(struct tca_msg *msg);
