/* Deadlines, compared with a plain array; nothing depends on durations. */
#include "daemon/base/deadlines.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "proto/wait.h"

TestSuite(deadlines, .timeout = 60);

enum { COUNT = 3000 };

static struct object {
    struct deadline deadline;
    bool set;
    uint64_t at_ns;
    unsigned expired;
} objects[COUNT];
static struct loop *loop;
static struct deadlines deadlines;
static unsigned left;
static bool keeps_running; /* although nothing is left */
static uint64_t last_ns;

static void expired(void *context)
{
    struct object *object = context;
    cr_assert(object->set, "it was cleared");
    cr_assert_leq(object->at_ns, clock_now_ns(), "not before its time");
    cr_assert_leq(last_ns, object->at_ns, "in order");
    last_ns = object->at_ns;
    object->set = false;
    object->expired++;
    left--;
    if (left == 0 && !keeps_running)
        loop_stop(loop);
}

static void set(struct object *object, uint64_t at_ns)
{
    left += !object->set;
    object->set = true;
    object->at_ns = at_ns;
    deadline_set(&deadlines, &object->deadline, at_ns, expired, object);
}

static void clear(struct object *object)
{
    left -= object->set;
    object->set = false;
    deadline_clear(&deadlines, &object->deadline);
    deadline_clear(&deadlines, &object->deadline); /* of nothing, it stays so */
}

static void set_up(void)
{
    cr_assert_eq(loop_new(&loop), 0);
    cr_assert_eq(deadlines_init(&deadlines, loop), 0);
    srandom(5);
}

static void tear_down(void)
{
    deadlines_deinit(&deadlines);
    loop = loop_free(loop);
}

/* Each many times: some past, some equal, some cleared again. */
Test(deadlines, expire_in_order, .init = set_up, .fini = tear_down)
{
    const uint64_t now_ns = clock_now_ns();
    unsigned expected = 0, seen = 0;
    for (int i = 0; i < 10 * COUNT; i++) {
        struct object *object = &objects[random() % COUNT];
        if (random() % 4 == 0)
            clear(object);
        else
            set(object, now_ns - 1000000 + (uint64_t)(random() % 200) * 1000000);
    }
    expected = left;
    cr_assert_gt(expected, 0);
    cr_assert_eq(loop_run(loop), 0);
    for (int i = 0; i < COUNT; i++) {
        cr_assert_not(objects[i].set);
        cr_assert_leq(objects[i].expired, 1);
        seen += objects[i].expired;
    }
    cr_assert_eq(seen, expected);
    cr_assert_null(deadlines.heap.first);
}

Test(deadlines, advance_but_do_not_put_off, .init = set_up, .fini = tear_down)
{
    struct deadline *deadline = &objects[0].deadline;
    deadline_advance(&deadlines, deadline, 500, expired, &objects[0]);
    deadline_advance(&deadlines, deadline, 700, expired, &objects[0]);
    cr_assert_eq(deadline->node.key, 500);
    deadline_advance(&deadlines, deadline, 300, expired, &objects[0]);
    cr_assert_eq(deadline->node.key, 300);
    deadline_set(&deadlines, deadline, 900, expired, &objects[0]);
    cr_assert_eq(deadline->node.key, 900);
    deadline_set(&deadlines, deadline, UINT64_MAX, expired, &objects[0]);
    cr_assert_null(deadlines.heap.first, "it never expires");
}

/* From within the call: the same one, another one, and one that is cleared just as it would
 * expire. */
static void sets_others(void *context)
{
    struct object *object = context;
    object->set = false;
    if (++object->expired == 3)
        loop_stop(loop);
    else
        deadline_set(&deadlines, &object->deadline, clock_now_ns(), sets_others, object);
    clear(&objects[1]);
}

Test(deadlines, may_be_changed_by_one_that_expires, .init = set_up, .fini = tear_down)
{
    const uint64_t now_ns = clock_now_ns();
    keeps_running = true;
    deadline_set(&deadlines, &objects[0].deadline, now_ns, sets_others, &objects[0]);
    set(&objects[1], now_ns + 1);
    set(&objects[2], 0); /* long ago */
    cr_assert_eq(loop_run(loop), 0);
    cr_assert_eq(objects[2].expired, 1);
    cr_assert_eq(objects[0].expired, 3);
    cr_assert_eq(objects[1].expired, 0);
}
