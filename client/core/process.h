/* Processes of this node that this one puts to: each is a peer of the shm driver, perhaps with a
 * lane to it (proto/lane.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "drivers/driver.h"
#include "drivers/shm/lane.h"

struct tca;

struct process {
    uint64_t session;
    struct driver_peer *peer;
    int lane_fd; /* until it is mapped, else -1 */
    bool has_lane;
    struct lane lane; /* our end: the sender's */
    struct process *next;
};

/* The process with this session (0: the owner does not matter), made when it is met the first time.
 */
int process_find(struct tca *session, uint64_t id, struct process **ret_process);

/* The lane to it has come: takes the descriptor. */
int process_adopt_lane(struct tca *session, uint64_t id, int *fd);
/* Maps it, unless it is; `segment` is the process's. */
int process_map_lane(struct process *process, struct notify_segment *segment);

/* A process has ended: what is in flight to it ends with this error. */
void process_gone(struct tca *session, uint64_t id, int error);

/* The session ends: first settles what still waits in lanes, until end_ns; then everything is let
 * go. */
void process_settle_all(struct tca *session, uint64_t end_ns);
void process_clear(struct tca *session);
