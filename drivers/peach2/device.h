/* An open board: control socket, BARs, interrupt, doorbell. */
#pragma once

#include <stdint.h>

#include "drivers/peach2/registers.h"

enum {
    /* a board that does not execute a command or reply within this time counts as lost */
    ABORT_MS = 1000,
    REPLY_MS = 1000,
};

struct device {
    char *path;
    int control, interrupt_fd, bell_fd; /* -1: not attached */
    struct peach2_registers *bar0;
    struct peach2_window *bar2;
    uint32_t node;
    uint64_t epoch; /* of its packets; based on the time, so that it increases over restarts */
};

/* Connects and sends an attach request. 0, or -ENODEV: no board. */
int peach2_device_dial(struct device *device);
/* Receives the reply. Returns 0 or -EAGAIN (no reply yet); other errors detach the device: -ENODEV,
 * -EBUSY (another driver is attached), -EPROTO (version mismatch). */
int peach2_device_attach(struct device *device, int wait_ms);
void peach2_device_detach(struct device *device);
/* Disables a stuck board: if it resumes before it notices that the driver has detached, it accepts
 * no packets and reads no sources. */
void peach2_device_disable(struct device *device);
/* Sends a request on the control socket, with descriptor fd unless -1, and waits for the reply.
 * Returns 0 or an error. Call with the lock held. */
int peach2_device_request(struct device *device, const struct peach2_control *message, int fd);
void peach2_device_ring(struct device *device);
/* Makes the board take over routes and rings, and waits for it. 0 or -ETIMEDOUT. */
int peach2_device_commit(struct device *device);
/* Aborts all commands of a channel, and waits for it. 0 or -ETIMEDOUT. */
int peach2_device_abort(struct device *device, unsigned channel);
