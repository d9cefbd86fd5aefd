/* A driver without operations; the test supplies its progress(), and may have others:
 * IDLE_DRIVER_OPS. */
#pragma once

#include "drivers/driver.h"

#ifndef IDLE_DRIVER_OPS
#define IDLE_DRIVER_OPS
#endif

static struct driver the_driver;
static struct driver_events driver_events;

static int progress(struct driver *driver, unsigned budget);

static int probe(const struct driver_config *config, struct driver_caps *ret_caps)
{
    *ret_caps = (struct driver_caps){.same_node = true, .other_nodes = true};
    return 0;
}

static int open_driver(const struct driver_config *config, const struct driver_events *events,
                       struct driver **ret_driver)
{
    driver_events = *events;
    *ret_driver = &the_driver;
    return 0;
}

static void close_driver(struct driver *driver)
{
}

static int event_fd(struct driver *driver)
{
    return -1;
}

static const struct driver_ops ops = {.probe = probe,
                                      .open = open_driver,
                                      .close = close_driver,
                                      .progress = progress,
                                      .event_fd = event_fd,
                                      IDLE_DRIVER_OPS};
