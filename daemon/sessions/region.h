/*
 * Regions: memory of sessions that others can put into. The daemon creates the memfd, seals its
 * size, maps it (for the engine and for registration with drivers) and sends the descriptor to the
 * processes that may use it. The process that requested the region allocates its pages as soon as
 * it has the descriptor, so that they count against its memory limit and not the daemon's. A dmabuf
 * from a process takes the place of the memfd (region_import.c).
 *
 * A region exists as long as its session, plans and bindings refer to it. Freeing it makes its
 * handles stale at once and ends everything that puts into it; its memory is released with the last
 * reference (region_unref()).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/loop.h"
#include "daemon/base/table.h"
#include "daemon/sessions/user.h"
#include "drivers/driver.h"
#include "proto/handle.h"
#include "proto/tca.pb-c.h"

struct region_view;
struct session;
struct tcad;

#define REGION_MEMFD "tca-region" /* the name of their memfds */

struct region {
    struct tcad *tcad;
    struct table_entry entry; /* in the table of regions that are not freed */
    struct region *next_of_session, **link_of_session;
    struct session *session; /* NULL once freed */
    uint64_t session_id;
    uint64_t id;
    uid_t uid;
    uint64_t secret[2]; /* proto/handle.h */
    uint64_t bytes;
    uint64_t memory_bytes; /* mapped: counts against the quota */
    bool dmabuf;           /* imported: fd is of a dmabuf */
    unsigned refused;      /* of a dmabuf: rails whose devices cannot register it; bit per rail */
    uint64_t offset_bytes; /* in fd; not 0: memory that its process had before, and shares in place
                              (region_in_place.c): its address there */
    uint64_t address;      /* in the clients */
    void *base;            /* in the daemon */
    int fd;
    uint32_t pages;     /* enum region_pages */
    uint32_t refs;      /* session, plans, bindings */
    uint32_t puts_from; /* puts of its owner's plans that read it: the owner cannot free it */
    uint32_t bindings;  /* plans that put into it */
    struct region_view *views;
    /* Registrations, made on the worker when a rail first needs them; kept until it is
     * destroyed. */
    struct driver_region *on[RAIL_SLOTS];
    unsigned registered;       /* the loop knows of: bit per rail */
    _Atomic uint32_t released; /* rails among them that have released it, since the loop last
                                processed one */
    struct loop_post released_post;
    uint32_t keepers;     /* at its end: rails that keep some of it, and the one that returns it */
    struct charge charge; /* of what the region refers to, not of its memory */
};

struct regions;
int regions_new(struct tcad *tcad, struct regions **ret_regions);
struct regions *regions_free(struct regions *regions);
uint64_t regions_count(const struct regions *regions);
/* Every region that is not freed. */
void regions_each(const struct regions *regions,
                  void (*each)(void *context, const struct region *region), void *context);

/* Rounds up to the page size of daemon-allocated memory. */
uint64_t region_round(const struct tcad *tcad, uint64_t bytes);
/* ---- region_quota.c ---- */
/* Whether a session may allocate so many more bytes and one more descriptor. If not, `text`
 * describes the limit and the remedy. */
bool region_may_have(const struct session *session, uint64_t bytes, char *text, size_t text_bytes);
/* The same, assuming that freed memory is no longer in use. */
bool region_may_have_soon(const struct session *session, uint64_t bytes);
/* Charges the memory and a descriptor to the region's session, until it is freed, and to its user,
 * until it is no longer in use. */
void region_charge(struct region *region, uint64_t bytes);
void region_uncharge(struct region *region); /* it is freed */

/* Requests of a session. *fd: the descriptor that came with it, or -1; taken if it is needed. */
void region_alloc(struct session *session, uint32_t tag, const Tca__RegionAlloc *alloc, int *fd);
/* region_wait.c: defers an allocation, at most one per session, until freed memory is no longer in
 * use. Returns whether it was deferred; region_alloc_again() is then called when there is enough
 * memory, or after a time-out. */
