/*
 * Memory that has been freed, and that the provider may still write to: a software provider looks
 * for the key when a write begins to arrive, and copies the rest of it to the same address whenever
 * that comes, whether or not the registration has been closed since. (With hardware, closing the
 * registration is enough, and what follows does no harm.)
 *
 * So each region is a mapping of the driver's own. When it ends, other memory takes its place, empty
 * and nobody's, in one step; what still comes lands there. Its addresses are given to nobody else,
 * and the registration stays (a write with an unknown key would cost the connection, and with it
 * what others have on their way), until nothing can come: every sender that may know the key has
 * been asked to stop (REVOKE), and its answer has come behind all that it had sent.
 *
 * A sender that we have dropped, or that was killed, does not answer. It is kept as a ghost until
 * the provider says that no connection with it stands, or until it says HELLO again: a provider has
 * one connection between two endpoints at a time, so the earlier one has been closed by then.
 *
 * Writes of ours that were given up (a peer went down) may read memory that ends later: it also
 * waits for these.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drivers/ofi/ofi.h"
#include "proto/wait.h"

#define MS UINT64_C(1000000)

int ofi_graves_init(struct ofi_driver *ofi)
{
    struct epoll_event event = {.events = EPOLLIN};
    ofi->dug_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return ofi->dug_fd < 0 || epoll_ctl(ofi->event_fd, EPOLL_CTL_ADD, ofi->dug_fd, &event) < 0
               ? -errno
               : 0;
}

static void destroy(struct ofi_driver *ofi, struct ofi_grave *grave)
{
    struct ofi_region *region = &grave->region;
    void *base = region->memory.base;
    ofi_memory_close(&region->memory);
    munmap(base, region->mapped_bytes);
    atomic_fetch_sub_explicit(&ofi->grave_bytes, region->mapped_bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&ofi->grave_count, 1, memory_order_relaxed);
    free(grave);
}

void ofi_bury(struct ofi_driver *ofi, struct ofi_region *region)
{
    struct ofi_grave *grave;
    if (!region)
        return;
    ofi_region_forget(ofi, region);
    while (!(grave = malloc(sizeof(*grave))))
        sched_yield();
    /* Replacing a mapping by one of the same kind needs no memory but for its own description. */
    while (region->others &&
           mmap(region->memory.base, region->mapped_bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        sched_yield();
    *grave = (struct ofi_grave){.region = *region};
    free(region);
    atomic_fetch_add_explicit(&ofi->grave_bytes, grave->region.mapped_bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&ofi->grave_count, 1, memory_order_relaxed);
    pthread_mutex_lock(&ofi->graves_lock);
    *ofi->dug_last = grave;
    ofi->dug_last = &grave->next;
    atomic_store_explicit(&ofi->dug_any, true, memory_order_relaxed); /* the lock orders the list */
    pthread_mutex_unlock(&ofi->graves_lock);
    eventfd_write(ofi->dug_fd, 1);
}

/* Whether a write that was posted by then is still the provider's. */
static bool is_read(const struct ofi_driver *ofi, uint64_t posted)
{
    for (size_t i = 0; i < ofi->requests.count; i++)
        if (ofi->requests.all[i].busy && ofi->requests.all[i].number <= posted)
            return true;
    return false;
}

static void take_dug(struct ofi_driver *ofi)
{
    eventfd_t ignored;
    eventfd_read(ofi->dug_fd, &ignored);
    pthread_mutex_lock(&ofi->graves_lock);
    struct ofi_grave *dug = ofi->dug;
    ofi->dug = NULL;
    ofi->dug_last = &ofi->dug;
    atomic_store_explicit(&ofi->dug_any, false, memory_order_relaxed);
    pthread_mutex_unlock(&ofi->graves_lock);
    const uint64_t ask_ns = clock_now_ns() + OFI_REVOKE_MS * MS;
    for (struct ofi_grave *next; dug; dug = next) {
        next = dug->next;
        dug->next = NULL;
        dug->posted = ofi->posted;
        if (!dug->region.told && !is_read(ofi, dug->posted)) {
            destroy(ofi, dug);
            continue;
        }
        dug->number = ++ofi->last_grave;
        dug->ask_ns = ask_ns;
        *ofi->graves_last = dug;
        ofi->graves_last = &dug->next;
    }
}

void ofi_graves_close(struct ofi_driver *ofi)
{
    if (ofi->dug_fd >= 0)
        take_dug(ofi);
    for (struct ofi_grave *grave = ofi->graves; grave; grave = grave->next) {
        fi_close(&grave->region.memory.mr->fid);
        grave->region.memory.mr = NULL;
    }
}

void ofi_graves_deinit(struct ofi_driver *ofi)
{
    while (ofi->graves) {
        struct ofi_grave *grave = ofi->graves;
        ofi->graves = grave->next;
        destroy(ofi, grave);
    }
    while (ofi->ghosts) {
        struct ofi_source *ghost = ofi->ghosts;
        ofi->ghosts = ghost->next_ghost;
        free(ghost);
    }
    if (ofi->dug_fd >= 0)
        close(ofi->dug_fd);
}

bool ofi_graves_waiting(const struct ofi_driver *ofi)
{
    return ofi->graves || ofi->ghosts || atomic_load_explicit(&ofi->dug_any, memory_order_relaxed);
}

/* ---- senders ---- */

static void ask(struct ofi_driver *ofi, struct ofi_source *source, uint64_t now_ns)
{
    struct ofi_message message = {.type = OFI_REVOKE, .to = source->address.cookie};
    for (const struct ofi_grave *grave = ofi->graves; grave; grave = grave->next) {
        if (grave->number <= source->clear)
            continue;
        if (grave->ask_ns > now_ns)
            break;
        if (grave->region.told && message.key_count == OFI_MESSAGE_KEYS)
            break;
        if (grave->region.told)
            message.keys[message.key_count++] = fi_mr_key(grave->region.memory.mr);
        message.number = grave->number;
    }
    source->ask_clear_ns = now_ns + OFI_AGAIN_MS * MS;
    if (message.key_count == 0) {
        if (message.number > 0)
            source->clear = message.number;
    } else if (ofi_message_send(ofi, source->name, &message) == 0) {
        source->asked_clear = message.number;
    }
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
    }
}

