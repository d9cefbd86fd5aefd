/* Channels: commands to the board, and what became of them. */
#include <errno.h>

#include "drivers/peach2/peach2.h"
#include "proto/wait.h"

static struct peach2_channel *registers(const struct peach2 *peach2, const struct channel *channel)
{
    return &peach2->device.bar0->channels[channel - peach2->channels];
}

bool channel_room(const struct channel *channel)
{
    return channel->start - channel->done < PEACH2_COMMANDS;
}

bool channel_register(const struct peach2 *peach2, const struct channel *channel,
                      uint32_t *ret_slot)
{
    /* acquire: pairs with the board's release; it has fetched the descriptors of these commands.
     * The last that had this slot is PEACH2_REGISTER_DESCRIPTORS commands back. */
    uint32_t sent = atomic_load_explicit(&registers(peach2, channel)->sent, memory_order_acquire);
    *ret_slot = channel->start % PEACH2_REGISTER_DESCRIPTORS;
    return channel->start - sent < PEACH2_REGISTER_DESCRIPTORS;
}

void channel_command(struct peach2 *peach2, struct peer *peer, uint32_t fetch, uint64_t first)
{
    struct channel *channel = channel_of(peach2, peer);
    struct peach2_channel *bar = registers(peach2, channel);
    bar->commands[channel->start % PEACH2_COMMANDS] =
        (struct peach2_command){.first = first, .fetch = fetch};
    atomic_store_explicit(&bar->start, ++channel->start,
                          memory_order_release); /* pairs with the board's acquire */
    device_ring(&peach2->device);
    peer->last_command = channel->start;
}

/* ---- handing over ---- */

/* The put whose turn it is: whether all of it was handed over. */
static enum stage_result hand_over(struct peach2 *peach2, struct put *put)
{
    if (put->kind == PUT_STAGED)
        return stage_run(peach2, put);
    put_number(peach2, put);
    channel_command(peach2, put->peer, put->fetch, put_first(peach2, put));
    return STAGE_END;
}

static bool may_send(struct peach2 *peach2, const struct peer *peer)
{
    uint32_t slot;
    return peer->state == PEER_OPEN && peer->turn && peach2->device.bar0 &&
           peer->sent - peer->credited < RING_ENTRIES - RING_RESERVE &&
           channel_room(channel_of(peach2, peer)) &&
           (peer->turn->kind == PUT_STAGED || peer->turn->fetch != PEACH2_FETCH_REGISTERS ||
            channel_register(peach2, channel_of(peach2, peer), &slot));
}

unsigned channel_pump(struct peach2 *peach2, struct peer *peer)
{
    unsigned moved = 0;
    for (; may_send(peach2, peer); moved++) {
        struct put *put = peer->turn;
        put->sequence = peer->next_sequence;
        enum stage_result result = hand_over(peach2, put);
        if (result == STAGE_BLOCKED)
            break;
        if (result == STAGE_MOVED)
            continue;
        put->state = PUT_SENT;
        put->command = peer->last_command;
        put->op->posted_ns = clock_now_ns();
        peer->turn = put->next;
        peer->next_sequence++;
        peer->sent++;
    }
    return moved;
}

/* ---- completion ---- */

static void pop(struct peer *peer)
{
    struct put *put = peer->first;
    peer->first = put->next;
    if (!peer->first)
        peer->last = &peer->first;
    if (peer->turn == put)
        peer->turn = put->next;
}

static unsigned retire(struct peach2 *peach2, struct peer *peer, uint32_t done)
{
    unsigned moved = 0;
    while (peer->first && peer->first->state == PUT_SENT &&
           (int32_t)(done - peer->first->command) >= 0) {
        struct put *put = peer->first;
        pop(peer);
        put_done(peach2, put, 0);
        moved++;
    }
    return moved;
}

