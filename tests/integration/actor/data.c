/* Regions and their contents. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/integration/actor/actor.h"

/* ---- shapes ---- */

uint64_t shape_bytes(struct shape shape)
{
    return shape.count * shape.block_bytes;
}

/* Where a block begins. Some indexed blocks are exchanged with their neighbours, so that no loop
 * describes them. */
static int64_t block_place(struct shape shape, uint64_t block)
{
    if (shape.indexed && (block / 2 * 2654435761u >> 20 & 1) && (block | 1) < shape.count)
        block ^= 1;
    return (int64_t)(shape.indexed ? block * 7 % shape.count : block) * shape.stride_bytes;
}

static struct tca_layout *indexed_layout(struct shape shape)
{
    struct tca_layout *byte, *layout;
    int64_t *places = calloc(shape.count, sizeof(*places));
    int r = places ? tca_layout_contiguous(1, &byte) : -ENOMEM;
    for (uint64_t block = 0; r == 0 && block < shape.count; block++)
        places[block] = block_place(shape, block);
    if (r == 0) {
        r = tca_layout_hindexed_block(byte, shape.count, shape.block_bytes, places, &layout);
        tca_layout_free(byte);
    }
    free(places);
    return r < 0 ? NULL : layout;
}

struct tca_layout *shape_layout(struct shape shape)
{
    struct tca_layout *layout;
    if (shape.indexed)
        return indexed_layout(shape);
    int r = shape.count == 1
                ? tca_layout_contiguous(shape.block_bytes, &layout)
                : tca_layout_strided(shape.count, shape.block_bytes, shape.stride_bytes, &layout);
    return r < 0 ? NULL : layout;
}

/* Different for each place and seed, with a period that no block has. */
static uint8_t pattern(uint64_t seed, uint64_t place)
{
    uint64_t value = (seed + 1) * 0x9e3779b97f4a7c15u + place * 0xbf58476d1ce4e5b9u;
    return (uint8_t)(value >> 56 ^ value >> 24);
}

void shape_fill(void *base, struct shape shape, uint64_t seed)
{
    for (uint64_t block = 0, place = 0; block < shape.count; block++) {
        uint8_t *at = (uint8_t *)base + block_place(shape, block);
        for (uint64_t i = 0; i < shape.block_bytes; i++)
            at[i] = pattern(seed, place++);
    }
}

uint64_t shape_check(const void *base, struct shape shape, uint64_t seed)
{
    uint64_t place = 0;
    for (uint64_t block = 0; block < shape.count; block++) {
        const uint8_t *at = (const uint8_t *)base + block_place(shape, block);
        for (uint64_t i = 0; i < shape.block_bytes; i++, place++)
            if (at[i] != pattern(seed, place))
                return place;
    }
    return place;
}

void shape_mark(uint8_t *inside, struct shape shape)
{
    for (uint64_t block = 0; block < shape.count; block++)
        memset(inside + block_place(shape, block), 1, shape.block_bytes);
}

/* ---- commands ---- */

/* alloc BYTES: ok REGION ADDRESS BYTES */
static int alloc(struct actor *actor, const struct words *words)
{
    struct tca_region *region;
    if (actor->region_count == REGIONS_MAX)
        return say_error(-E2BIG, "this program can count %d regions", REGIONS_MAX);
    int r = tca_region_alloc(actor->session, word_number(words, 1), &region);
    if (r < 0)
        return say_result(r);
    actor->regions[actor->region_count] = region;
    return say("%u %p %llu", actor->region_count++, tca_region_address(region),
               (unsigned long long)tca_region_bytes(region));
}

/* occupy ADDRESS BYTES: maps something there. ok */
static int occupy(struct actor *actor, const struct words *words)
{
    void *at = (void *)(uintptr_t)word_number(words, 1);
    const bool done =
        mmap(at, word_number(words, 2), PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) == at;
    return done ? say("%s", "") : say_error(-errno, "mmap");
}

/* attach BYTES: memory from malloc, given back at the end. ok REGION ADDRESS BYTES */
static int attach(struct actor *actor, const struct words *words)
{
    struct tca_region *region;
    uint64_t bytes = word_number(words, 1);
    void *memory = calloc(1, bytes + 1);
    if (actor->region_count == REGIONS_MAX || !memory)
        return say_error(-E2BIG, "this program can count %d regions", REGIONS_MAX);
    int r =
        tca_region_attach(actor->session, (char *)memory + 1, bytes, &region); /* odd on purpose */
    if (r < 0) {
        free(memory);
        return say_result(r);
    }
    actor->attached[actor->region_count] = memory;
    actor->regions[actor->region_count] = region;
    return say("%u %p %llu", actor->region_count++, tca_region_address(region),
               (unsigned long long)tca_region_bytes(region));
}

/* free REGION */
static int free_region(struct actor *actor, const struct words *words)
{
    int r = tca_region_free(word_region(actor, words, 1));
    if (r == 0)
        actor->regions[word_number(words, 1)] = NULL;
    return say_result(r);
}

/* handle REGION [OFFSET LENGTH]: ok HANDLE */
static int handle(struct actor *actor, const struct words *words)
{
    struct tca_handle handle;
    uint64_t offset = words->count > 2 ? word_number(words, 2) : 0;
    uint64_t length = words->count > 3 ? word_number(words, 3) : TCA_ALL;
    int r = tca_region_handle(word_region(actor, words, 1), offset, length, &handle);
    if (r < 0)
        return say_result(r);
    say_bytes(handle.bytes, sizeof(handle.bytes));
    return 0;
}

