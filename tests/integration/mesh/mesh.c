/* mesh SETS STARTS SEED SEAT [VICTIM]: SETS different layouts and memories, STARTS starts of each;
 * rank VICTIM is killed during the last set, and the others must get an error. Ends with 0, or
 * prints what was wrong. */
#include "tests/integration/mesh/mesh.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/layout/layout.h"

enum { RANKS_MAX = 16, POOL_BYTES = 1 << 20 };
enum slot { DATA, ACK };
enum { SLICE_NS = 20 * 1000 * 1000, SLICES = 2000 };
static const uint32_t none = UINT32_MAX;

static uint8_t global_bytes[POOL_BYTES];

struct mesh {
    struct tca *session;
    uint32_t rank, size, victim;
    uint64_t sets, starts, seed;
    enum tca_seat seat;
    struct pool pools[MEMORY_KINDS];
    struct side sources[RANKS_MAX], targets[RANKS_MAX];
    struct random_layout theirs[RANKS_MAX]; /* layouts of the sources of the puts to this rank */
    struct tca_plan *plan, *ack;
};

static uint64_t pair_seed(const struct mesh *mesh, uint64_t set, uint32_t from, uint32_t to)
{
    return ((mesh->seed * 1000 + set) * RANKS_MAX + from) * RANKS_MAX + to;
}

/* Of one pair: the same at both ends. */
static void make_layouts(uint64_t seed, struct random_layout *source, struct random_layout *target)
{
    struct random random = {seed};
    uint32_t most = random_below(&random, 8) == 0 ? 50000 : 3000,
             bytes = 1 + (uint32_t)random_below(&random, most);
    *source = random_layout_new(&random, bytes, true);
    *target = random_layout_new(&random, bytes, false);
}

static int make_sides(struct mesh *mesh, uint64_t set)
{
    struct random random = {pair_seed(mesh, set, mesh->rank, mesh->rank)};
    int r = 0;
    for (int kind = 0; kind < MEMORY_KINDS; kind++)
        mesh->pools[kind].used = 0;
    for (uint32_t rank = 0; rank < mesh->size && r == 0; rank++) {
        struct random_layout elsewhere;
        make_layouts(pair_seed(mesh, set, mesh->rank, rank), &mesh->sources[rank].layout,
                     &elsewhere);
        random_layout_free(&elsewhere);
        make_layouts(pair_seed(mesh, set, rank, mesh->rank), &mesh->theirs[rank],
                     &mesh->targets[rank].layout);
        r = side_new(mesh->session, &random, mesh->pools, &mesh->sources[rank]);
        if (r == 0)
            r = side_new(mesh->session, &random, mesh->pools, &mesh->targets[rank]);
        if (r == 0)
            target_fill(&mesh->targets[rank], pair_seed(mesh, set, rank, mesh->rank));
    }
    return r;
}

/* All ranks' handles: at [owner * size + writer] that of the owner's memory for the writer, from
 * the layout's base on. */
static int tell_handles(struct mesh *mesh, struct tca_handle *ret_all)
{
    struct tca_handle own[RANKS_MAX];
    int r = 0;
    for (uint32_t rank = 0; rank < mesh->size && r == 0; rank++)
        r = tca_region_handle(mesh->targets[rank].region, mesh->targets[rank].offset_bytes,
                              (uint64_t)mesh->targets[rank].layout.layout->upper_bytes, &own[rank]);
    return r < 0 ? r
                 : tca_allgather(mesh->session, own, mesh->size * sizeof(own[0]), ret_all,
                                 TCA_DEFAULT);
}

/* As the library has it: random layouts are programs already. */
static struct tca_layout *public_layout(const struct random_layout *from)
{
    struct tca_layout *layout = calloc(1, sizeof(*layout));
    layout->refs = 1;
    if (layout_dup(from->layout, &layout->program) < 0)
        abort();
    return layout;
}

