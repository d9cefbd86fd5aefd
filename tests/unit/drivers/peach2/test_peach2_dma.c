/* Chains of a board's channels, in all three locations of descriptors, against memcpy(). */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/drivers/kit.h"
#include "tests/unit/drivers/peach2/rig.h"

enum {
    NODES = 4,
    MEMORY = 1 << 20,
    SOURCES = MEMORY / 4,
    CHAINS_AT = SOURCES,
    TARGETS = MEMORY / 2,
    CHAIN = 40
};

static struct rig rig;
static uint32_t state;

static uint32_t pick(uint32_t below)
{
    return next_random(&state) % below;
}

/* Legal, and not outside the source and target areas. */
static struct peach2_descriptor random_descriptor(unsigned node)
{
    struct peach2_descriptor descriptor = {0};
    const bool backwards = pick(4) == 0; /* at the destination */
    uint32_t block = 4 * (1 + pick(pick(4) ? 24 : 1200)), count = 1 + pick(pick(3) ? 4 : 40);
    uint32_t gap = backwards ? (16 - block % 16) % 16 : 4 * pick(30);
    uint32_t target_gap = gap + 16 * pick(8);
    descriptor.block = block;
    descriptor.length = block * count;
    descriptor.source_gap = (int32_t)gap;
    descriptor.destination_gap = (int32_t)target_gap;
    uint32_t phase = 4 * pick(4);
    uint32_t source = phase + 16 * pick((SOURCES - count * (block + gap) - 16) / 16);
    uint32_t target =
        TARGETS + phase + 16 * pick((TARGETS - count * (block + target_gap) - 16) / 16);
    if (backwards) {
        target += (count - 1) * (block + target_gap);
        descriptor.destination_gap = -(int32_t)(target_gap + 2 * block);
    } else if (pick(4) == 0) {
        descriptor.block = 0;
        descriptor.length = block;
    }
    descriptor.source = RIG_BUS + source;
    descriptor.destination = peach2_global(node, RIG_BUS + target);
    return descriptor;
}

/* What it does, on an image of the targets' memory. */
static void apply(const struct peach2_descriptor *descriptor, const uint8_t *source,
                  uint8_t *target)
{
    uint32_t block = descriptor->block ? descriptor->block : descriptor->length;
    int64_t from = (int64_t)(descriptor->source - RIG_BUS);
    int64_t to = (int64_t)((descriptor->destination & PEACH2_OFFSET_MASK) - RIG_BUS);
    for (uint32_t done = 0; done < descriptor->length; done += block) {
        memcpy(target + to, source + from, block);
        from += (int64_t)block + descriptor->source_gap;
        to += (int64_t)block + descriptor->destination_gap;
    }
}

static uint64_t slot_name(uint32_t fetch, uint32_t slot)
{
    return fetch == PEACH2_FETCH_HOST
               ? RIG_BUS + CHAINS_AT + slot * sizeof(struct peach2_descriptor)
               : slot;
}

static struct peach2_descriptor *slot_of(struct rig_board *board, unsigned channel, uint32_t fetch,
                                         uint32_t slot)
{
    if (fetch == PEACH2_FETCH_HOST)
        return (struct peach2_descriptor *)(board->memory + CHAINS_AT) + slot;
    return fetch == PEACH2_FETCH_INTERNAL ? &board->bar0->descriptors[slot]
                                          : &board->bar0->channels[channel].descriptors[slot];
}

static uint32_t slots_in(uint32_t fetch)
{
    return fetch == PEACH2_FETCH_HOST
               ? (TARGETS - CHAINS_AT) / (uint32_t)sizeof(struct peach2_descriptor)
           : fetch == PEACH2_FETCH_INTERNAL ? PEACH2_INTERNAL_DESCRIPTORS
                                            : PEACH2_REGISTER_DESCRIPTORS;
}

