/*
 * goes-on all|qmp TCAD: every waiting call of the headers moves on starts that wait. For each call:
 * rank 0 starts a plan that waits for a plan of rank 1, which waits for rank 0, and makes the call.
 * Rank 1 ends the call only after rank 0's plan has gone on. Requests to tcad (process TCAD), which
 * none of the ranks can hold up, find it stopped until then. Ends with 0, or prints what was wrong.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/include/tca-coll.h"
#include "client/include/tca-halo.h"
#include "client/include/tca-qmp.h"
#include "tests/integration/expect.h"

enum { TAG, AHEAD = 20, REGION_BYTES = 1 << 20, HEAP_BYTES = 64 << 20 };
enum { SLOT_BEGUN, SLOT_BACK, SLOT_GOES_ON, SLOT_END };

static struct tca *session;
static pid_t tcad;
static struct tca_plan *goes_on, *back, *tell_begun, *tell_end, *waiter;
static struct tca_region *region, *extra;
static void *memory;
static struct tca_coll *coll;
static struct tca_halo *halo;
static struct tca_msg *msg;
static struct tca_msg_request *requests[AHEAD];
static struct tca_qmp *qmp;
static double value;

/* ---- the calls, and what ends them at rank 1 */

static struct tca_plan *plan_of(uint32_t from, uint32_t wait_slot, uint32_t to,
                                uint32_t notify_slot)
{
    static const struct tca_plan_args args = {.seat = TCA_SEAT_CLIENT};
    struct tca_plan *plan;
    check(tca_plan_new(session, &args, &plan), "plan");
    if (from < 2)
        check(tca_plan_wait(plan, from, wait_slot, 1), "wait step");
    if (to < 2)
        check(tca_plan_notify(plan, to, notify_slot), "notify step");
    check(tca_plan_commit(plan, TCA_DEFAULT), "commit");
    return plan;
}

static int end_it(void)
{
    return tca_start(tell_end);
}

static int barrier(void)
{
    return tca_barrier(session, TCA_DEFAULT);
}

static int allgather(void)
{
    int all[2];
    return tca_allgather(session, &wrong, sizeof(wrong), all, TCA_DEFAULT);
}

static int lookup(void)
{
    struct tca_handle handle;
    return tca_lookup(session, "name", TCA_DEFAULT, &handle);
}

static int publish(void)
{
    struct tca_handle handle;
    check(tca_region_handle(region, 0, TCA_ALL, &handle), "handle");
    return tca_publish(session, rank == 1 ? "name" : "other", &handle);
}

static void make_waiter(void)
{
    if (rank == 0) {
        waiter = plan_of(1, SLOT_END, 2, 0);
        check(tca_start(waiter), "start");
    }
}

static int wait_plan(void)
{
    return tca_wait(waiter, TCA_DEFAULT);
}

static int free_plan(void)
{
    waiter = tca_plan_free(waiter);
    return 0;
}

static int has_ended(void *context)
{
    (void)context;
    return tca_notified(session, 1, SLOT_END);
}

static int wait_until(void)
{
    int r = tca_wait_until(session, has_ended, NULL, TCA_DEFAULT);
    return r > 0 ? 0 : r;
}

static int notified_wait(void)
{
    return tca_notified_wait(session, 1, SLOT_END, TCA_DEFAULT);
}

static int notified_wait_any(void)
{
    uint32_t from;
    return tca_notified_wait_any(session, SLOT_END, TCA_DEFAULT, &from);
}

/* ---- collective operations and halos */

static int coll_new(void)
{
    return tca_coll_barrier(session, NULL, &coll);
}

static int coll_run(void)
{
    int r = tca_coll_start(coll);
    return r < 0 ? r : tca_coll_wait(coll, TCA_DEFAULT);
}

static void coll_start(void)
{
    if (rank == 0)
        check(tca_coll_start(coll), "start");
}

static int coll_wait(void)
{
    return tca_coll_wait(coll, TCA_DEFAULT);
}

static int coll_free(void)
{
    coll = tca_coll_free(coll);
    return 0;
}

static int coll_thread_new(void)
{
    const struct tca_coll_args args = {.thread = 1};
    return tca_coll_barrier(session, &args, &coll);
}

