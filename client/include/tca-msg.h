/*
 * tca-msg.h: two-sided messages: sends and receives with tags between the ranks of a group,
 * one-shot and persistent. Built on the plans of tca.h. Results, errors, times and threads: as in
 * tca.h.
 */
#ifndef TCA_MSG_H
#define TCA_MSG_H

#include "tca.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -------------------------------------------------------------- messages */

/* A *messenger* carries the messages of a group: all ranks of the session, or some of them
 * (tca-group.h), with the group's ranks. A send and a receive each make a *request*, which the
 * program tests or waits for, and releases:
 *
 *     tca_msg_new(session, NULL, &msg);
 *     tca_msg_recv(msg, left, TAG, &halo, &requests[0]);
 *     tca_msg_send(msg, right, TAG, &rim, &requests[1]);
 *     compute_interior();
 *     tca_msg_wait_all(requests, 2, TCA_FOREVER);
 *     tca_msg_release(requests[0]);
 *     tca_msg_release(requests[1]);
 *
 * *One-shot* messages. Each has a *context*, a number that keeps messages apart as MPI's
 * communicators do: tca_msg_send_to() and tca_msg_recv_from() name it, in the other calls it is 0.
 * A receive names the sending rank and the tag, or takes any (TCA_MSG_ANY); a message goes to the
 * receive that was made first of those that take it, and the messages of a rank are received in the
 * order in which they were sent, as far as receives take both. Messages of up to
 * TCA_MSG_EAGER_BYTES are buffered: the send is complete at once, unless the receiver is more than
 * 8 messages behind, and the message arrives without another call. The receiver keeps a copy of a
 * message that no receive matches yet; it accepts no more messages of a rank that has 65536 such
 * messages. A longer message goes straight from the sender's memory to the receiver's once
 * both have made their requests. The library keeps the plans for it, so that the next message
 * between the same places costs no commit. A *synchronous* send (TCA_MSG_SYNCHRONOUS) of any length
 * is complete only when a receive has got its message, or has failed because it was too long.
 * Within a node, unless a rail or the daemon's seat is requested, messages of up to 64 KiB, and
 * longer ones that are sent from a place for the first time or are not in a region, need no plan:
 * where the receive was made first and its memory is in a region, the sender copies into it, and is
 * complete at once; otherwise the receiver copies.
 *
 * *Persistent* messages. tca_msg_send_init() and tca_msg_recv_init() of two ranks form a *pair*:
 * the first send of a tag with the first receive of that tag, and so on; they never match one-shot
 * requests. The receiver sends its address once. Then each start of the pair costs one put with a
 * notification, and one notification back, which says that the receiver has started too. Within a
 * node, and in the client's seat also between nodes, messages to a receive with room for at most
 * TCA_MSG_SHORT_BYTES are buffered instead: the send is complete at once, unless the receiver is
 * more than 4 messages behind, because one put back confirms twelve of the sixteen that fit.
 *
 * Requests advance in calls of this header; waiting for those of one messenger advances those of
 * all messengers of the session. Persistent ones also advance in other waiting calls of the
 * library, unless they wait for a buffer. What such a call has started goes on while the program
 * computes, in the daemon's seat (TCA_SEAT_DAEMON) and between nodes.
 *
 * Memory may be anywhere. Data of persistent messages, and, between nodes, data longer than
 * TCA_MSG_EAGER_BYTES, is copied once more on each side where the memory is not in a region of the
 * session. So is data with a layout at the sender of a one-shot message, and at a receiver whose
 * layout has more than about a hundred irregular blocks. Within a node, where a rank copies without
 * a plan, contiguous data in a region is copied once. Other data goes through a buffer of the
 * sender of at most 256 KiB, in parts, while both ranks call the library: their processors share
 * the work. If the sender computes meanwhile, the receiver has the kernel copy the rest of
 * contiguous data (process_vm_readv(2)); tca_msg_reaches() says where the kernel does not permit
 * that: the receiver then waits for the sender.
 *
 * Messages of different lengths: a receive may be longer than its message; tca_msg_bytes() returns
 * the length. If it is shorter, nothing is received: the receive fails with -EMSGSIZE, and the send
 * completes.
 *
 * When a rank ends, other ranks' requests with it fail (-EOWNERDEAD or -EHOSTDOWN), as do those
 * that need memory that it has freed, for example with its messenger; messages that have arrived
 * can still be received. A receive from any rank fails, too, because that rank may have been the
 * one that was to send: tca_error_text() names it. One that is made afterwards waits for the
 * others. That a buffered send is complete says that its memory may be written
 * again, as in MPI, not that the message has arrived: until this process has been told that a rank
 * has ended, sends of up to TCA_MSG_EAGER_BYTES (persistent ones: TCA_MSG_SHORT_BYTES) to it are
 * complete, too, and are lost. The next call that concerns the rank fails then. If a request fails
 * with another error of a rail or of a plan, such as -ENETDOWN, all communication with that rank
 * ends. Messages to other ranks are not affected. -EPROTO: the rank has sent something invalid. */
