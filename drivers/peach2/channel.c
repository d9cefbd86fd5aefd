/* Channels: issues commands to the board and tracks their completion. */
#include <errno.h>
#include <string.h>

#include "drivers/peach2/fault.h"
#include "drivers/peach2/peach2.h"
#include "proto/wait.h"

static struct peach2_channel *registers(const struct peach2 *peach2, const struct channel *channel)
{
    return &peach2->device.bar0->channels[channel - peach2->channels];
}

bool peach2_channel_room(const struct channel *channel)
{
    return channel->start - channel->done < PEACH2_COMMANDS;
}

bool peach2_channel_register(const struct peach2 *peach2, const struct channel *channel,
                             uint32_t *ret_slot)
{
    /* acquire: pairs with the board's release; it has fetched the descriptors of these commands.
     * The last command with this slot is PEACH2_REGISTER_DESCRIPTORS commands back. */
    uint32_t sent = atomic_load_explicit(&registers(peach2, channel)->sent, memory_order_acquire);
    *ret_slot = channel->start % PEACH2_REGISTER_DESCRIPTORS;
    return channel->start - sent < PEACH2_REGISTER_DESCRIPTORS;
}

enum { PUT_LOAD = 256 }; /* load of a put in addition to its size, in bytes */

unsigned peach2_channel_choose(const struct peach2 *peach2, const struct put *put)
{
    const struct peer *peer = put->peer;
    unsigned best = peer->address.node % PEACH2_CHANNELS;
    for (unsigned i = 0; i < PEACH2_CHANNELS; i++)
        for (const struct put *other = peer->streams[i].first; other; other = other->next)
            if (other->flow == put->flow)
                return i;
    for (unsigned i = 0; i < PEACH2_CHANNELS; i++)
        if (peach2->channels[i].load_bytes < peach2->channels[best].load_bytes)
            best = i;
    return best;
}

void peach2_channel_command(struct peach2 *peach2, const struct put *put, uint32_t fetch,
                            uint64_t first)
{
    struct channel *channel = &peach2->channels[put->channel];
    struct peach2_channel *bar = registers(peach2, channel);
    bar->commands[channel->start % PEACH2_COMMANDS] =
        (struct peach2_command){.first = first, .fetch = fetch};
    atomic_store_explicit(&bar->start, ++channel->start,
                          memory_order_release); /* pairs with the board's acquire */
    peach2_device_ring(&peach2->device);
    stream_of(put)->last_command = channel->start;
}

/* ---- streams ---- */

void peach2_stream_add(struct peach2 *peach2, struct put *put)
{
    struct stream *stream = stream_of(put);
    put->next = NULL;
    *stream->last = put;
    stream->last = &put->next;
    if (!stream->turn)
        stream->turn = put;
    peach2->channels[put->channel].load_bytes += put->size_bytes + PUT_LOAD;
}

void peach2_stream_remove(struct peach2 *peach2, struct put *put)
{
    struct stream *stream = stream_of(put);
    struct put **link = &stream->first;
    while (*link != put)
        link = &(*link)->next;
    *link = put->next;
    if (!put->next)
        stream->last = link;
    if (stream->turn == put)
        stream->turn = put->next;
    peach2->channels[put->channel].load_bytes -= put->size_bytes + PUT_LOAD;
}

/* ---- handing over ---- */

/* Hands the next put, or part of it, to the board. */
static enum stage_result hand_over(struct peach2 *peach2, struct put *put)
{
    if (put->kind == PUT_STAGED)
        return peach2_stage_run(peach2, put);
    peach2_put_number(peach2, put);
    peach2_channel_command(peach2, put, put->fetch, peach2_put_first(peach2, put));
    return STAGE_END;
}

static bool may_send(struct peach2 *peach2, const struct peer *peer, unsigned index)
{
    const struct put *put = peer->streams[index].turn;
    const struct channel *channel = &peach2->channels[index];
    uint32_t slot;
    return peer->state == PEER_OPEN && put && peach2->device.bar0 &&
           peer->sent - peer->credited < RING_ENTRIES - RING_RESERVE &&
           peach2_channel_room(channel) &&
           (put->kind == PUT_STAGED || put->fetch != PEACH2_FETCH_REGISTERS ||
            peach2_channel_register(peach2, channel, &slot));
}

static unsigned pump(struct peach2 *peach2, struct peer *peer, unsigned index)
{
    struct stream *stream = &peer->streams[index];
    unsigned moved = 0;
    for (; may_send(peach2, peer, index); moved++) {
        struct put *put = stream->turn;
        put->sequence = stream->next_sequence;
        enum stage_result result = hand_over(peach2, put);
        if (result == STAGE_BLOCKED)
            break;
        if (result == STAGE_MOVED)
            continue;
        put->state = PUT_SENT;
        put->command = stream->last_command;
        put->op->posted_ns = clock_now_ns();
        put->op->hops = peach2_hops_to(&peach2->driver, peer->address.node);
        stream->turn = put->next;
        stream->next_sequence = (stream->next_sequence + 1) & SEQUENCE_MASK;
        peer->sent++;
    }
    return moved;
}

unsigned peach2_channel_pump(struct peach2 *peach2, struct peer *peer)
{
    unsigned moved = 0;
    for (unsigned i = 0; i < PEACH2_CHANNELS; i++)
        moved += pump(peach2, peer, i);
    return moved;
}

