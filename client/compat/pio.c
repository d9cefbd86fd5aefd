/*
 * CPU stores into remote memory. Into memory of this process: stores. Elsewhere: small plans, one
 * for each place and size that is stored to, kept for the next time.
 *
 * Order: the last bytes of a store are a put of their own behind the rest; the next store to a
 * process is started when the one before is complete, and on the same rail. Rails that do not keep
 * the order of puts keep it before a notification: the last put has one. Where the receiver has to
 * copy what comes to memory of its program's own, one is complete when that is done.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/compat/compat.h"
#include "client/compat/turn.h"

#define PIO_MAGIC 0x4f495054u /* "TPIO" */
enum { STORES_MAX = 1024 };

/* What a tcaPIOHandle holds. */
struct part {
    uint32_t magic;
    uint32_t reserved;
    uint64_t offset_bytes;
    struct reference remote;
};
_Static_assert(sizeof(struct part) <= sizeof(tcaPIOHandle), "a PIO handle has room for it");

struct store {
    struct tca_handle memory;
    uint32_t rank;
    bool attached; /* the memory is the program's own there */
    uint64_t offset_bytes, bytes;
    struct tca_plan *plan; /* NULL: unused */
    void *source;          /* that the plan puts from */
    uint64_t used;         /* when it was used last */
};

static struct {
    struct store stores[STORES_MAX];
    uint64_t uses;
    struct store **last;  /* by rank: the one that may still run; NULL: none does */
    enum tca_rail *rails; /* by rank: that all go by; TCA_RAIL_ANY: not known yet */
} pio;

static tcaresult check_host(const struct reference *remote, const char *name)
{
    if (!remote->device)
        return TCA_SUCCESS;
    return compat_fail(TCA_ERROR_NOT_SUPPORTED,
                       "%s: the handle is of a GPU's memory, where no CPU can store: put it there "
                       "with a descriptor (tcaDescSetMemcpy)",
                       name);
}

TCA_API tcaresult tcaSetPIORegion(tcaPIOHandle *ret_pio, const tcaHandle *remote, off_t off,
                                  size_t size)
{
    TAKE_TURN();
    struct part part = {.magic = PIO_MAGIC, .offset_bytes = (uint64_t)off};
    uint64_t end;
    tcaresult result = reference_read(remote, "tcaSetPIORegion", &part.remote);
    if (result == TCA_SUCCESS)
        result = check_host(&part.remote, "tcaSetPIORegion");
    if (result != TCA_SUCCESS)
        return result;
    if (!ret_pio)
        return compat_fail(TCA_ERROR_INVALID_VALUE, "tcaSetPIORegion: no place for the PIO handle");
    if (off < 0 || __builtin_add_overflow(part.offset_bytes, (uint64_t)size, &end) ||
        end > part.remote.bytes)
        return compat_fail(TCA_ERROR_INVALID_VALUE,
                           "tcaSetPIORegion: %zu bytes from offset %lld on are outside of the %llu "
                           "bytes of the handle",
                           size, (long long)off, (unsigned long long)part.remote.bytes);
    memset(ret_pio, 0, sizeof(*ret_pio));
    memcpy(ret_pio, &part, sizeof(part));
    return TCA_SUCCESS;
}

static tcaresult read_part(const tcaPIOHandle *handle, off_t off, size_t size,
                           struct part *ret_part)
{
    struct part part;
    uint64_t end;
    int64_t begin;
    tcaresult result = compat_ready();
    if (result != TCA_SUCCESS)
        return result;
    if (!handle)
        return compat_fail(TCA_ERROR_INVALID_VALUE, "tcaSendPIO: no PIO handle");
    memcpy(&part, handle, sizeof(part));
    if (part.magic != PIO_MAGIC || part.remote.rank >= compat.size)
        return compat_fail(TCA_ERROR_INVALID_VALUE,
                           "tcaSendPIO: no PIO handle of tcaSetPIORegion()");
    if (__builtin_add_overflow((int64_t)part.offset_bytes, (int64_t)off, &begin) || begin < 0 ||
        __builtin_add_overflow((uint64_t)begin, (uint64_t)size, &end) || end > part.remote.bytes)
        return compat_fail(
            TCA_ERROR_INVALID_VALUE,
            "tcaSendPIO: %zu bytes at %llu + %lld are outside of the %llu bytes of the handle",
            size, (unsigned long long)part.offset_bytes, (long long)off,
            (unsigned long long)part.remote.bytes);
    part.offset_bytes = (uint64_t)begin;
    *ret_part = part;
    return check_host(&part.remote, "tcaSendPIO");
}

