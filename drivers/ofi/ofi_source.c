/* The receiver's side of links: one source for each sender. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/ofi/ofi.h"
#include "proto/status.h"
#include "proto/wait.h"

static void owe(struct ofi_driver *ofi, struct ofi_source *source)
{
    if (source->owed)
        return;
    source->owed = true;
    source->due_ns = clock_now_ns() + OFI_CREDIT_MS * UINT64_C(1000000);
    source->next_owed = ofi->owed;
    ofi->owed = source;
}

static void forget_owed(struct ofi_driver *ofi, struct ofi_source *source)
{
    struct ofi_source **link = &ofi->owed;
    while (*link && *link != source)
        link = &(*link)->next_owed;
    if (*link)
        *link = source->next_owed;
    source->owed = false;
}

/* stopped: it writes nothing more. */
static void source_end(struct ofi_driver *ofi, struct ofi_source *source, bool stopped)
{
    forget_owed(ofi, source);
    ofi->sources[source->index] = NULL;
    while (ofi->sources_end > 0 && !ofi->sources[ofi->sources_end - 1])
        ofi->sources_end--;
    if (source->ring) {
        source->ring->told = !stopped;
        ofi_region_quarantine(ofi, source->ring);
        source->ring = NULL;
    }
    if (!stopped && source->name) {
        ofi_departed_new(ofi, source);
        return;
    }
    recall_leave(&ofi->recall, &source->holder);
    if (source->name)
        ofi_name_give(ofi, source->name);
    free(source);
}

void ofi_sources_drop(struct ofi_driver *ofi, const struct ofi_secret *cookie)
{
    for (uint32_t index = 0; index < OFI_LINKS_MAX; index++) {
        struct ofi_source *source = ofi->sources[index];
        if (source && (!cookie || ofi_same(&source->address.cookie, cookie)))
            source_end(ofi, source, !cookie);
    }
}

/* ---- HELLO, BYE, SYNC ---- */

static int make_ring(struct ofi_driver *ofi, struct ofi_source *source)
{
    source->segment_bytes = (uint32_t)((ofi->requests.segment_bytes + sizeof(struct ofi_segment) +
                                        WINDOW_RING_ALIGN - 1) &
                                       ~(size_t)(WINDOW_RING_ALIGN - 1));
    source->ring_bytes = OFI_RING_SEGMENTS * source->segment_bytes;
    return ofi_region_new(ofi, -1, 0, source->ring_bytes, FI_REMOTE_WRITE, &source->ring);
}

/* The index for this link of a sender: that of its source, or a free one, or -ENOSPC. */
static int find_index(struct ofi_driver *ofi, const struct ofi_message *message)
{
    int found = -ENOSPC;
    for (uint32_t index = OFI_LINKS_MAX; index-- > 0;) {
        const struct ofi_source *source = ofi->sources[index];
        if (!source)
            found = (int)index;
        else if (ofi_same(&source->address.cookie, &message->from.cookie) &&
                 source->link == message->link)
            return (int)index;
    }
    return found;
}

static int source_new(struct ofi_driver *ofi, const struct ofi_message *message, uint32_t index,
                      struct ofi_source **ret_source)
{
    struct ofi_source *source = calloc(1, sizeof(*source));
    if (!source)
        return -ENOMEM;
    source->index = index;
    source->epoch = ++ofi->source_epochs[index];
    source->address = message->from;
    source->link = message->link;
    source->link_epoch = message->link_epoch;
    source->mail_address = message->address;
    source->mail_key = message->key;
    source->mail_secret = message->secret;
    recall_join(&ofi->recall, &source->holder);
    ofi->sources[index] = source;
    if (ofi->sources_end <= index)
        ofi->sources_end = index + 1;

    int r = ofi_random(&source->secret, sizeof(source->secret));
    if (r == 0)
        r = ofi_name_take(ofi, &message->from, &source->name);
    if (r == 0)
        r = make_ring(ofi, source);
    if (r < 0) {
        source_end(ofi, source, true);
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
        .source_epoch = source->epoch % OFI_EPOCHS,
        .ring_bytes = source->ring_bytes,
        .segment_bytes = source->segment_bytes,
        .address = ofi_memory_remote(ofi, &source->ring->memory, source->ring->memory.base),
        .key = fi_mr_key(source->ring->memory.mr),
        .secret = source->secret,
    };
    int r = ofi_message_send(ofi, source->name, &message);
    source->welcome = r == -EAGAIN || r == -ENOBUFS;
    return r;
}

static struct ofi_message reply_to(const struct ofi_message *request, uint16_t type, int error)
{
    return (struct ofi_message){
        .type = type,
        .to = request->from.cookie,
        .link = request->link,
        .link_epoch = request->link_epoch,
        .number = request->number,
        .status = status_to_wire(error),
    };
}

