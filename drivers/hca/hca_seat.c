/* The driver in a process: see drivers/seat.h, and hca_find.c. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "drivers/hca/hca.h"

/* ---- forks: a child has the device's descriptor, and could release what its parent uses. This
 * library is loaded by libtca, which handles its own forks (client/forks.c) and does not know
 * devices. ---- */

static pthread_mutex_t seats_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hca_driver *seats;
static pthread_once_t forks_once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&seats_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&seats_lock);
}

/* Commands fail from now on. */
static void in_child(void)
{
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (struct hca_driver *hca = seats; hca; hca = hca->next_seat) {
        hca->inherited = true;
        dup3(nothing, hca->context->cmd_fd, O_CLOEXEC);
    }
    close(nothing);
    after_fork();
}

static void handle_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

static void remember(struct hca_driver *hca)
{
    pthread_once(&forks_once, handle_forks);
    pthread_mutex_lock(&seats_lock);
    hca->next_seat = seats;
    seats = hca;
    pthread_mutex_unlock(&seats_lock);
}

static void seat_close(struct driver *driver)
{
    struct hca_driver *hca = hca_of(driver);
    pthread_mutex_lock(&seats_lock);
    struct hca_driver **link = &seats;
    while (*link != hca)
        link = &(*link)->next_seat;
    *link = hca->next_seat;
    pthread_mutex_unlock(&seats_lock);
    hca_close(driver);
}

/* ---- life ---- */

static const struct hca_role process;

static int open_port(const void *bytes, size_t count, struct rnic_port *ret_port)
{
    char address[INET6_ADDRSTRLEN];
    struct hca_device device;
    if (count != sizeof(device))
        return -EPROTO;
    memcpy(&device, bytes, sizeof(device));
    if (device.magic != HCA_DEVICE_MAGIC || device.name[sizeof(device.name) - 1] != '\0')
        return -EPROTO;
    inet_ntop(AF_INET6, device.gid, address, sizeof(address));
    return rnic_port_open(device.name, device.port, address, ret_port);
}

static int probe(const void *bytes, size_t count)
{
    struct rnic_port port;
    int r = open_port(bytes, count, &port);
    if (r == 0)
        ibv_close_device(port.context);
    return r;
}

static int seat_open(const void *bytes, size_t count, const struct driver_events *events,
                     struct driver **ret_driver)
{
    const struct driver_config config = {.segment_bytes = 0};
    struct rnic_port port;
    struct hca_driver *hca;
    int r = open_port(bytes, count, &port);
    if (r == 0)
        r = hca_new(&process, &port, &config, events, &hca);
    if (r < 0)
        return r;
    remember(hca);
    *ret_driver = &hca->driver;
    return 0;
}

static int peer_new(struct driver *driver, uint64_t grant, struct driver_peer **ret_peer)
{
    struct hca_driver *hca = hca_of(driver);
    struct hca_domain *domain;
    struct hca_peer *peer;
    assert(grant != 0);
    int r = hca_domain_new(hca, &domain);
    if (r == 0)
        r = hca_peer_new(hca, domain, &peer);
    if (r < 0)
        return r == -ENOSPC ? -ENOBUFS : r;
    peer->grant = grant;
    *ret_peer = (struct driver_peer *)peer;
    return 0;
}

static int offer(struct driver *driver, struct driver_peer *driver_peer, bool dials,
                 void *ret_offer)
{
    struct hca_peer *peer = (struct hca_peer *)driver_peer;
    struct hca_seat_offer made = {.address = peer->hca->address};
    if (peer->error < 0 || peer->failing < 0)
        return peer->error < 0 ? peer->error : peer->failing;
    if (peer->qp) { /* the other end has lost it */
        hca_peer_take_last(peer->hca, peer);
        hca_again_pause(peer);
    }
    int r = peer->garbled                   ? -EPROTO
            : hca_port_is_active(peer->hca) ? hca_peer_offer(peer, &made.offer)
                                            : -ENETDOWN;
    if (r < 0)
        return r;
    peer->dials = dials;
    made.counted = peer->credits.counted;
    credits_reported(&peer->credits);
    memcpy(ret_offer, &made, sizeof(made));
    return sizeof(made);
}

static int answer(struct driver *driver, struct driver_peer *driver_peer, const void *bytes,
                  size_t count)
{
    struct hca_peer *peer = (struct hca_peer *)driver_peer;
    struct hca_seat_offer other;
    if (peer->error < 0)
        return peer->error;
    if (count != sizeof(other) || !peer->qp || peer->answered || peer->listens)
        return -EPROTO;
    memcpy(&other, bytes, sizeof(other));
    int r = hca_address_is_good(peer->hca, &other.address) ? hca_again_check(peer, other.counted)
                                                           : -EPROTO;
    if (r == 0)
        r = hca_peer_join(peer, &other.address, &other.offer);
    if (r < 0)
        return r;
    recall_join(&peer->hca->recall, &peer->holder);
    hca_again_resume(peer, other.counted);
    peer->listens = !peer->dials;
    peer->answered = peer->window.ask =
        peer->dials; /* the question is what the other one waits for */
    hca_peer_activate(peer);
    return 0;
}

