#include "client/memory/gate.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/core/clock.h"
#include "client/core/error.h"
#include "client/core/session.h"
#include "client/core/timeout.h"
#include "client/core/wait.h"

struct kept {
    struct attached_gate gate; /* first */
    struct kept *next;
};

/* Of all sessions of this process. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept *unused;
static struct attached_marks *marks; /* NULL: no gate yet */

struct attached_gate *gate_take(void)
{
    pthread_mutex_lock(&lock);
    if (!marks)
        marks = attached_marks_new();
    const bool can_open = marks != NULL;
    struct kept *kept = can_open ? unused : NULL;
    if (kept)
        unused = kept->next;
    pthread_mutex_unlock(&lock);
    if (!kept && can_open)
        kept = calloc(1, sizeof(*kept));
    return kept ? &kept->gate : NULL;
}

void gate_give(struct attached_gate *gate)
{
    struct kept *kept = (struct kept *)gate;
    if (!gate)
        return;
    attached_gate_close(gate);
    pthread_mutex_lock(&lock);
    kept->next = unused;
    unused = kept;
    pthread_mutex_unlock(&lock);
}

void gate_open(struct attached_gate *gate, const uint64_t name[2])
{
    attached_gate_open(gate, marks, name);
}

int gate_close(struct tca *session, struct attached_gate *gate)
{
    const uint64_t name[2] = {gate->name[0], gate->name[1]};
    const uint64_t end_ns = session_end(session);
    char waited[TIMEOUT_TEXT_BYTES];
    pid_t writer;
    attached_gate_close(gate);
    if (session->control.pid != getpid())
        return 0; /* forked: nobody writes to this process */
    while ((writer = attached_writer(marks, name[1])) != 0) {
        if (clock_left(end_ns) == 0) {
            gate_open(gate, name);
            return error_set(
                -ETIMEDOUT,
                "region %llu: thread %d of another process has not completed its put into "
                "this attached memory %s: is it stopped?",
                (unsigned long long)name[1], (int)writer,
                session_timeout_text(session, TCA_DEFAULT, waited));
        }
        sched_yield();
    }
    return 0;
}
