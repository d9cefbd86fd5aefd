/* The receiver's side of rings: one for each sender that has something to scatter. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "drivers/ofi/ofi.h"
#include "proto/status.h"
#include "proto/wait.h"

static void owe(struct ofi_driver *ofi, struct ofi_source *source)
{
    if (source->owed)
        return;
    source->owed = true;
    source->owed_since_ns = source->retry_ns = clock_now_ns();
    source->next_owed = ofi->owed;
    ofi->owed = source;
}

static void forget_debt(struct ofi_driver *ofi, struct ofi_source *source)
{
    struct ofi_source **link = &ofi->owed;
    while (*link && *link != source)
        link = &(*link)->next_owed;
    if (*link)
        *link = source->next_owed;
    source->owed = false;
}

static void source_free(struct ofi_driver *ofi, struct ofi_source *source)
{
    void *base = source->ring.base;
    size_t bytes = source->ring.length_bytes;
    forget_debt(ofi, source);
    ofi->sources[source->index] = NULL;
    ofi_memory_close(&source->ring);
    if (base)
        munmap(base, bytes);
    if (source->name)
        ofi_name_give(ofi, source->name);
    free(source);
}

static bool same(const struct ofi_secret *a, const struct ofi_secret *b)
{
    return a->word[0] == b->word[0] && a->word[1] == b->word[1];
}

void ofi_sources_drop(struct ofi_driver *ofi, const struct ofi_secret *cookie)
{
    for (uint32_t index = 0; index < OFI_LINKS_MAX; index++) {
        struct ofi_source *source = ofi->sources[index];
        if (source && (!cookie || same(&source->address.cookie, cookie)))
            source_free(ofi, source);
    }
}

static int make_ring(struct ofi_driver *ofi, struct ofi_source *source)
{
    source->slots = OFI_RING_SLOTS;
    source->slot_bytes =
        (uint32_t)((ofi->requests.segment_bytes + sizeof(struct ofi_segment) + 63) & ~(size_t)63);
    size_t bytes = (size_t)source->slots * source->slot_bytes;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return -ENOMEM;
    int r = ofi_memory_register(ofi, base, bytes, FI_REMOTE_WRITE, &source->ring);
    if (r < 0)
        munmap(base, bytes);
    return r;
}

/* The place for this sender's peer: its old one if it comes again, else a free one. */
static int find_place(struct ofi_driver *ofi, const struct ofi_message *message)
{
    int place = -ENOSPC;
    for (uint32_t index = OFI_LINKS_MAX; index-- > 0;) {
        const struct ofi_source *source = ofi->sources[index];
        if (!source)
            place = (int)index;
        else if (same(&source->address.cookie, &message->from.cookie) &&
                 source->link == message->link)
            return (int)index;
    }
    return place;
}

static int source_new(struct ofi_driver *ofi, const struct ofi_message *message,
                      struct ofi_source **ret_source)
{
    int place = find_place(ofi, message);
    if (place < 0)
        return place;
    if (ofi->sources[place])
        source_free(ofi, ofi->sources[place]);

    struct ofi_source *source = calloc(1, sizeof(*source));
    if (!source)
        return -ENOMEM;
    source->index = (uint32_t)place;
    source->epoch = ++ofi->source_epochs[place];
    source->address = message->from;
    source->link = message->link;
    source->link_epoch = message->link_epoch;
    ofi->sources[place] = source;

    int r = ofi_random(&source->secret, sizeof(source->secret));
    if (r == 0)
        r = ofi_name_take(ofi, &message->from, &source->name);
    if (r == 0)
        r = make_ring(ofi, source);
    if (r < 0) {
        source_free(ofi, source);
        return r;
    }
    *ret_source = source;
    return 0;
}

static int welcome(struct ofi_driver *ofi, struct ofi_source *source)
{
    struct ofi_message message = {
        .type = OFI_WELCOME,
        .to = source->address.cookie,
        .link = source->link,
        .link_epoch = source->link_epoch,
        .source = source->index,
        .source_epoch = source->epoch,
        .slots = source->slots,
        .slot_bytes = source->slot_bytes,
        .ring_address = ofi_memory_remote(ofi, &source->ring, source->ring.base),
        .ring_key = fi_mr_key(source->ring.mr),
        .secret = source->secret,
    };
    int r = ofi_message_send(ofi, source->name, &message);
    source->welcome = r == -EAGAIN;
    return r;
}

/* Best effort: a sender that does not hear it gives up after a while. */
static void refuse(struct ofi_driver *ofi, const struct ofi_message *hello, int error)
{
    struct ofi_name *name;
    struct ofi_message message = {
        .type = OFI_WELCOME,
        .to = hello->from.cookie,
        .link = hello->link,
        .link_epoch = hello->link_epoch,
        .status = status_to_wire(error),
    };
    if (ofi_name_take(ofi, &hello->from, &name) < 0)
        return;
    ofi_message_send(ofi, name, &message);
    ofi_name_give(ofi, name);
}

