/*
 * Particles fly through a ring of cells, one per rank. In each step, those that have left a cell
 * are put to the neighbours: another number each time, and into one of two buffers in turn. One
 * plan does this: its puts are committed for both buffers at full length; each start moves the part
 * that is needed. At the end, the number of particles is checked.
 *
 *     tca-cluster run -n 2 --ppn 2 -- particles    (or mpirun -n 4 particles)
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <tca.h>

enum { PARTICLES = 2000, STEPS = 500 };
enum { LEFT, RIGHT }; /* sides, and slots: where the sender is */

struct particle {
    double place; /* 0 to 1: in the cell */
    double speed; /* cells per step */
    uint64_t id;
};

struct buffer {
    uint64_t count;
    struct particle list[PARTICLES];
};

struct memory {
    struct buffer out[2][2], in[2][2]; /* by side, and turn */
};

struct cell {
    struct tca *session;
    struct tca_plan *plan;
    struct memory *memory;
    uint32_t neighbours[2];
    uint64_t count;
    struct particle list[4 * PARTICLES];
};

static void check(int result)
{
    if (result >= 0)
        return;
    fprintf(stderr, "particles: %s: %s\n", tca_strerror(result), tca_error_text());
    exit(1);
}

/* What goes to the left comes from the right, for its receiver. */
static void make_plan(struct cell *cell, struct tca_region *region, const struct tca_handle *all)
{
    check(tca_plan_new(cell->session, NULL, &cell->plan));
    for (int side = LEFT; side <= RIGHT; side++) {
        const struct tca_put put = {
            .source = region,
            .source_offset_bytes = offsetof(struct memory, out) + side * 2 * sizeof(struct buffer),
            .target = all[cell->neighbours[side]],
            .target_offset_bytes =
                offsetof(struct memory, in) + (1 - side) * 2 * sizeof(struct buffer),
            .bytes = 2 * sizeof(struct buffer), /* all that a start may move */
            .parts = 1,
        };
        check(tca_plan_chain(cell->plan));
        check(tca_plan_put(cell->plan, &put));
        check(tca_plan_notify(cell->plan, cell->neighbours[side], 1 - side));
    }
    check(tca_plan_commit(cell->plan, TCA_DEFAULT));
}

/* Moves all particles; those that leave go into the buffers of this turn. */
static void fly(struct cell *cell, int turn)
{
    uint64_t stay = 0;
    for (int side = LEFT; side <= RIGHT; side++)
        cell->memory->out[side][turn].count = 0;
    for (uint64_t i = 0; i < cell->count; i++) {
        struct particle particle = cell->list[i];
        particle.place += particle.speed;
        if (particle.place >= 0 && particle.place < 1) {
            cell->list[stay++] = particle;
            continue;
        }
        const int side = particle.place < 0 ? LEFT : RIGHT;
        struct buffer *out = &cell->memory->out[side][turn];
        if (out->count == PARTICLES) {
            fprintf(stderr, "particles: more than %d leave at once\n", PARTICLES);
            exit(1);
        }
        particle.place += side == LEFT ? 1 : -1;
        out->list[out->count++] = particle;
    }
    cell->count = stay;
}

static void send(struct cell *cell, int turn)
{
    struct tca_part parts[2];
    for (int side = LEFT; side <= RIGHT; side++)
        parts[side] = (struct tca_part){
            .source_at_bytes = turn * sizeof(struct buffer),
            .target_at_bytes = turn * sizeof(struct buffer),
            .bytes = offsetof(struct buffer, list) +
                     cell->memory->out[side][turn].count * sizeof(struct particle),
        };
    check(tca_start_parts(cell->plan, parts, 2));
}

static void receive(struct cell *cell, int turn)
{
    for (int side = LEFT; side <= RIGHT; side++) {
        check(
            tca_notified_wait(cell->session, cell->neighbours[side], (uint32_t)side, TCA_DEFAULT));
        const struct buffer *in = &cell->memory->in[side][turn];
        for (uint64_t i = 0; i < in->count; i++) {
            if (cell->count == 4 * PARTICLES) {
                fprintf(stderr, "particles: more than %d in a cell\n", 4 * PARTICLES);
                exit(1);
            }
            cell->list[cell->count++] = in->list[i];
        }
    }
}

/* Number and sum of the ids, of all ranks. */
struct census {
    uint64_t count, ids;
};

static struct census count_all(const struct cell *cell)
{
    const uint32_t size = tca_size(cell->session);
    struct census own = {.count = cell->count}, sum = {0}, *all = calloc(size, sizeof(*all));
    if (!all)
        exit(1);
    for (uint64_t i = 0; i < cell->count; i++)
        own.ids += cell->list[i].id;
    check(tca_allgather(cell->session, &own, sizeof(own), all, TCA_DEFAULT));
    for (uint32_t i = 0; i < size; i++) {
        sum.count += all[i].count;
        sum.ids += all[i].ids;
    }
    free(all);
    return sum;
}

static void fill(struct cell *cell, uint32_t rank)
{
    for (cell->count = 0; cell->count < PARTICLES; cell->count++) {
        const uint64_t id = (uint64_t)rank * PARTICLES + cell->count + 1;
        cell->list[cell->count] = (struct particle){
            .place = (double)cell->count / PARTICLES,
            .speed = ((double)(id * 7919 % 2001) - 1000) / 10000, /* at most a tenth of a cell */
            .id = id,
        };
    }
}

int main(void)
{
    static struct cell cell;
    struct tca_region *region;
    struct tca_handle own;
    check(tca_open(NULL, &cell.session));
    const uint32_t rank = tca_rank(cell.session), size = tca_size(cell.session);
    struct tca_handle *all = calloc(size, sizeof(*all));
    if (!all)
        return 1;
    cell.neighbours[LEFT] = (rank + size - 1) % size;
    cell.neighbours[RIGHT] = (rank + 1) % size;
    check(tca_region_alloc(cell.session, sizeof(struct memory), &region));
    cell.memory = tca_region_address(region);
    check(tca_region_handle(region, 0, TCA_ALL, &own));
    check(tca_allgather(cell.session, &own, sizeof(own), all, TCA_DEFAULT));
    make_plan(&cell, region, all);
    free(all);
    fill(&cell, rank);

    for (int step = 0; step < STEPS; step++) {
        const int turn = step % 2;
        fly(&cell, turn); /* the buffers of the last step may still be under way */
        check(tca_wait(cell.plan, TCA_DEFAULT));
        send(&cell, turn);
        receive(&cell, turn);
    }
    check(tca_wait(cell.plan, TCA_DEFAULT));
    const struct census sum = count_all(&cell);
    const uint64_t wanted = (uint64_t)size * PARTICLES;
    if (sum.count != wanted || sum.ids != wanted * (wanted + 1) / 2) {
        fprintf(stderr, "particles: %llu of %llu are left\n", (unsigned long long)sum.count,
                (unsigned long long)wanted);
        return 1;
    }
    printf("rank %u: %llu particles here, all %llu counted\n", rank, (unsigned long long)cell.count,
           (unsigned long long)wanted);
    tca_close(cell.session);
    return 0;
}
