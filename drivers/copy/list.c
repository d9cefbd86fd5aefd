/* Lists of blocks. */
#include "drivers/copy/moves.h"
#include "drivers/copy/variant.h"

/* The offset of block i on a side that is listed or packed. */
#define LISTED(side) side##_places[i]
#define PACKED(side) ((int64_t)(i * block))

#define LIST(name, TARGET, SOURCE, MOVE_BLOCK)                                                     \
    static void name(uint8_t *target, const uint8_t *source, const struct copy_list *list,         \
                     uint64_t first, uint64_t count)                                               \
    {                                                                                              \
        const int32_t *target_places = list->target_places, *source_places = list->source_places;  \
        const uint64_t block = list->block_bytes;                                                  \
        (void)target_places, (void)source_places, (void)block;                                     \
        _Pragma("GCC unroll 4") for (uint64_t i = first; i < first + count; i++)                   \
            MOVE_BLOCK(target + TARGET(target), source + SOURCE(source));                          \
    }
#define LISTS(name, MOVE_BLOCK)                                                                    \
    LIST(name##_pack, PACKED, LISTED, MOVE_BLOCK)                                                  \
    LIST(name##_unpack, LISTED, PACKED, MOVE_BLOCK)                                                \
    LIST(name##_both, LISTED, LISTED, MOVE_BLOCK)

#define MOVE_1(to, from)       MOVE(1, to, from)
#define MOVE_4(to, from)       MOVE(4, to, from)
#define MOVE_8(to, from)       MOVE(8, to, from)
#define MOVE_16(to, from)      MOVE(16, to, from)
#define MOVE_32(to, from)      MOVE(32, to, from)
#define MOVE_64(to, from)      MOVE(64, to, from)
#define MOVE_PAIR_4(to, from)  MOVE_PAIR(4, to, from, block)
#define MOVE_PAIR_8(to, from)  MOVE_PAIR(8, to, from, block)
#define MOVE_PAIR_16(to, from) MOVE_PAIR(16, to, from, block)
#define MOVE_PAIR_32(to, from) MOVE_PAIR(32, to, from, block)
#define MOVE_PAIR_64(to, from) MOVE_PAIR(64, to, from, block)
#define MOVE_ANY(to, from)     move_bytes(to, from, block)
LISTS(single_4, MOVE_4)
LISTS(single_8, MOVE_8)
LISTS(single_16, MOVE_16)
LISTS(single_32, MOVE_32)
LISTS(pair_4, MOVE_PAIR_4)
LISTS(pair_8, MOVE_PAIR_8)
LISTS(pair_16, MOVE_PAIR_16)
LISTS(pair_32, MOVE_PAIR_32)
LISTS(any, MOVE_ANY)

/* Blocks of various lengths. */
static void mixed(uint8_t *target, const uint8_t *source, const struct copy_list *list,
                  uint64_t first, uint64_t count)
{
    const uint32_t *starts = list->starts;
    for (uint64_t i = first; i < first + count; i++) {
        int64_t to = list->target_places ? list->target_places[i] : (int64_t)starts[i];
        int64_t from = list->source_places ? list->source_places[i] : (int64_t)starts[i];
        move_bytes(target + to, source + from, starts[i + 1] - starts[i]);
    }
}

#define CHOOSE(name)                                                                               \
    return !list->target_places ? name##_pack : !list->source_places ? name##_unpack : name##_both

copy_list_kernel *copy_list_choose(const struct copy_list *list)
{
    const uint64_t block = list->block_bytes;
    if (block == 0)
        return mixed;
    if (block == 4)
        CHOOSE(single_4);
    if (block == 8)
        CHOOSE(single_8);
    if (block == 16)
        CHOOSE(single_16);
    if (block == 32)
        CHOOSE(single_32);
    if (block > 64 || block < 4)
        CHOOSE(any);
    if (block < 8)
        CHOOSE(pair_4);
    if (block < 16)
        CHOOSE(pair_8);
    if (block < 32)
        CHOOSE(pair_16);
    CHOOSE(pair_32);
}