/* A chain of random descriptors in random slots to one node, with a notification at its end. */
static void run_chain(unsigned from, unsigned to, unsigned channel, uint32_t fetch, uint64_t name,
                      uint8_t *image)
{
    struct rig_board *board = &rig.boards[from];
    uint32_t slots = slots_in(fetch), length = 1 + pick(slots < CHAIN ? slots : CHAIN);
    uint32_t step = 2 * pick(slots / 2) + 1, slot = pick(slots); /* odd: visits every slot */
    const uint64_t first = slot_name(fetch, slot);
    for (uint32_t i = 0; i < length; i++) {
        struct peach2_descriptor descriptor = random_descriptor(to);
        apply(&descriptor, board->memory, image);
        uint32_t next = (slot + step) % slots;
        descriptor.next = slot_name(fetch, next);
        if (i + 1 == length) {
            descriptor.flags = PEACH2_END | PEACH2_NOTIFY | PEACH2_ACKNOWLEDGE;
            descriptor.notify[0] = name;
            descriptor.notify[1] = ~name;
        }
        *slot_of(board, channel, fetch, slot) = descriptor;
        slot = next;
    }
    rig_command(board, channel, fetch, first);
}

static void check_chains(uint32_t fetch, uint32_t seed)
{
    uint8_t *image = malloc(MEMORY);
    state = seed;
    rig_open(&rig, NODES, 1, MEMORY);
    for (unsigned node = 0; node < NODES; node++)
        fill(rig.boards[node].memory, MEMORY, seed + node);
    for (unsigned round = 0; round < 300; round++) {
        unsigned from = pick(NODES), to = pick(NODES), channel = pick(PEACH2_CHANNELS);
        uint64_t notify[2];
        memcpy(image, rig.boards[to].memory, MEMORY);
        run_chain(from, to, channel, fetch, round, image);
        cr_assert(rig_notified(&rig.boards[to], from, notify));
        cr_assert(notify[0] == round && notify[1] == ~(uint64_t)round);
        /* The notification is behind the data. Its sender's slots may lie in the same memory. */
        cr_assert(memcmp(rig.boards[to].memory + TARGETS, image + TARGETS, TARGETS) == 0,
                  "round %u", round);
        cr_assert(rig_done(&rig.boards[from], channel), "error %u",
                  rig.boards[from].bar0->channels[channel].error);
    }
    for (unsigned node = 0; node < NODES; node++)
        cr_assert(atomic_load(&rig.boards[node].bar0->discarded) == 0);
    rig_close(&rig);
    free(image);
}

Test(peach2_dma, chains_in_host_memory, .timeout = 120)
{
    check_chains(PEACH2_FETCH_HOST, 1);
}

Test(peach2_dma, chains_in_internal_memory, .timeout = 120)
{
    check_chains(PEACH2_FETCH_INTERNAL, 2);
}

Test(peach2_dma, chains_in_registers, .timeout = 120)
{
    check_chains(PEACH2_FETCH_REGISTERS, 3);
}

/* 64 commands at once, on every channel: they run in order, and nobody waits for another
 * channel. */
Test(peach2_dma, commands_queue, .timeout = 60)
{
    rig_open(&rig, 2, 1, MEMORY);
    struct rig_board *board = &rig.boards[0];
    for (uint32_t i = 0; i < PEACH2_CHANNELS * PEACH2_COMMANDS; i++) {
        ((uint32_t *)board->memory)[4 * i] = i;
        board->bar0->descriptors[i] = (struct peach2_descriptor){
            .source = RIG_BUS + 16 * i,
            .destination = peach2_global(1, RIG_BUS + TARGETS + 16 * (i / PEACH2_COMMANDS)),
            .length = 4,
            .flags = PEACH2_END | PEACH2_NOTIFY | PEACH2_ACKNOWLEDGE,
            .notify = {i},
        };
        rig_command(board, i / PEACH2_COMMANDS, PEACH2_FETCH_INTERNAL, i);
    }
    uint32_t next[PEACH2_CHANNELS] = {0};
    for (unsigned i = 0; i < PEACH2_CHANNELS * PEACH2_COMMANDS; i++) {
        uint64_t notify[2];
        cr_assert(rig_notified(&rig.boards[1], 0, notify));
        cr_assert(notify[0] % PEACH2_COMMANDS == next[notify[0] / PEACH2_COMMANDS]++);
    }
    for (unsigned channel = 0; channel < PEACH2_CHANNELS; channel++) {
        cr_assert(rig_done(board, channel));
        uint32_t last = *(uint32_t *)(rig.boards[1].memory + TARGETS + 16 * channel);
        cr_assert(last == (channel + 1) * PEACH2_COMMANDS - 1);
    }
    rig_close(&rig);
}

