#include "daemon/bindings/binding.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/sort.h"
#include "daemon/base/worker.h"
#include "daemon/bindings/compile.h"
#include "daemon/bindings/pairs.h"
#include "daemon/peers/peer.h"
#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "drivers/copy/copy.h"
#include "proto/status.h"

struct bindings {
    struct table ids;
    struct uses uses;
    uint64_t last_id;
};

int bindings_new(struct tcad *tcad, struct bindings **ret_bindings)
{
    struct bindings *bindings = calloc(1, sizeof(*bindings));
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
static void end_with(struct binding *binding, unsigned which, struct subject_key key)
{
    int r = use_add(&binding->tcad->bindings->uses, &binding->uses[which], key, binding);
    if (r < 0) {
        binding->rails = 0;
        binding->error = r;
    }
}

/* Makes the binding known by its id and to the objects that it depends on. */
static void binding_link(struct binding *binding)
{
    struct bindings *bindings = binding->tcad->bindings;
    binding->id = ++bindings->last_id;
    table_add(&bindings->ids, &binding->entry, binding->id, binding);
    pair_bound(binding, 1);
    if (binding->owned)
        return; /* the plan ends it */
    if (binding->region)
        end_with(binding, BINDING_OF_REGION, of_region(binding->region));
    if (binding->notify)
        end_with(binding, BINDING_OF_NOTIFIED, of_notified(binding->notify));
    if (binding->asker)
        end_with(binding, BINDING_OF_ASKER, of_asker(binding->node, binding->asker));
    end_with(binding, BINDING_OF_NODE, of_node(binding->node));
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

/* It is not known to the requester yet. */
static void binding_unmake(struct binding *binding)
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

struct nodes {
    size_t count;
    uint32_t *list; /* NULL: they are only counted */
};

static void add_node(void *context, void *user)
{
    struct nodes *nodes = context;
    const struct binding *binding = user;
    if (nodes->list)
        nodes->list[nodes->count] = binding->node;
    nodes->count++;
}

static void inform_region_gone(struct tcad *tcad, const struct region *region, int error)
{
    struct nodes nodes = {0};
    Tca__PeerRegionGone gone =
        BODY_OF(peer_region_gone, .region = region->id, .status = status_to_wire(error));
    const Tca__Message message = MESSAGE_OF(PEER_REGION_GONE, peer_region_gone, &gone);

    uses_each(&tcad->bindings->uses, of_region(region), add_node, &nodes);
    nodes.list = calloc(nodes.count, sizeof(*nodes.list));
    if (!nodes.list) {
        log_warning(NULL, "out of memory: nodes do not learn that region %" PRIu64 " has gone",
                    region->id);
        return;
    }
    nodes.count = 0;
    uses_each(&tcad->bindings->uses, of_region(region), add_node, &nodes);
    nodes.count = sort_unique(nodes.list, nodes.count);
    for (size_t i = 0; i < nodes.count; i++)
        peers_tell(tcad->peers, nodes.list[i], &message);
    free(nodes.list);
}

void bindings_region_gone(struct tcad *tcad, const struct region *region, int error)
{
    if (!region->bindings)
        return;
    inform_region_gone(tcad, region, error);
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

/* ---- making ---- */

/* Bindings of one request, which are made together: the worker registers the memory and compiles
 * long layouts, the engine makes the landings, in slices, and the loop gets the result. */
struct making {
    struct engine_call call;
    struct tcad *tcad;
    bindings_done *done;
    void *context;
    struct from {
        size_t bytes; /* 0: none */
        uint8_t address[ADDRESS_MAX_BYTES];
    } from[RAIL_SLOTS]; /* by rail: of the node that asks */
    size_t count, landed;
    size_t awaited; /* so many receivers have read their messages */
    int status;     /* the first error, of binding `which` */
    size_t which;
    char text[256];
    struct client_wait wait; /* for a process that is to read of its landings */
    struct binding *bindings[];
};

/* ---- on the worker: registers the memory with the drivers of its rails, and compiles a long
 * layout ---- */

/* Whether the rail needs the part of the region that the handle names. */
static bool needs_part(const struct binding *binding, unsigned rail)
{
    return binding->rails & 1u << rail && binding->part_bytes > 0 &&
           binding->part_bytes < binding->region->bytes &&
           engine_driver(binding->tcad->engine, rail)->ops->region_part;
}

static int register_with(struct binding *binding, unsigned rail)
{
    int r = region_register(binding->region, rail);
    if (r < 0 || !needs_part(binding, rail))
        return r;
    struct driver *driver = engine_driver(binding->tcad->engine, rail);
    return driver->ops->region_part(driver, binding->region->on[rail], binding->part_offset_bytes,
                                    binding->part_bytes);
}

static void register_all(struct binding *binding)
{
    for (unsigned rail = 1; binding->region && rail <= binding->tcad->rails->last; rail++) {
        if (!(binding->rails & (1u << rail)))
            continue;
        int r = register_with(binding, rail);
        if (r < 0) {
            binding->rails &= ~(1u << rail);
            binding->error = r;
        }
    }
}

/* landing_new() compiles what is missing. */
static void compile_one(struct binding *binding)
{
    const struct driver_landing_args args = {.layout = binding->layout};
    for (unsigned rail = 1; rail <= binding->tcad->rails->last; rail++) {
        const struct driver *driver = engine_driver(binding->tcad->engine, rail);
        if ((binding->rails & (1u << rail)) && driver->ops->landing_compile)
            driver->ops->landing_compile(&args, &binding_landing(binding, rail)->program);
    }
}

static void binding_register(struct binding *binding)
{
    register_all(binding);
    if (layout_is_long(binding->layout))
        compile_one(binding);
}

/* Whether there is something for the worker to do before landings are made. */
static bool binding_needs_worker(const struct binding *binding)
{
    if (!binding->region)
        return false;
    if ((binding->rails & ~binding->region->registered) || layout_is_long(binding->layout))
        return true;
    for (unsigned rail = 1; rail <= binding->tcad->rails->last; rail++)
        if (needs_part(binding, rail))
            return true;
    return false;
}

static void register_work(void *context)
{
    const struct making *making = context;
    for (size_t i = 0; i < making->count; i++)
        binding_register(making->bindings[i]);
}

/* ---- on the engine ---- */

static void land_one(struct engine *engine, const struct making *making, struct binding *binding)
{
    for (unsigned rail = 1; rail <= binding->tcad->rails->last; rail++) {
        if (!(binding->rails & (1u << rail)))
            continue;
        struct driver *driver = engine_driver(engine, rail);
        const struct from *from = &making->from[rail];
        struct binding_landing *at = binding_landing(binding, rail);
        size_t bytes = 0;
        struct driver_landing_args args = {
            .region = binding->region && !binding->signal ? binding->region->on[rail] : NULL,
            .offset_bytes = binding->offset_bytes,
            .layout = binding->signal ? NULL : binding->layout,
            .program = &at->program,
            .notify = binding->target.line != NULL,
            .token = (uint64_t)(uintptr_t)&binding->target,
            .part_offset_bytes = binding->part_offset_bytes,
            .part_bytes = binding->part_bytes,
            .from = from->bytes > 0 ? from->address : NULL,
            .from_bytes = from->bytes,
        };
        int r = driver->ops->landing_new(driver, &args, &at->landing, at->blob.blob, &bytes);
        at->blob.bytes = (uint8_t)bytes;
        if (r < 0) {
            binding->rails &= ~(1u << rail);
            binding->error = r;
            engine_wake(engine); /* the driver may have to make room */
        } else {
            binding->landing_bytes += driver->ops->landing_bytes(at->landing);
        }
    }
}

static bool land_some(struct engine *engine, void *context)
{
    struct making *making = context;
    while (making->landed < making->count) {
        land_one(engine, making, making->bindings[making->landed++]);
        if (engine_slice_over(engine))
            break;
    }
    return making->landed < making->count;
}

/* ---- on the loop ---- */

static int land_at_process(struct binding *binding, char *text, size_t text_bytes)
{
    if (session_refuses(pair_receiver(binding), text, text_bytes))
        return -EBUSY;
    int r = pair_land(binding);
    if (r < 0)
        snprintf(text, text_bytes, "node %" PRIu32 " could not prepare a landing: %s",
                 binding->tcad->node, strerror(-r));
    return r;
}

static int finish_one(struct binding *binding, char *text, size_t text_bytes)
{
    if (binding->ended) {
        snprintf(text, text_bytes, "the memory or process at node %" PRIu32 " no longer exists",
                 binding->tcad->node);
        return binding->region && !binding->region->session ? -ESTALE : -EOWNERDEAD;
    }
    if (binding->pair)
        return land_at_process(binding, text, text_bytes);
    if (!binding->rails) {
        const int error = binding->error ? binding->error : -ENETDOWN;
        snprintf(text, text_bytes, "node %" PRIu32 " could not prepare a landing: %s",
                 binding->tcad->node, region_register_text(error));
        return error;
    }
    return charge_take(binding->tcad, &binding->charge, 0, USER_BINDINGS, binding->landing_bytes,
                       "what a put needs where it lands", text, text_bytes);
}

static void drop_programs(struct binding *binding)
{
    for (unsigned rail = 1; rail <= binding->tcad->rails->last; rail++) {
        struct binding_landing *at = binding_landing(binding, rail);
        at->program = copy_program_free(at->program);
    }
}

/* Whether to wait until the process, which is to be sent more, has read its messages. */
static bool must_wait(struct making *making, struct session *session, void (*again)(void *context))
{
    char text[256];
    making->wait = (struct client_wait){.drained = again, .context = making};
    return !session_refuses(session, text, sizeof(text)) &&
           session_must_wait(session, &making->wait);
}

static void made(struct making *making)
{
    struct bindings_made made = {.bindings = making->bindings,
                                 .status = making->status,
                                 .which = making->which,
                                 .text = making->text};
    for (size_t i = 0; made.status < 0 && i < making->count; i++)
        binding_unmake(making->bindings[i]);
    if (made.status < 0)
        made.bindings = NULL;
    making->done(making->context, &made);
    free(making);
}

static void finish(struct making *making)
{
    for (size_t i = 0; i < making->count; i++) {
        struct binding *binding = making->bindings[i];
        binding->making = false;
        drop_programs(binding);
        if (making->status < 0)
            continue;
        making->status = finish_one(binding, making->text, sizeof(making->text));
        making->which = i;
    }
    for (size_t i = 0; i < making->count && making->status == 0;)
        i += pairs_tell_landings(making->bindings + i, making->count - i);
    made(making);
}

/* Bindings that are not being made any more may end at any time, so it does not wait after it has
 * begun to finish them. */
static void land_done(void *context)
{
    struct making *making = context;
    for (; making->awaited < making->count; making->awaited++) {
        const struct binding *binding = making->bindings[making->awaited];
        struct session *receiver = binding->pair && !binding->ended ? pair_receiver(binding) : NULL;
        if (receiver && must_wait(making, receiver, land_done))
            return;
    }
    finish(making);
}

/* Otherwise processes receive, or nothing can. */
static bool lands_here(const struct making *making)
{
    for (size_t i = 0; i < making->count; i++)
        if (making->bindings[i]->rails)
            return true;
    return false;
}

static void land(struct making *making)
{
    if (lands_here(making))
        engine_job_quiet(making->tcad->engine, &making->call, land_some, land_done, making);
    else
        loop_post_own(making->tcad->loop, &making->call.post, land_done, making);
}

static void register_done(void *context)
{
    struct making *making = context;
    for (size_t i = 0; i < making->count; i++)
        if (making->bindings[i]->region)
            making->bindings[i]->region->registered |= making->bindings[i]->rails;
    land(making);
}

static void not_registered(void *context)
{
    struct making *making = context;
    for (size_t i = 0; i < making->count; i++) {
        making->bindings[i]->rails = 0;
        making->bindings[i]->error = -ENOMEM;
    }
    loop_post_own(making->tcad->loop, &making->call.post, land_done, making);
}

static bool needs_worker(const struct making *making)
{
    for (size_t i = 0; i < making->count; i++)
        if (binding_needs_worker(making->bindings[i]))
            return true;
    return false;
}

/* ---- starting ---- */

static void aim(struct binding *binding, const struct binding_args *args)
{
    if (args->region) {
        binding->region = region_ref(args->region);
        binding->region->bindings++;
    }
    struct session *notify = args->signal ? args->region->session : args->notify;
    if (notify) {
        binding->notify = notify;
        notify->notified_by++;
        binding->target.segment = notify->notify;
        binding->target.line = notify_line_at(notify->notify, args->line);
    }
    if (args->signal) {
        binding->target.counter = region_counter_at(args->region, args->offset_bytes);
        binding->target.signal = args->signal;
    }
}

static void begin(struct tcad *tcad, struct binding *binding, const struct binding_args *args)
{
    binding->tcad = tcad;
    binding->node = args->node;
    binding->asker = args->asker;
    binding->owned = args->owned;
    binding->layout = args->layout;
    binding->offset_bytes = args->offset_bytes;
    binding->part_offset_bytes = args->part_offset_bytes;
    binding->part_bytes = args->part_bytes;
    binding->pair = args->pair;
    binding->line = args->line;
    binding->signal = args->signal;
    binding->charge = args->charge;
    binding->making = true;
    const unsigned refused = args->region ? args->region->refused : 0;
    binding->error = refused ? -EOPNOTSUPP : 0; /* if no other rail is left */
    for (unsigned rail = 1; rail <= tcad->rails->last; rail++)
        if ((args->rails & ~refused & (1u << rail)) && engine_driver(tcad->engine, rail) &&
            !engine_driver_error(tcad->engine, rail))
            binding->rails |= 1u << rail;
    aim(binding, args);
    binding_link(binding);
}

static struct making *making_free(struct making *making)
{
    for (size_t i = 0; making && i < making->count; i++)
        free(making->bindings[i]);
    free(making);
    return NULL;
}

static struct making *making_new(const struct tcad *tcad, size_t count)
{
    struct making *making = calloc(1, sizeof(*making) + count * sizeof(making->bindings[0]));
    if (!making)
        return NULL;
    for (; making->count < count; making->count++)
        if (!(making->bindings[making->count] = calloc(1, binding_bytes(tcad))))
            return making_free(making);
    return making;
}

void binding_args_drop(struct tcad *tcad, struct binding_args *args, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        pair_untold(tcad, args[i].pair);
        free(args[i].layout);
        charge_drop(&args[i].charge);
    }
}

/* Of the user whose memory it is. */
static uint64_t lane_of(const struct making *making)
{
    for (size_t i = 0; i < making->count; i++)
        if (making->bindings[i]->region)
            return making->bindings[i]->region->uid;
    return 0;
}

static void note_from(struct making *making, uint32_t node)
{
    for (unsigned rail = 1; rail <= making->tcad->rails->last; rail++) {
        const struct link *link = links_find(making->tcad->links, node, rail);
        struct from *from = &making->from[rail];
        from->bytes = link ? link->address_bytes : 0;
        if (link)
            memcpy(from->address, link->address, link->address_bytes);
    }
}

int bindings_make(struct tcad *tcad, struct binding_args *args, size_t count, bindings_done *done,
                  void *context)
{
    struct making *making = making_new(tcad, count);
    if (!making) {
        binding_args_drop(tcad, args, count);
        return -ENOMEM;
    }
    making->tcad = tcad;
    making->done = done;
    making->context = context;
    for (size_t i = 0; i < count; i++)
        begin(tcad, making->bindings[i], &args[i]);
    note_from(making, args->node);
    if (!needs_worker(making))
        land(making);
    else if (worker_submit(tcad->worker, lane_of(making), register_work, register_done,
                           not_registered, making) < 0)
        not_registered(making);
    return 0;
}
