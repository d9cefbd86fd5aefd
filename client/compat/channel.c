/* The four DMA channels. */
#include <stdio.h>

#include "client/compat/channel.h"
#include "client/compat/poll.h"
#include "client/compat/turn.h"

static struct channel {
    struct program *loaded;
    struct program *running; /* may have been replaced in `loaded` since its start */
    tcaresult untold;        /* the failure of a start, not yet returned to the program */
    char untold_text[512];
} channels[CHANNEL_COUNT];

tcaresult channel_check(int channel)
{
    tcaresult result = compat_ready();
    if (result == TCA_SUCCESS && (channel < 0 || channel >= CHANNEL_COUNT))
        result = compat_fail(TCA_ERROR_INVALID_VALUE, "channel %d is out of range (0 to %d)",
                             channel, CHANNEL_COUNT - 1);
    return result;
}

/* Returns the kept failure, once. */
static tcaresult tell(struct channel *channel)
{
    tcaresult result = channel->untold;
    channel->untold = TCA_SUCCESS;
    return result == TCA_SUCCESS ? result : compat_fail_as(result, channel->untold_text);
}

/* Waits until the channel is idle. TCA_ERROR_NOT_READY: still running; else the start's result. */
static tcaresult finish(struct channel *channel, int64_t timeout_ns)
{
    if (!channel->running)
        return tell(channel);
    int r = program_wait(channel->running, timeout_ns);
    if (r > 0)
        return TCA_ERROR_NOT_READY;
    tcaresult result = r < 0 ? compat_fail_errno(r, "a start failed") : TCA_SUCCESS;
    channel->running = program_unref(channel->running);
    return result;
}

/* The same in a call that does not concern the channel; keeps a failure for later. */
static void finish_untold(struct channel *channel, int64_t timeout_ns)
{
    tcaresult result = finish(channel, timeout_ns);
    if (result == TCA_ERROR_NOT_READY)
        result = compat_fail(
            result,
            "a start did not complete in time: it is unknown how much of its data has arrived");
    if (result == TCA_SUCCESS)
        return;
    channel->untold = result;
    snprintf(channel->untold_text, sizeof(channel->untold_text), "%s", tcaGetErrorString(result));
}

void channel_finish(int channel, const struct program *program)
{
    if (channels[channel].running == program)
        finish_untold(&channels[channel], TCA_FOREVER);
}

void channel_load(int channel, struct program *program)
{
    program_unref(channels[channel].loaded);
    channels[channel].loaded = program;
}

void channels_finish(int64_t timeout_ns)
{
    for (int i = 0; i < CHANNEL_COUNT; i++)
        finish_untold(&channels[i], timeout_ns);
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

/* A receiver cannot tell apart two notifications with the same slot and tag; it only counts them.
 * So the data of the first start must have arrived before the first of them. */
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
                           "channel %d has no chain: call tcaDescSet() first", number);
    if ((result = finish(channel, TCA_FOREVER)) != TCA_SUCCESS)
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
    return result == TCA_SUCCESS ? finish(&channels[number], TCA_FOREVER) : result;
}

/* ---- notifications ---- */

/* Waits for a notification from this process to itself, which is raised when its start
 * completes. */
static tcaresult wait_for_self(struct self_key key, int64_t timeout_ns)
{
    bool running = false;
    if (self_take(key))
        return TCA_SUCCESS;
    for (int i = 0; i < CHANNEL_COUNT; i++) {
        if (!channels[i].running || !program_notifies_self(channels[i].running, key))
            continue;
        tcaresult result = finish(&channels[i], timeout_ns);
        if (self_take(key))
            return TCA_SUCCESS;
        if (result == TCA_ERROR_NOT_READY)
            running = true;
        else if (result != TCA_SUCCESS)
            return result;
    }
    if (running || timeout_ns == 0)
        return TCA_ERROR_NOT_READY;
    return compat_fail(TCA_ERROR_INVALID_VALUE,
                       "no running start notifies this process in slot %d with tag %d", key.slot,
                       key.tag);
}

static tcaresult check_wait(const tcaHandle *handle, const char *name, int slot,
                            struct reference *ret_reference)
{
    tcaresult result = reference_read(handle, name, ret_reference);
    if (result == TCA_SUCCESS && (slot < 0 || slot > SLOT_MAX))
        result = compat_fail(TCA_ERROR_INVALID_VALUE, "%s: slot %d is out of range (0 to %d)", name,
                             slot, SLOT_MAX);
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
        poll_found_nothing();
    return result;
}
