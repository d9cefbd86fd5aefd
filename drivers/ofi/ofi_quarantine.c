/*
 * Freed memory to which the provider may still write. A software provider checks the key when a
 * write starts to arrive, and copies the rest to the same address when that arrives, even if the
 * registration was closed meanwhile. (With hardware, closing the registration is sufficient, and
 * this does no harm.)
 *
 * Each region is therefore a mapping of the driver's own. When it is freed, empty anonymous memory
 * replaces it in one step and takes late writes. The addresses are not reused, and the registration
 * stays (a write with an unknown key would break the connection, and lose other writes with it),
 * until no late write can arrive: every sender that may know the key has been asked to stop
 * (REVOKE; drivers/recall.h), and its reply has arrived after everything that it had sent. No key
 * can be revoked otherwise, so none of them can be cut off. The senders are those that have sent
 * HELLO, because a driver writes only over a link. Anyone else who writes has the key from a daemon
 * of the cluster and is not a driver; it cannot be asked, nor its reply believed.
 *
 * The owner is told when the quarantine is over (driver_memory.gone), because until then late
 * writes may allocate pages.
 *
 * A sender that was dropped or killed does not reply. It is kept as departed until the provider
 * reports that there is no connection to it, or until it sends HELLO again: a provider has one
 * connection between two endpoints at a time, so the earlier one is closed by then.
 *
 * Our own writes that were abandoned because their peer was lost may still read freed memory. It is
 * recalled after them.
 *
 * Nothing here allocates memory, except that the kernel needs some to replace a mapping. If it has
 * none, progress() tries again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drivers/ofi/ofi.h"
#include "proto/wait.h"

#define MS UINT64_C(1000000)

static bool holds(void *context, const struct recall_holder *holder, const struct recall_key *key)
{
    return ((const struct ofi_region *)key)->told;
}

/* If it is lost, it is repeated. */
static int send_revoke(void *context, struct recall_holder *holder, struct recall_key *const *keys,
                       unsigned count, uint64_t number)
{
    const struct ofi_source *source =
        (struct ofi_source *)((char *)holder - offsetof(struct ofi_source, holder));
    struct ofi_message message = {
        .type = OFI_REVOKE, .to = source->address.cookie, .number = number, .key_count = count};
    for (unsigned i = 0; i < count; i++)
        message.keys[i] = fi_mr_key(((const struct ofi_region *)keys[i])->memory.mr);
    ofi_message_send(context, source->name, &message);
    return 0;
}

static void release(void *context, struct recall_key *key)
{
    struct ofi_driver *ofi = context;
    struct ofi_region *region = (struct ofi_region *)key;
    void *base = region->memory.base;
    ofi_memory_close(&region->memory);
    munmap(base, region->mapped_bytes);
    atomic_fetch_sub_explicit(&ofi->quarantine_bytes, region->mapped_bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&ofi->quarantine_count, 1, memory_order_relaxed);
    driver_memory_gone(region->gone, region->context);
    free(region);
}

static const struct recall_driver recall_driver = {
    .holds = holds,
    .send = send_revoke,
    .free = release,
    .many = OFI_MESSAGE_KEYS,
    .delay_ns = OFI_REVOKE_MS * MS,
    .again_ns = OFI_AGAIN_MS * MS,
    .again_max_ns = OFI_AGAIN_MAX_MS * MS,
};

int ofi_quarantine_init(struct ofi_driver *ofi)
{
    int r = recall_init(&ofi->recall, &recall_driver, ofi, 0, ofi->event_fd);
    return r < 0 ? r : recall_start_thread(&ofi->recall, "tcad-ofi");
}

/* ---- freed regions ---- */

