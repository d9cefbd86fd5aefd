/*
 * An index from a region, session or node (the subject) to its users, such as plans. An event of
 * the subject notifies its users one by one, in slices (loop.h); users receive all events of a
 * subject in order.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/loop.h"
#include "daemon/base/table.h"

enum subject_kind {
    SUBJECT_REGION,
    SUBJECT_SESSION,
    SUBJECT_ASKER, /* the session that requested the user */
    SUBJECT_NODE,  /* id 0 */
};

struct subject_key {
    enum subject_kind kind;
    uint32_t node;
    uint64_t id;
};

struct subject;

/* A member of the user. Zeroed: not in the index. */
struct use {
    struct use *next, **link;
    struct subject *subject;
    void *user;
    uint64_t added; /* its number among all additions */
};

struct uses {
    struct loop *loop;
    struct table subjects;
    uint64_t adds;
};

void uses_deinit(struct uses *uses); /* all uses must be dropped before */
/* -ENOMEM. */
int use_add(struct uses *uses, struct use *use, struct subject_key key, void *user);
/* No effect if it is not in the index. */
void use_drop(struct uses *uses, struct use *use);
/* Whether this user was added last. */
bool uses_last_is(const struct uses *uses, struct subject_key key, const void *user);

/* each() must not add or drop uses of the subject. */
void uses_each(const struct uses *uses, struct subject_key key,
               void (*each)(void *context, void *user), void *context);

/* An event that concerns all users of a subject. */
struct use_event {
    struct subject_key key;
    int error;
    unsigned rail;
    /* Notifies one user. Returns whether it remains a user. */
    bool (*notify)(const struct use_event *event, void *user);
};
/* Notifies all current users, but not those added during the slices. Cannot fail. */
void uses_notify(struct uses *uses, const struct use_event *event);
