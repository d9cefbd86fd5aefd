/* Faces of cubes, vectors and contiguous data, of doubles. */
#include "tests/bench/ddtbench/pattern.h"

enum { DOUBLE = 8, PAGE = 4096 };

/* ---- a cube of n * n * n doubles, C's order: the last inner face goes to the neighbour's halo at
 * the other end. i: one block, j: n rows, k: n * n single doubles. Numbers: n. */

static void cube(struct pattern *pattern, int64_t n, const struct form *face, int64_t step)
{
    pattern->send = pattern->receive = face;
    pattern->send_at = (n - 2) * step * DOUBLE;
    pattern->receive_at = 0;
    pattern->area_bytes = (uint64_t)(n * n * n) * DOUBLE;
}

static void cube_i(struct pattern *pattern, const int32_t *n)
{
    uint64_t points = (uint64_t)n[0] * (uint64_t)n[0];

    cube(pattern, n[0], form_run(pattern->shelf, DOUBLE, points), (int64_t)points);
}

static void cube_j(struct pattern *pattern, const int32_t *n)
{
    const struct form *row = form_run(pattern->shelf, DOUBLE, (uint64_t)n[0]);

    cube(pattern, n[0],
         form_vector(pattern->shelf, (uint64_t)n[0], (int64_t)n[0] * n[0] * DOUBLE, row), n[0]);
}

static void cube_k(struct pattern *pattern, const int32_t *n)
{
    const struct form *point = form_run(pattern->shelf, DOUBLE, 1);

    cube(
        pattern, n[0],
        form_vector(pattern->shelf, (uint64_t)n[0] * (uint64_t)n[0], (int64_t)n[0] * DOUBLE, point),
        1);
}

/* ---- blocks at a stride, from one half of the area to the other. Numbers: count, bytes of a
 * block, stride. */

static void vector(struct pattern *pattern, const int32_t *n)
{
    int64_t span = (int64_t)n[0] * n[2];

    pattern->send = pattern->receive =
        form_vector(pattern->shelf, (uint64_t)n[0], n[2],
                    form_run(pattern->shelf, DOUBLE, (uint64_t)n[1] / DOUBLE));
    pattern->receive_at = (span + PAGE - 1) / PAGE * PAGE;
    pattern->area_bytes = 2 * (uint64_t)pattern->receive_at;
}

/* Numbers: bytes. */
static void contiguous(struct pattern *pattern, const int32_t *n)
{
    vector(pattern, (int32_t[]){1, n[0], n[0]});
    pattern->send = pattern->receive = form_run(pattern->shelf, DOUBLE, (uint64_t)n[0] / DOUBLE);
}

/* clang-format off */
const struct pattern_entry plain_patterns[] = {
    {"cube_i", cube_i, 2048, {16}},
    {"cube_j", cube_j, 2048, {16}},
    {"cube_k", cube_k, 2048, {16}},
    {"cube_i", cube_i, 8192, {32}},
    {"cube_j", cube_j, 8192, {32}},
    {"cube_k", cube_k, 8192, {32}},
    {"cube_i", cube_i, 32768, {64}},
    {"cube_j", cube_j, 32768, {64}},
    {"cube_k", cube_k, 32768, {64}},
    {"cube_i", cube_i, 131072, {128}},
    {"cube_j", cube_j, 131072, {128}},
    {"cube_k", cube_k, 131072, {128}},
    {"cube_i", cube_i, 524288, {256}},
    {"cube_j", cube_j, 524288, {256}},
    {"cube_k", cube_k, 524288, {256}},
    {"cube_i", cube_i, 2097152, {512}},
    {"cube_j", cube_j, 2097152, {512}},
    {"cube_k", cube_k, 2097152, {512}},
    {"vector_8_16", vector, 8192, {1024, 8, 16}},
    {"vector_8_64", vector, 8192, {1024, 8, 64}},
    {"vector_8_512", vector, 8192, {1024, 8, 512}},
    {"vector_8_4096", vector, 8192, {1024, 8, 4096}},
    {"vector_64_128", vector, 65536, {1024, 64, 128}},
    {"vector_64_512", vector, 65536, {1024, 64, 512}},
    {"vector_64_4096", vector, 65536, {1024, 64, 4096}},
    {"vector_512_1024", vector, 524288, {1024, 512, 1024}},
    {"vector_512_4096", vector, 524288, {1024, 512, 4096}},
    {"contiguous", contiguous, 8, {8}},
    {"contiguous", contiguous, 64, {64}},
    {"contiguous", contiguous, 512, {512}},
    {"contiguous", contiguous, 4096, {4096}},
    {"contiguous", contiguous, 16384, {16384}},
    {"contiguous", contiguous, 65536, {65536}},
    {"contiguous", contiguous, 262144, {262144}},
    {"contiguous", contiguous, 1048576, {1048576}},
    {"contiguous", contiguous, 4194304, {4194304}},
    {NULL},
};
/* clang-format on */
