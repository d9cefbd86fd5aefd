#include "daemon/plans/binding.h"
#include "daemon/plans/pairs.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/peers/peer.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/status.h"

struct bindings {
    struct table ids;
    struct uses uses;
    uint64_t last_id;
};

int bindings_new(struct tcad *tcad, struct bindings **ret_bindings)
{
    struct bindings *bindings = calloc(1, sizeof *bindings);
    if (!bindings)
        return -ENOMEM;
    bindings->uses.loop = tcad->loop;
    *ret_bindings = bindings;
    return 0;
}

struct binding *binding_find(struct tcad *tcad, uint64_t id)
{
    return table_find(&tcad->bindings->ids, id);
}

/* ---- the objects that they depend on ---- */

static struct subject_key of_region(const struct region *region)
{
    return (struct subject_key){SUBJECT_REGION, region->tcad->node, region->id};
}

static struct subject_key of_notified(const struct session *session)
{
    return (struct subject_key){SUBJECT_SESSION, session->tcad->node, session->id};
}

static struct subject_key of_asker(uint32_t node, uint64_t session)
{
    return (struct subject_key){SUBJECT_ASKER, node, session};
}

static struct subject_key of_node(uint32_t node)
{
    return (struct subject_key){SUBJECT_NODE, node, 0};
}

/* Makes the binding end with the object. If out of memory, no landing is made for it. */
static void hang_on(struct binding *binding, unsigned which, struct subject_key key)
{
    int r = use_add(&binding->tcad->bindings->uses, &binding->uses[which], key, binding);
    if (r < 0) {
        binding->rails = 0;
        binding->error = r;
    }
}

void binding_link(struct binding *binding)
{
    struct bindings *bindings = binding->tcad->bindings;
    binding->id = ++bindings->last_id;
    table_add(&bindings->ids, &binding->entry, binding->id, binding);
    pair_bound(binding, 1);
    if (binding->owned)
        return; /* the plan ends it */
    if (binding->region)
        hang_on(binding, BINDING_OF_REGION, of_region(binding->region));
    if (binding->notify)
        hang_on(binding, BINDING_OF_NOTIFIED, of_notified(binding->notify));
    if (binding->asker)
        hang_on(binding, BINDING_OF_ASKER, of_asker(binding->node, binding->asker));
    hang_on(binding, BINDING_OF_NODE, of_node(binding->node));
}

struct bindings *bindings_free(struct bindings *bindings)
{
    if (!bindings)
        return NULL;
    assert(bindings->ids.count == 0);
    table_deinit(&bindings->ids);
    uses_deinit(&bindings->uses);
    free(bindings);
    return NULL;
}

/* ---- releasing ---- */

static void released(void *context)
{
    struct binding *binding = context;
    if (binding->notify)
        session_unnotified(binding->notify);
    region_unref(binding->region);
    charge_drop(&binding->charge);
    free(binding->layout);
    free(binding);
}

static void release_work(struct engine *engine, void *context)
{
    struct binding *binding = context;
    for (unsigned rail = 1; rail <= binding->tcad->rails->last; rail++) {
        struct driver *driver = engine_driver(engine, rail);
        struct driver_landing *landing = binding_landing(binding, rail)->landing;
        if (landing)
            driver->ops->landing_free(driver, landing);
    }
}

/* released() is called later. The engine has nothing of a binding where a process receives. */
static void release(struct binding *binding)
{
    if (binding->pair)
        loop_post_own(binding->tcad->loop, &binding->call.post, released, binding);
    else
        engine_call(binding->tcad->engine, &binding->call, release_work, released, binding);
}

void binding_end(struct binding *binding)
{
    struct bindings *bindings = binding->tcad->bindings;
    assert(!binding->ended);
    binding->ended = true;
    table_remove(&bindings->ids, &binding->entry);
    for (unsigned i = 0; i < BINDING_USES; i++)
        use_drop(&bindings->uses, &binding->uses[i]);
    pair_bound(binding, -1);
    pair_unland(binding);
    if (binding->region)
        binding->region->bindings--;
    if (!binding->making) /* otherwise binding_unmake() continues */
        release(binding);
}

void binding_unmake(struct binding *binding)
{
    struct tcad *tcad = binding->tcad;
    const uint64_t pair = binding->pair;
    if (binding->ended) /* while it was being made */
        release(binding);
    else
        binding_end(binding);
    pair_untold(tcad, pair);
}

size_t binding_bytes(const struct tcad *tcad)
{
    return sizeof(struct binding) + tcad->rails->last * sizeof(struct binding_landing);
}

int binding_charge(struct tcad *tcad, struct binding_args *args, char *text, size_t text_bytes)
{
    const uid_t uid = args->region ? args->region->uid : args->notify->uid;
    return charge_take(tcad, &args->charge, uid, USER_BINDINGS,
                       binding_bytes(tcad) + tcad->rails->last * DRIVER_LANDING_BYTES +
                           (args->layout ? layout_bytes(args->layout) : 0),
                       "what a put needs where it lands", text, text_bytes);
}

/* ---- ending ---- */

static bool end(const struct use_event *event, void *binding)
{
    binding_end(binding);
    return false;
}

static void end_all(struct tcad *tcad, struct subject_key key)
{
    uses_notify(&tcad->bindings->uses, &(struct use_event){.key = key, .notify = end});
}

/* Nodes to be informed, each once. */
struct informed {
    struct tcad *tcad;
    uint64_t region;
    int error;
    uint8_t nodes[PEER_NODES_MAX / 8];
};

static void inform_region_gone(const struct informed *informed, uint32_t node)
{
    Tca__PeerRegionGone gone = BODY_OF(peer_region_gone, .region = informed->region,
                                       .status = status_to_wire(informed->error));
    const Tca__Message message = MESSAGE_OF(PEER_REGION_GONE, peer_region_gone, &gone);
    peers_tell(informed->tcad->peers, node, &message);
}

static void inform_node(void *context, void *user)
{
    struct informed *informed = context;
    const struct binding *binding = user;
    const uint8_t bit = (uint8_t)(1 << binding->node % 8);
    if (binding->node >= PEER_NODES_MAX || (informed->nodes[binding->node / 8] & bit))
        return;
    informed->nodes[binding->node / 8] |= bit;
    inform_region_gone(informed, binding->node);
}

void bindings_region_gone(struct tcad *tcad, const struct region *region, int error)
{
    struct informed informed = {.tcad = tcad, .region = region->id, .error = error};
    if (!region->bindings)
        return;
    uses_each(&tcad->bindings->uses, of_region(region), inform_node, &informed);
    end_all(tcad, of_region(region));
}

void bindings_session_gone(struct tcad *tcad, const struct session *session)
{
    end_all(tcad, of_notified(session));
}

void bindings_node_gone(struct tcad *tcad, uint32_t node)
{
    end_all(tcad, of_node(node));
}

void bindings_asker_gone(struct tcad *tcad, uint32_t node, uint64_t asker)
{
    end_all(tcad, of_asker(node, asker));
}
