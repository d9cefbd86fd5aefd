/*
 * halo SEED ROUNDS STEPS [VICTIM]: random halo exchanges, the same ones at all ranks of the group,
 * with every cell checked after every step and again before the next start. Ranks are slow at
 * random, with computing as well as with reading; in every round, one begins one of its steps long
 * after all others. Rank VICTIM kills itself in the midst, and the others must hear of that; if
 * there is no rank VICTIM, all stop at a step, and a cable is pulled. PREFER in the environment
 * names a rail. Ends with 0, or prints what was wrong.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/include/tca-halo.h"
#include "tests/unit/client/halo_world.h"

enum { ARRAYS_MAX = 3, BUFFERS = 2, UNTOUCHED = 0xee, VICTIMS_STEP = 7, LATE_US = 50000 };
#define TIMEOUT_NS INT64_C(50000000000)
static const uint32_t none = UINT32_MAX;

struct array {
    struct world world;
    uint64_t element_bytes;
    struct tca_region *regions[BUFFERS]; /* or tca_alloc() */
    void *attached[BUFFERS];             /* or malloc() */
    uint8_t *memory[BUFFERS];
};

struct job {
    struct tca *session;
    uint32_t rank, victim;
    uint32_t late; /* which rank begins which step late */
    uint64_t late_step;
    uint64_t round, step;
    uint32_t array_count, buffers;
    struct array arrays[ARRAYS_MAX];
    struct tca_halo_args args;
    struct tca_halo_array described[ARRAYS_MAX];
    struct random delays; /* other ones at each rank */
};

static void where(const struct job *job)
{
    printf("rank %u, round %lu (grid", job->rank, job->round);
    for (uint32_t d = 0; d < job->args.dimensions; d++)
        printf("%s%u%s", d ? "x" : " ", job->args.grid[d], job->args.periodic[d] ? "p" : "");
    printf(", %u diagonals, %u arrays, %u buffers", job->args.diagonals, job->array_count,
           job->buffers);
    for (uint32_t a = 0; a < job->array_count; a++)
        for (uint32_t b = 0; b < job->buffers; b++)
            printf(" %c", "tra"[!!job->arrays[a].regions[b] + !!job->arrays[a].attached[b]]);
    printf("), step %lu: ", job->step);
}

static void check(const struct job *job, int result, const char *what)
{
    if (result >= 0)
        return;
    where(job);
    printf("%s: %s (%s)\n", what, tca_error_text(), tca_strerror(result));
    exit(1);
}

/* ---- contents */

static uint64_t cells(const struct job *job, const struct array *array)
{
    return array->world.cells[job->rank];
}

/* The bytes of a global element in a step. */
static void element(const struct array *array, uint64_t number, uint64_t step, uint8_t *ret_bytes)
{
    struct random random = {number * 1000003 + step};

    for (uint64_t i = 0; i < array->element_bytes; i++)
        ret_bytes[i] = (uint8_t)random_next(&random);
}

static void write_own(const struct job *job, const struct array *array, uint32_t buffer,
                      uint64_t step)
{
    for (uint64_t cell = 0; cell < cells(job, array); cell++) {
        bool own;
        uint64_t number = world_expected(&array->world, job->rank, cell, &own);
        if (own)
            element(array, number, step, array->memory[buffer] + cell * array->element_bytes);
    }
}

static void check_array(const struct job *job, uint32_t index, uint32_t buffer, uint64_t step)
{
    const struct array *array = &job->arrays[index];

    for (uint64_t cell = 0; cell < cells(job, array); cell++) {
        uint8_t wanted[64];
        bool own;
        uint64_t number = world_expected(&array->world, job->rank, cell, &own);
        if (number)
            element(array, number, step, wanted);
        else
            memset(wanted, UNTOUCHED, sizeof(wanted));
        if (memcmp(array->memory[buffer] + cell * array->element_bytes, wanted,
                   array->element_bytes) == 0)
            continue;
        where(job);
        printf("array %u, buffer %u: cell %lu (%s) is not element %lu\n", index, buffer, cell,
               own ? "own" : "halo", number);
        exit(1);
    }
}

/* ---- memory of every kind */

static void allocate(struct job *job, struct random *random, struct array *array, uint32_t buffer)
{
    uint64_t bytes = cells(job, array) * array->element_bytes;
    uint64_t kind = random_below(random, 4);
    void *memory;

    if (kind == 0) {
        check(job, tca_region_alloc(job->session, bytes, &array->regions[buffer]), "memory");
        memory = tca_region_address(array->regions[buffer]);
    } else if (kind == 1) {
        memory = array->attached[buffer] = malloc(bytes);
        check(job, tca_region_attach(job->session, memory, bytes, &array->regions[buffer]),
              "attaching memory");
    } else {
        check(job, tca_alloc(job->session, bytes, &memory), "memory");
    }
    memset(memory, UNTOUCHED, bytes);
    array->memory[buffer] = memory;
}

