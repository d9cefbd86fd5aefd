#include "daemon/rails/calibrate_bench.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/sort.h"
#include "daemon/engine/engine.h"
#include "daemon/rails/calibrate.h"
#include "drivers/shm/share.h"
#include "proto/notify.h"
#include "proto/wait.h"

enum {
    BUFFER_BYTES = 8 << 20,
    REPEATS_MIN = 5,
    REPEATS_MAX = 102,
    LOOKS = 1024, /* polls before yielding to the other thread: there may be only one processor */
    GRANT = 1,
};
#define GIVE_UP_NS                                                                                 \
    2000000000ull             /* a put that takes longer shows that the driver does not work       \
                                    here */
#define ENOUGH_NS 30000000ull /* for one kind of put */
#define SLICE_NS  5000000ull  /* for which the engine does nothing else */

struct side {
    struct driver *driver;
    struct driver_memory memory;
    struct driver_region *region;
    bool owns_driver;
};

/* The receiver takes part in the copying (proto/lane.h). */
struct sharing {
    struct lane_segment segment;
    struct lane out, in; /* the ends of sender and receiver */
    struct lane_put put; /* at the receiver */
    struct copy_program *program;
    uint32_t puts;           /* so far */
    _Atomic uint64_t landed; /* the receiver has copied all before so many notifications */
};

struct bench {
    const struct driver_ops *ops;
    struct side sender, receiver;
    struct driver_peer *peer;
    struct driver_peer *back; /* the receiver's, if connections need both ends */
    _Atomic uint64_t landed;
    const struct calibrate_shared *shared; /* NULL: two instances of our own */
    const struct calibrate_seat *seat;     /* NULL: as tcad's */
    uint32_t landings;                     /* of the seat, so far */
    struct sharing *sharing;               /* NULL: the sender copies alone */
    bool apart;                            /* the receiver has a thread of its own */
    _Atomic bool stop;                     /* it is to end */
    struct notify_target landing;          /* shared: notifications arrive as the engine's do */
    bool far;                              /* to the neighbour's device */
    _Atomic int status;
    /* what is measured */
    const struct layout *source, *target;
    struct driver_landing *prepared; /* NULL: far */
    struct driver_put *put;
    /* the running put; owned by the thread whose turn it is */
    struct driver_op op;
    bool posted, done;
    bool left; /* the engine's rounds complete the put: its done() passes the turn back */
    bool running;
    uint64_t landed_before, started_ns;
    int64_t ns[REPEATS_MAX]; /* of completed puts; the first is a warm-up */
    int count;
    uint64_t begun_ns; /* since the first was over */
    double spread;
    bool enough;
    void (*errand)(struct bench *bench);
    struct engine_call call;
    sem_t turn;
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
    if (bench->left)
        sem_post(&bench->turn);
    bench->left = false;
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
        const struct calibrate_seat *seat = bench->seat;
        int r = seat ? seat->seat->open(seat->device, seat->device_bytes, &events, &side->driver)
                     : bench->ops->open(config, &events, &side->driver);
        if (r < 0)
            return r;
        side->owns_driver = true;
    }
    return side->driver->ops->region_add(side->driver, &side->memory, &side->region);
}

static void side_close(struct bench *bench, struct side *side)
{
    if (side->region)
        side->driver->ops->region_remove(side->driver, side->region);
    if (side->driver && side->owns_driver)
        side->driver->ops->close(side->driver);
    if (side->memory.base)
        munmap(side->memory.base, BUFFER_BYTES);
    if (side->memory.fd > 0)
        close(side->memory.fd);
}

static uint64_t landed(const struct bench *bench)
{
    if (bench->far) /* no notification there: done() means remote completion */
        return bench->done;
    if (bench->sharing)
        return bench->sharing->landed;
    return bench->shared ? notify_arrived(bench->landing.line) : bench->landed;
}

/* Advances the put, on the driver's thread. Returns whether it is over. */
static bool move_on(struct bench *bench)
{
    if (!bench->posted) {
        int r = bench->sender.driver->ops->put_post(bench->sender.driver, bench->put, &bench->op);
        if (r < 0 && r != -EAGAIN) {
            bench->status = r;
            return true;
        }
        bench->posted = r == 0;
        if (r == 0 && bench->seat && bench->seat->seat->push)
            bench->seat->seat->push(bench->sender.driver);
    }
    int a = bench->sender.driver->ops->progress(bench->sender.driver, 64),
        b = bench->apart ? 0 : bench->receiver.driver->ops->progress(bench->receiver.driver, 64);
    if (bench->posted && bench->done && landed(bench) != bench->landed_before)
        return true;
    if (bench->shared && bench->posted && !bench->done)
        return false; /* the instance outlives the benchmark, so wait for done() */
    if (bench->status == 0 && (a < 0 || b < 0))
        bench->status = a < 0 ? a : b;
    if (bench->status == 0 && clock_now_ns() - bench->started_ns > GIVE_UP_NS)
        bench->status = -ETIMEDOUT;
    return bench->status < 0;
}