static int add_put(struct mesh *mesh, uint64_t set, uint32_t rank, struct tca_handle target)
{
    const struct side *source = &mesh->sources[rank];
    struct random_layout ours, elsewhere;
    make_layouts(pair_seed(mesh, set, mesh->rank, rank), &ours, &elsewhere);
    struct tca_layout *from = public_layout(&ours), *to = public_layout(&elsewhere);
    int r = tca_plan_put(mesh->plan, &(struct tca_put){.source = source->region,
                                                       .source_offset_bytes = source->offset_bytes,
                                                       .source_layout = from,
                                                       .target = target,
                                                       .target_layout = to});
    tca_layout_free(from);
    tca_layout_free(to);
    random_layout_free(&ours);
    random_layout_free(&elsewhere);
    return r;
}

static int make_plans(struct mesh *mesh, uint64_t set)
{
    static struct tca_handle all[RANKS_MAX * RANKS_MAX];
    int r = tell_handles(mesh, all);
    if (r == 0)
        r = tca_plan_new(mesh->session, &(struct tca_plan_args){.name = "data", .seat = mesh->seat},
                         &mesh->plan);
    if (r == 0)
        r = tca_plan_new(mesh->session, &(struct tca_plan_args){.name = "ack", .seat = mesh->seat},
                         &mesh->ack);
    for (uint32_t i = 1; i <= mesh->size && r == 0; i++) {
        const uint32_t rank = (mesh->rank + i) % mesh->size; /* oneself last */
        if (i > 1 && (r = tca_plan_chain(mesh->plan)) == 0)
            r = tca_plan_chain(mesh->ack);
        if (r == 0)
            r = add_put(mesh, set, rank, all[rank * mesh->size + mesh->rank]);
        if (r == 0)
            r = tca_plan_notify(mesh->plan, rank, DATA);
        if (r == 0)
            r = tca_plan_notify(mesh->ack, rank, ACK);
    }
    if (r == 0)
        r = tca_plan_commit(mesh->plan, TCA_DEFAULT);
    return r == 0 ? tca_plan_commit(mesh->ack, TCA_DEFAULT) : r;
}

/* A notifier may have stopped because another rank has died, and then waits for this one: the plan
 * reports that. */
static int hear(struct mesh *mesh, uint32_t rank, uint32_t slot)
{
    int r = -ETIMEDOUT;
    for (int slices = 0; slices < SLICES && r == -ETIMEDOUT; slices++) {
        r = tca_notified_wait(mesh->session, rank, slot, SLICE_NS);
        const int result = r == -ETIMEDOUT ? tca_test(mesh->plan) : 0;
        if (result < 0)
            r = result;
    }
    return r;
}

static int hear_all(struct mesh *mesh, uint32_t slot)
{
    int r = 0;
    for (uint32_t rank = 0; rank < mesh->size && r == 0; rank++)
        r = hear(mesh, rank, slot);
    return r;
}

static int check_all(struct mesh *mesh, uint64_t set, uint64_t start)
{
    bool right = true;
    for (uint32_t rank = 0; rank < mesh->size; rank++) {
        right &= target_check(&mesh->targets[rank], &mesh->theirs[rank],
                              pair_seed(mesh, set, rank, mesh->rank), start);
        right &= source_check(&mesh->sources[rank], pair_seed(mesh, set, mesh->rank, rank), start);
    }
    return right ? 0 : -EBADMSG;
}

static int run_start(struct mesh *mesh, uint64_t set, uint64_t start)
{
    for (uint32_t rank = 0; rank < mesh->size; rank++)
        source_fill(&mesh->sources[rank], pair_seed(mesh, set, mesh->rank, rank), start);
    int r = tca_start(mesh->plan);
    if (mesh->rank == mesh->victim && set + 1 == mesh->sets && start > 0)
        kill(getpid(), SIGKILL);
    if (r == 0)
        r = hear_all(mesh, DATA);
    if (r == 0)
        r = tca_wait(mesh->plan, TCA_DEFAULT);
    if (r == 0)
        r = check_all(mesh, set, start);
    if (r == 0)
        r = tca_start(mesh->ack);
    if (r == 0)
        r = tca_wait(mesh->ack, TCA_DEFAULT);
    return r == 0 ? hear_all(mesh, ACK) : r;
}

