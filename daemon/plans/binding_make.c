/* Making bindings: the worker registers the memory and compiles long layouts, the engine makes the
 * landings, in slices, and the loop gets the result. Bindings of one request are made together. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/worker.h"
#include "daemon/plans/binding.h"
#include "daemon/plans/pairs.h"
#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "drivers/copy/copy.h"

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

/* ---- on the worker ---- */

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
            .region = binding->region ? binding->region->on[rail] : NULL,
            .offset_bytes = binding->offset_bytes,
            .layout = binding->layout,
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
            engine_rouse(engine); /* the driver may have to make room */
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
    return !session_refuses(session, text, sizeof text) &&
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
        making->status = finish_one(binding, making->text, sizeof making->text);
        making->which = i;
    }
    for (size_t i = 0; i < making->count && making->status == 0;)
        i += pairs_tell_landings(making->bindings + i, making->count - i);
    made(making);
}

/* Bindings that are not being made any more may end at any time, so it does not wait after it has begun to finish them. */
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
    if (args->notify) {
        binding->notify = args->notify;
        args->notify->notified_by++;
        binding->target.segment = args->notify->notify;
        binding->target.line = notify_line_of(args->notify->notify, args->rank, args->slot);
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
    binding->rank = args->rank;
    binding->slot = args->slot;
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
    struct making *making = calloc(1, sizeof *making + count * sizeof making->bindings[0]);
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
