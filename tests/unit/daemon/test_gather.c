/* Collective calls over the tree of a group, on a simulated network: messages of one connection
 * arrive in order, those of different ones in any. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/groups/gather.h"

enum { BYTES_MAX = 64 };

struct letter {
    struct letter *next;
    uint32_t from, to;
    struct gather_message message;
    uint8_t *data;
    char text[GATHER_TEXT_BYTES + 256];
    struct gather_run runs[GATHER_RUNS_MAX];
};

/* A connection, in one direction. */
struct line {
    struct letter *first, **last;
    uint32_t ready; /* its place in world.ready, + 1; 0: it is empty */
};

struct node {
    struct gather gather;
    uint32_t position;
    struct line up, down; /* from the parent, and to it */
    bool *waiting;        /* by rank of the node, in order */
    int result;           /* of the last call: 1: none */
    unsigned ended;
    char text[GATHER_TEXT_BYTES + 256];
    bool asks;
    uint64_t sent, sent_bytes;
};

static struct world {
    struct roster roster;
    struct node *nodes;
    struct line **ready;
    uint32_t ready_count;
    uint64_t seed, bytes, sequence, delivered;
    bool wrong;
} world;

static uint32_t pick(uint32_t below)
{
    world.seed = world.seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(world.seed >> 33) % below;
}

static uint8_t byte_of(uint32_t rank, uint64_t sequence, uint64_t i)
{
    return (uint8_t)(rank * 31 + sequence * 7 + i);
}

static struct line *line_of(uint32_t from, uint32_t to)
{
    return world.nodes[to].gather.place.parent == from ? &world.nodes[to].down
                                                       : &world.nodes[from].up;
}

static void post(void *context, uint32_t position, const struct gather_message *message)
{
    struct node *node = context;
    struct letter *letter = calloc(1, sizeof(*letter));
    struct line *line = line_of(node->position, position);

    letter->from = node->position;
    letter->to = position;
    letter->message = *message;
    if (message->data_bytes > 0) {
        letter->data = malloc(message->data_bytes);
        memcpy(letter->data, message->data, message->data_bytes);
    }
    letter->message.data = letter->data;
    if (message->text)
        strncpy(letter->text, message->text, sizeof(letter->text) - 1);
    letter->message.text = letter->text;
    if (message->run_count > 0)
        memcpy(letter->runs, message->runs, message->run_count * sizeof(*letter->runs));
    letter->message.runs = letter->runs;
    *line->last = letter;
    line->last = &letter->next;
    if (!line->ready) {
        world.ready[world.ready_count++] = line;
        line->ready = world.ready_count;
    }
    node->sent++;
    node->sent_bytes += message->data_bytes;
}

static int refusal; /* of calls that begin at the last position */

static int begins(void *context, uint64_t bytes, char *ret_text, size_t text_bytes)
{
    const struct node *node = context;
    if (!refusal || node->position + 1 != world.roster.nodes)
        return 0;
    snprintf(ret_text, text_bytes, "no memory for %u bytes", (unsigned)bytes);
    return refusal;
}

static void done(void *context, const uint8_t *data, uint64_t bytes)
{
    struct node *node = context;
    node->result = 0;
    node->ended++;
    world.wrong |= bytes != world.bytes;
    for (uint32_t rank = 0; rank < world.roster.size && node->position % 64 == 0; rank++)
        for (uint64_t i = 0; i < bytes; i++)
            world.wrong |= data[rank * bytes + i] != byte_of(rank, world.sequence, i);
}

static void failed(void *context, int error, const char *text)
{
    struct node *node = context;
    node->result = error;
    node->ended++;
    strncpy(node->text, text, sizeof(node->text) - 1);
}

static void ask_timer(void *context, bool on)
{
    struct node *node = context;
    node->asks = on;
}

static const struct gather_ops ops = {post, begins, done, failed, ask_timer};

static void make_world(uint32_t nodes, uint32_t ranks, uint64_t seed, bool mixed)
{
    uint32_t *node_of = calloc(ranks, sizeof(*node_of));

    world = (struct world){.seed = seed};
    for (uint32_t rank = 0; rank < ranks; rank++)
        node_of[rank] = 1000 + (rank < nodes ? rank : mixed ? pick(nodes) : rank % nodes);
    for (uint32_t i = ranks; mixed && i > 1; i--) {
        const uint32_t other = pick(i), node = node_of[other];
        node_of[other] = node_of[i - 1];
        node_of[i - 1] = node;
    }
    cr_assert_eq(roster_init(&world.roster, ranks, node_of), 0);
    cr_assert_eq(world.roster.nodes, nodes);
    world.nodes = calloc(nodes, sizeof(*world.nodes));
    world.ready = calloc(2 * (size_t)nodes, sizeof(struct line *));
    for (uint32_t i = 0; i < nodes; i++) {
        struct node *node = &world.nodes[i];
        node->position = i;
        node->up.last = &node->up.first;
        node->down.last = &node->down.first;
        cr_assert_eq(gather_init(&node->gather, &ops, node, &world.roster, i), 0);
        cr_assert_eq(node_of[world.roster.by_position[world.roster.starts[i]]],
                     world.roster.node_at[i]);
        cr_assert_eq(roster_position(&world.roster, world.roster.node_at[i]), i);
    }
    free(node_of);
}

