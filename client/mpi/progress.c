/* Progress of both: the MPI's messages advance while the program waits for ours, and ours while it
 * waits in the MPI, by a function that the MPI calls whenever it looks for its own. */
#include <dlfcn.h>
#include <stddef.h>

#include "client/mpi/request.h"
#include "client/mpi/shim.h"

enum {
    SELDOM = 64,    /* looks at our messages for one at the MPI's and at tcad's events, */
    LONG = 4096,    /* until there were so many: then they are seldom themselves */
    IDLE_EVERY = 8, /* looks of the MPI for one at our messages, while none of them is active */
};

static uint64_t looks; /* of the MPI */

static void look_around(void)
{
    tca_dispatch(shim.session);
    requests_reap();
}

/* Called by the MPI, which may be called by us, but never while we hold the lock. */
static void advance(void)
{
    if (++looks % IDLE_EVERY != 0 && requests_active == 0)
        return;
    if (!shim.active || (shim.threaded && pthread_mutex_trylock(&shim.lock) != 0))
        return;
    tca_msg_progress(shim.msg);
    if (looks % SELDOM == 0)
        look_around();
    shim_unlock();
}

void progress_mpi(void)
{
    int flag;

    /* Not MPI_COMM_SELF: MPICH finds nothing to advance there. */
    next.Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

#ifdef OPEN_MPI
static int advance_for_mpi(void)
{
    advance();
    return 0;
}

static void be_called(void)
{
    int (*add)(int (*function)(void)) =
        (int (*)(int (*)(void)))dlsym(RTLD_DEFAULT, "opal_progress_register");

    if (add)
        add(advance_for_mpi);
}
#else
/* MPICH of Debian does not let others take part, but looks for messages by UCX. */
__attribute__((visibility("default"))) unsigned ucp_worker_progress(void *worker);
unsigned ucp_worker_progress(void *worker)
{
    static unsigned (*own)(void *worker);

    if (!own)
        own = (unsigned (*)(void *))dlsym(RTLD_NEXT, "ucp_worker_progress");
    advance();
    return own(worker);
}

static void be_called(void)
{
}
#endif

const char *progress_open(void)
{
    const uint64_t before = looks;

    be_called();
    progress_mpi();
    return looks > before ? NULL : "the MPI does not let others advance while it waits";
}

void progress_pause(uint64_t *round)
{
    if ((*round + 1) % SELDOM == 0 || *round >= LONG) {
        progress_mpi();
        shim_lock();
        look_around();
        shim_unlock();
    }
    tca_pause((*round)++);
}

void progress_poll(void)
{
    static uint64_t polls;

    if (++polls % SELDOM == 0) {
        progress_mpi();
        shim_lock();
        look_around();
        shim_unlock();
    }
}
