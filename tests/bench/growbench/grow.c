/*
 * grow: what a job of many nodes costs its daemons, on a simulated network in one process, in
 * virtual time. The join runs pace.h for every node, the collective calls and the close gather.c
 * and ends.c. What follows from that for the coordinator, and the list of members, is counted, from
 * the sizes of the messages and the tree, because that code needs peers.
 *
 *     grow [--json] NODES RANKS_A_NODE [NODES RANKS_A_NODE]...
 *
 * A line for each size and phase: messages and bytes, sent and received, of the busiest node and of
 * the median one; the longest chain of messages that wait for each other; bytes that the busiest
 * daemon keeps for the group meanwhile. Then, for each phase, the exponents over all sizes.
 *
 * join: the ranks of each node come within 200 ms, and their launcher has said how many there are.
 * Each node looks whether the coordinator, node 0, is there, asks it for them all, and gets its
 * answer. untold: the same when no launcher has said so. list: down the tree. barrier, 8 B, 64 B:
 * collective calls. close: all ranks end within a second; left out above 4 * 10^8 ranks
 * times nodes, because each node keeps a byte for each rank.
 */
#include <malloc.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/groups/ends.h"
#include "daemon/groups/gather.h"
#include "daemon/groups/pace.h"
#include "daemon/sessions/members.h"
#include "proto/message.h"

enum {
    LETTER_NS = 20000,
    OVERHEAD_BYTES = 24, /* of a message: frame and numbers */
    PHASES = 7,
    JOIN_NS = 200000000,
    SIZES_MAX = 32,
};
#define CLOSE_MAX UINT64_C(400000000)

struct letter {
    uint64_t at_ns;
    uint32_t from, to, depth;
    struct gather_message message;
    uint32_t n_ended, n_down;
    enum { UP, NEWS, FLUSH, END } kind;
    uint8_t *bytes;
};

struct node {
    uint32_t position;
    struct gather gather;
    struct ends ends;
    uint64_t messages, bytes;
    uint64_t due_ns;
    bool wants;
};

static struct roster roster;
static struct node *nodes;
static struct letter *heap;
static size_t count, room;
static uint64_t now_ns;
static uint32_t depth, deepest;

static void push(struct letter letter)
{
    if (count == room)
        heap = realloc(heap, (room = room * 2 + 64) * sizeof(*heap));
    size_t i = count++;
    for (; i > 0 && heap[(i - 1) / 2].at_ns > letter.at_ns; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = letter;
}

static struct letter pop(void)
{
    const struct letter first = heap[0], last = heap[--count];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < count; i = k) {
        k += k + 1 < count && heap[k + 1].at_ns < heap[k].at_ns;
        if (last.at_ns <= heap[k].at_ns)
            break;
        heap[i] = heap[k];
    }
    heap[i] = last;
    return first;
}

static void account(uint32_t from, uint32_t to, uint64_t bytes)
{
    nodes[from].messages++;
    nodes[to].messages++;
    nodes[from].bytes += bytes + OVERHEAD_BYTES;
    nodes[to].bytes += bytes + OVERHEAD_BYTES;
}

static void post(void *context, uint32_t position, const struct gather_message *message)
{
    struct node *node = context;
    account(node->position, position, message->data_bytes);
    if (message->kind == GATHER_DOWN) { /* valid during the call: delivered at once */
        const uint32_t before = depth++;
        deepest = depth > deepest ? depth : deepest;
        if (!gather_receive(&nodes[position].gather, node->position, message))
            abort();
        depth = before;
        return;
    }
    struct letter letter = {
        now_ns + LETTER_NS, node->position, position, depth + 1, *message, 0, 0, UP, NULL};
    if (message->data_bytes > 0) {
        letter.bytes = malloc(message->data_bytes);
        memcpy(letter.bytes, message->data, message->data_bytes);
    }
    letter.message.data = letter.bytes;
    letter.message.text = "";
    push(letter);
}

static int begins(void *context, uint64_t bytes, char *text, size_t text_bytes)
{
    return 0;
}

static uint64_t finished;

static void done(void *context, const uint8_t *data, uint64_t bytes)
{
    finished++;
}

static void failed(void *context, int error, const char *text)
{
    abort();
}