/* reach HANDLE: ok ADDRESS */
static int reach(struct actor *actor, const struct words *words)
{
    struct tca_handle handle;
    word_bytes(words, 1, handle.bytes, sizeof(handle.bytes));
    void *address = tca_reach(actor->session, &handle);
    return address ? say("%p", address) : say_error(-EFAULT, "%s", tca_error_text());
}

/* peek ADDRESS BYTES: ok HEX, the contents */
static int peek(struct actor *actor, const struct words *words)
{
    say_bytes((const void *)(uintptr_t)word_number(words, 1), word_number(words, 2));
    return 0;
}

/* poke ADDRESS BYTES HEX */
static int poke(struct actor *actor, const struct words *words)
{
    word_bytes(words, 3, (void *)(uintptr_t)word_number(words, 1), word_number(words, 2));
    return say("poked");
}

static uint8_t *place(const struct actor *actor, const struct words *words)
{
    return (uint8_t *)tca_region_address(word_region(actor, words, 1)) + word_number(words, 2);
}

/* fill REGION OFFSET SHAPE SEED */
static int fill(struct actor *actor, const struct words *words)
{
    shape_fill(place(actor, words), word_shape(words, 3), word_number(words, 4));
    return say("filled");
}

/* check REGION OFFSET SHAPE SEED: -EBADMSG if these are not the bytes that fill writes with this
 * seed */
static int check(struct actor *actor, const struct words *words)
{
    struct shape shape = word_shape(words, 3);
    uint64_t right = shape_check(place(actor, words), shape, word_number(words, 4));
    if (right != shape_bytes(shape))
        return say_error(-EBADMSG, "byte %llu of %llu is wrong", (unsigned long long)right,
                         (unsigned long long)shape_bytes(shape));
    return say("%llu", (unsigned long long)right);
}

/* guarded REGION OFFSET SHAPE VALUE: -EBADMSG if a byte of the region outside the shape is not
 * VALUE */
static int guarded(struct actor *actor, const struct words *words)
{
    const struct tca_region *region = word_region(actor, words, 1);
    const uint8_t *base = tca_region_address(region);
    uint64_t bytes = tca_region_bytes(region), wrong = 0;
    struct shape shape = word_shape(words, 3);
    uint8_t *inside = calloc(bytes, 1);
    if (!inside)
        return say_error(-ENOMEM, "no memory to look at %llu bytes", (unsigned long long)bytes);
    shape_mark(inside + word_number(words, 2), shape);
    while (wrong < bytes && (inside[wrong] || base[wrong] == word_number(words, 4)))
        wrong++;
    free(inside);
    if (wrong < bytes)
        return say_error(-EBADMSG, "byte %llu was written", (unsigned long long)wrong);
    return say("%llu", (unsigned long long)bytes);
}

/* set REGION OFFSET BYTES VALUE */
static int set(struct actor *actor, const struct words *words)
{
    memset(place(actor, words), (int)word_number(words, 4), word_number(words, 3));
    return say("set");
}

/* same REGION OFFSET BYTES VALUE: -EBADMSG if a byte there is not VALUE */
static int same(struct actor *actor, const struct words *words)
{
    const uint8_t *base = place(actor, words);
    const uint64_t bytes = word_number(words, 3), value = word_number(words, 4);
    for (uint64_t i = 0; i < bytes; i++)
        if (base[i] != value)
            return say_error(-EBADMSG, "byte %llu of %llu was written", (unsigned long long)i,
                             (unsigned long long)bytes);
    return say("%llu", (unsigned long long)bytes);
}

/* read REGION OFFSET BYTES: ok HEX */
static int read_bytes(struct actor *actor, const struct words *words)
{
    say_bytes(place(actor, words), word_number(words, 3));
    return 0;
}

/* point REGION OFFSET TO: stores the address TO there, as a program would keep a pointer in shared
 * memory. */
static int point(struct actor *actor, const struct words *words)
{
    uint64_t address = word_number(words, 3);
    memcpy(place(actor, words), &address, sizeof(address));
    return say("stored");
}

static struct {
    void *address;
    uint64_t bytes;
} trap;

/* Stops this process; when it is continued, so is the access. */
static void stop_in_trap(int number, siginfo_t *fault, void *context)
{
    if ((uintptr_t)fault->si_addr - (uintptr_t)trap.address >= trap.bytes)
        _exit(128 + number);
    kill(getpid(), SIGSTOP);
    mprotect(trap.address, trap.bytes, PROT_READ | PROT_WRITE);
}

/* trap REGION OFFSET BYTES: this process stops in the middle of its next access there. */
static int set_trap(struct actor *actor, const struct words *words)
{
    struct sigaction action = {.sa_sigaction = stop_in_trap, .sa_flags = SA_SIGINFO | SA_RESTART};
    trap.address = place(actor, words);
    trap.bytes = word_number(words, 3);
    if (sigaction(SIGSEGV, &action, NULL) < 0 || mprotect(trap.address, trap.bytes, PROT_NONE) < 0)
        return say_error(-errno, "no trap: %s", strerror(errno));
    return say("set");
}

const struct command data_commands[] = {
    {"attach", 1, attach},
    {"alloc", 1, alloc},
    {"occupy", 2, occupy},
    {"free", 1, free_region},
    {"handle", 1, handle},
    {"reach", 1, reach},
    {"peek", 2, peek},
    {"poke", 3, poke},
    {"fill", 4, fill},
    {"check", 4, check},
    {"set", 4, set},
    {"guarded", 4, guarded},
    {"same", 4, same},
    {"read", 3, read_bytes},
    {"point", 3, point},
    {"trap", 3, set_trap},
    {NULL},
};
