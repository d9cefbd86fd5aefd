/*
 * Landings of another process. Its daemon has numbered them, but only the process itself can
 * register memory for the peer's connection. So the sender asks for each landing, when the put is
 * prepared; what is started before the answer waits. The receiver answers when the landing is
 * there, of which its daemon informs it, or has been there.
 *
 * Questions and answers are messages of the window. A peer has at most HCA_FINDS_ASKED questions.
 */
#include <errno.h>
#include <string.h>

#include "drivers/hca/hca.h"
#include "proto/list.h"

enum { TELL_UNASKED = 2 }; /* hca_find.writes, of what is kept here only */

static bool has_room(const struct hca_peer *peer)
{
    return !peer->paused && !window_is_full(&peer->window) && hca_send_has_room(peer, 1);
}

bool hca_finds_rest(const struct hca_peer *peer)
{
    return !peer->may_answer && (!peer->unasked || peer->awaited_count >= HCA_FINDS_ASKED);
}

/* ---- the sender ---- */

void hca_find_landing(struct hca_put *put)
{
    put->unknown = true;
    LIST_ADD(&put->peer->unasked, put, next, link);
    hca_peer_activate(put->peer);
}

static void ask(struct hca_peer *peer)
{
    struct hca_find finds[HCA_FIND_MANY];
    unsigned count = 0;
    while (peer->unasked && count < HCA_FIND_MANY && peer->awaited_count < HCA_FINDS_ASKED) {
        struct hca_put *put = peer->unasked;
        finds[count++] = (struct hca_find){
            .landing = put->landing, .generation = put->generation, .writes = put->writable};
        LIST_REMOVE(put, next, link);
        LIST_ADD(&peer->awaited, put, next, link);
        peer->awaited_count++;
    }
    hca_send_notice(peer, HCA_FIND, finds, (uint32_t)(count * sizeof(finds[0])), NULL);
}

static struct hca_put *search(struct hca_put *list, const struct hca_found *found)
{
    while (list && (list->landing != found->landing || list->generation != found->generation))
        list = list->next;
    return list;
}

/* The put may have been released. */
static void take_answer(struct hca_peer *peer, const struct hca_found *found)
{
    struct hca_put *put = search(peer->awaited, found);
    peer->awaited_count--;
    if (!put)
        return;
    LIST_REMOVE(put, next, link);
    LIST_ADD(&peer->writes, put, next, link);
    put->unknown = false;
    put->gone = found->state == HCA_GONE;
    put->writable &= found->state == HCA_TAKES_WRITES;
    put->target_address += found->address;
    put->rkey = found->rkey;
    put->region = put->writable ? found->region : 0;
    hca_put_choose(put);
    hca_peer_activate(peer);
}

/* A put that has sent everything waits for the count: of this message, or a later one. Of one that
 * has not, the device may be reading what was posted: make() ends it. */
static void take_dropped(struct hca_peer *peer, const struct hca_found *found)
{
    struct hca_put *put = search(peer->writes, found);
    if (!put)
        return;
    put->gone = true;
    if (put->base.op && put->base.made && put->base.error == 0)
        put->base.error = -ESTALE;
}

int hca_found(struct hca_peer *peer, const struct hca_head *head, void *payload)
{
    const uint8_t *at = payload;
    uint32_t bytes = head->length_bytes;
    struct hca_found found;
    if (bytes % sizeof(found) != 0)
        return -EPROTO;
    for (; bytes > 0; bytes -= (uint32_t)sizeof(found), at += sizeof(found)) {
        memcpy(&found, at, sizeof(found));
        if (found.state == HCA_DROPPED)
            take_dropped(peer, &found);
        else if (found.state < HCA_GONE || found.state > HCA_DROPPED || peer->awaited_count == 0)
            return -EPROTO;
        else
            take_answer(peer, &found);
    }
    return 0;
}

/* ---- the receiver ---- */

int hca_asked(struct hca_peer *peer, const struct hca_head *head, void *payload)
{
    const uint32_t bytes = head->length_bytes;
    const unsigned count = (unsigned)(bytes / sizeof(struct hca_find));
    struct hca_find *finds = &peer->finds[peer->find_count];
    if (bytes % sizeof(finds[0]) != 0 || count > HCA_FINDS_MAX - peer->find_count)
        return -EPROTO;
    memcpy(finds, payload, bytes);
    for (unsigned i = 0; i < count; i++)
        if (finds[i].writes > 1)
            return -EPROTO;
    peer->find_count += count;
    peer->may_answer = true;
    hca_peer_activate(peer);
    return 0;
}

/* If too much is to be told already, the daemons will tell. */
void hca_tell_gone(struct hca_peer *peer, uint32_t landing, uint32_t generation)
{
    if (peer->find_count >= HCA_FINDS_MAX - HCA_FINDS_ASKED)
        return;
    peer->finds[peer->find_count++] =
        (struct hca_find){.landing = landing, .generation = generation, .writes = TELL_UNASKED};
    peer->may_answer = true;
    hca_peer_activate(peer);
}

/* False: it cannot be answered yet. */
static bool describe(struct hca_peer *peer, const struct hca_find *find,
                     struct hca_found *ret_found)
{
    struct hca_driver *hca = peer->hca;
    struct hca_landing *landing = landings_find(&hca->landings, find->landing, find->generation);
    struct hca_found found = {.landing = find->landing, .generation = find->generation};
    if (find->writes != TELL_UNASKED && !landing &&
        landings_await(&hca->landings, find->generation))
        return false;
    found.state = find->writes == TELL_UNASKED        ? HCA_DROPPED
                  : !landing || landing->from != peer ? HCA_GONE
                                                      : HCA_TAKES_MESSAGES;
    if (found.state == HCA_TAKES_MESSAGES && find->writes && landing->region &&
        hca_landing_register(hca, landing, peer->domain) == 0) {
        found.state = HCA_TAKES_WRITES;
        found.rkey = landing->part->mr->rkey;
        found.address = (uintptr_t)landing->region->base + landing->offset_bytes;
        found.region = landing->part->number;
    }
    *ret_found = found;
    return true;
}

static void answer(struct hca_peer *peer)
{
    struct hca_found found[HCA_FOUND_MANY];
    unsigned count = 0, left = 0;
    for (unsigned i = 0; i < peer->find_count; i++) {
        const struct hca_find *find = &peer->finds[i];
        if (count < HCA_FOUND_MANY && describe(peer, find, &found[count]))
            count++;
        else
            peer->finds[left++] = *find;
    }
    peer->find_count = left;
    peer->may_answer = count == HCA_FOUND_MANY;
    if (count > 0)
        hca_send_notice(peer, HCA_FOUND, found, (uint32_t)(count * sizeof(found[0])), NULL);
}

void hca_finds_run(struct hca_peer *peer)
{
    if (peer->may_answer && has_room(peer))
        answer(peer);
    if (peer->unasked && peer->awaited_count < HCA_FINDS_ASKED && has_room(peer))
        ask(peer);
}
