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
 * (REVOKE), and its reply has arrived after everything that it had sent. The senders are those that
 * have sent HELLO, because a driver writes only over a link. Anyone else who writes has the key
 * from a daemon of the cluster and is not a driver; it cannot be asked, nor its reply believed.
 *
 * The owner is told when the quarantine is over (driver_memory.gone), because until then late
 * writes may allocate pages.
 *
 * A sender that was dropped or killed does not reply. It is kept as departed until the provider
 * reports that there is no connection to it, or until it sends HELLO again: a provider has one
 * connection between two endpoints at a time, so the earlier one is closed by then.
 *
 * Our own writes that were abandoned because their peer was lost may still read freed memory. The
 * quarantine waits for them, too.
 *
 * Nothing here allocates memory, except that the kernel needs some to replace a mapping. If it has
 * none, progress() tries again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drivers/ofi/ofi.h"
#include "proto/wait.h"

#define MS UINT64_C(1000000)

int ofi_quarantine_init(struct ofi_driver *ofi)
{
    struct epoll_event event = {.events = EPOLLIN};
    ofi->freed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return ofi->freed_fd < 0 || epoll_ctl(ofi->event_fd, EPOLL_CTL_ADD, ofi->freed_fd, &event) < 0
               ? -errno
               : unpinner_start(&ofi->unpinner, "tcad-ofi");
}

void ofi_region_unpin(void *context, struct unpin *unpin)
{
    struct ofi_driver *ofi = context;
    struct ofi_region *region = (struct ofi_region *)unpin;
    void *base = region->memory.base;
    ofi_memory_close(&region->memory);
    munmap(base, region->mapped_bytes);
    atomic_fetch_sub_explicit(&ofi->quarantine_bytes, region->mapped_bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&ofi->quarantine_count, 1, memory_order_relaxed);
    driver_memory_gone(region->gone, region->context);
    free(region);
}

static void destroy(struct ofi_driver *ofi, struct ofi_region *region)
{
    unpinner_give(&ofi->unpinner, &region->unpin);
}

