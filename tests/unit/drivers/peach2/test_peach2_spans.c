/* The allocator of bus addresses, against a map of its bytes. */
#include <criterion/criterion.h>
#include <errno.h>

#include "drivers/peach2/spans.h"
#include "tests/unit/drivers/kit.h"

enum { FIRST = 1000, SIZE = 512, HELD = 64, ROUNDS = 200000 };

static struct spans spans;
static enum span_state map[SIZE];

static void setup(void)
{
    cr_assert(spans_init(&spans, FIRST, FIRST + SIZE) == 0);
}

static void teardown(void)
{
    spans_deinit(&spans);
}

TestSuite(spans, .init = setup, .fini = teardown);

static void paint(const struct span *span, enum span_state from, enum span_state to)
{
    for (uint64_t at = span->first - FIRST; at < span->end - FIRST; at++) {
        cr_assert(map[at] == from);
        map[at] = to;
    }
}

/* The list covers all addresses in order, in the states of the map, without equal neighbours that
 * could be merged. */
static void check(void)
{
    uint64_t at = FIRST, left = 0;
    for (const struct span *span = spans.first; span; at = span->end, span = span->next) {
        cr_assert(span->first == at && span->first < span->end);
        cr_assert(!span->next || span->next->previous == span);
        paint(span, span->state, span->state);
        left +=
            span->state == SPAN_LEFT || span->state == SPAN_RECALLED ? span->end - span->first : 0;
        if (span->next && (span->state == SPAN_FREE || span->state == SPAN_LEFT))
            cr_assert(span->next->state != span->state);
    }
    cr_assert(at == FIRST + SIZE && spans.left_bytes == left);
}

Test(spans, random_use)
{
    struct span *held[HELD] = {0}, *recalled = NULL;
    uint32_t seed = 1;
    unsigned taken = 0, refused = 0, reused = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct span **one = &held[next_random(&seed) % HELD];
        const unsigned what = next_random(&seed) % 4;
        if (!*one) {
            int r = spans_take(&spans, 1 + next_random(&seed) % 40, one);
            cr_assert(r == 0 || r == -EADDRNOTAVAIL);
            taken += r == 0;
            refused += r < 0;
            if (r == 0)
                paint(*one, SPAN_FREE, SPAN_TAKEN);
        } else if (what == 0) {
            paint(*one, SPAN_TAKEN, SPAN_FREE);
            spans_give(&spans, *one);
            *one = NULL;
        } else {
            paint(*one, SPAN_TAKEN, SPAN_LEFT);
            spans_leave(&spans, *one, 1u << what);
            *one = NULL;
        }
        if (recalled && next_random(&seed) % 4 == 0) {
            paint(recalled, SPAN_RECALLED, SPAN_FREE);
            spans_give(&spans, recalled);
            recalled = NULL;
            reused++;
        } else if (!recalled && (recalled = spans_recall(&spans))) {
            cr_assert(recalled->nodes != 0);
            paint(recalled, SPAN_LEFT, SPAN_RECALLED);
        }
        check();
    }
    cr_assert(taken > ROUNDS / 10 && refused > 0 && reused > 0, "%u taken, %u refused, %u reused",
              taken, refused, reused);
}

/* Each search continues behind the last range that was taken. */
Test(spans, late_reuse)
{
    struct span *span, *guard;
    for (unsigned i = 0; i < SIZE; i += 2) {
        cr_assert(spans_take(&spans, 1, &span) == 0 && spans_take(&spans, 1, &guard) == 0);
        cr_assert(span->first == FIRST + i);
        spans_give(&spans, span);
    }
    cr_assert(spans_take(&spans, 1, &span) == 0);
    cr_assert(span->first == FIRST);
}

Test(spans, sizes_that_do_not_fit)
{
    struct span *span;
    cr_assert(spans_take(&spans, 0, &span) == -EADDRNOTAVAIL);
    cr_assert(spans_take(&spans, SIZE + 1, &span) == -EADDRNOTAVAIL);
    cr_assert(spans_take(&spans, UINT64_MAX, &span) == -EADDRNOTAVAIL);
    cr_assert(spans_take(&spans, SIZE, &span) == 0);
    spans_leave(&spans, span, 1);
    cr_assert(spans_take(&spans, 1, &span) == -EADDRNOTAVAIL);
    cr_assert(spans_recall(&spans) == spans.first && !spans_recall(&spans));
    cr_assert(spans_take(&spans, 1, &span) == -EADDRNOTAVAIL);
    spans_give(&spans, spans.first);
    cr_assert(spans_take(&spans, SIZE, &span) == 0);
}
