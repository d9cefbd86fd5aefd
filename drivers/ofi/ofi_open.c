/* Finds a provider, opens and closes an instance. */
#include <errno.h>
#include <rdma/fi_cm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "drivers/ofi/ofi.h"
#include "drivers/table.h"

#define ORDER (FI_ORDER_WAW | FI_ORDER_RMA_WAW | FI_ORDER_WAS | FI_ORDER_SAW | FI_ORDER_SAS)

int ofi_random(void *ret_bytes, size_t bytes)
{
    return getrandom(ret_bytes, bytes, 0) == (ssize_t)bytes ? 0 : -EIO;
}

bool ofi_info_ordered(const struct fi_info *info)
{
    return (info->tx_attr->msg_order & FI_ORDER_RMA_WAW) &&
           (info->rx_attr->msg_order & FI_ORDER_RMA_WAW) && info->ep_attr->max_order_waw_size > 0;
}

/* The first one on this interface that the driver can use. */
static const struct fi_info *choose(const struct fi_info *list, const char *interface)
{
    for (const struct fi_info *info = list; info; info = info->next) {
        if (interface && strcmp(info->domain_attr->name, interface) != 0)
            continue;
        if (info->domain_attr->cq_data_size < sizeof(uint32_t) ||
            info->domain_attr->mr_key_size > sizeof(uint64_t))
            continue;
        if (info->tx_attr->iov_limit < 2 || info->tx_attr->inject_size < sizeof(struct ofi_mail))
            continue;
        return info;
    }
    return NULL;
}

static int getinfo(const struct driver_config *config, const char *provider, int mr_mode,
                   uint64_t order, struct fi_info **ret_info)
{
    char host[OFI_HOST_MAX], port[8];
    const bool ip =
        ofi_config_of(config)->address && ofi_resolve(ofi_config_of(config)->address, host) == 0;
    const char *service = ofi_config_of(config)->port > 0 ? port : NULL;
    struct fi_info *hints = fi_allocinfo(), *list = NULL;
    if (!hints)
        return -ENOMEM;
    hints->caps = FI_MSG | FI_RMA | FI_LOCAL_COMM | FI_REMOTE_COMM;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = mr_mode;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->av_type = FI_AV_TABLE;
    hints->tx_attr->msg_order = order;
    hints->rx_attr->msg_order = order;
    if (provider && !(hints->fabric_attr->prov_name = strdup(provider))) {
        fi_freeinfo(hints);
        return -ENOMEM;
    }
    snprintf(port, sizeof(port), "%u", ofi_config_of(config)->port);
    int r = fi_getinfo(FI_VERSION(1, 15), ip ? host : NULL, service, ip || service ? FI_SOURCE : 0,
                       hints, &list);
    fi_freeinfo(hints);
    if (r < 0)
        return r == -FI_ENODATA ? -ENODEV : r;

    const struct fi_info *best = choose(list, ip ? NULL : ofi_config_of(config)->address);
    r = best ? 0 : -ENODEV;
    if (best && !(*ret_info = fi_dupinfo(best)))
        r = -ENOMEM;
    fi_freeinfo(list);
    return r;
}

/* Prefers providers that let the driver choose keys (which are then secret) and keep writes in
 * order. */
static int getinfo_of(const struct driver_config *config, const char *provider,
                      struct fi_info **ret_info)
{
    const int mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_ENDPOINT;
    int r = -ENODEV;
    for (int attempt = 0; attempt < 4 && r == -ENODEV; attempt++)
        r = getinfo(config, provider, attempt & 1 ? mr_mode | FI_MR_PROV_KEY : mr_mode,
                    attempt & 2 ? 0 : ORDER, ret_info);
    return r;
}

/*
 * In libfabric 1.16 and 1.17, "tcp" provides RDM endpoints through rxm, which crashes when a peer
 * dies in the middle of a write to this process (the connection reports the write without a
 * context). These releases contain the newer tcp, without rxm, as "net".
 */
