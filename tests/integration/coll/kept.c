/*
 * coll-kept SEED ROUNDS [die]: operations of a few shapes are made, started and freed in random
 * order, each time with other memory; of all ranks, of some, and of some of these. At times a rank
 * makes one with other arguments of its own, with nothing to write to, or one of another length:
 * then all ranks get the same error, and go on. Every byte is checked after every start. At last,
 * the same one is made again and again; with "die", the last rank kills itself meanwhile, and the
 * others hear of it. Ends with 0, or prints what was wrong.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>

#include "client/include/tca-coll.h"
#include "client/include/tca-group.h"
#include "tests/integration/expect.h"
#include "tests/unit/proto/random.h"

enum { RANKS_MAX = 32, LIVE = 5, GROUPS = 3, LONGEST = 3000, AGAIN = 12 };

enum kind { BARRIER, BROADCAST, ALLGATHER, REDUCE, ALLREDUCE, REDUCE_SCATTER, ALLTOALL, KINDS };

/* By blocks of so many elements, or of so many elements. */
struct shape {
    enum kind kind;
    uint64_t count;
    bool any_memory, by_function;
};

static const struct shape shapes[] = {
    {BARRIER, 0, false, false},        {BROADCAST, 1, false, false},
    {BROADCAST, 512, false, false},    {ALLGATHER, 2, false, false},
    {REDUCE, 1, false, false},         {REDUCE, 40, false, true},
    {ALLREDUCE, 1, false, false},      {ALLREDUCE, 500, false, true},
    {ALLREDUCE, 2900, true, false},    {ALLREDUCE, 2900, false, false},
    {REDUCE_SCATTER, 3, false, false}, {ALLTOALL, 2, false, false},
    {ALLTOALL, 70, true, false},       {BROADCAST, 2500, true, false},
};

struct live {
    struct shape shape;
    uint32_t group, size, rank, root;
    struct tca_coll *coll;
    bool wanted; /* by all ranks: `coll` is NULL if the ranks of a part have failed */
    bool in_place;
    uint64_t *in, *out;           /* current memory */
    uint64_t *heap;               /* of malloc(); NULL: */
    void *in_region, *out_region; /* of tca_alloc() */
};

static struct tca *session;
static uint32_t size;
static struct random common, own;
static struct tca_group *groups[GROUPS]; /* all ranks; half of them; half of these */
static struct live lives[LIVE];

static uint64_t value(uint32_t group, uint32_t of, uint64_t start, uint64_t i)
{
    return (group + 1) * 1000003 + of * 7919 + start * 104729 + i * 31;
}

static void add(const void *left, const void *right, void *result, uint64_t count, void *context)
{
    (void)context;
    for (uint64_t i = 0; i < count; i++)
        ((uint64_t *)result)[i] = ((const uint64_t *)left)[i] + ((const uint64_t *)right)[i];
}

/* ---- memory */

static bool may_move(const struct live *live)
{
    const bool blocks = live->shape.kind >= REDUCE_SCATTER || live->shape.kind == ALLGATHER;

    return live->shape.any_memory || live->shape.count * (blocks ? live->size : 1) <= 512;
}

static uint64_t room(const struct live *live)
{
    return live->shape.count * live->size + 1;
}

static void free_memory(struct live *live)
{
    free(live->heap);
    check(tca_free(session, live->in_region), "freeing memory");
    check(tca_free(session, live->out_region), "freeing memory");
    live->heap = NULL;
    live->in_region = live->out_region = NULL;
}

static void take_memory(struct live *live)
{
    const uint64_t bytes = room(live) * sizeof(uint64_t);

    if (may_move(live) && random_below(&own, 2)) {
        live->heap = malloc(2 * bytes);
        live->in = live->heap;
        live->out = live->heap + room(live);
    } else {
        check(tca_alloc(session, bytes, &live->in_region), "memory");
        check(tca_alloc(session, bytes, &live->out_region), "memory");
        live->in = live->in_region;
        live->out = live->out_region;
    }
    const enum kind kind = live->shape.kind;
    live->in_place =
        (kind == ALLGATHER || kind == ALLREDUCE || (kind == REDUCE && live->rank == live->root)) &&
        random_below(&own, 2);
}

/* ---- making */

enum wrong_with { NOTHING, ITS_NAME, NO_OUT, ITS_LENGTH, WRONGS };

