/* Opens the rails that the configuration asks for. */
#include "daemon/rails/rails.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/engine/engine.h"
#include "daemon/rails/exposure.h"
#include "daemon/rails/nearness.h"
#include "daemon/sessions/descriptors.h"
#include "daemon/tcad.h"
#include "drivers/addresses.h"

/* In the order of the table of rails, which is the order of preference where there are no measured
 * costs. */
static const struct {
    enum driver_id driver;
    enum conf_rails conf;
} known[] = {{DRIVER_SHM, CONF_RAIL_SHM},
             {DRIVER_PEACH2, CONF_RAIL_PEACH2},
             {DRIVER_HCA, CONF_RAIL_HCA},
             {DRIVER_TCP, CONF_RAIL_TCP},
             {DRIVER_OFI, CONF_RAIL_OFI}};
enum { KNOWN = sizeof(known) / sizeof(known[0]) };
static_assert(1 + RAILS_MAX + KNOWN <= RAIL_SLOTS, "a slot for each open rail and each driver");

/* ---- the configuration of drivers ---- */

/* Those of the name in control.listen were looked up: which others can reach. NULL: it is not
 * that. */
static const struct addresses *own_addresses(const struct tcad *tcad, const struct conf_rail *conf)
{
    const bool is_own =
        conf->address && strcmp(conf->address, tcad->conf->control.listen.host) == 0;
    return is_own ? tcad->own : NULL;
}

/* A single node only needs to listen to itself. */
static const char *address_of(const struct tcad *tcad, const struct conf_rail *conf,
                              struct rail *rail)
{
    if (own_addresses(tcad, conf)) {
        address_text(&tcad->own->list[0], rail->host, sizeof(rail->host));
        return rail->host;
    }
    return conf->address || tcad->cluster->count > 1 ? conf->address : "127.0.0.1";
}

static uint32_t count_boards(const struct tcad *tcad)
{
    const struct cluster_node *own = cluster_by_id(tcad->cluster, tcad->node);
    uint32_t boards = 0;
    for (size_t i = 0; own && i < tcad->cluster->count; i++)
        boards += strcmp(tcad->cluster->nodes[i].subcluster, own->subcluster) == 0;
    return boards;
}

/* When a port is shut, the provider still accepts those that wait, and they take descriptors that
 * are reserved for clients: at most a quarter of these. */
static int backlog(void)
{
    const unsigned reserve = exposure_reserve(descriptors_now().limit);
    return (int)(reserve / 4 > 0 ? reserve / 4 : 1);
}

/* nth: of the adapters' active ports, if [rails] makes a rail of each. */
static void configure(const struct tcad *tcad, const struct conf_rail *conf, unsigned nth,
                      struct rail *rail)
{
    rail->config =
        (struct driver_config){.segment_bytes = tcad->conf->rails.segment_bytes, .guarded = true};
    if (rail->driver == DRIVER_TCP)
        rail->own.tcp = (struct tcp_config){.address = address_of(tcad, conf, rail),
                                            .addresses = own_addresses(tcad, conf),
                                            .port = (uint16_t)conf->port,
                                            .plain = conf->security == CONF_SECURITY_PLAIN,
                                            .user_space = !conf->kernel_tls};
    else if (rail->driver == DRIVER_OFI)
        rail->own.ofi = (struct ofi_config){.provider = conf->provider,
                                            .address = address_of(tcad, conf, rail),
                                            .port = (uint16_t)conf->port,
                                            .backlog = backlog(),
                                            .unprotected = conf->unprotected};
    else if (rail->driver == DRIVER_HCA)
        rail->own.hca = (struct hca_config){.device = conf->device,
                                            .port = conf->port,
                                            .address = conf->address,
                                            .nth = nth,
                                            .peers = (uint32_t)tcad->cluster->count};
    else if (rail->driver == DRIVER_PEACH2)
        rail->own.peach2 = (struct peach2_config){.board = conf->board,
                                                  .nodes = count_boards(tcad),
                                                  .rings = conf->rings,
                                                  .window_bytes = conf->window};
}

struct driver_config rail_config(const struct rail *rail)
{
    struct driver_config config = rail->config;
    config.own = &rail->own;
    return config;
}

