/*
 * Measures the costs of the copy modes on this node. Two threads on two processors play ping-pong
 * like two clients: each has an instance of the shm driver and a lane to the other, writes what it
 * sends and reads what it receives. As other programs may use the processors, there are many puts
 * of each kind, in turns.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "daemon/rails/calibrate.h"
#include "daemon/rails/calibrate_player.h"
#include "proto/wait.h"

enum { ROUNDS_MIN = 8 };
#define GIVE_UP_NS 300000000ull

/* ---- the table ---- */

static void *map(size_t bytes)
{
    void *base =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return base == MAP_FAILED ? NULL : base;
}

static int game_init(struct game *game)
{
    int r = 0;
    for (unsigned kind = 0; r == 0 && kind < KINDS; kind++) {
        r = layout_contiguous(kind_bytes(kind), &game->layouts[kind]);
        if (r == 0)
            r = copy_program_new(game->layouts[kind], game->layouts[kind], &game->programs[kind]);
    }
    for (unsigned i = 0; r == 0 && i < 2; i++) {
        struct player *player = &game->players[i];
        player->game = game;
        player->other = &game->players[1 - i];
        player->buffers = map(sizeof *player->buffers);
        player->notify = map(notify_segment_bytes(1));
        r = player->buffers && player->notify ? 0 : -ENOMEM;
    }
    return r;
}

static void game_deinit(struct game *game)
{
    for (unsigned i = 0; i < 2; i++) {
        if (game->players[i].buffers)
            munmap(game->players[i].buffers, sizeof *game->players[i].buffers);
        if (game->players[i].notify)
            munmap(game->players[i].notify, notify_segment_bytes(1));
    }
    for (unsigned kind = 0; kind < KINDS; kind++) {
        copy_program_free(game->programs[kind]);
        free(game->layouts[kind]);
    }
}

/* ---- the processors ---- */

/* The core that a processor is a thread of; one of its own when nobody says. */
static long core_of(unsigned processor)
{
    static const char *const names[] = {"physical_package_id", "core_id"};
    long numbers[2] = {-1, processor};
    for (unsigned i = 0; i < 2; i++) {
        char path[128];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/%s", processor,
                 names[i]);
        FILE *file = fopen(path, "re");
        if (file && fscanf(file, "%ld", &numbers[i]) != 1)
            numbers[i] = i ? (long)processor : -1;
        if (file)
            fclose(file);
    }
    return numbers[0] * 65536 + numbers[1];
}

/* Two that we may run on, of two cores. */
static int choose_processors(struct game *game)
{
    cpu_set_t allowed;
    int first = -1;
    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0)
        return -errno;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &allowed))
            continue;
        if (first < 0) {
            first = i;
        } else if (core_of((unsigned)i) != core_of((unsigned)first)) {
            game->players[0].processor = (unsigned)first;
            game->players[1].processor = (unsigned)i;
            return 0;
        }
    }
    return -ENODEV;
}

static int begin(struct player *player, pthread_t *ret_thread)
{
    pthread_attr_t attributes;
    cpu_set_t processor;
    CPU_ZERO(&processor);
    CPU_SET(player->processor, &processor);
    if (pthread_attr_init(&attributes))
        return -ENOMEM;
    int r = pthread_attr_setaffinity_np(&attributes, sizeof processor, &processor);
    if (r == 0)
        r = pthread_create(ret_thread, &attributes, player_play, player);
    pthread_attr_destroy(&attributes);
    return -r;
}

static int run(struct game *game)
{
    pthread_t threads[2];
    game->give_up_ns = clock_now_ns() + GIVE_UP_NS;
    int r = begin(&game->players[0], &threads[0]);
    if (r < 0)
        return r;
    r = begin(&game->players[1], &threads[1]);
    if (r < 0)
        atomic_store_explicit(&game->stop, true, memory_order_relaxed);
    pthread_join(threads[0], NULL);
    if (r == 0)
        pthread_join(threads[1], NULL);
    return r < 0 ? r : game->players[0].error ? game->players[0].error : game->players[1].error;
}

/* ---- the result ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double lower_quarter(double *values, unsigned count)
{
    qsort(values, count, sizeof *values, compare);
    return values[count / 4];
}

/* Each round by itself, for the processors may move between two: of each cost what a quarter of the
 * rounds keep within. */
static int fit(const struct game *game, struct way_costs *ret_costs)
{
    double values[WAY_COST_FIELDS][ROUNDS_MAX];
    unsigned count = 0;
    for (unsigned round = 0; round < game->rounds; round++) {
        const struct way_samples samples = {
            .distance_ns = game->distance_ns[round],
            .touch_ns = game->touch_ns[round],
            .half_ns = game->ns[HALF][round],
            .ring_ns = game->ns[RING][round],
        };
        struct way_costs costs;
        if (way_costs_fit(&samples, &costs) < 0)
            continue;
        for (unsigned field = 0; field < WAY_COST_FIELDS; field++)
            values[field][count] = *way_cost_at(&costs, field);
        count++;
    }
    if (count < ROUNDS_MIN)
        return game->rounds < ROUNDS_MIN ? -EBUSY : -ERANGE;
    for (unsigned field = 0; field < WAY_COST_FIELDS; field++)
        *way_cost_at(ret_costs, field) = lower_quarter(values[field], count);
    return 0;
}

int calibrate_ways(struct way_costs *ret_costs)
{
    struct game *game = aligned_alloc(_Alignof(struct game), sizeof *game);
    if (!game)
        return -ENOMEM;
    *game = (struct game){0};
    int r = choose_processors(game);
    if (r == 0)
        r = game_init(game);
    if (r == 0)
        r = run(game);
    if (r == 0)
        r = fit(game, ret_costs);
    game_deinit(game);
    free(game);
    return r;
}