static void drop_line(struct line *line)
{
    for (struct letter *letter = line->first, *next; letter; letter = next) {
        next = letter->next;
        free(letter->data);
        free(letter);
    }
    line->first = NULL;
    line->last = &line->first;
}

static void end_world(void)
{
    for (uint32_t i = 0; i < world.roster.nodes; i++) {
        drop_line(&world.nodes[i].up);
        drop_line(&world.nodes[i].down);
        gather_deinit(&world.nodes[i].gather);
    }
    free(world.nodes);
    free(world.ready);
    roster_deinit(&world.roster);
}

/* Delivers one message; false: there is none. */
static bool deliver(void)
{
    if (world.ready_count == 0)
        return false;
    const uint32_t at = pick(world.ready_count);
    struct line *line = world.ready[at];
    struct letter *letter = line->first;
    line->first = letter->next;
    if (!line->first) {
        line->last = &line->first;
        line->ready = 0;
        world.ready[at] = world.ready[--world.ready_count];
        if (at < world.ready_count)
            world.ready[at]->ready = at + 1;
    }
    cr_assert(gather_receive(&world.nodes[letter->to].gather, letter->from, &letter->message));
    free(letter->data);
    free(letter);
    world.delivered++;
    return true;
}

static struct node *node_of(uint32_t rank)
{
    return &world.nodes[world.roster.positions[rank]];
}

/* In a call that has not ended: perhaps the others' has failed meanwhile. */
static bool waits(uint32_t rank)
{
    const struct gather *gather = &node_of(rank)->gather;
    for (uint32_t i = 0; i < gather->rank_count; i++)
        if (gather->ranks[i] == rank)
            return gather->given[i];
    return false;
}

static void call(uint32_t rank, uint64_t sequence, uint64_t bytes)
{
    uint8_t data[BYTES_MAX];
    for (uint64_t i = 0; i < bytes; i++)
        data[i] = byte_of(rank, sequence, i);
    gather_call(&node_of(rank)->gather, rank, sequence, data, bytes);
}

