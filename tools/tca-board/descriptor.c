/* Fetches descriptors from one of their three locations, and checks them. */
#include <string.h>

#include "tools/tca-board/board.h"

static int fetch(struct board *board, unsigned index, struct peach2_descriptor *ret_descriptor)
{
    const struct channel *channel = &board->channels[index];
    const void *from = NULL;
    if (channel->fetch == PEACH2_FETCH_HOST && channel->at % 16 == 0 &&
        channel->at < PEACH2_INTERNAL)
        from = iommu_find(&board->iommu, channel->at, sizeof(*ret_descriptor));
    else if (channel->fetch == PEACH2_FETCH_INTERNAL && channel->at < PEACH2_INTERNAL_DESCRIPTORS)
        from = &board->bar0->descriptors[channel->at];
    else if (channel->fetch == PEACH2_FETCH_REGISTERS && channel->at < PEACH2_REGISTER_DESCRIPTORS)
        from = &board->bar0->channels[index].descriptors[channel->at];
    if (!from)
        return PEACH2_BAD_FETCH;
    memcpy(ret_descriptor, from, sizeof(*ret_descriptor));
    return 0;
}

static bool misaligned(const struct peach2_descriptor *descriptor)
{
    uint32_t all = (uint32_t)descriptor->source | (uint32_t)descriptor->destination |
                   descriptor->length | descriptor->block | (uint32_t)descriptor->source_gap |
                   (uint32_t)descriptor->destination_gap;
    if (all % PEACH2_ALIGN != 0 ||
        (descriptor->source - descriptor->destination) % PEACH2_PHASE != 0)
        return true;
    bool blocks = descriptor->block != 0 && descriptor->block != descriptor->length;
    return blocks && ((uint32_t)descriptor->source_gap - (uint32_t)descriptor->destination_gap) %
                             PEACH2_PHASE !=
                         0;
}

/* Checks the first block only, to report errors early; every block is checked when it is read. */
static int check(struct board *board, const struct peach2_descriptor *descriptor)
{
    if (descriptor->flags & ~(uint32_t)PEACH2_FLAGS)
        return PEACH2_BAD_FLAGS;
    if (descriptor->length > PEACH2_LENGTH_MAX ||
        (descriptor->block != 0 &&
         (descriptor->block > descriptor->length || descriptor->length % descriptor->block != 0)))
        return PEACH2_BAD_LENGTH;
    if (descriptor->length > 0 && misaligned(descriptor))
        return PEACH2_BAD_ALIGNMENT;
    uint64_t first = descriptor->block != 0 ? descriptor->block : descriptor->length;
    if (descriptor->length > 0 && !board_memory(board, descriptor->source, first, false))
        return PEACH2_BAD_SOURCE;
    if (board_route(board, descriptor->destination) == PEACH2_DISCARD)
        return PEACH2_BAD_DESTINATION;
    return 0;
}

/* A chain stays in its location. In internal memory and registers, one longer than the number of
 * slots has a loop; host memory needs a limit. */
static uint32_t longest_chain(uint32_t fetch)
{
    return fetch == PEACH2_FETCH_INTERNAL    ? PEACH2_INTERNAL_DESCRIPTORS
           : fetch == PEACH2_FETCH_REGISTERS ? PEACH2_REGISTER_DESCRIPTORS
                                             : PEACH2_CHAIN_MAX;
}

int descriptor_load(struct board *board, unsigned index)
{
    struct channel *channel = &board->channels[index];
    struct peach2_descriptor *descriptor = &channel->descriptor;
    if (channel->links++ == longest_chain(channel->fetch))
        return PEACH2_BAD_CHAIN;
    int error = fetch(board, index, descriptor);
    if (error == 0)
        error = check(board, descriptor);
    if (error != 0)
        return error;
    if (descriptor->block == 0)
        descriptor->block = descriptor->length;
    channel->loaded = true;
    channel->notified = false;
    channel->moved_bytes = 0;
    channel->source = descriptor->source;
    channel->destination = descriptor->destination;
    channel->block_left = descriptor->block;
    return 0;
}
