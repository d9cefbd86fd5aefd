/* The four DMA channels: what is loaded, what runs. */
#include <stdio.h>

#include "client/compat/channel.h"
#include "client/compat/poll.h"
#include "client/compat/turn.h"

static struct channel {
    struct program *loaded;
    struct program *running; /* loaded then, perhaps not any more */
    tcaresult untold;        /* what a start has come to, when nobody could be told at once */
    char untold_text[512];
} channels[CHANNEL_COUNT];

tcaresult channel_check(int channel)
{
    tcaresult result = compat_ready();
    if (result == TCA_SUCCESS && (channel < 0 || channel >= CHANNEL_COUNT))
        result = compat_fail(TCA_ERROR_INVALID_VALUE, "channel %d: there are 0 to %d", channel,
                             CHANNEL_COUNT - 1);
    return result;
}

/* Once. */
static tcaresult tell(struct channel *channel)
{
    tcaresult result = channel->untold;
    channel->untold = TCA_SUCCESS;
    return result == TCA_SUCCESS ? result : compat_fail_as(result, channel->untold_text);
}

/* Until it is idle. TCA_ERROR_NOT_READY: it still runs; else what the start has come to. */
static tcaresult settle(struct channel *channel, int64_t timeout_ns)
{
    if (!channel->running)
        return tell(channel);
    int r = program_wait(channel->running, timeout_ns);
    if (r > 0)
        return TCA_ERROR_NOT_READY;
    tcaresult result = r < 0 ? compat_fail_errno(r, "a start has failed") : TCA_SUCCESS;
    channel->running = program_unref(channel->running);
    return result;
}

/* In a call that is not the channel's. */
static void settle_untold(struct channel *channel, int64_t timeout_ns)
{
    tcaresult result = settle(channel, timeout_ns);
    if (result == TCA_ERROR_NOT_READY)
        result =
            compat_fail(result, "a start did not end in time: what of it arrives is not known");
    if (result == TCA_SUCCESS)
        return;
    channel->untold = result;
    snprintf(channel->untold_text, sizeof(channel->untold_text), "%s", tcaGetErrorString(result));
}

void channel_settle(int channel, const struct program *program)
{
    if (channels[channel].running == program)
        settle_untold(&channels[channel], TCA_FOREVER);
}

void channel_load(int channel, struct program *program)
{
    program_unref(channels[channel].loaded);
    channels[channel].loaded = program;
}

void channels_settle(int64_t timeout_ns)
{
    for (int i = 0; i < CHANNEL_COUNT; i++)
        settle_untold(&channels[i], timeout_ns);
}

tcaresult channels_tell(void)
{
    for (int i = 0; i < CHANNEL_COUNT; i++)
        if (channels[i].untold != TCA_SUCCESS)
            return tell(&channels[i]);
    return TCA_SUCCESS;
}

void channels_empty(void)
{
    for (int i = 0; i < CHANNEL_COUNT; i++)
        channel_load(i, NULL);
}

/* Who is notified twice with one slot and tag counts, and cannot tell one from the other: the data
 * of the first is to be there at the first count. */
static void keep_order(const struct channel *channel)
{
    for (int i = 0; i < CHANNEL_COUNT; i++) {
        const struct channel *other = &channels[i];
        if (other != channel && other->running &&
            program_notifies_like(other->running, channel->loaded))
            program_finish(other->running);
    }
}

TCA_API tcaresult tcaStartDMADesc(int number)
{
    TAKE_TURN();
    tcaresult result = channel_check(number);
    if (result != TCA_SUCCESS)
        return result;
    struct channel *channel = &channels[number];
    if (!channel->loaded)
        return compat_fail(TCA_ERROR_INVALID_VALUE,
                           "nothing is loaded into channel %d: tcaDescSet() first", number);
    if ((result = settle(channel, TCA_FOREVER)) != TCA_SUCCESS)
        return result;
    keep_order(channel);
    if ((result = program_start(channel->loaded)) != TCA_SUCCESS)
        return result;
    channel->running = program_ref(channel->loaded);
    return TCA_SUCCESS;
}

TCA_API tcaresult tcaWaitDMAC(int number)
{
    TAKE_TURN();
    tcaresult result = channel_check(number);
    return result == TCA_SUCCESS ? settle(&channels[number], TCA_FOREVER) : result;
}

/* ---- notifications ---- */

/* Of this process to itself: they come when the start that has them is complete. */
static tcaresult wait_for_self(struct self_key key, int64_t timeout_ns)
{
    bool running = false;
    if (self_take(key))
        return TCA_SUCCESS;
    for (int i = 0; i < CHANNEL_COUNT; i++) {
        if (!channels[i].running || !program_notifies_self(channels[i].running, key))
            continue;
        tcaresult result = settle(&channels[i], timeout_ns);
        if (self_take(key))
            return TCA_SUCCESS;
        if (result == TCA_ERROR_NOT_READY)
            running = true;
        else if (result != TCA_SUCCESS)
            return result;
    }
    if (running || timeout_ns == 0)
        return TCA_ERROR_NOT_READY;
    return compat_fail(
        TCA_ERROR_INVALID_VALUE,
        "waiting for oneself in slot %d with tag %d: no start that notifies so is under way",
        key.slot, key.tag);
}

static tcaresult check_wait(const tcaHandle *handle, const char *name, int slot,
                            struct reference *ret_reference)
{
    tcaresult result = reference_read(handle, name, ret_reference);
    if (result == TCA_SUCCESS && (slot < 0 || slot > SLOT_MAX))
        result = compat_fail(TCA_ERROR_INVALID_VALUE, "%s: slot %d: there are 0 to %d", name, slot,
                             SLOT_MAX);
    return result;
}

TCA_API tcaresult tcaWaitDMARecvDesc(const tcaHandle *handle, int slot, int tag)
{
    TAKE_TURN();
    struct reference from;
    tcaresult result = check_wait(handle, "tcaWaitDMARecvDesc", slot, &from);
    if (result != TCA_SUCCESS)
        return result;
    return from.rank == compat.rank ? wait_for_self((struct self_key){slot, tag}, TCA_FOREVER)
                                    : inbox_wait(from.rank, slot, tag);
}

static tcaresult test_recv(const tcaHandle *handle, int slot, int tag)
{
    TAKE_TURN();
    struct reference from;
    tcaresult result = check_wait(handle, "tcaTestDMARecvDesc", slot, &from);
    if (result != TCA_SUCCESS)
        return result;
    return from.rank == compat.rank ? wait_for_self((struct self_key){slot, tag}, 0)
                                    : inbox_test(from.rank, slot, tag);
}

TCA_API tcaresult tcaTestDMARecvDesc(const tcaHandle *handle, int slot, int tag)
{
    tcaresult result = test_recv(handle, slot, tag);
    if (result == TCA_ERROR_NOT_READY)
        poll_in_vain();
    return result;
}
