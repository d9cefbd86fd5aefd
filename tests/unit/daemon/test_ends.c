/* Ends of ranks along the tree of a group, on a simulated network: nodes are lost at any time, with
 * what they have sent and what is on its way to them. Who sends to one, and who has a connection to
 * it, learns that some time later. Events happen in any order, or in virtual time. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/groups/ends.h"
#include "daemon/groups/tree.h"

struct letter {
    struct letter *next;
    uint32_t from, to;
    size_t n_ended, n_down;
    uint32_t runs[]; /* down, ended */
};

struct node {
    struct ends ends;
    uint32_t position;
    bool lost, wants; /* wants: a turn, to flush */
    unsigned told;    /* ranks that it was told of, */
    unsigned reports; /* so many times */
    uint64_t due_ns;  /* of its next flush */
};

enum { LETTER_NS = 20000 }; /* that one is on its way */

/* What happens next is picked from here: letters, notices that a node is lost, flushes, ends of
 * ranks. */
struct event {
    enum { LETTER, NOTICE, FLUSH, END } kind;
    uint32_t at, about;
    struct letter *letter;
    uint64_t at_ns;
};

static struct world {
    struct roster roster;
    struct node *nodes;
    struct event *events;
    size_t count, room;
    uint64_t seed, sent;
    bool *ended; /* by rank */
    /* Nodes that are to flush, if they all do that in turns: when nothing else is left. */
    bool turns;
    uint32_t *flushes, flush_count;
    /* Virtual time; `events` is a heap then, the earliest first. */
    bool timed;
    uint64_t now_ns;
} world;

static uint32_t pick(uint32_t below)
{
    world.seed = world.seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(world.seed >> 33) % below;
}

static void add_event(struct event event)
{
    if (world.count == world.room) {
        world.room = world.room * 2 + 64;
        world.events = realloc(world.events, world.room * sizeof(*world.events));
    }
    world.events[world.count++] = event;
    for (size_t i = world.count - 1; world.timed && i > 0; i = (i - 1) / 2) {
        struct event *above = &world.events[(i - 1) / 2], *below = &world.events[i], moved;
        if (above->at_ns <= below->at_ns)
            break;
        moved = *above;
        *above = *below;
        *below = moved;
    }
}

/* In virtual time. */
static struct event take_earliest(void)
{
    struct event first = world.events[0], last = world.events[--world.count];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < world.count; i = k) {
        if (k + 1 < world.count && world.events[k + 1].at_ns < world.events[k].at_ns)
            k++;
        if (last.at_ns <= world.events[k].at_ns)
            break;
        world.events[i] = world.events[k];
    }
    world.events[i] = last;
    return first;
}

static void send(void *context, uint32_t position, const struct ends_news *news)
{
    const struct node *node = context;
    const size_t count = news->n_down + news->n_ended;
    struct letter *letter = malloc(sizeof(*letter) + count * sizeof(uint32_t));

    *letter = (struct letter){NULL, node->position, position, news->n_ended, news->n_down};
    memcpy(letter->runs, news->down, news->n_down * sizeof(uint32_t));
    memcpy(letter->runs + news->n_down, news->ended, news->n_ended * sizeof(uint32_t));
    add_event((struct event){LETTER, position, node->position, letter, world.now_ns + LETTER_NS});
    world.sent++;
}

static void ended(void *context, const uint32_t *ranks, size_t count, bool node_down)
{
    struct node *node = context;
    for (size_t i = 0; i < count; i++)
        cr_assert(world.ended[ranks[i]], "rank %u lives", ranks[i]);
    node->told += (unsigned)count;
    node->reports++;
}

static void later(void *context)
{
    struct node *node = context;
    cr_assert_not(node->wants);
    node->wants = true;
    node->due_ns = ends_due(&node->ends, world.now_ns, false);
    if (world.turns)
        world.flushes[world.flush_count++] = node->position;
    else
        add_event((struct event){FLUSH, node->position, 0, NULL, node->due_ns});
}

static const struct ends_ops ops = {send, ended, later};

static void make_world(uint32_t nodes, uint32_t ranks, uint64_t seed)
{
    uint32_t *node_of = calloc(ranks, sizeof(*node_of));

    world = (struct world){.seed = seed};
    for (uint32_t rank = 0; rank < ranks; rank++)
        node_of[rank] = 7 + (rank < nodes ? rank : pick(nodes));
    cr_assert_eq(roster_init(&world.roster, ranks, node_of), 0);
    free(node_of);
    world.nodes = calloc(nodes, sizeof(*world.nodes));
    world.ended = calloc(ranks, sizeof(*world.ended));
    world.flushes = calloc(nodes, sizeof(*world.flushes));
    for (uint32_t i = 0; i < nodes; i++) {
        world.nodes[i].position = i;
        cr_assert_eq(ends_init(&world.nodes[i].ends, &ops, &world.nodes[i], &world.roster, i), 0);
    }
}