/* Replaces a mapping of the owner's memory. False: the kernel has no memory for the mapping. */
static bool replace(struct ofi_region *region)
{
    if (region->shared &&
        mmap(region->memory.base, region->mapped_bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED)
        region->shared = false;
    return !region->shared;
}

void ofi_region_quarantine(struct ofi_driver *ofi, struct ofi_region *region)
{
    if (!region)
        return;
    ofi_region_forget(ofi, region);
    replace(region);
    atomic_fetch_add_explicit(&ofi->quarantine_bytes, region->mapped_bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&ofi->quarantine_count, 1, memory_order_relaxed);
    pthread_mutex_lock(&ofi->freed_lock);
    region->next = NULL;
    *ofi->freed_last = region;
    ofi->freed_last = &region->next;
    atomic_store_explicit(&ofi->freed_any, true,
                          memory_order_relaxed); /* the lock orders the list */
    pthread_mutex_unlock(&ofi->freed_lock);
    eventfd_write(ofi->freed_fd, 1);
}

/* Whether the provider still has a write that was posted by then. */
static bool is_read(const struct ofi_driver *ofi, uint64_t posted)
{
    for (size_t i = 0; i < ofi->requests.count; i++)
        if (ofi->requests.all[i].busy && ofi->requests.all[i].number <= posted)
            return true;
    return false;
}

static void enter(struct ofi_driver *ofi, struct ofi_region *region, uint64_t ask_ns)
{
    region->next = NULL;
    region->posted = ofi->posted;
    if (!region->told && !is_read(ofi, region->posted)) {
        destroy(ofi, region);
        return;
    }
    region->number = ++ofi->last_quarantined;
    region->ask_ns = ask_ns;
    *ofi->quarantined_last = region;
    ofi->quarantined_last = &region->next;
}

static void take_freed(struct ofi_driver *ofi)
{
    eventfd_t ignored;
    eventfd_read(ofi->freed_fd, &ignored);
    pthread_mutex_lock(&ofi->freed_lock);
    struct ofi_region *freed = ofi->freed;
    ofi->freed = NULL;
    ofi->freed_last = &ofi->freed;
    atomic_store_explicit(&ofi->freed_any, false, memory_order_relaxed);
    pthread_mutex_unlock(&ofi->freed_lock);
    const uint64_t ask_ns = clock_now_ns() + OFI_REVOKE_MS * MS;
    for (struct ofi_region *next; freed; freed = next) {
        next = freed->next;
        if (!freed->shared) {
            enter(ofi, freed, ask_ns);
        } else {
            freed->next = ofi->not_replaced;
            ofi->not_replaced = freed;
        }
    }
}

static void replace_again(struct ofi_driver *ofi)
{
    while (ofi->not_replaced && replace(ofi->not_replaced)) {
        struct ofi_region *region = ofi->not_replaced;
        ofi->not_replaced = region->next;
        enter(ofi, region, clock_now_ns());
    }
}

void ofi_quarantine_close(struct ofi_driver *ofi)
{
    if (ofi->freed_fd >= 0)
        take_freed(ofi);
    while (ofi->not_replaced) { /* nothing is written after the endpoint is closed */
        struct ofi_region *region = ofi->not_replaced;
        ofi->not_replaced = region->next;
        enter(ofi, region, 0);
    }
    unpinner_stop(&ofi->unpinner);
    for (struct ofi_region *region = ofi->quarantined; region; region = region->next) {
        fi_close(&region->memory.mr->fid);
        region->memory.mr = NULL;
    }
}

void ofi_quarantine_deinit(struct ofi_driver *ofi)
{
    while (ofi->quarantined) {
        struct ofi_region *region = ofi->quarantined;
        ofi->quarantined = region->next;
        destroy(ofi, region);
    }
    while (ofi->departed) {
        struct ofi_source *departed = ofi->departed;
        ofi->departed = departed->next_departed;
        free(departed);
    }
    if (ofi->freed_fd >= 0)
        close(ofi->freed_fd);
}

bool ofi_quarantine_waiting(const struct ofi_driver *ofi)
{
    return ofi->quarantined || ofi->departed || ofi->not_replaced ||
           atomic_load_explicit(&ofi->freed_any, memory_order_relaxed);
}

uint64_t ofi_quarantine_due_ns(const struct ofi_driver *ofi)
{
    uint64_t due_ns = ofi->not_replaced ? clock_now_ns() + OFI_RETRY_MS * MS : UINT64_MAX;
    for (const struct ofi_source *each = ofi->departed; each; each = each->next_departed)
        due_ns = each->ask_clear_ns < due_ns ? each->ask_clear_ns : due_ns;
    for (uint32_t index = 0; index < ofi->sources_end && ofi->quarantined; index++) {
        const struct ofi_source *source = ofi->sources[index];
        if (source && source->clear < ofi->last_quarantined && source->ask_clear_ns < due_ns)
            due_ns = source->ask_clear_ns;
    }
    return due_ns;
}

/* ---- senders ---- */

/* Doubles the interval, up to a maximum. */
static void look_again(struct ofi_source *source, uint64_t now_ns)
{
    source->ask_clear_ns = now_ns + source->probe_period_ns;
    if (source->probe_period_ns < OFI_AGAIN_MAX_MS * MS)
        source->probe_period_ns *= 2;
}

/* Asks the sender to stop using the keys of quarantined regions. */
static void ask(struct ofi_driver *ofi, struct ofi_source *source, uint64_t now_ns)
{
    struct ofi_message message = {.type = OFI_REVOKE, .to = source->address.cookie};
    const struct ofi_region *region = ofi->quarantined;
    for (; region && region->ask_ns <= now_ns; region = region->next) {
        if (region->number <= source->clear)
            continue;
        if (region->told && message.key_count == OFI_MESSAGE_KEYS)
            break;
        if (region->told)
            message.keys[message.key_count++] = fi_mr_key(region->memory.mr);
        message.number = region->number;
    }
    if (message.key_count > 0) {
        look_again(source, now_ns);
        if (ofi_message_send(ofi, source->name, &message) == 0)
            source->asked_clear = message.number;
        return;
    }
    if (message.number > 0)
        source->clear = message.number;
    if (region)
        source->ask_clear_ns = region->ask_ns;
}

void ofi_revoked(struct ofi_driver *ofi, const struct ofi_message *message)
{
    for (uint32_t index = 0; index < ofi->sources_end; index++) {
        struct ofi_source *source = ofi->sources[index];
        if (!source || !ofi_same(&source->address.cookie, &message->from.cookie) ||
            message->number > source->asked_clear || message->number <= source->clear)
            continue;
        source->clear = message->number;
        source->ask_clear_ns = 0;
        source->probe_period_ns = OFI_AGAIN_MS * MS;
    }
}

void ofi_departed_new(struct ofi_driver *ofi, struct ofi_source *source)
{
    source->ask_clear_ns = 0;
    source->probe_period_ns = OFI_AGAIN_MS * MS;
    source->next_departed = ofi->departed;
    ofi->departed = source;
}

static void departed_free(struct ofi_driver *ofi, struct ofi_source **at)
{
    struct ofi_source *departed = *at;
    *at = departed->next_departed;
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

static void probe_departed(struct ofi_driver *ofi, uint64_t now_ns)
{
    for (struct ofi_source **at = &ofi->departed; *at;) {
        struct ofi_source *departed = *at;
        if (now_ns < departed->ask_clear_ns) {
            at = &departed->next_departed;
        } else if (ofi_write_probe(ofi, departed->name, &departed->address) < 0) {
            departed_free(ofi, at);
        } else {
            look_again(departed, now_ns);
            at = &departed->next_departed;
        }
    }
}

/* ---- freeing ---- */

/* The number up to which every sender has stopped. */
static uint64_t clear_of_all(const struct ofi_driver *ofi)
{
    uint64_t clear = UINT64_MAX;
    for (uint32_t index = 0; index < ofi->sources_end; index++)
        if (ofi->sources[index] && ofi->sources[index]->clear < clear)
            clear = ofi->sources[index]->clear;
    for (const struct ofi_source *departed = ofi->departed; departed;
         departed = departed->next_departed)
        if (departed->clear < clear)
            clear = departed->clear;
    return clear;
}

static int release_clear(struct ofi_driver *ofi)
{
    const uint64_t clear = clear_of_all(ofi);
    int freed = 0;
    while (ofi->quarantined && ofi->quarantined->number <= clear &&
           !is_read(ofi, ofi->quarantined->posted)) {
        struct ofi_region *region = ofi->quarantined;
        ofi->quarantined = region->next;
        if (!ofi->quarantined)
            ofi->quarantined_last = &ofi->quarantined;
        destroy(ofi, region);
        freed++;
    }
    return freed;
}

int ofi_quarantine_run(struct ofi_driver *ofi)
{
    if (atomic_load_explicit(&ofi->freed_any, memory_order_relaxed))
        take_freed(ofi);
    if (ofi->not_replaced)
        replace_again(ofi);
    const uint64_t now_ns = clock_now_ns();
    if (ofi->departed)
        probe_departed(ofi, now_ns);
    if (!ofi->quarantined)
        return 0;
    for (uint32_t index = 0; index < ofi->sources_end; index++) {
        struct ofi_source *source = ofi->sources[index];
        if (source && source->clear < ofi->last_quarantined && now_ns >= source->ask_clear_ns)
            ask(ofi, source, now_ns);
    }
    return release_clear(ofi);
}

/* ---- the sender: stops when asked ---- */

/* The reply follows everything that was posted before; nothing is written to these keys after it. */
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
