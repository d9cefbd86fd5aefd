/* Boards for tests: real tca-peach2 processes with cables, whose registers the test writes
 * directly. The functions use Criterion's assertions. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "drivers/peach2/routing.h"

enum { RIG_BUS = 1 << 20 /* where a board's memory is mapped on its bus */, RIG_RING = 256 };

struct rig_board {
    pid_t pid;
    char path[108];
    int control;
    int interrupt_fd, bell_fd;
    struct peach2_registers *bar0;
    struct peach2_window *bar2;
    uint8_t *memory;
    int memory_fd;
    uint32_t starts[PEACH2_CHANNELS];
    uint32_t notified[PEACH2_NODES]; /* of each node: taken from its ring */
};

struct rig {
    struct peach2_topology topology;
    char folder[64];
    size_t memory_bytes;
    struct rig_board boards[PEACH2_NODES];
};

/* Starts them, waits for the cables, attaches to each; maps so much memory at RIG_BUS of each;
 * routes; notification rings of RIG_RING entries behind it. */
void rig_open(struct rig *rig, unsigned nodes, unsigned rings, size_t memory_bytes);
void rig_close(struct rig *rig);
/* Only starts the boards; ends them and returns how many failed. */
void rig_boards(struct rig *rig, unsigned nodes, unsigned rings);
unsigned rig_end_boards(struct rig *rig);
/* Only ends the boards, for a rig that did not attach. */
void rig_kill_board(struct rig *rig, unsigned node);

void rig_start(struct rig *rig, unsigned node);
void rig_kill(struct rig *rig, unsigned node);
void rig_attach(struct rig *rig, unsigned node);
void rig_detach(struct rig_board *board);
/* Ports of all boards are as the topology has them, but for node `without` (PEACH2_NO_NODE:
 * none). */
void rig_wait_cables(struct rig *rig, unsigned without);
/* Routes of all attached boards for these links. */
void rig_route(struct rig *rig, const struct peach2_links *links);
/* Opens a further connection to the control socket. */
int rig_dial(const char *path);
/* Sends a control request, with fd unless -1. Returns the status of the reply. */
int rig_ask(struct rig_board *board, const struct peach2_control *message, int fd);
void rig_plug(struct rig *rig, unsigned node, unsigned port, bool in);

void rig_ring(struct rig_board *board);
void rig_commit(struct rig_board *board);
/* The next command of a channel. */
void rig_command(struct rig_board *board, unsigned channel, uint32_t fetch, uint64_t first);
/* Until all commands are done; false: an error, or half a minute. */
bool rig_done(struct rig_board *board, unsigned channel);
/* Waits for the channel's error. */
uint32_t rig_error(struct rig_board *board, unsigned channel);
void rig_abort(struct rig_board *board, unsigned channel);
/* The next notification of a node, false when none came in half a minute. */
bool rig_notified(struct rig_board *board, unsigned from, uint64_t ret_notify[2]);
/* Resets the expected number of packets from one node to another, after a loss. */
void rig_restart(struct rig *rig, unsigned from, unsigned to);
/* One line of the PIO window; waits for room. */
void rig_pio(struct rig_board *board, uint64_t address, uint64_t mask, const uint8_t *bytes);
