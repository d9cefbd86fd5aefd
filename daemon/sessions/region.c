#include "daemon/sessions/region.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "daemon/base/worker.h"
#include "daemon/engine/engine.h"
#include "daemon/sessions/region_views.h"
#include "daemon/sessions/session.h"
#include "daemon/sessions/space.h"
#include "daemon/tcad.h"
#include "proto/list.h"

enum { LONG_BYTES = 16 << 20 }; /* unmapping this much takes milliseconds */

struct regions {
    struct space *space;
    struct table ids;
};

int regions_new(struct tcad *tcad, struct regions **ret_regions)
{
    struct regions *regions = calloc(1, sizeof(*regions));
    if (!regions)
        return -ENOMEM;
    int r = space_new(tcad->conf->memory.base, tcad->conf->memory.reserved_bytes, &regions->space);
    if (r < 0) {
        free(regions);
        return r;
    }
    *ret_regions = regions;
    return 0;
}

struct regions *regions_free(struct regions *regions)
{
    if (!regions)
        return NULL;
    assert(regions->ids.count == 0);
    table_deinit(&regions->ids);
    space_free(regions->space);
    free(regions);
    return NULL;
}

uint64_t regions_count(const struct regions *regions)
{
    return regions->ids.count;
}

struct visit {
    void (*each)(void *context, const struct region *region);
    void *context;
};

static void visit(void *context, void *region)
{
    const struct visit *visit = context;
    visit->each(visit->context, region);
}

void regions_each(const struct regions *regions,
                  void (*each)(void *context, const struct region *region), void *context)
{
    struct visit to = {each, context};
    table_each(&regions->ids, visit, &to);
}

