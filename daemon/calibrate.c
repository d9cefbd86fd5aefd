#include "daemon/calibrate.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/engine.h"
#include "daemon/sort.h"
#include "proto/notify.h"
#include "proto/wait.h"

enum {
    BUFFER_BYTES = 8 << 20,
    SMALL_BYTES = 64 << 10,
    LARGE_BYTES = 4 << 20,
    STRIDED_BLOCKS = 1024,
    STRIDED_BLOCK_BYTES = 64,
    STRIDED_STRIDE_BYTES = 512,
    REPEATS_MAX = 101,
};
#define GIVE_UP_NS 2000000000ull /* one put that takes longer: the driver does not work here */
#define ENOUGH_NS  30000000ull   /* for one kind of put */

struct side {
    struct driver *driver;
    struct driver_memory memory;
    struct driver_region *region;
    bool owns_driver;
};

struct bench {
    const struct driver_ops *ops;
    struct side sender, receiver;
    struct driver_peer *peer;
    uint64_t landed;
    const struct calibrate_shared *shared; /* NULL: two instances of our own */
    struct engine_landing landing;         /* shared: notifications go the engine's way */
    struct driver_op op;
    bool done;
    int status;
    bool far; /* to the neighbour's device */
};

static void notified(void *context, uint64_t token)
{
    ((struct bench *)context)->landed++;
}

static void peer_down(void *context, struct driver_peer *peer, int error)
{
    ((struct bench *)context)->status = error;
}

static void put_done(struct driver_op *op, int status)
{
    struct bench *bench = (struct bench *)((char *)op - offsetof(struct bench, op));
    bench->done = true;
    if (status < 0)
        bench->status = status;
}

/* shared: the instance to use, NULL: one of its own. */
static int side_open(struct bench *bench, struct side *side, const struct driver_config *config,
                     struct driver *shared)
{
    struct driver_events events = {.notified = notified, .peer_down = peer_down, .context = bench};
    int fd = memfd_create("tca-calibrate", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, BUFFER_BYTES) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
        return -errno;
    side->memory.fd = fd;
    void *base = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (base == MAP_FAILED)
        return -errno;
    memset(base, 1, BUFFER_BYTES);
    side->memory.base = base;
    side->memory.length_bytes = BUFFER_BYTES;
    side->driver = shared;
    if (!shared) {
        int r = bench->ops->open(config, &events, &side->driver);
        if (r < 0)
            return r;
        side->owns_driver = true;
    }
    return bench->ops->region_add(side->driver, &side->memory, &side->region);
}

static void side_close(struct bench *bench, struct side *side)
{
    if (side->region)
        bench->ops->region_remove(side->driver, side->region);
    if (side->driver && side->owns_driver)
        bench->ops->close(side->driver);
    if (side->memory.base)
        munmap(side->memory.base, BUFFER_BYTES);
    if (side->memory.fd > 0)
        close(side->memory.fd);
}

static uint64_t landed(const struct bench *bench)
{
    if (bench->far) /* nobody is notified there: done() means that it has landed */
        return bench->done;
    return bench->shared ? notify_arrived(bench->landing.line) : bench->landed;
}

/* One put, from its post until the notification has landed: ns, or negative. */
static int64_t one_put(struct bench *bench, struct driver_put *put)
{
    bool posted = false;
    bench->done = false;
    uint64_t before = landed(bench), started = clock_now_ns(), now = started;
    bench->op = (struct driver_op){.done = put_done};
    do {
        if (!posted) {
            int r = bench->ops->put_post(bench->sender.driver, put, &bench->op);
            if (r < 0 && r != -EAGAIN)
                return r;
            posted = r == 0;
        }
        int a = bench->ops->progress(bench->sender.driver, 64),
            b = bench->ops->progress(bench->receiver.driver, 64);
        now = clock_now_ns();
        if (bench->shared && posted && !bench->done)
            continue; /* the instance lives on: the put is the driver's until it says that it has
                         ended */
        if (a < 0 || b < 0 || bench->status < 0)
            return a < 0 ? a : b < 0 ? b : bench->status;
        if (now - started > GIVE_UP_NS)
            return -ETIMEDOUT;
    } while (!posted || !bench->done || landed(bench) == before);
    return (int64_t)(now - started);
}

/* What the fastest quarter of many starts took at most: ns, or negative. That others had a turn is
 * not the rail's fault. */
