#include "tests/bench/commitbench/blocks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/tca-bench/work.h"

static void *items(uint64_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);

    if (!memory) {
        fprintf(stderr, "commit: no memory for %" PRIu64 " items\n", count);
        exit(1);
    }
    return memory;
}

/* A xorshift generator: the same places in every program. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

void blocks_init(struct blocks *blocks, uint64_t count, int number)
{
    uint64_t state = 88172645463325252u;
    uint64_t at = 0;

    *blocks = (struct blocks){.count = count,
                              .lengths = items(count, sizeof(*blocks->lengths)),
                              .offsets = items(count, sizeof(*blocks->offsets))};
    for (uint64_t i = 0; i < count; i++) {
        uint64_t random = next_random(&state) >> 32;
        uint64_t gap = random / BLOCK_DOUBLES_MAX >> number;

        blocks->lengths[i] = 1 + random % BLOCK_DOUBLES_MAX;
        blocks->offsets[i] = (int64_t)(at * sizeof(double));
        blocks->doubles += blocks->lengths[i];
        at += blocks->lengths[i] + 1 + gap % BLOCK_GAP_MAX;
    }
}

void blocks_deinit(struct blocks *blocks)
{
    free(blocks->lengths);
    free(blocks->offsets);
}

uint64_t blocks_span_bytes(uint64_t count)
{
    return count * (BLOCK_DOUBLES_MAX + BLOCK_GAP_MAX) * sizeof(double);
}

void report_init(struct report *report, uint64_t room)
{
    *report = (struct report){.room = room};
    for (int phase = 0; phase < PHASES; phase++)
        report->samples[phase] = items(room, sizeof(uint64_t));
}

void report_deinit(struct report *report)
{
    for (int phase = 0; phase < PHASES; phase++)
        free(report->samples[phase]);
}

void report_add(struct report *report, const uint64_t phases_ns[PHASES])
{
    if (report->count == report->room)
        return;
    for (int phase = 0; phase < PHASES; phase++)
        report->samples[phase][report->count] = phases_ns[phase];
    report->count++;
}

void report_say(struct report *report, uint64_t blocks, enum sides sides)
{
    static const char *const names[PHASES] = {"layout_us", "plan_us", "first_us", "later_us"};

    static const char *const texts[] = {"one", "both", "same"};

    printf("{\"blocks\":%" PRIu64 ",\"sides\":\"%s\"", blocks, texts[sides]);
    for (int phase = 0; phase < PHASES; phase++)
        printf(",\"%s\":%.3f", names[phase],
               (double)median_of(report->samples[phase], report->count) / 1e3);
    printf("}\n");
    fflush(stdout);
}

int counts_parse(const char *text, uint64_t ret_counts[COUNTS_MAX + 1])
{
    int count = 0;

    do {
        char *end;

        if (count == COUNTS_MAX)
            return -1;
        ret_counts[count] = strtoull(text, &end, 10);
        if (ret_counts[count++] == 0 || (*end != ',' && *end != '\0'))
            return -1;
        text = *end ? end + 1 : end;
    } while (*text);
    ret_counts[count] = 0;
    return 0;
}
