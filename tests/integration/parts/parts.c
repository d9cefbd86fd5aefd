/*
 * parts SEED STARTS [TOTALS]: each rank puts random parts into the memory of the next one, by
 * starts of one plan; each compares all of its memory with the result of a sequential copy. Appends
 * a line to the file TOTALS with the number of bytes that it put. Ends with 0, or prints what was
 * wrong.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tca.h>

enum { ROOM = 512 << 10, LONG_BYTES = 9 << 19 };
enum { DATA, READ }; /* slots */

/* Blocks at equal distances; one block: contiguous. */
struct side {
    uint64_t count, block, stride;
};

struct put {
    struct side source, target;
    bool whole; /* no parts */
};

static const struct put moves[] = {
    {{1, 200000, 0}, {1, 200000, 0}, false},
    {{1, 40, 0}, {1, 64, 0}, false},
    {{1, 5000, 0}, {1, 5000, 0}, true},
    {{1, 300000, 0}, {1, 4096, 0}, false},
    {{100, 24, 40}, {1, 40000, 0}, false},
    {{1, 64000, 0}, {60, 1200, 3000}, false},
    {{64, 512, 1000}, {512, 64, 100}, false},
    {{1, LONG_BYTES, 0}, {1, LONG_BYTES, 0}, false}, /* in the client's seat: copied in pieces */
};
enum {
    PUTS = sizeof(moves) / sizeof(moves[0]),
    PARTS = PUTS - 1,
    BYTES = PUTS * ROOM + LONG_BYTES
};

struct rank {
    struct tca *session;
    struct tca_plan *plan, *read;
    uint8_t *source, *target, *expected;
    uint32_t rank, size, seed;
    uint64_t moved_bytes;
    int wrong;
};

static void check(struct rank *rank, int result, const char *what)
{
    if (result >= 0)
        return;
    printf("rank %u: %s: %s: %s\n", rank->rank, what, tca_strerror(result), tca_error_text());
    exit(1);
}

static uint64_t place(const struct side *side, uint64_t position)
{
    return position / side->block * side->stride + position % side->block;
}

static uint64_t size_of(const struct side *side)
{
    return side->count * side->block;
}

/* ---- what the ranks know of one another ---- */

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

/* Eight bytes of the source of a rank in a start. */
static uint64_t word_of(uint32_t rank, uint32_t start, uint64_t word)
{
    return (word + 1) * 0x9e3779b97f4a7c15 + start * 0x0101010101010101 + rank;
}

static uint8_t byte_of(uint32_t rank, uint32_t start, uint64_t at)
{
    return (uint8_t)(word_of(rank, start, at / 8) >> at % 8 * 8);
}

static uint64_t below(uint32_t *state, uint64_t end)
{
    return end == 0 ? 0 : next(state) % end;
}

static void choose(const struct put *put, uint32_t *state, struct tca_part *part)
{
    const uint64_t source = size_of(&put->source), target = size_of(&put->target),
                   most = source < target ? source : target;
    const uint64_t grain = next(state) % 3 == 0 ? 64 : 1; /* as boards like it */
    const bool tied = put->source.count > 1 && put->target.count > 1;
    part->bytes = next(state) % 4 == 0 ? below(state, most < 70 ? most + 1 : 70)
                                       : below(state, most + 1) / grain * grain;
    part->source_at_bytes = below(state, source - part->bytes + 1) / grain * grain;
    part->target_at_bytes =
        tied ? part->source_at_bytes : below(state, target - part->bytes + 1) / grain * grain;
}

/* The parts of a start of a rank; false: it repeats the last ones. */
static bool choose_all(const struct rank *rank, uint32_t of, uint32_t start,
                       struct tca_part parts[PARTS])
{
    uint32_t state = rank->seed + of * 7919 + start * 104729;
    const bool repeats = start > 0 && next(&state) % 5 == 0;
    for (unsigned i = 0, n = 0; i < PUTS && !repeats; i++)
        if (!moves[i].whole)
            choose(&moves[i], &state, &parts[n++]);
    return !repeats;
}

/* ---- plans ---- */

static struct tca_layout *layout(struct rank *rank, const struct side *side)
{
    struct tca_layout *layout;
    check(rank,
          side->count == 1
              ? tca_layout_contiguous(side->block, &layout)
              : tca_layout_strided(side->count, side->block, (int64_t)side->stride, &layout),
          "layout");
    return layout;
}

static void make_plan(struct rank *rank, struct tca_region *source, const struct tca_handle *to)
{
    check(rank, tca_plan_new(rank->session, NULL, &rank->plan), "plan");
    for (unsigned i = 0; i < PUTS; i++) {
        struct tca_layout *from = layout(rank, &moves[i].source),
                          *into = layout(rank, &moves[i].target);
        if (i == PUTS / 2)
            tca_plan_chain(rank->plan);
        check(rank,
              tca_plan_put(rank->plan, &(struct tca_put){.source = source,
                                                         .source_offset_bytes = i * ROOM,
                                                         .source_layout = from,
                                                         .target = *to,
                                                         .target_offset_bytes = i * ROOM,
                                                         .target_layout = into,
                                                         .parts = !moves[i].whole}),
              "put");
        if (i == PUTS / 2 - 1 || i == PUTS - 1)
            check(rank, tca_plan_notify(rank->plan, (rank->rank + 1) % rank->size, DATA), "notify");
        tca_layout_free(from);
        tca_layout_free(into);
    }
    check(rank, tca_plan_commit(rank->plan, TCA_DEFAULT), "commit");
    check(rank, tca_plan_new(rank->session, NULL, &rank->read), "plan");
    check(rank, tca_plan_notify(rank->read, (rank->rank + rank->size - 1) % rank->size, READ),
          "notify");
    check(rank, tca_plan_commit(rank->read, TCA_DEFAULT), "commit");
}

