/* Counters, and their rates. */
#include "tests/unit/tools/show.h"

static const char stats[] = "{\"families\":[{\"name\":\"tcad_bytes\",\"type\":\"counter\",\"unit\":"
                            "\"bytes\",\"help\":\"moved\",\"samples\":[{"
                            "\"labels\":{\"rail\":\"shm\"},\"value\":2048},{\"labels\":{\"rail\":"
                            "\"ofi\"},\"value\":0}]},{\"name\":\"tcad_sessions\","
                            "\"type\":\"gauge\",\"unit\":\"\",\"help\":\"open\",\"samples\":[{"
                            "\"labels\":{\"uid\":1000},\"value\":3}]}]}";

Test(render_rates, stats)
{
    json_t *doc = document(stats);
    struct shown *shown = shown_begin(false, false);

    render_stats(doc, &shown->screen);
    expect(shown, "NAME           LABELS       VALUE  MEANING\n"
                  "tcad_bytes     rail=shm  2.00 KiB  moved\n"
                  "tcad_bytes     rail=ofi       0 B\n"
                  "tcad_sessions  uid=1000         3  open\n");
    shown = shown_begin(false, false);
    cr_expect(stats_select(doc, "sess"));
    render_stats(doc, &shown->screen);
    expect(shown,
           "NAME           LABELS    VALUE  MEANING\ntcad_sessions  uid=1000      3  open\n");
    shown = shown_begin(false, false);
    cr_expect_not(stats_select(doc, "nothing"));
    render_stats(doc, &shown->screen);
    expect(shown, "no statistics contain the word in their name: \"tcactl stats\" lists all\n");
    json_decref(doc);
}

/* Two seconds apart; session 7 is new, so it has no rate; the counter of shm has restarted. */
static const char then[] =
    "{\"status\":{\"daemon\":{\"state\":\"ready\"},\"cluster\":{\"ready\":"
    "true,\"down\":0},\"sessions\":1,\"plans\":1,"
    "\"engine\":{\"starts\":100},\"rails\":[{\"rail\":\"shm\",\"state\":"
    "\"up\"},{\"rail\":\"ofi\",\"state\":\"up\"}]},"
    "\"sessions\":{\"sessions\":[{\"id\":3,\"pid\":100,\"rank\":0,"
    "\"starts\":100,\"bytes\":1000}]},\"stats\":{\"families\":[{"
    "\"name\":\"tcad_plan_put_bytes\",\"type\":\"counter\",\"unit\":\"bytes\","
    "\"samples\":[{\"labels\":{\"rail\":\"shm\"},\"value\":"
    "500},{\"labels\":{\"rail\":\"ofi\"},\"value\":0}]}]}}";
static const char later[] = "{\"status\":{\"daemon\":{\"state\":\"degraded\"},\"cluster\":{"
                            "\"ready\":false,\"down\":1},\"sessions\":2,\"plans\":1,"
                            "\"engine\":{\"starts\":300},\"rails\":[{\"rail\":\"shm\",\"state\":"
                            "\"up\"},{\"rail\":\"ofi\",\"state\":\"down\"}]},"
                            "\"sessions\":{\"sessions\":[{\"id\":3,\"pid\":100,\"rank\":0,"
                            "\"starts\":300,\"bytes\":5000},{\"id\":7,\"pid\":101,"
                            "\"rank\":1,\"starts\":50,\"bytes\":50}]},\"stats\":{\"families\":[{"
                            "\"name\":\"tcad_plan_put_bytes\",\"type\":\"counter\",\"unit\":"
                            "\"bytes\",\"samples\":[{\"labels\":{\"rail\":\"shm\"},\"value\":100},{"
                            "\"labels\":{\"rail\":\"ofi\"},\"value\":4096}]}]}}";

Test(render_rates, watch_lines)
{
    json_t *before = document(then), *now = document(later);
    struct shown *shown = shown_begin(false, false);

    render_watch_lines(before, now, 2, "T", &shown->screen);
    expect(shown, "T daemon state=degraded cluster_ready=no nodes_down=1 sessions=2 plans=1 "
                  "starts_per_s=100\n"
                  "T session id=3 pid=100 rank=0 starts_per_s=100 bytes_per_s=2000\n"
                  "T session id=7 pid=101 rank=1 starts_per_s=- bytes_per_s=-\n"
                  "T rail name=shm state=up starts_per_s=- bytes_per_s=-\n"
                  "T rail name=ofi state=down starts_per_s=- bytes_per_s=2048\n");
    shown = shown_begin(false, false);
    render_watch_lines(NULL, before, 0, "T", &shown->screen);
    expect(shown,
           "T daemon state=ready cluster_ready=yes nodes_down=0 sessions=1 plans=1 starts_per_s=-\n"
           "T session id=3 pid=100 rank=0 starts_per_s=- bytes_per_s=-\n"
           "T rail name=shm state=up starts_per_s=- bytes_per_s=-\n"
           "T rail name=ofi state=up starts_per_s=- bytes_per_s=-\n");
    json_decref(before);
    json_decref(now);
}

Test(render_rates, watch)
{
    json_t *before = document(then), *now = document(later);
    struct shown *shown = shown_begin(false, false);

    render_watch(before, now, 2, &shown->screen);
    fflush(shown->screen.to);
    const char *tables = strstr(shown->text, "\n\n");
    cr_assert(tables);
    cr_expect_str_eq(tables, "\n\n"
                             "ID  PID  NAME  GROUP  RANK  PLANS  STARTS       BYTES\n"
                             " 3  100  -     -       0/0      0   100/s  1.95 KiB/s\n"
                             " 7  101  -     -       1/0      0       -           -\n"
                             "\n"
                             "RAIL  STATE  STARTS       BYTES\n"
                             "shm   up          -           -\n"
                             "ofi   down        -  2.00 KiB/s\n");
    fclose(shown->screen.to);
    free(shown->text);
    free(shown);
    json_decref(before);
    json_decref(now);
}
