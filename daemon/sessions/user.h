/*
 * What each user makes the daemon hold: every byte is charged to somebody, here and nowhere else. The
 * memory of regions and descriptors are counted beside the bytes of the daemon itself, because they
 * have limits of their own (region_quota.c, session.c). A charge lies inside the object that causes it and is
 * dropped with it; a user is known for as long as anything is charged to it.
 *
 * What is made here for a session of another node (bindings, groups that meet here) is charged to
 * its user too: that is the user of the memory or group in question, or it would have been refused.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/table.h"

struct tcad;

enum user_kind {
    USER_SESSIONS, /* segments */
    USER_REGIONS,  /* what is known of them, not their memory */
    USER_PLANS,
    USER_BINDINGS, /* what others' plans and own ones have prepared where they put */
    USER_GROUPS,   /* members, published names, lookups, gathers */
    USER_MESSAGES, /* answers that clients leave unread */
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
    uint64_t memory_bytes; /* of regions */
    uint64_t freed_bytes;  /* of these: in regions that were freed, and that something still uses */
    uint64_t quarantined_bytes; /* of these: that a rail keeps until no peer can write there */
    uint32_t descriptors;
};

struct users {
    struct table by_uid;
    uint64_t total;
    uint64_t memory_bytes, freed_bytes, quarantined_bytes;
};

void users_deinit(struct users *users); /* nothing is charged to anybody */
/* NULL: nothing is charged to it. */
const struct user *user_find(const struct tcad *tcad, uid_t uid);

struct charge {
    struct user *user; /* NULL: none */
    enum user_kind kind;
    uint64_t bytes;
    uint64_t memory_bytes, freed_bytes, quarantined_bytes;
    uint32_t descriptors;
};
/* 0; or -EDQUOT (or -ENOMEM), and the text says who has what, which limit, and what to do. A charge
 * that stands grows. `what` is what it is for: "a session", "a plan". */
int charge_take(struct tcad *tcad, struct charge *charge, uid_t uid, enum user_kind kind,
                uint64_t bytes, const char *what, char *text, size_t text_bytes);
/* So much less of it. */
void charge_lower(struct charge *charge, uint64_t bytes);
/* One that stands has so much memory of a region and so many descriptors besides; the memory is freed,
 * and counts until the charge is dropped. */
void charge_memory(struct charge *charge, uint64_t bytes);
void charge_memory_freed(struct charge *charge);
/* Only rails keep some of it; its descriptors are closed. */
void charge_memory_quarantined(struct charge *charge);
void charge_descriptors(struct charge *charge, uint32_t count);
/* All of it. One that was never taken stays so. */
void charge_drop(struct charge *charge);
