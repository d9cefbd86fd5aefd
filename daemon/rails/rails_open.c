/* Opens the rails that the configuration asks for. */
#include "daemon/rails/rails.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/engine/engine.h"
#include "daemon/tcad.h"

/* In the order of preference where the cost model knows nothing. */
static const struct {
    enum driver_id driver;
    unsigned enabled;
} known[] = {{DRIVER_SHM, CONF_RAIL_SHM},
             {DRIVER_PEACH2, CONF_RAIL_PEACH2},
             {DRIVER_TCP, CONF_RAIL_TCP},
             {DRIVER_OFI, CONF_RAIL_OFI}};
enum { KNOWN = sizeof known / sizeof known[0] };
static_assert(1 + RAILS_MAX + KNOWN <= RAIL_SLOTS, "a slot for each open rail and each driver");

/* ---- the configuration of drivers ---- */

static struct driver_config configure(const struct tcad *tcad, enum driver_id driver)
{
    const struct tcad_conf *conf = tcad->conf;
    const bool tcp = driver == DRIVER_TCP;
    /* A single node only needs to listen to itself. */
    const char *address = tcp ? conf->rails.tcp_address : conf->rails.ofi_address;
    unsigned boards = 0;
    const struct cluster_node *own = cluster_by_id(tcad->cluster, tcad->node);
    for (size_t i = 0; own && i < tcad->cluster->count; i++)
        boards += strcmp(tcad->cluster->nodes[i].subcluster, own->subcluster) == 0;
    return (struct driver_config){
        .board = conf->rails.peach2_board,
        .board_nodes = boards,
        .board_rings = conf->rails.peach2_rings,
        .provider = conf->rails.ofi_provider,
        .address = address || tcad->cluster->count > 1 ? address : "127.0.0.1",
        .port = (uint16_t)(tcp ? conf->rails.tcp_port : conf->rails.ofi_port),
        .tcp_plain = conf->rails.tcp_security == CONF_SECURITY_PLAIN,
        .unprotected = conf->rails.ofi_unprotected,
        .guarded = true,
        .runtime_dir = conf->node.runtime_dir,
        .segment_bytes = conf->rails.segment_bytes,
    };
}

/* ---- opening ---- */

static void say_failed(const struct tcad_conf *conf, enum driver_id driver, int error, char *text,
                       size_t text_bytes)
{
    const char *provider = conf->rails.ofi_provider, *address = conf->rails.ofi_address;
    if (driver == DRIVER_OFI)
        snprintf(
            text, text_bytes,
            "rail ofi: %s (rails.ofi_provider = %s, rails.ofi_address = %s, rails.ofi_port = %u): "
            "%s",
            strerror(-error), provider ? provider : "none", address ? address : "none",
            conf->rails.ofi_port,
            error == -EADDRINUSE ? "another program listens there: set another port, or 0 for any"
                                 : "fi_info lists the available providers and addresses");
    else if (driver == DRIVER_PEACH2)
        snprintf(text, text_bytes,
                 "rail peach2: %s (rails.peach2_board = %s): it needs a board, or the board model "
                 "tca-peach2",
                 strerror(-error), conf->rails.peach2_board);
    else
        snprintf(text, text_bytes, "rail %s: %s (rails.enable)", driver_name(driver),
                 strerror(-error));
}

static void add(struct rails *rails, const struct rail *rail)
{
    rails->at[++rails->count] = *rail;
}

/* Adds the rail that is not open, because its driver refused to work without protection. */
static void add_refused(struct tcad *tcad, struct rail *rail)
{
    const struct tcad_conf *conf = tcad->conf;
    struct rails *rails = tcad->rails;
    snprintf(rails->off[0], sizeof rails->off[0],
             "off: provider %.20s has no protection (rails.ofi_unprotected)",
             rail->config.provider ? rail->config.provider : "found");
    snprintf(
        rails->off[1], sizeof rails->off[1],
        "where nobody else can send a packet to the nodes, set ofi_unprotected = yes in [rails] "
        "of %.120s on all of them and restart tcad; see SECURITY in tcad(8)",
        conf->file ? conf->file : "tcad.conf");
    rail->off = rails->off[0];
    rail->remedy = rails->off[1];
    add(rails, rail);
}

/* "ofi:tcp:lo": the driver and, unless it is empty, what tells the instance from others. */
static void compose(char ret_name[static RAIL_NAME_MAX_BYTES], enum driver_id driver,
                    const char *rest)
{
    const int n = snprintf(ret_name, RAIL_NAME_MAX_BYTES, "%s%s%s", driver_name(driver),
                           *rest ? ":" : "", rest);
    for (int i = 0; i < n && ret_name[i]; i++)
        if (!isalnum((unsigned char)ret_name[i]) && !strchr(":;._-", ret_name[i]))
            ret_name[i] = '_';
}

static int open_rail(struct tcad *tcad, enum driver_id driver, struct rail *ret_rail, char *text,
                     size_t text_bytes)
{
    struct rail rail = {.driver = driver,
                        .ops = driver_of_id(driver),
                        .config = configure(tcad, driver),
                        .remedy = ""};
    struct rails *rails = tcad->rails;
    const unsigned index = driver == DRIVER_SHM ? RAIL_SHM : rails->last + 1;
    const struct driver_caps none = {0};
    int r = rail.ops ? engine_add_driver(tcad->engine, index, rail.ops, &rail.config) : -ENODEV;
    const struct driver_caps *caps = r == 0 ? engine_driver_caps(tcad->engine, index) : &none;
    rail.open = r == 0;
    compose(rail.name, driver, caps->device);
    compose(rail.plane, driver, caps->medium);
    *ret_rail = rail;
    if (r < 0 && r != -EPERM)
        say_failed(tcad->conf, driver, r, text, text_bytes);
    return r;
}

int rails_open(struct tcad *tcad, char *text, size_t text_bytes)
{
    struct rails *rails = tcad->rails;
    struct rail refused[KNOWN];
    unsigned refused_count = 0;
    rails->count = rails->last = RAIL_SHM;
    rails->at[RAIL_SHM] = (struct rail){.driver = DRIVER_SHM};
    for (size_t i = 0; i < KNOWN; i++) {
        struct rail rail;
        if (!(tcad->conf->rails.enable & known[i].enabled))
            continue;
        int r = open_rail(tcad, known[i].driver, &rail, text, text_bytes);
        if (r == -EPERM && known[i].driver == DRIVER_OFI)
            refused[refused_count++] = rail;
        else if (r < 0)
            return r;
        else if (known[i].driver == DRIVER_SHM)
            rails->at[RAIL_SHM] = rail;
        else
            rails->at[rails->last = ++rails->count] = rail;
    }
    for (unsigned i = 0; i < refused_count; i++)
        add_refused(tcad, &refused[i]);
    for (size_t i = 0; i < KNOWN; i++) {
        const char *name = driver_name(known[i].driver);
        struct rail absent = {.driver = known[i].driver,
                              .ops = driver_of_id(known[i].driver),
                              .off = "is not enabled on this node (rails.enable)",
                              .remedy = ""};
        if (rails_named(tcad, name) & ~(1u << RAIL_SHM))
            continue;
        if (!absent.ops)
            absent.off = "this tcad has no driver for it";
        snprintf(absent.name, sizeof absent.name, "%s", name);
        if (known[i].driver != DRIVER_SHM)
            add(rails, &absent);
        else if (!rails->at[RAIL_SHM].open)
            rails->at[RAIL_SHM] = absent;
    }
    return 0;
}
