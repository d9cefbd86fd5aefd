#include <string.h>

#include "tools/tcactl/doc.h"
#include "tools/tcactl/list.h"
#include "tools/tcactl/render.h"

static void add_group(struct table *table, const json_t *session, const char *path)
{
    const bool joining = strcmp(doc_text(session, "state"), "joining") == 0;
    table_add(table, "%s", joining ? "(joining)" : doc_text(session, path));
}

void render_sessions(const json_t *doc, const struct screen *screen)
{
    static const struct column columns[] = {
        {">ID", "id", cell_integer},
        {">PID", "pid", cell_integer},
        {"USER", "uid", cell_user},
        {"NAME", "name"},
        {"GROUP", "group", add_group},
        {">RANK", "rank", cell_rank},
        {"?>REGIONS", "regions", cell_integer},
        {">MEMORY", "region_bytes", cell_bytes},
        {">PLANS", "plans", cell_integer},
        {"?>STARTS", "starts", cell_count},
        {">BYTES", "bytes", cell_bytes},
        {">AGE", "age_s", cell_age},
        {">PAIRS", "pairs", cell_integer, .sparse = true},
        {">THEIR MEMORY", "pair_bytes", cell_bytes, .sparse = true},
        {0},
    };
    list_show(doc, "sessions", columns, screen, 0, "no sessions");
}

void render_users(const json_t *doc, const struct screen *screen)
{
    static const struct column columns[] = {
        {"USER", "uid", cell_user},
        {">SESSIONS", "sessions", cell_integer},
        {">REGIONS", "regions", cell_integer},
        {">PLANS", "plans", cell_integer},
        {">MEMORY", "region_bytes", cell_bytes},
        {">OF", "region_bytes_max", cell_bytes},
        {">TCAD", "bytes", cell_bytes},
        {">OF", "bytes_max", cell_bytes},
        {">FDS", "descriptors", cell_integer},
        {">QUARANTINED", "region_bytes_quarantined", cell_bytes, .sparse = true},
        {0},
    };
    list_show(doc, "users", columns, screen, 0, "no users");
}

void render_regions(const json_t *doc, const struct screen *screen)
{
    static const struct column columns[] = {
        {">ID", "id", cell_integer},
        {">SESSION", "session", cell_integer},
        {">PID", "pid", cell_integer},
        {">BYTES", "bytes", cell_bytes},
        {"ADDRESS", "address"},
        {">BINDINGS", "bindings", cell_integer},
        {"PUBLISHED", "published", cell_words},
        {0},
    };
    list_show(doc, "regions", columns, screen, 0, "no regions");
}

void render_offload(const json_t *doc, const struct screen *screen)
{
    static const struct column columns[] = {
        {">SESSION", "session", cell_integer},
        {">PID", "pid", cell_integer},
        {"USER", "uid", cell_user},
        {"NAME", "name"},
        {"DEVICE", "device"},
        {">MEMORY", "memory_bytes", cell_bytes},
        {">QPS", "qps", cell_integer},
        {">CQS", "cqs", cell_integer},
        {">MRS", "memories", cell_integer},
        {">ENTRIES", "entries", cell_count},
        {"?>ERRORS", "errors", cell_integer},
        {">BYTES", "bytes", cell_bytes},
        {0},
    };
    list_show(doc, "processors", columns, screen, 0, "no offload processors");
}
