/* Tables and uses: compared with plain lists, through growth, collisions and removal. */
#include "daemon/base/table.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(table, .timeout = 60);

enum { THINGS = 5000, IDS = 700 };

struct thing {
    struct table_entry entry;
    bool in;
    uint64_t id;
};

static struct thing things[THINGS];

static size_t count_of(uint64_t id)
{
    size_t count = 0;
    for (int i = 0; i < THINGS; i++)
        count += things[i].in && things[i].id == id;
    return count;
}

static void check(const struct table *table, uint64_t id)
{
    size_t found = 0;
    for (const struct table_entry *entry = table_first(table, id); entry;
         entry = table_again(entry)) {
        const struct thing *thing = entry->owner;
        cr_assert(thing->in && thing->id == id);
        found++;
    }
    cr_assert_eq(found, count_of(id));
    cr_assert_eq(table_find(table, id) != NULL, found > 0);
}

static void count_each(void *context, void *owner)
{
    cr_assert(((struct thing *)owner)->in);
    ++*(size_t *)context;
}

static void take_out(void *context, void *owner)
{
    struct thing *thing = owner;
    table_remove(context, &thing->entry);
    thing->in = false;
}

Test(table, is_what_a_list_is)
{
    struct table table = {0};
    size_t in = 0;
    srandom(7);
    for (int round = 0; round < 40000; round++) {
        struct thing *thing = &things[random() % THINGS];
        if (thing->in) {
            table_remove(&table, &thing->entry);
            in--;
        } else {
            thing->id = (uint64_t)(random() % IDS); /* several of one id */
            table_add(&table, &thing->entry, thing->id, thing);
            in++;
        }
        thing->in = !thing->in;
        cr_assert_eq(table.count, in);
        if (round % 100 == 0)
            check(&table, (uint64_t)(random() % IDS));
    }
    size_t counted = 0;
    table_each(&table, count_each, &counted);
    cr_assert_eq(counted, in);
    table_each(&table, take_out, &table); /* each may remove the entry that it gets */
    cr_assert_eq(table.count, 0);
    for (uint64_t id = 0; id < IDS; id++)
        cr_assert_null(table_find(&table, id));
    table_deinit(&table);
}

Test(table, of_nothing)
{
    struct table table = {0};
    size_t counted = 0;
    cr_assert_null(table_find(&table, 0));
    cr_assert_null(table_first(&table, 1));
    table_each(&table, count_each, &counted);
    cr_assert_eq(counted, 0);
    table_deinit(&table);
}

/* Consecutive numbers, or numbers that differ in their upper bits only, are spread over many
 * buckets. */
Test(table, spreads)
{
    for (unsigned shift = 0; shift <= 48; shift += 16) {
        struct table table = {0};
        size_t longest = 0;
        for (int i = 0; i < THINGS; i++)
            table_add(&table, &things[i].entry, (uint64_t)i << shift, &things[i]);
        for (size_t bucket = 0; bucket < (size_t)1 << table.bits; bucket++) {
            size_t length = 0;
            for (const struct table_entry *at = table.buckets[bucket]; at; at = at->next)
                length++;
            longest = length > longest ? length : longest;
        }
        cr_assert_leq(longest, 16, "%zu of %d in one bucket", longest, THINGS);
        table_deinit(&table);
    }
}

Test(table, texts_have_numbers_of_their_own)
{
    char name[32];
    static uint64_t numbers[THINGS];
    for (int i = 0; i < THINGS; i++) {
        snprintf(name, sizeof(name), "name-%d", i);
        numbers[i] = table_text(name);
        cr_assert_eq(numbers[i], table_text(strdupa(name)));
        for (int j = i < 300 ? 0 : i; j < i; j++)
            cr_assert_neq(numbers[i], numbers[j]);
    }
}