#define TCA_MSG_EAGER_BYTES 2032
#define TCA_MSG_PAIRS       12
#define TCA_MSG_SHORT_BYTES 64
#define TCA_MSG_ANY         UINT32_MAX /* of a one-shot receive and a probe: any rank, any tag */

struct tca_msg;
struct tca_msg_request;
struct tca_msg_message;

/* Makes a messenger. Collective: all ranks of the group call it in the same order. args: the group
 * whose ranks exchange messages (tca-group.h; NULL: all ranks of the session), which can be freed
 * before the messenger; and rail, seat, channel, flags and name of its plans; may be NULL. Takes
 * 48 KiB for each rank of the group, and 32 KiB for each rank of another node to which this one
 * sends, or of any if a rail or the daemon's seat is requested. Its notification counters, a few
 * for each rank with which it exchanges messages, are kept until the session is closed (see
 * tca_plan_notify()), because others may still notify them after its release: use one messenger for
 * long rather than many. Also the errors of tca_group_allgather() and tca_region_alloc(). */
TCA_API int tca_msg_new(struct tca *session, const struct tca_plan_args *args,
                        struct tca_msg **ret_msg);

/* Releases the messenger and its requests; call it before the session is closed. Not collective:
 * first sends what is buffered and completes the sends that were released, for at most the
 * session's time-out. Receives that no message has matched are withdrawn. Other requests should be
 * complete; the rest is abandoned. NULL is a no-op. Returns NULL. */
TCA_API struct tca_msg *tca_msg_free(struct tca_msg *msg);

/* The memory of a message: `bytes` contiguous bytes, or those that a layout describes, with
 * `address` as its base (then `bytes` is ignored). A copy of a layout is kept for a persistent
 * request; that of a one-shot request must remain valid until the request is complete. */
struct tca_msg_buffer {
    void *address;
    uint64_t bytes;
    const struct tca_layout *layout;
};

/* Start sending to, or receiving from, a rank, which may be this one. A tag is any number but
 * TCA_MSG_ANY. Release ret_request with
 * tca_msg_release(). Messages of at most TCA_MSG_EAGER_BYTES that a receive expects need no
 * allocation and no system call, once as many requests have existed and as many messages were sent
 * before. -EINVAL, -ENOMEM, -EOWNERDEAD, -EHOSTDOWN. */
TCA_API int tca_msg_send(struct tca_msg *msg, uint32_t rank, uint32_t tag,
                         const struct tca_msg_buffer *buffer, struct tca_msg_request **ret_request);
TCA_API int tca_msg_recv(struct tca_msg *msg, uint32_t rank, uint32_t tag,
                         const struct tca_msg_buffer *buffer, struct tca_msg_request **ret_request);

/* What a message is matched by. */
struct tca_msg_envelope {
    uint32_t rank, tag; /* as in tca_msg_send() and tca_msg_recv() */
    uint32_t context;   /* any number: contexts need not be made, and cost nothing. A receive or a
                         * probe gets messages of its context only; order holds in each context */
    uint32_t flags;     /* of a send: TCA_MSG_SYNCHRONOUS; otherwise 0 */
};
#define TCA_MSG_SYNCHRONOUS 1

/* The same as tca_msg_send() and tca_msg_recv(), in any context. */
TCA_API int tca_msg_send_to(struct tca_msg *msg, const struct tca_msg_envelope *envelope,
                            const struct tca_msg_buffer *buffer,
                            struct tca_msg_request **ret_request);
TCA_API int tca_msg_recv_from(struct tca_msg *msg, const struct tca_msg_envelope *envelope,
                              const struct tca_msg_buffer *buffer,
                              struct tca_msg_request **ret_request);

/* Make persistent requests, without starting them. Take about a millisecond; do not wait for the
 * other rank. -EBUSY: TCA_MSG_PAIRS receives from this rank exist that were not released. A receive
 * beyond those whose pairs have not ended yet, because only this side was released, can be made and
 * started; it forms a pair when one of them has ended. */
TCA_API int tca_msg_send_init(struct tca_msg *msg, uint32_t rank, uint32_t tag,
                              const struct tca_msg_buffer *buffer,
                              struct tca_msg_request **ret_request);
TCA_API int tca_msg_recv_init(struct tca_msg *msg, uint32_t rank, uint32_t tag,
                              const struct tca_msg_buffer *buffer,
                              struct tca_msg_request **ret_request);

/* Starts a persistent request. A started send completes after its receive has been started or, if
 * its messages are buffered, when a buffer is free. -EBUSY: no test or wait has found its last
 * start complete. -ECANCELED: the other rank has released its side. */
TCA_API int tca_msg_start(struct tca_msg_request *request);

/* Tests whether a request is complete: a send's memory may be written again, or the message has
 * been received. 1: complete, or never started; 0: not yet; negative: it failed. */
TCA_API int tca_msg_test(struct tca_msg_request *request);

