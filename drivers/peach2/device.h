/* The board itself, as its driver has it open: control socket, BARs, interrupt, doorbell. */
#pragma once

#include <stdint.h>

#include "drivers/peach2/registers.h"

enum {
    ABORT_MS = 1000, /* how long a board may take to obey, */
    REPLY_MS = 1000, /* or to answer: then it is stuck, and counts as lost */
};

struct device {
    char *path;
    int control, interrupt_fd, bell_fd; /* -1: it is gone */
    struct peach2_registers *bar0;
    struct peach2_window *bar2;
    uint32_t node;
    uint64_t epoch; /* what its packets carry: only ever grows, over boards and daemons (it begins
                       as the time) */
};

/* Asks it in. 0, or -ENODEV: there is none. */
int peach2_device_dial(struct device *device);
/* And hears: 0, -EAGAIN (no answer yet), or, and then it is detached, -ENODEV, -EBUSY (somebody
 * else's), -EPROTO (another version). */
int peach2_device_attach(struct device *device, int wait_ms);
void peach2_device_detach(struct device *device);
/* It is stuck, not dead: should it go on before it sees that we have gone, it takes nothing in, and
 * reads no source any more. */
void peach2_device_forsake(struct device *device);
/* A question on the control socket, fd -1: none; 0 or the board's error. Under the lock. */
int peach2_device_request(struct device *device, const struct peach2_control *message, int fd);
void peach2_device_ring(struct device *device);
/* Takes over routes and rings; waits for it. 0 or -ETIMEDOUT. */
int peach2_device_commit(struct device *device);
/* Everything that was given to a channel is forgotten. 0 or -ETIMEDOUT. */
int peach2_device_abort(struct device *device, unsigned channel);