static void release(struct job *job, struct array *array, uint32_t buffer)
{
    check(job,
          array->regions[buffer] ? tca_region_free(array->regions[buffer])
                                 : tca_free(job->session, array->memory[buffer]),
          "freeing memory");
    free(array->attached[buffer]);
    array->regions[buffer] = NULL;
    array->attached[buffer] = NULL;
    array->memory[buffer] = NULL;
}

/* ---- a random exchange: the same one at all ranks */

static void all_one(struct world *world)
{
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        struct halo_shape *shape = &world->shapes[rank];
        for (uint32_t d = 0; d < world->grid.dimensions; d++)
            shape->low[d] = shape->high[d] = 1;
        halo_elements(shape, world->grid.dimensions, 1, &world->cells[rank]);
    }
}

static void choose(struct job *job, struct random *random)
{
    const char *prefer = getenv("PREFER");
    struct world world;

    world_random_grid(random, 1 + (uint32_t)random_below(random, TCA_HALO_DIMENSIONS),
                      tca_size(job->session), &world);
    job->array_count = 1 + (uint32_t)random_below(random, ARRAYS_MAX);
    job->buffers = 1 + (uint32_t)random_below(random, BUFFERS);
    job->args = (struct tca_halo_args){.dimensions = world.grid.dimensions,
                                       .diagonals = world.grid.diagonals,
                                       .arrays = job->described,
                                       .array_count = job->array_count,
                                       .plan.rail_name = prefer,
                                       .plan.flags = prefer ? TCA_PLAN_PREFER : 0};
    job->late = (uint32_t)random_below(random, world.ranks);
    job->late_step = random_below(random, VICTIMS_STEP + 1);
    memcpy(job->args.grid, world.grid.sizes, sizeof(job->args.grid));
    memcpy(job->args.periodic, world.grid.periodic, sizeof(job->args.periodic));
    for (uint32_t a = 0; a < job->array_count; a++) {
        static const uint64_t element_bytes[] = {1, 4, 8, 12, 24, 64};
        job->arrays[a].world = world;
        job->arrays[a].element_bytes = element_bytes[random_below(random, 6)];
        world_random_shapes(random, &job->arrays[a].world);
        if (job->victim != none)
            all_one(&job->arrays[a].world);
    }
}

static void describe(struct job *job)
{
    struct random own = {job->delays.state + 1};

    for (uint32_t a = 0; a < job->array_count; a++) {
        struct array *array = &job->arrays[a];
        const struct halo_shape *shape = &array->world.shapes[job->rank];
        struct tca_halo_array *described = &job->described[a];
        *described = (struct tca_halo_array){.element_bytes = array->element_bytes};
        memcpy(described->extents, shape->extents, sizeof(shape->extents));
        memcpy(described->low, shape->low, sizeof(shape->low));
        memcpy(described->high, shape->high, sizeof(shape->high));
        for (uint32_t buffer = 0; buffer < job->buffers; buffer++) {
            allocate(job, &own, array, buffer);
            described->memory[buffer] = array->memory[buffer];
        }
    }
}

/* ---- steps */

static void dawdle(struct job *job)
{
    if (random_below(&job->delays, 4) == 0)
        usleep((useconds_t)random_below(&job->delays, 3000));
}

/* Some faces first, then all, by waiting or by testing. */
static int finish(struct job *job, struct tca_halo *halo)
{
    int64_t patience_ns = job->victim == none ? TIMEOUT_NS : TCA_FOREVER;
    uint32_t faces = tca_halo_faces(halo);
    int r = 0;

    for (uint32_t n = 0; r >= 0 && faces && n < random_below(&job->delays, 4); n++) {
        uint32_t face = (uint32_t)random_below(&job->delays, faces);
        if (random_below(&job->delays, 2))
            r = tca_halo_test_face(halo, face);
        else
            r = tca_halo_wait_face(halo, face, patience_ns);
    }
    if (r >= 0 && random_below(&job->delays, 2))
        for (uint64_t round = 0; round < 10000 && (r = tca_halo_test(halo)) == 0; round++)
            tca_pause(round);
    return r < 0 ? r : tca_halo_wait(halo, patience_ns);
}

/* The halos that the last exchange has filled can be read until the next start. */
static void check_all(struct job *job, uint32_t buffer, uint64_t number)
{
    for (uint32_t a = 0; a < job->array_count; a++)
        check_array(job, a, buffer, number);
}

