/*
 * Who needs what: from a region, a session or a node to those that use it, without looking at the
 * others. When it goes, its users are taken out all together and told one after the other, in slices
 * (loop.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/loop.h"
#include "daemon/base/table.h"

enum subject_kind {
    SUBJECT_REGION,
    SUBJECT_SESSION,
    SUBJECT_ASKER, /* a session that has asked for what the user is */
    SUBJECT_NODE,  /* id 0 */
};

struct subject_key {
    enum subject_kind kind;
    uint32_t node;
    uint64_t id;
};

struct subject;

/* One user's. Of zeroes: of nothing. */
struct use {
    struct use *next, **link;
    struct subject *subject; /* NULL: it was taken out */
    void *user;
};

struct uses {
    struct loop *loop;
    struct table subjects;
};

void uses_deinit(struct uses *uses); /* everything was dropped */
/* -ENOMEM. */
int use_add(struct uses *uses, struct use *use, struct subject_key key, void *user);
/* What is of nothing stays so. */
void use_drop(struct uses *uses, struct use *use);
/* Whether the last who was added is this one. */
bool uses_last_is(const struct uses *uses, struct subject_key key, const void *user);

/* each() may not change who uses it. */
void uses_each(const struct uses *uses, struct subject_key key,
               void (*each)(void *context, void *user), void *context);

/* Something has happened to a subject. */
struct news {
    struct subject_key key;
    int error;
    unsigned rail;
    /* Tells one user; whether it is to stay a user. */
    bool (*tell)(const struct news *news, void *user);
};
/* Tells all that are there now, and not those that come meanwhile. */
void uses_tell(struct uses *uses, const struct news *news);