static int halo_new(void)
{
    const struct tca_halo_array array = {
        .memory = {memory}, .element_bytes = 8, .extents = {4}, .low = {1}, .high = {1}};
    const struct tca_halo_args args = {.dimensions = 1,
                                       .grid = {2},
                                       .arrays = &array,
                                       .array_count = 1,
                                       .plan = {.seat = TCA_SEAT_CLIENT}};
    return tca_halo_new(session, &args, &halo);
}

static void halo_start(void)
{
    if (rank == 0)
        check(tca_halo_start(halo), "start");
}

static int halo_wait(void)
{
    return tca_halo_wait(halo, TCA_DEFAULT);
}

static int halo_wait_face(void)
{
    int r = tca_halo_wait_face(halo, 0, TCA_DEFAULT);
    return r < 0 ? r : halo_wait();
}

static int halo_run(void)
{
    int r = tca_halo_start(halo);
    return r < 0 ? r : halo_wait();
}

static int halo_free(void)
{
    halo = tca_halo_free(halo);
    return 0;
}

/* ---- messages */

static int msg_new(void)
{
    return tca_msg_new(session, NULL, &msg);
}

static void request(bool sends, struct tca_msg_request **ret_request)
{
    const struct tca_msg_buffer buffer = {&value, sizeof(value), NULL};
    check((sends ? tca_msg_send : tca_msg_recv)(msg, 1 - rank, TAG, &buffer, ret_request),
          "request");
}

static void receive(void)
{
    if (rank == 0)
        request(false, &requests[0]);
}

static int send(void)
{
    request(true, &requests[0]);
    int r = tca_msg_wait(requests[0], TCA_DEFAULT);
    requests[0] = tca_msg_release(requests[0]);
    return r;
}

static int done(int r)
{
    requests[0] = tca_msg_release(requests[0]);
    return r;
}

static int msg_wait(void)
{
    return done(tca_msg_wait(requests[0], TCA_DEFAULT));
}

static int msg_wait_all(void)
{
    return done(tca_msg_wait_all(requests, 1, TCA_DEFAULT));
}

static int msg_wait_any(void)
{
    uint32_t index;
    return done(tca_msg_wait_any(requests, 1, TCA_DEFAULT, &index));
}

/* More than fit into the ring. */
static void send_many(void)
{
    for (int i = 0; rank == 0 && i < AHEAD; i++)
        request(true, &requests[i]);
}

static int msg_free(void)
{
    msg = tca_msg_free(msg);
    return 0;
}

static int receive_many(void)
{
    for (int i = 0; i < AHEAD; i++) {
        request(false, &requests[0]);
        check(msg_wait(), "receive");
    }
    return msg_free();
}

/* ---- grids */

static int qmp_new(void)
{
    return tca_qmp_new(session, NULL, 1, (const uint32_t[]){2}, NULL, NULL, &qmp);
}

static int qmp_barrier(void)
{
    return tca_qmp_barrier(qmp);
}

static int qmp_sum(void)
{
    return tca_qmp_sum(qmp, &value, 1);
}

static int qmp_max(void)
{
    return tca_qmp_max(qmp, &value, 1);
}

static int qmp_free(void)
{
    qmp = tca_qmp_free(qmp);
    return 0;
}

/* ---- requests to tcad */

/* Rank 1 has no request under way. */
static void stop_tcad(void)
{
    check(rank == 0 ? notified_wait() : end_it(), "nothing under way");
    if (rank == 0)
        check(kill(tcad, SIGSTOP) < 0 ? -errno : 0, "SIGSTOP");
}

static int continue_tcad(void)
{
    return kill(tcad, SIGCONT) < 0 ? -errno : 0;
}

static int region_alloc(void)
{
    return tca_region_alloc(session, REGION_BYTES, &extra);
}

static int region_free(void)
{
    return tca_region_free(extra);
}

static int region_attach(void)
{
    return tca_region_attach(session, &value, sizeof(value), &extra);
}

static int heap_alloc(void)
{
    return tca_alloc(session, HEAP_BYTES, &memory);
}

static int heap_free(void)
{
    return tca_free(session, memory);
}

static int reach(void)
{
    struct tca_handle handle;
    check(tca_region_handle(region, 0, TCA_ALL, &handle), "handle");
    return tca_reach(session, &handle) ? 0 : -ENOENT;
}

static int commit(void)
{
    free_plan();
    waiter = plan_of(2, 0, 1, SLOT_END);
    return 0;
}

/* ---- all of them */

