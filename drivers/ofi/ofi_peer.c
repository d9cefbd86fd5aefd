/* Peers: their names in the address vector, and their failure. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/ofi/ofi.h"

int ofi_address_check(const void *data, size_t bytes, struct ofi_address *ret_address)
{
    struct ofi_address address;
    if (bytes != sizeof(address))
        return -EINVAL;
    memcpy(&address, data, sizeof(address));
    if (address.magic != OFI_ADDRESS_MAGIC || address.name_bytes == 0 ||
        address.name_bytes > sizeof(address.name))
        return -EINVAL;
    if (address.version != PROTO_VERSION)
        return -EPROTONOSUPPORT;
    *ret_address = address;
    return 0;
}

static int insert_name(struct ofi_driver *ofi, const struct ofi_address *address,
                       struct ofi_name **ret_name)
{
    struct ofi_name *name = calloc(1, sizeof(*name));
    if (!name)
        return -ENOMEM;
    name->references = 1;
    name->bytes = address->name_bytes;
    memcpy(name->text, address->name, address->name_bytes);
    if (fi_av_insert(ofi->av, name->text, 1, &name->fi_addr, 0, NULL) != 1) {
        free(name);
        return -EADDRNOTAVAIL;
    }
    name->next = ofi->names;
    ofi->names = name;
    *ret_name = name;
    return 0;
}

int ofi_name_take(struct ofi_driver *ofi, const struct ofi_address *address,
                  struct ofi_name **ret_name)
{
    /* The provider reads as many bytes as its own name has. */
    if (address->name_bytes != ofi->address.name_bytes)
        return -EINVAL;
    int r = 0;
    pthread_mutex_lock(&ofi->names_lock);
    struct ofi_name *name = ofi->names;
    while (name && (name->bytes != address->name_bytes ||
                    memcmp(name->text, address->name, name->bytes) != 0))
        name = name->next;
    if (name) {
        name->references++;
        *ret_name = name;
    } else {
        r = insert_name(ofi, address, ret_name);
    }
    pthread_mutex_unlock(&ofi->names_lock);
    return r;
}

void ofi_name_hold(struct ofi_driver *ofi, struct ofi_name *name)
{
    pthread_mutex_lock(&ofi->names_lock);
    name->references++;
    pthread_mutex_unlock(&ofi->names_lock);
}

void ofi_name_give(struct ofi_driver *ofi, struct ofi_name *name)
{
    pthread_mutex_lock(&ofi->names_lock);
    if (--name->references == 0) {
        struct ofi_name **link = &ofi->names;
        while (*link != name)
            link = &(*link)->next;
        *link = name->next;
        fi_av_remove(ofi->av, &name->fi_addr, 1, 0);
        free(name);
    }
    pthread_mutex_unlock(&ofi->names_lock);
}

int ofi_peer_connect(struct driver *driver, const void *address, size_t address_bytes,
                     struct driver_peer **ret_peer, void *ret_offer, size_t *ret_offer_bytes)
{
    struct ofi_peer *peer = calloc(1, sizeof(*peer));
    if (!peer)
        return -ENOMEM;
    int r = ofi_address_check(address, address_bytes, &peer->address);
    if (r == 0)
        r = ofi_name_take(ofi_of(driver), &peer->address, &peer->name);
    if (r < 0) {
        free(peer);
        return r;
    }
    peer->ofi = ofi_of(driver);
    peer->window = (struct window){.pieces = peer->operations,
                                   .size = OFI_WINDOW,
                                   .piece_bytes = sizeof(peer->operations[0]),
                                   .flows = {.turn_bytes = OFI_PIECE_BYTES}};
    peer->requests.next = peer->requests.previous = &peer->requests;
    *ret_peer = (struct driver_peer *)peer;
    *ret_offer_bytes = 0;
    return 0;
}

/* Abandons writes that the provider still has. */
static void orphan_writes(struct ofi_peer *peer)
{
    while (peer->requests.next != &peer->requests) {
        struct ofi_put *put = peer->requests.next->put;
        ofi_write_orphan(peer->requests.next);
        if (put)
            ofi_put_unread(put);
    }
}

void ofi_peer_disconnect(struct driver *driver, struct driver_peer *driver_peer)
{
    struct ofi_driver *ofi = ofi_of(driver);
    struct ofi_peer *peer = (struct ofi_peer *)driver_peer;
    assert(!window_next_put(&peer->window));
    orphan_writes(peer);
    ofi_link_close(ofi, peer);
    /* As long as it lives, it may go on sending to this instance. */
    if (peer->given_up)
        ofi_sources_drop(ofi, &peer->address.cookie);
    ofi_peer_deactivate(peer);
    ofi_name_give(ofi, peer->name);
    free(peer);
}

void ofi_peer_activate(struct ofi_driver *ofi, struct ofi_peer *peer)
{
    if (peer->active)
        return;
    peer->active = true;
    peer->next_active = &ofi->active;
    peer->previous_active = ofi->active.previous_active;
    peer->previous_active->next_active = peer;
    ofi->active.previous_active = peer;
}

void ofi_peer_deactivate(struct ofi_peer *peer)
{
    if (!peer->active)
        return;
    peer->active = false;
    peer->blocked = OFI_RUNNING;
    peer->previous_active->next_active = peer->next_active;
    peer->next_active->previous_active = peer->previous_active;
}

void ofi_peer_mark_failed(struct ofi_driver *ofi, struct ofi_peer *peer, int error)
{
    if (peer->error == 0)
        peer->error = error;
    peer->blocked = OFI_RUNNING;
    ofi_peer_activate(ofi, peer);
}

void ofi_peer_complete_failed(struct ofi_driver *ofi, struct ofi_peer *peer)
{
    const struct driver_events *events = &ofi->driver.events;
    orphan_writes(peer);
    window_fail(&peer->window, events, (struct driver_peer *)peer, peer->told, peer->error);
    peer->link.again = peer->window.made;
    ofi_peer_deactivate(peer);
    if (!peer->told) {
        peer->told = true;
        if (events->peer_down)
            events->peer_down(events->context, (struct driver_peer *)peer, peer->error);
    }
}

void ofi_peer_fail(struct driver *driver, struct driver_peer *driver_peer, int error)
{
    struct ofi_peer *peer = (struct ofi_peer *)driver_peer;
    peer->told = peer->given_up = true;
    ofi_peer_mark_failed(ofi_of(driver), peer, error);
}

int ofi_peer_flush(struct driver *driver, struct driver_peer *driver_peer, struct driver_op *op)
{
    struct ofi_peer *peer = (struct ofi_peer *)driver_peer;
    if (peer->error < 0)
        return peer->error;
    if (window_flush(&peer->window, op))
        ofi_peer_activate(ofi_of(driver), peer);
    return 0;
}
