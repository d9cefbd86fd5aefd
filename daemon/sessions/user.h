/*
 * The daemon's memory per user: every byte is charged to a user, and only here. Region memory and
 * descriptors are counted separately, because they have separate limits (region_quota.c,
 * session.c). A charge is a member of the object that causes it and is dropped with it. A user
 * exists as long as anything is charged to it.
 *
 * Objects for sessions of other nodes (bindings, groups coordinated here) are charged to their
 * user, which is also the user of the memory or group concerned.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/table.h"

struct tcad;
struct trim;

enum user_kind {
    USER_SESSIONS, /* segments */
    USER_REGIONS,  /* their bookkeeping, not their memory */
    USER_PLANS,
    USER_BINDINGS,    /* targets prepared for plans of this and other nodes */
    USER_GROUPS,      /* members, published names, lookups, gathers */
    USER_MESSAGES,    /* messages that clients have not read */
    USER_CONNECTIONS, /* also those without a session; counted only */
    USER_OFFLOAD,     /* queues and memory of offload processors */
    USER_KINDS,
};
const char *user_kind_name(enum user_kind kind);

struct user {
    struct table_entry entry; /* in users, by uid */
    struct users *users;
    uid_t uid;
    uint32_t charges;
    uint32_t count[USER_KINDS]; /* of charges */
    uint64_t bytes[USER_KINDS];
    uint64_t total;
    uint64_t memory_bytes;      /* of regions */
    uint64_t freed_bytes;       /* part of memory_bytes: of freed regions that are still in use */
    uint64_t quarantined_bytes; /* part of freed_bytes: kept by a rail while peers can write it */
    uint32_t descriptors;
    uint32_t in_flight; /* descriptors that were sent to it and not received (flight.h) */
};

struct users {
    struct table by_uid;
    uint64_t total;
    uint64_t peak;     /* of it, since the last trim */
    struct trim *trim; /* NULL: memory is kept */
    uint64_t memory_bytes, freed_bytes, quarantined_bytes;
};

void users_deinit(struct users *users); /* all charges must be dropped before */
/* NULL: nothing is charged to this user. */
const struct user *user_find(const struct tcad *tcad, uid_t uid);

struct charge {
    struct user *user; /* NULL: none */
    enum user_kind kind;
    uint64_t bytes;
    uint64_t memory_bytes, freed_bytes, quarantined_bytes;
    uint32_t descriptors, in_flight;
};
/* Takes a charge, or increases it. -EDQUOT or -ENOMEM: text describes the user's holdings, the
 * limit and the remedy. `what` names the object: "a session", "a plan". */
int charge_take(struct tcad *tcad, struct charge *charge, uid_t uid, enum user_kind kind,
                uint64_t bytes, const char *what, char *text, size_t text_bytes);
/* Decreases a charge. */
void charge_lower(struct charge *charge, uint64_t bytes);
/* Add region memory and descriptors to a charge that was taken. */
void charge_memory(struct charge *charge, uint64_t bytes);
void charge_descriptors(struct charge *charge, uint32_t count);
void charge_descriptors_lower(struct charge *charge, uint32_t count);
void charge_in_flight(struct charge *charge, uint32_t count);
/* The memory was freed; it counts until the charge is dropped. */
void charge_memory_freed(struct charge *charge);
/* Only rails still keep the freed memory, and its descriptors are closed. */
void charge_memory_quarantined(struct charge *charge);
/* Drops the whole charge; no effect if it was not taken. */
void charge_drop(struct charge *charge);
