/* Queues of flushes: completed in order, by count, also when done() frees its flush or adds one. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "drivers/flushes.h"

enum { FLUSHES = 10 };

struct flush {
    struct driver_op op;
    unsigned number;
};

static struct flushes queue;
static unsigned ended[2 * FLUSHES], ended_count;
static int last_status;
static bool again; /* done() adds a flush */

static void push(unsigned number, uint64_t count);

/* The driver may not read the operation after this. */
static void done(struct driver_op *op, int status)
{
    struct flush *flush = (struct flush *)op;
    const unsigned number = flush->number;
    ended[ended_count++] = number;
    last_status = status;
    free(flush);
    if (again && number < FLUSHES)
        push(number + FLUSHES, number);
}

static void push(unsigned number, uint64_t count)
{
    struct flush *flush = calloc(1, sizeof(*flush));
    *flush = (struct flush){.op.done = done, .number = number};
    flushes_push(&queue, &flush->op, count);
}

Test(flushes, end_in_order)
{
    for (unsigned i = 0; i < FLUSHES; i++)
        push(i, i / 2); /* two for each count */
    flushes_complete(&queue, 1);
    cr_assert(ended_count == 4 && last_status == 0);
    flushes_complete(&queue, 1);
    cr_assert(ended_count == 4);
    push(FLUSHES, 7);
    flushes_fail(&queue, -EHOSTDOWN);
    cr_assert(ended_count == FLUSHES + 1 && last_status == -EHOSTDOWN && !queue.first);
    for (unsigned i = 0; i <= FLUSHES; i++)
        cr_assert(ended[i] == i);
    push(0, 0); /* the queue can be used again */
    flushes_complete(&queue, 0);
    cr_assert(ended_count == FLUSHES + 2 && last_status == 0);
}

/* Flushes that are added meanwhile wait for the next count. */
Test(flushes, may_be_added_by_done)
{
    for (unsigned i = 0; i < FLUSHES; i++)
        push(i, i);
    again = true;
    flushes_complete(&queue, FLUSHES);
    cr_assert(ended_count == FLUSHES);
    flushes_complete(&queue, FLUSHES);
    cr_assert(ended_count == 2 * FLUSHES && !queue.first);
}