/* If the reply is lost, the sender repeats its request. */
static void reply(struct ofi_driver *ofi, const struct ofi_message *request,
                  const struct ofi_message *message)
{
    struct ofi_name *name;
    if (ofi_name_take(ofi, &request->from, &name) < 0)
        return;
    ofi_message_send(ofi, name, message);
    ofi_name_give(ofi, name);
}

void ofi_source_hello(struct ofi_driver *ofi, const struct ofi_message *message)
{
    struct ofi_source *source = NULL;
    if (message->link >= OFI_LINKS_MAX || message->link_epoch >= OFI_EPOCHS)
        return;
    int index = find_index(ofi, message), r = index < 0 ? index : 0;
    if (r == 0)
        source = ofi->sources[index];
    if (source && source->link_epoch == message->link_epoch &&
        ofi_same(&source->mail_secret, &message->secret)) {
        /* the WELCOME was lost */
    } else if (r == 0) {
        if (source) /* HELLO arrived after everything of its last link */
            source_end(ofi, source, true);
        r = source_new(ofi, message, (uint32_t)index, &source);
    }
    if (r < 0) {
        const struct ofi_message refusal = reply_to(message, OFI_WELCOME, r);
        reply(ofi, message, &refusal);
        return;
    }
    ofi_departed_gone(ofi, &message->from);
    welcome(ofi, source);
    if (source->welcome)
        owe(ofi, source);
}

static struct ofi_source *find(struct ofi_driver *ofi, const struct ofi_message *message)
{
    struct ofi_source *source =
        message->source < OFI_LINKS_MAX ? ofi->sources[message->source] : NULL;
    return source && ofi_same(&source->secret, &message->secret) ? source : NULL;
}

void ofi_source_bye(struct ofi_driver *ofi, const struct ofi_message *message)
{
    struct ofi_source *source = find(ofi, message);
    if (source)
        source_end(ofi, source, true);
}

/* All operations beyond the count will be sent again, also those that have arrived after a gap:
 * they count when they come for the second time, as pieces change their target until then. A
 * repeated SYNC may come after some of them. */
static void forget_arrived(struct ofi_source *source, uint64_t sync)
{
    if (source->sync != sync)
        source->arrived = 0;
    source->sync = sync;
}

void ofi_source_sync(struct ofi_driver *ofi, const struct ofi_message *message)
{
    struct ofi_source *source = find(ofi, message);
    struct ofi_message synced = reply_to(message, OFI_SYNCED, source ? 0 : -ESTALE);
    if (source)
        forget_arrived(source, message->number);
    synced.count = source ? source->credits.counted : 0;
    for (uint32_t i = 0; source && i < ofi_message_keys(message); i++)
        if (!ofi_region_known(ofi, message->keys[i]))
            synced.keys[synced.key_count++] = message->keys[i];
    reply(ofi, message, &synced);
}

/* ---- credits ---- */

static int give_credit(struct ofi_driver *ofi, struct ofi_source *source)
{
    const struct ofi_mail mail = {source->mail_secret, source->credits.counted};
    const uint32_t data = ofi_data_link(OFI_DATA_CREDIT, source->link_epoch, source->link, 0);
    int r =
        ofi_write_small(ofi, source->name, source->mail_address, source->mail_key, &mail,
                        sizeof(mail), ofi_data_sign(data, &source->mail_secret, ofi->wide_data));
    if (r == 0) {
        credits_reported(&source->credits);
        source->asked = false;
    }
    return r;
}

/* Whether the sender is about to run out of room. */
static bool urgent(const struct ofi_source *source)
{
    return credits_due(&source->credits, OFI_CREDIT_EVERY, source->ring_bytes / 4);
}

static int send_owed(struct ofi_driver *ofi, struct ofi_source *source)
{
    int r = source->welcome ? welcome(ofi, source) : 0;
    if (r == 0 && source->credits.counted != source->credits.reported)
        r = give_credit(ofi, source);
    return r;
}

/* A credit costs both sides a message. If the sender does not wait for it, it is sent for several
 * operations, or after OFI_CREDIT_MS. */
static bool is_due(const struct ofi_source *source, uint64_t now_ns, bool idle)
{
    if (source->refused_ns > 0)
        return now_ns >= source->retry_ns;
    return source->welcome || urgent(source) || (idle && source->asked) || now_ns >= source->due_ns;
}

/* Tries again at growing intervals, because each attempt may start a connection. False: it has been
 * unreachable for too long. */
