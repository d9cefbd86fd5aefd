/* Opens the driver: attaches to the board, maps its memory, writes its registers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "drivers/peach2/peach2.h"
#include "proto/wait.h"

/* Retries, because the board may still be starting, or detaching from a previous driver. */
static int attach(struct device *device)
{
    const uint64_t deadline_ns = clock_now_ns() + (uint64_t)ATTACH_MS * 1000000;
    const struct timespec nap = {.tv_nsec = 5000000};
    int r;
    for (;;) {
        r = peach2_device_dial(device);
        if (r == 0)
            r = peach2_device_attach(device, REPLY_MS);
        if (r == -EAGAIN) {
            peach2_device_detach(device);
            r = -ENODEV;
        }
        if ((r != -ENODEV && r != -EBUSY) || clock_now_ns() > deadline_ns)
            return r;
        nanosleep(&nap, NULL);
    }
}

static void write_rings(struct peach2 *peach2)
{
    struct peach2_registers *bar0 = peach2->device.bar0;
    memset(peach2->rings, 0, (size_t)PEACH2_NODES * RING_ENTRIES * sizeof(peach2->rings[0]));
    for (unsigned node = 0; node < PEACH2_NODES; node++) {
        peach2->sources[node].head = 0;
        atomic_store(&bar0->notify_taken[node], 0);
        atomic_store(&bar0->accept_epoch[node], peach2->sources[node].epoch);
    }
    bar0->notify_base = peach2->arena_bus;
    bar0->notify_entries = RING_ENTRIES;
}

int peach2_set_up(struct peach2 *peach2)
{
    struct peach2_registers *bar0 = peach2->device.bar0;
    int r = peach2_memory_tell_all(peach2);
    if (r < 0)
        return r;
    atomic_store(&bar0->mask, 0);
    write_rings(peach2);
    peach2_links_start(peach2);
    peach2_routes(peach2->exits, peach2->whole, bar0->routes);
    memcpy(bar0->descriptors, peach2->internal_descriptors, sizeof(bar0->descriptors));
    atomic_store(&bar0->epoch, peach2->device.epoch);
    peach2_recall_tell_board(peach2);
    for (unsigned i = 0; i < PEACH2_CHANNELS; i++) {
        struct channel *channel = &peach2->channels[i];
        channel->start = channel->sent = channel->done = atomic_load(&bar0->channels[i].start);
    }
    return peach2_device_commit(&peach2->device);
}

static uint32_t segment_bytes(const struct driver_config *config)
{
    uint64_t bytes = config->segment_bytes > 0 ? config->segment_bytes : SEGMENT_BYTES;
    bytes = bytes < SEGMENT_MIN ? SEGMENT_MIN : bytes > SEGMENT_MAX ? SEGMENT_MAX : bytes;
    return (uint32_t)bytes & ~(uint32_t)(PAGE - 1);
}

static int start(struct peach2 *peach2, const struct driver_config *config)
{
    const struct peach2_config *own = peach2_config_of(config);
    int r = peach2_topology_init(&peach2->topology, own->nodes > 0 ? own->nodes : PEACH2_NODES,
                                 own->rings);
    if (r < 0)
        return r;
    if (getrandom(&peach2->cookie, sizeof(peach2->cookie), 0) != sizeof(peach2->cookie))
        return -EIO;
    peach2->cookie &= (UINT64_C(1) << 56) - 1; /* messages have 56 bits for it */
    peach2->last_flush = peach2->cookie >> 1;
    r = peach2_recall_init(peach2);
    if (r < 0)
        return r;
    r = spans_init(&peach2->spans, BUS_FIRST,
                   own->window_bytes > 0 && own->window_bytes < PEACH2_INTERNAL - BUS_FIRST
                       ? BUS_FIRST + own->window_bytes
                       : PEACH2_INTERNAL);
    if (r < 0)
        return r;
    peach2_links_all(&peach2->topology, &peach2->links);
    peach2->device.path = strdup(own->board);
    r = peach2->device.path ? peach2_events_open(peach2) : -ENOMEM;
    if (r == 0)
        r = attach(&peach2->device);
    if (r == 0 && peach2->device.node >= peach2->topology.nodes)
        r = -ENETUNREACH;
    if (r == 0) {
        peach2->gone = true; /* only record the mappings: peach2_set_up() maps them */
        r = peach2_arena_make(peach2);
        peach2->gone = false;
    }
    if (r == 0)
        r = peach2_set_up(peach2);
    return r < 0 ? r : peach2_events_watch(peach2);
}

int peach2_open(const struct driver_config *config, const struct driver_events *events,
                struct driver **ret_driver)
{
    if (!peach2_config_of(config)->board)
        return -ENODEV;
    struct peach2 *peach2 = calloc(1, sizeof(*peach2));
    if (!peach2)
        return -ENOMEM;
    peach2->driver = (struct driver){.ops = &peach2_driver_ops, .events = *events};
    peach2->device.control = peach2->device.interrupt_fd = peach2->device.bell_fd = -1;
    peach2->coming = peach2->device;
    peach2->event_fd = peach2->timer_fd = -1;
    peach2->landings = LANDINGS_INIT;
    peach2->segment_bytes = segment_bytes(config);
    pthread_mutex_init(&peach2->lock, NULL);
    int r = start(peach2, config);
    if (r < 0) {
        peach2_close(&peach2->driver);
        return r;
    }
    *ret_driver = &peach2->driver;
    return 0;
}

void peach2_close(struct driver *driver)
{
    struct peach2 *peach2 = peach2_of(driver);
    if (peach2->device.control < 0)
        peach2->gone = true;
    peach2_arena_free(peach2);
    peach2_device_detach(&peach2->device);
    peach2_device_detach(&peach2->coming);
    if (peach2->event_fd >= 0)
        close(peach2->event_fd);
    if (peach2->timer_fd >= 0)
        close(peach2->timer_fd);
    free(peach2->device.path);
    peach2_recall_deinit(peach2);
    spans_deinit(&peach2->spans);
    landings_deinit(&peach2->landings);
    pthread_mutex_destroy(&peach2->lock);
    free(peach2);
}