static const struct call {
    const char *name;
    void (*prepare)(void); /* at both ranks */
    int (*wait)(void);     /* at rank 0 */
    int (*end)(void);      /* at rank 1 */
} all[] =
    {
        {"tca_barrier()", NULL, barrier, barrier},
        {"tca_allgather()", NULL, allgather, allgather},
        {"tca_lookup()", NULL, lookup, publish},
        {"tca_wait()", make_waiter, wait_plan, end_it},
        {"tca_plan_free()", make_waiter, free_plan, end_it},
        {"tca_wait_until()", NULL, wait_until, end_it},
        {"tca_notified_wait()", NULL, notified_wait, end_it},
        {"tca_notified_wait_any()", NULL, notified_wait_any, end_it},
        {"tca_coll_barrier()", NULL, coll_new, coll_new},
        {"tca_coll_wait()", coll_start, coll_wait, coll_run},
        {"tca_coll_free()", NULL, coll_free, coll_free},
        {"tca_halo_new()", NULL, halo_new, halo_new},
        {"tca_halo_wait()", halo_start, halo_wait, halo_run},
        {"tca_halo_wait_face()", halo_start, halo_wait_face, halo_run},
        {"tca_halo_free()", halo_start, halo_free, halo_run},
        {"tca_msg_new()", NULL, msg_new, msg_new},
        {"tca_msg_wait()", receive, msg_wait, send},
        {"tca_msg_wait_all()", receive, msg_wait_all, send},
        {"tca_msg_wait_any()", receive, msg_wait_any, send},
        {"tca_msg_free()", send_many, msg_free, receive_many},
        {"tca_region_alloc()", stop_tcad, region_alloc, continue_tcad},
        {"tca_region_free()", stop_tcad, region_free, continue_tcad},
        {"tca_region_attach()", stop_tcad, region_attach, continue_tcad},
        {"tca_alloc()", stop_tcad, heap_alloc, continue_tcad},
        {"tca_free()", stop_tcad, heap_free, continue_tcad},
        {"tca_reach()", stop_tcad, reach, continue_tcad},
        {"tca_publish()", stop_tcad, publish, continue_tcad},
        {"tca_plan_commit()", stop_tcad, commit, continue_tcad},
        {"tca_coll_barrier() with a thread", NULL, coll_thread_new, coll_thread_new},
        {"tca_coll_wait() with a thread", coll_start, coll_wait, coll_run},
        {NULL},
},
  of_qmp[] = {
      {"tca_qmp_new()", NULL, qmp_new, qmp_new},
      {"tca_qmp_barrier()", NULL, qmp_barrier, qmp_barrier},
      {"tca_qmp_sum()", NULL, qmp_sum, qmp_sum},
      {"tca_qmp_max()", NULL, qmp_max, qmp_max},
      {"tca_qmp_free()", NULL, qmp_free, qmp_free},
      {NULL},
};

static void run(const struct call *call)
{
    char what[80];
    snprintf(what, sizeof(what), "a start in %s", call->name);
    check(tca_start(rank == 0 ? goes_on : back), what);
    if (call->prepare)
        call->prepare();
    if (rank == 0) {
        check(tca_start(tell_begun), what);
        expect(call->wait(), 0, NULL, call->name);
    } else {
        expect(tca_notified_wait(session, 0, SLOT_GOES_ON, TCA_DEFAULT), 0, NULL, what);
        expect(call->end(), 0, NULL, call->name);
    }
    check(tca_wait(rank == 0 ? goes_on : back, TCA_DEFAULT), what);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 1;
    tcad = (pid_t)atoi(argv[2]);
    check(tca_open(NULL, &session), "open");
    rank = tca_rank(session);
    check(tca_region_alloc(session, REGION_BYTES, &region), "region");
    memory = tca_region_address(region);
    goes_on = plan_of(1, SLOT_BACK, 1, SLOT_GOES_ON);
    back = plan_of(0, SLOT_BEGUN, 0, SLOT_BACK);
    tell_begun = plan_of(2, 0, 1, SLOT_BEGUN);
    tell_end = plan_of(2, 0, 0, SLOT_END);
    for (const struct call *call = strcmp(argv[1], "qmp") == 0 ? of_qmp : all; call->name; call++)
        run(call);
    check(barrier(), "barrier");
    tca_close(session);
    return wrong;
}
