/* GPU memory of every process to that of the next, from and to host memory, and operations that
 * must fail. Prints "device" or "host" memory, and how much of other processes' memory was mapped.
 * An argument selects one of the other tests. */
#include "gpu.h"

enum { BYTES = 6 << 20 };

static unsigned char *host, *mirror;    /* the contents of device memory, or the expected ones */
static unsigned char *gpu_out, *gpu_in; /* device memory */
static unsigned char *cpu_out, *cpu_in;
static tcaHandle *gpu_outs, *gpu_ins, *cpu_outs, *cpu_ins;
static int next, before;

static unsigned char value(int of, size_t at, int round)
{
    return (unsigned char)((at * 2654435761u >> 9) + (size_t)of * 37 + (size_t)round * 11);
}

/* The data shipped last has been read, which its receiver knows, but not this process. */
static void fill(int round)
{
    TCA_CHECK(tcaWaitDMAC(0));
    for (size_t i = 0; i < BYTES; i++)
        host[i] = value(rank, i, round);
    gpu_write(gpu_out, host, BYTES);
    memcpy(cpu_out, host, BYTES);
    memset(mirror, 0xee, BYTES);
    gpu_write(gpu_in, mirror, BYTES);
    memset(cpu_in, 0xee, BYTES);
    barrier();
}

static void note_rows(int of, size_t to, size_t to_pitch, size_t from, size_t from_pitch,
                      size_t width, size_t height, int round)
{
    for (size_t row = 0; row < height; row++)
        for (size_t i = 0; i < width; i++)
            mirror[to + row * to_pitch + i] = value(of, from + row * from_pitch + i, round);
}

/* The expected data has arrived, and nothing else. */
static void expect_noted(const unsigned char *in)
{
    if (in == gpu_in)
        gpu_read(host, gpu_in, BYTES);
    else
        memcpy(host, in, BYTES);
    REQUIRE(memcmp(host, mirror, BYTES) == 0);
}

static void expect_rows(const unsigned char *in, int of, size_t to, size_t to_pitch, size_t from,
                        size_t from_pitch, size_t width, size_t height, int round)
{
    note_rows(of, to, to_pitch, from, from_pitch, width, height, round);
    expect_noted(in);
}

/* One descriptor, and one notification. */
static void ship(const tcaHandle *to, size_t to_at, size_t to_pitch, const tcaHandle *from,
                 size_t from_at, size_t from_pitch, size_t width, size_t height, int tag)
{
    tcaDesc *desc = tcaDescNew();
    TCA_CHECK(tcaDescSetMemcpy2D(desc, to, (off_t)to_at, to_pitch, from, (off_t)from_at, from_pitch,
                                 width, height, tcaDMANotify | tcaDMAUseInternal, 3, tag));
    TCA_CHECK(tcaDescSet(desc, 0));
    TCA_CHECK(tcaStartDMADesc(0));
    TCA_CHECK(tcaDescFree(desc));
}

static void contiguous(size_t bytes, size_t to, size_t from, int round)
{
    fill(round);
    ship(&gpu_ins[next], to, bytes, &gpu_outs[rank], from, bytes, bytes, 1, round);
    TCA_CHECK(tcaWaitDMARecvDesc(&gpu_ins[before], 3, round));
    expect_rows(gpu_in, before, to, 0, from, 0, bytes, 1, round);
}

