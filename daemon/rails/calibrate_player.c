/* One player: an instance of the shm driver, a lane each way, puts of every kind. */
#include "daemon/rails/calibrate_player.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "drivers/shm/share.h"
#include "proto/notify.h"
#include "proto/wait.h"

enum {
    LOOKS = 1024, /* before a waiter lets others run */
    PROBES = 16,  /* the lane's distance is a running mean, which has forgotten the last round's by
                     then */
};
#define ENOUGH_NS 100000000ull /* no new round begins */

static const struct {
    enum way way;
    uint64_t bytes;
} kinds[KINDS] = {
    [PROBE] = {WAY_HALF, 2048},
    [HALF] = {WAY_HALF, WAY_LARGE_BYTES},
    [RING] = {WAY_RING, WAY_LARGE_BYTES},
};

uint64_t kind_bytes(enum kind kind)
{
    return kinds[kind].bytes;
}

/* ---- the game ---- */

static void put_done(struct driver_op *op, int status)
{
    ((struct player *)op->owner)->done = true;
}

static void notified(void *context, uint64_t token)
{
    struct player *player = context;
    notify_raise_direct(notify_line_of(player->other->notify, 0, 0), ++player->notified, 0);
    notify_wake(player->other->notify);
}

static void peer_down(void *context, struct driver_peer *peer, int error)
{
}

/* False: the game is over. */
static bool patient(struct game *game, unsigned *looks)
{
    if (++*looks % LOOKS != 0)
        return true;
    if (clock_now_ns() > game->give_up_ns)
        atomic_store_explicit(&game->stop, true, memory_order_relaxed);
    sched_yield();
    return !atomic_load_explicit(&game->stop, memory_order_relaxed);
}

static void write_sent(struct player *player, enum kind kind)
{
    /* word by word: a long memset() may go past the caches */
    for (uint64_t i = 0; i < kinds[kind].bytes; i += sizeof player->seen)
        memcpy(player->buffers->sent + i, &player->seen, sizeof player->seen);
}

static void read_received(struct player *player, enum kind kind)
{
    const uint8_t *at = player->buffers->received;
    uint64_t sum = 0, word;
    for (uint64_t i = 0; i < kinds[kind].bytes; i += sizeof(word)) {
        memcpy(&word, at + i, sizeof word);
        sum += word;
    }
    __asm__ volatile("" : : "r"(sum) : "memory"); /* who needs it is not to be known */
}

static bool send(struct player *player, enum kind kind)
{
    unsigned looks = 0;
    write_sent(player, kind);
    player->done = false;
    player->op = (struct driver_op){.done = put_done, .owner = player};
    if (player->driver->ops->put_post(player->driver, player->puts[kind], &player->op) < 0) {
        atomic_store_explicit(&player->game->stop, true, memory_order_relaxed);
        player->done = true;
        return false;
    }
    while (!player->done) {
        player->driver->ops->progress(player->driver, 1);
        if (!player->done && !patient(player->game, &looks))
            return false;
    }
    return true;
}

static bool receive(struct player *player, enum kind kind)
{
    const struct notify_line *line = notify_line_of(player->notify, 0, 0);
    unsigned looks = 0;
    for (;;) {
        bool arrived = notify_arrived(line) > player->seen; /* before the look at the lane */
        bool landed = !lane_pending(&player->in) || lane_drain(&player->in) == 0;
        if (arrived && landed)
            break;
        if (!patient(player->game, &looks))
            return false;
    }
    player->seen++;
    read_received(player, kind);
    return true;
}

static bool exchange(struct player *player, enum kind kind, bool first)
{
    return first ? send(player, kind) && receive(player, kind)
                 : receive(player, kind) && send(player, kind);
}

static bool probe(struct player *player, bool first)
{
    for (unsigned i = 0; i < PROBES; i++) {
        player->out.probe_in = 0; /* the next start measures */
        if (!exchange(player, PROBE, first))
            return false;
    }
    return true;
}

/* What it takes to write and to read alone. */
static double touch(struct player *player)
{
    uint64_t started_ns = 0;
    for (unsigned i = 0; i < 2; i++) { /* the first time the other has some of the lines */
        started_ns = clock_now_ns();
        write_sent(player, HALF);
        read_received(player, HALF);
    }
    return (double)(clock_now_ns() - started_ns);
}

static bool play_round(struct player *player, unsigned round, bool first)
{
    struct game *game = player->game;
    if (first)
        game->touch_ns[round] = touch(player);
    for (unsigned kind = PROBE + 1; kind < KINDS; kind++) {
        if (!exchange(player, kind, first)) /* the lines are where this way leaves them */
            return false;
        uint64_t started_ns = clock_now_ns();
        if (!exchange(player, kind, first))
            return false;
        if (first)
            game->ns[kind][round] = (double)(clock_now_ns() - started_ns) / 2;
    }
    if (!probe(player, first))
        return false;
    if (first)
        game->distance_ns[round] = player->out.distance_ns;
    return true;
}

