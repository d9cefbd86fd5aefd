/*
 * Bindings: what this node has prepared for the puts of one plan unit, here or elsewhere: the
 * memory, the layout, the notification, and a landing at each rail's driver. The asker gets the
 * landings' blobs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/engine/engine.h"
#include "daemon/sessions/user.h"
#include "daemon/sessions/uses.h"
#include "drivers/driver.h"
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
    uint32_t node;         /* who asks */
    uint64_t asker;        /* its session */
    uint32_t rank;         /* of the asker, as the notified session knows it */
    struct region *region; /* NULL: a notification alone */
    uint64_t offset_bytes;
    struct layout *layout;  /* taken over, also on failure; NULL with a NULL region */
    struct session *notify; /* NULL: no notification */
    uint32_t slot;
    unsigned rails;       /* bit per rail */
    bool owned;           /* by a plan of this node, which ends it once its puts are quiet */
    struct charge charge; /* from binding_charge(); taken over */
};
size_t binding_bytes(const struct tcad *tcad); /* of a struct binding */
/* To the user of the memory, or of who is notified: 0, or -EDQUOT and a text. */
int binding_charge(struct tcad *tcad, struct binding_args *args, char *text, size_t text_bytes);

/* At one rail's driver. */
struct binding_landing {
    struct driver_landing *landing; /* NULL: none */
    struct landing_blob blob;
};

/* What the end of a binding hangs on, besides the asker. */
enum { BINDING_OF_REGION, BINDING_OF_NOTIFIED, BINDING_OF_ASKER, BINDING_OF_NODE, BINDING_USES };

struct binding {
    struct table_entry entry;
    struct use uses[BINDING_USES]; /* of nothing when it is owned */
    struct tcad *tcad;
    uint64_t id;
    uint32_t node;
    uint64_t asker;
    struct region *region;
    uint64_t offset_bytes;
    struct layout *layout;
    bool owned;
    struct session *notify;  /* NULL: none; it is not freed before we are (notified_by) */
    struct session *bounces; /* that has attached the memory; NULL: it is ours. As above */
    struct engine_landing target;
    struct engine_call call; /* its release */
    unsigned rails;          /* that have a landing */
    struct charge charge;
    uint64_t landing_bytes; /* of its landings, besides DRIVER_LANDING_BYTES: when they are made */
    bool making;
    bool ended;                       /* nothing lands there any more */
    bool released;                    /* and nothing is left of what was made for that */
    bool forgotten;                   /* its asker has let go of it */
    struct binding_request *requests; /* PeerSettle, to be answered when it is released */
    int error;
    struct binding_landing landings[]; /* see binding_landing() */
};

int bindings_new(struct tcad *tcad, struct bindings **ret_bindings);
struct bindings *bindings_free(struct bindings *bindings);

/* Of those that were not made: their layouts and charges. */
void binding_args_drop(struct binding_args *args, size_t count);

/* Of an open rail. */
static inline struct binding_landing *binding_landing(struct binding *binding, unsigned rail)
{
    return &binding->landings[rail - 1];
}

struct bindings_made {
    int status;                      /* 0, or why none was made */
    struct binding *const *bindings; /* of args in the same order; NULL: see status */
    size_t which;                    /* of the args cannot be had */
    const char *text;
};
typedef void bindings_done(void *context, const struct bindings_made *made);
/* binding_make.c: all of them or none. done() is called once, never from within this call. A binding
 * that could not be had on one rail but on others is made. -ENOMEM: nothing was begun, and args were
 * dropped. */
int bindings_make(struct tcad *tcad, struct binding_args *args, size_t count, bindings_done *done,
                  void *context);
/* Nothing lands any more after this and the engine's next turn. The region's memory stays until
 * then. */
void binding_end(struct binding *binding);
struct binding *binding_find(struct tcad *tcad, uint64_t id);
/* For binding_make.c: found by its id and by what it hangs on from now on; and an end before anybody
 * has heard of it. */
void binding_link(struct binding *binding);
void binding_unmake(struct binding *binding);
/* binding_copied.c: it is released. */
void binding_answer_requests(struct binding *binding);

/* Ends those whose memory or notification is going, or whose asker has gone, and tells the askers'
 * nodes; not those that are owned by plans here: the plans break, and end them. Of memory that was
 * attached, the asker may still want to know what became of what it has put there: such a binding
 * is remembered until its asker lets go of it. */
void bindings_region_gone(struct tcad *tcad, const struct region *region);
void bindings_session_gone(struct tcad *tcad, const struct session *session);
void bindings_node_gone(struct tcad *tcad, uint32_t node);

/* Calls done() on the loop's thread, never from within this call, when all data that has arrived so far is at its final
 * address (0), or its process has ended before it copied all of it (-EOWNERDEAD). The binding must not have ended.
 * -ENOMEM. */
int binding_await_copied(struct binding *binding, void (*done)(void *context, int status),
                         void *context);
/* A PeerSettle of another daemon. */
void bindings_await_copied(struct tcad *tcad, uint32_t node, uint32_t tag,
                           const Tca__PeerSettle *settle);

/* A PeerBind of another daemon: answers it. PeerUnbind: ends what it names. */
void bindings_asked(struct tcad *tcad, uint32_t node, uint32_t tag, const Tca__PeerBind *bind);
void bindings_unbind(struct tcad *tcad, uint32_t node, const Tca__PeerUnbind *unbind);
/* A session of another node has gone: what was prepared for it ends. */
void bindings_asker_gone(struct tcad *tcad, uint32_t node, uint64_t asker);
