#include "daemon/groups/ends.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/groups/tree.h"

enum {
    ENDED = 1 << 0, /* of a seat; of a node: it is down */
    FRESH = 1 << 1, /* that has not been sent */
    TOLD = 1 << 2,  /* a neighbour that knows all but what is fresh */
};

/* ---- neighbours ---- */

static bool is_down(const struct ends *ends, uint32_t position)
{
    return ends->nodes[position] & ENDED;
}

struct visit {
    void (*each)(void *context, uint32_t position);
    void *context;
};

/* The nodes below a position that are not down, without those below them. */
static void visit_below(const struct ends *ends, uint32_t position, const struct visit *visit)
{
    const struct tree_place place = tree_find(ends->roster->nodes, position);

    for (unsigned i = 0; i < place.child_count; i++) {
        const uint32_t child = place.children[i].begin;
        if (is_down(ends, child))
            visit_below(ends, child, visit);
        else if (child != ends->position)
            visit->each(visit->context, child);
    }
}

static uint32_t ancestor(const struct ends *ends)
{
    uint32_t at = ends->position;
    do
        at = tree_find(ends->roster->nodes, at).parent;
    while (at != TREE_NONE && is_down(ends, at));
    return at;
}

void ends_neighbours(const struct ends *ends, void (*each)(void *context, uint32_t position),
                     void *context)
{
    const struct visit visit = {each, context};
    uint32_t up = ancestor(ends);

    if (up == TREE_NONE) {
        for (up = 0; is_down(ends, up);)
            up++;
        if (up == ends->position && up > 0)
            visit_below(ends, 0, &visit); /* the others without an ancestor */
    }
    if (up != ends->position)
        each(context, up);
    visit_below(ends, ends->position, &visit);
}

static void set_told(void *context, uint32_t position)
{
    struct ends *ends = context;
    ends->nodes[position] |= TOLD;
}

int ends_init(struct ends *ends, const struct ends_ops *ops, void *context,
              const struct roster *roster, uint32_t position)
{
    *ends = (struct ends){.ops = ops,
                          .context = context,
                          .roster = roster,
                          .position = position,
                          .wait_ns = ENDS_WAIT_MIN_NS,
                          .left = roster->size};
    ends->seats = calloc(roster->size, sizeof(*ends->seats));
    ends->nodes = calloc(roster->nodes, sizeof(*ends->nodes));
    if (!ends->seats || !ends->nodes) {
        ends_deinit(ends);
        return -ENOMEM;
    }
    ends_neighbours(ends, set_told, ends); /* there is nothing to tell yet */
    return 0;
}

void ends_deinit(struct ends *ends)
{
    free(ends->seats);
    free(ends->nodes);
    ends->seats = ends->nodes = NULL;
}

/* ---- what is known ---- */

static void widen(struct ends_span *span, uint32_t at)
{
    if (span->begin == span->end)
        *span = (struct ends_span){at, at};
    span->begin = at < span->begin ? at : span->begin;
    span->end = at + 1 > span->end ? at + 1 : span->end;
}

static void note_news(struct ends *ends, uint32_t from)
{
    if (ends->news) {
        ends->source = ends->source == from ? from : ends->position;
        return;
    }
    ends->news = true;
    ends->source = from;
    ends->ops->later(ends->context);
}

/* Ranks to report: many together, because each report costs the receiver a message. */
struct report {
    struct ends *ends;
    bool node_down;
    size_t count;
    uint32_t ranks[ENDS_REPORTED_MAX];
};

static void report_send(struct report *report)
{
    const struct ends *ends = report->ends;
    const size_t count = report->count;

    report->count = 0;
    if (count > 0)
        ends->ops->ended(ends->context, report->ranks, count, report->node_down);
}

static void report_add(struct report *report, uint32_t rank, bool node_down)
{
    if (report->count == ENDS_REPORTED_MAX || report->node_down != node_down)
        report_send(report);
    report->node_down = node_down;
    report->ranks[report->count++] = rank;
}

/* Those of a node that is down are not news, as that is. */
static void mark_seat(struct report *report, uint32_t seat, bool node_down, uint32_t from)
{
    struct ends *ends = report->ends;

    if (ends->seats[seat] & ENDED)
        return;
    ends->seats[seat] |= ENDED;
    ends->left--;
    if (!node_down) {
        ends->seats[seat] |= FRESH;
        widen(&ends->new_seats, seat);
        note_news(ends, from);
    }
    report_add(report, ends->roster->by_position[seat], node_down);
}

static void mark_down(struct report *report, uint32_t position, uint32_t from)
{
    struct ends *ends = report->ends;
    const uint32_t *starts = ends->roster->starts;

    if (position == ends->position || is_down(ends, position))
        return;
    ends->nodes[position] |= ENDED | FRESH;
    widen(&ends->new_nodes, position);
    note_news(ends, from);
    for (uint32_t seat = starts[position]; seat < starts[position + 1]; seat++)
        mark_seat(report, seat, true, from);
}

static uint32_t seat_of(const struct ends *ends, uint32_t rank)
{
    uint32_t seat = ends->roster->starts[ends->roster->positions[rank]];
    while (ends->roster->by_position[seat] != rank)
        seat++;
    return seat;
}

void ends_rank(struct ends *ends, uint32_t rank)
{
    struct report report = {.ends = ends};
    mark_seat(&report, seat_of(ends, rank), false, ends->position);
    report_send(&report);
}

bool ends_know(const struct ends *ends, uint32_t rank, bool *ret_node_down)
{
    *ret_node_down = is_down(ends, ends->roster->positions[rank]);
    return ends->seats[seat_of(ends, rank)] & ENDED;
}

void ends_node_down(struct ends *ends, uint32_t position)
{
    struct report report = {.ends = ends};
    mark_down(&report, position, ends->position);
    report_send(&report);
}