/* For programs that look at many requests, or poll something else, too: one call of
 * tca_msg_progress() advances all messages of the session, and then tca_msg_is_done() returns what
 * tca_msg_test() would, but advances no other message: a few instructions for a one-shot request.
 *
 *     for (uint64_t round = 0; found == 0; round++) {
 *         tca_msg_progress(msg);
 *         for (i = 0; i < count; i++)
 *             found += tca_msg_is_done(requests[i]) != 0;
 *         if (found == 0)
 *             tca_pause(round);
 *     }
 */
TCA_API void tca_msg_progress(struct tca_msg *msg);
TCA_API int tca_msg_is_done(struct tca_msg_request *request);

/* Withdraws a one-shot receive that no message has matched. 1: it is complete, gets no message, and
 * its memory is not written; tests and waits return -ECANCELED. 0: too late, or not a one-shot
 * receive: it continues, as if this had not been called. A message that would have matched it goes
 * to the next receive that takes it. */
TCA_API int tca_msg_cancel(struct tca_msg_request *request);

/* Waits until a request is complete: 0, -ETIMEDOUT (it continues), or the error with which it
 * failed. */
TCA_API int tca_msg_wait(struct tca_msg_request *request, int64_t timeout_ns);

/* Waits until all requests, which belong to one messenger, are complete; ignores NULL. Returns the
 * error of the first that failed, when all others are complete; or -ETIMEDOUT. */
TCA_API int tca_msg_wait_all(struct tca_msg_request *const *requests, uint32_t count,
                             int64_t timeout_ns);

/* Waits until one of the requests is complete or has failed, and returns its result; sets
 * *ret_index in both cases. Ignores NULL: set a request to NULL once it has been found. -EINVAL:
 * all are NULL. */
TCA_API int tca_msg_wait_any(struct tca_msg_request *const *requests, uint32_t count,
                             int64_t timeout_ns, uint32_t *ret_index);

/* Whose message a receive has got: rank and tag are those of the message once one has
 * been matched, before that as in tca_msg_recv(). Of a send: as in tca_msg_send(). bytes: as
 * tca_msg_bytes(). */
struct tca_msg_status {
    uint32_t rank, tag;
    uint64_t bytes;
};
TCA_API void tca_msg_status(const struct tca_msg_request *request,
                            struct tca_msg_status *ret_status);

/* Wait until a message is here that a receive of this rank and tag, or TCA_MSG_ANY, would get if
 * it were made now, and describe it; the message stays. timeout_ns 0: advances messages once.
 * -ETIMEDOUT: none came; -EINVAL: no such rank; -EOWNERDEAD, -EHOSTDOWN: none can come. */
TCA_API int tca_msg_probe(struct tca_msg *msg, uint32_t rank, uint32_t tag, int64_t timeout_ns,
                          struct tca_msg_status *ret_status);
TCA_API int tca_msg_probe_from(struct tca_msg *msg, const struct tca_msg_envelope *envelope,
                               int64_t timeout_ns, struct tca_msg_status *ret_status);

/* The same as tca_msg_probe_from(), and takes the message: no other receive and no probe gets it.
 * It waits for tca_msg_recv_message(), or for the messenger's release. A synchronous send is not
 * complete before that. */
TCA_API int tca_msg_take(struct tca_msg *msg, const struct tca_msg_envelope *envelope,
                         int64_t timeout_ns, struct tca_msg_message **ret_message,
                         struct tca_msg_status *ret_status);

/* Receives a message that was taken, as tca_msg_recv(), and releases it. -EINVAL, -ENOMEM: it is
 * not released, and can be received again; after any other error it cannot. */
TCA_API int tca_msg_recv_message(struct tca_msg_message *message,
                                 const struct tca_msg_buffer *buffer,
                                 struct tca_msg_request **ret_request);

/* Bytes of the message that a receive has received, or, after -EMSGSIZE, of the one that was too
 * long. */
TCA_API uint64_t tca_msg_bytes(const struct tca_msg_request *request);

/* Releases a request. If it is running: a one-shot receive that no message has matched is
 * withdrawn; any other request continues, and its memory must remain valid. A side of a pair is
 * released when it is complete; that the other side was released completes it, too. NULL is a
 * no-op. Returns NULL. */
TCA_API struct tca_msg_request *tca_msg_release(struct tca_msg_request *request);

/* Whether this rank copies from and to any memory of a rank: 0, or why it does not, in
 * tca_error_text(). -EOPNOTSUPP: they are on different nodes, tcad or the rank is in another PID
 * namespace, or tca_msg_new() has requested a rail or the daemon's seat; -EPERM, -ENOSYS: the
 * kernel does not permit it (kernel.yama.ptrace_scope, a seccomp profile, prctl(PR_SET_DUMPABLE));
 * -ESRCH: the rank's process has ended; -EINVAL, -ENOMEM. Asks tcad before the first message to or
 * from the rank, and the kernel each time. */
TCA_API int tca_msg_reaches(struct tca_msg *msg, uint32_t rank);

/* Releases the plans that were kept for long one-shot messages and are not in use, so that their
 * regions can be freed (tca_region_free() returns -EBUSY before). */
TCA_API void tca_msg_forget(struct tca_msg *msg);

#ifdef __cplusplus
}
#endif

#endif