static void begin(struct bench *bench)
{
    bench->running = true;
    bench->posted = bench->done = false;
    bench->landed_before = landed(bench);
    bench->op = (struct driver_op){.done = put_done};
    bench->started_ns = clock_now_ns();
}

/* Makes puts, one after the other, until there are enough or the time is over. Returns whether
 * there are enough. */
static bool run(struct bench *bench, uint64_t until_ns)
{
    unsigned looks = 0;
    for (uint64_t now_ns = 0; now_ns < until_ns;) {
        if (!bench->running)
            begin(bench);
        bool over = move_on(bench);
        now_ns = clock_now_ns();
        if (!over) {
            if (bench->apart && ++looks % LOOKS == 0)
                sched_yield();
            continue;
        }
        bench->running = false;
        if (bench->count == 0)
            bench->begun_ns = now_ns;
        bench->ns[bench->count++] = (int64_t)(now_ns - bench->started_ns);
        if (bench->status < 0 || bench->count == REPEATS_MAX ||
            (bench->count > REPEATS_MIN && now_ns - bench->begun_ns > ENOUGH_NS))
            return true;
    }
    return false;
}

/* Runs on the engine for a few milliseconds at a time, because the engine also serves others. The
 * engine's rounds complete a put that is still running then; its done() continues the benchmark. */
static void slice_work(struct engine *engine, void *context)
{
    struct bench *bench = context;
    bench->enough = run(bench, clock_now_ns() + SLICE_NS);
    bench->left = bench->running && bench->posted && !bench->done;
    if (!bench->left)
        sem_post(&bench->turn);
}

static void take_turn(struct bench *bench)
{
    while (sem_wait(&bench->turn) < 0)
        ;
}

static void errand_work(struct engine *engine, void *context)
{
    struct bench *bench = context;
    bench->errand(bench);
    sem_post(&bench->turn);
}

/* Runs a function on the driver's thread. */
static void send_on(struct bench *bench, void (*errand)(struct bench *bench))
{
    bench->errand = errand;
    if (!bench->shared) {
        errand(bench);
        return;
    }
    engine_call(bench->shared->engine, &bench->call, errand_work, NULL, bench);
    take_turn(bench);
}

/* The lower quartile of the times of many starts in ns, or a negative errno: excludes time that
 * other threads took, and the connecting of the first start. Of two threads, others disturb more:
 * one of the shortest times. */
static int64_t sample(struct bench *bench)
{
    bench->count = 0;
    bench->enough = bench->running = false;
    if (!bench->shared)
        run(bench, UINT64_MAX);
    while (bench->shared && !bench->enough) {
        engine_call(bench->shared->engine, &bench->call, slice_work, NULL, bench);
        take_turn(bench);
    }
    if (bench->status < 0)
        return bench->status;
    const int64_t *ns = bench->ns + 1;
    const int count = bench->count - 1;
    sort_ns(bench->ns + 1, (size_t)count);
    const double spread =
        (double)ns[count * 3 / 4] / (double)(ns[count / 4] > 0 ? ns[count / 4] : 1);
    bench->spread = spread > bench->spread ? spread : bench->spread;
    return ns[bench->apart ? count / 20 : count / 4];
}

/* What the library does while it waits for a notification. */
static int copy_share(struct bench *bench)
{
    struct sharing *sharing = bench->sharing;
    const uint64_t landed = bench->landed;
    const bool news = landed != sharing->landed;
    int r = news || lane_pending(&sharing->in) ? lane_drain(&sharing->in) : 0;
    if (r == 0 && news)
        sharing->landed = landed;
    return news;
}

static void *receive(void *context)
{
    struct bench *bench = context;
    unsigned looks = 0;
    while (!atomic_load_explicit(&bench->stop, memory_order_relaxed)) {
        const int r = bench->sharing
                          ? copy_share(bench)
                          : bench->receiver.driver->ops->progress(bench->receiver.driver, 64);
        if (r < 0)
            bench->status = r;
        else if (r == 0 && ++looks % LOOKS == 0)
            sched_yield();
    }
    return NULL;
}