/* How many bytes come before the last, which lie in eight that are aligned. */
static uint64_t head_of(uint64_t address, uint64_t bytes)
{
    uint64_t tail = (address + bytes - 1) & ~7ull;
    return tail > address ? tail - address : 0;
}

/* ---- here ---- */

static void store_last(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
    uint64_t word;
    uint32_t half;
    if (bytes == sizeof(word) && ((uintptr_t)to & 7) == 0) {
        memcpy(&word, from, sizeof(word));
        __atomic_store_n((uint64_t *)to, word, __ATOMIC_RELEASE);
    } else if (bytes == sizeof(half) && ((uintptr_t)to & 3) == 0) {
        memcpy(&half, from, sizeof(half));
        __atomic_store_n((uint32_t *)to, half, __ATOMIC_RELEASE);
    } else {
        __atomic_thread_fence(__ATOMIC_RELEASE);
        memcpy(to, from, bytes);
    }
}

static tcaresult store_here(const struct part *part, const void *src, size_t size)
{
    struct tca_region *region;
    uint64_t offset;
    tcaresult result = reference_region(&part->remote, &region, &offset);
    if (result != TCA_SUCCESS)
        return result;
    uint8_t *to = (uint8_t *)(uintptr_t)(part->remote.address + part->offset_bytes);
    uint64_t head = head_of((uintptr_t)to, size);
    memcpy(to, src, head);
    store_last(to + head, (const uint8_t *)src + head, size - head);
    return TCA_SUCCESS;
}

/* ---- elsewhere ---- */

static int release(struct store *store)
{
    tca_plan_free(store->plan);
    store->plan = NULL;
    if (pio.last[store->rank] == store)
        pio.last[store->rank] = NULL;
    return tca_free(compat.session, store->source);
}

/* The store before has gone out: what came of it. */
static int settle(uint32_t rank, int64_t timeout_ns)
{
    struct store *last = pio.last[rank];
    struct tca_receipt receipt;
    if (!last)
        return 0;
    int r = tca_wait(last->plan, timeout_ns);
    if (r == 0 && tca_plan_receipt(last->plan, &receipt) == 0)
        pio.rails[rank] = receipt.rail;
    pio.last[rank] = NULL;
    return r;
}

static bool is_near(uint32_t rank)
{
    return tca_node_of(compat.session, rank) == (int)compat.node;
}

static int build(struct store *store, const struct part *part)
{
    const bool near = is_near(store->rank);
    const struct tca_plan_args args = {.name = "tca-api PIO",
                                       .rail = pio.rails[store->rank],
                                       .seat = store->attached ? TCA_SEAT_DAEMON : TCA_SEAT_ANY,
                                       .flags = near || store->attached ? TCA_PLAN_LANDED : 0};
    struct tca_put put = {.source_address = store->source,
                          .target = store->memory,
                          .target_offset_bytes = store->offset_bytes,
                          .bytes =
                              head_of(part->remote.address + store->offset_bytes, store->bytes)};
    int r = tca_plan_new(compat.session, &args, &store->plan);
    if (r == 0 && put.bytes > 0) {
        r = tca_plan_put(store->plan, &put);
        put.source_address = (uint8_t *)store->source + put.bytes;
        put.target_offset_bytes += put.bytes;
    }
    put.bytes = store->bytes - put.bytes;
    if (r == 0)
        r = tca_plan_put(store->plan, &put);
    if (r == 0 && !near)
        r = tca_plan_notify(store->plan, store->rank, NOTIFY_PIO);
    if (r == 0)
        r = tca_plan_commit(store->plan, TCA_DEFAULT);
    if (r < 0)
        store->plan = tca_plan_free(store->plan);
    return r;
}

