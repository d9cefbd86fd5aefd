/*
 * A client and an engine that sleep in different ways: the engine arms itself and blocks on its
 * eventfd until a submission, the client sleeps on its doorbell until a completion. Every entry
 * must arrive once and in order, and no wake-up may be lost.
 */
#include <poll.h>
#include <sys/eventfd.h>

#include "proto/notify.h"
#include "proto/ring.h"
#include "tests/unit/proto/random.h"
#include "tests/unit/proto/stress.h"

enum {
    IN_FLIGHT_MAX = 512
}; /* more than the submission ring holds, less than the completion ring */

struct shared {
    struct session_segment session;
    struct notify_segment notify;
};

static uint64_t mark_of(uint32_t sequence)
{
    return sequence * 0x9e3779b97f4a7c15u;
}

/* ---- engine ---- */

static void wait_for_submission(struct stress *stress, struct session_segment *session,
                                struct ring *submit)
{
    atomic_store_explicit(&session->engine_armed, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst); /* armed before the second look */
    if (ring_readable(submit)) {
        atomic_store_explicit(&session->engine_armed, 0, memory_order_relaxed);
        return;
    }
    struct pollfd poll_fd = {.fd = stress->eventfd, .events = POLLIN};
    while (poll(&poll_fd, 1, STRESS_LOST_NS / 1000000) !=
           1) /* the client may have to wait for a core, too */
        if (ring_readable(submit))
            stress_fail("the engine lost a wake-up after %u", submit->mine);
    uint64_t count;
    if (read(stress->eventfd, &count, sizeof(count)) != sizeof(count))
        stress_fail("eventfd: %m");
}

static void answer(struct shared *shared, struct ring *complete, const struct submit_entry *in)
{
    struct complete_entry out = {
        .sequence = in->sequence, .start_ns = in->start_ns, .done_ns = ~in->start_ns};
    int r = ring_push(complete, &out);
    if (r < 0)
        stress_fail("completion ring: %s", strerror(-r));
    notify_wake(&shared->notify);
}

static void engine(struct stress *stress)
{
    struct shared *shared = stress->shared;
    struct session_segment *session = &shared->session;
    struct ring submit, complete;
    struct random random = {2};
    ring_init(&submit, &session->submit[0], session->submit_entries[0], sizeof(struct submit_entry),
              SUBMIT_ENTRIES);
    ring_init(&complete, &session->complete, session->complete_entries,
              sizeof(struct complete_entry), COMPLETE_ENTRIES);
    uint64_t patience = 0;
    for (uint32_t next = 0; next < stress->iterations;) {
        struct submit_entry in;
        int r = ring_pop(&submit, &in);
        if (r < 0)
            stress_fail("submission ring: %s", strerror(-r));
        if (r == 0) {
            if (patience-- > 0)
                continue;
            wait_for_submission(stress, session, &submit);
            patience = random_below(&random, 100);
            continue;
        }
        if (in.sequence != next || in.start_ns != mark_of(next))
            stress_fail("submission %u came as %u", next, in.sequence);
        next++;
        answer(shared, &complete, &in);
    }
}

/* ---- client ---- */

static bool submit_one(struct stress *stress, struct session_segment *session, struct ring *submit,
                       uint32_t sequence)
{
    struct submit_entry entry = {.sequence = sequence, .start_ns = mark_of(sequence)};
    int r = ring_push(submit, &entry);
    if (r == -EAGAIN)
        return false;
    if (r < 0)
        stress_fail("submission ring: %s", strerror(-r));
    atomic_thread_fence(memory_order_seq_cst); /* the tail before the load of engine_armed */
    if (atomic_load_explicit(&session->engine_armed, memory_order_relaxed) != 0 &&
        atomic_exchange_explicit(&session->engine_armed, 0, memory_order_acq_rel) != 0)
        if (write(stress->eventfd, &(uint64_t){1}, sizeof(uint64_t)) != sizeof(uint64_t))
            stress_fail("eventfd: %m");
    return true;
}

static void wait_for_completion(struct notify_segment *notify, struct ring *complete)
{
    uint32_t doorbell = notify_prepare_sleep(notify);
    if (ring_readable(complete))
        notify_cancel_sleep(notify);
    else if (notify_sleep(notify, doorbell, STRESS_LOST_NS) == -ETIMEDOUT &&
             ring_readable(complete))
        stress_fail("the client lost a wake-up after %u", complete->mine);
}

static void client(struct stress *stress)
{
    struct shared *shared = stress->shared;
    struct session_segment *session = &shared->session;
    struct ring submit, complete;
    struct random random = {1};
    ring_init(&submit, &session->submit[0], session->submit_entries[0], sizeof(struct submit_entry),
              SUBMIT_ENTRIES);
    ring_init(&complete, &session->complete, session->complete_entries,
              sizeof(struct complete_entry), COMPLETE_ENTRIES);
    uint64_t patience = 0, burst = 1;
    for (uint32_t sent = 0, got = 0; got < stress->iterations;) {
        while (sent < stress->iterations && sent - got < burst &&
               submit_one(stress, session, &submit, sent))
            sent++;
        struct complete_entry out;
        int r = ring_pop(&complete, &out);
        if (r < 0)
            stress_fail("completion ring: %s", strerror(-r));
        if (r == 0) {
            if (patience-- > 0)
                continue;
            wait_for_completion(&shared->notify, &complete);
            patience = random_below(&random, 100);
            continue;
        }
        if (out.sequence != got || out.start_ns != mark_of(got) || out.done_ns != ~mark_of(got))
            stress_fail("completion %u came as %u", got, out.sequence);
        if (++got == sent)
            burst = random_below(&random, 4) == 0 ? random_below(&random, IN_FLIGHT_MAX) + 1
                                                  : 1 + random_below(&random, 3);
    }
}

int main(int argc, char **argv)
{
    return stress_main(argc, argv, sizeof(struct shared), client, engine, eventfd(0, EFD_CLOEXEC));
}
