/* Whose message a receive has got, and which message a receive would get. */
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
    struct match_key key;
    struct tca_msg_status *status;
};

static int find(const struct probe *probe)
{
    const struct match_message *message = match_find_message(&probe->msg->matching, probe->key);

    if (!message)
        return 0;
    *probe->status = (struct tca_msg_status){
        .rank = match_key_of(message).rank,
        .tag = match_key_of(message).tag,
        .bytes = ((const struct msg_early *)message)->bytes, /* its first member */
    };
    return 1;
}

static int test(void *context)
{
    const struct probe *probe = context;

    if (find(probe))
        return 1;
    msg_progress(probe->msg, probe->peer);
    return find(probe) ? 1 : msg_cannot_come(probe->msg, probe->peer);
}

static void look_around(void *context)
{
    const struct probe *probe = context;

    msg_progress_all(probe->msg);
}

int tca_msg_probe(struct tca_msg *msg, uint32_t rank, uint32_t tag, int64_t timeout_ns,
                  struct tca_msg_status *ret_status)
{
    char waited[TIMEOUT_TEXT_BYTES];
    int r = msg_check_rank(msg, rank, true);

    if (r < 0)
        return r;
    struct probe probe = {.msg = msg,
                          .peer = rank == TCA_MSG_ANY ? NULL : &msg->peers[rank],
                          .key = {.rank = rank, .tag = tag},
                          .status = ret_status};
    const struct session_wait wait = {.ready = test, .rare = look_around, .context = &probe};
    r = session_wait_until(msg->session, &wait, timeout_ns);
    if (r == 0)
        return error_set(-ETIMEDOUT, "message: none to receive came %s",
                         session_timeout_text(msg->session, timeout_ns, waited));
    return r < 0 ? r : 0;
}
