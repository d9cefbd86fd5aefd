/*
 * scale_tca: what a group costs: opening, collective calls, preparing collective operations and
 * halo exchanges, closing. All ranks are on this machine and meet in a shared file between the
 * phases, so that what the daemons do belongs to one phase. Rank 0 writes a line of JSON for each:
 * processor time of all daemons, of the busiest one and of all ranks, and what remains resident.
 *
 *     tca-cluster run -n 4 --ppn 4 -- scale_tca FILE PID[,PID...]
 *
 * FILE: empty, for this run only. PID: of the daemons. "nothing" is what the daemons do in the time
 * of a phase without any work.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tca-coll.h>
#include <tca-halo.h>

#include "tests/bench/check.h"
#include "tests/bench/meeting.h"

enum {
    DAEMONS_MAX = 1024,
    BLOB_BYTES = 1024,
    SETTLE_US = 200 * 1000, /* until daemons have done what nobody waits for */
    CUBE = 8,               /* of own elements of the halo exchange */
    PREPARED_MAX = 8,
};
#define PATIENCE_NS INT64_C(300000000000)

/* The content of the file. */
struct meeting {
    atomic_int ready; /* the barrier is */
    pthread_barrier_t barrier;
    _Atomic uint64_t ranks_ns;    /* processor time of all ranks in the phase */
    _Atomic uint64_t resident_kb; /* of all ranks together, without what they share */
};

struct daemons {
    unsigned count;
    long pids[DAEMONS_MAX];
    uint64_t before_ns[DAEMONS_MAX];
};

struct rank {
    uint32_t rank, size;
    struct meeting *meeting;
    struct daemons daemons; /* rank 0 */
    struct tca *session;
    uint8_t *blobs; /* [size], to receive */
    double *in, *out;
    struct tca_coll *prepared[PREPARED_MAX];
    unsigned prepared_count;
    struct tca_halo *halo;
};

/* ---- what is measured ---- */

/* All threads of a process, in ns. 0: it has ended. */
static uint64_t process_ns(long pid)
{
    char path[64], line[96];
    uint64_t total = 0;
    snprintf(path, sizeof(path), "/proc/%ld/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *task = NULL; tasks && (task = readdir(tasks));) {
        snprintf(path, sizeof(path), "/proc/%ld/task/%.16s/schedstat", pid, task->d_name);
        FILE *file = task->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (file && fgets(line, sizeof(line), file))
            total += strtoull(line, NULL, 10);
        if (file)
            fclose(file);
    }
    if (tasks)
        closedir(tasks);
    return total;
}

/* Memory of a process that no other one has. */
static uint64_t resident_kb(long pid)
{
    char path[64], line[128];
    uint64_t total = 0, kb;
    snprintf(path, sizeof(path), "/proc/%ld/smaps_rollup", pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "Private_Clean: %" SCNu64, &kb) == 1 ||
            sscanf(line, "Private_Dirty: %" SCNu64, &kb) == 1)
            total += kb;
    if (file)
        fclose(file);
    return total;
}

static uint64_t own_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void meet(const struct rank *rank)
{
    pthread_barrier_wait(&rank->meeting->barrier);
}

static void report(struct rank *rank, const char *phase)
{
    struct daemons *daemons = &rank->daemons;
    uint64_t all_ns = 0, most_ns = 0, all_kb = 0, most_kb = 0;
    for (unsigned i = 0; i < daemons->count; i++) {
        const uint64_t ns = process_ns(daemons->pids[i]) - daemons->before_ns[i],
                       kb = resident_kb(daemons->pids[i]);
        all_ns += ns;
        all_kb += kb;
        most_ns = ns > most_ns ? ns : most_ns;
        most_kb = kb > most_kb ? kb : most_kb;
    }
    printf("{\"phase\":\"%s\",\"nodes\":%u,\"ranks\":%" PRIu32 ",\"daemons_ms\":%.3f,"
           "\"busiest_ms\":%.3f,\"ranks_ms\":%.3f,\"daemons_mb\":%.1f,\"largest_mb\":%.1f,"
           "\"ranks_mb\":%.1f}\n",
           phase, daemons->count, rank->size, (double)all_ns / 1e6, (double)most_ns / 1e6,
           (double)atomic_load(&rank->meeting->ranks_ns) / 1e6, (double)all_kb / 1024,
           (double)most_kb / 1024, (double)atomic_load(&rank->meeting->resident_kb) / 1024);
    fflush(stdout);
}

