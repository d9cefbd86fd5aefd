/* Testing, waiting and releasing. Waiting advances the messages of all ranks and all messengers of
 * the session: another rank may wait for an answer, also in another group, before it sends what
 * this one waits for. */
#include "client/msg/msg.h"

#include <errno.h>

#include "client/core/error.h"
#include "client/core/wait.h"

enum { ALL_EVERY = 16 }; /* calls: the other ranks */

/* ---- one request */

static __attribute__((noinline, cold)) int failure_of(const struct tca_msg_request *request)
{
    const struct msg_peer *peer = request->peer;

    if (request->status == -EMSGSIZE)
        return error_set(-EMSGSIZE,
                         "message from rank %u, tag %u: %llu bytes: the receive has room for %llu",
                         peer->rank, request->tag, (unsigned long long)request->bytes,
                         (unsigned long long)request->room);
    if (request->status == -ECANCELED && !request->persistent)
        return error_static(-ECANCELED, "message: the receive was cancelled");
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

/* Perhaps of a plan for which no request waits. */
static __attribute__((noinline, cold)) void find_failures(struct tca_msg *msg, uint64_t failures)
{
    for (uint32_t rank = 0; rank < msg->size; rank++)
        msg_peer_check(&msg->peers[rank], msg);
    msg->failures = failures;
}

void msg_progress_all(struct tca_msg *first)
{
    const uint64_t failures = session_failures(first->session);
    struct tca_msg *msg = first;

    session_advance(first->session);
    do {
        for (struct msg_peer *peer = msg->peers, *end = peer + msg->size; peer < end; peer++)
            if (!msg_peer_is_quiet(peer, msg))
                msg_peer_progress(peer, msg);
        if (failures != msg->failures)
            find_failures(msg, failures);
        msg = msg->next;
    } while (msg != first);
}

void msg_progress(struct tca_msg *msg, struct msg_peer *peer)
{
    if (!peer || ++msg->calls % ALL_EVERY == 0)
        msg_progress_all(msg);
    else
        msg_peer_progress(peer, msg);
}

static bool is_open(const struct tca_msg_request *request)
{
    return request->state > MSG_DONE;
}

static void test_pair(struct tca_msg_request *request)
{
    int r = msg_pair_test(request);

    if (r < 0 && request->sends)
        msg_peer_lost(request->peer, request->msg, r);
}

static inline int result_so_far(const struct tca_msg_request *request)
{
    if (is_open(request))
        return 0;
    return request->state == MSG_IDLE ? 1 : result_of(request);
}

int tca_msg_is_done(struct tca_msg_request *request)
{
    if (request->persistent && request->state == MSG_MOVING)
        test_pair(request);
    return result_so_far(request);
}

int tca_msg_test(struct tca_msg_request *request)
{
    if (request->persistent && request->state == MSG_MOVING)
        test_pair(request);
    if (is_open(request))
        msg_progress(request->msg, request->peer);
    return result_so_far(request);
}

void tca_msg_progress(struct tca_msg *msg)
{
    msg_progress_all(msg);
}

/* ---- waits */

/* Called before each sleep, and occasionally while spinning. */
static void look_around(void *context)
{
    const struct tca_msg_request *request = context;

    msg_progress_all(request->msg);
}

static __attribute__((noinline, cold)) int overdue(const struct tca_msg_request *request,
                                                   int64_t timeout_ns)
{
    char waited[TIMEOUT_TEXT_BYTES];

    if (!request->peer)
        return error_set(-ETIMEDOUT, "message from any rank: none came %s",
                         session_timeout_text(request->msg->session, timeout_ns, waited));
    return error_set(-ETIMEDOUT, "message %s rank %u, tag %u: %s %s",
                     request->sends ? "to" : "from", request->peer->rank, request->tag,
                     request->sends ? "not received" : "none came",
                     session_timeout_text(request->msg->session, timeout_ns, waited));
}

static __attribute__((cold)) int one_overdue(const void *context, int64_t timeout_ns)
{
    return overdue(context, timeout_ns);
}

static int test_one(void *context)
{
    return tca_msg_test(context);
}

static __attribute__((noinline)) int wait_for(struct tca_msg_request *request, int64_t timeout_ns)
{
    const struct session_wait wait = {
        .ready = test_one, .rare = look_around, .overdue = one_overdue, .context = request};
    int r = session_wait_until(request->msg->session, &wait, timeout_ns);

    return r < 0 ? r : 0;
}

int msg_wait(struct tca_msg_request *request, int64_t timeout_ns)
{
    int r = tca_msg_test(request);

    if (r == 0)
        return wait_for(request, timeout_ns);
    return r < 0 ? r : 0;
}

int tca_msg_wait(struct tca_msg_request *request, int64_t timeout_ns)
{
    if (request->state == MSG_DONE && request->status == 0)
        return 0;
    if (request->quick && request->state == MSG_MOVING && !request->sends && !request->arrived)
        return msg_short_wait(request, timeout_ns);
    return msg_wait(request, timeout_ns);
}

/* Several requests of one messenger. */
struct several {
    struct tca_msg *msg;
    struct tca_msg_request *const *requests;
    uint32_t count, next;
    bool ended;                           /* `next` has, of any */
    const struct tca_msg_request *failed; /* the first */
};

static void look_around_all(void *context)
{
    const struct several *several = context;

    msg_progress_all(several->msg);
}

/* Of the first that is not done. */
static __attribute__((cold)) int several_overdue(const void *context, int64_t timeout_ns)
{
    const struct several *several = context;
    return overdue(several->requests[several->next], timeout_ns);
}

static int wait_several(struct several *several, int (*ready)(void *context), int64_t timeout_ns)
{
    const struct session_wait wait = {
        .ready = ready, .rare = look_around_all, .overdue = several_overdue, .context = several};

    return session_wait_until(several->msg->session, &wait, timeout_ns);
}

static struct several several_of(struct tca_msg_request *const *requests, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (requests[i])
            return (struct several){
                .msg = requests[i]->msg, .requests = requests, .count = count, .next = i};
    return (struct several){.msg = NULL};
}

static int test_all(void *context)
{
    struct several *several = context;

    for (; several->next < several->count; several->next++) {
        struct tca_msg_request *request = several->requests[several->next];
        int r = request ? tca_msg_test(request) : 1;
        if (r == 0)
            return 0;
        if (r < 0 && !several->failed)
            several->failed = request;
    }
    return 1;
}

int tca_msg_wait_all(struct tca_msg_request *const *requests, uint32_t count, int64_t timeout_ns)
{
    struct several several = several_of(requests, count);

    if (!several.msg)
        return 0;
    int r = wait_several(&several, test_all, timeout_ns);
    if (r > 0 && several.failed)
        return result_of(several.failed);
    return r < 0 ? r : 0;
}

static int find_done(struct several *several)
{
    int r = 0;

    for (uint32_t i = 0; i < several->count && r == 0; i++)
        if (several->requests[i] && (r = tca_msg_is_done(several->requests[i])) != 0)
            several->next = i;
    several->ended = r != 0;
    return r;
}

static int test_any(void *context)
{
    struct several *several = context;
    int r = find_done(several);

    if (r != 0)
        return r;
    msg_progress_all(several->msg);
    return find_done(several);
}

int tca_msg_wait_any(struct tca_msg_request *const *requests, uint32_t count, int64_t timeout_ns,
                     uint32_t *ret_index)
{
    struct several several = several_of(requests, count);

    if (!several.msg)
        return error_static(-EINVAL, "message: no request to wait for");
    int r = wait_several(&several, test_any, timeout_ns);
    if (!several.ended)
        return r;
    *ret_index = several.next;
    return r < 0 ? r : 0;
}

uint64_t tca_msg_bytes(const struct tca_msg_request *request)
{
    return request->bytes;
}

/* ---- the end */

/* Of a one-shot request. False: it is no receive, or a message has matched it, or is about to. */
static bool withdraw(struct tca_msg_request *request)
{
    if (request->state != MSG_POSTED || !msg_announce_withdraw(request))
        return false;
    match_withdraw(&request->msg->matching, &request->posted);
    return true;
}

int tca_msg_cancel(struct tca_msg_request *request)
{
    if (request->persistent || !withdraw(request))
        return 0;
    msg_done(request, -ECANCELED);
    return 1;
}

struct tca_msg_request *tca_msg_release(struct tca_msg_request *request)
{
    if (!request)
        return NULL;
    if (request->persistent) {
        msg_pair_release(request);
    } else if (__builtin_expect(!is_open(request), 1)) {
        msg_request_free(request);
    } else if (withdraw(request)) {
        msg_request_free(request);
    } else {
        request->released = true;
    }
    return NULL;
}

/* Nothing may be written to their memory any more. */
static void withdraw_receives(struct tca_msg *msg)
{
    for (uint32_t i = 0; i < msg->request_count; i++) {
        struct tca_msg_request *request = msg->requests[i];
        if (request->used && !request->persistent && request->state == MSG_POSTED)
            tca_msg_release(request);
    }
}

/* A receive that could not be withdrawn: its sender is copying. */
static bool is_claimed(const struct tca_msg_request *request)
{
    return request->released && !request->persistent && request->state == MSG_POSTED;
}

/* Packets wait for room. Or sends run: those that the program still holds are complete, or are
 * abandoned. */
static bool has_work(const struct tca_msg *msg)
{
    for (uint32_t rank = 0; rank < msg->size; rank++)
        if (msg->peers[rank].out)
            return true;
    for (uint32_t i = 0; i < msg->request_count; i++) {
        const struct tca_msg_request *request = msg->requests[i];
        if (request->used && request->sends && is_open(request) && request->released)
            return true;
        if (request->used && request->state == MSG_QUEUED &&
            (request->sends || !request->persistent))
            return true;
        if (request->used && is_claimed(request))
            return true;
    }
    return false;
}

static int is_drained(void *context)
{
    struct tca_msg *msg = context;

    msg_progress_all(msg);
    return !has_work(msg);
}

void msg_drain(struct tca_msg *msg)
{
    const struct session_wait wait = {.ready = is_drained, .context = msg};

    withdraw_receives(msg);
    session_wait_until(msg->session, &wait, TCA_DEFAULT);
}
