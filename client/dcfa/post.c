/* Transfers: entries go into queues in this process's memory, completions are taken from there. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

#include "client/core/clock.h"
#include "client/core/error.h"
#include "client/core/wait.h"
#include "client/dcfa/dcfa.h"

static_assert((int)DCFA_SEND == (int)DCFA_OP_SEND && (int)DCFA_READ == (int)DCFA_OP_READ &&
                  (int)DCFA_RECEIVE_WRITE == (int)DCFA_OP_RECEIVE_IMMEDIATE &&
                  (int)DCFA_SIGNALLED == (int)DCFA_FLAG_SIGNALLED &&
                  (int)DCFA_INLINE == (int)DCFA_FLAG_INLINE &&
                  (int)DCFA_FENCE == (int)DCFA_FLAG_FENCE &&
                  (int)DCFA_DEVICE_ERROR == (int)DCFA_ST_DEVICE &&
                  (int)DCFA_PIECES == (int)DCFA_PIECES_MAX &&
                  (int)DCFA_INLINE_BYTES == (int)DCFA_INLINE_MAX_BYTES,
              "public and wire values are the same");

/* ---- posting ---- */

static int push(struct dcfa *processor, struct ring *ring, const struct dcfa_entry *entry)
{
    int r = ring_push(ring, entry);
    if (__builtin_expect(r < 0, 0))
        return r == -EAGAIN ? error_static(-EAGAIN, "the queue is full: poll its completion queue")
                            : error_static(r, "the queue was overwritten");
    /* pairs with the fence in port_arm() (drivers/manycore/port_serve.c): either this sees `armed`,
     * or tcad sees the entry */
    atomic_thread_fence(memory_order_seq_cst);
    if (__builtin_expect(atomic_load_explicit(&processor->head->armed, memory_order_relaxed) != 0,
                         0) &&
        atomic_exchange_explicit(&processor->head->armed, 0, memory_order_relaxed) == 1)
        eventfd_write(processor->wake_fd, 1);
    return 0;
}

static int check_pieces(const struct dcfa_piece *pieces, uint32_t count, uint64_t bytes_max)
{
    uint64_t bytes = 0;
    if (count > DCFA_PIECES)
        return error_set(-EINVAL, "%u pieces: an entry has at most %d", count, DCFA_PIECES);
    for (uint32_t i = 0; i < count; i++)
        bytes += pieces[i].bytes;
    return bytes <= bytes_max ? 0
                              : error_set(-EINVAL, "%llu bytes: an entry has at most %llu",
                                          (unsigned long long)bytes, (unsigned long long)bytes_max);
}

static void take_pieces(const struct dcfa_piece *pieces, uint32_t count, struct dcfa_entry *entry)
{
    for (uint32_t i = 0; i < count; i++)
        entry->pieces[i] =
            (struct dcfa_piece_entry){(uintptr_t)pieces[i].address, pieces[i].bytes, pieces[i].key};
    entry->count = (uint16_t)count;
}

static void take_inline(const struct dcfa_piece *pieces, uint32_t count, struct dcfa_entry *entry)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(entry->data + at, pieces[i].address, pieces[i].bytes);
        at += pieces[i].bytes;
    }
    entry->count = (uint16_t)at;
}

static int push_send(struct dcfa_qp *qp, const struct dcfa_send *send)
{
    struct dcfa_entry entry = {
        .id = send->id,
        .remote_address = send->remote_address,
        .remote_key = send->remote_key,
        .immediate = send->immediate,
        .opcode = (uint8_t)send->what,
        .flags = (uint8_t)send->flags,
    };
    if (send->flags & DCFA_INLINE)
        take_inline(send->pieces, send->piece_count, &entry);
    else
        take_pieces(send->pieces, send->piece_count, &entry);
    return push(qp->object.processor, &qp->send, &entry);
}