uint64_t region_round(const struct tcad *tcad, uint64_t bytes)
{
    uint64_t page = tcad->conf->memory.huge_pages == CONF_HUGE_PAGES_REQUIRE
                        ? SPACE_ALIGN_BYTES
                        : (uint64_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* ---- life ---- */

int region_new(struct session *session, uint64_t bytes, struct region **ret_region)
{
    struct region *region = calloc(1, sizeof(*region));
    if (!region)
        return -ENOMEM;
    if (getrandom(region->secret, sizeof(region->secret), 0) != sizeof(region->secret)) {
        free(region);
        return -EIO;
    }
    region->tcad = session->tcad;
    region->id = ++session->tcad->next_region;
    region->session_id = session->id;
    region->uid = session->uid;
    region->bytes = bytes;
    region->fd = -1;
    region->refs = 1;
    *ret_region = region;
    return 0;
}

int region_place(struct region *region)
{
    int r = space_take(region->tcad->regions->space, region->bytes, &region->address);
    if (r == 0)
        region->memory_bytes = region->bytes;
    return r;
}

void region_add(struct session *session, struct region *region)
{
    struct regions *regions = region->tcad->regions;
    table_add(&regions->ids, &region->entry, region->id, region);
    region->session = session;
    LIST_ADD(&session->regions, region, next_of_session, link_of_session);
    session->region_count++;
}

/* On the worker's thread if the region is long, because the kernel frees the pages one by one. */
static void give_back(void *context)
{
    struct region *region = context;
    for (unsigned rail = 0; rail < RAIL_SLOTS; rail++) {
        if (!region->on[rail])
            continue;
        struct driver *driver = engine_driver(region->tcad->engine, rail);
        driver->ops->region_remove(driver, region->on[rail]);
    }
    if (region->base)
        munmap(region->base, region->memory_bytes);
    if (region->fd >= 0)
        close(region->fd);
}

static void kept_by_less(struct region *region, uint32_t keepers)
{
    region->keepers -= keepers;
    if (region->keepers > 0)
        return;
    charge_drop(&region->charge);
    region_allocs_look(region->tcad);
    free(region);
}

static void rails_released(void *context)
{
    struct region *region = context;
    kept_by_less(region, atomic_exchange(&region->released, 0));
}

void region_rail_lets_go(void *context)
{
    struct region *region = context;
    if (atomic_fetch_add(&region->released, 1) == 0)
        loop_post_own(region->tcad->loop, &region->released_post, rails_released, region);
}

static void forget(void *context)
{
    struct region *region = context;
    if (!region->offset_bytes && region->address)
        space_give(region->tcad->regions->space, region->address);
    explicit_bzero(region->secret, sizeof(region->secret));
    if (region->charge.user)
        charge_memory_quarantined(&region->charge);
    kept_by_less(region, 1);
}

static void give_back_now(void *region)
{
    give_back(region);
    forget(region);
}

static void region_destroy(struct region *region)
{
    struct worker *worker = region->tcad->worker;
    region->keepers = 1;
    for (unsigned rail = 0; rail < RAIL_SLOTS; rail++)
        region->keepers += region->on[rail] != NULL;
    if (!worker || !region->base || region->memory_bytes < LONG_BYTES ||
        worker_submit(worker, region->uid, give_back, forget, give_back_now, region) < 0)
        give_back_now(region);
}

struct region *region_ref(struct region *region)
{
    region->refs++;
    return region;
}

void region_unref(struct region *region)
{
    if (region && --region->refs == 0)
        region_destroy(region);
}

void region_end(struct region *region)
{
    struct tcad *tcad = region->tcad;
    struct session *session = region->session;
    assert(session);

    table_remove(&tcad->regions->ids, &region->entry);
    LIST_REMOVE(region, next_of_session, link_of_session);
    region_uncharge(region);
    session->region_count--;
    region->session = NULL;
    tcad->session_hooks->region_gone(region, session_end_error(session));
    region_views_end(region);
    region_unref(region);
}

struct region *region_find(const struct tcad *tcad, uint64_t id)
{
    return table_find(&tcad->regions->ids, id);
}

struct region *region_of_session(const struct session *session, uint64_t id)
{
    struct region *region = region_find(session->tcad, id);
    return region && region->session == session ? region : NULL;
}

/* ---- handles ---- */

__attribute__((format(printf, 4, 5))) static int refuse(char *text, size_t text_bytes, int error,
                                                        const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, text_bytes, format, arguments);
    va_end(arguments);
    return error;
}

int region_named(struct tcad *tcad, const struct handle *handle, uid_t uid,
                 struct region **ret_region, char *text, size_t text_bytes)
{
    if (handle->node != tcad->node)
        return refuse(text, text_bytes, -EINVAL,
                      "the handle belongs to node %" PRIu32 ", this is node %" PRIu32, handle->node,
                      tcad->node);
    if (handle->incarnation != tcad->incarnation)
        return refuse(text, text_bytes, -ESTALE,
                      "the handle is from before a restart of the tcad of node %" PRIu32
                      ": get a new one",
                      handle->node);
    struct region *region = region_find(tcad, handle->region);
    if (!region && handle->region > tcad->next_region)
        return refuse(text, text_bytes, -EACCES,
                      "region %" PRIu64 " of node %" PRIu32 " never existed: the handle was forged",
                      handle->region, handle->node);
    if (!region)
        return refuse(text, text_bytes, -ESTALE,
                      "region %" PRIu64 " of node %" PRIu32 " was freed: get a new handle",
                      handle->region, handle->node);
    if (!handle_is_signed(handle, region->secret))
        return refuse(text, text_bytes, -EACCES,
                      "the handle's key does not match bytes %" PRIu64 " + %" PRIu64
                      " of region %" PRIu64 " of node %" PRIu32
                      ": it was forged; get handles of other parts from the region's owner",
                      handle->offset_bytes, handle->length_bytes, handle->region, handle->node);
    if (region->session->closing)
        return refuse(text, text_bytes, -EOWNERDEAD,
                      "the process that owned region %" PRIu64 " of node %" PRIu32 " has ended",
                      handle->region, handle->node);
    if (region->uid != uid)
        return refuse(text, text_bytes, -EACCES,
                      "region %" PRIu64 " of node %" PRIu32 " belongs to another user (%u, not %u)",
                      handle->region, handle->node, region->uid, uid);
    if (handle->offset_bytes > region->bytes ||
        handle->length_bytes > region->bytes - handle->offset_bytes)
        return refuse(text, text_bytes, -EACCES,
                      "the handle names bytes %" PRIu64 " + %" PRIu64 " of region %" PRIu64
                      " of node %" PRIu32 ", which has %" PRIu64 " bytes",
                      handle->offset_bytes, handle->length_bytes, handle->region, handle->node,
                      region->bytes);
    *ret_region = region;
    return 0;
}

int region_resolve(struct tcad *tcad, const uint8_t *bytes, size_t length, uid_t uid,
                   struct region **ret_region, struct handle *ret_handle, char *text,
                   size_t text_bytes)
{
    struct handle handle;
    if (length != HANDLE_BYTES)
        return refuse(text, text_bytes, -EINVAL, "a handle has 64 bytes, not %zu", length);
    if (handle_decode(bytes, &handle) < 0)
        return refuse(text, text_bytes, -EINVAL, "the handle %s", handle_fault(bytes));
    int r = region_named(tcad, &handle, uid, ret_region, text, text_bytes);
    if (r == 0)
        *ret_handle = handle;
    return r;
}
