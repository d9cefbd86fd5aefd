/* tcactl topology: nodes and links as this daemon sees them, and its machine. hwloc takes long to
 * describe that, as it loads the libraries of accelerators: the worker does it, for the first
 * request. */
#include <errno.h>
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/worker.h"
#include "daemon/control/admin.h"
#include "daemon/engine/engine.h"
#include "daemon/peers/peer.h"
#include "daemon/rails/fabric.h"
#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"
#include "daemon/tcad.h"

/* ---- the machine ---- */

static const char *device_type(hwloc_obj_t object)
{
    switch (object->attr->osdev.type) {
    case HWLOC_OBJ_OSDEV_NETWORK:
        return "network";
    case HWLOC_OBJ_OSDEV_OPENFABRICS:
        return "rdma";
    case HWLOC_OBJ_OSDEV_GPU:
        return "gpu";
    case HWLOC_OBJ_OSDEV_COPROC:
        return "accelerator";
    default:
        return NULL;
    }
}

static json_t *describe_machine(void)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) < 0)
        return json_object();
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (hwloc_topology_load(topology) < 0) {
        hwloc_topology_destroy(topology);
        return json_object();
    }
    json_t *devices = json_array();
    for (hwloc_obj_t object = NULL; (object = hwloc_get_next_osdev(topology, object));) {
        const char *type = device_type(object);
        hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology, object);
        int numa = near && near->nodeset ? hwloc_bitmap_first(near->nodeset) : -1;
        if (type)
            json_array_append_new(devices, json_pack("{s:s, s:s, s:i}", "name", object->name,
                                                     "type", type, "numa_node", numa));
    }
    json_t *result =
        json_pack("{s:i, s:i, s:i, s:I, s:i, s:o}", "packages",
                  hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE), "cores",
                  hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE), "processors",
                  hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU), "memory_bytes",
                  (json_int_t)hwloc_get_root_obj(topology)->total_memory, "numa_nodes",
                  hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE), "devices", devices);
    hwloc_topology_destroy(topology);
    return result;
}

/* ---- the document ---- */

static json_t *machine; /* NULL: not described yet */

static void add_links(struct tcad *tcad, json_t *links, const struct cluster_node *node,
                      const char *state)
{
    for (unsigned rail = 1; rail <= tcad->rails->last; rail++) {
        if (!links_possible(tcad, rail, node->id))
            continue;
        bool live = links_exists(tcad->links, node->id, rail);
        const char *is = engine_driver_error(tcad->engine, rail) ? "down"
                         : live                                  ? "up"
                         : strcmp(state, "down") == 0            ? "down"
                                                                 : "idle";
        json_array_append_new(links,
                              json_pack("{s:I, s:I, s:s, s:s, s:s}", "from", (json_int_t)tcad->node,
                                        "to", (json_int_t)node->id, "rail", rail_name(tcad, rail),
                                        "driver", rail_driver(tcad, rail), "state", is));
    }
}

static json_t *document(struct tcad *tcad)
{
    json_t *nodes = json_array(), *links = json_array();
    for (size_t i = 0; i < tcad->cluster->count; i++) {
        const struct cluster_node *node = &tcad->cluster->nodes[i];
        struct peer_info info;
        if (peers_info(tcad->peers, node->id, &info) < 0)
            continue;
        json_array_append_new(nodes, json_pack("{s:I, s:s, s:s, s:s}", "id", (json_int_t)node->id,
                                               "name", node->name, "subcluster", node->subcluster,
                                               "state", info.state));
        add_links(tcad, links, node, info.state);
    }
    return json_pack("{s:s, s:I, s:o, s:o, s:o, s:o}", "cluster", tcad->cluster->name, "self",
                     (json_int_t)tcad->node, "nodes", nodes, "links", links, "fabrics",
                     fabric_document(tcad), "machine", json_incref(machine));
}

/* ---- requests ---- */

/* One that waits until the machine is described. */
struct waiting {
    struct waiting *next;
    struct tcad *tcad;
    struct admin_reply *reply;
};
static struct waiting *waiting; /* while the worker describes it */

static void work(void *context)
{
    json_t **found = context;
    *found = describe_machine();
}

static void done(void *context)
{
    json_t **found = context;
    machine = *found ? *found : json_object();
    free(found);
    while (waiting) {
        struct waiting *first = waiting;
        waiting = first->next;
        admin_reply_document(first->reply, document(first->tcad), false);
        free(first);
    }
}

static void fail_all(int error, const char *text)
{
    while (waiting) {
        struct waiting *first = waiting;
        waiting = first->next;
        admin_reply_fail(first->reply, error, "%s", text);
        free(first);
    }
}

static void dropped(void *context)
{
    free(context);
    fail_all(-ECANCELED, "tcad is ending");
}

static void describe_on(struct worker *worker)
{
    json_t **found = calloc(1, sizeof(json_t *));
    if (found && worker_submit(worker, WORKER_MACHINE, work, done, dropped, found) == 0)
        return;
    free(found);
    fail_all(-ENOMEM, "out of memory for the reply");
}

void admin_topology(struct tcad *tcad, struct admin_reply *reply)
{
    if (machine) {
        admin_reply_document(reply, document(tcad), false);
        return;
    }
    struct waiting *last = malloc(sizeof(*last));
    if (!last) {
        admin_reply_fail(reply, -ENOMEM, "out of memory for the reply");
        return;
    }
    const bool first = !waiting;
    *last = (struct waiting){.next = waiting, .tcad = tcad, .reply = reply};
    waiting = last;
    if (first)
        describe_on(tcad->worker);
}
