/* The sender's side of links: establishing them, counting, recovering from lost connections. */
#include <errno.h>
#include <string.h>

#include "drivers/ofi/ofi.h"
#include "drivers/patience.h"
#include "proto/status.h"
#include "proto/wait.h"

#define MS UINT64_C(1000000)

int ofi_message_send(struct ofi_driver *ofi, struct ofi_name *to, const struct ofi_message *message)
{
    struct ofi_request *request = ofi_send_take(ofi, to);
    if (!request)
        return -ENOBUFS;
    memcpy(request->buffer, message, sizeof(*message));
    struct ofi_message *filled = (struct ofi_message *)request->buffer;
    filled->magic = OFI_MESSAGE_MAGIC;
    filled->version = PROTO_VERSION;
    filled->from = ofi->address;
    int r = (int)fi_send(ofi->endpoint, request->buffer, sizeof(*message),
                         fi_mr_desc(ofi->requests.message_memory.mr), to->fi_addr, request);
    if (r < 0)
        ofi_send_give(ofi, request);
    r = r == -FI_EAGAIN ? -EAGAIN : r;
    ofi_name_note(ofi, to, r);
    return r;
}

static struct ofi_mail *mail_of(const struct ofi_driver *ofi, const struct ofi_link *link)
{
    return (struct ofi_mail *)ofi->mails->memory.base + link->index;
}

/* ---- state ---- */

static int take_index(struct ofi_driver *ofi, struct ofi_peer *peer)
{
    for (uint32_t index = 0; index < OFI_LINKS_MAX; index++) {
        if (!ofi->links[index]) {
            ofi->links[index] = peer;
            peer->link = (struct ofi_link){
                .index = index,
                .epoch = ++ofi->link_epochs[index],
                .count_within_ns = OFI_AGAIN_MS * MS,
            };
            peer->window.asked = 0;
            struct ofi_mail *mail = mail_of(ofi, &peer->link);
            mail->count = 0;
            return ofi_random(&mail->secret, sizeof(mail->secret));
        }
    }
    return -ENOSPC;
}

/* Enters a state in which requests are sent until the reply arrives. */
static void begin(struct ofi_link *link, enum ofi_link_state state, uint64_t now_ns)
{
    link->state = state;
    link->refused = false;
    link->again_ns = now_ns;
    if (link->trouble_ns == 0)
        link->trouble_ns = now_ns;
}

static void begin_sync(struct ofi_peer *peer, uint64_t now_ns)
{
    peer->link.sync++;
    begin(&peer->link, OFI_LINK_SYNCING, now_ns);
    peer->blocked = OFI_BLOCKED_LINK;
}

void ofi_link_broken(struct ofi_driver *ofi, struct ofi_peer *peer)
{
    struct ofi_link *link = &peer->link;
    if (link->state != OFI_LINK_READY)
        return; /* the request will be repeated */
    begin_sync(peer, clock_now_ns());
    ofi_peer_activate(ofi, peer);
}

/* Operations were lost. Some providers drop the connection if the key of a write is valid but its
 * address is not. So if the oldest operation is lost repeatedly, its target is taken as stale. */
static void count_break(struct ofi_driver *ofi, struct ofi_peer *peer)
{
    struct ofi_link *link = &peer->link;
    struct ofi_operation *first = ofi_operation(peer, peer->window.counted);
    if (++link->breaks > OFI_BREAKS_MAX)
        ofi_peer_mark_failed(ofi, peer, -ENETDOWN);
    else if (link->breaks > OFI_BREAKS_STALE && first->piece && first->base.put)
        first->base.put->stale = true;
}

/* A reply or a count shows that the link is usable. */
static void note_reply(struct ofi_peer *peer)
{
    peer->connected = true;
    peer->link.trouble_ns = 0;
    peer->link.heard_ns = clock_now_ns();
}

static int send_hello(struct ofi_driver *ofi, struct ofi_peer *peer)
{
    struct ofi_link *link = &peer->link;
    struct ofi_mail *mail = mail_of(ofi, link);
    struct ofi_message hello = {
        .type = OFI_HELLO,
        .to = peer->address.cookie,
        .link = link->index,
        .link_epoch = link->epoch,
        .address = ofi_memory_remote(ofi, &ofi->mails->memory, (uint8_t *)mail),
        .key = fi_mr_key(ofi->mails->memory.mr),
        .secret = mail->secret,
    };
    return ofi_message_send(ofi, peer->name, &hello);
}

/* Adds the keys of the oldest pieces: an invalid one may have made the provider drop the
 * connection. */
