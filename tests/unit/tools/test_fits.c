/* Every list fits a terminal of 80 columns, whatever the values. */
#include <string.h>

#include "tests/unit/tools/show.h"
#include "tools/tcactl/table.h"

enum { COLUMNS = 80 };

/* Of any element of a list: as long as values get. */
#define LONGEST                                                                                    \
    "\"id\":4294967295,\"pid\":4194304,\"uid\":4294967294,\"name\":\"a-program-whose-name-has-"    \
    "sixty-three-letters-as-long-as-may-be\",\"group\":\"slurm-4294967295.4294967295-and-more\","  \
    "\"rank\":4095,\"size\":4096,\"regions\":65536,\"region_bytes\":1125899906842624,\"plans\":"   \
    "65536,\"starts\":123456789012,\"bytes\":1125899906842624,\"age_s\":86400000,\"pairs\":4096,"  \
    "\"pair_bytes\":1125899906842624,\"state\":\"running for 1000d 23h\",\"subcluster\":\"a-sub-"  \
    "cluster-with-a-long-name\",\"since_s\":86400000,\"rtt_us\":123456.7,\"rails\":[\"shm\","      \
    "\"tcp:"                                                                                       \
    "a-plane-with-a-name\",\"ofi:verbs;ofi_rxm:mlx5_0\"],\"encryption\":[{\"rail\":\"tcp\",\"seat" \
    "\":\"client\",\"encryption\":\"tls\"},{\"rail\":\"ofi\",\"seat\":\"daemon\",\"encryption\":"  \
    "\"none\"}],\"address\":\"[2001:db8:1234:5678:9abc:def0:1234:5678]:65535\",\"last_error\":"    \
    "\"it"                                                                                         \
    " has not answered for a long time, and nobody knows "                                         \
    "why\",\"session\":4294967295,\"bindings\""                                                    \
    ":65536,\"published\":[\"some\",\"names\"],\"region_bytes_max\":1125899906842624,\"bytes_"     \
    "max\""                                                                                        \
    ":1125899906842624,\"descriptors\":1048576,\"region_bytes_quarantined\":1125899906842624,"     \
    "\"sessions\":65536,\"device\":\"a-device-with-a-name\",\"memory_bytes\":1125899906842624,"    \
    "\"qps\":65536,\"cqs\":65536,\"memories\":65536,\"entries\":123456789012,\"errors\":"          \
    "123456789012,\"rail\":\"ofi:verbs;ofi_rxm:mlx5_0\",\"seat\":\"daemon\",\"nodes\":["           \
    "4294967291,"                                                                                  \
    "4294967292,4294967293,4294967294,4294967295],\"median_ns\":123456789,\"p99_ns\":1234567890,"  \
    "\"section\":\"limits\",\"key\":\"a-key-with-a-long-name-of-many-words\",\"value\":\"/a/path/" \
    "that/is/longer/than/a/line/of/the/terminal/because/somebody/likes/deep/folders\",\"origin\":" \
    "\"command line\",\"reloadable\":true,\"default\":\"$XDG_CACHE_HOME/tca/wisdom, or what else " \
    "there is\",\"meaning\":\"what it means in many words that go on below\",\"valid\":true,"      \
    "\"latency_ns\":123456789,\"hop_ns\":123456789,\"block_ns\":123456789,\"small_gb_per_s\":"     \
    "12345.67,\"large_gb_per_s\":12345.67,\"distance\":4294967295,\"blocks\":4294967295,\"mode\":" \
    "\"half\",\"piece_bytes\":1048576,\"ns\":123456789,\"labels\":{\"rail\":\"ofi:verbs;ofi_rxm:"  \
    "mlx5_0\",\"uid\":4294967294},\"help\":\"what it counts, in a sentence\",\"unit\":\"bytes\","  \
    "\"type\":\"counter\",\"samples\":[{\"labels\":{\"rail\":\"ofi:verbs;ofi_rxm:mlx5_0\",\"uid\"" \
    ":4294967294},\"value\":1125899906842624}]"

static unsigned longest_line(const char *text)
{
    unsigned longest = 0, width = 0;

    for (; *text; text++) {
        if (*text == '\033') /* a colour */
            text += strcspn(text, "m");
        else
            width = *text == '\n' ? 0 : width + 1;
        longest = width > longest ? width : longest;
    }
    return longest;
}

static void expect_fits(const char *what, struct shown *shown)
{
    fclose(shown->screen.to);
    cr_expect_leq(longest_line(shown->text), COLUMNS, "%s:\n%s", what, shown->text);
    cr_expect_gt(strlen(shown->text), 100, "%s:\n%s", what, shown->text);
    free(shown->text);
    free(shown);
}