static void end_world(void)
{
    for (uint32_t i = 0; i < world.roster.nodes; i++)
        ends_deinit(&world.nodes[i].ends);
    for (size_t i = 0; i < world.count; i++)
        free(world.events[i].letter);
    free(world.nodes);
    free(world.ended);
    free(world.flushes);
    free(world.events);
    roster_deinit(&world.roster);
}

static void end_rank(uint32_t rank)
{
    struct node *node = &world.nodes[world.roster.positions[rank]];
    if (node->lost || world.ended[rank])
        return;
    world.ended[rank] = true;
    ends_rank(&node->ends, rank);
    if (world.timed && ends_due(&node->ends, world.now_ns, true) <= world.now_ns) {
        node->wants = false;
        ends_flush(&node->ends, world.now_ns);
    }
}

static uint32_t dying;

static void is_neighbour(void *context, uint32_t position)
{
    const bool *skip = context;
    if (!world.nodes[position].lost && !*skip)
        add_event((struct event){NOTICE, position, dying, NULL, world.now_ns});
}

/* Its neighbours have connections to it. */
static void lose_node(uint32_t position)
{
    struct node *node = &world.nodes[position];
    if (node->lost)
        return;
    node->lost = true;
    for (uint32_t i = world.roster.starts[position]; i < world.roster.starts[position + 1]; i++)
        world.ended[world.roster.by_position[i]] = true;
    dying = position;
    ends_neighbours(&node->ends, is_neighbour, &(bool){false});
}

static void arrive(struct letter *letter)
{
    struct node *to = &world.nodes[letter->to];
    const struct ends_news news = {letter->runs + letter->n_down, letter->n_ended, letter->runs,
                                   letter->n_down};
    if (to->lost)
        add_event((struct event){NOTICE, letter->from, letter->to, NULL, world.now_ns});
    else if (!world.nodes[letter->from].lost)
        cr_assert_eq(ends_receive(&to->ends, letter->from, &news), 0);
    free(letter);
}

static void flush(struct node *node, uint64_t at_ns)
{
    if (world.timed && (!node->wants || at_ns != node->due_ns))
        return; /* it was done before */
    node->wants = false;
    if (!node->lost)
        ends_flush(&node->ends, world.now_ns);
}

/* False: nothing is left to happen. Letters of one connection may even overtake each other. */
static bool happen(void)
{
    if (world.count == 0)
        while (world.flush_count > 0)
            flush(&world.nodes[world.flushes[--world.flush_count]], 0);
    if (world.count == 0)
        return false;
    struct event event;
    if (world.timed) {
        event = take_earliest();
        world.now_ns = event.at_ns;
    } else {
        const size_t at = pick((uint32_t)world.count);
        event = world.events[at];
        world.events[at] = world.events[--world.count];
    }
    struct node *node = &world.nodes[event.at];
    if (event.kind == LETTER)
        arrive(event.letter);
    else if (event.kind == END)
        end_rank(event.about);
    else if (event.kind == FLUSH)
        flush(node, event.at_ns);
    else if (!node->lost)
        ends_node_down(&node->ends, event.about);
    return true;
}

static void expect_all_known(void)
{
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < world.roster.size; rank++)
        count += world.ended[rank];
    for (uint32_t i = 0; i < world.roster.nodes; i++) {
        const struct node *node = &world.nodes[i];
        if (node->lost)
            continue;
        cr_assert_eq(node->told, count, "node %u of %u: %u of %u ends", i, world.roster.nodes,
                     node->told, count);
        cr_assert_eq(node->ends.left, world.roster.size - count);
    }
}