/* Replaces a mapping of the owner's memory. False: the kernel has no memory for the mapping. */
static bool replace(struct ofi_region *region)
{
    if (region->shared &&
        mmap(region->memory.base, region->mapped_bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED)
        region->shared = false;
    return !region->shared;
}

/* By any thread. The polling thread takes them, all at once. */
static void push(struct ofi_driver *ofi, struct ofi_region *region)
{
    region->next = atomic_load_explicit(&ofi->freed, memory_order_relaxed);
    /* release: pairs with the acquire in recall_freed() */
    while (!atomic_compare_exchange_weak_explicit(&ofi->freed, &region->next, region,
                                                  memory_order_release, memory_order_relaxed))
        ;
}

void ofi_region_quarantine(struct ofi_driver *ofi, struct ofi_region *region)
{
    if (!region)
        return;
    ofi_region_forget(ofi, region);
    replace(region);
    atomic_fetch_add_explicit(&ofi->quarantine_bytes, region->mapped_bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&ofi->quarantine_count, 1, memory_order_relaxed);
    region->posted = atomic_load_explicit(&ofi->posted, memory_order_relaxed);
    push(ofi, region);
    recall_wake(&ofi->recall);
}

/* The number of the oldest write that the provider still has. */
static uint64_t oldest_write(const struct ofi_driver *ofi)
{
    uint64_t oldest = UINT64_MAX;
    for (size_t i = 0; i < ofi->requests.count; i++)
        if (ofi->requests.all[i].busy && ofi->requests.all[i].number < oldest)
            oldest = ofi->requests.all[i].number;
    return oldest;
}

/* Those that are replaced and that no own write reads. */
static void recall_freed(struct ofi_driver *ofi, uint64_t now_ns)
{
    const uint64_t oldest = oldest_write(ofi);
    /* acquire: pairs with the release in push() */
    struct ofi_region *region = atomic_exchange_explicit(&ofi->freed, NULL, memory_order_acquire);
    for (struct ofi_region *next; region; region = next) {
        next = region->next;
        if (replace(region) && region->posted < oldest)
            recall_begin(&ofi->recall, &region->recall, now_ns);
        else
            push(ofi, region);
    }
}

static bool is_any_freed(const struct ofi_driver *ofi)
{
    return atomic_load_explicit(&ofi->freed, memory_order_relaxed);
}

/* Nothing is written after the endpoint is closed. */
void ofi_quarantine_close(struct ofi_driver *ofi)
{
    struct ofi_region *region = atomic_exchange(&ofi->freed, NULL);
    for (struct ofi_region *next; region; region = next) {
        next = region->next;
        recall_begin(&ofi->recall, &region->recall, 0);
    }
    recall_stop_thread(&ofi->recall);
    for (struct recall_key *key = ofi->recall.keys; key; key = key->next) {
        struct ofi_memory *memory = &((struct ofi_region *)key)->memory;
        fi_close(&memory->mr->fid);
        memory->mr = NULL;
    }
}

void ofi_quarantine_deinit(struct ofi_driver *ofi)
{
    recall_deinit(&ofi->recall);
    while (ofi->departed) {
        struct ofi_source *departed = ofi->departed;
        ofi->departed = departed->next_departed;
        free(departed);
    }
}

bool ofi_quarantine_waiting(struct ofi_driver *ofi)
{
    return recall_is_busy(&ofi->recall) || ofi->departed || is_any_freed(ofi);
}

uint64_t ofi_quarantine_due_ns(struct ofi_driver *ofi)
{
    uint64_t due_ns = recall_due_ns(&ofi->recall);
    for (const struct ofi_source *each = ofi->departed; each; each = each->next_departed)
        due_ns = each->probe_ns < due_ns ? each->probe_ns : due_ns;
    /* Only this thread takes them from the list. The others wait for completions. */
    for (const struct ofi_region *region =
             atomic_load_explicit(&ofi->freed, memory_order_acquire); /* as in recall_freed() */
         region; region = region->next)
        if (region->shared) {
            const uint64_t retry_ns = clock_now_ns() + OFI_RETRY_MS * MS;
            return retry_ns < due_ns ? retry_ns : due_ns;
        }
    return due_ns;
}

/* ---- senders ---- */

void ofi_revoked(struct ofi_driver *ofi, const struct ofi_message *message)
{
    for (uint32_t index = 0; index < ofi->sources_end; index++) {
        struct ofi_source *source = ofi->sources[index];
        if (source && ofi_same(&source->address.cookie, &message->from.cookie))
            recall_ack(&ofi->recall, &source->holder, message->number);
    }
}

void ofi_departed_new(struct ofi_driver *ofi, struct ofi_source *source)
{
    recall_mute(&ofi->recall, &source->holder);
    source->probe_ns = 0;
    source->probe_period_ns = OFI_AGAIN_MS * MS;
    source->next_departed = ofi->departed;
    ofi->departed = source;
}

static void departed_free(struct ofi_driver *ofi, struct ofi_source **at)
{
    struct ofi_source *departed = *at;
    *at = departed->next_departed;
    recall_leave(&ofi->recall, &departed->holder);
    ofi_name_give(ofi, departed->name);
    free(departed);
}

void ofi_departed_gone(struct ofi_driver *ofi, const struct ofi_address *address)
{
    for (struct ofi_source **at = &ofi->departed; *at;) {
        if (memcmp((*at)->address.name, address->name, sizeof(address->name)) == 0)
            departed_free(ofi, at);
        else
            at = &(*at)->next_departed;
    }
}

/* At growing intervals. */
static void probe_departed(struct ofi_driver *ofi, uint64_t now_ns)
{
    for (struct ofi_source **at = &ofi->departed; *at;) {
        struct ofi_source *departed = *at;
        if (now_ns >= departed->probe_ns) {
            if (ofi_write_probe(ofi, departed->name, &departed->address) < 0) {
                departed_free(ofi, at);
                continue;
            }
            departed->probe_ns = now_ns + departed->probe_period_ns;
            if (departed->probe_period_ns < OFI_AGAIN_MAX_MS * MS)
                departed->probe_period_ns *= 2;
        }
        at = &departed->next_departed;
    }
}

int ofi_quarantine_run(struct ofi_driver *ofi)
{
    const uint64_t now_ns = clock_now_ns();
    if (is_any_freed(ofi))
        recall_freed(ofi, now_ns);
    if (ofi->departed)
        probe_departed(ofi, now_ns);
    return recall_is_busy(&ofi->recall) ? (int)recall_run(&ofi->recall, now_ns) : 0;
}

/* ---- the sender: stops when asked ---- */

/* The reply follows everything that was posted before; nothing is written to these keys after
 * it. */
void ofi_revoke(struct ofi_driver *ofi, const struct ofi_message *message)
{
    struct ofi_message reply = {
        .type = OFI_REVOKED, .to = message->from.cookie, .number = message->number};
    struct ofi_name *name;
    const uint32_t count = ofi_message_keys(message);
    for (uint32_t i = 0; i < count; i++)
        ofi_puts_revoke(ofi, &message->from.cookie, message->keys[i]);
    for (uint32_t index = 0; index < OFI_LINKS_MAX; index++) {
        struct ofi_peer *peer = ofi->links[index];
        if (!peer || !ofi_same(&peer->address.cookie, &message->from.cookie))
            continue;
        for (uint32_t i = 0; i < count; i++) {
            struct ofi_link *link = &peer->link;
            link->revoked[link->revoked_next++ % OFI_REVOKED_KEPT] = message->keys[i];
        }
    }
    if (ofi_name_take(ofi, &message->from, &name) < 0)
        return;
    ofi_message_send(ofi, name, &reply); /* if it is lost, the peer asks again */
    ofi_name_give(ofi, name);
}