/* ---- completion ---- */

static unsigned retire(struct peach2 *peach2, struct stream *stream, uint32_t done)
{
    unsigned moved = 0;
    while (stream->first && stream->first->state == PUT_SENT &&
           (int32_t)(done - stream->first->command) >= 0) {
        peach2_put_done(peach2, stream->first, 0);
        moved++;
    }
    return moved;
}

unsigned peach2_channel_look(struct peach2 *peach2, unsigned index)
{
    struct channel *channel = &peach2->channels[index];
    if (channel->done == channel->start || !peach2->device.bar0)
        return 0;
    /* acquire: pairs with the board's release; it no longer reads the sources, and all data has
     * arrived */
    uint32_t done = atomic_load_explicit(&registers(peach2, channel)->done, memory_order_acquire);
    uint32_t sent = atomic_load_explicit(&registers(peach2, channel)->sent, memory_order_acquire);
    if (channel->start - done > PEACH2_COMMANDS || channel->start - sent > PEACH2_COMMANDS)
        return 0; /* invalid values: not written by the board */
    channel->sent = sent;
    if (done == channel->done)
        return 0;
    channel->done = done;
    unsigned moved = 1;
    for (struct peer *peer = peach2->peers, *next; peer; peer = next) {
        next = peer->next;
        moved += retire(peach2, &peer->streams[index], done);
    }
    return moved;
}

/* ---- when something goes wrong ---- */

/* Marks this peer's puts that were given to the board as unsure: only the peer knows whether they
 * have arrived. Returns whether there are any. */
static bool mark_unsure(struct peer *peer)
{
    bool any = false;
    for (unsigned i = 0; i < PEACH2_CHANNELS; i++) {
        struct stream *stream = &peer->streams[i];
        any |= stream->turn && stream->turn->staging;
        for (struct put *put = stream->first; put; put = put->next) {
            if (put->state == PUT_SENT)
                put->state = PUT_UNSURE;
            any |= put->state == PUT_UNSURE;
            put->staging = false;
        }
    }
    return any;
}

static void forget_commands(struct peach2 *peach2)
{
    for (unsigned i = 0; i < PEACH2_CHANNELS; i++) {
        struct channel *channel = &peach2->channels[i];
        channel->sent = channel->done = channel->start;
    }
    for (unsigned i = 0; i < SEGMENTS; i++)
        peach2->pieces[i].busy = false;
    for (struct peer *peer = peach2->peers; peer; peer = peer->next)
        if (peer->state != PEER_FAILED && mark_unsure(peer))
            peach2_peer_sync(peach2, peer);
}

void peach2_channels_reset(struct peach2 *peach2)
{
    for (unsigned i = 0; i < PEACH2_CHANNELS; i++)
        peach2_channel_look(peach2, i);
    for (unsigned i = 0; i < PEACH2_CHANNELS && peach2->device.bar0; i++)
        if (peach2->channels[i].start != peach2->channels[i].done &&
            peach2_device_abort(&peach2->device, i) < 0) {
            peach2_board_lost(peach2);
            return;
        }
    forget_commands(peach2);
}

void peach2_channels_lost(struct peach2 *peach2)
{
    forget_commands(peach2);
    for (struct peer *peer = peach2->peers; peer; peer = peer->next)
        if (peer->state == PEER_OPEN)
            peach2_peer_sync(peach2, peer);
}

/* The put that a command belongs to: the first one sent that ends with it or a later command, or
 * else the one being staged. */
static struct put *put_of(struct peach2 *peach2, unsigned index, uint32_t command)
{
    struct put *best = NULL;
    for (struct peer *peer = peach2->peers; peer; peer = peer->next) {
        for (struct put *put = peer->streams[index].first; put; put = put->next) {
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

/* Restores the descriptors, because only another writer can have caused an error there. The board
 * is not fetching any now. */
static void restore_internal_memory(struct peach2 *peach2)
{
    if (peach2->device.bar0)
        memcpy(peach2->device.bar0->descriptors, peach2->internal_descriptors,
               sizeof(peach2->internal_descriptors));
}

static bool still_runs(const struct peach2 *peach2, unsigned index, const struct put *put)
{
    for (const struct peer *peer = peach2->peers; peer; peer = peer->next)
        for (const struct put *at = peer->streams[index].first; at; at = at->next)
            if (at == put)
                return true;
    return false;
}

void peach2_channel_failed(struct peach2 *peach2, unsigned index)
{
    /* The channel may have been reset meanwhile (see reroute()); then its puts are sent again
     * anyway. */
    const uint32_t error = atomic_load_explicit(&registers(peach2, &peach2->channels[index])->error,
                                                memory_order_acquire);
    if (error == 0)
        return;
    peach2_fault_stopped(peach2, index, error);
    const unsigned node = peach2->device.node;
    peach2_channel_look(peach2, index);
    struct put *put = put_of(peach2, index, peach2->channels[index].sent + 1);
    peach2_channels_reset(peach2);
    restore_internal_memory(peach2);
    if (put && still_runs(peach2, index, put)) { /* it may have completed meanwhile */
        put->op->fault = peach2_fault(node, index, error);
        peach2_put_done(peach2, put, -EIO);
    }
}

bool peach2_channel_stalled(struct peach2 *peach2, unsigned index, uint64_t now_ns)
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
