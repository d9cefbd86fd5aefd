/*
 * Which sessions have been sent the descriptors of which regions of other sessions, to map them.
 * They keep a mapping beyond the plan that needed it, because the next plan often needs it again;
 * when the region is freed, they are asked to give it up, so that its memory is free. A session
 * that is out of memory for a view is not asked, and keeps its mapping until it closes.
 */
#pragma once

#include <stdbool.h>

#include "daemon/base/loop.h"
#include "daemon/base/table.h"
#include "daemon/sessions/client.h"

struct region;
struct session;

struct region_view {
    struct table_entry entry; /* in session->views.by_region, by the region's id */
    struct session *session;
    struct region_view *next, **link; /* in region->views or, when that was freed, views.stale */
};

/* Of a session. Zeroed: it has none. */
struct region_views {
    struct table by_region;
    struct region_view *stale; /* of freed regions, which it does not know of yet */
    bool notifying;
    struct loop_job job;
    struct client_wait wait;
};

/* The session is about to be sent the descriptor. */
void region_view_note(struct session *session, struct region *region);
/* The region is freed: its sessions are notified, as fast as they read. */
void region_views_end(struct region *region);
/* The session ends. */
void region_views_drop(struct session *session);