void rail_leave_port(struct rail *rail)
{
    if (rail->driver == DRIVER_TCP)
        rail->own.tcp.port = 0;
    else if (rail->driver == DRIVER_OFI)
        rail->own.ofi.port = 0;
}

/* ---- names ---- */

/* "ofi:tcp:lo": the driver and, unless it is empty, the name of the instance. */
static void compose(char ret_name[static RAIL_NAME_MAX_BYTES], enum driver_id driver,
                    const char *rest)
{
    const int n = snprintf(ret_name, RAIL_NAME_MAX_BYTES, "%s%s%s", driver_name(driver),
                           *rest ? ":" : "", rest);
    for (int i = 0; i < n && ret_name[i]; i++)
        if (!isalnum((unsigned char)ret_name[i]) && !strchr(":;._-", ret_name[i]))
            ret_name[i] = '_';
}

static void compose_key(char ret_key[static RAIL_KEY_MAX_BYTES], const struct conf_rail *conf,
                        enum driver_id driver)
{
    if (conf->name)
        snprintf(ret_key, RAIL_KEY_MAX_BYTES, "[rail %s] unprotected", conf->name);
    else
        snprintf(ret_key, RAIL_KEY_MAX_BYTES, "rails.%s_unprotected", driver_name(driver));
}

static bool has_plane(const struct rails *rails, enum driver_id driver, const char *plane)
{
    for (unsigned i = 1; i <= rails->last; i++)
        if (rails->at[i].open && rails->at[i].driver == driver &&
            strcmp(rails->at[i].plane, plane) == 0)
            return true;
    return false;
}

/* The second port of a node is on the plane of the other nodes' second ports: "hca:roce:2". */
static void number_plane(const struct rails *rails, struct rail *rail)
{
    char plane[RAIL_NAME_MAX_BYTES];
    snprintf(plane, sizeof(plane), "%s", rail->plane);
    for (unsigned number = 2; has_plane(rails, rail->driver, rail->plane); number++)
        snprintf(rail->plane, sizeof(rail->plane), "%.24s:%u", plane, number);
}

static void name_rail(struct rail *rail, const struct conf_rail *conf,
                      const struct driver_caps *caps)
{
    if (conf->name)
        snprintf(rail->name, sizeof(rail->name), "%s", conf->name);
    else
        compose(rail->name, rail->driver, caps ? caps->device : "");
    if (conf->plane)
        snprintf(rail->plane, sizeof(rail->plane), "%s", conf->plane);
    else
        compose(rail->plane, rail->driver, caps ? caps->medium : "");
    compose_key(rail->unprotected_key, conf, rail->driver);
}

/* Checked after opening, because providers and interfaces have several names. */
static int check_unique(const struct rails *rails, const struct rail *rail, char *text,
                        size_t text_bytes)
{
    for (unsigned i = 1; i <= rails->last; i++) {
        const struct rail *other = &rails->at[i];
        if (!other->open || other == rail)
            continue;
        if (strcmp(other->name, rail->name) == 0) {
            snprintf(text, text_bytes,
                     "two rails have the name %s: give the one in a section [rail NAME] another",
                     rail->name);
            return -EEXIST;
        }
        if (other->driver == rail->driver && strcmp(other->plane, rail->plane) == 0) {
            snprintf(text, text_bytes,
                     "rails %s and %s are both on plane %s: set plane in the section [rail NAME] "
                     "of one, the same one on all nodes that it leads to",
                     other->name, rail->name, rail->plane);
            return -EEXIST;
        }
    }
    return 0;
}

/* ---- opening ---- */

static const char *or_none(const char *text)
{
    return text ? text : "none";
}

