/* delegated TEST: an offload processor of the group in the environment, which the tca-hostd at
 * TCA_HOSTD serves. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/include/tca-dcfa.h"
#include "tests/integration/dcfa/check.h"

enum { MEMORY_BYTES = 1 << 20 };

static struct dcfa *processor;
static struct dcfa_host *host;
static uint8_t *memory;
static uint32_t rank, size;

static void fails(int64_t r, int error, const char *text)
{
    CHECK(r == error && strstr(tca_error_text(), text), "%lld instead of %d (%s): %s", (long long)r,
          error, text, tca_error_text());
}

/* ---- over the group ---- */

static void gather(void)
{
    uint32_t *mine = (uint32_t *)memory, *all = (uint32_t *)(memory + 4096);
    for (int round = 0; round < 3; round++) {
        mine[0] = 100 * rank;
        mine[1] = (uint32_t)round;
        GOOD(dcfa_host_allgather(host, mine, 8, all));
        for (uint32_t i = 0; i < size; i++)
            CHECK(all[2 * i] == 100 * i && all[2 * i + 1] == (uint32_t)round, "of rank %u", i);
    }
}

static void sums(uint64_t count, uint32_t root)
{
    int64_t *in = (int64_t *)memory, *out = (int64_t *)(memory + MEMORY_BYTES / 2);
    for (uint64_t i = 0; i < count; i++) {
        in[i] = (int64_t)(i * (rank + 1));
        out[i] = -1;
    }
    GOOD(dcfa_host_reduce(host, in, out, count, TCA_TYPE_INT64, TCA_COMBINE_SUM, root));
    for (uint64_t i = 0; i < count; i++) {
        const int64_t wanted = rank == root ? (int64_t)(i * size * (size + 1) / 2) : -1;
        CHECK(out[i] == wanted, "element %llu: %lld", (unsigned long long)i, (long long)out[i]);
    }
}

static void maxima(uint64_t count)
{
    double *both = (double *)memory;
    for (uint64_t i = 0; i < count; i++)
        both[i] = (double)i + rank;
    GOOD(dcfa_host_allreduce(host, both, both, count, TCA_TYPE_DOUBLE, TCA_COMBINE_MAX));
    for (uint64_t i = 0; i < count; i++)
        CHECK(both[i] == (double)i + size - 1, "element %llu", (unsigned long long)i);
}

/* More kinds of reductions than tca-hostd keeps, and again those that it has dropped. */
static void reductions(void)
{
    gather();
    for (int round = 0; round < 3; round++) {
        for (uint64_t count = 1; count <= 6; count++)
            sums(count, (uint32_t)count % size);
        for (uint64_t count = 1; count <= 6; count++)
            maxima(count * 10);
    }
    maxima(1000);
    maxima(MEMORY_BYTES / 8);
    GOOD(dcfa_host_finalize(host));
}

/* Rank 1 is killed: the others do not wait for it. */
static void death(void)
{
    int64_t r = 0;
    maxima(10);
    if (rank == 1)
        raise(SIGKILL);
    while (r == 0)
        r = dcfa_host_allreduce(host, memory, memory, 10, TCA_TYPE_DOUBLE, TCA_COMBINE_SUM);
    fails(r, -EOWNERDEAD, "tca-hostd: ");
    fails(dcfa_host_finalize(host), -EOWNERDEAD, "earlier");
    GOOD((int)dcfa_host_write(host, "still", 0, memory, 1)); /* requests that concern no other
                                                                rank still work */
}

/* tca-hostd is killed, which the test does when it sees the files of all ranks, perhaps before it
 * has replied to this. */
static void abandoned(void)
{
    char file[32];
    snprintf(file, sizeof(file), "ready%u", rank);
    int64_t r = dcfa_host_write(host, file, 0, memory, 1);
    while (r >= 0)
        r = dcfa_host_read(host, file, 0, memory, 1);
    fails(r, -EOWNERDEAD, "tca-hostd has ended");
}

/* ---- files ---- */

static void files(void)
{
    uint8_t *copy = memory + MEMORY_BYTES / 2;
    for (uint32_t i = 0; i < 100000; i++)
        memory[i] = (uint8_t)(i * 2654435761u >> 24);
    CHECK(dcfa_host_write(host, "out", 0, memory, 100000) == 100000, "%s", tca_error_text());
    CHECK(dcfa_host_write(host, "out", 50000, memory, 10) == 10, "%s", tca_error_text());
    CHECK(dcfa_host_read(host, "out", 0, copy, 200000) == 100000, "%s", tca_error_text());
    CHECK(memcmp(copy, memory, 50000) == 0 && memcmp(copy + 50000, memory, 10) == 0 &&
              memcmp(copy + 50010, memory + 50010, 49990) == 0,
          "what was read");
    CHECK(dcfa_host_read(host, "out", 99990, copy, 100) == 10, "the end");
    CHECK(dcfa_host_read(host, "out", 1 << 20, copy, 100) == 0, "beyond the end");
    CHECK(dcfa_host_read(host, "below/in", 0, copy, 100) == 5 && memcmp(copy, "input", 5) == 0,
          "%s", tca_error_text());
    fails(dcfa_host_read(host, "missing", 0, copy, 1), -ENOENT, "missing");
    fails(dcfa_host_read(host, "../outside", 0, copy, 1), -EXDEV, "leaves");
    fails(dcfa_host_write(host, "../outside", 0, copy, 1), -EXDEV, "leaves");
    fails(dcfa_host_read(host, "/etc/passwd", 0, copy, 1), -EXDEV, "leaves");
    fails(dcfa_host_read(host, "link", 0, copy, 1), -EXDEV, "leaves");
    fails(dcfa_host_read(host, "below", 0, copy, 1), -EINVAL, "regular");
    fails(dcfa_host_read(host, "pipe", 0, copy, 1), -EINVAL, "regular");
    fails(dcfa_host_write(host, "pipe", 0, copy, 1), -ENXIO, "pipe");
    fails(dcfa_host_read(host, "out", UINT64_MAX, copy, 1), -EINVAL, "too large");
    fails(dcfa_host_read(host, "out", 0, copy, MEMORY_BYTES), -EINVAL, "dcfa_memory");
    fails(dcfa_host_allreduce(host, copy, copy, UINT64_MAX / 2, TCA_TYPE_DOUBLE, TCA_COMBINE_SUM),
          -EINVAL, "elements");
    fails(dcfa_host_allreduce(host, copy, copy, 1, TCA_TYPE_DOUBLE, TCA_COMBINE_REPLACE), -EINVAL,
          "replace does not combine");
    maxima(10); /* none of this is an end */
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {
        {"reductions", reductions}, {"death", death}, {"abandoned", abandoned}, {"files", files}};
    const struct tca_open_args alone = {.group = getenv("TCA_TEST_ALONE"), .size = 1};
    struct tca *session;
    GOOD(tca_open(&alone, &session));
    GOOD(dcfa_open(session, MEMORY_BYTES, &processor));
    memory = dcfa_memory(processor, NULL);
    GOOD(dcfa_host_open(processor, NULL, &host));
    rank = dcfa_host_rank(host);
    size = dcfa_host_size(host);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        if (argc == 2 && strcmp(argv[1], tests[i].name) == 0)
            tests[i].run();
    dcfa_host_close(host);
    dcfa_close(processor);
    tca_close(session);
    return 0;
}
