#include "daemon/sessions/region_views.h"

#include <stdlib.h>

#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/list.h"

enum { TELL_MAX = 64 }; /* regions named in one message */

void region_view_note(struct session *session, struct region *region)
{
    char text[512];
    if (!region->session || region->session == session || session->closing ||
        table_find(&session->views.by_region, region->id))
        return;
    if (charge_take(session->tcad, &session->charge, session->uid, USER_SESSIONS,
                    sizeof(struct region_view), "a mapping of a region", text, sizeof(text)) < 0)
        return;
    struct region_view *view = calloc(1, sizeof(*view));
    if (!view) {
        charge_lower(&session->charge, sizeof(*view));
        return;
    }
    view->session = session;
    table_add(&session->views.by_region, &view->entry, region->id, view);
    LIST_ADD(&region->views, view, next, link);
}

static void view_free(void *context, void *owner)
{
    struct region_view *view = owner;
    struct session *session = view->session;
    LIST_REMOVE(view, next, link);
    table_remove(&session->views.by_region, &view->entry);
    charge_lower(&session->charge, sizeof(*view));
    free(view);
}

/* ---- the end of a region ---- */

static void tell(struct session *session)
{
    uint64_t regions[TELL_MAX];
    Tca__Event event = TCA__EVENT__INIT;
    event.kind = TCA__EVENT__KIND__REGION_GONE;
    event.regions = regions;
    while (session->views.stale && event.n_regions < TELL_MAX) {
        regions[event.n_regions++] = session->views.stale->entry.id;
        view_free(NULL, session->views.stale);
    }
    session_event(session, &event);
}

static bool tell_some(void *context);

/* The client has read what was queued for it, or has ended. */
static void tell_again(void *context)
{
    struct session *session = context;
    loop_job_begin(session->tcad->loop, &session->views.job, tell_some, session);
}

static bool tell_some(void *context)
{
    struct session *session = context;
    struct region_views *views = &session->views;
    while (views->stale) {
        views->wait = (struct client_wait){.drained = tell_again, .context = session};
        if (session_await_reader(session, &views->wait))
            return false;
        tell(session);
        if (loop_slice_over(session->tcad->loop))
            return true;
    }
    views->notifying = false;
    session_unnotified(session);
    return false;
}

void region_views_end(struct region *region)
{
    while (region->views) {
        struct region_view *view = region->views;
        struct session *session = view->session;
        LIST_REMOVE(view, next, link);
        LIST_ADD(&session->views.stale, view, next, link);
        if (session->views.notifying)
            continue;
        session->views.notifying = true;
        session->notified_by++; /* dropped by tell_some() */
        tell_again(session);
    }
}

void region_views_drop(struct session *session)
{
    table_each(&session->views.by_region, view_free, NULL);
    table_deinit(&session->views.by_region);
}
