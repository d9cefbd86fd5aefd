/*
 * Laplace's equation in two dimensions by Jacobi's method, with the halo exchange of tca-halo.h:
 *
 *     tca-cluster run -n 4 -- laplace --size 512 --steps 100 --check
 *
 * The process grid is as square as the number of ranks allows. A rank computes the rim of its part
 * first, then the interior while the rim is transferred. With --check, every rank solves the whole
 * problem by itself and compares its part, bit by bit. --prefer RAIL uses this rail to every node
 * that it leads to. --json prints the result as one line of JSON.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tca-halo.h>
#include <time.h>

#define SIZE_MAX_POINTS 32768
#define STEPS_MAX       1000000

struct options {
    uint64_t size, steps; /* inner points along each side */
    const char *prefer;   /* a rail; NULL: as predicted cost decides */
    bool check, json;
};

/* A part of the square: inner points with one more row and column on each side, which is the halo
 * or the boundary of the square. */
struct part {
    uint64_t rows, columns;
    uint64_t row, column; /* of its first inner point in the square */
    double *u[2];
};

#define RAILS 8 /* more than enum tca_rail has */

/* Of one rank. */
struct report {
    double seconds, halo_s;
    uint32_t faces[RAILS]; /* by the rail that they took */
};

static int parse_number(const char *text, uint64_t max, uint64_t *ret_number)
{
    char *end;
    unsigned long long number = strtoull(text, &end, 10);

    if (end == text || *end || *text == '-' || number == 0 || number > max)
        return -EINVAL;
    *ret_number = number;
    return 0;
}

static int parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {
        {"size", required_argument, NULL, 's'},   {"steps", required_argument, NULL, 'n'},
        {"prefer", required_argument, NULL, 'r'}, {"check", no_argument, NULL, 'c'},
        {"json", no_argument, NULL, 'j'},         {NULL, 0, NULL, 0},
    };
    int option, r = 0;

    *options = (struct options){.size = 512, .steps = 100};
    while (r >= 0 && (option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == 's')
            r = parse_number(optarg, SIZE_MAX_POINTS, &options->size);
        else if (option == 'n')
            r = parse_number(optarg, STEPS_MAX, &options->steps);
        else if (option == 'r')
            options->prefer = optarg;
        else if (option == 'c')
            options->check = true;
        else if (option == 'j')
            options->json = true;
        else
            r = -EINVAL;
    }
    if (r >= 0 && optind == argc)
        return 0;
    fprintf(stderr, "Usage: laplace [--size N] [--steps N] [--prefer RAIL] [--check] [--json]\n");
    return -EINVAL;
}

/* ---- arithmetic */

/* The upper side of the square is at 1, all else at 0. */
static void reset(const struct part *part)
{
    uint64_t width = part->columns + 2;

    for (int buffer = 0; buffer < 2; buffer++)
        for (uint64_t i = 0; i < part->rows + 2; i++)
            for (uint64_t j = 0; j < width; j++)
                part->u[buffer][i * width + j] = part->row + i == 0 ? 1 : 0;
}

/* Points [i0, i1) x [j0, j1), counted from the part's corner. */
static void sweep(const struct part *part, int from, uint64_t i0, uint64_t i1, uint64_t j0,
                  uint64_t j1)
{
    uint64_t width = part->columns + 2;
    const double *restrict u = part->u[from];
    double *restrict next = part->u[1 - from];

    for (uint64_t i = i0; i < i1; i++)
        for (uint64_t j = j0; j < j1; j++) {
            uint64_t at = i * width + j;
            next[at] = 0.25 * (u[at - width] + u[at + width] + u[at - 1] + u[at + 1]);
        }
}

static void sweep_rim(const struct part *part, int from)
{
    uint64_t rows = part->rows, columns = part->columns;

    sweep(part, from, 1, 2, 1, columns + 1);
    if (rows > 1)
        sweep(part, from, rows, rows + 1, 1, columns + 1);
    sweep(part, from, 2, rows, 1, 2);
    if (columns > 1)
        sweep(part, from, 2, rows, columns, columns + 1);
}

static void sweep_interior(const struct part *part, int from)
{
    sweep(part, from, 2, part->rows, 2, part->columns);
}

/* ---- the same by one process; returns how many points of the part differ, or -ENOMEM */

static int64_t differences(const struct options *options, const struct part *part, int at)
{
    struct part whole = {.rows = options->size, .columns = options->size};
    uint64_t width = whole.columns + 2, points = (whole.rows + 2) * width;
    double *memory = malloc(2 * points * sizeof(*memory));
    int64_t count = 0;

    if (!memory)
        return -ENOMEM;
    whole.u[0] = memory;
    whole.u[1] = memory + points;
    reset(&whole);
    for (uint64_t n = 0; n < options->steps; n++)
        sweep(&whole, (int)(n & 1), 1, whole.rows + 1, 1, whole.columns + 1);
    for (uint64_t i = 1; i <= part->rows; i++) {
        const double *serial = whole.u[at] + (part->row + i) * width + part->column;
        const double *mine = part->u[at] + i * (part->columns + 2);
        for (uint64_t j = 1; j <= part->columns; j++)
            count += memcmp(&serial[j], &mine[j], sizeof(double)) != 0;
    }
    free(memory);
    return count;
}

/* ---- all of it */

/* Part `at` of `parts` of `size`. */
static uint64_t cut(uint64_t size, uint32_t parts, uint32_t at, uint64_t *ret_first)
{
    *ret_first = size * at / parts;
    return size * (at + 1) / parts - *ret_first;
}