static void ask_timer(void *context, bool on)
{
}

static const struct gather_ops gather_ops = {post, begins, done, failed, ask_timer};

static void send_news(void *context, uint32_t position, const struct ends_news *news)
{
    const struct node *node = context;
    struct letter letter = {
        now_ns + LETTER_NS,      node->position,         position, depth + 1, {0},
        (uint32_t)news->n_ended, (uint32_t)news->n_down, NEWS,     NULL};
    const size_t bytes = (news->n_ended + news->n_down) * sizeof(uint32_t);
    letter.bytes = malloc(bytes + 1);
    memcpy(letter.bytes, news->down, news->n_down * sizeof(uint32_t));
    memcpy(letter.bytes + news->n_down * sizeof(uint32_t), news->ended,
           news->n_ended * sizeof(uint32_t));
    account(node->position, position, bytes);
    push(letter);
}

static void ranks_ended(void *context, const uint32_t *ranks, size_t n, bool down)
{
}

static void later(void *context)
{
    struct node *node = context;
    node->wants = true;
    node->due_ns = ends_due(&node->ends, now_ns, false);
    push((struct letter){.at_ns = node->due_ns, .to = node->position, .kind = FLUSH});
}
static const struct ends_ops ends_ops = {send_news, ranks_ended, later};

static void flush(struct node *node)
{
    node->wants = false;
    ends_flush(&node->ends, now_ns);
}

static void run(void)
{
    while (count > 0) {
        struct letter letter = pop();
        struct node *to = &nodes[letter.to];
        now_ns = letter.at_ns;
        depth = letter.depth;
        deepest = depth > deepest ? depth : deepest;
        if (letter.kind == UP) {
            if (!gather_receive(&to->gather, letter.from, &letter.message))
                abort();
        } else if (letter.kind == NEWS) {
            const uint32_t *runs = (const uint32_t *)(void *)letter.bytes;
            const struct ends_news news = {runs + letter.n_down, letter.n_ended, runs,
                                           letter.n_down};
            if (ends_receive(&to->ends, letter.from, &news) < 0)
                abort();
        } else if (letter.kind == END) {
            ends_rank(&to->ends, letter.from);
            if (ends_due(&to->ends, now_ns, true) <= now_ns)
                flush(to);
        } else if (to->wants && to->due_ns == now_ns) {
            flush(to);
        }
        free(letter.bytes);
    }
    depth = 0;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t median(bool bytes)
{
    uint64_t *all = calloc(roster.nodes, sizeof(*all));
    for (uint32_t i = 0; i < roster.nodes; i++)
        all[i] = bytes ? nodes[i].bytes : nodes[i].messages;
    qsort(all, roster.nodes, sizeof(*all), by_number);
    const uint64_t middle = all[roster.nodes / 2];
    free(all);
    return middle;
}

static bool json;
static const char *const names[PHASES] = {"join", "untold", "list", "barrier",
                                          "8 B",  "64 B",   "close"};
static struct point {
    double ranks, messages, bytes, memory;
} points[PHASES][SIZES_MAX];
static unsigned point_count[PHASES];

static void tell(unsigned phase, uint64_t memory)
{
    uint64_t messages = 0, bytes = 0;
    for (uint32_t i = 0; i < roster.nodes; i++) {
        messages = nodes[i].messages > messages ? nodes[i].messages : messages;
        bytes = nodes[i].bytes > bytes ? nodes[i].bytes : bytes;
    }
    const char *format =
        json ? "{\"nodes\": %u, \"ranks\": %u, \"phase\": \"%s\", \"messages\": %llu, "
               "\"median_messages\": %llu, \"bytes\": %llu, \"median_bytes\": %llu, "
               "\"chain\": %u, \"memory_bytes\": %llu}\n"
             : "%6u %7u %-8s %9llu %7llu %12llu %10llu %5u %10llu\n";
    printf(format, roster.nodes, roster.size, names[phase], (unsigned long long)messages,
           (unsigned long long)median(false), (unsigned long long)bytes,
           (unsigned long long)median(true), deepest, (unsigned long long)memory);
    points[phase][point_count[phase]++] =
        (struct point){roster.size, (double)messages, (double)bytes, (double)memory};
    deepest = 0;
    for (uint32_t i = 0; i < roster.nodes; i++)
        nodes[i].messages = nodes[i].bytes = 0;
}

/* Least squares of the logarithms; `at`: the offset of a figure in a point. NAN: too few points. */
static double exponent(unsigned phase, size_t at)
{
    double n = 0, x_sum = 0, y_sum = 0, xx = 0, xy = 0;
    for (unsigned i = 0; i < point_count[phase]; i++) {
        const struct point *point = &points[phase][i];
        const double figure = *(const double *)((const char *)point + at);
        const double x = log(point->ranks), y = log(figure);
        if (figure == 0) /* one node sends nothing */
            continue;
        n++;
        x_sum += x;
        y_sum += y;
        xx += x * x;
        xy += x * y;
    }
    const double spread = n * xx - x_sum * x_sum;
    return spread > 0 ? (n * xy - x_sum * y_sum) / spread : NAN;
}

static void tell_exponents(void)
{
    for (unsigned phase = 0; phase < PHASES; phase++)
        if (!isnan(exponent(phase, offsetof(struct point, messages))))
            printf("%14s %-8s %9.2f %20.2f %27.2f\n", "ranks ^", names[phase],
                   exponent(phase, offsetof(struct point, messages)),
                   exponent(phase, offsetof(struct point, bytes)),
                   exponent(phase, offsetof(struct point, memory)));
}

static uint64_t chance(uint64_t *seed, uint64_t below)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*seed >> 33) % below;
}

