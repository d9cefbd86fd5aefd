/* Along trees: broadcasts, reduces and barriers. What goes along one in segments arrives more and
 * more slowly where a rank takes longer for each: the times of the first and the last segment tell
 * those between. */
#include "client/coll/model.h"

#include <errno.h>
#include <string.h>

static uint64_t *cleared(const struct coll_model *model, int index)
{
    return memset(model->clocks[index], 0, model->size * sizeof(uint64_t));
}

static uint64_t latest(const uint64_t *clocks, uint32_t count)
{
    uint64_t ns = 0;

    for (uint32_t i = 0; i < count; i++)
        ns = coll_model_later(ns, clocks[i]);
    return ns;
}

const struct coll_edges *coll_model_edges(struct coll_model *model,
                                          enum tca_coll_algorithm algorithm, uint32_t turn)
{
    const struct coll_shape *shape = model->shape;
    const uint32_t root = shape->operation == COLL_BARRIER ? 0 : shape->root;
    struct coll_edges *edges = &model->edges[turn];

    for (uint32_t i = 0; model->edges_of != algorithm && i < COLL_CHAINS_MAX; i++)
        coll_edges_deinit(&model->edges[i]);
    model->edges_of = algorithm;
    if (!edges->children && coll_edges_init(edges, algorithm, root, turn, &shape->places) < 0)
        return NULL;
    return edges;
}

/* ---- down: a rank hands each segment on to its children, in their order */

struct part {
    uint64_t bytes; /* of a segment */
    uint32_t segments;
    uint64_t copy; /* of a segment that does not arrive where it is to be */
    bool credits;
    uint64_t *first; /* [size]: when a rank is done with the first segment */
    /* When the root has put the first and the last segment to each child; NULL: as other ranks. */
    const uint64_t *root_first, *root_last;
};

/* By rank: of the last segment, and what each segment takes. */
struct stream {
    uint64_t *last, *round;
};

/* When a rank begins with its last segment: it has arrived, and those before are done. */
static uint64_t begin_last(const struct part *part, const struct stream *stream, uint32_t rank,
                           uint64_t arrival_ns)
{
    return coll_model_later(arrival_ns,
                            part->first[rank] + (part->segments - 2) * stream->round[rank]);
}

/* The last segments, once the first ones are known. */
static void descend_again(const struct coll_model *model, const struct coll_edges *edges,
                          uint32_t root, const struct part *part, const uint64_t *put)
{
    const struct stream stream = {cleared(model, COLL_CHAINS_MAX),
                                  cleared(model, COLL_CHAINS_MAX + 1)};

    for (uint32_t rank = 0; rank < model->size; rank++)
        stream.round[rank] = rank == root ? 0 : part->copy;
    for (uint32_t i = 0; i < edges->count; i++)
        stream.round[edges->parents[i]] +=
            put[coll_model_level(model, edges->parents[i], edges->children[i])];
    stream.last[root] = begin_last(part, &stream, root, 0);
    for (uint32_t i = 0; i < edges->count; i++) {
        uint32_t above = edges->parents[i], below = edges->children[i];
        enum coll_level level = coll_model_level(model, above, below);
        stream.last[above] =
            above == root && part->root_last ? part->root_last[i] : stream.last[above] + put[level];
        stream.last[below] =
            begin_last(part, &stream, below, stream.last[above] + model->links[level]->latency_ns);
    }
    for (uint32_t rank = 0; rank < model->size; rank++)
        part->first[rank] = stream.last[rank] + (rank == root ? 0 : part->copy);
}

static void descend(const struct coll_model *model, const struct coll_edges *edges, uint32_t root,
                    const struct part *part)
{
    uint64_t put[COLL_LEVELS], *first = part->first;

    for (int level = 0; level < COLL_LEVELS; level++)
        put[level] = coll_model_put(model->links[level], part->bytes);
    for (uint32_t i = 0; i < edges->count; i++) {
        uint32_t above = edges->parents[i], below = edges->children[i];
        enum coll_level level = coll_model_level(model, above, below);
        const struct tca_coll_link *link = model->links[level];
        if (part->credits)
            first[above] = coll_model_later(first[above], link->overhead_ns + link->latency_ns);
        first[above] =
            above == root && part->root_first ? part->root_first[i] : first[above] + put[level];
        first[below] = first[above] + link->latency_ns;
    }
    for (uint32_t rank = 0; part->copy && rank < model->size; rank++)
        first[rank] += rank == root ? 0 : part->copy;
    if (part->segments > 1)
        descend_again(model, edges, root, part, put);
}

