#include <string.h>

#include "tools/tcactl/doc.h"
#include "tools/tcactl/render.h"
#include "tools/tcactl/table.h"
#include "tools/tcactl/units.h"

/* A rate; negative: unknown. A counter that has decreased belongs to another incarnation. */
static double rate(double before, double now, double seconds)
{
    return seconds > 0 && now >= before ? (now - before) / seconds : -1;
}

static struct units_text rate_text(double per_s, bool bytes)
{
    struct units_text out;

    if (per_s < 0)
        return (struct units_text){"-"};
    struct units_text number = bytes ? units_bytes(per_s) : units_count(per_s);
    snprintf(out.text, sizeof(out.text), "%.28s/s", number.text);
    return out;
}

static const json_t *same_session(const json_t *before, const json_t *session)
{
    for (size_t i = 0; i < doc_count(before, "sessions.sessions"); i++) {
        const json_t *candidate = doc_at(before, "sessions.sessions", i);
        if (doc_integer(candidate, "id") == doc_integer(session, "id"))
            return candidate;
    }
    return NULL;
}

struct rates {
    double starts, bytes;
};

static struct rates session_rates(const json_t *before, const json_t *session, double seconds)
{
    const json_t *then = same_session(before, session);

    if (!then)
        return (struct rates){-1, -1};
    return (struct rates){rate(doc_number(then, "starts"), doc_number(session, "starts"), seconds),
                          rate(doc_number(then, "bytes"), doc_number(session, "bytes"), seconds)};
}

/* The sum of a counter's samples for a rail; negative: no such counter. */
static double rail_counter(const json_t *doc, const char *name, const char *rail)
{
    double sum = -1;

    for (size_t i = 0; i < doc_count(doc, "stats.families"); i++) {
        const json_t *family = doc_at(doc, "stats.families", i);
        if (strcmp(doc_text(family, "name"), name) != 0)
            continue;
        for (size_t k = 0; k < doc_count(family, "samples"); k++) {
            const json_t *sample = doc_at(family, "samples", k);
            if (strcmp(doc_text(sample, "labels.rail"), rail) == 0)
                sum = (sum < 0 ? 0 : sum) + doc_number(sample, "value");
        }
    }
    return sum;
}

static double rail_rate(const json_t *before, const json_t *now, const char *name, const char *rail,
                        double seconds)
{
    double then = rail_counter(before, name, rail), at_last = rail_counter(now, name, rail);

    return then < 0 || at_last < 0 ? -1 : rate(then, at_last, seconds);
}

static struct rates rail_rates(const json_t *before, const json_t *now, const char *rail,
                               double seconds)
{
    return (struct rates){rail_rate(before, now, "tcad_plan_starts", rail, seconds),
                          rail_rate(before, now, "tcad_plan_put_bytes", rail, seconds)};
}

static void sessions_table(const json_t *before, const json_t *now, double seconds,
                           const struct screen *screen)
{
    static const char *const titles[] = {">ID",    ">PID",    "NAME",   "GROUP", ">RANK",
                                         ">PLANS", ">STARTS", ">BYTES", NULL};
    struct table table;

    table_init(&table, titles);
    for (size_t i = 0; i < doc_count(now, "sessions.sessions"); i++) {
        const json_t *session = doc_at(now, "sessions.sessions", i);
        struct rates rates = session_rates(before, session, seconds);
        table_add(&table, "%lld", doc_integer(session, "id"));
        table_add(&table, "%lld", doc_integer(session, "pid"));
        table_add(&table, "%s", doc_text(session, "name"));
        table_add(&table, "%s", doc_text(session, "group"));
        table_add(&table, "%lld/%lld", doc_integer(session, "rank"), doc_integer(session, "size"));
        table_add(&table, "%lld", doc_integer(session, "plans"));
        table_add(&table, "%s", rate_text(rates.starts, false).text);
        table_add(&table, "%s", rate_text(rates.bytes, true).text);
    }
    table_print(&table, screen, 0, "no sessions");
    table_deinit(&table);
}

static void rails_table(const json_t *before, const json_t *now, double seconds,
                        const struct screen *screen)
{
    static const char *const titles[] = {"RAIL", "STATE", ">STARTS", ">BYTES", NULL};
    struct table table;

    table_init(&table, titles);
    for (size_t i = 0; i < doc_count(now, "status.rails"); i++) {
        const json_t *rail = doc_at(now, "status.rails", i);
        struct rates rates = rail_rates(before, now, doc_text(rail, "rail"), seconds);
        table_add(&table, "%s", doc_text(rail, "rail"));
        table_add_state(&table, doc_text(rail, "state"));
        table_add(&table, "%s", rate_text(rates.starts, false).text);
        table_add(&table, "%s", rate_text(rates.bytes, true).text);
    }
    table_print(&table, screen, 0, "no rails");
    table_deinit(&table);
}

void render_watch(const json_t *before, const json_t *now, double seconds,
                  const struct screen *screen)
{
    render_status(doc_get(now, "status"), screen);
    fputc('\n', screen->to);
    sessions_table(before, now, seconds, screen);
    fputc('\n', screen->to);
    rails_table(before, now, seconds, screen);
}

/* key=value with a plain number for programs; "-": unknown. */
static void number(const struct screen *screen, const char *key, double value)
{
    if (value < 0)
        fprintf(screen->to, " %s=-", key);
    else
        fprintf(screen->to, " %s=%.0f", key, value);
}

void render_watch_lines(const json_t *before, const json_t *now, double seconds, const char *time,
                        const struct screen *screen)
{
    const json_t *status = doc_get(now, "status");
    const char *starts = "status.engine.starts";

    screen_print(
        screen, "%s daemon state=%s cluster_ready=%s nodes_down=%lld sessions=%lld plans=%lld",
        time, doc_text(status, "daemon.state"), doc_true(status, "cluster.ready") ? "yes" : "no",
        doc_integer(status, "cluster.down"), doc_integer(status, "sessions"),
        doc_integer(status, "plans"));
    number(screen, "starts_per_s",
           before ? rate(doc_number(before, starts), doc_number(now, starts), seconds) : -1);
    fputc('\n', screen->to);
    for (size_t i = 0; i < doc_count(now, "sessions.sessions"); i++) {
        const json_t *session = doc_at(now, "sessions.sessions", i);
        struct rates rates = session_rates(before, session, seconds);
        fprintf(screen->to, "%s session id=%lld pid=%lld rank=%lld", time,
                doc_integer(session, "id"), doc_integer(session, "pid"),
                doc_integer(session, "rank"));
        number(screen, "starts_per_s", rates.starts);
        number(screen, "bytes_per_s", rates.bytes);
        fputc('\n', screen->to);
    }
    for (size_t i = 0; i < doc_count(status, "rails"); i++) {
        const json_t *rail = doc_at(status, "rails", i);
        screen_print(screen, "%s rail name=%s state=%s", time, doc_text(rail, "rail"),
                     doc_text(rail, "state"));
        struct rates rates = rail_rates(before, now, doc_text(rail, "rail"), seconds);
        number(screen, "starts_per_s", rates.starts);
        number(screen, "bytes_per_s", rates.bytes);
        fputc('\n', screen->to);
    }
}
