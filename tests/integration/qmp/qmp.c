/*
 * qmp EXTENT...: the calls of tca-qmp.h on a grid of the session's ranks, which are placed in
 * reverse order, and then, beside it, on the smaller ones into which it is split. Ends with 0, or
 * prints what was wrong.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/include/tca-group.h"
#include "client/include/tca-qmp.h"

enum { VALUES = 150, BYTES = 40000, ROWS = 5, WIDTH = 3, STARTS = 3 };

static struct tca *session;
static struct tca_qmp *qmp;
static uint32_t dimensions, extents[TCA_QMP_DIMENSIONS], rank, size;
static uint32_t part; /* number of the smaller grid */
static int wrong;

static void expect(int good, const char *what)
{
    if (good)
        return;
    printf("rank %u: %s: %s\n", rank, what, tca_error_text());
    wrong = 1;
}

static uint32_t reversed(const uint32_t *coords, void *context)
{
    uint32_t position = 0;

    for (uint32_t d = 0; d < dimensions; d++)
        position = position * extents[d] + coords[d];
    return *(const uint32_t *)context - 1 - position;
}

static uint32_t zero(const uint32_t *coords, void *context)
{
    (void)coords;
    (void)context;
    return 0;
}

/* ---- the grid */

static void check_errors(void)
{
    uint32_t many[TCA_QMP_DIMENSIONS + 1] = {1, 1, 1, 1, 1}, large[2] = {1u << 31, 1u << 31};
    struct tca_qmp *none = NULL;

    expect(tca_qmp_new(session, NULL, 0, many, NULL, NULL, &none) == -EINVAL, "no dimension");
    expect(tca_qmp_new(session, NULL, 5, many, NULL, NULL, &none) == -EINVAL, "five dimensions");
    expect(tca_qmp_new(session, NULL, 2, large, NULL, NULL, &none) == -EINVAL, "a large grid");
    if (size > 1)
        expect(tca_qmp_new(session, NULL, dimensions, extents, zero, NULL, &none) == -EINVAL &&
                   strstr(tca_error_text(), "rank 0 twice"),
               "two positions of a rank");
    expect(!none, "a grid in spite of the error");
}

static void check_grid(void)
{
    uint32_t coords[TCA_QMP_DIMENSIONS] = {0}, at = 0;
    int displacement[TCA_QMP_DIMENSIONS] = {0};

    for (uint32_t other = 0; other < size; other++) {
        expect(tca_qmp_coords_of(qmp, other, coords) == 0, "position of a rank");
        expect(reversed(coords, &size) == other, "the position");
        expect(tca_qmp_rank_at(qmp, coords, &at) == 0 && at == other, "rank at a position");
        for (uint32_t d = 0; d < dimensions; d++) /* around the grid, once more */
            displacement[d] = (int)coords[d] - (int)tca_qmp_coord(qmp, d) - (int)extents[d];
        expect(tca_qmp_displaced(qmp, displacement, &at) == 0 && at == other, "displacement");
    }
    for (uint32_t d = 0; d < TCA_QMP_DIMENSIONS; d++)
        expect(tca_qmp_extent(qmp, d) == (d < dimensions ? extents[d] : 1), "an extent");
    coords[0] = extents[0];
    displacement[0] = 64;
    expect(tca_qmp_rank_at(qmp, coords, &at) == -EINVAL, "a position outside");
    expect(tca_qmp_coords_of(qmp, size, coords) == -EINVAL, "a rank too many");
    expect(tca_qmp_displaced(qmp, displacement, &at) == -EINVAL, "a displacement too far");
}

/* ---- messages: rows with gaps, into others and back to front */

static double value_of(uint32_t from, int start, int i)
{
    return (double)part * 100000 + (double)from * 1000 + start * 100 + i;
}

static void check_message(const int *displacement, const double *got, int start)
{
    int opposite[TCA_QMP_DIMENSIONS];
    uint32_t from = 0;

    for (uint32_t d = 0; d < dimensions; d++)
        opposite[d] = -displacement[d];
    tca_qmp_displaced(qmp, opposite, &from);
    for (int i = 0; i < ROWS * WIDTH; i++)
        expect(got[i % WIDTH + (ROWS - 1 - i / WIDTH) * 2 * WIDTH] == value_of(from, start, i),
               "a value received");
}

static void exchange(const int *displacement)
{
    double sent[ROWS * (WIDTH + 1)], got[ROWS * 2 * WIDTH];
    int opposite[TCA_QMP_DIMENSIONS] = {0};
    const struct tca_qmp_buffer out = {sent, WIDTH * sizeof(double), ROWS,
                                       (WIDTH + 1) * sizeof(double)};
    const struct tca_qmp_buffer in = {got + (ROWS - 1) * 2 * WIDTH, WIDTH * sizeof(double), ROWS,
                                      -(int64_t)(2 * WIDTH * sizeof(double))};
    struct tca_msg_request *requests[2] = {NULL, NULL};

    for (uint32_t d = 0; d < dimensions; d++)
        opposite[d] = -displacement[d];
    expect(tca_qmp_recv_displaced(qmp, &in, opposite, &requests[0]) == 0, "declaring a receive");
    expect(tca_qmp_send_displaced(qmp, &out, displacement, &requests[1]) == 0, "declaring a send");
    for (int start = 0; start < STARTS && !wrong; start++) {
        for (int i = 0; i < ROWS * WIDTH; i++)
            sent[i % WIDTH + i / WIDTH * (WIDTH + 1)] = value_of(rank, start, i);
        expect(tca_msg_start(requests[0]) == 0, "starting a receive");
        expect(tca_msg_start(requests[1]) == 0, "starting a send");
        expect(tca_msg_wait_all(requests, 2, TCA_DEFAULT) == 0, "waiting");
        check_message(displacement, got, start);
    }
    tca_msg_release(requests[0]);
    tca_msg_release(requests[1]);
}

