/* Lists can have a hundred thousand rows. They are collected in slices, by number, because an
 * object may be gone by the next slice. */
#include "daemon/control/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/loop.h"
#include "daemon/control/admin.h"
#include "daemon/control/inspect.h"
#include "daemon/control/names.h"
#include "daemon/plans/plan.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/sessions/user.h"
#include "daemon/tcad.h"

enum { PACK_MAX = 256 }; /* rows and names; longer lists are serialised by the worker */

struct row {
    uint64_t id;   /* of a session or region, or the uid */
    uint32_t plan; /* of that session */
};

struct rows {
    struct tcad *tcad;
    struct admin_reply *reply;
    const struct kind *kind;
    uid_t viewer;
    struct row *list;
    size_t count, room, at;
    bool failed; /* out of memory */
    struct names names;
    json_t *document;
    struct loop_job job;
};

struct kind {
    const char *verb, *list; /* the list's name in the document */
    void (*collect)(struct rows *rows);
    /* NULL: it is gone, or does not belong to the list. */
    json_t *(*describe)(const struct rows *rows, const struct row *row);
};

static void add(struct rows *rows, struct row row)
{
    if (rows->count == rows->room) {
        const size_t room = rows->room ? 2 * rows->room : 256;
        struct row *list = reallocarray(rows->list, room, sizeof(*list));
        if (!list) {
            rows->failed = true;
            return;
        }
        rows->list = list;
        rows->room = room;
    }
    rows->list[rows->count++] = row;
}

/* ---- sessions and plans ---- */

static void collect_sessions(struct rows *rows)
{
    for (const struct session *session = rows->tcad->sessions; session; session = session->next)
        if (inspect_may_see(rows->tcad, rows->viewer, session->uid))
            add(rows, (struct row){.id = session->id});
}

static json_t *describe_session(const struct rows *rows, const struct row *row)
{
    const struct session *session = session_find_any(rows->tcad, row->id);
    return session ? inspect_session(session) : NULL;
}

static json_t *describe_offload(const struct rows *rows, const struct row *row)
{
    const struct session *session = session_find_any(rows->tcad, row->id);
    return session ? inspect_offload(session) : NULL;
}

static void add_plan(void *context, const struct plan *plan)
{
    add(context, (struct row){plan->session_id, plan->id});
}

static void collect_plans(struct rows *rows)
{
    for (const struct session *session = rows->tcad->sessions; session; session = session->next)
        if (inspect_may_see(rows->tcad, rows->viewer, session->uid))
            plans_each(session, add_plan, rows);
}

static json_t *describe_plan(const struct rows *rows, const struct row *row)
{
    const struct session *session = session_find_any(rows->tcad, row->id);
    const struct plan *plan = session && session->plans ? session->plans[row->plan] : NULL;
    return plan ? inspect_plan_row(plan) : NULL;
}

/* ---- users and regions ---- */

static void add_user(void *context, void *owner)
{
    struct rows *rows = context;
    const struct user *user = owner;
    const bool only_connects = user->charges == user->count[USER_CONNECTIONS]; /* as tcactl does */
    if (!only_connects && inspect_may_see(rows->tcad, rows->viewer, user->uid))
        add(rows, (struct row){.id = user->uid});
}

static void collect_users(struct rows *rows)
{
    table_each(&rows->tcad->users.by_uid, add_user, rows);
}

static json_t *describe_user(const struct rows *rows, const struct row *row)
{
    const struct user *user = user_find(rows->tcad, (uid_t)row->id);
    return user ? inspect_user(rows->tcad, user) : NULL;
}

static void add_region(void *context, const struct region *region)
{
    struct rows *rows = context;
    if (inspect_may_see(rows->tcad, rows->viewer, region->uid))
        add(rows, (struct row){.id = region->id});
}

static void collect_regions(struct rows *rows)
{
    names_collect(&rows->names, rows->tcad, rows->viewer);
    regions_each(rows->tcad->regions, add_region, rows);
}

static json_t *describe_region(const struct rows *rows, const struct row *row)
{
    const struct region *region = region_find(rows->tcad, row->id);
    return region ? inspect_region(region, names_of(&rows->names, row->id)) : NULL;
}

/* ---- lists ---- */

static const struct kind *kind_of(const char *verb)
{
    static const struct kind kinds[] = {
        {"sessions", "sessions", collect_sessions, describe_session},
        {"plans", "plans", collect_plans, describe_plan},
        {"users", "users", collect_users, describe_user},
        {"regions", "regions", collect_regions, describe_region},
        {"offload", "processors", collect_sessions, describe_offload},
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(verb, kinds[i].verb) == 0)
            return &kinds[i];
    return NULL;
}

bool rows_has(const char *verb)
{
    return kind_of(verb);
}

static void rows_free(struct rows *rows)
{
    names_deinit(&rows->names);
    free(rows->list);
    free(rows);
}

static bool describe_some(void *context)
{
    struct rows *rows = context;
    json_t *list = json_object_get(rows->document, rows->kind->list);
    while (rows->at < rows->count) {
        json_t *row = rows->kind->describe(rows, &rows->list[rows->at++]);
        if (row)
            json_array_append_new(list, row);
        if (loop_slice_over(rows->tcad->loop))
            return true;
    }
    if (rows->count + rows->names.count > PACK_MAX)
        admin_reply_packed(rows->tcad, rows->reply, rows->document);
    else
        admin_reply_document(rows->reply, rows->document, false);
    rows_free(rows);
    return false;
}

void rows_reply(struct tcad *tcad, struct admin_reply *reply, const char *verb, uid_t viewer)
{
    struct rows *rows = calloc(1, sizeof(*rows));
    if (!rows) {
        admin_reply_fail(reply, -ENOMEM, "out of memory for the list");
        return;
    }
    *rows = (struct rows){.tcad = tcad, .reply = reply, .kind = kind_of(verb), .viewer = viewer};
    rows->document = json_pack("{s:[]}", rows->kind->list);
    rows->kind->collect(rows);
    if (!rows->document || rows->failed) {
        admin_reply_fail(reply, -ENOMEM, "out of memory for the list");
        json_decref(rows->document);
        rows_free(rows);
        return;
    }
    loop_job_begin(tcad->loop, &rows->job, describe_some, rows);
}
