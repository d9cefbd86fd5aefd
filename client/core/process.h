/* Processes of this node to which this one puts. Each is a peer of the shm driver, and may have a
 * lane (proto/lane.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "drivers/driver.h"
#include "drivers/shm/lane.h"

struct mapped_segment;
struct tca;

struct process {
    uint64_t session;
    struct driver_peer *peer;
    int lane_fd; /* until it is mapped, else -1 */
    bool has_lane;
    struct lane lane;                /* the sender's end */
    struct mapped_segment *receiver; /* that the lane uses; NULL: none */
    uint32_t uses;                   /* by steps of plans */
    bool gone;                       /* it has ended */
    uint64_t flush;                  /* the last that asks it (client/plan/bind.c) */
    struct process *next;
};

/* Finds the process with this session, or creates it. Session 0 stands for any owner. */
int process_find(struct tca *session, uint64_t id, struct process **ret_process);

/* Stores the lane's descriptor, unless the process has one, and then sets *fd to -1. */
int process_adopt_lane(struct tca *session, uint64_t id, int *fd);
/* Maps the lane if it is not mapped; `segment` is the process's notification segment. */
int process_map_lane(struct process *process, struct notify_segment *segment);

/* The process has ended: fails everything in flight to it with this error. Returns it; NULL: this
 * one does not put to it. */
struct process *process_gone(struct tca *session, uint64_t id, int error);
/* Frees it if it has ended and no plan uses it. Returns whether it was freed. */
bool process_drop(struct tca *session, struct process *process);

/* Waits until the entries in all lanes are copied, at most until end_ns. */
void process_drain_all(struct tca *session, uint64_t end_ns);
/* The session ends: frees all processes. */
void process_clear(struct tca *session);
