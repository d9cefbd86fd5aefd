#include "tools/tca-bench/pair.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct introduction {
    struct tca_handle handle;
    char boot_id[40];
};

/* Processes that read the same id run on one kernel and share its clock. */
static void read_boot_id(char *ret_id, size_t bytes)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    memset(ret_id, 0, bytes);
    if (fd < 0)
        return;
    if (read(fd, ret_id, bytes - 1) < 0)
        memset(ret_id, 0, bytes);
    close(fd);
}

static int introduce(struct pair *pair)
{
    struct introduction mine = {0};
    struct introduction both[2];
    int r = tca_region_handle(pair->region, 0, TCA_ALL, &mine.handle);

    if (r < 0)
        return r;
    read_boot_id(mine.boot_id, sizeof(mine.boot_id));
    r = tca_allgather(pair->session, &mine, sizeof(mine), both, TCA_DEFAULT);
    if (r < 0)
        return r;
    pair->target = both[pair->peer].handle;
    pair->same_clock =
        mine.boot_id[0] && memcmp(both[0].boot_id, both[1].boot_id, sizeof(mine.boot_id)) == 0;
    return 0;
}

int pair_open(const struct cpus *cpus, double seconds, struct pair *ret_pair)
{
    struct pair pair = {.cpus = *cpus, .seconds = seconds};
    int r = tca_open(NULL, &pair.session);

    if (r < 0) {
        fprintf(stderr, "tca-bench: %s\n", tca_error_text());
        return r;
    }
    if (tca_size(pair.session) != 2) {
        fprintf(stderr,
                "tca-bench: this job has %u ranks, but the benchmarks need 2: start it with -n 2\n",
                tca_size(pair.session));
        tca_close(pair.session);
        return -EINVAL;
    }
    pair.me = tca_rank(pair.session);
    pair.peer = 1 - pair.me;
    pair.same_node = tca_node_of(pair.session, 0) == tca_node_of(pair.session, 1);
    r = cpu_pin(cpus->cpu[pair.me]);
    if (r < 0)
        fprintf(stderr, "tca-bench: rank %u may not use processor %d\n", pair.me,
                cpus->cpu[pair.me]);
    if (r >= 0) {
        r = tca_region_alloc(pair.session, 2 * (uint64_t)AREA_BYTES, &pair.region);
        if (r >= 0) {
            pair.send = tca_region_address(pair.region);
            pair.receive = pair.send + AREA_BYTES;
            memset(pair.send, 1,
                   2 * (size_t)AREA_BYTES); /* avoids page faults during measurements */
            r = introduce(&pair);
        }
        if (r < 0)
            fprintf(stderr, "tca-bench: rank %u: %s\n", pair.me, tca_error_text());
    }
    if (r < 0) {
        pair_close(&pair);
        return r;
    }
    *ret_pair = pair;
    return 0;
}

void pair_close(struct pair *pair)
{
    tca_close(pair->session);
    pair->session = NULL;
}

struct shape pair_shape(bool strided, uint64_t bytes)
{
    uint64_t block = bytes < 512 ? 8 : 512;

    if (!strided || bytes < 2 * block)
        return (struct shape){.count = 1, .block = bytes, .stride = bytes};
    return (struct shape){.count = bytes / block, .block = block, .stride = 2 * block};
}

int pair_plan_route(struct pair *pair, const struct variant *variant, const struct route *route,
                    const struct shape *shape, int slot, struct tca_plan **ret_plan)
{
    struct tca_plan_args args = {.name = "tca-bench",
                                 .rail = variant->rail,
                                 .rail_name = variant->rail_name,
                                 .seat = variant->seat,
                                 .channel = route->channel};
    struct tca_layout *layout = NULL;
    struct tca_plan *plan = NULL;
    int r = tca_layout_strided(shape->count, shape->block, (int64_t)shape->stride, &layout);

    if (r >= 0)
        r = tca_plan_new(pair->session, &args, &plan);
    if (r >= 0) {
        struct tca_put put = {
            .source = route->source,
            .source_layout = layout,
            .target = route->target,
            .target_offset_bytes = route->target_offset,
            .target_layout = layout,
        };

        r = tca_plan_put(plan, &put);
    }
    if (r >= 0 && slot >= 0)
        r = tca_plan_notify(plan, pair->peer, (uint32_t)slot);
    if (r >= 0)
        r = tca_plan_commit(plan, TCA_DEFAULT);
    tca_layout_free(layout);
    if (r < 0) {
        tca_plan_free(plan);
        return r;
    }
    *ret_plan = plan;
    return 0;
}

int pair_plan(struct pair *pair, const struct variant *variant, const struct shape *shape, int slot,
              struct tca_plan **ret_plan)
{
    const struct route route = {
        .source = pair->region, .target = pair->target, .target_offset = AREA_BYTES};

    return pair_plan_route(pair, variant, &route, shape, slot, ret_plan);
}

int pair_agree(struct pair *pair, int mine)
{
    int both[2];

    if (mine < 0) /* before the other rank fails for it */
        fprintf(stderr, "tca-bench: rank %u: %s: %s\n", pair->me, tca_strerror(mine),
                tca_error_text());
    int r = tca_allgather(pair->session, &mine, sizeof(mine), both, TCA_DEFAULT);

    if (r < 0)
        return r;
    if (both[0] < 0 || both[1] < 0)
        return both[0] < 0 ? both[0] : both[1];
    return both[0] > both[1] ? both[0] : both[1];
}

int pair_leads(struct pair *pair, const struct variant *variant)
{
    const struct shape shape = pair_shape(false, 8);
    struct tca_plan *plan = NULL;
    int both[2];
    int mine = pair_plan(pair, variant, &shape, -1, &plan);
    tca_plan_free(plan);
    int r = tca_allgather(pair->session, &mine, sizeof(mine), both, TCA_DEFAULT);
    return r < 0 ? r : both[0] >= 0 && both[1] >= 0;
}

int pair_share(struct pair *pair, uint64_t *number)
{
    uint64_t both[2];
    int r = tca_allgather(pair->session, number, sizeof(*number), both, TCA_DEFAULT);

    if (r < 0)
        return r;
    *number = both[0];
    return 0;
}

int pair_line(struct pair *pair, double *ret_line_ns)
{
    /* Rank 1 sleeps in the second barrier until rank 0 has measured. */
    int r = tca_barrier(pair->session, TCA_DEFAULT);

    if (r < 0)
        return r;
    double line = pair->me == 0 ? line_ns(&pair->cpus) : 0;
    r = tca_barrier(pair->session, TCA_DEFAULT);
    if (r < 0)
        return r;
    *ret_line_ns = line;
    return 0;
}

int pair_wait(struct pair *pair, uint32_t slot)
{
    return tca_notified_wait(pair->session, pair->peer, slot, TIMEOUT_NS);
}