static bool are_runs(const uint32_t *runs, size_t count, uint32_t limit)
{
    if (count % 2 != 0 || count > 2 * ENDS_RUNS_MAX)
        return false;
    for (size_t i = 0; i < count; i += 2)
        if (runs[i + 1] == 0 || runs[i] >= limit || runs[i + 1] > limit - runs[i])
            return false;
    return true;
}

int ends_receive(struct ends *ends, uint32_t from, const struct ends_news *news)
{
    const struct roster *roster = ends->roster;
    struct report report = {.ends = ends};

    if (!are_runs(news->ended, news->n_ended, roster->size) ||
        !are_runs(news->down, news->n_down, roster->nodes))
        return -EPROTO;
    if (is_down(ends, from))
        return -EHOSTDOWN;
    for (size_t i = 0; i < news->n_down; i += 2)
        for (uint32_t k = 0; k < news->down[i + 1]; k++)
            mark_down(&report, news->down[i] + k, from);
    /* Nobody else knows better what has ended here. */
    const uint32_t own = roster->starts[ends->position],
                   behind = roster->starts[ends->position + 1];
    for (size_t i = 0; i < news->n_ended; i += 2)
        for (uint32_t k = 0; k < news->ended[i + 1]; k++) {
            const uint32_t seat = news->ended[i] + k;
            if (seat < own || seat >= behind)
                mark_seat(&report, seat, false, from);
        }
    report_send(&report);
    return 0;
}

/* ---- messages ---- */

struct batch {
    struct ends *ends;
    uint32_t to;                         /* TREE_NONE: all neighbours that know the rest already */
    uint32_t runs[2][2 * ENDS_RUNS_MAX]; /* nodes that are down, seats */
    size_t counts[2];
};

static void send_to(void *context, uint32_t position)
{
    const struct batch *batch = context;
    const struct ends *ends = batch->ends;
    const struct ends_news news = {
        .down = batch->runs[0],
        .n_down = batch->counts[0],
        .ended = batch->runs[1],
        .n_ended = batch->counts[1],
    };
    if (batch->to == position ||
        (batch->to == TREE_NONE && (ends->nodes[position] & TOLD) && position != ends->source))
        ends->ops->send(ends->context, position, &news);
}

static void send_batch(struct batch *batch)
{
    if (batch->counts[0] + batch->counts[1] == 0)
        return;
    if (batch->to == TREE_NONE)
        ends_neighbours(batch->ends, send_to, batch);
    else
        send_to(batch, batch->to);
    batch->counts[0] = batch->counts[1] = 0;
}

/* The next with any of these flags. */
static uint32_t find(const uint8_t *flags, uint32_t at, uint32_t end, uint8_t wanted)
{
    uint64_t eight;
    for (; end - at >= sizeof(eight); at += sizeof(eight)) {
        memcpy(&eight, flags + at, sizeof(eight));
        if (eight & wanted * UINT64_C(0x0101010101010101))
            break;
    }
    while (at < end && !(flags[at] & wanted))
        at++;
    return at;
}

/* The flag FRESH is taken back. */
static void add_runs(struct batch *batch, unsigned kind, uint8_t *flags, struct ends_span span,
                     uint8_t wanted)
{
    for (uint32_t at = span.begin; (at = find(flags, at, span.end, wanted)) < span.end; at++) {
        size_t *count = &batch->counts[kind];
        uint32_t *runs = batch->runs[kind];
        if (wanted == FRESH)
            flags[at] &= (uint8_t)~FRESH;
        if (*count > 0 && runs[*count - 2] + runs[*count - 1] == at) {
            runs[*count - 1]++;
            continue;
        }
        if (*count == 2 * ENDS_RUNS_MAX)
            send_batch(batch);
        runs[*count] = at;
        runs[*count + 1] = 1;
        *count += 2;
    }
}

/* All that is known. Nodes first: otherwise their ranks would have ended while they are up. */
static void tell_all(void *context, uint32_t position)
{
    struct ends *ends = context;
    struct batch batch = {.ends = ends, .to = position};

    if (ends->nodes[position] & TOLD)
        return;
    ends->nodes[position] |= TOLD;
    add_runs(&batch, 0, ends->nodes, (struct ends_span){0, ends->roster->nodes}, ENDED);
    add_runs(&batch, 1, ends->seats, (struct ends_span){0, ends->roster->size}, ENDED);
    send_batch(&batch);
}

uint64_t ends_due(const struct ends *ends, uint64_t now_ns, bool own)
{
    const uint64_t earliest = own ? now_ns : now_ns + ENDS_WAIT_MIN_NS,
                   due = ends->told_ns + ends->wait_ns;
    return due > earliest ? due : earliest;
}

static void set_pace(struct ends *ends, uint64_t now_ns)
{
    const uint64_t gap = now_ns - ends->told_ns;

    if (ends->told_ns == 0 || gap >= 2 * ends->wait_ns)
        ends->wait_ns = ENDS_WAIT_MIN_NS;
    else if (ends->wait_ns < ENDS_WAIT_MAX_NS)
        ends->wait_ns *= 2;
    ends->told_ns = now_ns;
}

void ends_flush(struct ends *ends, uint64_t now_ns)
{
    struct batch batch = {.ends = ends, .to = TREE_NONE};

    if (!ends->news)
        return;
    set_pace(ends, now_ns);
    add_runs(&batch, 0, ends->nodes, ends->new_nodes, FRESH);
    add_runs(&batch, 1, ends->seats, ends->new_seats, FRESH);
    send_batch(&batch);
    ends->new_nodes = ends->new_seats = (struct ends_span){0, 0};
    ends_neighbours(ends, tell_all, ends);
    ends->news = false;
}
