/* The lists of sessions and plans can have a hundred thousand rows. They are collected in slices, by
 * number, because an object may be gone by the next slice. */
#include "daemon/control/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/loop.h"
#include "daemon/control/admin.h"
#include "daemon/control/inspect.h"
#include "daemon/plans/plan.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

enum { PACK_MAX = 256 }; /* longer lists are serialised by the worker */

struct row {
    uint64_t session;
    uint32_t plan;
};

struct rows {
    struct tcad *tcad;
    struct admin_reply *reply;
    const char *name;
    json_t *(*describe)(const struct tcad *tcad,
                        const struct row *row); /* NULL: the object is gone */
    struct row *list;
    size_t count, room, at;
    bool failed; /* out of memory */
    json_t *document;
    struct loop_job job;
};

static void add(struct rows *rows, struct row row)
{
    if (rows->count == rows->room) {
        const size_t room = rows->room ? 2 * rows->room : 256;
        struct row *list = reallocarray(rows->list, room, sizeof *list);
        if (!list) {
            rows->failed = true;
            return;
        }
        rows->list = list;
        rows->room = room;
    }
    rows->list[rows->count++] = row;
}

static void add_plan(void *context, const struct plan *plan)
{
    add(context, (struct row){plan->session_id, plan->id});
}

static json_t *describe_session(const struct tcad *tcad, const struct row *row)
{
    const struct session *session = session_find_any(tcad, row->session);
    return session ? inspect_session(session) : NULL;
}

static json_t *describe_plan(const struct tcad *tcad, const struct row *row)
{
    const struct session *session = session_find_any(tcad, row->session);
    const struct plan *plan = session && session->plans ? session->plans[row->plan] : NULL;
    return plan ? inspect_plan_row(plan) : NULL;
}

static bool describe_some(void *context)
{
    struct rows *rows = context;
    json_t *list = json_object_get(rows->document, rows->name);
    while (rows->at < rows->count) {
        json_t *row = rows->describe(rows->tcad, &rows->list[rows->at++]);
        if (row)
            json_array_append_new(list, row);
        if (loop_slice_over(rows->tcad->loop))
            return true;
    }
    if (rows->count > PACK_MAX)
        admin_reply_packed(rows->tcad, rows->reply, rows->document);
    else
        admin_reply_document(rows->reply, rows->document, false);
    free(rows->list);
    free(rows);
    return false;
}

void rows_reply(struct tcad *tcad, struct admin_reply *reply, const char *verb, uid_t viewer)
{
    const bool plans = strcmp(verb, "plans") == 0;
    struct rows *rows = calloc(1, sizeof *rows);
    json_t *document = json_pack("{s:[]}", verb);
    if (rows)
        *rows = (struct rows){.tcad = tcad,
                              .reply = reply,
                              .name = plans ? "plans" : "sessions",
                              .describe = plans ? describe_plan : describe_session,
                              .document = document};
    for (const struct session *session = rows ? tcad->sessions : NULL; session;
         session = session->next) {
        if (!inspect_may_see(tcad, viewer, session->uid))
            continue;
        if (plans)
            plans_each(session, add_plan, rows);
        else
            add(rows, (struct row){.session = session->id});
    }
    if (!rows || !document || rows->failed) {
        json_decref(document);
        free(rows ? rows->list : NULL);
        free(rows);
        admin_reply_fail(reply, -ENOMEM, "out of memory for the list");
        return;
    }
    loop_job_begin(tcad->loop, &rows->job, describe_some, rows);
}