static struct part part_of(const struct coll_model *model, enum tca_coll_algorithm algorithm,
                           uint32_t turn, uint64_t segment_bytes)
{
    enum { UNIT_BYTES = 64 };
    const struct coll_shape *shape = model->shape;
    const uint32_t parts = algorithm == TCA_COLL_TRINARY ? COLL_CHAINS_MAX : 1;
    const uint64_t bytes = coll_part(shape->bytes, UNIT_BYTES, parts, turn).bytes;
    const uint32_t segments = coll_segments(bytes, segment_bytes);
    const uint64_t each = coll_part(bytes, UNIT_BYTES, segments, segments / 2).bytes;
    const bool in_advance = shape->bytes <= COLL_SHORT_BYTES;

    return (struct part){.bytes = each,
                         .segments = segments,
                         .copy = in_advance ? coll_model_copy(model, each) : 0,
                         .credits = !in_advance,
                         .first = cleared(model, (int)turn)};
}

/* ---- three trees: their root serves one of them at a time, what it can serve first */

enum { BRANCHES = 3 };

struct trunk {
    uint64_t put[BRANCHES], credits[BRANCHES];
    uint64_t first[BRANCHES], second[BRANCHES], last[BRANCHES];
    uint32_t branches, done, count; /* of puts */
    uint64_t clock;
};

static void begin_trunk(struct trunk *trunk, const struct coll_model *model,
                        const struct coll_edges *edges, const struct part *part)
{
    *trunk = (struct trunk){0};
    while (trunk->branches < BRANCHES && trunk->branches < edges->count &&
           edges->parents[trunk->branches] == model->shape->root) {
        uint32_t i = trunk->branches++;
        const struct tca_coll_link *link =
            coll_model_link(model, edges->parents[i], edges->children[i]);
        trunk->put[i] = coll_model_put(link, part->bytes);
        trunk->credits[i] = part->credits ? link->overhead_ns + link->latency_ns : 0;
    }
    trunk->count = trunk->branches * part->segments;
}

/* When it can put next. */
static uint64_t ready(const struct trunk *trunk, uint64_t busy)
{
    uint64_t credit = trunk->done < trunk->branches ? trunk->credits[trunk->done] : 0;

    return coll_model_later(coll_model_later(trunk->clock, credit), busy);
}

static void serve(struct trunk *trunks, const struct part *parts)
{
    uint64_t busy = 0, begin = 0;

    for (const struct trunk *next = trunks; next;) {
        next = NULL;
        for (uint32_t turn = 0; turn < COLL_CHAINS_MAX; turn++) {
            const struct trunk *trunk = &trunks[turn];
            uint64_t at = ready(trunk, parts[turn].bytes ? busy : 0);
            if (trunk->done < trunk->count && (!next || at < begin)) {
                next = trunk;
                begin = at;
            }
        }
        if (!next)
            break;
        struct trunk *trunk = &trunks[next - trunks];
        uint32_t branch = trunk->done % trunk->branches;
        trunk->clock = trunk->last[branch] = begin + trunk->put[branch];
        if (trunk->done < trunk->branches)
            trunk->first[branch] = trunk->clock;
        else if (trunk->done < 2 * trunk->branches)
            trunk->second[branch] = trunk->clock;
        trunk->done++;
        busy = parts[next - trunks].bytes ? trunk->clock : busy;
    }
}

/* The other trees can come between the first segment and the second: it is then as late as those
 * after it tell. */
static void even_out(struct trunk *trunk, uint32_t segments)
{
    for (uint32_t i = 0; segments > 2 && i < trunk->branches; i++) {
        uint64_t apart = (trunk->last[i] - trunk->second[i]) / (segments - 2);
        if (trunk->second[i] > trunk->first[i] + apart)
            trunk->first[i] = trunk->second[i] - apart;
    }
}

