/* tca(7)'s writer and reader: a stream of items into one target, each checked twice. */
#include "tests/integration/snippets/checked.h"

enum { ITEMS = 1000, WORDS = 4000 };

static struct tca *session;
static struct tca_plan *data, *back;
static double *source, *target;
static int consumed;

static double value(int item, int at)
{
    return item * 1e4 + at;
}

static void produce(double *memory, int item)
{
    for (int i = 0; i < WORDS; i++)
        memory[i] = value(item, i);
    pause_sometimes();
}

static void check_item(const double *memory, int item)
{
    for (int i = 0; i < WORDS; i++)
        check_value(memory[i], value(item, i), "place", item, i);
}

static void consume(const double *memory, int item)
{
    check_item(memory, item);
    pause_sometimes();
    check_item(memory, item);
    consumed++;
}

static void write_stream(void)
{
#include "tca-1.inc"
}

static void read_stream(void)
{
#include "tca-2.inc"
}

int main(void)
{
    struct tca_region *region;
    struct tca_handle own, all[2];

    tca_open(NULL, &session);
    tca_region_alloc(session, WORDS * sizeof(double), &region);
    source = target = tca_region_address(region);
    tca_region_handle(region, 0, TCA_ALL, &own);
    tca_allgather(session, &own, sizeof(own), all, TCA_DEFAULT);
    tca_plan_new(session, NULL, &data);
    tca_plan_put(data, &(struct tca_put){.source = region, .target = all[1], .bytes = WORDS * 8});
    tca_plan_notify(data, 1, 0);
    tca_plan_new(session, NULL, &back);
    tca_plan_notify(back, 0, 1);
    tca_plan_commit(this_rank == 0 ? data : back, TCA_DEFAULT);
    if (this_rank == 0)
        write_stream();
    else
        read_stream();
    tca_close(session);
    return verdict(consumed, this_rank == 0 ? 0 : ITEMS);
}