static int64_t repeat(struct bench *bench, struct driver_put *put)
{
    int64_t ns[REPEATS_MAX], r = 0;
    uint64_t started = clock_now_ns();
    int count = 0;
    one_put(bench, put); /* connects, warms up */
    while (r >= 0 && count < REPEATS_MAX && (count < 5 || clock_now_ns() - started < ENOUGH_NS)) {
        r = one_put(bench, put);
        ns[count++] = r;
    }
    if (r < 0)
        return r;
    sort_ns(ns, (size_t)count);
    return ns[count / 4];
}

/* From the post until it is known here that it has landed in the neighbour's device. */
static int64_t measure_far(struct bench *bench, const struct layout *layout)
{
    const struct driver_ops *ops = bench->ops;
    struct driver_put_args args = {.peer = bench->shared->neighbour,
                                   .region = bench->sender.region,
                                   .layout = layout,
                                   .target_layout = layout};
    struct driver_put *put;
    struct driver_put_info info;
    uint8_t blob[LANDING_MAX_BYTES];
    int64_t r = ops->scratch_landing(bench->sender.driver, args.peer, layout->size_bytes, blob);
    if (r < 0)
        return r;
    args.landing = blob;
    args.landing_bytes = (size_t)r;
    r = ops->put_prepare(bench->sender.driver, &args, &put, &info);
    if (r < 0)
        return r;
    r = repeat(bench, put);
    ops->put_release(bench->sender.driver, put);
    return r;
}

/* Many puts with these layouts: see repeat(). On the thread that has the driver. */
static int64_t measure_there(struct bench *bench, const struct layout *source,
                             const struct layout *target)
{
    struct driver_landing_args landing_args = {
        .region = bench->receiver.region,
        .layout = target,
        .notify = true,
        .token = bench->shared ? (uint64_t)(uintptr_t)&bench->landing : 0};
    struct driver_put_args put_args = {.peer = bench->peer,
                                       .region = bench->sender.region,
                                       .layout = source,
                                       .target_layout = target};
    struct driver_landing *landing;
    struct driver_put *put;
    struct driver_put_info info;
    uint8_t blob[LANDING_MAX_BYTES];
    size_t blob_bytes;
    int64_t r;

    if (bench->far)
        return measure_far(bench, source);
    r = bench->ops->landing_new(bench->receiver.driver, &landing_args, &landing, blob, &blob_bytes);
    if (r < 0)
        return r;
    put_args.landing = blob;
    put_args.landing_bytes = blob_bytes;
    r = bench->ops->put_prepare(bench->sender.driver, &put_args, &put, &info);
    if (r == 0) {
        r = repeat(bench, put);
        bench->ops->put_release(bench->sender.driver, put);
    }
    bench->ops->landing_free(bench->receiver.driver, landing);
    return r;
}

struct errand {
    struct bench *bench;
    const struct layout *source, *target;
    int64_t ns;
    sem_t over;
};

static void errand_work(struct engine *engine, void *context)
{
    struct errand *errand = context;
    errand->ns = measure_there(errand->bench, errand->source, errand->target);
    sem_post(&errand->over);
}

static int64_t measure(struct bench *bench, const struct layout *source,
                       const struct layout *target)
{
    if (!bench->shared)
        return measure_there(bench, source, target);
    struct errand errand = {.bench = bench, .source = source, .target = target};
    sem_init(&errand.over, 0, 0);
    engine_call(bench->shared->engine, errand_work, NULL, &errand);
    while (sem_wait(&errand.over) < 0)
        ;
    sem_destroy(&errand.over);
    return errand.ns;
}

static int64_t measure_contiguous(struct bench *bench, uint64_t bytes)
{
    struct layout *layout;
    int r = layout_contiguous(bytes, &layout);
    if (r < 0)
        return r;
    int64_t ns = measure(bench, layout, layout);
    free(layout);
    return ns;
}

static int64_t measure_strided(struct bench *bench)
{
    struct layout *block, *layout = NULL;
    int r = layout_contiguous(STRIDED_BLOCK_BYTES, &block);
    if (r == 0)
        r = layout_repeat(block, STRIDED_BLOCKS, STRIDED_STRIDE_BYTES, &layout);
    int64_t ns = r < 0 ? r : measure(bench, layout, layout);
    free(block);
    free(layout);
    return ns;
}

