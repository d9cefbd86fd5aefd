/* Whose message a receive has got, and which message a receive would get, if it is not taken out of
 * the matching for a receive that names it. */
#include <errno.h>

#include "client/core/error.h"
#include "client/core/wait.h"
#include "client/msg/msg.h"

void tca_msg_status(const struct tca_msg_request *request, struct tca_msg_status *ret_status)
{
    *ret_status = (struct tca_msg_status){
        .rank = request->peer ? request->peer->rank : TCA_MSG_ANY,
        .tag = request->tag,
        .bytes = request->bytes,
    };
}

struct probe {
    struct tca_msg *msg;
    struct msg_peer *peer; /* NULL: any */
    const struct tca_msg_envelope *envelope;
    struct tca_msg_message *found;
};

static int test(void *context)
{
    struct probe *probe = context;

    if ((probe->found = msg_find(probe->msg, probe->envelope)))
        return 1;
    msg_progress(probe->msg, probe->peer);
    if ((probe->found = msg_find(probe->msg, probe->envelope)))
        return 1;
    return msg_cannot_come(probe->msg, probe->peer);
}

static void look_around(void *context)
{
    const struct probe *probe = context;

    msg_progress_all(probe->msg);
}

static __attribute__((noinline, cold)) int overdue(const void *context, int64_t timeout_ns)
{
    const struct probe *probe = context;
    char waited[TIMEOUT_TEXT_BYTES];

    return error_set(-ETIMEDOUT, "message: none to receive came %s",
                     session_timeout_text(probe->msg->session, timeout_ns, waited));
}

/* Finds a message, and describes it. */
static int find(struct tca_msg *msg, const struct tca_msg_envelope *envelope, int64_t timeout_ns,
                struct tca_msg_message **ret_message, struct tca_msg_status *ret_status)
{
    int r = msg_check_rank(msg, envelope->rank, true);

    if (r < 0)
        return r;
    if (envelope->flags)
        return error_set(-EINVAL, "message: flags %u of a probe, which takes none",
                         envelope->flags);
    struct probe probe = {.msg = msg,
                          .peer =
                              envelope->rank == TCA_MSG_ANY ? NULL : &msg->peers[envelope->rank],
                          .envelope = envelope};
    const struct session_wait wait = {
        .ready = test, .rare = look_around, .overdue = overdue, .context = &probe};
    r = timeout_ns == 0 ? test(&probe) : session_wait_until(msg->session, &wait, timeout_ns);
    if (r == 0 && timeout_ns == 0)
        return error_static(-ETIMEDOUT, "message: none to receive is here");
    if (r < 0)
        return r;
    const struct match_key key = match_key_of(&probe.found->matched);
    *ret_message = probe.found;
    *ret_status = (struct tca_msg_status){
        .rank = key.rank, .tag = key.tag, .bytes = probe.found->offer.bytes};
    return 0;
}

int tca_msg_probe_from(struct tca_msg *msg, const struct tca_msg_envelope *envelope,
                       int64_t timeout_ns, struct tca_msg_status *ret_status)
{
    struct tca_msg_message *message;

    return find(msg, envelope, timeout_ns, &message, ret_status);
}

int tca_msg_probe(struct tca_msg *msg, uint32_t rank, uint32_t tag, int64_t timeout_ns,
                  struct tca_msg_status *ret_status)
{
    const struct tca_msg_envelope envelope = {.rank = rank, .tag = tag};

    return tca_msg_probe_from(msg, &envelope, timeout_ns, ret_status);
}

int tca_msg_take(struct tca_msg *msg, const struct tca_msg_envelope *envelope, int64_t timeout_ns,
                 struct tca_msg_message **ret_message, struct tca_msg_status *ret_status)
{
    const int r = find(msg, envelope, timeout_ns, ret_message, ret_status);

    if (r >= 0)
        msg_take_out(*ret_message);
    return r;
}
