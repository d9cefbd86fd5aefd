#include "daemon/groups/ends.h"

#include <errno.h>
#include <stdlib.h>

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

/* Those of a node that is down are not news, as that is. */
static void mark_seat(struct ends *ends, uint32_t seat, bool node_down, uint32_t from)
{
    if (ends->seats[seat] & ENDED)
        return;
    ends->seats[seat] |= ENDED;
    ends->left--;
    if (!node_down) {
        ends->seats[seat] |= FRESH;
        widen(&ends->new_seats, seat);
        note_news(ends, from);
    }
    ends->ops->ended(ends->context, ends->roster->by_position[seat], node_down);
}

static void mark_down(struct ends *ends, uint32_t position, uint32_t from)
{
    const uint32_t *starts = ends->roster->starts;

    if (position == ends->position || is_down(ends, position))
        return;
    ends->nodes[position] |= ENDED | FRESH;
    widen(&ends->new_nodes, position);
    note_news(ends, from);
    for (uint32_t seat = starts[position]; seat < starts[position + 1]; seat++)
        mark_seat(ends, seat, true, from);
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
    mark_seat(ends, seat_of(ends, rank), false, ends->position);
}

bool ends_know(const struct ends *ends, uint32_t rank, bool *ret_node_down)
{
    *ret_node_down = is_down(ends, ends->roster->positions[rank]);
    return ends->seats[seat_of(ends, rank)] & ENDED;
}

void ends_node_down(struct ends *ends, uint32_t position)
{
    mark_down(ends, position, ends->position);
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

    if (!are_runs(news->ended, news->n_ended, roster->size) ||
        !are_runs(news->down, news->n_down, roster->nodes))
        return -EPROTO;
    if (is_down(ends, from))
        return -EHOSTDOWN;
    for (size_t i = 0; i < news->n_down; i += 2)
        for (uint32_t k = 0; k < news->down[i + 1]; k++)
            mark_down(ends, news->down[i] + k, from);
    /* Nobody else knows better what has ended here. */
    const uint32_t own = roster->starts[ends->position],
                   behind = roster->starts[ends->position + 1];
    for (size_t i = 0; i < news->n_ended; i += 2)
        for (uint32_t k = 0; k < news->ended[i + 1]; k++) {
            const uint32_t seat = news->ended[i] + k;
            if (seat < own || seat >= behind)
                mark_seat(ends, seat, false, from);
        }
    return 0;
}

/* ---- messages ---- */

struct batch {
    const struct ends *ends;
    uint32_t to;
    uint32_t runs[2][2 * ENDS_RUNS_MAX]; /* nodes that are down, seats */
    size_t counts[2];
};

static void send_batch(struct batch *batch)
{
    const struct ends *ends = batch->ends;
    const struct ends_news news = {
        .down = batch->runs[0],
        .n_down = batch->counts[0],
        .ended = batch->runs[1],
        .n_ended = batch->counts[1],
    };
    if (news.n_down + news.n_ended > 0)
        ends->ops->send(ends->context, batch->to, &news);
    batch->counts[0] = batch->counts[1] = 0;
}

static void add_runs(struct batch *batch, unsigned kind, const uint8_t *flags,
                     struct ends_span span, uint8_t wanted)
{
    for (uint32_t at = span.begin; at < span.end; at++) {
        size_t *count = &batch->counts[kind];
        uint32_t *runs = batch->runs[kind];
        if (!(flags[at] & wanted))
            continue;
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

/* Nodes first: otherwise their ranks would have ended while they are up. */
static void tell(void *context, uint32_t position)
{
    struct ends *ends = context;
    struct batch batch = {.ends = ends, .to = position};

    if (!(ends->nodes[position] & TOLD)) {
        ends->nodes[position] |= TOLD;
        add_runs(&batch, 0, ends->nodes, (struct ends_span){0, ends->roster->nodes}, ENDED);
        add_runs(&batch, 1, ends->seats, (struct ends_span){0, ends->roster->size}, ENDED);
    } else if (position != ends->source) {
        add_runs(&batch, 0, ends->nodes, ends->new_nodes, FRESH);
        add_runs(&batch, 1, ends->seats, ends->new_seats, FRESH);
    }
    send_batch(&batch);
}

static void clear_fresh(uint8_t *flags, struct ends_span *span)
{
    for (uint32_t at = span->begin; at < span->end; at++)
        flags[at] &= (uint8_t)~FRESH;
    *span = (struct ends_span){0, 0};
}

void ends_flush(struct ends *ends)
{
    if (!ends->news)
        return;
    ends_neighbours(ends, tell, ends);
    clear_fresh(ends->nodes, &ends->new_nodes);
    clear_fresh(ends->seats, &ends->new_seats);
    ends->news = false;
}