/* A rank copies what arrives along them, one after another. Returns when it is done. */
static uint64_t join(const struct coll_model *model, const struct part *parts, uint32_t rank)
{
    const struct part *order[COLL_CHAINS_MAX];
    uint64_t ns = 0;

    for (uint32_t turn = 0; turn < COLL_CHAINS_MAX; turn++) {
        uint32_t i = turn;
        for (; i > 0 && order[i - 1]->first[rank] > parts[turn].first[rank]; i--)
            order[i] = order[i - 1];
        order[i] = &parts[turn];
    }
    for (uint32_t i = 0; i < COLL_CHAINS_MAX; i++) {
        uint64_t copy = rank == model->shape->root ? 0 : order[i]->copy;
        ns = coll_model_later(order[i]->first[rank], ns + copy);
    }
    return ns;
}

static int trinary_ns(struct coll_model *model, uint64_t segment_bytes, uint64_t *ret_ns)
{
    const uint32_t root = model->shape->root;
    struct trunk trunks[COLL_CHAINS_MAX];
    struct part parts[COLL_CHAINS_MAX];

    for (uint32_t turn = 0; turn < COLL_CHAINS_MAX; turn++) {
        const struct coll_edges *edges = coll_model_edges(model, TCA_COLL_TRINARY, turn);
        if (!edges)
            return -ENOMEM;
        parts[turn] = part_of(model, TCA_COLL_TRINARY, turn, segment_bytes);
        begin_trunk(&trunks[turn], model, edges, &parts[turn]);
    }
    serve(trunks, parts);
    for (uint32_t turn = 0; turn < COLL_CHAINS_MAX; turn++) {
        even_out(&trunks[turn], parts[turn].segments);
        parts[turn].root_first = trunks[turn].first;
        parts[turn].root_last = trunks[turn].last;
        descend(model, &model->edges[turn], root, &parts[turn]);
        parts[turn].first[root] = trunks[turn].clock;
    }
    *ret_ns = 0;
    for (uint32_t rank = 0; rank < model->size; rank++)
        *ret_ns = coll_model_later(*ret_ns, join(model, parts, rank));
    return 0;
}

static int broadcast_ns(struct coll_model *model, enum tca_coll_algorithm algorithm,
                        uint64_t segment_bytes, uint64_t *ret_ns)
{
    if (algorithm == TCA_COLL_TRINARY)
        return trinary_ns(model, segment_bytes, ret_ns);
    const struct part part = part_of(model, algorithm, 0, segment_bytes);
    const struct coll_edges *edges = coll_model_edges(model, algorithm, 0);
    if (!edges)
        return -ENOMEM;
    descend(model, edges, model->shape->root, &part);
    *ret_ns = latest(part.first, model->size);
    return 0;
}

/* ---- up: a rank combines each segment of its children with its own, in their order */

/* By rank. */
struct sums {
    uint64_t *first;   /* without waiting for children, then with them */
    uint64_t *last;    /* of the last segment: with them */
    uint64_t *round;   /* what each segment takes */
    uint64_t *credits; /* when it may put to its parent */
    uint64_t *counts;  /* children */
};

/* Credits go to the children before the first segment; each rank copies its own. */
static void begin_up(const struct coll_model *model, const struct coll_edges *edges,
                     const struct sums *sums, uint64_t copy, uint64_t combine)
{
    const struct coll_shape *shape = model->shape;

    for (uint32_t i = 0; i < edges->count; i++) {
        uint32_t above = edges->parents[i], below = edges->children[i];
        const struct tca_coll_link *link = coll_model_link(model, above, below);
        sums->first[above] += link->overhead_ns;
        sums->credits[below] = sums->first[above] + link->latency_ns;
        sums->counts[above]++;
    }
    for (uint32_t rank = 0; rank < model->size; rank++) {
        if (sums->counts[rank] && !(rank == shape->root && shape->in_place))
            sums->round[rank] = copy;
        sums->round[rank] += sums->counts[rank] * combine;
        sums->first[rank] += sums->round[rank];
        sums->counts[rank] = 0; /* that have been seen, from the last one on */
    }
}