/* The keys are those of [rails], with the driver's name in front, or of a section. */
static void say_failed(const struct conf_rail *conf, enum driver_id driver, int error, char *text,
                       size_t text_bytes)
{
    const char *name = conf->name ? conf->name : driver_name(driver);
    char prefix[32] = "";
    if (!conf->name)
        snprintf(prefix, sizeof(prefix), "rails.%s_", driver_name(driver));
    if (driver == DRIVER_OFI)
        snprintf(text, text_bytes, "rail %s: %s (%sprovider = %s, %saddress = %s, %sport = %u): %s",
                 name, strerror(-error), prefix, or_none(conf->provider), prefix,
                 or_none(conf->address), prefix, conf->port,
                 error == -EADDRINUSE
                     ? "another program listens there: set another port, or 0 for any"
                     : "fi_info lists the available providers and addresses");
    else if (driver == DRIVER_TCP)
        snprintf(text, text_bytes, "rail %s: %s (%saddress = %s, %sport = %u)", name,
                 strerror(-error), prefix, or_none(conf->address), prefix, conf->port);
    else if (driver == DRIVER_HCA)
        snprintf(text, text_bytes, "rail %s: %s (device = %s, port = %u, address = %s): %s", name,
                 strerror(-error), conf->device ? conf->device : "any", conf->port,
                 conf->address ? conf->address : "any",
                 error == -EACCES ? "tcad may not open the files in /dev/infiniband"
                                  : "ibv_devinfo -v lists devices, ports and addresses (GIDs)");
    else if (driver == DRIVER_PEACH2)
        snprintf(text, text_bytes,
                 "rail %s: %s (%sboard = %s): it needs a board, or the board model tca-peach2",
                 name, strerror(-error), prefix, conf->board);
    else
        snprintf(text, text_bytes, "rail %s: %s (rails.enable)", name, strerror(-error));
}

static void say_refused(const struct tcad *tcad, const struct conf_rail *conf, struct rail *rail)
{
    const char *prefix = conf->name ? "" : "ofi_";
    char section[RAIL_NAME_MAX_BYTES + 8] = "rails";
    if (conf->name)
        snprintf(section, sizeof(section), "rail %s", conf->name);
    char key[RAIL_KEY_MAX_BYTES];
    compose_key(key, conf, rail->driver);
    snprintf(rail->off_text, sizeof(rail->off_text), "off: %.16s has no protection (%s)",
             rail->own.ofi.provider ? rail->own.ofi.provider : "its provider", key);
    snprintf(rail->remedy, sizeof(rail->remedy),
             "where nobody else can send a packet to the nodes, set %sunprotected = yes in [%s] "
             "of %.120s on all of them and restart tcad; see SECURITY in tcad(8)",
             prefix, section, tcad->conf->file ? tcad->conf->file : "tcad.conf");
}

/* Opens a rail in the next slot of the table, which stays free if the driver refuses to work
 * without protection (-EPERM). */
static int open_rail(struct tcad *tcad, const struct conf_rail *conf, enum driver_id driver,
                     unsigned nth, char *text, size_t text_bytes)
{
    struct rails *rails = tcad->rails;
    const unsigned index = driver == DRIVER_SHM ? RAIL_SHM : rails->last + 1;
    struct rail *rail = &rails->at[index];
    *rail = (struct rail){.driver = driver, .ops = driver_of_id(driver)};
    configure(tcad, conf, nth, rail);
    const struct driver_config config = rail_config(rail);
    int r = rail->ops ? engine_add_driver(tcad->engine, index, rail->ops, &config) : -ENODEV;
    if (r < 0 && !(r == -EPERM && driver == DRIVER_OFI && !conf->unprotected)) {
        say_failed(conf, driver, r, text, text_bytes);
        return r;
    }
    name_rail(rail, conf, r == 0 ? engine_driver_caps(tcad->engine, index) : NULL);
    if (r < 0) {
        say_refused(tcad, conf, rail);
        return -EPERM;
    }
    if (nth > 0)
        number_plane(rails, rail);
    rail->open = true;
    if (rail->ops->pairs && rail->ops->pairs->device)
        rail->device_bytes =
            (size_t)rail->ops->pairs->device(engine_driver(tcad->engine, index), rail->device);
    r = check_unique(rails, rail, text, text_bytes);
    rails->last = index > rails->last ? index : rails->last;
    return r;
}

/* Whether a section makes a rail of this port: "mlx5_0:1". */
static bool is_taken(const struct tcad_conf *conf, const char *port)
{
    const size_t name = strcspn(port, ":");
    for (size_t i = 0; i < conf->rail_count; i++) {
        const struct conf_rail *rail = &conf->rail_list[i];
        if (rail->driver == CONF_RAIL_HCA && rail->device && strlen(rail->device) == name &&
            memcmp(rail->device, port, name) == 0 &&
            (rail->port == 0 || rail->port == strtoul(port + name + 1, NULL, 10)))
            return true;
    }
    return false;
}