static int prepare(struct tca *session, const struct options *options, struct part *part,
                   struct tca_halo **ret_halo)
{
    struct tca_halo_array u = {.element_bytes = sizeof(double), .low = {1, 1}, .high = {1, 1}};
    struct tca_halo_args args = {.dimensions = 2, .arrays = &u, .array_count = 1};
    if (options->prefer)
        args.plan = (struct tca_plan_args){.rail_name = options->prefer, .flags = TCA_PLAN_PREFER};
    uint32_t ranks = tca_size(session), across = 1;

    for (uint32_t n = 1; n * n <= ranks; n++)
        if (ranks % n == 0)
            across = n;
    args.grid[0] = ranks / across;
    args.grid[1] = across;
    part->rows = cut(options->size, args.grid[0], tca_rank(session) / across, &part->row);
    part->columns = cut(options->size, args.grid[1], tca_rank(session) % across, &part->column);
    u.extents[0] = part->rows;
    u.extents[1] = part->columns;
    for (int buffer = 0; buffer < 2; buffer++) {
        uint64_t bytes = (part->rows + 2) * (part->columns + 2) * sizeof(double);
        int r = tca_alloc(session, bytes, (void **)&part->u[buffer]);
        if (r < 0)
            return r;
    }
    reset(part);              /* before a neighbour can write */
    u.memory[0] = part->u[1]; /* the first step writes u[1] */
    u.memory[1] = part->u[0];
    return tca_halo_new(session, &args, ret_halo);
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* *halo_s: grows by the time for the exchange that the computation has not hidden. */
static int step(const struct part *part, struct tca_halo *halo, int from, double *halo_s)
{
    sweep_rim(part, from);
    double start_s = now_s();
    int r = tca_halo_start(halo);
    *halo_s += now_s() - start_s;
    if (r < 0)
        return r;
    sweep_interior(part, from);
    start_s = now_s();
    r = tca_halo_wait(halo, TCA_FOREVER);
    *halo_s += now_s() - start_s;
    return r;
}

/* ---- the result */

static void print_result(struct tca *session, const struct options *options,
                         const struct report *all)
{
    struct report sum = {0};
    const char *comma = "";

    for (uint32_t rank = 0; rank < tca_size(session); rank++) {
        sum.seconds = all[rank].seconds > sum.seconds ? all[rank].seconds : sum.seconds;
        sum.halo_s += all[rank].halo_s / tca_size(session);
        for (int rail = 0; rail < RAILS; rail++)
            sum.faces[rail] += all[rank].faces[rail];
    }
    if (!options->json) {
        printf("laplace: %llu x %llu points, %u ranks, %llu steps in %.3f s%s\n",
               (unsigned long long)options->size, (unsigned long long)options->size,
               tca_size(session), (unsigned long long)options->steps, sum.seconds,
               options->check ? ", the same as a serial solution" : "");
        return;
    }
    printf("{\"size\":%llu,\"ranks\":%u,\"iterations\":%llu,\"seconds\":%.6f,\"halo_share\":%.4f,"
           "\"checked\":%s,\"faces\":{",
           (unsigned long long)options->size, tca_size(session), (unsigned long long)options->steps,
           sum.seconds, sum.seconds > 0 ? sum.halo_s / sum.seconds : 0,
           options->check ? "true" : "false");
    for (int rail = 0; rail < RAILS; rail++)
        if (sum.faces[rail] > 0) {
            printf("%s\"%s\":%u", comma, tca_rail_name((enum tca_rail)rail), sum.faces[rail]);
            comma = ",";
        }
    puts("}}");
}

/* Collective. */
static int report(struct tca *session, const struct options *options, struct tca_halo *halo,
                  struct report *mine)
{
    struct report *all = calloc(tca_size(session), sizeof(*all));
    struct tca_receipt receipt;
    int r = all ? 0 : -ENOMEM;

    for (uint32_t face = 0; r >= 0 && face < tca_halo_faces(halo); face++) {
        r = tca_halo_receipt(halo, face, &receipt);
        if (r >= 0 && receipt.rail < RAILS)
            mine->faces[receipt.rail]++;
    }
    if (r >= 0)
        r = tca_allgather(session, mine, sizeof(*mine), all, TCA_DEFAULT);
    if (r >= 0 && tca_rank(session) == 0)
        print_result(session, options, all);
    free(all);
    return r;
}

static int check(struct tca *session, const struct options *options, const struct part *part)
{
    int64_t differ = options->check ? differences(options, part, (int)(options->steps & 1)) : 0;

    if (differ != 0)
        fprintf(stderr, "laplace: rank %u: %s\n", tca_rank(session),
                differ < 0 ? "no memory for the check" : "differs from a serial solution");
    return differ != 0 ? -EIO : 0;
}

static int run(struct tca *session, const struct options *options)
{
    struct tca_halo *halo = NULL;
    struct part part = {0};
    struct report mine = {0};
    int r = prepare(session, options, &part, &halo);
    double start_s = now_s();

    for (uint64_t n = 0; r >= 0 && n < options->steps; n++)
        r = step(&part, halo, (int)(n & 1), &mine.halo_s);
    mine.seconds = now_s() - start_s;
    if (r < 0) {
        fprintf(stderr, "laplace: rank %u: %s\n", tca_rank(session), tca_error_text());
        return r;
    }
    r = check(session, options, &part);
    if (r >= 0 && (r = report(session, options, halo, &mine)) < 0)
        fprintf(stderr, "laplace: rank %u: report: %s\n", tca_rank(session), tca_error_text());
    tca_halo_free(halo);
    return r;
}

int main(int argc, char **argv)
{
    struct options options;
    struct tca *session;

    if (parse(argc, argv, &options) < 0)
        return 2;
    int r = tca_open(NULL, &session);
    if (r < 0) {
        fprintf(stderr, "laplace: %s\n", tca_error_text());
        return 1;
    }
    r = run(session, &options);
    tca_close(session);
    return r < 0;
}