static void abandon(struct driver *driver, struct driver_peer *driver_peer, int error)
{
    struct hca_peer *peer = (struct hca_peer *)driver_peer;
    if (peer->error < 0)
        return;
    peer->told = true;
    peer->failing = error;
    hca_peer_end(hca_of(driver), peer);
}

/* The device reports a request when the other device has acknowledged it and all before it. */
static bool delivered(struct driver *driver, struct driver_peer *driver_peer)
{
    struct hca_peer *peer = (struct hca_peer *)driver_peer;
    struct ibv_send_wr nothing = {.opcode = IBV_WR_RDMA_WRITE};
    if (peer->error < 0)
        return true;
    if (window_next_put(&peer->window))
        return false;
    if (peer->window.counted == peer->window.made)
        return true;
    if (peer->paused)
        return false;
    if (peer->reported == peer->posted)
        return true;
    if (peer->quiet > 0) {
        peer->quiet = HCA_QUIET; /* asks for a report */
        hca_send_chain(peer, &nothing, 1, NULL);
    }
    return false;
}

/* ---- landings and puts ---- */

static struct hca_peer *peer_of(const struct hca_driver *hca, uint64_t grant)
{
    struct hca_peer *peer = hca->peers;
    while (peer && peer->grant != grant)
        peer = peer->next;
    return peer;
}

static int landing_new(struct driver *driver, const struct driver_landing_args *args,
                       uint32_t index, uint32_t generation, struct driver_landing **ret_landing)
{
    struct hca_driver *hca = hca_of(driver);
    struct hca_peer *from = peer_of(hca, args->grant);
    struct hca_landing *landing;
    int r = from ? hca_landing_make(hca, args, &landing) : -ENOTCONN;
    if (r < 0)
        return r;
    r = landings_place(&hca->landings, landing, index, generation);
    if (r < 0) {
        hca_landing_unmake(hca, landing);
        return r;
    }
    landing->from = from;
    landing->index = index;
    landing->generation = generation;
    from->may_answer = true;
    hca_peer_activate(from);
    *ret_landing = (struct driver_landing *)landing;
    return 0;
}

static void landing_free(struct driver *driver, struct driver_landing *driver_landing)
{
    struct hca_landing *landing = (struct hca_landing *)driver_landing;
    landings_remove(&hca_of(driver)->landings, landing->index);
    hca_landing_unmake(hca_of(driver), landing);
}

/* Key and address of the landing are found out. */
static int put_prepare(struct driver *driver, const struct driver_put_args *args,
                       struct driver_put **ret_put, struct driver_put_info *ret_info)
{
    const struct hca_peer *peer = (const struct hca_peer *)args->peer;
    struct hca_blob blob;
    struct hca_put *put;
    int r = peer->error < 0 ? peer->error : hca_blob_read(args, &blob);
    if (r == 0)
        r = hca_put_make(args, &blob, &put, ret_info);
    if (r < 0)
        return r;
    hca_find_landing(put);
    *ret_put = (struct driver_put *)put;
    return 0;
}

static size_t blob(uint32_t index, uint32_t generation, uint64_t size_bytes,
                   uint8_t ret_blob[LANDING_MAX_BYTES])
{
    const struct hca_blob made = {.magic = HCA_BLOB_MAGIC,
                                  .landing = index,
                                  .generation = generation,
                                  .size_bytes = size_bytes};
    memcpy(ret_blob, &made, sizeof(made));
    return sizeof(made);
}

static const struct driver_ops seat_ops = {
    .name = "hca",
    .id = DRIVER_HCA,
    .close = seat_close,
    .region_add = hca_region_add,
    .region_remove = hca_region_remove,
    .peer_answer = answer,
    .peer_disconnect = hca_peer_disconnect,
    .peer_fail = hca_peer_fail,
    .landing_compile = packed_landing_compile,
    .landing_free = landing_free,
    .landing_bytes = hca_landing_bytes,
    .put_compile = packed_put_compile,
    .put_prepare = put_prepare,
    .put_release = hca_put_release,
    .put_part = hca_put_part,
    .put_post = hca_put_post,
    .put_stop = window_put_stop,
    .peer_flush = hca_peer_flush,
    .progress = hca_progress,
    .event_fd = hca_event_fd,
    .arm = hca_arm,
};

static const struct hca_role process = {
    .ops = &seat_ops,
    .take = {[HCA_PIECE] = hca_take_piece,
             [HCA_ASK] = hca_take_nothing,
             [HCA_COUNT] = hca_take_nothing,
             [HCA_RECALL] = hca_recalled,
             [HCA_FIND] = hca_asked,
             [HCA_FOUND] = hca_found},
    .landing_gone = hca_tell_gone,
};

const struct driver_seat tca_hca_seat = {
    .version = PROTO_VERSION,
    .probe = probe,
    .open = seat_open,
    .peer_new = peer_new,
    .offer = offer,
    .abandon = abandon,
    .delivered = delivered,
    .landing_new = landing_new,
    .blob = blob,
};