/* As the engines of two nodes, or two processes, do: one sends while the other receives, and the
 * data goes from one core to another. */
static int64_t run_apart(struct bench *bench, int64_t (*measure)(struct bench *bench))
{
    pthread_t receiver;
    bench->stop = false;
    int r = pthread_create(&receiver, NULL, receive, bench);
    if (r != 0)
        return -r;
    bench->apart = true;
    const int64_t ns = measure(bench);
    bench->stop = true;
    pthread_join(receiver, NULL);
    bench->apart = false;
    return ns;
}

/* In the copy mode that is the fastest, which a plan finds by trial. */
static int64_t sample_modes(struct bench *bench)
{
    struct copy_mode modes[COPY_MODES_MAX] = {{.method = COPY_PUSH}};
    const bool shares = copy_share_pays(bench->target, bench->source);
    const unsigned count =
        shares ? copy_mode_candidates(bench->target, bench->source, true, modes) : 1;
    int64_t best_ns = INT64_MAX;
    for (unsigned i = 0; i < count && best_ns >= 0; i++) {
        shm_put_mode(bench->put, &modes[i]);
        const int64_t ns = sample(bench);
        best_ns = ns < best_ns ? ns : best_ns;
    }
    return best_ns;
}

static int64_t repeat(struct bench *bench)
{
    if (bench->sharing)
        return run_apart(bench, sample_modes);
    const int64_t alone_ns = sample(bench);
    if (alone_ns < 0 || bench->shared || bench->sender.driver == bench->receiver.driver)
        return alone_ns;
    const int64_t apart_ns = run_apart(bench, sample);
    return apart_ns < 0 ? apart_ns : calibrate_apart_ns(apart_ns, alone_ns);
}

double bench_spread(const struct bench *bench)
{
    return bench->spread;
}

static int64_t prepare_seat_landing(struct bench *bench, const struct driver_landing_args *args,
                                    uint8_t blob[LANDING_MAX_BYTES])
{
    const struct driver_seat *seat = bench->seat->seat;
    const uint32_t number = ++bench->landings;
    int r = seat->landing_new(bench->receiver.driver, args, number, number, &bench->prepared);
    return r < 0 ? r : (int64_t)seat->blob(number, number, args->layout->size_bytes, blob);
}

/* Prepares the target of the puts. Returns the size of its blob, or a negative errno. */
static int64_t prepare_landing(struct bench *bench, uint8_t blob[LANDING_MAX_BYTES])
{
    const struct driver_landing_args args = {
        .region = bench->receiver.region,
        .layout = bench->target,
        .notify = true,
        .grant = bench->seat ? GRANT : 0,
        .token = bench->shared ? (uint64_t)(uintptr_t)&bench->landing : 0};
    size_t bytes;
    if (bench->far)
        return bench->ops->fabric->scratch_landing(bench->sender.driver, bench->shared->neighbour,
                                                   bench->target->size_bytes, blob);
    if (bench->seat)
        return prepare_seat_landing(bench, &args, blob);
    int r = bench->receiver.driver->ops->landing_new(bench->receiver.driver, &args,
                                                     &bench->prepared, blob, &bytes);
    return r < 0 ? r : (int64_t)bytes;
}

static int share(struct bench *bench)
{
    struct sharing *sharing = bench->sharing;
    int r = copy_program_new_unpack(bench->target, bench->source, &sharing->program);
    sharing->put = (struct lane_put){.id = ++sharing->puts,
                                     .size_bytes = bench->source->size_bytes,
                                     .program = sharing->program,
                                     .target = bench->receiver.memory.base,
                                     .source = bench->sender.memory.base};
    if (r == 0)
        r = lane_add(&sharing->in, &sharing->put);
    return r < 0 ? r : shm_put_share(bench->put, sharing->put.id, bench->target, bench->source);
}

static void prepare(struct bench *bench)
{
    uint8_t blob[LANDING_MAX_BYTES];
    struct driver_put_info info;
    int64_t r = prepare_landing(bench, blob);
    const struct driver_put_args args = {.peer =
                                             bench->far ? bench->shared->neighbour : bench->peer,
                                         .region = bench->sender.region,
                                         .layout = bench->source,
                                         .landing = blob,
                                         .landing_bytes = (size_t)r,
                                         .target_layout = bench->target};
    if (r >= 0)
        r = bench->sender.driver->ops->put_prepare(bench->sender.driver, &args, &bench->put, &info);
    if (r >= 0 && bench->sharing)
        r = share(bench);
    if (r < 0)
        bench->status = (int)r;
}