static bool put_off(struct ofi_source *source, uint64_t now_ns)
{
    if (source->refused_ns == 0)
        source->refused_ns = now_ns;
    const uint64_t age_ns = now_ns - source->refused_ns;
    source->retry_ns = now_ns + age_ns / 2;
    return age_ns <= OFI_STALL_MS * UINT64_C(1000000);
}

/* A sender that is unreachable for too long loses its ring. */
int ofi_sources_credit(struct ofi_driver *ofi, bool idle)
{
    const uint64_t now_ns = clock_now_ns();
    int served = 0;
    struct ofi_source **link = &ofi->owed;
    while (*link) {
        struct ofi_source *source = *link;
        if (!is_due(source, now_ns, idle)) {
            link = &source->next_owed;
            continue;
        }
        const int r = send_owed(ofi, source);
        if (r == -EAGAIN || r == -ENOBUFS) {
            if (put_off(source, now_ns))
                link = &source->next_owed;
            else
                source_end(ofi, source, false); /* removes it from the list */
            continue;
        }
        *link = source->next_owed;
        source->owed = false;
        source->refused_ns = 0;
        served++;
    }
    return served;
}

bool ofi_sources_urgent(const struct ofi_driver *ofi)
{
    for (const struct ofi_source *source = ofi->owed; source; source = source->next_owed)
        if (source->asked || source->welcome || source->refused_ns > 0 || urgent(source))
            return true;
    return false;
}

/* ---- operations ---- */

static void deliver(struct ofi_driver *ofi, const struct ofi_segment *segment, const uint8_t *data)
{
    const struct ofi_landing *landing =
        landings_find(&ofi->landings, segment->landing, segment->generation);
    if (!landing || landing->key != segment->landing_key)
        return;
    if (segment->length_bytes > 0) {
        if (segment->position_bytes > landing->target.size_bytes ||
            segment->length_bytes > landing->target.size_bytes - segment->position_bytes)
            return;
        packed_write(&landing->target, data, segment->position_bytes, segment->length_bytes);
    }
    if ((segment->flags & OFI_SEGMENT_LAST) && landing->notify)
        ofi->driver.events.notified(ofi->driver.events.context, landing->token);
}

/* Copies the header once, and checks the copy. A segment without the ring's secret is ignored,
 * because the sender's own may still arrive. One that is the sender's but invalid is counted and
 * not delivered. */
static bool take_segment(struct ofi_driver *ofi, struct ofi_source *source, uint32_t *ret_bytes)
{
    const uint8_t *bytes = source->ring->memory.base + source->head;
    struct ofi_segment segment;
    memcpy(&segment, bytes, sizeof(segment));
    if (!ofi_same(&segment.secret, &source->secret) ||
        segment.sequence != source->credits.counted ||
        segment.length_bytes > source->segment_bytes - sizeof(segment)) {
        source->forged++;
        ofi_forged(ofi);
        return false;
    }
    const uint32_t next =
        window_ring_after(source->head, (uint32_t)sizeof(segment) + segment.length_bytes,
                          source->segment_bytes, source->ring_bytes);
    *ret_bytes = (next > source->head ? next : source->ring_bytes) - source->head;
    source->head = next;
    source->asked |= segment.flags & OFI_SEGMENT_ASK;
    deliver(ofi, &segment, bytes + sizeof(segment));
    return true;
}

int ofi_source_operation(struct ofi_driver *ofi, uint64_t signed_data)
{
    const uint32_t data = (uint32_t)signed_data;
    struct ofi_source *source = ofi->sources[ofi_data_link_index(data)];
    if (!source || source->epoch % OFI_EPOCHS != ofi_data_link_epoch(data) ||
        signed_data != ofi_data_sign(data, &source->secret, ofi->wide_data)) {
        ofi_forged(ofi);
        return 0;
    }
    const uint32_t ahead = ofi_data_ahead(data, source->credits.counted);
    if (ahead >= OFI_WINDOW)
        return 0; /* a duplicate */
    const uint64_t bit = UINT64_C(1) << (source->credits.counted + ahead) % OFI_WINDOW;
    source->arrived |= bit;
    if (data >> 30 == OFI_DATA_PIECE)
        source->pieces |= bit;
    else
        source->pieces &= ~bit;

    int taken = 0;
    for (;; taken++) {
        const uint64_t next = UINT64_C(1) << source->credits.counted % OFI_WINDOW;
        uint32_t bytes = 0; /* in the ring */
        if (!(source->arrived & next))
            break;
        source->arrived &= ~next;
        if (!(source->pieces & next) && !take_segment(ofi, source, &bytes))
            break;
        credits_count(&source->credits, bytes);
    }
    if (source->credits.counted != source->credits.reported) {
        if (!urgent(source) || give_credit(ofi, source) == -EAGAIN)
            owe(ofi, source);
    }
    return taken;
}
