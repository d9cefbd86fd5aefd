#include "client/compat/stores.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/compat/listen.h"

enum {
    STORES_MAX = 1024,
    LOSSES_MAX = 4, /* of rails, during one store */
};

struct store {
    struct tca_handle memory;
    uint32_t rank;
    uint64_t offset_bytes, bytes, head_bytes;
    void *source;          /* of the plan; NULL: unused entry */
    struct tca_plan *plan; /* NULL: not committed yet */
    const char *rail;      /* requested by the plan: path->rail at that time */
    bool spoiled;          /* it can no longer be started */
    uint64_t used;         /* time of its last use, as a count */
};

/* The state of stores to one process. */
struct path {
    const char *rail; /* requested by all stores: `first`; NULL: not known yet, or lost */
    /* taken by the first store, and by all others while it is up; "": no store yet */
    char first[TCA_RAIL_NAME_BYTES];
    enum tca_rail driver; /* of `first` */
    struct store *last;   /* may still be running; NULL: none is */
    int failed;           /* 0, or the error after which `last` must be sent again */
    bool doubt;           /* earlier stores may be lost; not yet reported to the program */
};

static struct {
    struct store stores[STORES_MAX];
    uint64_t uses;
    struct path *paths; /* by rank */
} all;

static struct path *path_of(const struct store *store)
{
    return &all.paths[store->rank];
}

/* Whether the process is on this node, to which no rail can be lost. */
static bool is_near(uint32_t rank)
{
    return tca_node_of(compat.session, rank) == (int)compat.node;
}

/* ---- one store ---- */

static void drop_plan(struct store *store)
{
    store->plan = tca_plan_free(store->plan);
}

static void forget_last(struct path *path)
{
    path->last = NULL;
    path->failed = 0;
}

static void release(struct store *store)
{
    drop_plan(store);
    if (path_of(store)->last == store)
        forget_last(path_of(store));
    tca_free(compat.session, store->source);
    store->source = NULL;
}

static int add_puts(const struct store *store)
{
    struct tca_put put = {.source_address = store->source,
                          .target = store->memory,
                          .target_offset_bytes = store->offset_bytes,
                          .bytes = store->head_bytes};
    int r = 0;
    if (put.bytes > 0) {
        r = tca_plan_put(store->plan, &put);
        put.source_address = (uint8_t *)store->source + put.bytes;
        put.target_offset_bytes += put.bytes;
    }
    put.bytes = store->bytes - put.bytes;
    return r == 0 ? tca_plan_put(store->plan, &put) : r;
}

/* Commits the plan, on the rail that all stores use at present or, if there is none, on the boards
 * if possible. */
static int build(struct store *store)
{
    const bool near = is_near(store->rank);
    const char *rail = path_of(store)->rail;
    const bool any = !rail, landed = near || any;
    const struct tca_plan_args args = {.name = "tca-api PIO",
                                       .rail = any ? TCA_RAIL_PEACH2 : TCA_RAIL_ANY,
                                       .rail_name = rail,
                                       .flags = (landed ? TCA_PLAN_LANDED : 0) |
                                                (any ? TCA_PLAN_PREFER : 0)};
    int r = tca_plan_new(compat.session, &args, &store->plan);
    if (r < 0)
        return r;
    store->rail = rail;
    store->spoiled = false;
    r = add_puts(store);
    if (r == 0 && !near)
        r = tca_plan_notify(store->plan, store->rank, NOTIFY_PIO);
    if (r == 0)
        r = tca_plan_commit(store->plan, TCA_DEFAULT);
    if (r < 0)
        drop_plan(store);
    return r;
}

/* ---- sending ---- */

static bool is_loss(int r)
{
    return r == -ENETDOWN || r == -EHOSTDOWN;
}

/* A store that has completed on the boards has landed. On other rails, completion only means that
 * the source is free: what was in flight is lost with the rail. */
static void lose_rail(struct path *path)
{
    path->doubt |= path->driver != TCA_RAIL_SHM && path->driver != TCA_RAIL_PEACH2;
    path->rail = NULL;
}

/* The store is complete: learns its rail. */
static void learn(struct store *store)
{
    struct path *path = path_of(store);
    struct tca_receipt receipt;
    forget_last(path);
    if (is_near(store->rank) || tca_plan_receipt(store->plan, &receipt) < 0)
        return;
    if (!path->first[0]) {
        strcpy(path->first, receipt.rail_name);
        path->driver = receipt.rail;
    }
    if (strcmp(receipt.rail_name, path->first) == 0)
        path->rail = path->first;
}

/* Tries to start a store once, on the present rail. */
static int attempt(struct store *store, int64_t timeout_ns)
{
    int r = 0;
    if (store->plan && (store->spoiled || store->rail != path_of(store)->rail))
        drop_plan(store);
    if (!store->plan)
        r = build(store);
    if (r == 0) {
        r = tca_start(store->plan);
        store->spoiled = r < 0;
    }
    if (r < 0)
        return r;
    path_of(store)->last = store;
    if (store->rail) {
        listen_for_stores();
        return 0;
    }
    r = tca_wait(store->plan, timeout_ns);
    if (r == 0)
        learn(store);
    return r;
}

/* Whether a retry makes sense: the requested rail is lost, or the plan is changing rails. */
static bool goes_on(const struct store *store)
{
    return path_of(store)->rail || store->plan;
}