/* Every pair of kinds, with gaps. */
static void strided(size_t width, size_t height, size_t to_pitch, size_t from_pitch, int round)
{
    fill(round);
    ship(&gpu_ins[next], 3, to_pitch, &gpu_outs[rank], 5, from_pitch, width, height, 1);
    TCA_CHECK(tcaWaitDMARecvDesc(&gpu_ins[before], 3, 1));
    expect_rows(gpu_in, before, 3, to_pitch, 5, from_pitch, width, height, round);
    fill(round + 1);
    ship(&gpu_ins[next], 3, to_pitch, &cpu_outs[rank], 5, from_pitch, width, height, 2);
    TCA_CHECK(tcaWaitDMARecvDesc(&gpu_ins[before], 3, 2));
    expect_rows(gpu_in, before, 3, to_pitch, 5, from_pitch, width, height, round + 1);
    fill(round + 2);
    ship(&cpu_ins[next], 3, to_pitch, &gpu_outs[rank], 5, from_pitch, width, height, 3);
    TCA_CHECK(tcaWaitDMARecvDesc(&gpu_ins[before], 3, 3));
    expect_rows(cpu_in, before, 3, to_pitch, 5, from_pitch, width, height, round + 2);
    fill(round + 3);
    ship(&gpu_ins[rank], 3, to_pitch, &gpu_outs[rank], 5, from_pitch, width, height, 4);
    TCA_CHECK(tcaWaitDMARecvDesc(&gpu_ins[rank], 3, 4));
    expect_rows(gpu_in, rank, 3, to_pitch, 5, from_pitch, width, height, round + 3);
}

/* The data of a channel is there when it is idle; and again data that has changed meanwhile. */
static void without_notification(void)
{
    tcaDesc *desc = tcaDescNew();
    TCA_CHECK(tcaDescSetMemcpy(desc, &gpu_ins[next], 100, &gpu_outs[rank], 200, 300000,
                               tcaDMANotifySelf, 0, 7));
    TCA_CHECK(tcaDescSetMemcpy(desc, &gpu_ins[next], 400000, &cpu_outs[rank], 0, 17, 0, 0, 0));
    TCA_CHECK(tcaDescSet(desc, 2));
    for (int round = 50; round < 54; round++) {
        fill(round);
        TCA_CHECK(tcaStartDMADesc(2));
        TCA_CHECK(tcaWaitDMARecvDesc(&cpu_outs[rank], 0, 7));
        TCA_CHECK(tcaWaitDMAC(2));
        barrier();
        note_rows(before, 100, 0, 200, 0, 300000, 1, round);
        expect_rows(gpu_in, before, 400000, 0, 0, 0, 17, 1, round);
    }
    TCA_CHECK(tcaDescFree(desc));
}

/* A handle of a part of memory; the notifications are of device memory's handles, too. */
static void parts(void)
{
    tcaHandle *half = gather_handles(gpu_in + BYTES / 2 + 8, 1000, tcaMemoryGPU);
    tcaHandle beyond;
    fill(60);
    ship(&half[next], 8, 100, &gpu_outs[rank], 0, 100, 100, 1, 60);
    TCA_CHECK(tcaWaitDMARecvDesc(&half[before], 3, 60));
    expect_rows(gpu_in, before, BYTES / 2 + 16, 0, 0, 0, 100, 1, 60);
    tcaDesc *desc = tcaDescNew();
    TCA_EXPECT(tcaDescSetMemcpy(desc, &half[next], 901, &gpu_outs[rank], 0, 100, 0, 0, 0),
               TCA_ERROR_INVALID_VALUE);
    TCA_EXPECT(tcaCreateHandle(&beyond, gpu_in + BYTES - 4, 64 << 20, tcaMemoryGPU),
               TCA_ERROR_INVALID_VALUE);
    TCA_CHECK(tcaDescFree(desc));
    free(half);
}

static void refused(void)
{
    tcaPIOHandle pio;
    TCA_EXPECT(tcaSetPIORegion(&pio, &gpu_ins[rank], 0, 64), TCA_ERROR_NOT_SUPPORTED);
    tcaDesc *desc = tcaDescNew();
    TCA_CHECK(tcaDescSetMemcpy(desc, &cpu_ins[rank], 100, &cpu_outs[rank], 0, 100, 0, 0, 0));
    TCA_CHECK(tcaDescSetMemcpy(desc, &gpu_ins[rank], 0, &cpu_ins[rank], 199, 50, 0, 0, 0));
    TCA_EXPECT(tcaDescSet(desc, 1), TCA_ERROR_NOT_SUPPORTED);
    TCA_CHECK(tcaDescFree(desc));
    desc = tcaDescNew(); /* side by side they are fine */
    TCA_CHECK(tcaDescSetMemcpy(desc, &cpu_ins[rank], 100, &cpu_outs[rank], 0, 100, 0, 0, 0));
    TCA_CHECK(tcaDescSetMemcpy(desc, &gpu_ins[rank], 0, &cpu_ins[rank], 200, 50, 0, 0, 0));
    TCA_CHECK(tcaDescSet(desc, 1));
    TCA_CHECK(tcaDescFree(desc));
}