/* All slots of internal memory, a quarter for each channel, one after the other's: all at once. */
Test(peach2_dma, four_channels_share_internal_memory, .timeout = 60)
{
    enum { BYTES = 64, EACH = PEACH2_INTERNAL_DESCRIPTORS / PEACH2_CHANNELS };
    rig_open(&rig, 2, 1, MEMORY);
    struct rig_board *board = &rig.boards[0];
    fill(board->memory, PEACH2_INTERNAL_DESCRIPTORS * BYTES, 5);
    for (uint32_t i = 0; i < PEACH2_INTERNAL_DESCRIPTORS; i++)
        board->bar0->descriptors[i] = (struct peach2_descriptor){
            .source = RIG_BUS + i * BYTES,
            .destination = peach2_global(1, RIG_BUS + TARGETS + i * BYTES),
            .length = BYTES,
            .next = i + PEACH2_CHANNELS,
            .flags = i / PEACH2_CHANNELS == EACH - 1 ? PEACH2_END | PEACH2_ACKNOWLEDGE : 0,
        };
    for (unsigned channel = 0; channel < PEACH2_CHANNELS; channel++)
        rig_command(board, channel, PEACH2_FETCH_INTERNAL, channel);
    for (unsigned channel = 0; channel < PEACH2_CHANNELS; channel++)
        cr_assert(rig_done(board, channel));
    cr_assert(memcmp(rig.boards[1].memory + TARGETS, board->memory,
                     PEACH2_INTERNAL_DESCRIPTORS * BYTES) == 0);
    rig_close(&rig);
}

/* Bytes of any pattern through BAR 2; a chain that is started after them does not overtake them. */
Test(peach2_dma, pio_stores_of_any_bytes, .timeout = 60)
{
    state = 77;
    rig_open(&rig, 3, 1, MEMORY);
    struct rig_board *board = &rig.boards[0], *far = &rig.boards[2];
    uint8_t *image = calloc(1, MEMORY), bytes[PEACH2_PIO_BYTES];
    board->bar0->descriptors[0] =
        (struct peach2_descriptor){.destination = peach2_global(2, 0),
                                   .flags = PEACH2_END | PEACH2_NOTIFY | PEACH2_ACKNOWLEDGE,
                                   .notify = {9}};
    for (unsigned round = 0; round < 5000; round++) {
        uint64_t mask = (uint64_t)next_random(&state) << 32 | next_random(&state);
        uint32_t at = 64 * pick(MEMORY / 64);
        fill(bytes, sizeof(bytes), round);
        mask = round % 7 == 0 ? ~UINT64_C(0) : round % 5 == 0 ? UINT64_C(0xff) << pick(56) : mask;
        for (unsigned i = 0; i < 64; i++)
            if (mask >> i & 1)
                image[at + i] = bytes[i];
        rig_pio(board, peach2_global(2, RIG_BUS + at), mask, bytes);
        if (round % 100 != 99)
            continue;
        uint64_t notify[2];
        rig_command(board, round / 100 % 4, PEACH2_FETCH_INTERNAL, 0);
        cr_assert(rig_notified(far, 0, notify) && notify[0] == 9);
        cr_assert(memcmp(far->memory, image, MEMORY) == 0, "round %u", round);
    }
    rig_close(&rig);
    free(image);
}
