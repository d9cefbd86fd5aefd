/*
 * The ping-pong that calibrate_ways.c measures: two players, each a thread, put to each other like
 * two clients of this node.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "drivers/copy/copy.h"
#include "drivers/driver.h"
#include "drivers/shm/lane.h"
#include "drivers/shm/ways.h"
#include "proto/segment.h"

enum {
    BUFFER_BYTES = WAY_LARGE_BYTES,
    ROUNDS_MAX = 40,
};

enum kind { PROBE, HALF, RING, KINDS };

/* All are contiguous. */
uint64_t kind_bytes(enum kind kind);

struct buffers {
    struct lane_segment lane;
    _Alignas(4096) uint8_t sent[BUFFER_BYTES];
    _Alignas(4096) uint8_t received[BUFFER_BYTES];
};

/* One of the two: what a client has of its own, and its end of either lane. Its thread's, but for
 * what is set before. */
struct player {
    _Alignas(2 * LINE_BYTES) struct game *game;
    struct player *other;
    unsigned processor;
    struct buffers *buffers;
    struct notify_segment *notify;
    struct driver *driver;
    struct driver_region *from, *to; /* own memory, the other's */
    struct driver_peer *peer;
    struct lane out, in;
    struct driver_landing *landings[KINDS];
    struct driver_put *puts[KINDS];
    struct lane_put offers[KINDS]; /* what the other may share with this one */
    struct driver_op op;
    bool done;
    uint64_t notified; /* how often the other was */
    uint64_t seen;     /* notifications of its own */
    int error;
};

struct game {
    struct player players[2];
    struct layout *layouts[KINDS];
    struct copy_program *programs[KINDS];
    uint64_t give_up_ns;
    _Atomic bool stop;
    _Alignas(2 * LINE_BYTES) unsigned rounds; /* that are complete */
    double touch_ns[ROUNDS_MAX];
    double ns[KINDS][ROUNDS_MAX];
    double distance_ns[ROUNDS_MAX];
};

/* The thread of a player, once both have their memory: plays the rounds that fit into the time, or
 * until the other has stopped. player->error tells why it could not. */
void *player_play(void *player);