/* Of so many segments more than one. */
static uint64_t climb(const struct coll_model *model, const struct coll_edges *edges,
                      uint64_t bytes, uint64_t more)
{
    const struct sums sums = {cleared(model, 0), cleared(model, 1), cleared(model, 2),
                              cleared(model, 3), cleared(model, 4)};
    const uint64_t combine = coll_model_combine(model, bytes);
    const uint32_t root = model->shape->root;
    uint64_t put[COLL_LEVELS];

    for (int level = 0; level < COLL_LEVELS; level++)
        put[level] = coll_model_put(model->links[level], bytes);
    begin_up(model, edges, &sums, coll_model_copy(model, bytes), combine);
    for (uint32_t i = edges->count; i > 0; i--) {
        uint32_t above = edges->parents[i - 1], below = edges->children[i - 1];
        enum coll_level level = coll_model_level(model, above, below);
        uint64_t first = coll_model_later(sums.first[below], sums.credits[below]) + put[level];
        uint64_t last = coll_model_later(sums.last[below] + put[level],
                                         first + more * (sums.round[below] + put[level]));
        uint64_t after = model->links[level]->latency_ns + ++sums.counts[above] * combine;
        sums.first[above] = coll_model_later(sums.first[above], first + after);
        sums.last[above] = coll_model_later(sums.last[above], last + after);
    }
    return coll_model_later(sums.last[root], sums.first[root] + more * sums.round[root]);
}

/* All vectors go to the root, which combines them in the order of ranks. */
static uint64_t reduce_direct(const struct coll_model *model)
{
    const struct coll_shape *shape = model->shape;
    const uint32_t root = shape->root;
    const uint64_t copy = coll_model_copy(model, shape->bytes);
    const uint64_t combine = coll_model_combine(model, shape->bytes);
    uint64_t credit = 0, clock = 0;

    for (uint32_t rank = 0; rank < model->size; rank++)
        clock += rank == root ? 0 : coll_model_link(model, rank, root)->overhead_ns;
    if (shape->in_place && root != 0)
        clock += copy;
    for (uint32_t rank = 0; rank < model->size; rank++) {
        if (rank != root) {
            const struct tca_coll_link *link = coll_model_link(model, rank, root);
            credit += link->overhead_ns;
            clock = coll_model_later(clock, credit + 2 * link->latency_ns +
                                                coll_model_put(link, shape->bytes));
        }
        if (rank > 0)
            clock += combine;
        else if (!(shape->in_place && root == 0))
            clock += copy;
    }
    return clock;
}

/* ---- barriers: up and down again */

static uint64_t barrier_ns(const struct coll_model *model, const struct coll_edges *edges)
{
    uint64_t *clocks = cleared(model, 0);

    for (uint32_t i = edges->count; i > 0; i--) {
        uint32_t above = edges->parents[i - 1], below = edges->children[i - 1];
        const struct tca_coll_link *link = coll_model_link(model, above, below);
        clocks[below] += link->overhead_ns;
        clocks[above] = coll_model_later(clocks[above], clocks[below] + link->latency_ns);
    }
    for (uint32_t i = 0; i < edges->count; i++) {
        uint32_t above = edges->parents[i], below = edges->children[i];
        const struct tca_coll_link *link = coll_model_link(model, above, below);
        clocks[above] += link->overhead_ns;
        clocks[below] = clocks[above] + link->latency_ns;
    }
    return latest(clocks, model->size);
}

int coll_model_tree(struct coll_model *model, enum tca_coll_algorithm algorithm,
                    uint64_t segment_bytes, uint64_t *ret_ns)
{
    const struct coll_shape *shape = model->shape;

    if (shape->operation == COLL_BROADCAST)
        return broadcast_ns(model, algorithm, segment_bytes, ret_ns);
    if (algorithm == TCA_COLL_DIRECT) {
        *ret_ns = reduce_direct(model);
        return 0;
    }
    const struct coll_edges *edges = coll_model_edges(model, algorithm, 0);
    if (!edges)
        return -ENOMEM;
    if (shape->operation == COLL_BARRIER) {
        *ret_ns = barrier_ns(model, edges);
        return 0;
    }
    uint32_t segments = coll_segments(shape->bytes, segment_bytes);
    *ret_ns = climb(model, edges,
                    coll_part(shape->bytes, shape->element_bytes, segments, segments / 2).bytes,
                    segments - 1);
    return 0;
}