static void check_messages(void)
{
    int displacement[TCA_QMP_DIMENSIONS] = {0};
    double value = 0;
    const struct tca_qmp_buffer one = {&value, sizeof(value), 1, 0};
    struct tca_msg_request *request = NULL;

    for (uint32_t d = 0; d < dimensions; d++) {
        displacement[d] = d % 2 ? 1 : -2;
        exchange(displacement);
    }
    expect(tca_qmp_send_relative(qmp, &one, dimensions, 1, &request) == -EINVAL,
           "a dimension more");
    expect(tca_qmp_recv_relative(qmp, &one, 0, 2, &request) == -EINVAL, "no direction");
    expect(!request, "a message in spite of the error");
}

/* ---- everybody */

static double part_of(uint32_t of, uint32_t i)
{
    return 1.0 / (part * 1000 + of * 31 + i * 7 + 3) * (i % 2 ? 1e10 : -1);
}

static void check_reductions(void)
{
    double values[VALUES], largest[VALUES];

    for (uint32_t i = 0; i < VALUES; i++)
        values[i] = largest[i] = part_of(rank, i);
    if (rank == size - 1)
        largest[7] = (double)NAN;
    expect(tca_qmp_sum(qmp, values, VALUES) == 0, "sum");
    expect(tca_qmp_max(qmp, largest, VALUES) == 0, "maximum");
    for (uint32_t i = 0; i < VALUES; i++) {
        double sum = part_of(0, i), most = sum;
        for (uint32_t r = 1; r < size; r++) {
            sum += part_of(r, i);
            most = part_of(r, i) > most ? part_of(r, i) : most;
        }
        expect(memcmp(&sum, &values[i], sizeof(sum)) == 0, "a sum");
        expect(i == 7 ? isnan(largest[i]) : largest[i] == most, "a maximum");
    }
    expect(tca_qmp_sum(qmp, NULL, 0) == 0, "sum of nothing");
}

static void check_broadcast(void)
{
    static uint8_t data[BYTES];

    for (uint32_t i = 0; i < BYTES && rank == 0; i++)
        data[i] = (uint8_t)(i % 251 + part);
    expect(tca_qmp_broadcast(qmp, data, BYTES) == 0, "broadcast");
    for (uint32_t i = 0; i < BYTES && !wrong; i++)
        expect(data[i] == (uint8_t)(i % 251 + part), "a byte of a broadcast");
}

static void check_all(struct tca_group *group)
{
    const struct tca_plan_args args = {.group = group};

    expect(tca_qmp_new(session, &args, dimensions, extents, reversed, &size, &qmp) == 0, "grid");
    if (wrong)
        return;
    check_grid();
    check_messages();
    check_reductions();
    check_broadcast();
    expect(tca_qmp_barrier(qmp) == 0, "barrier");
}

/* Every dimension is divided by its smallest prime factor. */
static void check_parts(void)
{
    struct tca_qmp *whole = qmp;
    struct tca_group *group = NULL;
    uint32_t key = 0;

    size = 1;
    for (uint32_t d = 0; d < dimensions; d++) {
        uint32_t factor = 2;
        while (factor < extents[d] && extents[d] % factor > 0)
            factor++;
        const uint32_t parts = extents[d] > 1 ? factor : 1, less = extents[d] / parts;
        part = part * parts + tca_qmp_coord(whole, d) / less;
        key = key * less + tca_qmp_coord(whole, d) % less;
        extents[d] = less;
        size *= less;
    }
    expect(tca_group_split(session, NULL, part, (int32_t)key, TCA_DEFAULT, &group) == 0, "split");
    if (wrong)
        return;
    rank = tca_group_rank(group);
    expect(tca_group_size(group) == size && rank == key, "the ranks of a part");
    check_all(group);
    tca_group_free(group);
    if (qmp != whole)
        tca_qmp_free(qmp);
    qmp = whole;
}

int main(int argc, char **argv)
{
    enum { MESSENGERS = 2 };
    struct tca_msg *messengers[MESSENGERS] = {NULL};

    for (dimensions = 0; (int)dimensions < argc - 1 && dimensions < TCA_QMP_DIMENSIONS;
         dimensions++)
        extents[dimensions] = (uint32_t)strtoul(argv[1 + dimensions], NULL, 0);
    expect(tca_open(NULL, &session) == 0, "tca_open()");
    if (wrong)
        return 1;
    rank = tca_rank(session);
    size = tca_size(session);
    check_errors();
    for (int i = 0; i < MESSENGERS; i++)
        expect(tca_msg_new(session, NULL, &messengers[i]) == 0, "a messenger beside the grid");
    check_all(NULL);
    check_parts();
    for (int i = 0; i < MESSENGERS; i++)
        tca_msg_free(messengers[i]);
    tca_close(session);
    return wrong;
}
