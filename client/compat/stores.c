#include "client/compat/stores.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/compat/listen.h"

enum {
    STORES_MAX = 1024,
    LOSSES_MAX = 4, /* of rails, while one store is sent */
};

struct store {
    struct tca_handle memory;
    uint32_t rank;
    bool attached; /* the memory is the program's own there */
    uint64_t offset_bytes, bytes, head_bytes;
    void *source;          /* that the plan puts from; NULL: unused */
    struct tca_plan *plan; /* NULL: has to be made */
    const char *rail;      /* that it has asked for: way->rail then */
    bool spoiled;          /* it cannot be started any more */
    uint64_t used;         /* when it was used last */
};

/* How stores go to one process. */
struct way {
    const char *rail; /* that all of them ask for: first; NULL: not known yet, or lost */
    /* that the very first one went by, and all do while it leads there; "": none has yet */
    char first[TCA_RAIL_NAME_BYTES];
    enum tca_rail driver; /* of it */
    struct store *last;   /* that may still run; NULL: none does */
    int failed;           /* 0, or why it has to be sent again */
    bool doubt;           /* others before it may be lost, and the program was not told yet */
};

static struct {
    struct store stores[STORES_MAX];
    uint64_t uses;
    struct way *ways; /* by rank */
} all;

static struct way *way_of(const struct store *store)
{
    return &all.ways[store->rank];
}

/* Nobody else would go on with it. */
static bool is_near(uint32_t rank)
{
    return tca_node_of(compat.session, rank) == (int)compat.node;
}

/* ---- one store ---- */

static void drop_plan(struct store *store)
{
    store->plan = tca_plan_free(store->plan);
}

static void forget_last(struct way *way)
{
    way->last = NULL;
    way->failed = 0;
}