/* ---- starts ---- */

static void expect(struct rank *rank, uint32_t from, uint32_t start,
                   const struct tca_part parts[PARTS])
{
    for (unsigned i = 0, n = 0; i < PUTS; i++) {
        const uint64_t base = i * ROOM;
        const struct tca_part part =
            moves[i].whole ? (struct tca_part){.bytes = size_of(&moves[i].source)} : parts[n++];
        for (uint64_t k = 0; k < part.bytes; k++)
            rank->expected[base + place(&moves[i].target, part.target_at_bytes + k)] =
                byte_of(from, start, base + place(&moves[i].source, part.source_at_bytes + k));
    }
}

static uint64_t bytes_of(const struct tca_part parts[PARTS])
{
    uint64_t bytes = 0;
    for (unsigned i = 0, n = 0; i < PUTS; i++)
        bytes += moves[i].whole ? size_of(&moves[i].source) : parts[n++].bytes;
    return bytes;
}

static void send_start(struct rank *rank, uint32_t start, struct tca_part parts[PARTS])
{
    struct tca_receipt receipt;
    for (uint64_t i = 0; i < BYTES / 8; i++)
        ((uint64_t *)rank->source)[i] = word_of(rank->rank, start, i);
    const bool given = choose_all(rank, rank->rank, start, parts);
    check(rank, given ? tca_start_parts(rank->plan, parts, PARTS) : tca_start(rank->plan), "start");
    check(rank, tca_wait(rank->plan, TCA_DEFAULT), "wait");
    check(rank, tca_plan_receipt(rank->plan, &receipt), "receipt");
    rank->moved_bytes += bytes_of(parts);
    if (receipt.bytes == bytes_of(parts))
        return;
    printf("rank %u, start %u: the receipt says %llu bytes, not %llu\n", rank->rank, start,
           (unsigned long long)receipt.bytes, (unsigned long long)bytes_of(parts));
    rank->wrong = 1;
}

static void compare(struct rank *rank, uint32_t start)
{
    if (memcmp(rank->target, rank->expected, BYTES) == 0)
        return;
    uint64_t at = 0;
    while (rank->target[at] == rank->expected[at])
        at++;
    printf("rank %u, start %u: byte %llu of put %llu is %u, not %u\n", rank->rank, start,
           (unsigned long long)(at % ROOM), (unsigned long long)(at / ROOM), rank->target[at],
           rank->expected[at]);
    rank->wrong = 1;
}

static void run(struct rank *rank, uint32_t starts)
{
    struct tca_part own[PARTS] = {0}, others[PARTS] = {0};
    const uint32_t from = (rank->rank + rank->size - 1) % rank->size;
    for (uint32_t start = 0; start < starts && !rank->wrong; start++) {
        send_start(rank, start, own);
        for (int i = 0; i < 2; i++)
            check(rank, tca_notified_wait(rank->session, from, DATA, TCA_DEFAULT), "data");
        choose_all(rank, from, start, others);
        expect(rank, from, start, others);
        compare(rank, start);
        check(rank, tca_start(rank->read), "read");
        check(rank, tca_wait(rank->read, TCA_DEFAULT), "read");
        check(rank,
              tca_notified_wait(rank->session, (rank->rank + 1) % rank->size, READ, TCA_DEFAULT),
              "read there");
    }
}

static struct tca_region *memory(struct rank *rank, uint8_t **ret_bytes)
{
    struct tca_region *region;
    check(rank, tca_region_alloc(rank->session, BYTES, &region), "memory");
    *ret_bytes = tca_region_address(region);
    return region;
}

static void write_total(struct rank *rank, const char *path)
{
    FILE *file = fopen(path, "a");
    if (!file || fprintf(file, "%llu\n", (unsigned long long)rank->moved_bytes) < 0) {
        printf("rank %u: %s cannot be written\n", rank->rank, path);
        rank->wrong = 1;
    }
    if (file)
        fclose(file);
}

int main(int argc, char **argv)
{
    struct rank rank = {.seed = (uint32_t)strtoul(argv[1], NULL, 10)};
    struct tca_handle own, *all;
    check(&rank, tca_open(NULL, &rank.session), "open");
    rank.rank = tca_rank(rank.session);
    rank.size = tca_size(rank.session);
    all = calloc(rank.size, sizeof(*all));
    rank.expected = calloc(1, BYTES);
    if (argc < 3 || !all || !rank.expected)
        return 1;
    struct tca_region *source = memory(&rank, &rank.source);
    struct tca_region *target = memory(&rank, &rank.target);
    check(&rank, tca_region_handle(target, 0, TCA_ALL, &own), "handle");
    check(&rank, tca_allgather(rank.session, &own, sizeof(own), all, TCA_DEFAULT), "allgather");
    make_plan(&rank, source, &all[(rank.rank + 1) % rank.size]);
    run(&rank, (uint32_t)strtoul(argv[2], NULL, 10));
    if (argc > 3)
        write_total(&rank, argv[3]);
    check(&rank, tca_barrier(rank.session, TCA_DEFAULT), "barrier");
    tca_close(rank.session);
    free(rank.expected);
    free(all);
    return rank.wrong;
}
