#include <pwd.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tcactl/doc.h"
#include "tools/tcactl/render.h"
#include "tools/tcactl/table.h"
#include "tools/tcactl/units.h"

static const char *const session_titles[] = {">ID",    ">PID",      "USER",    "NAME",   "GROUP",
                                             ">RANK",  "?>REGIONS", ">MEMORY", ">PLANS", "?>STARTS",
                                             ">BYTES", ">AGE",      NULL,      NULL};

/* The user's name, or the uid if it has no name here. */
static void add_user(struct table *table, long long uid)
{
    const struct passwd *user = uid >= 0 && uid < UINT32_MAX ? getpwuid((uid_t)uid) : NULL;

    if (user)
        table_add(table, "%s", user->pw_name);
    else
        table_add(table, "%lld", uid);
}

static bool some(const json_t *doc, const char *list, const char *member)
{
    for (size_t i = 0; i < doc_count(doc, list); i++)
        if (doc_number(doc_at(doc, list, i), member) > 0)
            return true;
    return false;
}

void render_sessions(const json_t *doc, const struct screen *screen)
{
    const bool pairs = some(doc, "sessions", "pairs");
    const char *titles[sizeof session_titles / sizeof session_titles[0]];
    struct table table;

    memcpy(titles, session_titles, sizeof titles);
    if (pairs)
        titles[sizeof titles / sizeof titles[0] - 2] = ">PAIRS";
    table_init(&table, titles);
    for (size_t i = 0; i < doc_count(doc, "sessions"); i++) {
        const json_t *session = doc_at(doc, "sessions", i);
        table_add(&table, "%lld", doc_integer(session, "id"));
        table_add(&table, "%lld", doc_integer(session, "pid"));
        add_user(&table, doc_integer(session, "uid"));
        table_add(&table, "%s", doc_text(session, "name"));
        table_add(&table, "%s",
                  strcmp(doc_text(session, "state"), "joining") == 0 ? "(joining)"
                                                                     : doc_text(session, "group"));
        table_add(&table, "%lld/%lld", doc_integer(session, "rank"), doc_integer(session, "size"));
        table_add(&table, "%lld", doc_integer(session, "regions"));
        table_add(&table, "%s", units_bytes(doc_number(session, "region_bytes")).text);
        table_add(&table, "%lld", doc_integer(session, "plans"));
        table_add(&table, "%s", units_count(doc_number(session, "starts")).text);
        table_add(&table, "%s", units_bytes(doc_number(session, "bytes")).text);
        table_add(&table, "%s", units_age(doc_number(session, "age_s")).text);
        if (pairs)
            table_add(&table, "%lld", doc_integer(session, "pairs"));
    }
    table_print(&table, screen, 0, "no sessions");
    table_deinit(&table);
}

static const char *const user_titles[] = {"USER",    ">SESSIONS", ">REGIONS", ">PLANS",
                                          ">MEMORY", ">OF",       ">TCAD",    ">OF",
                                          ">FDS",    NULL,        NULL};

void render_users(const json_t *doc, const struct screen *screen)
{
    const bool quarantined = some(doc, "users", "region_bytes_quarantined");
    const char *titles[sizeof user_titles / sizeof user_titles[0]];
    struct table table;

    memcpy(titles, user_titles, sizeof titles);
    if (quarantined)
        titles[sizeof titles / sizeof titles[0] - 2] = ">QUARANTINED";
    table_init(&table, titles);
    for (size_t i = 0; i < doc_count(doc, "users"); i++) {
        const json_t *user = doc_at(doc, "users", i);
        add_user(&table, doc_integer(user, "uid"));
        table_add(&table, "%lld", doc_integer(user, "sessions"));
        table_add(&table, "%lld", doc_integer(user, "regions"));
        table_add(&table, "%lld", doc_integer(user, "plans"));
        table_add(&table, "%s", units_bytes(doc_number(user, "region_bytes")).text);
        table_add(&table, "%s", units_bytes(doc_number(user, "region_bytes_max")).text);
        table_add(&table, "%s", units_bytes(doc_number(user, "bytes")).text);
        table_add(&table, "%s", units_bytes(doc_number(user, "bytes_max")).text);
        table_add(&table, "%lld", doc_integer(user, "descriptors"));
        if (quarantined)
            table_add(&table, "%s", units_bytes(doc_number(user, "region_bytes_quarantined")).text);
    }
    table_print(&table, screen, 0, "no users");
    table_deinit(&table);
}

static const char *const region_titles[] = {">ID",     ">SESSION",  ">PID",      ">BYTES",
                                            "ADDRESS", ">BINDINGS", "PUBLISHED", NULL};

void render_regions(const json_t *doc, const struct screen *screen)
{
    struct table table;

    table_init(&table, region_titles);
    for (size_t i = 0; i < doc_count(doc, "regions"); i++) {
        const json_t *region = doc_at(doc, "regions", i);
        char *published = doc_join(region, "published");
        table_add(&table, "%lld", doc_integer(region, "id"));
        table_add(&table, "%lld", doc_integer(region, "session"));
        table_add(&table, "%lld", doc_integer(region, "pid"));
        table_add(&table, "%s", units_bytes(doc_number(region, "bytes")).text);
        table_add(&table, "%s", doc_text(region, "address"));
        table_add(&table, "%lld", doc_integer(region, "bindings"));
        table_add(&table, "%s", published);
        free(published);
    }
    table_print(&table, screen, 0, "no regions");
    table_deinit(&table);
}

static const char *const processor_titles[] = {">SESSION", ">PID",   "USER", "NAME", "DEVICE",
                                               ">MEMORY",  ">QPS",   ">CQS", ">MRS", ">ENTRIES",
                                               "?>ERRORS", ">BYTES", NULL};

void render_offload(const json_t *doc, const struct screen *screen)
{
    struct table table;

    table_init(&table, processor_titles);
    for (size_t i = 0; i < doc_count(doc, "processors"); i++) {
        const json_t *processor = doc_at(doc, "processors", i);
        table_add(&table, "%lld", doc_integer(processor, "session"));
        table_add(&table, "%lld", doc_integer(processor, "pid"));
        add_user(&table, doc_integer(processor, "uid"));
        table_add(&table, "%s", doc_text(processor, "name"));
        table_add(&table, "%s", doc_text(processor, "device"));
        table_add(&table, "%s", units_bytes(doc_number(processor, "memory_bytes")).text);
        table_add(&table, "%lld", doc_integer(processor, "qps"));
        table_add(&table, "%lld", doc_integer(processor, "cqs"));
        table_add(&table, "%lld", doc_integer(processor, "memories"));
        table_add(&table, "%s", units_count(doc_number(processor, "entries")).text);
        table_add(&table, "%lld", doc_integer(processor, "errors"));
        table_add(&table, "%s", units_bytes(doc_number(processor, "bytes")).text);
    }
    table_print(&table, screen, 0, "no offload processors");
    table_deinit(&table);
}