static void name_keys(const struct ofi_peer *peer, struct ofi_message *sync)
{
    for (uint64_t at = peer->window.counted;
         at != peer->window.made && sync->key_count < OFI_MESSAGE_KEYS; at++) {
        const struct ofi_operation *operation = ofi_operation(peer, at);
        const struct ofi_put *put = (const struct ofi_put *)operation->base.put;
        uint32_t i = 0;
        if (!operation->piece || put->base.stale)
            continue;
        while (i < sync->key_count && sync->keys[i] != put->key)
            i++;
        if (i == sync->key_count)
            sync->keys[sync->key_count++] = put->key;
    }
}

static int send_sync(struct ofi_driver *ofi, struct ofi_peer *peer)
{
    struct ofi_link *link = &peer->link;
    struct ofi_message sync = {
        .type = OFI_SYNC,
        .to = peer->address.cookie,
        .link = link->index,
        .link_epoch = link->epoch,
        .source = link->source,
        .source_epoch = link->source_epoch,
        .number = link->sync,
        .secret = link->secret,
    };
    name_keys(peer, &sync);
    return ofi_message_send(ofi, peer->name, &sync);
}

static void send_request(struct ofi_driver *ofi, struct ofi_peer *peer, uint64_t now_ns)
{
    struct ofi_link *link = &peer->link;
    int r = link->state == OFI_LINK_GREETING ? send_hello(ofi, peer) : send_sync(ofi, peer);
    uint64_t age_ns = now_ns - link->trouble_ns;
    link->refused = r == -EAGAIN;
    if (r == 0) {
        if (age_ns < OFI_AGAIN_MS * MS)
            age_ns = OFI_AGAIN_MS * MS;
        link->again_ns = now_ns + (age_ns > OFI_AGAIN_MAX_MS * MS ? OFI_AGAIN_MAX_MS * MS : age_ns);
    } else if (r == -EAGAIN || r == -ENOBUFS) {
        /* Each attempt may start a connection; those to a dead peer must not delay others much. */
        link->again_ns = now_ns + age_ns / 8;
    } else {
        ofi_peer_mark_failed(ofi, peer, -ENETDOWN);
    }
}

/* The provider never gives up connecting: it returns -EAGAIN meanwhile. */
static bool has_timed_out(const struct ofi_peer *peer, uint64_t now_ns)
{
    const struct ofi_link *link = &peer->link;
    if (link->trouble_ns == 0)
        return false;
    const uint64_t age_ns = now_ns - link->trouble_ns;
    return age_ns > OFI_STALL_MS * MS ||
           (peer->connected && link->refused && age_ns > OFI_LOST_MS * MS);
}

void ofi_link_run(struct ofi_driver *ofi, struct ofi_peer *peer, uint64_t now_ns)
{
    struct ofi_link *link = &peer->link;
    patience_look(&link->trouble_ns, &link->looked_ns, now_ns);
    if (link->state == OFI_LINK_NONE) {
        if (!window_next_put(&peer->window) && !peer->window.ask)
            return;
        int r = take_index(ofi, peer);
        if (r < 0) {
            ofi_peer_mark_failed(ofi, peer, r);
            return;
        }
        begin(link, OFI_LINK_GREETING, now_ns);
    }
    if (link->state == OFI_LINK_READY) {
        /* A missing count shows that a connection was lost, and -EAGAIN that there is none. */
        const bool refused = peer->blocked == OFI_BLOCKED_PROVIDER;
        if (peer->window.made == peer->window.counted && !refused) {
            link->trouble_ns = 0;
            return;
        }
        if (peer->requests.next != &peer->requests ||
            (!refused && now_ns - link->heard_ns < link->count_within_ns))
            return;
        begin_sync(peer, now_ns);
    }
    if (has_timed_out(peer, now_ns)) {
        ofi_peer_mark_failed(ofi, peer, -ENETDOWN);
        return;
    }
    /* Not while writes are in flight, because these could overtake the request. */
    if (now_ns >= link->again_ns && peer->requests.next == &peer->requests)
        send_request(ofi, peer, now_ns);
}

/* ---- replies ---- */

/* The peer that a message or a credit is for, or NULL: its link is gone. */
static struct ofi_peer *find(struct ofi_driver *ofi, uint32_t index, uint32_t epoch)
{
    struct ofi_peer *peer = index < OFI_LINKS_MAX ? ofi->links[index] : NULL;
    return peer && peer->error == 0 && peer->link.epoch % OFI_EPOCHS == epoch ? peer : NULL;
}

static struct ofi_peer *find_waiting(struct ofi_driver *ofi, const struct ofi_message *message,
                                     enum ofi_link_state state)
{
    struct ofi_peer *peer = find(ofi, message->link, message->link_epoch);
    return peer && peer->link.state == state &&
                   ofi_same(&message->from.cookie, &peer->address.cookie)
               ? peer
               : NULL;
}