void ofi_source_hello(struct ofi_driver *ofi, const struct ofi_message *message)
{
    struct ofi_source *source;
    if (message->link >= OFI_LINKS_MAX || message->link_epoch >= OFI_EPOCHS)
        return;
    int r = source_new(ofi, message, &source);
    if (r < 0)
        refuse(ofi, message, r);
    else if (welcome(ofi, source) == -EAGAIN)
        owe(ofi, source);
}

void ofi_source_bye(struct ofi_driver *ofi, const struct ofi_message *message)
{
    struct ofi_source *source =
        message->source < OFI_LINKS_MAX ? ofi->sources[message->source] : NULL;
    if (source && same(&source->secret, &message->secret))
        source_free(ofi, source);
}

static int return_slots(struct ofi_driver *ofi, struct ofi_source *source)
{
    uint32_t data =
        ofi_data_link(OFI_DATA_CREDIT, source->link_epoch, source->link, source->consumed);
    int r = ofi_write_data(ofi, source->name->fi_addr, source->address.sink_address,
                           source->address.sink_key, data);
    if (r == 0)
        source->returned = source->consumed;
    return r;
}

static int settle(struct ofi_driver *ofi, struct ofi_source *source)
{
    int r = source->welcome ? welcome(ofi, source) : 0;
    if (r == 0 && source->consumed != source->returned)
        r = return_slots(ofi, source);
    return r;
}

/*
 * Pays what it can; what is left stays owed and is tried less and less often, because each try may
 * be a connection. A sender that cannot be reached for too long has lost its ring.
 */
int ofi_sources_settle(struct ofi_driver *ofi)
{
    const uint64_t now_ns = clock_now_ns();
    int settled = 0;
    struct ofi_source **link = &ofi->owed;
    while (*link) {
        struct ofi_source *source = *link;
        const uint64_t age_ns = now_ns - source->owed_since_ns;
        if (age_ns > OFI_STALL_MS * UINT64_C(1000000)) {
            source_free(ofi, source); /* takes it from the list */
            continue;
        }
        const bool early = now_ns < source->retry_ns;
        if (early || settle(ofi, source) == -EAGAIN) {
            if (!early)
                source->retry_ns = now_ns + age_ns / 2;
            link = &source->next_owed;
            continue;
        }
        *link = source->next_owed;
        source->owed = false;
        settled++;
    }
    return settled;
}

/* The header is copied once; only the copy is believed. Whatever is wrong with it, the slot is used
 * up. */
static void scatter(struct ofi_driver *ofi, struct ofi_source *source)
{
    const uint8_t *slot =
        source->ring.base + (size_t)(source->consumed % source->slots) * source->slot_bytes;
    struct ofi_segment segment;
    memcpy(&segment, slot, sizeof(segment));

    if (!same(&segment.secret, &source->secret) || segment.sequence != source->consumed ||
        segment.length_bytes > source->slot_bytes - sizeof(segment))
        return;
    const struct ofi_landing *landing = ofi_landing_find(&ofi->landings, segment.landing);
    if (!landing || landing->key != segment.landing_key || !landing->base)
        return;
    if (segment.position_bytes > landing->size_bytes ||
        segment.length_bytes > landing->size_bytes - segment.position_bytes)
        return;
    const uint8_t *data = slot + sizeof(segment);
    if (landing->unpacker)
        copy_program_unpack(landing->unpacker, landing->base, data, segment.position_bytes,
                            segment.length_bytes);
    else
        memcpy(landing->base + segment.position_bytes, data, segment.length_bytes);
    if ((segment.flags & OFI_SEGMENT_LAST) && landing->notify)
        ofi->driver.events.notified(ofi->driver.events.context, landing->token);
}

int ofi_source_segment(struct ofi_driver *ofi, uint32_t data)
{
    struct ofi_source *source = ofi->sources[ofi_data_link_index(data)];
    if (!source || source->epoch != ofi_data_link_epoch(data))
        return 0;
    uint32_t ahead = ofi_data_ahead(data, source->consumed);
    if (ahead >= source->slots)
        return 0;
    source->arrived |= UINT64_C(1) << (source->consumed + ahead) % source->slots;

    int scattered = 0;
    for (; source->arrived & UINT64_C(1) << source->consumed % source->slots; scattered++) {
        scatter(ofi, source);
        source->arrived &= ~(UINT64_C(1) << source->consumed % source->slots);
        source->consumed++;
    }
    if (source->consumed - source->returned >= source->slots / 4 &&
        return_slots(ofi, source) == -EAGAIN)
        owe(ofi, source);
    return scattered;
}
