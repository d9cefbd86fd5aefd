/* The regions that a session knows are found by id, however many there are. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "client/core/session.h"
#include "client/memory/mapping.h"

enum { REGIONS = 4096, BITS = 12 };

static struct tca session;
static struct mapped_region *regions;

static unsigned depth_of(const struct mapped_region *region)
{
    const unsigned left = region ? depth_of(region->child[0]) : 0,
                   right = region ? depth_of(region->child[1]) : 0;
    return region ? 1 + (left > right ? left : right) : 0;
}

static void add(unsigned i, uint64_t id)
{
    regions[i] = (struct mapped_region){.id = id, .own = i % 2, .fd = -1};
    mapping_insert(&session, &regions[i]);
}

/* Own ones, as only these can be asked for from outside. */
static void expect(unsigned i, bool there)
{
    cr_assert_eq(mapping_own(&session, regions[i].id), there && i % 2 ? &regions[i] : NULL, "%u",
                 i);
}

static void set_up(void)
{
    session = (struct tca){0};
    regions = calloc(REGIONS, sizeof(regions[0]));
}

static void tear_down(void)
{
    free(regions);
}

TestSuite(mapping, .init = set_up, .fini = tear_down);

Test(mapping, consecutive_ids_are_not_deep)
{
    for (unsigned i = 0; i < REGIONS; i++)
        add(i, i + 1);
    cr_assert_leq(depth_of(session.regions_by_id), BITS + 1);
    for (unsigned i = 0; i < REGIONS; i++)
        expect(i, true);
}

Test(mapping, any_ids_come_and_go)
{
    bool there[REGIONS] = {0};
    unsigned count = 0;
    srand(1);
    for (unsigned turn = 0; turn < 20 * REGIONS; turn++) {
        const unsigned i = (unsigned)rand() % REGIONS;
        if (there[i])
            mapping_remove(&session, &regions[i]);
        else
            add(i, i % 2 ? (i + 1) * UINT64_C(0x9e3779b97f4a7c15) : (i + UINT64_C(1)) << 40);
        there[i] = !there[i];
        if (turn % REGIONS == 0)
            for (unsigned j = 0; j < REGIONS; j++)
                expect(j, there[j]);
    }
    for (unsigned i = 0; i < REGIONS; i++)
        count += there[i];
    for (const struct mapped_region *region = session.mapped_regions; region; region = region->next)
        count--;
    cr_assert_eq(count, 0);
    cr_assert_leq(depth_of(session.regions_by_id), 64);
}

/* Of a daemon that lies. */
Test(mapping, equal_ids_do_no_harm)
{
    for (unsigned i = 0; i < 5; i++)
        add(i, 7);
    for (unsigned i = 0; i < 5; i++)
        mapping_remove(&session, &regions[(i * 3 + 1) % 5]);
    cr_assert_null(session.regions_by_id);
    cr_assert_null(session.mapped_regions);
}