bool region_alloc_wait(struct session *session, uint32_t tag, uint64_t bytes);
void region_alloc_again(struct session *session, uint32_t tag, uint64_t bytes);
void region_allocs_look(struct tcad *tcad); /* memory was released: check deferred allocations */
void region_allocs_deinit(struct tcad *tcad);
void region_free_request(struct session *session, uint32_t tag, const Tca__RegionFree *request);
void region_reach(struct session *session, uint32_t tag, const Tca__RegionReach *reach);

/* Any thread: creates and maps the memfd of `memory_bytes` bytes. 0 or a negative errno. */
int region_memory_new(struct region *region);
/* Any thread: maps `memory_bytes` bytes of its descriptor. 0 or a negative errno. */
int region_memory_map(struct region *region);

/* Frees the region for its session: makes it stale and drops the session's reference. */
void region_end(struct region *region);

struct region *region_ref(struct region *region);
void region_unref(struct region *region);

/* The region with this id that is not freed, or NULL; and if it is the session's. */
struct region *region_find(const struct tcad *tcad, uint64_t id);
struct region *region_of_session(const struct session *session, uint64_t id);

/* Finds the region of a handle from a client or a peer, for a user, after checking the handle
 * completely, including that it belongs to this node. 0, -EINVAL, -ESTALE, -EOWNERDEAD, -EACCES;
 * text describes the error. */
int region_resolve(struct tcad *tcad, const uint8_t *bytes, size_t length, uid_t uid,
                   struct region **ret_region, struct handle *ret_handle, char *text,
                   size_t text_bytes);
/* The same for a handle that was decoded (handle_decode()). */
int region_named(struct tcad *tcad, const struct handle *handle, uid_t uid,
                 struct region **ret_region, char *text, size_t text_bytes);

/* Finds the counter (client/include/tca-signal.h) at this offset, and its line, for which it may
 * charge the owner. 0, -EINVAL (it is not aligned), -EOPNOTSUPP (a dmabuf), -EOWNERDEAD, -EDQUOT,
 * -ENOMEM, -ENOSPC; text describes the error. */
int region_counter(struct region *region, uint64_t offset_bytes, uint32_t *ret_line, char *text,
                   size_t text_bytes);
static inline _Atomic uint64_t *region_counter_at(const struct region *region,
                                                  uint64_t offset_bytes)
{
    return (_Atomic uint64_t *)((uint8_t *)region->base + offset_bytes);
}

/* Worker thread: registers it with a rail, unless it is registered. -EFAULT: its process has not
 * allocated all pages. */
int region_register(struct region *region, unsigned rail);
/* Any thread: after its removal, a rail keeps nothing of its memory any more. */
void region_rail_lets_go(void *region);
/* Describes an error of region_register(). */
const char *region_register_text(int error);

/* ---- region.c, for region_request.c ---- */

/* Creates a region with an id and a key, and one reference; it is in no table yet. */
int region_new(struct session *session, uint64_t bytes, struct region **ret_region);
/* Allocates its address. 0, -ENOSPC or -ENOMEM. */
int region_place(struct region *region);
/* Adds it to the table: its handles are valid from now on. */
void region_add(struct session *session, struct region *region);

/* ---- region_request.c, for region_import.c ---- */

/* Checks the session's and the user's limits for a region of so much memory, and charges its
 * bookkeeping. False: the request was answered with an error. */
bool region_admit(struct session *session, uint32_t tag, uint64_t bytes, struct charge *ret_charge);
/* Answers the request with the region. */
void region_grant(struct session *session, uint32_t tag, struct region *region);

/* ---- region_in_place.c ---- */
void region_in_place(struct session *session, uint32_t tag, const Tca__RegionAlloc *alloc, int *fd);

/* ---- region_import.c ---- */
void region_import(struct session *session, uint32_t tag, uint64_t bytes, int *fd);