static uint64_t join_bytes(uint32_t ranks)
{
    uint32_t *rank_list = calloc(ranks, sizeof(*rank_list));
    uint64_t *sessions = calloc(ranks, sizeof(*sessions));
    for (uint32_t i = 0; i < ranks; i++) {
        rank_list[i] = roster.size - 1;
        sessions[i] = 60000000000; /* a time-out is longer than most numbers of sessions */
    }
    Tca__PeerGroupJoin body;
    tca__peer_group_join__init(&body);
    body.name = (char *)"job";
    body.size = roster.size;
    body.chosen = true;
    body.n_ranks = body.n_sessions = body.n_timeouts_ns = ranks;
    body.ranks = rank_list;
    body.sessions = body.timeouts_ns = sessions;
    const uint64_t bytes = tca__peer_group_join__get_packed_size(&body);
    free(rank_list);
    free(sessions);
    return bytes;
}

static void ask_root(uint32_t position, struct pace *pace, uint64_t at_ns)
{
    if (position > 0 && pace->sent == 0) { /* is it there? */
        account(position, 0, 0);
        account(0, position, 0);
    }
    if (position > 0) {
        account(position, 0, join_bytes(pace->waiting));
        account(0, position, 0);
    }
    pace_sent(pace, at_ns);
}

static void join(bool told)
{
    uint64_t seed = 7;
    for (uint32_t i = 0; i < roster.nodes; i++) {
        const uint32_t ranks = roster.starts[i + 1] - roster.starts[i];
        uint64_t *comes = calloc(ranks, sizeof(*comes));
        struct pace pace = {.size = roster.size, .known = told ? ranks : 0};
        for (uint32_t k = 0; k < ranks; k++)
            comes[k] = JOIN_NS + chance(&seed, JOIN_NS);
        qsort(comes, ranks, sizeof(*comes), by_number);
        for (uint32_t k = 0; k < ranks; k++) {
            if (pace.waiting > 0 && pace_due(&pace) <= comes[k])
                ask_root(i, &pace, pace_due(&pace));
            pace_come(&pace, comes[k]);
            if (pace_due(&pace) <= comes[k])
                ask_root(i, &pace, comes[k]);
        }
        if (pace.waiting > 0)
            ask_root(i, &pace, pace_due(&pace));
        if (pace.sent != ranks)
            abort();
        free(comes);
    }
    deepest = 4;
}