/* A forked child has no part in the session: its calls fail, and have no effect. */
static int fork_child(const struct mesh *mesh)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        struct tca_region *region;
        char memory[8];
        const bool refused =
            tca_region_alloc(mesh->session, 1, &region) == -EINVAL &&
            tca_region_attach(mesh->session, memory, sizeof(memory), &region) == -EINVAL &&
            strstr(tca_error_text(), "fork");
        tca_close(mesh->session);
        _exit(refused ? 0 : 1);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        printf("a child that was forked ended with status %d\n", status);
    return status == 0 ? 0 : -ECHILD;
}

static void end_set(struct mesh *mesh)
{
    mesh->plan = tca_plan_free(mesh->plan);
    mesh->ack = tca_plan_free(mesh->ack);
    for (uint32_t rank = 0; rank < mesh->size; rank++) {
        side_free(&mesh->sources[rank]);
        side_free(&mesh->targets[rank]);
        random_layout_free(&mesh->theirs[rank]);
    }
}

static int run_set(struct mesh *mesh, uint64_t set)
{
    int r = make_sides(mesh, set);
    if (r == 0)
        r = make_plans(mesh, set);
    for (uint64_t start = 0; start < mesh->starts && r == 0; start++) {
        r = run_start(mesh, set, start);
        if (r == 0 && set == 0 && start == 0)
            r = fork_child(mesh);
    }
    if (r == 0)
        r = tca_barrier(mesh->session, TCA_DEFAULT); /* no rank frees memory that others still
                                                        put into */
    return r;
}

/* The other ranks get an error, and nothing was written outside the layouts. */
static int judge(struct mesh *mesh, uint64_t set, int r)
{
    bool right = true;
    if (mesh->victim == none || r != -EOWNERDEAD || set + 1 != mesh->sets) {
        printf("rank %u, set %llu of seed %llu: %s\n", mesh->rank, (unsigned long long)set,
               (unsigned long long)mesh->seed, r == -EBADMSG ? "wrong bytes" : tca_error_text());
        return 1;
    }
    mesh->plan = tca_plan_free(mesh->plan); /* none of its starts is in flight any more */
    mesh->ack = tca_plan_free(mesh->ack);
    for (uint32_t rank = 0; rank < mesh->size; rank++)
        right &= target_check_guards(&mesh->targets[rank], pair_seed(mesh, set, rank, mesh->rank));
    return right ? 0 : 1;
}

int main(int count, char **words)
{
    uint8_t stack_bytes[POOL_BYTES];
    struct mesh mesh = {.victim = none};
    int r, result = 0;
    if (count < 5)
        return 2;
    mesh.sets = strtoull(words[1], NULL, 10);
    mesh.starts = strtoull(words[2], NULL, 10);
    mesh.seed = strtoull(words[3], NULL, 10);
    mesh.seat = strcmp(words[4], "client") == 0   ? TCA_SEAT_CLIENT
                : strcmp(words[4], "daemon") == 0 ? TCA_SEAT_DAEMON
                                                  : TCA_SEAT_ANY;
    if (count > 5)
        mesh.victim = (uint32_t)strtoul(words[5], NULL, 10);
    mesh.pools[MEMORY_STACK] = (struct pool){.bytes = stack_bytes, .size = POOL_BYTES};
    mesh.pools[MEMORY_GLOBAL] = (struct pool){.bytes = global_bytes, .size = POOL_BYTES};
    r = tca_open(NULL, &mesh.session);
    if (r < 0) {
        printf("%s\n", tca_error_text());
        return 1;
    }
    mesh.rank = tca_rank(mesh.session);
    mesh.size = tca_size(mesh.session);
    for (uint64_t set = 0; set < mesh.sets && r == 0; set++) {
        r = run_set(&mesh, set);
        if (r < 0)
            result = judge(&mesh, set, r);
        end_set(&mesh);
    }
    if (r == 0 && mesh.victim != none) {
        printf("rank %u did not notice the end of rank %u\n", mesh.rank, mesh.victim);
        result = 1;
    }
    tca_close(mesh.session);
    return result;
}