static int open_shared(struct bench *bench, const struct driver_config *config)
{
    size_t bytes = (notify_segment_bytes(1) + LINE_BYTES - 1) & ~(size_t)(LINE_BYTES - 1);
    struct notify_segment *segment = aligned_alloc(LINE_BYTES, bytes);
    if (!segment)
        return -ENOMEM;
    memset(segment, 0, bytes);
    bench->landing =
        (struct engine_landing){.line = notify_line_of(segment, 0, 0), .segment = segment};
    int r = side_open(bench, &bench->receiver, config, bench->shared->driver);
    return r < 0 ? r : side_open(bench, &bench->sender, config, bench->shared->driver);
}

static int bench_open(struct bench *bench, const struct driver_config *config)
{
    bench->peer = bench->shared ? bench->shared->peer : NULL;
    if (bench->shared)
        return open_shared(bench, config);
    uint8_t address[ADDRESS_MAX_BYTES];
    struct driver_caps caps;
    int r = bench->ops->probe(config, &caps);
    if (r == 0)
        r = side_open(bench, &bench->receiver, config, NULL);
    if (r == 0) /* a driver of one node has both ends in one instance */
        r = side_open(bench, &bench->sender, config,
                      caps.other_nodes ? NULL : bench->receiver.driver);
    if (r == 0)
        r = bench->ops->address(bench->receiver.driver, address);
    return r < 0 ? r
                 : bench->ops->peer_connect(bench->sender.driver, address, (size_t)r, &bench->peer);
}

/* What more bytes took; all of it where the two were disturbed so differently that nothing is left.
 */
static int64_t beyond(int64_t tiny, int64_t more)
{
    return more > tiny ? more - tiny : more;
}

/* What was measured through our own device alone, for the way to another node. */
static int count_neighbour(struct bench *bench, struct cost_parameters *parameters)
{
    if (!bench->shared->neighbour) { /* there is its device, too */
        parameters->latency_ns *= 2;
        return 0;
    }
    bench->far = true;
    int64_t tiny = measure_contiguous(bench, 8), small = measure_contiguous(bench, SMALL_BYTES);
    if (tiny < 0 || small < 0)
        return (int)(tiny < 0 ? tiny : small);
    /* There and back: to our device, to the neighbour's, back to ours, to us. A notification needs
     * three of these four ways. */
    parameters->latency_ns = (double)tiny * 3 / 4;
    const double bytes_per_ns = (double)SMALL_BYTES / (double)beyond(tiny, small);
    if (parameters->small_bytes_per_ns > bytes_per_ns)
        parameters->small_bytes_per_ns = bytes_per_ns;
    if (parameters->large_bytes_per_ns > bytes_per_ns)
        parameters->large_bytes_per_ns = bytes_per_ns;
    return 0;
}

int calibrate_driver(const struct driver_ops *ops, const struct driver_config *config,
                     const struct calibrate_shared *shared, struct cost_parameters *ret_parameters)
{
    struct bench bench = {.ops = ops, .shared = shared};
    int r = bench_open(&bench, config);
    if (r == 0) {
        int64_t tiny = measure_contiguous(&bench, 8),
                small = measure_contiguous(&bench, SMALL_BYTES),
                large = measure_contiguous(&bench, LARGE_BYTES), strided = measure_strided(&bench);
        if (tiny < 0 || small < 0 || large < 0 || strided < 0) {
            r = (int)(tiny < 0 ? tiny : small < 0 ? small : large < 0 ? large : strided);
        } else {
            int64_t small_ns = beyond(tiny, small), large_ns = beyond(tiny, large);
            *ret_parameters = (struct cost_parameters){
                .valid = true,
                .latency_ns = (double)tiny,
                .descriptor_ns = (double)tiny,
                .block_ns = strided > small ? (double)(strided - small) / STRIDED_BLOCKS : 0,
                .small_bytes_per_ns = (double)SMALL_BYTES / (double)small_ns,
                .large_bytes_per_ns = (double)LARGE_BYTES / (double)large_ns,
            };
            if (shared)
                r = count_neighbour(&bench, ret_parameters);
        }
    }
    if (bench.peer && !shared)
        ops->peer_disconnect(bench.sender.driver, bench.peer);
    side_close(&bench, &bench.sender);
    side_close(&bench, &bench.receiver);
    free(bench.landing.segment);
    return r;
}