int dcfa_post_send(struct dcfa_qp *qp, const struct dcfa_send *send)
{
    if (send->what > DCFA_READ || send->flags & ~(uint32_t)DCFA_FLAGS_SEND ||
        (send->what == DCFA_READ && send->flags & DCFA_INLINE))
        return error_set(-EINVAL, "operation %u cannot be posted with flags 0x%x", send->what,
                         send->flags);
    if (!qp->connected)
        return error_static(-ENOTCONN, "the queue pair is not connected: dcfa_qp_connect()");
    int r = check_pieces(send->pieces, send->piece_count,
                         send->flags & DCFA_INLINE ? DCFA_INLINE_BYTES : DCFA_MESSAGE_MAX_BYTES);
    if (r < 0)
        return r;
    return qp->direct_send.shared ? direct_post_send(qp, send) : push_send(qp, send);
}

int dcfa_post_receive(struct dcfa_qp *qp, uint64_t id, const struct dcfa_piece *pieces,
                      uint32_t piece_count)
{
    struct dcfa_entry entry = {.id = id};
    int r = check_pieces(pieces, piece_count, DCFA_MESSAGE_MAX_BYTES);
    if (r < 0)
        return r;
    if (qp->direct_receive.shared)
        return direct_post_receive(qp, id, pieces, piece_count);
    take_pieces(pieces, piece_count, &entry);
    return push(qp->object.processor, &qp->receive, &entry);
}

/* ---- completions ---- */

int dcfa_poll(struct dcfa_cq *cq, uint32_t max, struct dcfa_completion *ret_completions)
{
    uint32_t n = 0;
    struct dcfa_completion_entry entry;
    int r = 0;
    if (cq->direct.shared)
        return direct_poll(cq, max, ret_completions);
    while (n < max && (r = ring_pop(&cq->ring, &entry)) > 0)
        ret_completions[n++] = (struct dcfa_completion){
            .id = entry.id,
            .qp = entry.qp,
            .what = entry.opcode,
            .result = entry.status,
            .bytes = entry.bytes,
            .immediate = entry.immediate,
            .has_immediate = !!(entry.flags & DCFA_FLAG_IMMEDIATE),
        };
    if (__builtin_expect(n == 0 && r < 0, 0))
        return error_static(r, "the completion queue was overwritten");
    return (int)n;
}

/* Sleeps for at most a millisecond, because completions wake nobody. The socket is readable when
 * tcad has ended. */
static void doze(const struct tca *session)
{
    struct pollfd fd = {.fd = session->control.fd, .events = POLLIN};
    poll(&fd, 1, 1);
}

int dcfa_wait(struct dcfa_cq *cq, uint32_t max, int64_t timeout_ns,
              struct dcfa_completion *ret_completions)
{
    struct tca *session = cq->object.processor->session;
    char waited[TIMEOUT_TEXT_BYTES];
    int64_t left_ns;
    int r = session_timeout(session, timeout_ns, &left_ns);
    if (r < 0)
        return r;
    const uint64_t end_ns = clock_end(left_ns);
    waiter_begin(&session->waiter);
    while ((r = dcfa_poll(cq, max, ret_completions)) == 0) {
        enum waiter_advice advice = waiter_step(&session->waiter);
        if (advice == WAITER_AGAIN)
            continue;
        if (advice == WAITER_SLEEP) {
            doze(session);
            waiter_begin(&session->waiter);
        }
        if ((r = session_drain(session)) < 0)
            return r;
        if (clock_left(end_ns) == 0)
            return error_set(-ETIMEDOUT, "the queue has had no completion %s",
                             session_timeout_text(session, timeout_ns, waited));
    }
    return r;
}

const char *dcfa_result_name(uint32_t result)
{
    static const char *const names[] = {
        [DCFA_OK] = "ok",
        [DCFA_MALFORMED] = "malformed entry",
        [DCFA_LENGTH] = "the message is longer than the receive",
        [DCFA_ACCESS] = "memory is not registered in the queue pair's domain",
        [DCFA_FLUSHED] = "flushed: the queue pair has failed",
        [DCFA_REMOTE_ACCESS] = "the remote memory is not registered for this access",
        [DCFA_REMOTE_REFUSED] = "refused by the peer",
        [DCFA_UNREACHABLE] = "the peer does not respond",
        [DCFA_DEVICE_ERROR] = "error of the device",
    };
    return result < sizeof(names) / sizeof(names[0]) ? names[result] : "?";
}