/* The place of the one that was used least lately. */
static struct store *make_room(void)
{
    struct store *oldest = &pio.stores[0];
    for (int i = 0; i < STORES_MAX; i++) {
        if (!pio.stores[i].plan)
            return &pio.stores[i];
        if (pio.stores[i].used < oldest->used)
            oldest = &pio.stores[i];
    }
    release(oldest);
    return oldest;
}

static int make(const struct part *part, size_t size, struct store **ret_store)
{
    struct store *store = make_room();
    *store = (struct store){.memory = part->remote.memory,
                            .rank = part->remote.rank,
                            .attached = part->remote.attached,
                            .offset_bytes = part->offset_bytes,
                            .bytes = size};
    int r = tca_alloc(compat.session, size, &store->source);
    if (r < 0)
        return r;
    r = build(store, part);
    if (r < 0) {
        tca_free(compat.session, store->source);
        return r;
    }
    *ret_store = store;
    return 0;
}

static struct store *find(const struct part *part, size_t size)
{
    for (int i = 0; i < STORES_MAX; i++) {
        struct store *store = &pio.stores[i];
        if (store->plan && store->offset_bytes == part->offset_bytes && store->bytes == size &&
            memcmp(&store->memory, &part->remote.memory, sizeof(store->memory)) == 0)
            return store;
    }
    return NULL;
}

static tcaresult open_pio(void)
{
    if (!pio.last)
        pio.last = calloc(compat.size, sizeof(struct store *));
    if (!pio.rails)
        pio.rails = calloc(compat.size, sizeof(*pio.rails));
    return pio.last && pio.rails
               ? TCA_SUCCESS
               : compat_fail(TCA_ERROR_OUT_OF_MEMORY, "no memory for %u processes", compat.size);
}

/* One that cannot be started is of no use any more. */
static int start(struct store *store, const void *src)
{
    memcpy(store->source, src, store->bytes);
    store->used = ++pio.uses;
    int r = tca_start(store->plan);
    if (r < 0) {
        release(store);
        return r;
    }
    pio.last[store->rank] = store;
    return is_near(store->rank) ? settle(store->rank, TCA_FOREVER)
                                : 0; /* nobody else would go on with it */
}

static int send(const struct part *part, const void *src, size_t size)
{
    struct store *store = find(part, size);
    int r = store ? 0 : make(part, size, &store);
    return r == 0 ? start(store, src) : r;
}

static tcaresult store_there(const struct part *part, const void *src, size_t size)
{
    const uint32_t rank = part->remote.rank;
    tcaresult result = open_pio();
    if (result != TCA_SUCCESS)
        return result;
    int r = settle(rank, TCA_FOREVER);
    if (r == 0)
        r = send(part, src, size);
    if (r == -ENETDOWN &&
        pio.rails[rank] != TCA_RAIL_ANY) { /* that rail has gone, and what was under way on it */
        pio.rails[rank] = TCA_RAIL_ANY;
        r = send(part, src, size);
    }
    return r < 0 ? compat_fail_errno(r, "tcaSendPIO") : TCA_SUCCESS;
}

TCA_API tcaresult tcaSendPIO(const tcaPIOHandle *handle, off_t off, const void *src, size_t size)
{
    TAKE_TURN();
    struct part part;
    tcaresult result = read_part(handle, off, size, &part);
    if (result != TCA_SUCCESS || size == 0)
        return result;
    if (!src)
        return compat_fail(TCA_ERROR_INVALID_VALUE, "tcaSendPIO: no source for %zu bytes", size);
    return part.remote.rank == compat.rank ? store_here(&part, src, size)
                                           : store_there(&part, src, size);
}

void pio_settle(int64_t timeout_ns)
{
    for (uint32_t rank = 0; pio.last && rank < compat.size; rank++)
        settle(rank, timeout_ns);
}

TCA_API tcaresult tcaSendPIOCommit(void)
{
    TAKE_TURN();
    tcaresult result = compat_ready();
    for (uint32_t rank = 0; pio.last && rank < compat.size; rank++) {
        int r = settle(rank, TCA_FOREVER);
        if (r < 0)
            result = compat_fail_errno(r, "tcaSendPIOCommit");
    }
    return result;
}