void ofi_ghost_new(struct ofi_driver *ofi, struct ofi_source *source)
{
    source->ask_clear_ns = 0;
    source->ghost_period_ns = OFI_AGAIN_MS * MS;
    source->next_ghost = ofi->ghosts;
    ofi->ghosts = source;
}

static void ghost_free(struct ofi_driver *ofi, struct ofi_source **at)
{
    struct ofi_source *ghost = *at;
    *at = ghost->next_ghost;
    ofi_name_give(ofi, ghost->name);
    free(ghost);
}

void ofi_ghosts_gone(struct ofi_driver *ofi, const struct ofi_address *address)
{
    for (struct ofi_source **at = &ofi->ghosts; *at;) {
        if (memcmp((*at)->address.name, address->name, sizeof(address->name)) == 0)
            ghost_free(ofi, at);
        else
            at = &(*at)->next_ghost;
    }
}

static void look_for_ghosts(struct ofi_driver *ofi, uint64_t now_ns)
{
    for (struct ofi_source **at = &ofi->ghosts; *at;) {
        struct ofi_source *ghost = *at;
        if (now_ns < ghost->ask_clear_ns) {
            at = &ghost->next_ghost;
        } else if (ofi_write_probe(ofi, ghost->name, &ghost->address) < 0) {
            ghost_free(ofi, at);
        } else {
            ghost->ask_clear_ns = now_ns + ghost->ghost_period_ns;
            if (ghost->ghost_period_ns < OFI_AGAIN_MAX_MS * MS)
                ghost->ghost_period_ns *= 2;
            at = &ghost->next_ghost;
        }
    }
}

/* ---- freeing ---- */

/* The last grave that every sender is clear of. */
static uint64_t clear_of_all(const struct ofi_driver *ofi)
{
    uint64_t clear = UINT64_MAX;
    for (uint32_t index = 0; index < ofi->sources_end; index++)
        if (ofi->sources[index] && ofi->sources[index]->clear < clear)
            clear = ofi->sources[index]->clear;
    for (const struct ofi_source *ghost = ofi->ghosts; ghost; ghost = ghost->next_ghost)
        if (ghost->clear < clear)
            clear = ghost->clear;
    return clear;
}

static int free_graves(struct ofi_driver *ofi)
{
    const uint64_t clear = clear_of_all(ofi);
    int freed = 0;
    while (ofi->graves && ofi->graves->number <= clear && !is_read(ofi, ofi->graves->posted)) {
        struct ofi_grave *grave = ofi->graves;
        ofi->graves = grave->next;
        if (!ofi->graves)
            ofi->graves_last = &ofi->graves;
        destroy(ofi, grave);
        freed++;
    }
    return freed;
}

int ofi_graves_settle(struct ofi_driver *ofi)
{
    if (atomic_load_explicit(&ofi->dug_any, memory_order_relaxed))
        take_dug(ofi);
    const uint64_t now_ns = clock_now_ns();
    if (ofi->ghosts)
        look_for_ghosts(ofi, now_ns);
    if (!ofi->graves)
        return 0;
    for (uint32_t index = 0; index < ofi->sources_end; index++) {
        struct ofi_source *source = ofi->sources[index];
        if (source && source->clear < ofi->last_grave && now_ns >= source->ask_clear_ns)
            ask(ofi, source, now_ns);
    }
    return free_graves(ofi);
}

/* ---- the other side: who puts there stops ---- */

/* Behind it comes what was posted before, and nothing to these places after it. */
void ofi_revoke(struct ofi_driver *ofi, const struct ofi_message *message)
{
    struct ofi_message answer = {
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
    ofi_message_send(ofi, name, &answer); /* who does not hear it asks again */
    ofi_name_give(ofi, name);
}