/* Starts a store. Even if this fails, it becomes path->last, to be tried again. */
static int start(struct store *store, int64_t timeout_ns)
{
    struct path *path = path_of(store);
    int r = attempt(store, timeout_ns);
    for (int losses = 1; is_loss(r) && goes_on(store) && losses < LOSSES_MAX; losses++) {
        if (path->rail)
            lose_rail(path);
        r = attempt(store, timeout_ns);
    }
    if (r < 0) {
        path->last = store;
        path->failed = r;
    }
    return r;
}

/* Waits for the previous store, and repeats it if needed. */
static int finish(struct path *path, int64_t timeout_ns)
{
    struct store *last = path->last;
    if (!last)
        return 0;
    int r = path->failed ? path->failed : tca_wait(last->plan, timeout_ns);
    if (path->failed || is_loss(r)) {
        if (path->rail)
            lose_rail(path);
        r = start(last, timeout_ns);
    } else if (r == 0) {
        learn(last);
    }
    return r;
}

/* ---- the cache ---- */

static struct store *find(const struct reference *remote, uint64_t offset_bytes, uint64_t bytes)
{
    for (int i = 0; i < STORES_MAX; i++) {
        struct store *store = &all.stores[i];
        if (store->source && store->offset_bytes == offset_bytes && store->bytes == bytes &&
            memcmp(&store->memory, &remote->memory, sizeof(store->memory)) == 0)
            return store;
    }
    return NULL;
}

/* Evicts the least recently used store. */
static int make_room(struct store **ret_store)
{
    struct store *oldest = &all.stores[0];
    for (int i = 0; i < STORES_MAX && oldest->source; i++)
        if (!all.stores[i].source || all.stores[i].used < oldest->used)
            oldest = &all.stores[i];
    if (oldest->source) {
        int r = path_of(oldest)->last == oldest ? finish(path_of(oldest), TCA_FOREVER) : 0;
        if (r < 0)
            return r;
        release(oldest);
    }
    *ret_store = oldest;
    return 0;
}

static int make(const struct reference *remote, uint64_t offset_bytes, uint64_t bytes,
                struct store **ret_store)
{
    struct store *store = NULL;
    int r = make_room(&store);
    if (r < 0)
        return r;
    *store = (struct store){.memory = remote->memory,
                            .rank = remote->rank,
                            .offset_bytes = offset_bytes,
                            .bytes = bytes,
                            .head_bytes = store_head(remote->address + offset_bytes, bytes)};
    r = tca_alloc(compat.session, bytes, &store->source);
    if (r == 0)
        *ret_store = store;
    return r;
}

/* ---- for the program ---- */

static tcaresult open_path(uint32_t rank)
{
    if (!all.paths)
        all.paths = calloc(compat.size, sizeof(*all.paths));
    if (!all.paths)
        return compat_fail(TCA_ERROR_OUT_OF_MEMORY, "out of memory for %u processes", compat.size);
    return is_near(rank) ? TCA_SUCCESS : listen_begin();
}

/* The same, and returns what has to be reported to the program, once. */
static tcaresult finish_and_report(uint32_t rank, const char *name, int64_t timeout_ns)
{
    struct path *path = &all.paths[rank];
    int r = finish(path, timeout_ns);
    forget_last(path);
    if (r < 0)
        return compat_fail_errno(r, name);
    if (!path->doubt)
        return TCA_SUCCESS;
    path->doubt = false;
    return compat_fail(TCA_ERROR_PEER_LOST,
                       "%s: the rail to process %u was lost, and earlier stores to it may be lost, "
                       "too: repeat those that matter; later stores use another rail",
                       name, rank);
}

tcaresult stores_send(const struct reference *remote, uint64_t offset_bytes, const void *src,
                      size_t size)
{
    static const char name[] = "tcaSendPIO";
    tcaresult result = open_path(remote->rank);
    if (result == TCA_SUCCESS)
        result = finish_and_report(remote->rank, name, TCA_FOREVER);
    if (result != TCA_SUCCESS)
        return result;
    struct store *store = find(remote, offset_bytes, size);
    int r = store ? 0 : make(remote, offset_bytes, size, &store);
    if (r < 0)
        return compat_fail_errno(r, name);
    memcpy(store->source, src, size);
    store->used = ++all.uses;
    r = start(store, TCA_FOREVER);
    if (r < 0) {
        result = compat_fail_errno(r, name);
        release(store);
    }
    return result;
}

tcaresult stores_finish(const char *name, int64_t timeout_ns)
{
    tcaresult result = TCA_SUCCESS;
    for (uint32_t rank = 0; all.paths && rank < compat.size; rank++) {
        tcaresult one = finish_and_report(rank, name, timeout_ns);
        if (one != TCA_SUCCESS)
            result = one;
    }
    return result;
}

/* Repeats a failed store, unless the process or node has ended: only a rail can return. */
static bool look(struct path *path)
{
    int r = path->failed ? path->failed : tca_test(path->last->plan);
    if (r > 0)
        learn(path->last);
    else if (path->failed ? r == -ENETDOWN : is_loss(r))
        r = finish(path, TCA_FOREVER);
    return path->last && (r == 0 || r == -ENETDOWN);
}

bool stores_look(void)
{
    bool running = false;
    for (uint32_t rank = 0; all.paths && rank < compat.size; rank++)
        running |= all.paths[rank].last && look(&all.paths[rank]);
    return running;
}