static int step(struct job *job, struct tca_halo *halo, uint64_t number)
{
    uint32_t buffer = tca_halo_buffer(halo), other = job->buffers - 1 - buffer;
    int r;

    job->step = number;
    if (job->rank == job->late && number == job->late_step)
        usleep(LATE_US);
    if (number > 0)
        check_all(job, other, number - 1);
    for (uint32_t a = 0; a < job->array_count; a++)
        write_own(job, &job->arrays[a], buffer, number);
    dawdle(job);
    if (number > 0 && job->buffers == 2)
        check_all(job, other, number - 1);
    if (job->victim != none && job->victim >= tca_size(job->session) && number == VICTIMS_STEP)
        raise(SIGSTOP);
    if ((r = tca_halo_start(halo)) < 0)
        return r;
    if (job->rank == job->victim && number == VICTIMS_STEP)
        raise(SIGKILL);
    for (uint32_t a = 0; job->buffers == 2 && a < job->array_count; a++)
        write_own(job, &job->arrays[a], other, number + 1);
    dawdle(job);
    if ((r = finish(job, halo)) < 0)
        return r;
    dawdle(job);
    check_all(job, buffer, number);
    return 0;
}

/* The victim's neighbours hear of its end, and the others of theirs. Without a cable some ranks
 * lose the rail, and others those ranks. */
static void check_failure(struct job *job, struct tca_halo *halo, int error)
{
    bool cut = job->victim >= tca_size(job->session);

    if ((error == -EOWNERDEAD || (cut && error == -ENETDOWN)) && tca_halo_start(halo) == error)
        return;
    where(job);
    printf("after %d, a start failed otherwise: %s\n", error, tca_error_text());
    exit(1);
}

/* Every direction in which the grid has a neighbour is a face, once. */
static void check_faces(const struct job *job, const struct tca_halo *halo)
{
    const struct halo_grid *grid = &job->arrays[0].world.grid;
    uint32_t expected = 0, found = 0;

    for (uint32_t code = 0, rest; code < 2187; code++) { /* 3^7 */
        int8_t direction[TCA_HALO_DIMENSIONS];
        uint32_t order = 0, neighbour;
        bool inside = true;
        rest = code;
        for (uint32_t d = 0; d < TCA_HALO_DIMENSIONS; d++, rest /= 3) {
            direction[d] = (int8_t)(rest % 3) - 1;
            order += direction[d] != 0;
            inside &= d < grid->dimensions || direction[d] == 0;
        }
        if (!inside || order == 0 || order > grid->diagonals ||
            !halo_grid_neighbour(grid, job->rank, direction, &neighbour))
            continue;
        expected++;
        for (uint32_t f = 0; f < tca_halo_faces(halo); f++) {
            struct tca_halo_face face;
            check(job, tca_halo_face(halo, f, &face), "a face");
            found +=
                face.rank == neighbour && memcmp(face.direction, direction, sizeof(direction)) == 0;
        }
    }
    if (found == expected && tca_halo_faces(halo) == expected)
        return;
    where(job);
    printf("%u faces, of which %u are right: %u directions have a neighbour\n",
           tca_halo_faces(halo), found, expected);
    exit(1);
}

static void steps(struct job *job, uint64_t count)
{
    struct tca_halo *halo;
    int r = 0;

    check(job, tca_halo_new(job->session, &job->args, &halo), "tca_halo_new()");
    check_faces(job, halo);
    for (uint64_t n = 0; r >= 0 && (n < count || job->victim != none); n++)
        r = step(job, halo, n);
    if (job->victim != none)
        check_failure(job, halo, r);
    else
        check(job, r, "exchange");
    for (uint32_t f = 0; r >= 0 && f < tca_halo_faces(halo); f++) {
        struct tca_receipt receipt;
        check(job, tca_halo_receipt(halo, f, &receipt), "a receipt");
    }
    tca_halo_free(halo);
    for (uint32_t a = 0; a < job->array_count && job->victim == none; a++)
        for (uint32_t buffer = 0; buffer < job->buffers; buffer++)
            release(job, &job->arrays[a], buffer);
}

int main(int argc, char **argv)
{
    static struct job job = {.victim = UINT32_MAX};

    if (argc < 4)
        return 2;
    struct random random = {strtoull(argv[1], NULL, 0)};
    uint64_t rounds = strtoull(argv[2], NULL, 0), count = strtoull(argv[3], NULL, 0);
    if (argc > 4)
        job.victim = (uint32_t)strtoul(argv[4], NULL, 0);
    check(&job, tca_open(NULL, &job.session), "tca_open()");
    job.rank = tca_rank(job.session);
    job.delays.state = random.state * 64 + job.rank;
    for (; job.round < rounds; job.round++) {
        choose(&job, &random);
        describe(&job);
        steps(&job, count);
    }
    tca_close(job.session);
    return 0;
}
