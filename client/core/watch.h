/*
 * A thread that rings the doorbell on which this process sleeps (proto/notify.h) when a descriptor has
 * become readable, because no system call waits for both. It sleeps until it is armed and until then
 * costs nothing:
 *
 *     uint32_t doorbell = notify_prepare_sleep(segment);
 *     if (the condition holds, or the descriptor is readable)
 *         notify_cancel_sleep(segment);
 *     else if (watch_arm(watch) == 0)
 *         notify_sleep(segment, doorbell, timeout_ns);
 */
#pragma once

#include <stdbool.h>

#include "proto/segment.h"

struct watch;

int watch_new(int fd, struct notify_segment *segment, struct watch **ret_watch);
/* The next time that the descriptor is readable, or now if it is, rings once. */
int watch_arm(struct watch *watch);
/* ours: false in a forked child, which does not have the thread. NULL is a no-op. Returns NULL. */
struct watch *watch_free(struct watch *watch, bool ours);