void ofi_link_welcome(struct ofi_driver *ofi, const struct ofi_message *message)
{
    struct ofi_peer *peer = find_waiting(ofi, message, OFI_LINK_GREETING);
    if (!peer)
        return;
    struct ofi_link *link = &peer->link;
    int r = status_from_wire(message->status);
    if (r == 0 &&
        (message->ring_bytes > OFI_RING_MAX || message->ring_bytes < message->segment_bytes ||
         message->ring_bytes % WINDOW_RING_ALIGN != 0 || message->source >= OFI_LINKS_MAX ||
         message->source_epoch >= OFI_EPOCHS ||
         message->segment_bytes < sizeof(struct ofi_segment) + OFI_SEGMENT_MIN))
        r = -EPROTO;
    if (r == 0)
        r = ofi_region_new(ofi, -1, 0, message->ring_bytes, FI_WRITE, &link->mirror);
    if (r < 0) {
        ofi_peer_mark_failed(ofi, peer, r);
        return;
    }
    link->state = OFI_LINK_READY;
    link->source = message->source;
    link->source_epoch = message->source_epoch;
    peer->window.ring =
        (struct window_ring){.bytes = message->ring_bytes, .largest = message->segment_bytes};
    link->address = message->address;
    link->key = message->key;
    link->secret = message->secret;
    note_reply(peer);
    peer->blocked = OFI_RUNNING;
}

/* Takes a count. Puts that complete may be started again from here. */
static void count(struct ofi_peer *peer, uint64_t counted)
{
    struct ofi_link *link = &peer->link;
    if (counted == peer->window.counted)
        return;
    link->breaks = 0;
    link->count_within_ns = OFI_AGAIN_MS * MS;
    if (link->again < counted)
        link->again = counted;
    if (peer->blocked == OFI_BLOCKED_LINK)
        peer->blocked = OFI_RUNNING;
    window_count(&peer->window, counted);
}

/* Whether the peer can have counted so many operations. */
static bool is_possible(const struct ofi_peer *peer, uint64_t count)
{
    return count - peer->window.counted <= peer->window.made - peer->window.counted;
}

void ofi_link_credit(struct ofi_driver *ofi, uint64_t signed_data)
{
    const uint32_t data = (uint32_t)signed_data;
    struct ofi_peer *peer = find(ofi, ofi_data_link_index(data), ofi_data_link_epoch(data));
    if (!peer || !peer->link.mirror) {
        ofi_forged(ofi);
        return;
    }
    struct ofi_link *link = &peer->link;
    struct ofi_mail mail;
    memcpy(&mail, mail_of(ofi, link), sizeof(mail));
    if (signed_data != ofi_data_sign(data, &mail.secret, ofi->wide_data)) {
        ofi_forged(ofi);
        return;
    }
    if (!is_possible(peer, mail.count)) {
        ofi_forged(ofi);
        return;
    }
    if (link->state == OFI_LINK_READY)
        note_reply(peer);
    count(peer, mail.count);
}

void ofi_link_synced(struct ofi_driver *ofi, const struct ofi_message *message)
{
    struct ofi_peer *peer = find_waiting(ofi, message, OFI_LINK_SYNCING);
    if (!peer || message->number != peer->link.sync)
        return;
    struct ofi_link *link = &peer->link;
    if (message->status != 0 || !is_possible(peer, message->count)) {
        ofi_peer_mark_failed(ofi, peer,
                             -ENETDOWN); /* unknown there, so what has arrived is unknown, too */
        return;
    }
    link->state = OFI_LINK_READY;
    link->again = message->count;
    if (link->again == peer->window.made && link->count_within_ns < OFI_AGAIN_MAX_MS * MS)
        link->count_within_ns *= 2;
    note_reply(peer);
    peer->blocked = OFI_RUNNING;
    count(peer, message->count);
    for (uint32_t i = 0; i < ofi_message_keys(message); i++)
        ofi_puts_revoke(ofi, &peer->address.cookie, message->keys[i]);
    if (link->again != peer->window.made)
        count_break(ofi, peer);
}

/* If BYE cannot be sent, the receiver frees the ring when it drops this instance. */
void ofi_link_close(struct ofi_driver *ofi, struct ofi_peer *peer)
{
    struct ofi_link *link = &peer->link;
    if (link->mirror && peer->error == 0) {
        struct ofi_message bye = {
            .type = OFI_BYE,
            .to = peer->address.cookie,
            .source = link->source,
            .source_epoch = link->source_epoch,
            .secret = link->secret,
        };
        ofi_message_send(ofi, peer->name, &bye);
    }
    if (link->state != OFI_LINK_NONE)
        ofi->links[link->index] = NULL;
    ofi_region_quarantine(ofi, link->mirror);
    link->mirror = NULL;
    link->state = OFI_LINK_NONE;
}
