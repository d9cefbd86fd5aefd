/*
 * Pi on offload processors, with the division of labour of DCFA-MPI. Each processor integrates its
 * part of 4 / (1 + x * x) and passes sums around a ring through queues in its own memory. On the
 * host, tca-hostd joins the group, reads the number of intervals from the file dcfa_pi.in,
 * exchanges addresses, computes a second sum to compare with, and writes dcfa_pi.out.
 *
 *     echo 10000000 > dcfa_pi.in
 *     export TCA_HOSTD=$PWD/hostd.sock
 *     tca-hostd &
 *     for rank in 0 1 2; do TCA_GROUP=pi TCA_RANK=$rank TCA_SIZE=3 dcfa_pi & done; wait
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tca-dcfa.h>
#include <unistd.h>

enum { MEMORY_BYTES = 1 << 20, ENTRIES = 64, FILE_BYTES = 64 };

struct ends { /* of a processor: to its right neighbour, and from its left one */
    struct dcfa_address right, left;
};

/* What the processor's memory is used for. */
struct memory {
    double sums[ENTRIES + 1]; /* own, and those of the ring as they arrive */
    double total;
    char file[FILE_BYTES];
    struct ends mine, all[ENTRIES];
};
_Static_assert(sizeof(struct memory) <= MEMORY_BYTES, "fits");

static struct tca *session;
static struct dcfa *processor;
static struct dcfa_host *host;
static struct memory *memory;
static struct dcfa_pd *pd;
static struct dcfa_cq *cq;
static struct dcfa_mr *mr;
static struct dcfa_qp *to_right, *from_left;
static uint32_t rank, size;

static void fail(const char *what)
{
    fprintf(stderr, "dcfa_pi: rank %u: %s\n", rank, what);
    exit(1);
}

static void check(int64_t result)
{
    if (result < 0)
        fail(tca_error_text());
}

/* ---- setting up ---- */

/* tca-hostd joins the group; the processor's own session is a group of one. */
static void begin(void)
{
    char node[32] = "", name[64];
    gethostname(node, sizeof(node) - 1);
    snprintf(name, sizeof(name), "pi-%.31s-%d", node, getpid());
    const struct tca_open_args alone = {.group = name, .size = 1};
    check(tca_open(&alone, &session));
    check(dcfa_open(session, MEMORY_BYTES, &processor));
    memory = dcfa_memory(processor, NULL);
    check(dcfa_host_open(processor, NULL, &host));
    rank = dcfa_host_rank(host);
    size = dcfa_host_size(host);
    if (size > ENTRIES)
        fail("more than 64 ranks");
}

static void connect_ring(void)
{
    const uint32_t right = (rank + 1) % size, left = (rank + size - 1) % size;
    check(dcfa_pd_new(processor, &pd));
    check(dcfa_cq_new(processor, 4 * ENTRIES, &cq));
    check(dcfa_mr_new(pd, memory, sizeof(*memory), DCFA_LOCAL, &mr));
    const struct dcfa_qp_args args = {cq, cq, ENTRIES, ENTRIES};
    check(dcfa_qp_new(pd, &args, &to_right));
    check(dcfa_qp_new(pd, &args, &from_left));
    dcfa_qp_address(to_right, &memory->mine.right);
    dcfa_qp_address(from_left, &memory->mine.left);
    check(dcfa_host_allgather(host, &memory->mine, sizeof(memory->mine), memory->all));
    check(dcfa_qp_connect(to_right, &memory->all[right].left));
    check(dcfa_qp_connect(from_left, &memory->all[left].right));
    check(dcfa_host_allgather(host, memory, 1, memory->file)); /* all are connected */
}

/* ---- computing ---- */

static double integrate(uint64_t intervals)
{
    double sum = 0;
    for (uint64_t i = rank; i < intervals; i += size) {
        const double x = ((double)i + 0.5) / (double)intervals;
        sum += 4 / (1 + x * x);
    }
    return sum / (double)intervals;
}

static void wait_for(uint32_t count)
{
    struct dcfa_completion completion;
    for (uint32_t i = 0; i < count; i++) {
        check(dcfa_wait(cq, 1, TCA_DEFAULT, &completion));
        if (completion.result != DCFA_OK)
            fail(dcfa_result_name(completion.result));
    }
}

/* Each processor passes on what it has received last, until all have every sum. */
static double ring_sum(double mine)
{
    const uint32_t key = dcfa_mr_local_key(mr);
    double sum = memory->sums[0] = mine;
    for (uint32_t step = 1; step < size; step++) {
        const struct dcfa_piece in = {&memory->sums[step], sizeof(double), key};
        check(dcfa_post_receive(from_left, step, &in, 1));
    }
    for (uint32_t step = 1; step < size; step++) {
        const struct dcfa_piece out = {&memory->sums[step - 1], sizeof(double), key};
        const struct dcfa_send send = {
            .what = DCFA_SEND, .flags = DCFA_SIGNALLED, .pieces = &out, .piece_count = 1};
        check(dcfa_post_send(to_right, &send));
        wait_for(2); /* this, and what arrives */
        sum += memory->sums[step];
    }
    return sum;
}

/* ---- files ---- */

static uint64_t read_intervals(void)
{
    int64_t bytes = dcfa_host_read(host, "dcfa_pi.in", 0, memory->file, FILE_BYTES - 1);
    check(bytes);
    memory->file[bytes] = '\0';
    const uint64_t intervals = strtoull(memory->file, NULL, 10);
    if (intervals == 0)
        fail("dcfa_pi.in is not a number of intervals");
    return intervals;
}

static void write_result(double pi)
{
    const int bytes = snprintf(memory->file, FILE_BYTES, "%.12f\n", pi);
    check(dcfa_host_write(host, "dcfa_pi.out", 0, memory->file, (uint64_t)bytes));
    memset(memory->file, 0, FILE_BYTES);
    check(dcfa_host_read(host, "dcfa_pi.out", 0, memory->file, (uint64_t)bytes));
    if (fabs(strtod(memory->file, NULL) - pi) > 1e-11)
        fail("dcfa_pi.out is not what was written");
}

int main(void)
{
    begin();
    connect_ring();
    const uint64_t intervals = read_intervals();
    const double mine = integrate(intervals), sum = ring_sum(mine);
    memory->total = mine;
    check(dcfa_host_allreduce(host, &memory->total, &memory->total, 1, TCA_TYPE_DOUBLE,
                              TCA_COMBINE_SUM));
    const double pi = memory->total;
    if (fabs(sum - pi) > 1e-12)
        fail("the sums differ");
    if (fabs(pi - 3.14159265358979323846) > 1 / ((double)intervals * (double)intervals) + 1e-11)
        fail("this is not pi");
    if (rank == 0) {
        write_result(pi);
        printf("pi = %.12f, by %u offload processors on %s\n", pi, size, dcfa_device(processor));
    }
    check(dcfa_host_finalize(host));
    dcfa_host_close(host);
    dcfa_close(processor);
    tca_close(session);
    return 0;
}