/* Runs a phase at all ranks at once. */
static void measure(struct rank *rank, const char *phase, void (*work)(struct rank *rank))
{
    struct daemons *daemons = &rank->daemons;
    if (rank->rank == 0) {
        atomic_store(&rank->meeting->ranks_ns, 0);
        atomic_store(&rank->meeting->resident_kb, 0);
        for (unsigned i = 0; i < daemons->count; i++)
            daemons->before_ns[i] = process_ns(daemons->pids[i]);
    }
    meet(rank);
    const uint64_t begin_ns = own_ns();
    work(rank);
    atomic_fetch_add(&rank->meeting->ranks_ns, own_ns() - begin_ns);
    atomic_fetch_add(&rank->meeting->resident_kb, resident_kb(getpid()));
    meet(rank);
    if (rank->rank == 0) {
        usleep(SETTLE_US);
        report(rank, phase);
    }
    meet(rank);
}

/* ---- phases ---- */

static void nothing(struct rank *rank)
{
    (void)rank;
}

static void open_session(struct rank *rank)
{
    const struct tca_open_args args = {.timeout_ns = PATIENCE_NS};
    check(tca_open(&args, &rank->session), "opening the session");
}

static void take_memory(struct rank *rank)
{
    const uint64_t cells = (CUBE + 2) * (CUBE + 2) * (CUBE + 2);
    const uint64_t count = rank->size > cells ? rank->size : cells;
    check(tca_alloc(rank->session, count * sizeof(double), (void **)&rank->in), "taking memory");
    check(tca_alloc(rank->session, count * sizeof(double), (void **)&rank->out), "taking memory");
}

static void gather(struct rank *rank, size_t bytes)
{
    uint8_t blob[BLOB_BYTES];
    memset(blob, (int)(rank->rank % 251), bytes);
    check(tca_allgather(rank->session, blob, bytes, rank->blobs, PATIENCE_NS), "gathering");
    for (uint32_t i = 0; i < rank->size; i++)
        if (rank->blobs[i * bytes] != i % 251 || rank->blobs[(i + 1) * bytes - 1] != i % 251)
            check(-EBADMSG, "gathering: wrong data");
}

static void gather_handles(struct rank *rank)
{
    gather(rank, sizeof(struct tca_handle));
}

static void gather_kilobytes(struct rank *rank)
{
    gather(rank, BLOB_BYTES);
}

static void call_barrier(struct rank *rank)
{
    check(tca_barrier(rank->session, PATIENCE_NS), "waiting for the others");
}

static struct tca_coll **another(struct rank *rank)
{
    return &rank->prepared[rank->prepared_count++];
}

static void prepare_barrier(struct rank *rank)
{
    check(tca_coll_barrier(rank->session, NULL, another(rank)), "preparing a barrier");
}

static void prepare_broadcast(struct rank *rank)
{
    check(tca_coll_broadcast(rank->session, rank->out, sizeof(double), 0, NULL, another(rank)),
          "preparing a broadcast");
}

static void prepare_allreduce(struct rank *rank)
{
    const struct tca_coll_operator sum = {.combine = TCA_COMBINE_SUM, .type = TCA_TYPE_DOUBLE};
    check(tca_coll_allreduce(rank->session, rank->in, rank->out, 1, &sum, NULL, another(rank)),
          "preparing an allreduce");
}

static void start_all(struct rank *rank)
{
    for (unsigned i = 0; i < rank->prepared_count; i++) {
        rank->in[0] = 1;
        check(tca_coll_start(rank->prepared[i]), "starting");
        check(tca_coll_wait(rank->prepared[i], PATIENCE_NS), "waiting");
    }
    if (rank->out[0] != rank->size)
        check(-EBADMSG, "the sum of all ranks is wrong");
}