int ofi_getinfo(const struct driver_config *config, struct fi_info **ret_info)
{
    if (ofi_config_of(config)->provider && strcmp(ofi_config_of(config)->provider, "tcp") == 0 &&
        getinfo_of(config, "net", ret_info) == 0)
        return 0;
    return getinfo_of(config, ofi_config_of(config)->provider, ret_info);
}

/* With a descriptor to wait for, if the provider has one. */
static int open_queue(struct ofi_driver *ofi)
{
    struct fi_cq_attr attributes = {
        .format = FI_CQ_FORMAT_DATA,
        .wait_obj = FI_WAIT_FD,
        .size = 8192,
    };
    int fd;
    int r = fi_cq_open(ofi->domain, &attributes, &ofi->cq, NULL);
    if (r == 0 && fi_control(&ofi->cq->fid, FI_GETWAIT, &fd) == 0) {
        ofi->cq_has_fd = true;
        ofi->cq_fd = fd;
        ofi->cq_edges = strcmp(ofi->info->fabric_attr->prov_name, "net") == 0; /* see is_dry() */
        struct epoll_event event = {.events = EPOLLIN | (ofi->cq_edges ? EPOLLET : 0)};
        return epoll_ctl(ofi->event_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
    }
    if (r == 0)
        return 0;
    attributes.wait_obj = FI_WAIT_NONE;
    return fi_cq_open(ofi->domain, &attributes, &ofi->cq, NULL);
}

static int open_endpoint(struct ofi_driver *ofi)
{
    struct fi_av_attr av_attributes = {.type = FI_AV_TABLE};
    int r = fi_fabric(ofi->info->fabric_attr, &ofi->fabric, NULL);
    if (r == 0)
        r = fi_domain(ofi->fabric, ofi->info, &ofi->domain, NULL);
    if (r == 0)
        r = fi_av_open(ofi->domain, &av_attributes, &ofi->av, NULL);
    if (r == 0)
        r = open_queue(ofi);
    if (r == 0)
        r = fi_endpoint(ofi->domain, ofi->info, &ofi->endpoint, NULL);
    if (r == 0)
        r = fi_ep_bind(ofi->endpoint, &ofi->av->fid, 0);
    if (r == 0)
        r = fi_ep_bind(ofi->endpoint, &ofi->cq->fid, FI_TRANSMIT | FI_RECV);
    if (r == 0)
        r = fi_enable(ofi->endpoint);
    return r;
}

static int open_events(struct ofi_driver *ofi)
{
    struct epoll_event event = {.events = EPOLLIN};
    ofi->event_fd = epoll_create1(EPOLL_CLOEXEC);
    ofi->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (ofi->event_fd < 0 || ofi->timer_fd < 0 ||
        epoll_ctl(ofi->event_fd, EPOLL_CTL_ADD, ofi->timer_fd, &event) < 0)
        return -errno;
    return 0;
}

static int make_address(struct ofi_driver *ofi)
{
    struct ofi_address *address = &ofi->address;
    size_t name_bytes = sizeof(address->name);
    int r = fi_getname(&ofi->endpoint->fid, address->name, &name_bytes);
    if (r < 0)
        return r == -FI_ETOOSMALL ? -EOPNOTSUPP : r;
    r = ofi_memory_register(ofi, ofi->sink_bytes, sizeof(ofi->sink_bytes),
                            FI_WRITE | FI_REMOTE_WRITE, &ofi->sink);
    if (r < 0)
        return r;
    address->magic = OFI_ADDRESS_MAGIC;
    address->version = PROTO_VERSION;
    address->name_bytes = (uint16_t)name_bytes;
    address->sink_address = ofi_memory_remote(ofi, &ofi->sink, ofi->sink.base);
    address->sink_key = fi_mr_key(ofi->sink.mr);
    return ofi_random(&address->cookie, sizeof(address->cookie));
}

static void take_limits(struct ofi_driver *ofi)
{
    ofi->ordered = ofi_info_ordered(ofi->info);
    ofi->wide_data = ofi->info->domain_attr->cq_data_size >= sizeof(uint64_t);
    ofi->write_flags = FI_COMPLETION | (ofi->ordered ? 0 : FI_DELIVERY_COMPLETE);
    ofi->write_max_bytes = ofi->info->ep_attr->max_msg_size;
    if (ofi->ordered && ofi->info->ep_attr->max_order_waw_size < ofi->write_max_bytes)
        ofi->write_max_bytes = ofi->info->ep_attr->max_order_waw_size;
    if (ofi->write_max_bytes > OFI_PIECE_BYTES)
        ofi->write_max_bytes = OFI_PIECE_BYTES;
}

static uint32_t segment_bytes(const struct driver_config *config)
{
    uint64_t bytes = config->segment_bytes > 0 ? config->segment_bytes : OFI_SEGMENT_BYTES;
    if (bytes < OFI_SEGMENT_MIN)
        bytes = OFI_SEGMENT_MIN;
    return bytes > OFI_SEGMENT_MAX ? OFI_SEGMENT_MAX : (uint32_t)bytes & ~63u;
}

int ofi_open_driver(const struct driver_config *config, const struct driver_events *events,
                    struct driver **ret_driver)
{
    struct ofi_driver *ofi = calloc(1, sizeof(*ofi));
    if (!ofi)
        return -ENOMEM;
    ofi->driver = (struct driver){.ops = &ofi_driver_ops, .events = *events};
    ofi->event_fd = ofi->timer_fd = ofi->filter.fd = -1;
    ofi->landings = LANDINGS_INIT;
    ofi->active.next_active = ofi->active.previous_active = &ofi->active;
    pthread_mutex_init(&ofi->names_lock, NULL);
    pthread_mutex_init(&ofi->regions_lock, NULL);
    getrandom(ofi->link_epochs, sizeof(ofi->link_epochs), 0);
    getrandom(ofi->source_epochs, sizeof(ofi->source_epochs), 0);

    int r = ofi_getinfo(config, &ofi->info);
    if (r == 0 && ofi_info_unprotected(ofi->info) && !ofi_config_of(config)->unprotected)
        r = -EPERM;
    if (r == 0) {
        take_limits(ofi);
        r = open_events(ofi);
    }
    if (r == 0)
        r = open_endpoint(ofi);
    if (r == 0)
        r = make_address(ofi);
    if (r == 0 && config->guarded)
        ofi_filter_init(ofi, ofi_config_of(config)->backlog);
    if (r == 0)
        r = ofi_quarantine_init(ofi);
    if (r == 0)
        r = ofi_region_new(ofi, -1, 0, OFI_LINKS_MAX * sizeof(struct ofi_mail), FI_REMOTE_WRITE,
                           &ofi->mails);
    if (r == 0)
        r = ofi_requests_init(ofi, segment_bytes(config));
    if (r < 0) {
        ofi_close(&ofi->driver);
        return r;
    }
    *ret_driver = &ofi->driver;
    return 0;
}

static void close_fid(void *object)
{
    if (object)
        fi_close((struct fid *)object);
}

void ofi_close(struct driver *driver)
{
    struct ofi_driver *ofi = ofi_of(driver);
    ofi_sources_drop(ofi, NULL);
    ofi_region_quarantine(ofi, ofi->mails);
    ofi_quarantine_close(ofi);
    /* The endpoint first: nothing is written or completed after this. Registrations that are
     * bound to it end with it. */
    ofi_memory_close(&ofi->sink);
    close_fid(ofi->endpoint);
    ofi_quarantine_deinit(ofi);
    ofi_requests_deinit(ofi);
    close_fid(ofi->cq);
    close_fid(ofi->av);
    close_fid(ofi->domain);
    close_fid(ofi->fabric);
    if (ofi->info)
        fi_freeinfo(ofi->info);
    if (ofi->event_fd >= 0)
        close(ofi->event_fd);
    if (ofi->timer_fd >= 0)
        close(ofi->timer_fd);
    while (ofi->names) {
        struct ofi_name *name = ofi->names;
        ofi->names = name->next;
        free(name);
    }
    landings_deinit(&ofi->landings);
    ofi_filter_deinit(ofi);
    pthread_mutex_destroy(&ofi->names_lock);
    pthread_mutex_destroy(&ofi->regions_lock);
    free(ofi);
}