/* With hca in rails.enable, each active port is a rail, unless a section has it. */
static int open_further_ports(struct tcad *tcad, const struct conf_rail *conf, char *text,
                              size_t text_bytes)
{
    for (unsigned nth = 1; nth + tcad->conf->rail_count < RAILS_MAX; nth++) {
        const struct driver_config config = {.own = &(struct hca_config){.nth = nth}};
        struct driver_caps caps;
        int r = driver_of_id(DRIVER_HCA)->probe(&config, &caps);
        if (r == -ENODEV)
            break;
        if (r == 0 && is_taken(tcad->conf, caps.device))
            continue;
        r = open_rail(tcad, conf, DRIVER_HCA, nth, text, text_bytes);
        if (r < 0)
            return r;
    }
    return 0;
}

static int open_rails(struct tcad *tcad, const struct conf_rail *conf, enum driver_id driver,
                      char *text, size_t text_bytes)
{
    int r = open_rail(tcad, conf, driver, 0, text, text_bytes);
    return r == 0 && driver == DRIVER_HCA && !conf->name
               ? open_further_ports(tcad, conf, text, text_bytes)
               : r;
}

/* Drivers without a rail. */
static void add_absent(struct tcad *tcad, enum driver_id driver)
{
    struct rails *rails = tcad->rails;
    struct rail *rail = &rails->at[RAIL_SHM];
    for (unsigned i = 1; i <= rails->count; i++)
        if (rails->at[i].driver == driver && rails->at[i].name[0])
            return;
    if (driver != DRIVER_SHM)
        rail = &rails->at[++rails->count];
    *rail = (struct rail){.driver = driver, .ops = driver_of_id(driver)};
    snprintf(rail->name, sizeof(rail->name), "%s", driver_name(driver));
    snprintf(rail->off_text, sizeof(rail->off_text), "%s",
             rail->ops ? "is not enabled on this node (rails.enable)"
                       : "this tcad was built without its driver");
}

/* ---- where their devices are ---- */

static bool has_another(const struct rails *rails, unsigned index)
{
    for (unsigned i = 1; i <= rails->last; i++)
        if (i != index && rails->at[i].open && rails->at[i].driver == rails->at[index].driver)
            return true;
    return false;
}

/* Only rails that have an alternative of the same driver are compared. */
static void locate(struct tcad *tcad)
{
    struct rails *rails = tcad->rails;
    bool any = false;
    for (unsigned i = 1; i <= rails->last; i++)
        any |= rails->at[i].open && has_another(rails, i);
    if (any && nearness_new(&rails->nearness) == -ENOMEM)
        log_warning(NULL, "out of memory for the topology: rails are chosen without regard to it");
    for (unsigned i = 1; i <= rails->last; i++)
        if (rails->at[i].open)
            rails->at[i].place =
                nearness_device(rails->nearness, engine_driver_caps(tcad->engine, i)->device);
}

int rails_open(struct tcad *tcad, char *text, size_t text_bytes)
{
    struct rails *rails = tcad->rails;
    const struct tcad_conf *conf = tcad->conf;
    struct rail refused[RAILS_MAX];
    unsigned refused_count = 0;
    rails->last = RAIL_SHM;
    for (size_t i = 0; i < KNOWN; i++) {
        for (size_t j = 0; j < conf->rail_count; j++) {
            if (conf->rail_list[j].driver != known[i].conf)
                continue;
            int r = open_rails(tcad, &conf->rail_list[j], known[i].driver, text, text_bytes);
            if (r == -EPERM)
                refused[refused_count++] = rails->at[rails->last + 1];
            else if (r < 0)
                return r;
        }
    }
    memcpy(&rails->at[rails->last + 1], refused, refused_count * sizeof(refused[0]));
    rails->count = rails->last + refused_count;
    for (size_t i = 0; i < KNOWN; i++)
        add_absent(tcad, known[i].driver);
    locate(tcad);
    return 0;
}