static void free_operations(struct rank *rank)
{
    while (rank->prepared_count > 0)
        tca_coll_free(rank->prepared[--rank->prepared_count]);
}

/* The most cubic grid of so many ranks. */
static void cut(uint32_t size, uint32_t ret_grid[3])
{
    uint32_t a = 1, b = 1;
    for (uint32_t i = 1; i * i * i <= size; i++)
        a = size % i == 0 ? i : a;
    for (uint32_t i = 1; i * i <= size / a; i++)
        b = size / a % i == 0 ? i : b;
    ret_grid[0] = size / a / b;
    ret_grid[1] = b;
    ret_grid[2] = a;
}

static void prepare_halo(struct rank *rank)
{
    const struct tca_halo_array array = {
        .memory = {rank->in},
        .element_bytes = sizeof(double),
        .extents = {CUBE, CUBE, CUBE},
        .low = {1, 1, 1},
        .high = {1, 1, 1},
    };
    struct tca_halo_args args = {
        .dimensions = 3, .diagonals = 3, .arrays = &array, .array_count = 1};
    cut(rank->size, args.grid);
    check(tca_halo_new(rank->session, &args, &rank->halo), "preparing a halo exchange");
}

static void exchange_halo(struct rank *rank)
{
    check(tca_halo_start(rank->halo), "starting a halo exchange");
    check(tca_halo_wait(rank->halo, PATIENCE_NS), "waiting for a halo exchange");
}

static void free_halo(struct rank *rank)
{
    rank->halo = tca_halo_free(rank->halo);
}

static void close_session(struct rank *rank)
{
    tca_close(rank->session);
}

/* ---- */

static uint32_t number_of(const char *name)
{
    const char *text = getenv(name);
    if (!text) {
        fprintf(stderr, "scale_tca: %s is not set: run it with tca-cluster\n", name);
        exit(2);
    }
    return (uint32_t)strtoul(text, NULL, 10);
}

/* Rank 0 makes the barrier; the others wait for it. */
static void agree(struct rank *rank)
{
    if (rank->rank == 0) {
        pthread_barrierattr_t shared;
        pthread_barrierattr_init(&shared);
        pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
        pthread_barrier_init(&rank->meeting->barrier, &shared, rank->size);
        atomic_store(&rank->meeting->ready, 1);
    }
    while (!atomic_load(&rank->meeting->ready))
        usleep(1000);
    meet(rank);
}

static void read_pids(struct daemons *daemons, const char *text)
{
    for (char *end; *text && daemons->count < DAEMONS_MAX; text = *end ? end + 1 : end)
        daemons->pids[daemons->count++] = strtol(text, &end, 10);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("Usage: scale_tca FILE PID[,PID...]\n", stderr);
        return 2;
    }
    struct rank rank = {.rank = number_of("TCA_RANK"), .size = number_of("TCA_SIZE")};
    rank.meeting = map_meeting(argv[1], sizeof(struct meeting));
    rank.blobs = malloc((size_t)rank.size * BLOB_BYTES);
    if (!rank.blobs)
        check(-ENOMEM, "making room");
    read_pids(&rank.daemons, argv[2]);
    agree(&rank);
    measure(&rank, "nothing", nothing);
    measure(&rank, "open", open_session);
    measure(&rank, "memory", take_memory);
    measure(&rank, "allgather, 64 B", gather_handles);
    measure(&rank, "allgather, 1 KiB", gather_kilobytes);
    measure(&rank, "barrier", call_barrier);
    measure(&rank, "barrier, init", prepare_barrier);
    measure(&rank, "broadcast, init", prepare_broadcast);
    measure(&rank, "allreduce, init", prepare_allreduce);
    measure(&rank, "all three, once", start_all);
    measure(&rank, "halo 3-D, init", prepare_halo);
    measure(&rank, "halo 3-D, once", exchange_halo);
    measure(&rank, "halo, free", free_halo);
    measure(&rank, "all three, free", free_operations);
    measure(&rank, "close", close_session);
    return 0;
}
