/*
 * hang: rank 0 of 2 waits for what rank 1 never sends: "hang notification", plan, message, several,
 * coll, thread, signal, condition or barrier. Its wait times out, which is expected, and it
 * ends; rank 1 waits for that. TCA_HANG is to have reported the wait meanwhile.
 */
#include <errno.h>
#include <stdbool.h>

#include "client/include/tca-coll.h"
#include "client/include/tca-msg.h"
#include "client/include/tca-signal.h"
#include "tests/integration/expect.h"

#define WAIT_NS INT64_C(1500000000)

static struct tca *session;

static int never(void *context)
{
    (void)context;
    return 0;
}

static int wait_plan(void)
{
    struct tca_plan_args args = {.name = "stuck"};
    struct tca_plan *plan;
    check(tca_plan_new(session, &args, &plan), "tca_plan_new");
    check(tca_plan_wait(plan, 1, 6, 2), "tca_plan_wait");
    check(tca_plan_commit(plan, TCA_DEFAULT), "tca_plan_commit");
    check(tca_start(plan), "tca_start");
    return tca_wait(plan, WAIT_NS);
}

static int wait_message(struct tca_msg *msg, bool several)
{
    static char bytes[64];
    const struct tca_msg_buffer buffer = {.address = bytes, .bytes = sizeof(bytes)};
    struct tca_msg_request *requests[2] = {NULL};
    check(tca_msg_recv(msg, 1, 7, &buffer, &requests[1]), "tca_msg_recv");
    return several ? tca_msg_wait_all(requests, 2, WAIT_NS) : tca_msg_wait(requests[1], WAIT_NS);
}

static int wait_signal(void)
{
    struct tca_region *region;
    check(tca_region_alloc(session, 4096, &region), "tca_region_alloc");
    return tca_signal_wait_until(session, tca_region_address(region), TCA_SIGNAL_GE, 5, WAIT_NS);
}

static int wait_for(const char *what, struct tca_msg *msg, struct tca_coll *coll)
{
    if (strcmp(what, "notification") == 0)
        return tca_notified_wait(session, 1, 5, WAIT_NS);
    if (strcmp(what, "plan") == 0)
        return wait_plan();
    if (msg)
        return wait_message(msg, strcmp(what, "several") == 0);
    if (strcmp(what, "signal") == 0)
        return wait_signal();
    if (strcmp(what, "barrier") == 0)
        return tca_barrier(session, WAIT_NS);
    if (!coll)
        return tca_wait_until(session, never, NULL, WAIT_NS);
    check(tca_coll_start(coll), "tca_coll_start");
    return tca_coll_wait(coll, WAIT_NS);
}

int main(int argc, char **argv)
{
    const char *what = argv[1];
    const struct tca_coll_args args = {.thread = strcmp(what, "thread") == 0};
    struct tca_msg *msg = NULL;
    struct tca_coll *coll = NULL;

    check(tca_open(NULL, &session), "tca_open");
    if (strcmp(what, "message") == 0 || strcmp(what, "several") == 0)
        check(tca_msg_new(session, NULL, &msg), "tca_msg_new");
    if (strcmp(what, "coll") == 0 || strcmp(what, "thread") == 0)
        check(tca_coll_barrier(session, &args, &coll), "tca_coll_barrier");
    rank = tca_rank(session);
    if (rank == 1) {
        tca_notified_wait(session, 0, 99, TCA_FOREVER);
        return 0;
    }
    expect(wait_for(what, msg, coll), -ETIMEDOUT,
           strcmp(what, "barrier") == 0 ? NULL : "within 1.5 s", what);
    return wrong;
}