/* Ranks that have not called yet, in random order, some messages between two calls. */
static void call_all(const bool *absent)
{
    uint32_t size = world.roster.size, *order = calloc(size, sizeof(*order));
    for (uint32_t i = 0; i < size; i++) {
        const uint32_t other = pick(i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    bool *calls = calloc(size, sizeof(*calls));
    for (uint32_t rank = 0; rank < size; rank++)
        calls[rank] = (!absent || !absent[rank]) && !waits(rank);
    for (uint32_t i = 0; i < size; i++) {
        if (calls[order[i]])
            call(order[i], world.sequence, world.bytes);
        for (uint32_t k = pick(4); k > 0 && deliver();)
            k--;
    }
    free(order);
    free(calls);
    while (deliver())
        ;
}

static void expect_all(unsigned ended, int result)
{
    for (uint32_t i = 0; i < world.roster.nodes; i++) {
        cr_assert_eq(world.nodes[i].ended, ended, "node %u: %u", i, world.nodes[i].ended);
        cr_assert_eq(world.nodes[i].result, result);
        cr_assert_eq(world.nodes[i].gather.state, GATHER_IDLE);
        cr_assert_not(world.nodes[i].asks);
    }
    cr_assert_not(world.wrong);
}

static const uint32_t sizes[][2] = {{1, 1},     {1, 7},     {2, 2},    {3, 5},
                                    {16, 16},   {17, 40},   {18, 18},  {64, 100},
                                    {273, 273}, {274, 300}, {300, 900}};

Test(gather, every_rank_gets_what_all_contribute)
{
    for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
        make_world(sizes[k][0], sizes[k][1], k, true);
        for (unsigned n = 1; n <= 4; n++) {
            world.sequence = n;
            world.bytes = n == 2 ? 0 : pick(BYTES_MAX + 1);
            call_all(NULL);
            expect_all(n, 0);
        }
        end_world();
    }
}

Test(gather, calls_that_differ_fail_at_all_and_can_be_repeated)
{
    for (size_t k = 2; k < sizeof(sizes) / sizeof(*sizes); k++) {
        make_world(sizes[k][0], sizes[k][1], 77 + k, true);
        for (unsigned n = 0; n < 3; n++) {
            const uint32_t other = pick(world.roster.size);
            bool *absent = calloc(world.roster.size, sizeof(*absent));
            absent[other] = true;
            world.sequence = 5 + n;
            world.bytes = 8;
            call(other, 5 + n + (n % 2), n % 2 ? 8 : 9);
            call_all(absent);
            for (uint32_t i = 0; i < world.roster.nodes; i++)
                cr_assert(world.nodes[i].ended == 2 * n + 1 && world.nodes[i].result == -EPROTO);
            cr_assert(strstr(world.nodes[0].text, "all ranks must make the same calls"));
            call_all(NULL);
            expect_all(2 * n + 2, 0);
            free(absent);
        }
        end_world();
    }
}

Test(gather, a_time_out_names_the_missing_ranks)
{
    for (size_t k = 2; k < sizeof(sizes) / sizeof(*sizes); k++) {
        make_world(sizes[k][0], sizes[k][1], 177 + k, true);
        bool *absent = calloc(world.roster.size, sizeof(*absent));
        char name[32];
        const uint32_t late = pick(world.roster.size);
        absent[late] = true;
        world.sequence = 3;
        world.bytes = 8;
        call_all(absent);
        for (uint32_t i = 0; i < 3; i++) {
            const uint32_t rank = (late + 1 + i) % world.roster.size;
            if (rank != late)
                gather_fail(&node_of(rank)->gather, rank, -ETIMEDOUT, false, "");
        }
        while (deliver())
            ;
        expect_all(1, -ETIMEDOUT);
        snprintf(name, sizeof(name), "rank %u of", late);
        cr_assert(strstr(world.nodes[0].text, name), "%s", world.nodes[0].text);
        call_all(NULL);
        expect_all(2, 0);
        free(absent);
        end_world();
    }
}

/* Whatever comes together, all nodes see the same. */
Test(gather, time_outs_during_the_last_contributions)
{
    unsigned complete = 0, late = 0;
    for (unsigned seed = 0; seed < 400; seed++) {
        make_world(20 + seed % 30, 60, seed, true);
        bool *absent = calloc(world.roster.size, sizeof(*absent));
        const uint32_t last = pick(world.roster.size);
        absent[last] = true;
        world.sequence = seed;
        world.bytes = 8;
        call_all(absent);
        if (pick(2))
            call(last, seed, 8);
        for (uint32_t i = pick(6); i > 0 && deliver();)
            i--;
        gather_fail(&node_of((last + 1) % 60)->gather, (last + 1) % 60, -ETIMEDOUT, false, "");
        for (uint32_t i = pick(6); i > 0 && deliver();)
            i--;
        if (node_of(last)->gather.round == 0 &&
            !node_of(last)->gather.given[0] /* perhaps once more: no effect */)
            call(last, seed, 8);
        while (deliver())
            ;
        const int result = world.nodes[0].result;
        if (world.nodes[0].ended == 1) {
            complete += result == 0;
            late += result == -ETIMEDOUT;
        }
        free(absent);
        end_world();
    }
    cr_assert(complete > 10 && late > 10, "%u complete, %u late", complete, late);
}

Test(gather, nodes_that_do_not_answer)
{
    make_world(300, 600, 9, false);
    bool *absent = calloc(world.roster.size, sizeof(*absent));
    struct gather_branch *branch = &world.nodes[0].gather.branches[3];
    for (uint32_t rank = 0; rank < 600; rank++)
        absent[rank] = branch->range.begin <= world.roster.positions[rank] &&
                       world.roster.positions[rank] < branch->range.end;
    world.sequence = 1;
    world.bytes = 4;
    call_all(absent);
    gather_fail(&world.nodes[0].gather, 0, -ETIMEDOUT, false, "");
    cr_assert(world.nodes[0].asks);
    drop_line(&world.nodes[branch->range.begin].down); /* it is stopped */
    gather_ask_expired(&world.nodes[0].gather);
    cr_assert_eq(world.nodes[0].result, -ETIMEDOUT);
    cr_assert(strstr(world.nodes[0].text, "ranks 58-76,358-376 of 600"), "%s", world.nodes[0].text);
    free(absent);
    end_world();
}

Test(gather, hostile_messages)
{
    make_world(40, 80, 5, true);
    uint8_t data[8] = {0};
    struct gather *root = &world.nodes[0].gather;
    const uint32_t child = root->branches[0].range.begin;
    cr_assert_not(gather_receive(root, 39, &(struct gather_message){.kind = GATHER_UP}),
                  "not a neighbour");
    cr_assert_not(gather_receive(root, child, &(struct gather_message){.kind = GATHER_DOWN}));
    cr_assert_not(gather_receive(root, child, &(struct gather_message){.kind = 77}));
    cr_assert_not(gather_receive(
        root, child,
        &(struct gather_message){
            .kind = GATHER_UP, .bytes = UINT64_C(1) << 62, .data = data, .data_bytes = 8}));
    cr_assert_not(gather_receive(
        root, child, &(struct gather_message){.kind = GATHER_UP, .rank = 80, .data_bytes = 0}));
    cr_assert_not(gather_receive(
        root, child, &(struct gather_message){.kind = GATHER_FAULT, .error = 1, .text = ""}));
    cr_assert_not(gather_receive(root, child, &(struct gather_message){.kind = GATHER_MISSING}));
    cr_assert_not(
        gather_receive(root, child, &(struct gather_message){.kind = GATHER_UP, .round = 1}));
    struct gather *leaf = &world.nodes[39].gather;
    cr_assert_not(gather_receive(leaf, leaf->place.parent,
                                 &(struct gather_message){.kind = GATHER_DOWN, .data = data}));
    cr_assert_not(gather_receive(leaf, leaf->place.parent,
                                 &(struct gather_message){.kind = GATHER_FAILED, .error = 0}));
    end_world();
}

Test(gather, a_node_that_may_have_no_memory_fails_the_call_for_all)
{
    for (size_t k = 2; k < sizeof(sizes) / sizeof(*sizes); k++) {
        make_world(sizes[k][0], sizes[k][1], 500 + k, true);
        world.sequence = 4;
        world.bytes = 8;
        refusal = -EDQUOT;
        call_all(NULL);
        for (uint32_t i = 0; i < world.roster.nodes; i++)
            cr_assert_eq(world.nodes[i].result, -EDQUOT);
        cr_assert_str_eq(world.nodes[0].text, "no memory for 8 bytes");
        end_world();
    }
}

/* Some have completed the call before, or none. */
Test(gather, a_rank_that_ends_breaks_it_behind_what_is_complete)
{
    unsigned complete = 0;
    for (unsigned seed = 0; seed < 200; seed++) {
        make_world(2 + seed % 50, 60, seed, true);
        world.sequence = 1;
        world.bytes = 8;
        const uint32_t rank = pick(60);
        bool *absent = calloc(60, sizeof(*absent));
        absent[rank] = true;
        call_all(absent);
        if (seed % 2)
            call(rank, 1, 8);
        for (uint32_t i = pick(100); i > 0 && node_of(rank)->ended < seed % 2 && deliver();)
            i--;
        gather_fail(&node_of(rank)->gather, rank, -EOWNERDEAD, true, "rank has ended");
        while (deliver())
            ;
        for (uint32_t i = 0; i < world.roster.nodes; i++) {
            cr_assert_eq(world.nodes[i].gather.broken, -EOWNERDEAD);
            cr_assert_eq(world.nodes[i].ended, world.nodes[0].ended, "all have seen the same");
        }
        complete += world.nodes[0].ended == 2;
        cr_assert(world.nodes[0].ended == 1 || seed % 2);
        free(absent);
        end_world();
    }
    cr_assert(complete > 20, "%u", complete);
}

/* What it costs at 10^4 and 10^5 nodes: no node sends more than its children's and its parent's
 * share. */
Test(gather, many_nodes)
{
    static const uint32_t counts[] = {10000, 100000};
    for (size_t k = 0; k < 2; k++) {
        make_world(counts[k], counts[k], 3, false);
        world.sequence = 1;
        world.bytes = 0;
        call_all(NULL);
        expect_all(1, 0);
        uint64_t sent = 0, most = 0;
        for (uint32_t i = 0; i < counts[k]; i++) {
            sent += world.nodes[i].sent;
            most = world.nodes[i].sent > most ? world.nodes[i].sent : most;
        }
        cr_assert_eq(sent, 2 * (counts[k] - 1), "one up and one down for each but the root");
        cr_assert_leq(most, TREE_RADIX + 1);
        end_world();
    }
}

Test(gather, depth_and_ranges)
{
    for (uint32_t count = 1; count < 700; count += count < 40 ? 1 : 37)
        for (uint32_t position = 0; position < count; position++) {
            const struct tree_place place = tree_find(count, position);
            uint32_t at = position + 1;
            cr_assert_eq(place.range.begin, position);
            for (unsigned i = 0; i < place.child_count; i++) {
                cr_assert_eq(place.children[i].begin, at);
                cr_assert_gt(place.children[i].end, at);
                at = place.children[i].end;
                cr_assert_eq(tree_find(count, place.children[i].begin).parent, position);
            }
            cr_assert_eq(at, place.range.end);
        }
    unsigned depth = 0;
    for (uint32_t at = 99999; at != 0; at = tree_find(100000, at).parent)
        depth++;
    cr_assert_leq(depth, 5);
}