static void play_rounds(struct player *player)
{
    struct game *game = player->game;
    bool first = player == &game->players[0];
    uint64_t started_ns = clock_now_ns();
    for (unsigned round = 0; round < ROUNDS_MAX && play_round(player, round, first); round++) {
        if (!first)
            continue;
        game->rounds = round + 1;
        if (clock_now_ns() - started_ns > ENOUGH_NS)
            break;
    }
}

/* ---- the players ---- */

static int make_put(struct player *player, enum kind kind)
{
    const struct layout *layout = player->game->layouts[kind];
    const struct driver_ops *ops = player->driver->ops;
    struct driver_landing_args landing_args = {.region = player->to,
                                               .layout = layout,
                                               .notify = true,
                                               .offset_bytes = offsetof(struct buffers, received)};
    uint8_t blob[LANDING_MAX_BYTES];
    struct driver_put_args args = {.peer = player->peer,
                                   .region = player->from,
                                   .layout = layout,
                                   .target_layout = layout,
                                   .offset_bytes = offsetof(struct buffers, sent),
                                   .landing = blob};
    struct driver_put_info info;
    int r = ops->landing_new(player->driver, &landing_args, &player->landings[kind], blob,
                             &args.landing_bytes);
    if (r == 0)
        r = ops->put_prepare(player->driver, &args, &player->puts[kind], &info);
    if (r == 0)
        r = shm_put_share(player->puts[kind], &way_costs_default, kind + 1, layout, layout);
    const struct copy_mode mode = copy_mode_of(kinds[kind].way, layout, layout);
    if (r == 0)
        shm_put_mode(player->puts[kind], &mode);
    return r;
}

static int make_offer(struct player *player, enum kind kind)
{
    player->offers[kind] = (struct lane_put){.id = kind + 1,
                                             .size_bytes = player->game->layouts[kind]->size_bytes,
                                             .program = player->game->programs[kind],
                                             .target = player->buffers->received,
                                             .source = player->other->buffers->sent};
    return lane_add(&player->in, &player->offers[kind]);
}

static int open_driver(struct player *player)
{
    const struct driver_ops *ops = driver_of_id(DRIVER_SHM);
    const struct driver_config config = {.segment_bytes = 0}; /* as a client has it */
    const struct driver_events events = {
        .notified = notified, .peer_down = peer_down, .context = player};
    struct driver_memory own = {.base = player->buffers,
                                .length_bytes = sizeof *player->buffers,
                                .fd = -1},
                         others = {.base = player->other->buffers,
                                   .length_bytes = sizeof *player->buffers,
                                   .fd = -1};
    uint8_t address[ADDRESS_MAX_BYTES];
    int r = ops->open(&config, &events, &player->driver);
    if (r == 0)
        r = ops->region_add(player->driver, &own, &player->from);
    if (r == 0)
        r = ops->region_add(player->driver, &others, &player->to);
    if (r == 0)
        r = ops->address(player->driver, address);
    return r < 0 ? r : ops->peer_connect(player->driver, address, (size_t)r, &player->peer);
}

static int open_player(struct player *player)
{
    int r = open_driver(player);
    if (r < 0)
        return r;
    lane_init(&player->out, &player->buffers->lane, LANE_SENDER);
    player->out.receiver = player->other->notify;
    lane_init(&player->in, &player->other->buffers->lane, LANE_RECEIVER);
    shm_peer_lane(player->peer, &player->out);
    for (unsigned kind = 0; r == 0 && kind < KINDS; kind++) {
        r = make_put(player, kind);
        if (r == 0)
            r = make_offer(player, kind);
    }
    player->done = true;
    return r;
}

static void close_player(struct player *player)
{
    const struct driver_ops *ops = driver_of_id(DRIVER_SHM);
    for (unsigned kind = 0; kind < KINDS; kind++) {
        if (!player->done && player->puts[kind])
            shm_put_cancel(player->driver, player->puts[kind], -ECANCELED); /* the other has gone */
        if (player->puts[kind])
            ops->put_release(player->driver, player->puts[kind]);
        if (player->landings[kind])
            ops->landing_free(player->driver, player->landings[kind]);
    }
    lane_deinit(&player->out);
    lane_deinit(&player->in);
    if (player->peer)
        ops->peer_disconnect(player->driver, player->peer);
    if (player->to)
        ops->region_remove(player->driver, player->to);
    if (player->from)
        ops->region_remove(player->driver, player->from);
    if (player->driver)
        ops->close(player->driver);
}

/* Memory comes from the thread's own arena: no line is shared by accident. */
void *player_play(void *context)
{
    struct player *player = context;
    player->error = open_player(player);
    if (player->error == 0)
        play_rounds(player);
    /* The other may wait for what does not come. */
    atomic_store_explicit(&player->game->stop, true, memory_order_relaxed);
    close_player(player);
    return NULL;
}
