/* Landings by number, compared with a model: a number identifies one landing during its life. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "drivers/landings.h"

enum { LIVE = 5000, STEPS = 200000 };

struct entry {
    uint32_t index, generation;
    bool live;
};

static struct landings landings;
static struct entry entries[LIVE];

static void check(const struct entry *entry)
{
    const void *found = landings_find(&landings, entry->index, entry->generation);
    cr_assert(found == (entry->live ? entry : NULL));
    cr_assert(landings_find(&landings, entry->index, entry->generation + 1) != entry);
}

Test(landings, are_found_while_they_live)
{
    landings = LANDINGS_INIT;
    srand(7);
    for (unsigned step = 0; step < STEPS; step++) {
        struct entry *entry = &entries[(unsigned)rand() % LIVE];
        if (entry->live)
            landings_remove(&landings, entry->index);
        else
            cr_assert(landings_add(&landings, entry, &entry->index, &entry->generation) == 0);
        entry->live = !entry->live;
        check(entry);
    }
    for (unsigned i = 0; i < LIVE; i++)
        check(&entries[i]);
    cr_assert(!landings_find(&landings, UINT32_MAX, 0));
    cr_assert(!landings_find(&landings, landings.count, 0));
    landings_deinit(&landings);
}

/* A number that a late message may carry is not reused soon. */
Test(landings, come_back_late)
{
    uint32_t index, generation, first;
    int landing;
    landings = LANDINGS_INIT;
    cr_assert(landings_add(&landings, &landing, &first, &generation) == 0);
    landings_remove(&landings, first);
    for (unsigned i = 0; i < 1000; i++) {
        cr_assert(landings_add(&landings, &landing, &index, &generation) == 0);
        cr_assert(index != first);
        landings_remove(&landings, index);
    }
    landings_deinit(&landings);
}

/* Numbered by their owner, with gaps. */
Test(landings, are_placed)
{
    int one, other;
    landings = LANDINGS_INIT;
    cr_assert(landings_place(&landings, &one, 1000, 7) == 0);
    cr_assert(landings_place(&landings, &other, 3, 9) == 0);
    cr_assert(landings_place(&landings, &other, 1000, 10) == -EEXIST);
    cr_assert(landings_place(&landings, &other, 1 << 24, 10) == -ENOSPC);
    cr_assert(landings_find(&landings, 1000, 7) == &one);
    cr_assert(landings_find(&landings, 3, 9) == &other);
    cr_assert(!landings_find(&landings, 3, 7) && !landings_find(&landings, 4, 0));
    cr_assert(landings_await(&landings, 10) && !landings_await(&landings, 9));
    cr_assert(landings_await(&landings, 9 + (1u << 30)));
    landings_remove(&landings, 1000);
    cr_assert(!landings_find(&landings, 1000, 7));
    cr_assert(landings_place(&landings, &other, 1000, 10) == 0);
    cr_assert(landings_find(&landings, 1000, 10) == &other && !landings_find(&landings, 1000, 7));
    landings_deinit(&landings);
}
