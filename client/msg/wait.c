/* Testing, waiting and releasing. Waiting advances the messages of all ranks: another one may wait
 * for an answer before it sends what this one waits for. */
#include "client/msg/msg.h"

#include <errno.h>
#include <time.h>

#include "client/core/error.h"
#include "client/core/timeout.h"

enum {
    ALL_EVERY = 16,     /* calls: the other ranks */
    CHECK_EVERY = 4096, /* calls: whether plans have failed */
    CLOCK_EVERY = 8,    /* rounds of a wait */
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- one request */

static __attribute__((noinline, cold)) int failure_of(const struct tca_msg_request *request)
{
    const struct msg_peer *peer = request->peer;

    if (request->status == -EMSGSIZE)
        return error_set(-EMSGSIZE,
                         "message from rank %u, tag %u: %llu bytes: the receive has room for %llu",
                         peer->rank, request->tag, (unsigned long long)request->bytes,
                         (unsigned long long)request->room);
    if (peer->failed && request->status == peer->failed)
        return msg_peer_failed(peer);
    return error_set(request->status, "message %s rank %u, tag %u: %s",
                     request->sends ? "to" : "from", peer->rank, request->tag,
                     request->status == -ECANCELED ? "the other side was released"
                                                   : tca_strerror(request->status));
}

static inline int result_of(const struct tca_msg_request *request)
{
    return __builtin_expect(request->status == 0, 1) ? 1 : failure_of(request);
}

static void progress_all(struct tca_msg *msg)
{
    bool check = msg->calls % CHECK_EVERY == 0;

    for (uint32_t rank = 0; rank < msg->size; rank++) {
        msg_peer_progress(&msg->peers[rank], msg);
        if (check)
            msg_peer_check(&msg->peers[rank], msg);
    }
}

static void progress(struct tca_msg *msg, struct msg_peer *peer)
{
    if (++msg->calls % ALL_EVERY == 0)
        progress_all(msg);
    else
        msg_peer_progress(peer, msg);
}

static bool is_open(const struct tca_msg_request *request)
{
    return request->state != MSG_IDLE && request->state != MSG_DONE;
}

int tca_msg_test(struct tca_msg_request *request)
{
    if (request->persistent && request->state == MSG_MOVING) {
        int r = msg_pair_test(request);
        if (r < 0 && request->sends)
            msg_peer_lost(request->peer, request->msg, r);
    }
    if (is_open(request))
        progress(request->msg, request->peer);
    if (is_open(request))
        return 0;
    return request->state == MSG_IDLE ? 1 : result_of(request);
}

/* ---- waits */

struct deadline {
    uint64_t end_ns; /* 0: before the first look at the clock */
    int64_t timeout_ns;
    uint64_t round;
};

static int deadline_init(struct tca_msg *msg, int64_t timeout_ns, struct deadline *ret_deadline)
{
    *ret_deadline = (struct deadline){0};
    return session_timeout(msg->session, timeout_ns, &ret_deadline->timeout_ns);
}

/* After an unsuccessful test: whether the time is over. */
static bool is_over(struct deadline *deadline)
{
    if (deadline->timeout_ns == 0)
        return true;
    if (deadline->timeout_ns > 0 && deadline->round % CLOCK_EVERY == 0) {
        uint64_t now = now_ns();
        if (deadline->end_ns == 0)
            deadline->end_ns = now + (uint64_t)deadline->timeout_ns;
        if (now >= deadline->end_ns)
            return true;
    }
    tca_pause(deadline->round++);
    return false;
}

static __attribute__((noinline, cold)) int overdue(const struct tca_msg_request *request)
{
    return error_set(-ETIMEDOUT, "message %s rank %u, tag %u: timed out",
                     request->sends ? "to" : "from", request->peer->rank, request->tag);
}

static int wait_until(struct tca_msg_request *request, struct deadline *deadline)
{
    int r;

    while ((r = tca_msg_test(request)) == 0)
        if (is_over(deadline))
            return overdue(request);
    return r < 0 ? r : 0;
}

int tca_msg_wait(struct tca_msg_request *request, int64_t timeout_ns)
{
    struct deadline deadline;
    int r = deadline_init(request->msg, timeout_ns, &deadline);

    return r < 0 ? r : wait_until(request, &deadline);
}

static const struct tca_msg_request *first_of(struct tca_msg_request *const *requests,
                                              uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (requests[i])
            return requests[i];
    return NULL;
}

int tca_msg_wait_all(struct tca_msg_request *const *requests, uint32_t count, int64_t timeout_ns)
{
    const struct tca_msg_request *failed = NULL, *one = first_of(requests, count);
    struct deadline deadline;
    int r = one ? deadline_init(one->msg, timeout_ns, &deadline) : 0;

    for (uint32_t i = 0; r >= 0 && i < count; i++) {
        if (!requests[i])
            continue;
        r = wait_until(requests[i], &deadline);
        if (r < 0 && is_open(requests[i]))
            return r; /* timed out */
        if (r < 0 && !failed)
            failed = requests[i];
        r = 0;
    }
    return failed ? result_of(failed) : r;
}

int tca_msg_wait_any(struct tca_msg_request *const *requests, uint32_t count, int64_t timeout_ns,
                     uint32_t *ret_index)
{
    const struct tca_msg_request *one = first_of(requests, count);
    struct deadline deadline;

    if (!one)
        return error_static(-EINVAL, "message: no request to wait for");
    int r = deadline_init(one->msg, timeout_ns, &deadline);
    while (r >= 0) {
        for (uint32_t i = 0; i < count; i++)
            if (requests[i] && (r = tca_msg_test(requests[i])) != 0) {
                *ret_index = i;
                return r < 0 ? r : 0;
            }
        if (is_over(&deadline))
            r = overdue(one);
    }
    return r;
}

uint64_t tca_msg_bytes(const struct tca_msg_request *request)
{
    return request->bytes;
}

/* ---- the end */

struct tca_msg_request *tca_msg_release(struct tca_msg_request *request)
{
    if (!request)
        return NULL;
    if (request->persistent) {
        msg_pair_release(request);
    } else if (!is_open(request)) {
        msg_request_free(request);
    } else if (request->state == MSG_POSTED) {
        msg_list_remove(&request->peer->posted, request);
        msg_request_free(request);
    } else {
        request->released = true;
    }
    return NULL;
}

/* Sends that the program still holds are complete, or it gives them up. */
static bool has_work(const struct tca_msg *msg)
{
    for (uint32_t i = 0; i < msg->request_count; i++) {
        const struct tca_msg_request *request = msg->requests[i];
        if (request->used && request->sends && !request->persistent && is_open(request) &&
            (request->released || request->state == MSG_QUEUED))
            return true;
    }
    return false;
}

void msg_drain(struct tca_msg *msg)
{
    struct deadline deadline;

    if (deadline_init(msg, TCA_DEFAULT, &deadline) < 0)
        return;
    while (has_work(msg) && !is_over(&deadline))
        progress_all(msg);
}
