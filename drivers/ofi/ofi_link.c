/* The sender's side of rings: HELLO, WELCOME, credits. */
#include <errno.h>
#include <string.h>

#include "drivers/ofi/ofi.h"
#include "proto/status.h"

int ofi_message_send(struct ofi_driver *ofi, struct ofi_name *to, const struct ofi_message *message)
{
    struct ofi_request *request = ofi_send_take(ofi, to);
    if (!request)
        return -EAGAIN;
    memcpy(request->buffer, message, sizeof(*message));
    struct ofi_message *filled = (struct ofi_message *)request->buffer;
    filled->magic = OFI_MESSAGE_MAGIC;
    filled->version = PROTO_VERSION;
    filled->from = ofi->address;
    int r = (int)fi_send(ofi->endpoint, request->buffer, sizeof(*message),
                         fi_mr_desc(ofi->requests.message_memory.mr), to->fi_addr, request);
    if (r < 0)
        ofi_send_give(ofi, request);
    return r == -FI_EAGAIN ? -EAGAIN : r;
}

static int take_index(struct ofi_driver *ofi, struct ofi_peer *peer)
{
    for (uint32_t index = 0; index < OFI_LINKS_MAX; index++) {
        if (!ofi->links[index]) {
            ofi->links[index] = peer;
            peer->link.index = index;
            peer->link.epoch = ++ofi->link_epochs[index];
            return 0;
        }
    }
    return -ENOSPC;
}

int ofi_link_ask(struct ofi_driver *ofi, struct ofi_peer *peer)
{
    struct ofi_link *link = &peer->link;
    if (link->state == OFI_LINK_NONE) {
        int r = take_index(ofi, peer);
        if (r < 0)
            return r;
        link->state = OFI_LINK_ASKING;
    }
    if (link->hello_sent)
        return 0;
    struct ofi_message hello = {
        .type = OFI_HELLO,
        .to = peer->address.cookie,
        .link = link->index,
        .link_epoch = link->epoch,
    };
    int r = ofi_message_send(ofi, peer->name, &hello);
    link->hello_sent = r == 0;
    return r;
}

/* The peer that a message or a credit is for; NULL if that is long gone. */
static struct ofi_peer *find(struct ofi_driver *ofi, uint32_t index, uint32_t epoch)
{
    struct ofi_peer *peer = index < OFI_LINKS_MAX ? ofi->links[index] : NULL;
    return peer && peer->link.epoch == epoch ? peer : NULL;
}

void ofi_link_welcome(struct ofi_driver *ofi, const struct ofi_message *message)
{
    struct ofi_peer *peer = find(ofi, message->link, message->link_epoch);
    if (!peer || peer->link.state != OFI_LINK_ASKING ||
        memcmp(&message->from.cookie, &peer->address.cookie, sizeof(message->from.cookie)) != 0)
        return;
    struct ofi_link *link = &peer->link;
    int status = status_from_wire(message->status);
    if (status < 0 || message->slots == 0 || message->slots > OFI_SLOTS_MAX ||
        message->source >= OFI_LINKS_MAX || message->source_epoch >= OFI_EPOCHS ||
        message->slot_bytes < sizeof(struct ofi_segment) + OFI_SEGMENT_MIN) {
        ofi_peer_doom(ofi, peer, status < 0 ? status : -EPROTO);
        return;
    }
    link->state = OFI_LINK_READY;
    link->source = message->source;
    link->source_epoch = message->source_epoch;
    link->slots = message->slots;
    link->slot_bytes = message->slot_bytes;
    link->address = message->ring_address;
    link->key = message->ring_key;
    link->secret = message->secret;
    peer->connected = true;
    peer->blocked = OFI_RUNNING;
}

void ofi_link_credit(struct ofi_driver *ofi, uint32_t data)
{
    struct ofi_peer *peer = find(ofi, ofi_data_link_index(data), ofi_data_link_epoch(data));
    if (!peer || peer->link.state != OFI_LINK_READY)
        return;
    struct ofi_link *link = &peer->link;
    uint32_t ahead = ofi_data_ahead(data, link->returned);
    if (ahead > link->sent - link->returned)
        return; /* for slots that we have not filled */
    link->returned += ahead;
    peer->connected = true;
    peer->blocked = OFI_RUNNING;
}

/* Nobody waits for the BYE: if it cannot be sent, the receiver frees the ring when it drops us. */
void ofi_link_close(struct ofi_driver *ofi, struct ofi_peer *peer)
{
    struct ofi_link *link = &peer->link;
    if (link->state == OFI_LINK_READY && peer->error == 0) {
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
    link->state = OFI_LINK_NONE;
}