static void release(struct store *store)
{
    drop_plan(store);
    if (way_of(store)->last == store)
        forget_last(way_of(store));
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

/* By the rail that all go by now; while there is none, by the boards if they can be had. */
static int build(struct store *store)
{
    const bool near = is_near(store->rank);
    const char *rail = way_of(store)->rail;
    const bool any = !rail, landed = near || store->attached || any;
    const struct tca_plan_args args = {.name = "tca-api PIO",
                                       .rail = any ? TCA_RAIL_PEACH2 : TCA_RAIL_ANY,
                                       .rail_name = rail,
                                       .seat = store->attached ? TCA_SEAT_DAEMON : TCA_SEAT_ANY,
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

/* What the boards say is complete has landed. Of other rails the source is free then, and what was
 * on its way is lost with them. */
static void lose_rail(struct way *way)
{
    way->doubt |= way->driver != TCA_RAIL_SHM && way->driver != TCA_RAIL_PEACH2;
    way->rail = NULL;
}

/* It is complete. */
static void learn(struct store *store)
{
    struct way *way = way_of(store);
    struct tca_receipt receipt;
    forget_last(way);
    if (is_near(store->rank) || tca_plan_receipt(store->plan, &receipt) < 0)
        return;
    if (!way->first[0]) {
        strcpy(way->first, receipt.rail_name);
        way->driver = receipt.rail;
    }
    if (strcmp(receipt.rail_name, way->first) == 0)
        way->rail = way->first;
}

/* Once, by the rail that all go by now. */
static int attempt(struct store *store, int64_t timeout_ns)
{
    int r = 0;
    if (store->plan && (store->spoiled || store->rail != way_of(store)->rail))
        drop_plan(store);
    if (!store->plan)
        r = build(store);
    if (r == 0) {
        r = tca_start(store->plan);
        store->spoiled = r < 0;
    }
    if (r < 0)
        return r;
    way_of(store)->last = store;
    if (store->rail) {
        listen_for_stores();
        return 0;
    }
    r = tca_wait(store->plan, timeout_ns);
    if (r == 0)
        learn(store);
    return r;
}

/* Whether another rail may lead there: one that was asked for is lost, or the plan moves. */
static bool goes_on(const struct store *store)
{
    return way_of(store)->rail || store->plan;
}

/* One that fails is the last one all the same, for another try. */
static int start(struct store *store, int64_t timeout_ns)
{
    struct way *way = way_of(store);
    int r = attempt(store, timeout_ns);
    for (int losses = 1; is_loss(r) && goes_on(store) && losses < LOSSES_MAX; losses++) {
        if (way->rail)
            lose_rail(way);
        r = attempt(store, timeout_ns);
    }
    if (r < 0) {
        way->last = store;
        way->failed = r;
    }
    return r;
}

/* What came of the store before, at last. */
static int settle(struct way *way, int64_t timeout_ns)
{
    struct store *last = way->last;
    if (!last)
        return 0;
    int r = way->failed ? way->failed : tca_wait(last->plan, timeout_ns);
    if (way->failed || is_loss(r)) {
        if (way->rail)
            lose_rail(way);
        r = start(last, timeout_ns);
    } else if (r == 0) {
        learn(last);
    }
    return r;
}

/* ---- those that are kept ---- */

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

/* The place of the one that was used least lately. */
static int make_room(struct store **ret_store)
{
    struct store *oldest = &all.stores[0];
    for (int i = 0; i < STORES_MAX && oldest->source; i++)
        if (!all.stores[i].source || all.stores[i].used < oldest->used)
            oldest = &all.stores[i];
    if (oldest->source) {
        int r = way_of(oldest)->last == oldest ? settle(way_of(oldest), TCA_FOREVER) : 0;
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
                            .attached = remote->attached,
                            .offset_bytes = offset_bytes,
                            .bytes = bytes,
                            .head_bytes = store_head(remote->address + offset_bytes, bytes)};
    r = tca_alloc(compat.session, bytes, &store->source);
    if (r == 0)
        *ret_store = store;
    return r;
}

/* ---- for the program ---- */

static tcaresult open_way(uint32_t rank)
{
    if (!all.ways)
        all.ways = calloc(compat.size, sizeof(*all.ways));
    if (!all.ways)
        return compat_fail(TCA_ERROR_OUT_OF_MEMORY, "no memory for %u processes", compat.size);
    return is_near(rank) ? TCA_SUCCESS : listen_begin();
}

/* And what the program is to be told of it: once. */
static tcaresult settle_and_tell(uint32_t rank, const char *name, int64_t timeout_ns)
{
    struct way *way = &all.ways[rank];
    int r = settle(way, timeout_ns);
    forget_last(way);
    if (r < 0)
        return compat_fail_errno(r, name);
    if (!way->doubt)
        return TCA_SUCCESS;
    way->doubt = false;
    return compat_fail(TCA_ERROR_PEER_LOST,
                       "%s: the rail to process %u was lost, and with it perhaps some of what was "
                       "stored there before: what matters has to be stored again; what follows "
                       "goes by the next rail",
                       name, rank);
}

tcaresult stores_send(const struct reference *remote, uint64_t offset_bytes, const void *src,
                      size_t size)
{
    static const char name[] = "tcaSendPIO";
    tcaresult result = open_way(remote->rank);
    if (result == TCA_SUCCESS)
        result = settle_and_tell(remote->rank, name, TCA_FOREVER);
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

tcaresult stores_settle(const char *name, int64_t timeout_ns)
{
    tcaresult result = TCA_SUCCESS;
    for (uint32_t rank = 0; all.ways && rank < compat.size; rank++) {
        tcaresult one = settle_and_tell(rank, name, timeout_ns);
        if (one != TCA_SUCCESS)
            result = one;
    }
    return result;
}

/* A process or node that has gone does not come back; a rail may. */
static bool look(struct way *way)
{
    int r = way->failed ? way->failed : tca_test(way->last->plan);
    if (r > 0)
        learn(way->last);
    else if (way->failed ? r == -ENETDOWN : is_loss(r))
        r = settle(way, TCA_FOREVER);
    return way->last && (r == 0 || r == -ENETDOWN);
}

bool stores_look(void)
{
    bool running = false;
    for (uint32_t rank = 0; all.ways && rank < compat.size; rank++)
        running |= all.ways[rank].last && look(&all.ways[rank]);
    return running;
}