static int make(struct live *live, enum wrong_with wrong_here)
{
    const struct shape *shape = &live->shape;
    const struct tca_coll_operator sum =
        shape->by_function
            ? (struct tca_coll_operator){.function = add, .element_bytes = 8}
            : (struct tca_coll_operator){.combine = TCA_COMBINE_SUM, .type = TCA_TYPE_UINT64};
    const struct tca_coll_args args = {
        .any_memory = shape->any_memory,
        .plan = {.name = wrong_here == ITS_NAME ? "own" : NULL, .group = groups[live->group]}};
    const uint64_t other = shape->count > 1 ? shape->count - 1 : shape->count + 1;
    const uint64_t count = wrong_here == ITS_LENGTH ? other : shape->count;
    const void *in = live->in_place ? NULL : live->in;
    void *out = wrong_here == NO_OUT ? NULL : live->out;
    uint64_t counts[RANKS_MAX];

    for (uint32_t r = 0; r < live->size; r++)
        counts[r] = count;
    switch (shape->kind) {
    case BARRIER:
        return tca_coll_barrier(session, &args, &live->coll);
    case BROADCAST:
        return tca_coll_broadcast(session, out, 8 * count, live->root, &args, &live->coll);
    case ALLGATHER:
        return tca_coll_allgather(session, in, out, 8 * count, &args, &live->coll);
    case REDUCE:
        return tca_coll_reduce(session, in, out, count, &sum, live->root, &args, &live->coll);
    case ALLREDUCE:
        return tca_coll_allreduce(session, in, out, count, &sum, &args, &live->coll);
    case REDUCE_SCATTER:
        return tca_coll_reduce_scatter(session, in, out, counts, &sum, &args, &live->coll);
    default:
        return tca_coll_alltoall(session, in, out, 8 * count, &args, &live->coll);
    }
}

static void make_one(struct live *live)
{
    enum wrong_with what =
        random_below(&common, 4) == 0 ? (enum wrong_with)random_below(&common, WRONGS) : NOTHING;
    const uint64_t who = random_below(&common, 1024);

    memset(live, 0, sizeof(*live));
    live->wanted = true;
    live->shape = shapes[random_below(&common, sizeof(shapes) / sizeof(shapes[0]))];
    live->group = (uint32_t)random_below(&common, GROUPS);
    const uint64_t root = random_below(&common, 2);
    struct tca_group *group = groups[live->group];
    live->size = group ? tca_group_size(group) : size;
    live->rank = group ? tca_group_rank(group) : rank;
    live->root = (uint32_t)root % live->size;
    take_memory(live);
    const bool here = live->rank == who % live->size;
    const bool reduces = live->shape.kind == REDUCE && who % live->size != live->root;
    if (live->shape.kind == BARRIER && what >= NO_OUT)
        what = NOTHING;
    if (what == NO_OUT && reduces)
        what = NOTHING;
    if (what == ITS_LENGTH && live->size == 1)
        what = NOTHING;
    int r = make(live, here ? what : NOTHING);
    expect(r, what == NO_OUT ? -EINVAL : what == ITS_LENGTH ? -EPROTO : 0, NULL, "making it");
    if (wrong)
        exit(1);
    if (r < 0) {
        free_memory(live);
        live->coll = NULL;
        return;
    }
}

/* ---- a start */

static void fill(struct live *live, uint64_t start)
{
    const struct shape *shape = &live->shape;
    const bool each = shape->kind == REDUCE_SCATTER || shape->kind == ALLTOALL;
    const uint64_t given = shape->count * (each ? live->size : 1);

    for (uint64_t i = 0; i < room(live); i++)
        live->in[i] = live->out[i] = 0xa5a5;
    uint64_t *to = live->in;
    if (shape->kind == BROADCAST)
        to = live->out;
    else if (live->in_place)
        to = live->out + (shape->kind == ALLGATHER ? live->rank * shape->count : 0);
    for (uint64_t i = 0; i < given; i++)
        if (shape->kind != BROADCAST || live->rank == live->root)
            to[i] = value(live->group, live->rank, start, i);
}

static uint64_t sum_of(const struct live *live, uint64_t start, uint64_t i)
{
    uint64_t total = 0;

    for (uint32_t r = 0; r < live->size; r++)
        total += value(live->group, r, start, i);
    return total;
}

/* What out[i] must be; false: anything. */
static bool expected(const struct live *live, uint64_t start, uint64_t i, uint64_t *ret_value)
{
    const struct shape *shape = &live->shape;
    const uint32_t block = shape->count ? (uint32_t)(i / shape->count) : 0;

    switch (shape->kind) {
    case BROADCAST:
        *ret_value = value(live->group, live->root, start, i);
        return i < shape->count;
    case ALLGATHER:
        *ret_value = value(live->group, block, start, i % shape->count);
        return block < live->size;
    case REDUCE:
    case ALLREDUCE:
        *ret_value = sum_of(live, start, i);
        return i < shape->count && (shape->kind == ALLREDUCE || live->rank == live->root);
    case REDUCE_SCATTER:
        *ret_value = sum_of(live, start, live->rank * shape->count + i);
        return i < shape->count;
    case ALLTOALL:
        *ret_value = value(live->group, block, start, live->rank * shape->count + i % shape->count);
        return block < live->size;
    default:
        return false;
    }
}