unsigned channel_look(struct peach2 *peach2, unsigned index)
{
    struct channel *channel = &peach2->channels[index];
    if (channel->done == channel->start || !peach2->device.bar0)
        return 0;
    /* acquire: pairs with the board's release; it has done with the sources, and everything has
     * landed */
    uint32_t done = atomic_load_explicit(&registers(peach2, channel)->done, memory_order_acquire);
    uint32_t sent = atomic_load_explicit(&registers(peach2, channel)->sent, memory_order_acquire);
    if (channel->start - done > PEACH2_COMMANDS || channel->start - sent > PEACH2_COMMANDS)
        return 0; /* not what a board says */
    channel->sent = sent;
    if (done == channel->done)
        return 0;
    channel->done = done;
    unsigned moved = 1;
    for (struct peer *peer = peach2->peers, *next; peer; peer = next) {
        next = peer->next;
        if (channel_of(peach2, peer) == channel)
            moved += retire(peach2, peer, done);
    }
    return moved;
}

/* ---- when something goes wrong ---- */

/* What was given to the board for this peer: nobody knows what became of it, unless the peer does.
 */
static bool doubt(struct peer *peer)
{
    bool any = peer->turn && peer->turn->staging;
    for (struct put *put = peer->first; put; put = put->next) {
        if (put->state == PUT_SENT)
            put->state = PUT_UNSURE;
        any |= put->state == PUT_UNSURE;
        put->staging = false;
    }
    return any;
}

static void forget(struct peach2 *peach2, unsigned index)
{
    struct channel *channel = &peach2->channels[index];
    channel->sent = channel->done = channel->start;
    for (unsigned i = 0; i < SEGMENTS; i++)
        if (peach2->pieces[i].channel == index)
            peach2->pieces[i].busy = false;
    for (struct peer *peer = peach2->peers; peer; peer = peer->next)
        if (channel_of(peach2, peer) == channel && peer->state != PEER_FAILED && doubt(peer))
            peer_sync(peach2, peer);
}

void channel_reset(struct peach2 *peach2, unsigned index)
{
    channel_look(peach2, index);
    if (peach2->device.bar0 && device_abort(&peach2->device, index) < 0) {
        board_lost(peach2);
        return;
    }
    forget(peach2, index);
}

void channels_lost(struct peach2 *peach2)
{
    for (unsigned index = 0; index < PEACH2_CHANNELS; index++)
        forget(peach2, index);
    for (struct peer *peer = peach2->peers; peer; peer = peer->next)
        if (peer->state == PEER_OPEN)
            peer_sync(peach2, peer);
}

/* The put that a command belongs to: the one that it ends, or the first that was not wholly handed
 * over then. */
static struct put *put_of(struct peach2 *peach2, const struct channel *channel, uint32_t command)
{
    struct put *best = NULL;
    for (struct peer *peer = peach2->peers; peer; peer = peer->next) {
        if (channel_of(peach2, peer) != channel)
            continue;
        for (struct put *put = peer->first; put; put = put->next) {
            bool candidate = put->state == PUT_SENT && (int32_t)(put->command - command) >= 0;
            if (candidate &&
                (!best || best->state != PUT_SENT || (int32_t)(best->command - put->command) > 0))
                best = put;
            if (!best && put->staging)
                best = put;
        }
    }
    return best;
}

void channel_failed(struct peach2 *peach2, unsigned index)
{
    struct channel *channel = &peach2->channels[index];
    channel_look(peach2, index);
    struct put *put = put_of(peach2, channel, channel->sent + 1);
    channel_reset(peach2, index);
    if (!put)
        return;
    struct peer *peer = put->peer;
    struct put **link = &peer->first;
    while (*link != put)
        link = &(*link)->next;
    *link = put->next;
    if (!put->next)
        peer->last = link;
    if (peer->turn == put)
        peer->turn = put->next;
    put_done(peach2, put, -EIO);
}

bool channel_stalled(struct peach2 *peach2, unsigned index, uint64_t now_ns)
{
    struct channel *channel = &peach2->channels[index];
    uint32_t done = atomic_load_explicit(&registers(peach2, channel)->done, memory_order_relaxed);
    uint64_t packets =
        atomic_load_explicit(&registers(peach2, channel)->packets, memory_order_relaxed);
    bool moved = channel->start == channel->done || done != channel->done_seen ||
                 packets != channel->packets;
    channel->done_seen = done;
    channel->packets = packets;
    if (moved || channel->moved_ns == 0)
        channel->moved_ns = now_ns;
    return now_ns - channel->moved_ns > (uint64_t)STALL_MS * 1000000;
}
