/*
 * Importing a dmabuf: memory of a device, or of anybody else in the kernel, whose descriptor a
 * process sends. The worker maps it, because an exporter may take its time, and registers it with
 * all rails that lead to other nodes: a device may refuse memory that it cannot reach, and routes
 * are chosen by that. Nobody knows of the region before.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/remedy.h"
#include "daemon/base/worker.h"
#include "daemon/engine/engine.h"
#include "daemon/sessions/dmabuf.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

struct import {
    uint32_t tag;
    int error; /* of mapping it */
    int errors[RAIL_SLOTS];
    struct region *region;
};

/* ---- on the worker ---- */

static void register_all(struct import *import)
{
    struct region *region = import->region;
    const struct engine *engine = region->tcad->engine;
    for (unsigned rail = 1; rail < RAIL_SLOTS; rail++) {
        if (!engine_driver(engine, rail) || engine_driver_error(engine, rail) ||
            !engine_driver_caps(engine, rail)->other_nodes)
            continue;
        const int r = import->errors[rail] = region_register(region, rail);
        /* -EFAULT: the mapping has no pages that could be pinned */
        if (r == -EOPNOTSUPP || r == -EFAULT)
            region->refused |= 1u << rail;
    }
}

static void import_work(void *context)
{
    struct import *import = context;
    import->error = region_memory_map(import->region);
    if (import->error == 0)
        register_all(import);
}

/* ---- on the loop ---- */

static void log_refusals(const struct import *import)
{
    const struct region *region = import->region;
    const struct tcad *tcad = region->tcad;
    static struct log_limit refused;
    for (unsigned rail = 1; rail < RAIL_SLOTS; rail++)
        if (region->refused & 1u << rail)
            log_limited(&refused, LOG_LEVEL_INFO, NULL,
                        "rail %s does not put from or into region %" PRIu64 " of session %" PRIu64
                        ": its device can register neither the dmabuf nor its mapping (%s)",
                        tcad->session_hooks->rail_name(tcad, rail), region->id, region->session_id,
                        strerrordesc_np(-import->errors[rail]));
}

static void fail_mapping(struct session *session, uint32_t tag, int error)
{
    if (error == -EACCES)
        session_fail(session, tag, -EINVAL,
                     "the dmabuf's descriptor was opened for reading only: export it for reading "
                     "and writing (DRM_RDWR)");
    else if (error == -ENOMEM || remedy_of(error))
        session_fail(session, tag, error, "the dmabuf cannot be mapped: %s", remedy_text(error));
    else
        session_fail(
            session, tag, -EOPNOTSUPP,
            "the dmabuf's exporter does not let processes map it (%s): copy the data to "
            "memory of tca_region_alloc(), or export memory that the processors can address",
            strerrordesc_np(-error) ? strerrordesc_np(-error) : "not supported");
}

static void import_free(struct import *import)
{
    region_unref(import->region);
    free(import);
}

static void import_dropped(void *context)
{
    struct import *import = context;
    import->region->session = NULL;
    charge_memory_freed(&import->region->charge);
    import_free(import);
}

static void import_done(void *context)
{
    struct import *import = context;
    struct region *region = import->region;
    struct session *session = session_find(region->tcad, region->session_id);
    if (!session) {
        import_dropped(import);
        return;
    }
    session->imports = false;
    if (import->error < 0) {
        fail_mapping(session, import->tag, import->error);
        region_uncharge(region);
        import_free(import);
        return;
    }
    for (unsigned rail = 1; rail < RAIL_SLOTS; rail++)
        region->registered |= region->on[rail] ? 1u << rail : 0;
    log_refusals(import);
    region_add(session, region);
    region_grant(session, import->tag, region);
    free(import);
}

/* Takes the address and the descriptor. */
static int import_new(struct session *session, uint32_t tag, uint64_t bytes, int *fd,
                      struct import **ret_import)
{
    struct import *import = calloc(1, sizeof(*import));
    if (!import)
        return -ENOMEM;
    import->tag = tag;
    int r = region_new(session, bytes, &import->region);
    if (r == 0)
        r = region_place(import->region);
    if (r < 0) {
        import_free(import);
        return r;
    }
    import->region->dmabuf = true;
    import->region->fd = *fd;
    *fd = -1;
    *ret_import = import;
    return 0;
}

static int check(struct session *session, uint32_t tag, uint64_t bytes, int fd)
{
    uint64_t size_bytes;
    int r = fd < 0 ? -EINVAL : dmabuf_bytes(fd, &size_bytes);
    if (r == -EINVAL)
        session_fail(session, tag, r,
                     "the descriptor is not a dmabuf: pass one that the memory's driver has "
                     "exported, or attach other memory (tca_region_attach())");
    else if (r < 0)
        session_fail(session, tag, r, "the descriptor could not be examined: %s", remedy_text(r));
    else if (bytes == 0 || bytes > size_bytes || region_round(session->tcad, bytes) > size_bytes)
        session_fail(session, tag, r = -EINVAL,
                     "bytes 0 to %" PRIu64 " of a dmabuf, in whole pages: it has %" PRIu64
                     " bytes: import a part within these",
                     bytes, size_bytes);
    else if (session->imports)
        session_fail(session, tag, r = -EBUSY,
                     "session %" PRIu64 " imports a dmabuf already: wait for the reply",
                     session->id);
    return r;
}

void region_import(struct session *session, uint32_t tag, uint64_t bytes, int *fd)
{
    struct import *import;
    struct charge charge = {0};
    if (check(session, tag, bytes, *fd) < 0)
        return;
    bytes = region_round(session->tcad, bytes);
    if (!region_admit(session, tag, bytes, &charge))
        return;
    int r = import_new(session, tag, bytes, fd, &import);
    if (r < 0) {
        charge_drop(&charge);
        session_fail(session, tag, r, "dmabuf of %" PRIu64 " bytes: %s", bytes,
                     r == -ENOSPC ? "the reserved address range (memory.reserved) has no gap of "
                                    "this size"
                                  : remedy_text(r));
        return;
    }
    import->region->charge = charge;
    import->region->session = session;
    region_charge(import->region, bytes);
    session->imports = true;
    if (worker_submit(session->tcad->worker, session->uid, import_work, import_done, import_dropped,
                      import) == 0)
        return;
    session->imports = false;
    session_fail(session, tag, -ENOMEM, "out of memory for importing a dmabuf");
    region_uncharge(import->region);
    import_free(import);
}
