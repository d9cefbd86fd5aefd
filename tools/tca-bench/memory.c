/*
 * tca-bench --memory: what it costs to compute on memory of malloc(), of tca_alloc(), and of
 * malloc() after tca_region_attach(): the same loops, interleaved. The differences come from the
 * pages: where they are small, most accesses far apart wait for address translation.
 */
#include "tools/tca-bench/memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tca.h"
#include "tools/tca-bench/work.h"

enum { KINDS = 3, ROUNDS = 11, PAGE = 4096, LINE = 64, THREADS_MAX = 64 };

struct kind {
    const char *name;
    uint8_t *memory;
    struct tca_region *region;
    double share;                                            /* in huge pages */
    double linear[ROUNDS], threads[ROUNDS], strided[ROUNDS]; /* bytes and accesses per ns */
};

/* ---- loops ---- */

struct part {
    double *values;
    size_t count;
};

static void *compute_part(void *context)
{
    const struct part *part = context;
    for (size_t i = 0; i < part->count; i++)
        part->values[i] = part->values[i] * 1.0000001 + 1;
    return NULL;
}

/* Reads and writes all of it once, a part in each thread. Bytes per ns. */
static double linear(uint8_t *memory, uint64_t bytes, unsigned threads)
{
    struct part parts[THREADS_MAX];
    pthread_t ids[THREADS_MAX];
    unsigned begun = 1;
    const size_t count = bytes / sizeof(double) / threads;
    for (unsigned i = 0; i < threads; i++)
        parts[i] = (struct part){(double *)(void *)memory + i * count, count};
    const uint64_t start_ns = now_ns();
    while (begun < threads && pthread_create(&ids[begun], NULL, compute_part, &parts[begun]) == 0)
        begun++;
    compute_part(&parts[0]);
    for (unsigned i = 1; i < begun; i++)
        pthread_join(ids[i], NULL);
    return (double)(begun * count * sizeof(double)) / (double)(now_ns() - start_ns);
}

/* Accesses one word of each page, of another cache line in the next one. Accesses per ns. */
static double strided(uint8_t *memory, uint64_t bytes)
{
    const uint64_t pages = bytes / PAGE;
    const uint64_t start_ns = now_ns();
    for (unsigned pass = 0; pass < 4; pass++)
        for (uint64_t page = 0; page < pages; page++)
            ++*(volatile uint64_t *)(void *)(memory + page * PAGE +
                                             (page * LINE + pass * 17 * LINE) % PAGE);
    return (double)(4 * pages) / (double)(now_ns() - start_ns);
}

/* ---- pages ---- */

/* Of the mappings that contain some of these bytes. */
static double huge_share(const uint8_t *memory, uint64_t bytes)
{
    char line[512];
    unsigned long long first, end, kb;
    uint64_t huge_kb = 0, all_kb = 0;
    bool inside = false;
    FILE *from = fopen("/proc/self/smaps", "re");
    if (!from)
        return 0;
    while (fgets(line, sizeof(line), from)) {
        if (sscanf(line, "%llx-%llx ", &first, &end) == 2)
            inside = first < (uintptr_t)memory + bytes && end > (uintptr_t)memory;
        else if (inside && sscanf(line, "Rss: %llu", &kb) == 1)
            all_kb += kb;
        else if (inside && (sscanf(line, "AnonHugePages: %llu", &kb) == 1 ||
                            sscanf(line, "ShmemPmdMapped: %llu", &kb) == 1 ||
                            sscanf(line, "Shared_Hugetlb: %llu", &kb) == 1))
            huge_kb += kb;
    }
    fclose(from);
    return all_kb ? (double)huge_kb / (double)all_kb : 0;
}

static void setting(const char *name, char *ret_value, size_t room)
{
    char path[128], text[128] = "";
    snprintf(path, sizeof(path), "/sys/kernel/mm/transparent_hugepage/%s", name);
    FILE *from = fopen(path, "re");
    snprintf(ret_value, room, "unknown");
    if (!from)
        return;
    const char *chosen = fgets(text, sizeof(text), from) ? strchr(text, '[') : NULL;
    if (chosen)
        snprintf(ret_value, room, "%.*s", (int)strcspn(chosen + 1, "]"), chosen + 1);
    fclose(from);
}

/* ---- the table ---- */

static double median(const double rounds[ROUNDS])
{
    double sorted[ROUNDS];
    memcpy(sorted, rounds, sizeof(sorted));
    return median_of_doubles(sorted, ROUNDS);
}