static void finish(struct live *live, uint64_t start)
{
    check(tca_coll_wait(live->coll, TCA_DEFAULT), "wait");
    for (uint64_t i = 0; i < room(live); i++) {
        uint64_t right;
        const bool known = expected(live, start, i, &right);
        if (!known && i >= live->shape.count * live->size)
            right = 0xa5a5; /* beyond the end */
        else if (!known)
            continue;
        if (live->out[i] == right)
            continue;
        printf("rank %u: kind %d of %lu, %u ranks, group %u, start %lu: element %lu is %lx, not "
               "%lx\n",
               rank, live->shape.kind, live->shape.count, live->size, live->group, start, i,
               live->out[i], right);
        exit(1);
    }
}

/* Starts all that there are, in an order of this rank's own. */
static void start_all(uint64_t start)
{
    uint64_t first = random_below(&own, LIVE);

    for (uint64_t i = 0; i < LIVE; i++) {
        struct live *live = &lives[(first + i) % LIVE];
        if (!live->coll)
            continue;
        if (may_move(live) && random_below(&own, 2)) {
            free_memory(live);
            take_memory(live);
            check(tca_coll_rebind(live->coll, live->in_place ? NULL : live->in, live->out),
                  "other memory");
        }
        fill(live, start);
        check(tca_coll_start(live->coll), "start");
    }
    first = random_below(&own, LIVE);
    for (uint64_t i = 0; i < LIVE; i++)
        if (lives[(first + i) % LIVE].coll)
            finish(&lives[(first + i) % LIVE], start);
}

/* ---- groups */

static void split(void)
{
    const uint32_t colour = (uint32_t)random_below(&common, 2) ? rank % 2 : rank < size / 2;

    for (uint32_t g = 1; g < GROUPS; g++)
        tca_group_free(groups[g]);
    check(tca_group_split(session, NULL, colour, 0, TCA_DEFAULT, &groups[1]), "splitting");
    check(tca_group_split(session, groups[1], tca_group_rank(groups[1]) % 2, 0, TCA_DEFAULT,
                          &groups[2]),
          "splitting it again");
}

/* The same again and again: but for the first ones, each is one that was made before. */
static void again(bool dies)
{
    uint64_t *memory = calloc(2 * AGAIN, sizeof(*memory));
    const struct tca_coll_operator sum = {.combine = TCA_COMBINE_SUM, .type = TCA_TYPE_UINT64};
    uint64_t before = 0;
    char text[4096];

    for (int i = 0; i < AGAIN; i++) {
        struct tca_coll *coll;
        if (dies && i == AGAIN / 2 && rank == size - 1)
            raise(SIGKILL);
        int r =
            tca_coll_allreduce(session, &memory[2 * i], &memory[2 * i + 1], 1, &sum, NULL, &coll);
        if (dies && i >= AGAIN / 2) {
            if (r >= 0) {
                r = tca_coll_start(coll);
                r = r < 0 ? r : tca_coll_wait(coll, TCA_FOREVER);
                tca_coll_free(coll);
            }
            expect(r, -EOWNERDEAD, NULL, "one like the last, without a rank");
            free(memory);
            return;
        }
        check(r, "one like the last");
        tca_coll_explain(coll, text, sizeof(text));
        before += strstr(text, "used again") != NULL;
        memory[2 * i] = rank + i;
        check(tca_coll_start(coll), "start");
        check(tca_coll_wait(coll, TCA_DEFAULT), "wait");
        expect((int)memory[2 * i + 1], (int)(size * (size - 1) / 2 + size * i), NULL, "the sum");
        tca_coll_free(coll);
    }
    if (size > 1)
        expect(before >= AGAIN - 2, 1, NULL, "that they are used again");
    free(memory);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    check(tca_open(NULL, &session), "opening");
    rank = tca_rank(session);
    size = tca_size(session);
    if (size > RANKS_MAX)
        return 2;
    common.state = strtoul(argv[1], NULL, 10);
    own.state = common.state * 64 + rank;
    split();
    for (uint64_t round = 0; round < strtoul(argv[2], NULL, 10); round++) {
        struct live *live = &lives[random_below(&common, LIVE)];
        if (random_below(&common, 12) == 0)
            split(); /* operations keep the groups that they had */
        if (!live->wanted) {
            make_one(live);
        } else if (random_below(&common, 3) > 0) {
            live->wanted = false;
            live->coll = tca_coll_free(live->coll);
            free_memory(live);
        }
        start_all(round);
    }
    for (int i = 0; i < LIVE; i++) {
        tca_coll_free(lives[i].coll);
        free_memory(&lives[i]);
    }
    again(argc > 3);
    if (random_below(&own, 2)) /* or tca_close() does it */
        for (uint32_t g = 1; g < GROUPS; g++)
            tca_group_free(groups[g]);
    tca_close(session);
    return wrong;
}