Test(ends, neighbours_are_so_to_each_other_and_connect_all)
{
    static bool seen[64][64];
    for (unsigned seed = 0; seed < 300; seed++) {
        const uint32_t nodes = 1 + seed % 60;
        make_world(nodes, nodes, seed);
        for (uint32_t position = 0; position < nodes; position++)
            world.nodes[position].lost = pick(10) < seed % 10;
        memset(seen, 0, sizeof(seen));
        for (uint32_t i = 0; i < nodes; i++) {
            for (uint32_t k = 0; k < nodes; k++)
                if (world.nodes[k].lost)
                    world.ended[k] = true;
        }
        for (uint32_t i = 0; i < nodes; i++)
            for (uint32_t k = 0; k < nodes && !world.nodes[i].lost; k++)
                if (world.nodes[k].lost)
                    ends_node_down(&world.nodes[i].ends, k);
        uint64_t edges = 0, live = 0;
        for (uint32_t i = 0; i < nodes; i++) {
            if (world.nodes[i].lost)
                continue;
            live++;
            world.sent = 0;
            ends_flush(&world.nodes[i].ends, 0);
            for (size_t e = 0; e < world.count; e++)
                if (world.events[e].kind == LETTER && world.events[e].about == i)
                    seen[i][world.events[e].at] = true;
        }
        for (uint32_t i = 0; i < nodes; i++)
            for (uint32_t k = 0; k < nodes; k++) {
                cr_assert_eq(seen[i][k], seen[k][i], "%u and %u of %u", i, k, nodes);
                cr_assert_not(seen[i][k] && (i == k || world.nodes[k].lost));
                edges += seen[i][k];
            }
        if (live < nodes && live > 0)
            cr_assert_eq(edges, 2 * (live - 1), "a tree");
        end_world();
    }
}

Test(ends, all_nodes_learn_all_ends_whatever_is_lost)
{
    for (unsigned seed = 0; seed < 600; seed++) {
        const uint32_t nodes = 1 + seed % 97, ranks = nodes + seed % 50;
        make_world(nodes, ranks, seed);
        for (unsigned i = 0; i < 40; i++) {
            if (pick(3) == 0)
                lose_node(pick(4) == 0 ? 0 : pick(nodes));
            else
                end_rank(pick(ranks));
            for (uint32_t k = pick(12); k > 0 && happen();)
                k--;
        }
        while (happen())
            ;
        expect_all_known();
        end_world();
    }
}

Test(ends, many_nodes_with_random_deaths)
{
    make_world(10000, 20000, 4);
    world.turns = true;
    for (unsigned round = 0; round < 12; round++) {
        for (unsigned i = 0; i < 200; i++)
            end_rank(pick(20000));
        for (unsigned i = 0; i < 20; i++)
            lose_node(pick(round % 4 == 0 ? 40 : 10000));
        for (unsigned i = 0; i < 30000 && happen(); i++)
            ;
    }
    while (happen())
        ;
    expect_all_known();
    end_world();
}

/* What ends in one turn costs one message per node. */
Test(ends, a_batch_costs_a_message_per_node)
{
    make_world(10000, 40000, 8);
    for (uint32_t i = 0; i < world.roster.nodes; i++)
        cr_assert_eq(world.nodes[i].told, 0);
    const uint32_t node = 4321;
    for (uint32_t i = world.roster.starts[node]; i < world.roster.starts[node + 1]; i++)
        end_rank(world.roster.by_position[i]);
    while (happen())
        ;
    cr_assert_eq(world.sent, world.roster.nodes - 1);
    expect_all_known();

    world.sent = 0;
    lose_node(17); /* with children, and others above */
    while (happen())
        ;
    expect_all_known();
    cr_assert_leq(world.sent, 4 * (uint64_t)world.roster.nodes, "%lu", (unsigned long)world.sent);
    end_world();
}

/* All ranks of a job end at once: what arrives in a turn goes on in one message, so that there are
 * at most as many turns as nodes on the longest way. */
Test(ends, the_end_of_a_job)
{
    make_world(10000, 10000, 8);
    world.turns = true;
    for (uint32_t rank = 0; rank < world.roster.size; rank++)
        end_rank(rank);
    while (happen())
        ;
    expect_all_known();
    cr_assert_eq(world.nodes[9999].ends.left, 0);
    cr_assert_leq(world.sent, 24 * (uint64_t)world.roster.nodes, "%lu messages",
                  (unsigned long)world.sent);
    end_world();
}

static void end_over(uint64_t from_ns, uint64_t length_ns)
{
    for (uint32_t rank = 0; rank < world.roster.size; rank++)
        add_event((struct event){END, 0, rank, NULL, from_ns + pick((uint32_t)length_ns)});
}

static void expect_cheap(uint32_t nodes, uint32_t ranks, uint64_t length_ns, unsigned most)
{
    make_world(nodes, ranks, 5);
    world.timed = true;
    world.now_ns = 1000000000;
    end_over(world.now_ns, length_ns);
    while (happen())
        ;
    expect_all_known();
    cr_assert_leq(world.sent, most * (uint64_t)nodes, "%u nodes: %.1f messages a node", nodes,
                  (double)world.sent / nodes);
    for (uint32_t i = 0; i < nodes; i++)
        cr_assert_leq(world.nodes[i].reports, ranks / nodes + most * TREE_RADIX, "%u reports",
                      world.nodes[i].reports);
    end_world();
}