static void advise(const struct kind kinds[KINDS])
{
    char private[32], shared[32];
    const double best = median(kinds[0].strided) > median(kinds[1].strided)
                            ? median(kinds[0].strided)
                            : median(kinds[1].strided);
    setting("enabled", private, sizeof(private));
    setting("shmem_enabled", shared, sizeof(shared));
    printf("\nTransparent huge pages: of malloc() \"%s\", shared \"%s\".\n", private, shared);
    if (kinds[1].share < 0.9)
        printf("Memory of tca_alloc() is in small pages; an access to another page takes %.1f ns.\n"
               "The administrator can have it in huge ones: memory.huge_pages = try in tcad.conf,\n"
               "with Linux 6.1 or newer, or with \"advise\" in\n"
               "/sys/kernel/mm/transparent_hugepage/shmem_enabled; or vm.nr_hugepages and\n"
               "memory.huge_pages = require.\n",
               1 / median(kinds[1].strided));
    if (kinds[0].share < 0.9 && kinds[1].share >= 0.9)
        printf("malloc() has small pages here: accesses to other pages take %.1f times as long.\n",
               best / median(kinds[0].strided));
}

static int append_json(const struct kind kinds[KINDS], uint64_t bytes, unsigned threads,
                       const char *name)
{
    FILE *file = fopen(name, "ae");
    for (unsigned i = 0; file && i < KINDS; i++)
        fprintf(file,
                "{\"bench\": \"memory\", \"memory\": \"%s\", \"bytes\": %llu, \"huge\": %.3f, "
                "\"linear_gbytes\": %.3f, \"threads\": %u, \"threads_gbytes\": %.3f, "
                "\"page_ns\": %.3f}\n",
                kinds[i].name, (unsigned long long)bytes, kinds[i].share, median(kinds[i].linear),
                threads, median(kinds[i].threads), 1 / median(kinds[i].strided));
    if (file && fclose(file) == 0)
        return 0;
    fprintf(stderr, "tca-bench: --json %s: %s\n", name, strerrordesc_np(errno));
    return 1;
}

static void print(const struct kind kinds[KINDS], uint64_t bytes, unsigned threads)
{
    char heading[32];
    snprintf(heading, sizeof(heading), "%u threads", threads);
    printf("Computing on %llu MiB, medians of %u rounds:\n\n", (unsigned long long)bytes >> 20,
           ROUNDS);
    printf("%-22s %10s %12s %12s %12s\n", "memory", "huge pages", "one thread", heading,
           "next page");
    for (unsigned i = 0; i < KINDS; i++)
        printf("%-22s %8.0f %% %7.2f GB/s %7.2f GB/s %9.2f ns\n", kinds[i].name,
               100 * kinds[i].share, median(kinds[i].linear), median(kinds[i].threads),
               1 / median(kinds[i].strided));
    advise(kinds);
}

/* ---- the three kinds ---- */

static int fail(const char *what)
{
    fprintf(stderr, "tca-bench: --memory: %s: %s\n", what, tca_error_text());
    return 1;
}

/* As a program that allocates a large array gets it. */
static uint8_t *allocated(uint64_t bytes)
{
    uint8_t *memory = aligned_alloc(2 << 20, bytes);
    if (memory)
        memset(memory, 0, bytes);
    else
        fprintf(stderr, "tca-bench: --memory: no memory for %llu bytes: use fewer (--memory=MIB)\n",
                (unsigned long long)bytes);
    return memory;
}

static int make(struct tca *session, uint64_t bytes, struct kind kinds[KINDS])
{
    kinds[0] = (struct kind){.name = "malloc()", .memory = allocated(bytes)};
    kinds[1] = (struct kind){.name = "tca_alloc()"};
    kinds[2] = (struct kind){.name = "malloc(), attached", .memory = allocated(bytes)};
    if (!kinds[0].memory || !kinds[2].memory)
        return 1;
    if (tca_alloc(session, bytes, (void **)&kinds[1].memory) < 0)
        return fail("tca_alloc()");
    if (tca_region_attach(session, kinds[2].memory, bytes, &kinds[2].region) < 0)
        return fail("tca_region_attach()");
    return 0;
}

static void measure(struct kind kinds[KINDS], uint64_t bytes, unsigned threads)
{
    for (unsigned round = 0; round < ROUNDS; round++)
        for (unsigned i = 0; i < KINDS; i++) {
            kinds[i].linear[round] = linear(kinds[i].memory, bytes, 1);
            kinds[i].threads[round] = linear(kinds[i].memory, bytes, threads);
            kinds[i].strided[round] = strided(kinds[i].memory, bytes);
        }
    for (unsigned i = 0; i < KINDS; i++)
        kinds[i].share = huge_share(kinds[i].memory, bytes);
}

int memory_bench(uint64_t mib, const char *json)
{
    struct kind kinds[KINDS] = {0};
    struct tca *session;
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const unsigned threads = processors < 2             ? 2
                             : processors > THREADS_MAX ? THREADS_MAX
                                                        : (unsigned)processors;
    const uint64_t bytes = (mib & ~1ull) << 20; /* whole huge pages */
    if (tca_open(NULL, &session) < 0)
        return fail("opening a session");
    int result = make(session, bytes, kinds);
    if (result == 0) {
        measure(kinds, bytes, threads);
        print(kinds, bytes, threads);
        if (json)
            result = append_json(kinds, bytes, threads, json);
    }
    if (kinds[2].region)
        tca_region_free(kinds[2].region);
    tca_close(session);
    free(kinds[0].memory);
    free(kinds[2].memory);
    return result;
}
