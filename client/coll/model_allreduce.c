/* Allreduces in rounds of pairs, and inside nodes and clusters to their leaders. */
#include "client/coll/model.h"

static uint32_t power_below(uint32_t count)
{
    uint32_t power = 1;

    while (power <= count / 2)
        power *= 2;
    return power;
}

/* Pairs exchange and combine; the ranks beyond a power of two before and after. `team`: NULL: all
 * ranks. clocks: of the team, when they begin, then when they are done. */
struct doubling {
    const struct coll_model *model;
    const uint32_t *team;
    uint32_t count;
    uint64_t combine, put[COLL_LEVELS];
};

static enum coll_level level_of(const struct doubling *d, uint32_t a, uint32_t b)
{
    return d->team ? coll_model_level(d->model, d->team[a], d->team[b])
                   : coll_model_level(d->model, a, b);
}

static uint64_t sent(const struct doubling *d, enum coll_level level)
{
    return d->put[level] + d->model->links[level]->latency_ns;
}

static void double_up(const struct doubling *d, uint64_t *clocks, uint64_t *before, uint64_t *after)
{
    const uint32_t power = power_below(d->count), more = d->count - power;
    const uint32_t period = d->team || more ? power : d->model->period;
    /* what happens in a period of 2^n ranks happens in all of them */
    const uint32_t alike = period & (period - 1) ? power : period;

    for (uint32_t i = 0; i < alike; i++) {
        before[i] = clocks[i < more ? 2 * i : i + more];
        if (i < more)
            before[i] = coll_model_later(before[i], clocks[2 * i + 1] +
                                                        sent(d, level_of(d, 2 * i + 1, 2 * i))) +
                        d->combine;
    }
    for (uint32_t distance = 1; distance < power; distance *= 2) {
        for (uint32_t i = 0; i < alike; i++) {
            uint32_t other = i ^ distance;
            uint32_t a = i < more ? 2 * i : i + more;
            uint32_t b = other < more ? 2 * other : other + more;
            enum coll_level level = level_of(d, a, b);
            after[i] = coll_model_later(before[i] + d->put[level],
                                        before[other & (alike - 1)] + sent(d, level)) +
                       d->combine;
        }
        uint64_t *swapped = before;
        before = after;
        after = swapped;
    }
    for (uint32_t i = 0; i < power; i++) {
        clocks[i < more ? 2 * i : i + more] = before[i & (alike - 1)];
        if (i < more) {
            enum coll_level level = level_of(d, 2 * i, 2 * i + 1);
            clocks[2 * i] += d->put[level];
            clocks[2 * i + 1] = clocks[2 * i] + d->model->links[level]->latency_ns;
        }
    }
}

static struct doubling doubling_of(const struct coll_model *model, const uint32_t *team,
                                   uint32_t count)
{
    const uint64_t bytes = model->shape->bytes;
    struct doubling d = {model, team, count, coll_model_combine(model, bytes), {0}};

    for (int level = 0; level < COLL_LEVELS; level++)
        d.put[level] = coll_model_put(model->links[level], bytes);
    return d;
}

static uint64_t latest(const uint64_t *clocks, uint32_t count)
{
    uint64_t ns = 0;

    for (uint32_t i = 0; i < count; i++)
        ns = coll_model_later(ns, clocks[i]);
    return ns;
}

uint64_t coll_model_doubling(const struct coll_model *model)
{
    const struct doubling d = doubling_of(model, NULL, model->size);
    uint64_t *clocks = model->clocks[0];

    for (uint32_t rank = 0; rank < model->size; rank++)
        clocks[rank] = 0;
    double_up(&d, clocks, model->clocks[1], model->clocks[2]);
    return latest(clocks, model->size) + coll_model_copy(model, model->shape->bytes);
}

/* ---- by places */

struct places {
    uint32_t *above; /* the rank that a rank reports to: itself, if it leads a cluster */
    uint32_t *top;   /* [top_count] */
    uint32_t top_count;
};

static bool leads_cluster(const struct places *places, uint32_t rank)
{
    return places->above[rank] == rank;
}

/* Ranks report to the leaders of clusters, or to others. */
static void report(const struct doubling *d, const struct places *places, bool to_clusters,
                   uint64_t *clocks)
{
    for (uint32_t rank = 0; rank < d->model->size; rank++) {
        uint32_t above = places->above[rank];
        if (above == rank || leads_cluster(places, above) != to_clusters)
            continue;
        uint64_t arrival = clocks[rank] + sent(d, coll_model_level(d->model, rank, above));
        clocks[above] = coll_model_later(clocks[above], arrival) + d->combine;
    }
}

static void tell(const struct doubling *d, const struct places *places, bool from_clusters,
                 uint64_t *clocks)
{
    for (uint32_t rank = 0; rank < d->model->size; rank++) {
        uint32_t above = places->above[rank];
        if (above == rank || leads_cluster(places, above) != from_clusters)
            continue;
        enum coll_level level = coll_model_level(d->model, rank, above);
        clocks[above] += d->put[level];
        clocks[rank] = clocks[above] + d->model->links[level]->latency_ns;
    }
}

uint64_t coll_model_by_places(const struct coll_model *model)
{
    const uint32_t size = model->size;
    const uint64_t copy = coll_model_copy(model, model->shape->bytes);
    const bool one_cluster = coll_one_cluster(&model->shape->places);
    uint64_t *clocks = model->clocks[0], *team_clocks = model->clocks[1];
    uint32_t *ranks = (uint32_t *)model->clocks[4];
    struct places places = {ranks, ranks + size, 0};

    for (uint32_t rank = 0; rank < size; rank++) {
        uint32_t node = model->node_leaders[rank];
        uint32_t cluster = one_cluster ? node : model->cluster_leaders[rank];
        places.above[rank] = node == rank ? cluster : node;
        if (cluster == rank)
            places.top[places.top_count++] = rank;
        clocks[rank] = 0;
    }
    for (uint32_t rank = 0; rank < size; rank++)
        if (places.above[rank] != rank)
            clocks[places.above[rank]] = copy;
    const struct doubling d = doubling_of(model, places.top, places.top_count);
    report(&d, &places, false, clocks);
    report(&d, &places, true, clocks);
    for (uint32_t i = 0; i < places.top_count; i++)
        team_clocks[i] = clocks[places.top[i]];
    double_up(&d, team_clocks, model->clocks[2], model->clocks[3]);
    for (uint32_t i = 0; i < places.top_count; i++)
        clocks[places.top[i]] = team_clocks[i];
    tell(&d, &places, true, clocks);
    tell(&d, &places, false, clocks);
    return latest(clocks, size) + copy;
}
