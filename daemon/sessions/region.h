/*
 * Regions: memory of sessions that others may put into. The daemon makes the memfd, seals its size,
 * maps it itself (for the engine and for the drivers' registrations) and hands the descriptor to
 * whoever may have it. The pages are made by the process that asked for the region, as soon as it
 * has the descriptor: they belong to its memory limit, not to the daemon's.
 *
 * A region lives as long as its session, plans and bindings need it: freeing it makes its handles
 * stale at once, ends everything that puts into it, and gives the memory back when the last user in
 * the engine has let go (region_unref).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/table.h"
#include "daemon/sessions/user.h"
#include "drivers/driver.h"
#include "proto/handle.h"
#include "proto/tca.pb-c.h"

struct session;
struct tcad;

#define REGION_MEMFD "tca-region" /* the name of their memfds */

struct region {
    struct tcad *tcad;
    struct table_entry entry; /* in the table of all that are not freed */
    struct region *next_of_session, **link_of_session;
    struct session *session; /* NULL once freed */
    uint64_t session_id;
    uint64_t id;
    uid_t uid;
    uint64_t secret[2]; /* proto/handle.h */
    uint64_t bytes;
    uint64_t memory_bytes; /* of ours: what counts against the quota */
    bool attached; /* memory of its process; fd and base are of its bounce memory, if any (bounce.h)
                    */
    bool bounce_told;      /* the process has that */
    uint64_t name_address; /* attached: where its process keeps incarnation and id */
    uint64_t address;      /* in the clients */
    void *base;            /* here */
    int fd;
    uint32_t pages;     /* enum region_pages */
    uint32_t refs;      /* session, plans, bindings */
    uint32_t puts_from; /* plans of the owner that read it: it cannot be freed by request */
    uint32_t bindings;  /* plans that put into it */
    /* Registrations, made on the worker when a rail first needs them; kept until the end. */
    struct driver_region *on[RAIL_COUNT];
    unsigned registered; /* the loop knows of: bit per enum rail */
    uint32_t keepers; /* at its end: rails that keep some of it, and the one that gives it back */
    struct charge charge; /* of what is known of it, not of its memory */
};

struct regions;
int regions_new(struct tcad *tcad, struct regions **ret_regions);
struct regions *regions_free(struct regions *regions);
uint64_t regions_count(const struct regions *regions);
/* Every region that is not freed. */
void regions_each(const struct regions *regions,
                  void (*each)(void *context, const struct region *region), void *context);

/* Bytes of memory of ours that so many make. */
uint64_t region_round(const struct tcad *tcad, uint64_t bytes);
/* region_quota.c: whether a session may have so many bytes (and one descriptor) more, and if not,
 * `text` says which limit is in the way and what to do; and that this region, one of a session's,
 * has them from now on. Its user has them until nothing uses it any more, its session until it is
 * freed. */
bool region_may_have(const struct session *session, uint64_t bytes, char *text, size_t text_bytes);
/* Or may once what is freed is in use no more. */
bool region_may_have_soon(const struct session *session, uint64_t bytes);
void region_charge(struct region *region, uint64_t bytes);
void region_uncharge(struct region *region); /* it is freed */

/* Requests of a session. */
void region_alloc(struct session *session, uint32_t tag, const Tca__RegionAlloc *alloc);
/* region_wait.c: memory that has been freed is still in use for a moment. Whoever wants as much
 * instead waits for it: whether it does (at most one of a session). region_alloc_again() is called
 * for it then, or when it has waited for long. */
bool region_alloc_wait(struct session *session, uint32_t tag, uint64_t bytes);
void region_alloc_again(struct session *session, uint32_t tag, uint64_t bytes);
void region_allocs_look(struct tcad *tcad); /* some memory was given back */
void region_allocs_deinit(struct tcad *tcad);
void region_free_request(struct session *session, uint32_t tag, const Tca__RegionFree *request);

/* Any thread: makes fd and base of one that has `memory_bytes` only. 0, or a negative errno. */
int region_memory_new(struct region *region);

/* Ends it: stale from now on. Drops the session's reference. */
void region_end(struct region *region);

struct region *region_ref(struct region *region);
void region_unref(struct region *region);

/* One of a session's own, NULL when it has none of that id. */
struct region *region_of_session(const struct session *session, uint64_t id);

/* The region that 64 bytes from a client or a peer name, for a user: checks everything that makes a
 * handle good. 0, -EINVAL, -ESTALE, -EACCES; text says which and why. The handle's node is this
 * one. ret_handle gets the decoded handle. */
int region_resolve(struct tcad *tcad, const uint8_t *bytes, size_t length, uid_t uid,
                   struct region **ret_region, struct handle *ret_handle, char *text,
                   size_t text_bytes);

/* Worker thread: registers it with a rail's driver unless it is already. One that was attached has
 * been admitted (bounce.h). -EFAULT: its process has not made all of its pages. */
int region_register(struct region *region, struct driver *driver);
/* Any thread: at its end, a rail that it was registered with keeps nothing of it any more. */
void region_rail_lets_go(void *region);
/* What its errors mean, for people. */
const char *region_register_text(int error);

/* ---- region.c, for region_request.c ---- */

/* One of so many bytes for a session, named and with a key, but in no table yet; it has one
 * reference. */
int region_new(struct session *session, uint64_t bytes, struct region **ret_region);
/* Takes an address for memory of ours: 0 or -ENOSPC. */
int region_place(struct region *region);
/* From now on its handles are good. */
void region_add(struct session *session, struct region *region);
