#include "client/mpi/collective.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/include/tca-coll.h"

#include "client/mpi/shim.h"

enum {
    SHAPES_MAX = 32,     /* of a communicator that are counted, */
    OPERATIONS_MAX = 16, /* and that have an operation */
    CALLS_BEFORE = 3,    /* of a shape, by the MPI */
    LOOK_EVERY = 8,      /* tests of an operation for one at our messages */
};
static_assert(OPERATIONS_MAX < SHAPES_MAX, "one of the shapes has no operation");

struct collective {
    struct collective_shape shape;
    uint64_t calls;
    uint64_t last; /* call of the communicator; 0: not in use */
    struct tca_coll *operation;
    uint64_t name; /* of the operation, at all ranks */
    bool refused;
};

struct collectives {
    uint64_t calls;
    uint32_t made; /* operations */
    struct collective *found;
    struct collective shapes[SHAPES_MAX];
};

/* An operation whose communicator was freed. */
struct spare {
    struct spare *next;
    struct collective_shape shape;
    struct tca_coll *operation;
    uint64_t name;
};
static struct spare *spares;

/* Held by the thread whose communicator makes an operation: the session makes one at a time, and
 * threads of other ranks may come to those of two communicators in another order. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

/* ---- shapes */

static bool is_alike(const struct collective_shape *a, const struct collective_shape *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

/* The one that was called least recently; with_operation: of those that have one, else of the
 * others. */
static struct collective *find_oldest(struct collectives *collectives, bool with_operation)
{
    struct collective *oldest = NULL;

    for (int i = 0; i < SHAPES_MAX; i++) {
        struct collective *it = &collectives->shapes[i];
        if ((it->operation != NULL) == with_operation && (!oldest || it->last < oldest->last))
            oldest = it;
    }
    return oldest;
}

static struct collective *find_shape(struct collectives *collectives,
                                     const struct collective_shape *shape)
{
    struct collective *it = collectives->found;

    if (it && is_alike(&it->shape, shape))
        return it;
    for (int i = 0; i < SHAPES_MAX; i++) {
        it = &collectives->shapes[i];
        if (it->last > 0 && is_alike(&it->shape, shape))
            return it;
    }
    it = find_oldest(collectives, false);
    *it = (struct collective){.shape = *shape};
    return it;
}

/* ---- making */

/* What ranks tell one another before they make an operation: the least counts. */
struct word {
    int64_t can;
    int64_t name, negative_name; /* of the spare operation; 0: none */
};

static bool agree(struct word *word, MPI_Comm comm)
{
    struct word least;

    if (next.Allreduce(word, &least, sizeof(least) / sizeof(int64_t), MPI_INT64_T, MPI_MIN, comm) !=
        MPI_SUCCESS)
        return false;
    *word = least;
    return least.can;
}

/* Of this name; 0: the one with the least name, as all ranks choose if they have the same. */
static struct spare **find_spare(const struct collective_shape *shape, uint64_t name)
{
    struct spare **found = NULL;

    for (struct spare **it = &spares; *it; it = &(*it)->next)
        if (is_alike(&(*it)->shape, shape) && (name == 0 || (*it)->name == name) &&
            (!found || (*it)->name < (*found)->name))
            found = it;
    return found;
}

/* The memory is that of the library until the first start: an operation with any memory copies. */
static int prepare(const struct collective_shape *shape, struct tca_coll **ret_operation)
{
    const struct tca_coll_args args = {.any_memory = 1, .plan = {.name = "tca-mpi"}};
    const struct tca_coll_operator operation = {.combine = (enum tca_combine)shape->combine,
                                                .type = (enum tca_type)shape->type};
    uint64_t *counts;
    char any[1];
    int r = -ENOMEM;

    switch ((enum collective_kind)shape->kind) {
    case COLLECTIVE_BARRIER:
        return tca_coll_barrier(shim.session, &args, ret_operation);
    case COLLECTIVE_BROADCAST:
        return tca_coll_broadcast(shim.session, any, shape->count, shape->root, &args,
                                  ret_operation);
    case COLLECTIVE_REDUCE:
        return tca_coll_reduce(shim.session, any, any, shape->count, &operation, shape->root, &args,
                               ret_operation);
    case COLLECTIVE_ALLREDUCE:
        return tca_coll_allreduce(shim.session, any, any, shape->count, &operation, &args,
                                  ret_operation);
    case COLLECTIVE_ALLGATHER:
        return tca_coll_allgather(shim.session, any, any, shape->count, &args, ret_operation);
    case COLLECTIVE_ALLTOALL:
        return tca_coll_alltoall(shim.session, any, any, shape->count, &args, ret_operation);
    case COLLECTIVE_REDUCE_SCATTER:
        counts = calloc((size_t)shim.size, sizeof(*counts)); /* NULL: this rank says so */
        for (int i = 0; counts && i < shim.size; i++)
            counts[i] = shape->count;
        r = tca_coll_reduce_scatter(shim.session, any, any, counts, &operation, &args,
                                    ret_operation);
        free(counts);
        return r;
    case COLLECTIVE_KINDS:
        break;
    }
    return -EINVAL;
}

static void drop_oldest(struct collectives *collectives)
{
    struct collective *oldest = find_oldest(collectives, true);

    oldest->operation = tca_coll_free(oldest->operation);
    oldest->calls = 0;
    collectives->made--;
}

static int take_or_prepare(struct collectives *collectives, struct collective *collective,
                           const struct word *all)
{
    if (collectives->made == OPERATIONS_MAX)
        drop_oldest(collectives);
    if (all->name <= 0 || all->name != -all->negative_name)
        return prepare(&collective->shape, &collective->operation);
    struct spare **link = find_spare(&collective->shape, (uint64_t)all->name);
    struct spare *found = *link;
    *link = found->next;
    collective->operation = found->operation;
    collective->name = found->name;
    free(found);
    return 0;
}

/* Makes the operation, at all ranks or at none. */
static void make(struct communicator *communicator, struct collective *collective)
{
    static uint64_t made;
    struct collectives *collectives = communicator->collectives;
    struct word word = {.can = pthread_mutex_trylock(&making) == 0};
    const bool mine = word.can;
    struct spare **spare = find_spare(&collective->shape, 0);

    if (spare) {
        word.name = (int64_t)(*spare)->name;
        word.negative_name = -word.name;
    }
    shim_unlock();
    const bool all = agree(&word, communicator->handle);
    shim_lock();
    if (!all) { /* later */
        collective->calls = 0;
        if (mine)
            pthread_mutex_unlock(&making);
        return;
    }
    collective->name = (uint64_t)communicator->context << 24 | (++made & 0xffffff);
    word.can = take_or_prepare(collectives, collective, &word) >= 0;
    shim_unlock();
    const bool done = agree(&word, communicator->handle);
    shim_lock();
    pthread_mutex_unlock(&making);
    collective->refused = !done;
    if (done)
        collectives->made++;
    else
        collective->operation = NULL; /* if others failed: it belongs to the session */
}

struct collective *collective_find(struct communicator *communicator,
                                   const struct collective_shape *shape)
{
    if (!communicator->collectives)
        communicator->collectives = calloc(1, sizeof(*communicator->collectives));
    struct collectives *collectives = communicator->collectives;
    if (!collectives) {
        shim_unlock();
        error_raise(communicator->handle, -ENOMEM); /* others may go on without this rank */
        shim_lock();
        return NULL;
    }
    struct collective *collective = find_shape(collectives, shape);
    collectives->found = collective;
    collective->last = ++collectives->calls;
    if (++collective->calls > CALLS_BEFORE && !collective->operation && !collective->refused)
        make(communicator, collective);
    return collective->operation ? collective : NULL;
}

/* ---- running */

int collective_run(struct collective *collective, const void *in, void *out)
{
    struct tca_coll *operation = collective->operation;
    uint64_t round = 0;
    int r = 0;

    if (collective->shape.kind != COLLECTIVE_BARRIER)
        r = tca_coll_rebind(operation, in, out);
    if (r >= 0)
        r = tca_coll_start(operation);
    while (r >= 0 && (r = tca_coll_test(operation)) == 0) {
        if (round % LOOK_EVERY == LOOK_EVERY - 1)
            tca_msg_progress(shim.msg);
        shim_unlock();
        progress_pause(&round);
        shim_lock();
    }
    return r < 0 ? r : 0;
}

/* ---- the end */

static void put_aside(const struct collective *collective)
{
    struct spare *spare = collective->operation ? malloc(sizeof(*spare)) : NULL;

    if (!spare)
        return;
    *spare = (struct spare){.next = spares,
                            .shape = collective->shape,
                            .operation = collective->operation,
                            .name = collective->name};
    spares = spare;
}

struct collectives *collectives_leave(struct collectives *collectives)
{
    for (int i = 0; collectives && i < SHAPES_MAX; i++)
        put_aside(&collectives->shapes[i]);
    free(collectives);
    return NULL;
}

/* The operations are released with the session: no rank makes a call any more. */
void collectives_deinit(void)
{
    while (spares) {
        struct spare *spare = spares;
        spares = spare->next;
        free(spare);
    }
}