Test(fits, every_list)
{
    static const struct {
        const char *list;
        render_function *render;
    } lists[] = {
        {"nodes", render_nodes},     {"sessions", render_sessions},  {"users", render_users},
        {"regions", render_regions}, {"processors", render_offload}, {"plans", render_plans},
        {"values", render_config},   {"rails", render_calibrate},    {"variables", render_env},
        {"entries", render_wisdom},  {"families", render_stats},
    };

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        char text[8192];
        snprintf(text, sizeof(text),
                 "{\"%s\":[{" LONGEST "},{" LONGEST "}],\"path\":\"/p\",\"file\":\"/f\","
                 "\"cluster_file\":\"/c\",\"socket\":\"/s\",\"why\":\"user\"}",
                 lists[i].list);
        json_t *doc = document(text);
        struct shown *shown = shown_begin(false, false);
        shown->screen.columns = COLUMNS;
        lists[i].render(doc, &shown->screen);
        expect_fits(lists[i].list, shown);
        json_decref(doc);
    }
}

Test(fits, status)
{
    json_t *doc = document(
        "{\"daemon\":{\"state\":\"draining\",\"uptime_s\":86400000,\"node\":4294967295,\"name\":"
        "\"a-"
        "node-with-a-long-name\",\"version\":\"10.20.30\",\"pid\":4194304,\"user\":\"a-user-with-a-"
        "name\",\"socket\":\"/run/user/4294967294/tcad/"
        "tcad.sock\"},\"cluster\":{\"name\":\"a-cluster-"
        "with-a-name\",\"nodes\":65536,\"connected\":65535,\"reconnecting\":12345,\"unknown\":"
        "12345,"
        "\"down\":12345,\"down_nodes\":[\"node10001\",\"node10002\",\"node10003\",\"node10004\"],"
        "\"silent_nodes\":[\"node10001\",\"node10005\",\"node10006\",\"node10007\"],\"security\":"
        "\"plain\"},\"rails\":[{" LONGEST ",\"detail\":\"what it says about itself, in many words "
        "that go "
        "on\",\"unprotected\":true,\"cut_off\":[\"node10001\",\"node10002\",\"node10003\"]}],"
        "\"sessions\":65536,\"regions\":{\"count\":4294967295,\"bytes\":1125899906842623,"
        "\"bytes_max\":1125899906842623,\"bytes_quarantined\":1125899906842623},\"plans\":"
        "4294967295,"
        "\"groups\":4294967295,\"engine\":{\"state\":\"running\",\"starts\":1234567890123,"
        "\"completions\":1234567890123,\"errors\":1234567890123,\"sleeps\":1234567890123},"
        "\"calibration\":{\"state\":\"measuring\",\"path\":\"/var/lib/tcad/calibration\","
        "\"disturbed\":true,\"load\":1234.5},\"warnings\":[\"what is wrong with this daemon, in as "
        "many "
        "words as it takes, and what can be done about it\"]}");
    struct shown *shown = shown_begin(true, true);
    shown->screen.columns = COLUMNS;
    render_status(doc, &shown->screen);
    json_decref(doc);
    expect_fits("status", shown);
}

Test(fits, rates)
{
    json_t *doc = document("{\"status\":{},\"sessions\":{\"sessions\":[{" LONGEST "}]},"
                           "\"stats\":{\"families\":[]}}");
    struct shown *shown = shown_begin(false, false);

    json_object_set_new(json_object_get(doc, "status"), "rails",
                        document("[{\"rail\":\"ofi:verbs;ofi_rxm:mlx5_0\",\"state\":\"up\"}]"));
    shown->screen.columns = COLUMNS;
    render_watch(doc, doc, 1, &shown->screen);
    json_decref(doc);
    expect_fits("watch", shown);
}

/* Words are cut, then columns go on another line. Titles and rows are folded alike. */
Test(fits, by_folding)
{
    static const char *const titles[] = {">ID", "NAME", ">BYTES", "STATE", ">ERRORS", NULL};
    struct shown *shown = shown_begin(false, false);
    struct table table;

    shown->screen.columns = 40;
    table_init(&table, titles);
    table_add(&table, "7");
    table_add(&table, "a name that is longer than twenty-four");
    table_add(&table, "123456789");
    table_add_state(&table, "up");
    table_add(&table, "0");
    table_add(&table, "12");
    table_add(&table, "n");
    table_add(&table, "1");
    table_add_state(&table, "down");
    table_add(&table, "12");
    table_print(&table, &shown->screen, 0, "none");
    table_deinit(&table);
    expect(shown, "ID  NAME                          BYTES\n"
                  "    STATE  ERRORS\n"
                  " 7  a name that is longer ..  123456789\n"
                  "    up          0\n"
                  "12  n                                 1\n"
                  "    down       12\n");
}