static void list(void)
{
    Tca__PeerGroupFormed formed;
    tca__peer_group_formed__init(&formed);
    uint64_t *sessions = calloc(roster.size, sizeof(*sessions));
    uint32_t *of = calloc(roster.size, sizeof(*of));
    for (uint32_t rank = 0; rank < roster.size; rank++) {
        sessions[rank] = 1000;
        of[rank] = roster.node_at[roster.positions[rank]];
    }
    formed.name = (char *)"job";
    formed.team = 1;
    formed.n_sessions = formed.n_nodes = roster.size;
    formed.sessions = sessions;
    formed.nodes = of;
    const uint64_t bytes = tca__peer_group_formed__get_packed_size(&formed);
    for (uint32_t i = 0; i < roster.nodes; i++) {
        const struct tree_place place = tree_find(roster.nodes, i);
        for (unsigned k = 0; k < place.child_count; k++)
            account(i, place.children[k].begin, bytes);
        uint32_t levels = 0;
        for (uint32_t at = place.parent; i + 1 == roster.nodes && at != TREE_NONE; levels++)
            at = tree_find(roster.nodes, at).parent;
        deepest = levels > deepest ? levels : deepest;
    }
    free(sessions);
    free(of);
}

static void call(uint64_t sequence, uint64_t bytes)
{
    uint8_t data[64] = {0};
    finished = 0;
    for (uint32_t rank = 0; rank < roster.size; rank++)
        gather_call(&nodes[roster.positions[rank]].gather, rank, sequence, data, bytes);
    run();
    if (finished != roster.nodes)
        abort();
}

static uint64_t allocated(void)
{
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void close_all(void)
{
    uint64_t seed = 5;
    now_ns = UINT64_C(1000000000);
    for (uint32_t rank = 0; rank < roster.size; rank++) {
        push((struct letter){.at_ns = now_ns + chance(&seed, 1000000000),
                             .from = rank,
                             .to = roster.positions[rank],
                             .kind = END});
    }
    run();
}

/* Returns what the root has. */
static uint64_t make_nodes(uint32_t node_count, uint32_t per_node, bool closes)
{
    const uint32_t size = node_count * per_node;
    uint32_t *node_of = calloc(size, sizeof(*node_of));
    for (uint32_t rank = 0; rank < size; rank++)
        node_of[rank] = rank / per_node;
    const uint64_t before = allocated();
    if (roster_init(&roster, size, node_of) < 0)
        abort();
    uint64_t keeps = allocated() - before + members_bytes(size);
    free(node_of);
    nodes = calloc(node_count, sizeof(*nodes));
    for (uint32_t i = 0; i < node_count; i++) {
        const uint64_t until = allocated();
        nodes[i].position = i;
        if (gather_init(&nodes[i].gather, &gather_ops, &nodes[i], &roster, i) < 0 ||
            (closes && ends_init(&nodes[i].ends, &ends_ops, &nodes[i], &roster, i) < 0))
            abort();
        keeps += i == 0 ? allocated() - until + sizeof(nodes[i]) : 0;
    }
    return keeps;
}

static void play(uint32_t node_count, uint32_t per_node)
{
    const uint64_t size = (uint64_t)node_count * per_node;
    const bool closes = size * node_count <= CLOSE_MAX;
    const uint64_t keeps = make_nodes(node_count, per_node, closes);

    for (unsigned i = 0; i < 2; i++) {
        join(i == 0);
        tell(i, size * sizeof(struct group_member));
    }
    list();
    tell(2, keeps);
    for (unsigned i = 0; i < 3; i++) {
        const uint64_t bytes = (const uint64_t[]){0, 8, 64}[i];
        call(i, bytes);
        tell(3 + i, keeps + size * 2 * bytes);
    }
    if (closes) {
        close_all();
        tell(6, keeps);
    }
    for (uint32_t i = 0; i < node_count; i++) {
        gather_deinit(&nodes[i].gather);
        if (closes && nodes[i].ends.left != 0)
            abort();
        ends_deinit(&nodes[i].ends);
    }
    free(nodes);
    roster_deinit(&roster);
}

int main(int argc, char **argv)
{
    json = argc > 1 && strcmp(argv[1], "--json") == 0;
    if (!json)
        puts(" nodes   ranks phase     messages  median        bytes     median chain     memory");
    for (int i = 1 + json; i + 1 < argc && i < 2 * SIZES_MAX; i += 2)
        play((uint32_t)atoi(argv[i]), (uint32_t)atoi(argv[i + 1]));
    if (!json)
        tell_exponents();
    free(heap);
    return 0;
}