/* A put that was given up is still in flight, and cannot be released. The measurement is over: its
 * status is negative. */
static void cancel(struct bench *bench)
{
    if (!bench->put || bench->shared || !bench->posted || bench->done)
        return;
    bench->ops->peer_fail(bench->sender.driver, bench->peer, -ECANCELED);
    bench->ops->progress(bench->sender.driver, 64);
}

static void release(struct bench *bench)
{
    cancel(bench);
    if (bench->put)
        bench->sender.driver->ops->put_release(bench->sender.driver, bench->put);
    if (bench->prepared)
        bench->receiver.driver->ops->landing_free(bench->receiver.driver, bench->prepared);
    if (bench->sharing) {
        lane_remove(&bench->sharing->in, &bench->sharing->put);
        bench->sharing->program = copy_program_free(bench->sharing->program);
    }
    bench->put = NULL;
    bench->prepared = NULL;
}

/* Measures puts with these layouts: see repeat(). */
int64_t bench_measure(struct bench *bench, const struct layout *source, const struct layout *target)
{
    bench->source = source;
    bench->target = target;
    send_on(bench, prepare);
    int64_t ns = bench->status < 0 ? bench->status : repeat(bench);
    send_on(bench, release);
    return ns;
}

void bench_go_far(struct bench *bench)
{
    bench->far = true;
}

static int make_segment(struct bench *bench)
{
    const size_t bytes = sizeof(struct notify_segment) + sizeof(struct notify_line);
    struct notify_segment *segment = aligned_alloc(LINE_BYTES, bytes);
    if (!segment)
        return -ENOMEM;
    memset(segment, 0, bytes);
    bench->landing = (struct notify_target){.line = notify_line_at(segment, 0), .segment = segment};
    return 0;
}

/* Lays a lane from the sender to the receiver. */
static int open_lane(struct bench *bench)
{
    int r = make_segment(bench);
    struct sharing *sharing = aligned_alloc(_Alignof(struct sharing), sizeof(*sharing));
    bench->sharing = sharing;
    if (r < 0 || !sharing)
        return -ENOMEM;
    memset(sharing, 0, sizeof(*sharing));
    lane_init(&sharing->out, &sharing->segment, LANE_SENDER);
    lane_init(&sharing->in, &sharing->segment, LANE_RECEIVER);
    sharing->out.receiver = bench->landing.segment;
    shm_peer_lane(bench->peer, &sharing->out);
    return 0;
}

static int open_shared(struct bench *bench, const struct driver_config *config)
{
    int r = make_segment(bench);
    if (r < 0)
        return r;
    r = side_open(bench, &bench->receiver, config, bench->shared->driver);
    return r < 0 ? r : side_open(bench, &bench->sender, config, bench->shared->driver);
}

/* Connects one of the two instances to the other. */
static int make_peer(const struct side *from, const struct side *to, struct driver_peer **ret_peer,
                     void *ret_offer, size_t *ret_offer_bytes)
{
    const struct driver_ops *ops = from->driver->ops;
    uint8_t address[ADDRESS_MAX_BYTES];
    int r = 0;
    if (ops->admit) {
        r = ops->address(from->driver, address);
        if (r >= 0)
            r = ops->admit(to->driver, address, (size_t)r, true);
    }
    if (r >= 0)
        r = ops->address(to->driver, address);
    return r < 0 ? r
                 : ops->peer_connect(from->driver, address, (size_t)r, ret_peer, ret_offer,
                                     ret_offer_bytes);
}

static int connect_both(struct bench *bench)
{
    uint8_t offer[OFFER_MAX_BYTES], back[OFFER_MAX_BYTES];
    size_t offer_bytes, back_bytes;
    int r = make_peer(&bench->sender, &bench->receiver, &bench->peer, offer, &offer_bytes);
    if (r < 0 || offer_bytes == 0)
        return r;
    if (bench->sender.driver == bench->receiver.driver)
        return bench->sender.driver->ops->peer_answer(bench->sender.driver, bench->peer, offer,
                                                      offer_bytes);
    r = make_peer(&bench->receiver, &bench->sender, &bench->back, back, &back_bytes);
    if (r == 0)
        r = bench->receiver.driver->ops->peer_answer(bench->receiver.driver, bench->back, offer,
                                                     offer_bytes);
    return r < 0 ? r
                 : bench->sender.driver->ops->peer_answer(bench->sender.driver, bench->peer, back,
                                                          back_bytes);
}

