/*
 * Bindings: what this node has prepared for the puts of one plan transfer of this or another node:
 * the memory, the layout, the notification, and a landing at each rail's driver. The requester gets
 * the landings' blobs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/engine/engine.h"
#include "daemon/sessions/user.h"
#include "daemon/sessions/uses.h"
#include "drivers/driver.h"
#include "proto/notify.h"
#include "proto/tca.pb-c.h"

struct binding;
struct bindings;
struct region;
struct session;
struct tcad;

/* A driver's description of a landing. */
struct landing_blob {
    uint8_t bytes;
    uint8_t blob[LANDING_MAX_BYTES];
};

struct binding_args {
    uint32_t node;         /* of the requester */
    uint64_t asker;        /* the requester's session */
    struct region *region; /* NULL: only a notification */
    uint64_t offset_bytes;
    uint64_t part_offset_bytes, part_bytes; /* of the handle; 0: all of the region */
    struct layout *layout;  /* taken over, even on failure; NULL if region is NULL */
    struct session *notify; /* NULL: no notification */
    uint32_t line;          /* of its counters: session_line(); or of the counter of a signal */
    uint64_t signal;        /* not 0: added to the counter at the offset, instead of a put */
    unsigned rails;         /* one bit per rail */
    bool owned;             /* by a plan of this node, which ends it after its puts */
    struct charge charge;   /* from binding_charge(); taken over */
    uint64_t pair;          /* 0, or the process itself receives (pairs.h), and rails is 0 */
};
size_t binding_bytes(const struct tcad *tcad); /* of a struct binding */
/* Charges the user of the memory or of the notified session. 0, or -EDQUOT and a text. */
int binding_charge(struct tcad *tcad, struct binding_args *args, char *text, size_t text_bytes);

/* The landing at one rail's driver. */
struct binding_landing {
    struct driver_landing *landing; /* NULL: none */
    struct copy_program *program;   /* for it, until it is made; NULL: none */
    struct landing_blob blob;
};

/* The objects with which a binding ends. */
enum { BINDING_OF_REGION, BINDING_OF_NOTIFIED, BINDING_OF_ASKER, BINDING_OF_NODE, BINDING_USES };

struct binding {
    struct table_entry entry;
    struct use uses[BINDING_USES]; /* unused if it is owned */
    struct tcad *tcad;
    uint64_t id;
    uint32_t node;
    uint64_t asker;
    struct region *region;
    uint64_t offset_bytes;
    uint64_t part_offset_bytes, part_bytes;
    struct layout *layout;
    bool owned;
    struct session *notify; /* NULL: none; of a signal: the owner of the counter. Not freed before
                               the binding (notified_by) */
    uint64_t signal;        /* not 0: added to the counter there, instead of a put */
    struct notify_target target;
    struct engine_call call; /* for its release */
    unsigned rails;          /* with a landing */
    struct charge charge;
    uint64_t landing_bytes; /* of its landings beyond DRIVER_LANDING_BYTES, once they are made */
    bool making;
    bool ended; /* nothing can land there any more */
    int error;
    uint64_t pair; /* 0: the daemon receives; else the number of its landing: */
    uint32_t place, generation, line;
    bool placed;
    struct binding_landing landings[]; /* see binding_landing() */
};

int bindings_new(struct tcad *tcad, struct bindings **ret_bindings);
struct bindings *bindings_free(struct bindings *bindings);

/* Frees the layouts and charges of bindings that were not made, and ends pairs that were made for
 * them. */
void binding_args_drop(struct tcad *tcad, struct binding_args *args, size_t count);

/* rail: an open one. */
static inline struct binding_landing *binding_landing(struct binding *binding, unsigned rail)
{
    return &binding->landings[rail - 1];
}

struct bindings_made {
    int status;                      /* 0, or why none was made */
    struct binding *const *bindings; /* in the order of args; NULL on failure */
    size_t which;                    /* index of the one that failed */
    const char *text;
};
typedef void bindings_done(void *context, const struct bindings_made *made);
/* Makes all bindings or none. Calls done() once, never from within this call. A
 * binding that fails on some rails but not on all is made. -ENOMEM: done() is not called, and args
 * were dropped. */
int bindings_make(struct tcad *tcad, struct binding_args *args, size_t count, bindings_done *done,
                  void *context);
/* Ends a binding: nothing lands after the engine's next turn. The region's memory stays until
 * then. */
void binding_end(struct binding *binding);
struct binding *binding_find(struct tcad *tcad, uint64_t id);

/* End the bindings whose region, notified session or requester has gone, and inform the requesters'
 * nodes; except bindings owned by plans of this node, which break and end them. */
void bindings_region_gone(struct tcad *tcad, const struct region *region, int error);
void bindings_session_gone(struct tcad *tcad, const struct session *session);
void bindings_node_gone(struct tcad *tcad, uint32_t node);

/* Requests of other daemons: PeerBind, and PeerUnbind, which ends the bindings it names. */
void bindings_requested(struct tcad *tcad, uint32_t node, uint32_t tag, const Tca__PeerBind *bind);
void bindings_unbind(struct tcad *tcad, uint32_t node, const Tca__PeerUnbind *unbind);
/* A session of another node has ended: ends the bindings made for it. */
void bindings_asker_gone(struct tcad *tcad, uint32_t node, uint64_t asker);