/* The node of `next`, with the tcad that knows at once what was freed there. */
static int same_node(void)
{
    int own = atoi(getenv("TCA_NODE")), its = -1;
    MPI_Sendrecv(&own, 1, MPI_INT, before, 0, &its, 1, MPI_INT, next, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    return own == its;
}

/* The next start must fail; to another node, starts complete in vain until its tcad has told
 * ours. */
static void starts_end(int channel)
{
    tcaresult result;
    const int at_once = same_node();
    do {
        result = tcaStartDMADesc(channel);
        if (result == TCA_SUCCESS)
            result = tcaWaitDMAC(channel);
    } while (result == TCA_SUCCESS && !at_once);
    REQUIRE(result == TCA_ERROR_INVALID_VALUE);
}

/* Memory that is freed while channels use it: here, and at the peer. */
static void freed(void)
{
    unsigned char *from, *to;
    TCA_CHECK(tcaMalloc((void **)&from, 5000, tcaMemoryGPU));
    TCA_CHECK(tcaMalloc((void **)&to, 5000, tcaMemoryGPU));
    tcaHandle *froms = gather_handles(from, 5000, tcaMemoryGPU);
    tcaHandle *tos = gather_handles(to, 5000, tcaMemoryGPU);
    tcaDesc *desc = tcaDescNew();
    TCA_CHECK(tcaDescSetMemcpy(desc, &tos[next], 0, &gpu_outs[rank], 0, 5000, 0, 0, 0));
    TCA_CHECK(tcaDescSet(desc, 1));
    TCA_CHECK(tcaStartDMADesc(1));
    TCA_CHECK(tcaWaitDMAC(1));
    barrier();
    TCA_EXPECT(tcaFree(to, tcaMemoryCPU), TCA_ERROR_INVALID_VALUE);
    TCA_CHECK(tcaFree(to, tcaMemoryGPU));
    TCA_EXPECT(tcaFree(to, tcaMemoryGPU), TCA_ERROR_INVALID_VALUE);
    barrier();
    starts_end(1);
    TCA_CHECK(tcaDescFree(desc));
    desc = tcaDescNew();
    TCA_CHECK(tcaDescSetMemcpy(desc, &gpu_ins[next], 0, &froms[rank], 0, 5000, 0, 0, 0));
    TCA_CHECK(tcaDescSet(desc, 1));
    TCA_CHECK(tcaFree(from, tcaMemoryGPU));
    TCA_EXPECT(tcaStartDMADesc(1), TCA_ERROR_INVALID_VALUE);
    TCA_CHECK(tcaDescFree(desc));
    barrier();
    free(froms);
    free(tos);
}

/* Memory that the program allocates by CUDA itself (cudaMalloc()) has handles, too. */
static void adopted(void)
{
    uint64_t own = 0;
    tcaHandle none;
    REQUIRE(gpu.alloc(&own, 100000) == 0);
    unsigned char *memory = (unsigned char *)(uintptr_t)own;
    tcaHandle *all = gather_handles(memory + 64, 90000, tcaMemoryGPU);
    memset(host, rank + 1, 100000);
    gpu_write(memory, host, 100000);
    fill(70);
    ship(&all[next], 0, 80000, &gpu_outs[rank], 0, 80000, 80000, 1, 70);
    TCA_CHECK(tcaWaitDMARecvDesc(&all[before], 3, 70));
    gpu_read(host, memory, 100000);
    for (size_t i = 0; i < 100000; i++)
        REQUIRE(host[i] == (i < 64 || i >= 80064 ? rank + 1 : value(before, i - 64, 70)));
    fill(71);
    ship(&gpu_ins[next], 9, 64, &all[rank], 0, 64, 64, 1, 71);
    TCA_CHECK(tcaWaitDMARecvDesc(&all[before], 3, 71));
    for (size_t i = 0; i < 64; i++)
        mirror[9 + i] = value((before + size - 1) % size, i, 70);
    expect_noted(gpu_in);
    barrier();
    REQUIRE(gpu.free(own) == 0);
    barrier();
    tcaDesc *desc = tcaDescNew();
    TCA_CHECK(tcaDescSetMemcpy(desc, &all[next], 0, &gpu_outs[rank], 0, 8, 0, 0, 0));
    TCA_CHECK(tcaDescSet(desc, 1));
    TCA_EXPECT(tcaStartDMADesc(1), TCA_ERROR_INVALID_VALUE);
    TCA_CHECK(tcaDescFree(desc));
    TCA_EXPECT(tcaCreateHandle(&none, &none, 8, tcaMemoryGPU), TCA_ERROR_INVALID_VALUE);
    free(all);
    barrier();
}

static void allocate(void)
{
    host = (unsigned char *)malloc(BYTES);
    mirror = (unsigned char *)malloc(BYTES);
    TCA_CHECK(tcaMalloc((void **)&gpu_out, BYTES, tcaMemoryGPU));
    TCA_CHECK(tcaMalloc((void **)&gpu_in, BYTES, tcaMemoryGPU));
    TCA_CHECK(tcaMalloc((void **)&cpu_out, BYTES, tcaMemoryCPU));
    TCA_CHECK(tcaMalloc((void **)&cpu_in, BYTES, tcaMemoryCPU));
    gpu_outs = gather_handles(gpu_out, BYTES, tcaMemoryGPU);
    gpu_ins = gather_handles(gpu_in, BYTES, tcaMemoryGPU);
    cpu_outs = gather_handles(cpu_out, BYTES, tcaMemoryCPU);
    cpu_ins = gather_handles(cpu_in, BYTES, tcaMemoryCPU);
    REQUIRE(gpu_is_host(gpu_out) != gpu.ready);
}

int main(int argc, char **argv)
{
    int rank_here = getenv("OMPI_COMM_WORLD_RANK") ? atoi(getenv("OMPI_COMM_WORLD_RANK"))
                                                   : atoi(getenv("PMI_RANK"));
    if (argc > 1 && strcmp(argv[1], "mixed") == 0 && rank_here % 2 == 0)
        setenv("TCA_CUDA", "off", 1);
    begin(&argc, &argv);
    next = (rank + 1) % size, before = (rank + size - 1) % size;
    gpu_open(rank % 2);
    void *current = NULL;
    if (gpu.ready)
        REQUIRE(gpu.get(&current) == 0);
    allocate();
    contiguous(1, 0, 0, 10);
    contiguous(4096, 3, 5, 11);
    contiguous((1 << 20) + 123, 1000, 1, 12);
    contiguous(5 << 20, 77, 4099, 13);
    strided(24, 500, 8192, 4096, 20);
    strided(1000, 64, 1000, 1000, 30);
    strided(1500000, 3, 1600000, 1700001, 40);
    without_notification();
    parts();
    freed();
    if (gpu.ready)
        refused();
    int all = 0;
    MPI_Allreduce(&gpu.ready, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (all)
        adopted();
    if (gpu.ready) { /* its context is as it was */
        void *now = NULL;
        REQUIRE(gpu.get(&now) == 0 && now == current);
    }
    unsigned imports = gpu.ready ? gpu.imports() : 0, most = 0;
    MPI_Allreduce(&imports, &most, 1, MPI_UNSIGNED, MPI_MAX, MPI_COMM_WORLD);
    if (rank == size - 1)
        printf("%s memory, %s\n", gpu.ready ? "device" : "host", most ? "mapped" : "not mapped");
    return end("device");
}