static int loopback_pair(int ret_ends[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);
    const int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
              ends[] = {socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), -1};
    int r = 0;
    memcpy(ret_ends, ends, sizeof(ends));
    if (listener < 0 || ends[0] < 0 || bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 ||
        listen(listener, 1) < 0 || getsockname(listener, (struct sockaddr *)&at, &bytes) < 0 ||
        connect(ends[0], (struct sockaddr *)&at, sizeof(at)) < 0 ||
        (ret_ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
        r = -errno;
    for (int i = 0; r == 0 && i < 2; i++)
        setsockopt(ret_ends[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    for (int i = 0; r < 0 && i < 2; i++)
        if (ret_ends[i] >= 0)
            close(ret_ends[i]);
    if (listener >= 0)
        close(listener);
    return r;
}

/* The daemons would connect them. */
static int adopt_both(struct bench *bench)
{
    static const uint8_t known[PAIR_SECRET_BYTES] = "calibration";
    const struct calibrate_seat *seat = bench->seat;
    const uint8_t *secret = seat->encrypts ? known : NULL;
    int ends[2], r = loopback_pair(ends);
    if (r < 0)
        return r;
    r = seat->seat->adopt(bench->sender.driver, bench->peer, ends[0], true, seat->kernel, secret);
    int back = seat->seat->adopt(bench->receiver.driver, bench->back, ends[1], false, seat->kernel,
                                 secret);
    return r < 0 ? r : back;
}

static int exchange_offers(struct bench *bench)
{
    const struct driver_seat *seat = bench->seat->seat;
    uint8_t offer[OFFER_MAX_BYTES], back[OFFER_MAX_BYTES];
    const int bytes = seat->offer(bench->sender.driver, bench->peer, true, offer),
              back_bytes = seat->offer(bench->receiver.driver, bench->back, false, back);
    if (bytes < 0 || back_bytes < 0)
        return bytes < 0 ? bytes : back_bytes;
    int r = bench->receiver.driver->ops->peer_answer(bench->receiver.driver, bench->back, offer,
                                                     (size_t)bytes);
    return r < 0 ? r
                 : bench->sender.driver->ops->peer_answer(bench->sender.driver, bench->peer, back,
                                                          (size_t)back_bytes);
}

static int connect_seats(struct bench *bench)
{
    const struct driver_seat *seat = bench->seat->seat;
    int r = seat->peer_new(bench->sender.driver, GRANT, &bench->peer);
    if (r == 0)
        r = seat->peer_new(bench->receiver.driver, GRANT, &bench->back);
    if (r < 0)
        return r;
    return seat->adopt ? adopt_both(bench) : exchange_offers(bench);
}

static int bench_open(struct bench *bench, const struct calibrate_subject *subject)
{
    const struct driver_config *config = subject->config;
    bench->peer = bench->shared ? bench->shared->peer : NULL;
    if (bench->shared)
        return open_shared(bench, config);
    struct driver_caps caps;
    int r = bench->ops->probe(config, &caps);
    if (r == 0)
        r = side_open(bench, &bench->receiver, config, NULL);
    if (r == 0) /* a driver of one node has both ends in one instance */
        r = side_open(bench, &bench->sender, config,
                      caps.other_nodes ? NULL : bench->receiver.driver);
    if (r == 0)
        r = bench->seat ? connect_seats(bench) : connect_both(bench);
    return r == 0 && subject->shares ? open_lane(bench) : r;
}

int bench_new(const struct calibrate_subject *subject, struct bench **ret_bench)
{
    struct bench *bench = calloc(1, sizeof(*bench));
    if (!bench)
        return -ENOMEM;
    bench->ops = subject->ops;
    bench->shared = subject->shared;
    bench->seat = subject->seat;
    sem_init(&bench->turn, 0, 0);
    int r = bench_open(bench, subject);
    if (r < 0) {
        bench_free(bench);
        return r;
    }
    *ret_bench = bench;
    return 0;
}

struct bench *bench_free(struct bench *bench)
{
    if (!bench)
        return NULL;
    if (bench->peer && !bench->shared)
        bench->sender.driver->ops->peer_disconnect(bench->sender.driver, bench->peer);
    if (bench->back)
        bench->receiver.driver->ops->peer_disconnect(bench->receiver.driver, bench->back);
    side_close(bench, &bench->sender);
    side_close(bench, &bench->receiver);
    if (bench->sharing) {
        lane_deinit(&bench->sharing->out);
        lane_deinit(&bench->sharing->in);
    }
    free(bench->sharing);
    free(bench->landing.segment);
    sem_destroy(&bench->turn);
    free(bench);
    return NULL;
}
