#include "daemon/rails/fabric.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/cluster.h"
#include "daemon/engine/engine.h"
#include "daemon/rails/rails.h"
#include "daemon/tcad.h"

enum { CABLES_MAX = 64, FAULTS_MAX = 64 };

bool fabric_shared(const struct tcad *tcad, uint32_t node)
{
    const struct cluster_node *own = cluster_by_id(tcad->cluster, tcad->node),
                              *other = cluster_by_id(tcad->cluster, node);
    return own && other && strcmp(own->subcluster, other->subcluster) == 0;
}

/* The node at a position, or NULL. The positions of a sub-cluster's nodes are in the order of their
 * ids. */
static const struct cluster_node *node_at(const struct tcad *tcad, unsigned place)
{
    for (size_t i = 0; i < tcad->cluster->count; i++) {
        const struct cluster_node *node = &tcad->cluster->nodes[i];
        if (fabric_shared(tcad, node->id) && place-- == 0)
            return node;
    }
    return NULL;
}

static unsigned place_of(const struct tcad *tcad, uint32_t id)
{
    unsigned place = 0;
    for (size_t i = 0; i < tcad->cluster->count && tcad->cluster->nodes[i].id < id; i++)
        place += fabric_shared(tcad, tcad->cluster->nodes[i].id);
    return place;
}

bool fabric_reaches(const struct tcad *tcad, unsigned rail, uint32_t node)
{
    const struct driver *driver = engine_driver(tcad->engine, rail);
    return !driver || !driver->ops->fabric ||
           driver->ops->fabric->reaches(driver, place_of(tcad, node));
}

unsigned fabric_hops(const struct tcad *tcad, unsigned rail, uint32_t node)
{
    const struct driver *driver = engine_driver(tcad->engine, rail);
    return driver && driver->ops->fabric ? driver->ops->fabric->hops(driver, place_of(tcad, node))
                                         : 0;
}

int fabric_neighbour(const struct tcad *tcad, unsigned rail)
{
    struct driver_cable cables[CABLES_MAX];
    const struct driver *driver = engine_driver(tcad->engine, rail);
    if (!driver || !driver->ops->fabric)
        return -1;
    const unsigned own = driver->ops->fabric->place(driver),
                   count = driver->ops->fabric->cables(driver, cables, CABLES_MAX);
    for (unsigned i = 0; i < count; i++) {
        const unsigned *ends = cables[i].places, far = ends[0] == own ? ends[1] : ends[0];
        const struct cluster_node *node = node_at(tcad, far);
        if (cables[i].in && far != own && (ends[0] == own || ends[1] == own) && node)
            return (int)node->id;
    }
    return -1;
}

int fabric_check(const struct tcad *tcad, char *text, size_t text_bytes)
{
    for (unsigned rail = 1; rail <= tcad->rails->last; rail++) {
        const struct driver *driver = engine_driver(tcad->engine, rail);
        if (!driver || !driver->ops->fabric ||
            driver->ops->fabric->place(driver) == place_of(tcad, tcad->node))
            continue;
        snprintf(
            text, text_bytes,
            "rail %s: the board reports position %u in its sub-cluster, but by the cluster file "
            "this node has position %u: give each board the position of its node (tca-peach2 "
            "--node), counted from 0",
            rail_name(tcad, rail), driver->ops->fabric->place(driver), place_of(tcad, tcad->node));
        return -EPROTO;
    }
    return 0;
}

static json_t *boards(const struct tcad *tcad, const struct driver *driver)
{
    const struct cluster_node *node;
    json_t *list = json_array();
    for (unsigned place = 0; (node = node_at(tcad, place)); place++)
        json_array_append_new(
            list,
            json_pack("{s:I, s:i, s:s}", "node", (json_int_t)node->id, "place", (int)place, "state",
                      driver->ops->fabric->reaches(driver, place) ? "up" : "cut off"));
    return list;
}

json_t *fabric_cut_off(const struct tcad *tcad, unsigned rail)
{
    const struct driver *driver = engine_driver(tcad->engine, rail);
    const struct cluster_node *node;
    json_t *list = json_array();
    for (unsigned place = 0; driver && driver->ops->fabric && (node = node_at(tcad, place));
         place++)
        if (!driver->ops->fabric->reaches(driver, place))
            json_array_append_new(list, json_string(node->name));
    return list;
}

static json_t *cables(const struct tcad *tcad, const struct driver *driver)
{
    struct driver_cable cables[CABLES_MAX];
    json_t *list = json_array();
    unsigned count = driver->ops->fabric->cables(driver, cables, CABLES_MAX);
    for (unsigned i = 0; i < count; i++) {
        const struct cluster_node *from = node_at(tcad, cables[i].places[0]),
                                  *to = node_at(tcad, cables[i].places[1]);
        if (from && to)
            json_array_append_new(list, json_pack("{s:I, s:s#, s:I, s:s#, s:s}", "from",
                                                  (json_int_t)from->id, "from_port",
                                                  &cables[i].ports[0], 1, "to", (json_int_t)to->id,
                                                  "to_port", &cables[i].ports[1], 1, "state",
                                                  cables[i].in ? "in" : "out"));
    }
    return list;
}

/* Faults of this node's board, as described by the driver. */
static json_t *faults(const struct driver *driver)
{
    struct driver_fault faults[FAULTS_MAX];
    json_t *list = json_array();
    unsigned count = driver->ops->fabric->faults(driver, faults, FAULTS_MAX);
    for (unsigned i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:s, s:I}", "text", faults[i].text, "count",
                                              (json_int_t)faults[i].count));
    return list;
}

json_t *fabric_document(const struct tcad *tcad)
{
    json_t *list = json_array();
    for (unsigned rail = 1; rail <= tcad->rails->last; rail++) {
        const struct driver *driver = engine_driver(tcad->engine, rail);
        if (driver && driver->ops->fabric)
            json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o, s:o}", "rail",
                                                  rail_name(tcad, rail), "shape",
                                                  engine_driver_caps(tcad->engine, rail)->detail,
                                                  "boards", boards(tcad, driver), "cables",
                                                  cables(tcad, driver), "faults", faults(driver)));
    }
    return list;
}