/* The processes of a job take a second or more to end: while ranks go on ending, nodes collect
 * their ends for longer and longer. */
Test(ends, a_job_that_takes_its_time_to_end)
{
    expect_cheap(64, 1024, 1000000000, 50);
    expect_cheap(64, 1024, 4000000000, 150);
    expect_cheap(4000, 8000, 1000000000, 80);
}

/* Nobody waits because of ends long ago. */
Test(ends, after_a_quiet_time_an_end_is_told_at_once)
{
    make_world(3, 900, 5);
    world.timed = true;
    world.now_ns = 1000000000;
    const struct node *node = &world.nodes[1];
    const uint32_t *own = world.roster.by_position + world.roster.starts[1];
    for (unsigned i = 0; i < 200; i++)
        add_event((struct event){END, 1, own[i], NULL, world.now_ns + i * 1500000});
    while (happen())
        ;
    cr_assert_eq(node->ends.wait_ns, ENDS_WAIT_MAX_NS);
    cr_assert_leq(world.sent, 2 * 12, "%lu messages", (unsigned long)world.sent);
    for (unsigned i = 200; i < 203; i++) {
        world.now_ns += 2 * ENDS_WAIT_MAX_NS;
        world.sent = 0;
        end_rank(own[i]);
        cr_assert_eq(world.sent, 1, "at once, to the root");
        cr_assert_eq(node->ends.wait_ns, ENDS_WAIT_MIN_NS);
        end_rank(own[i + 50]);
        cr_assert_eq(world.sent, 1, "a moment later");
        while (happen())
            ;
    }
    expect_all_known();
    end_world();
}

/* More runs than a message takes. */
Test(ends, many_runs)
{
    make_world(2, 4 * ENDS_RUNS_MAX, 1);
    uint32_t seats = world.roster.starts[1];
    for (uint32_t seat = 0; seat < seats; seat += 2)
        end_rank(world.roster.by_position[seat]);
    while (happen())
        ;
    expect_all_known();
    cr_assert_eq(world.sent, (seats / 2 + ENDS_RUNS_MAX - 1) / ENDS_RUNS_MAX);
    end_world();
}

Test(ends, hostile_messages)
{
    static const uint32_t runs[2 * ENDS_RUNS_MAX + 2] = {40, 1};
    make_world(20, 40, 3);
    struct ends *ends = &world.nodes[0].ends;
    const uint32_t far[] = {39, 2}, none[] = {3, 0}, wide[] = {1, UINT32_MAX};
    cr_assert_eq(ends_receive(ends, 1, &(struct ends_news){.ended = far, .n_ended = 2}), -EPROTO);
    cr_assert_eq(ends_receive(ends, 1, &(struct ends_news){.ended = none, .n_ended = 2}), -EPROTO);
    cr_assert_eq(ends_receive(ends, 1, &(struct ends_news){.ended = wide, .n_ended = 2}), -EPROTO);
    cr_assert_eq(ends_receive(ends, 1, &(struct ends_news){.ended = runs, .n_ended = 1}), -EPROTO);
    cr_assert_eq(ends_receive(ends, 1, &(struct ends_news){.down = far, .n_down = 2}), -EPROTO);
    cr_assert_eq(
        ends_receive(ends, 1, &(struct ends_news){.ended = runs, .n_ended = 2 * ENDS_RUNS_MAX + 2}),
        -EPROTO);
    cr_assert_eq(ends->left, 40);
    const uint32_t own[] = {0, world.roster.starts[1]}, root[] = {0, 1};
    cr_assert_eq(
        ends_receive(ends, 1,
                     &(struct ends_news){.ended = own, .n_ended = 2, .down = root, .n_down = 2}),
        0);
    cr_assert_eq(ends->left, 40, "nobody else knows better what has ended here");
    world.ended[world.roster.by_position[world.roster.starts[5]]] = true;
    for (uint32_t seat = world.roster.starts[5]; seat < world.roster.starts[6]; seat++)
        world.ended[world.roster.by_position[seat]] = true;
    ends_node_down(ends, 5);
    cr_assert_eq(ends_receive(ends, 5, &(struct ends_news){0}), -EHOSTDOWN);
    end_world();
}
