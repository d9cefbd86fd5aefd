#include "tests/unit/tools/show.h"

static const char status[] =
    "{\"daemon\":{\"version\":\"0.1.0\",\"pid\":42,\"uptime_s\":3661.5,\"node\":1,\"name\":"
    "\"node1\",\"incarnation\":\"00ff\","
    "\"state\":\"ready\",\"user\":\"me\",\"socket\":\"/run/tcad/tcad.sock\",\"runtime_dir\":\"/run/"
    "tcad\"},"
    "\"cluster\":{\"name\":\"lattice\",\"nodes\":4,\"connected\":2,\"unknown\":1,\"down\":3,\"down_"
    "nodes\":["
    "\"n1\",\"n4\"],\"ready\":false,"
    "\"security\":\"tls\"},"
    "\"sessions\":1,\"groups\":1,\"regions\":{\"count\":2,\"bytes\":3145728,"
    "\"bytes_quarantined\":1048576,\"bytes_max\":2147483648},\"plans\":3,"
    "\"engines\":[{\"state\":\"asleep\",\"sessions\":0,\"starts\":1234567,"
    "\"completions\":1234567,\"errors\":0,\"sleeps\":9},"
    "{\"state\":\"busy\",\"sessions\":1,\"starts\":2,\"completions\":1,\"errors\":0,"
    "\"sleeps\":0}],"
    "\"rails\":[{\"rail\":\"shm\",\"state\":\"up\",\"detail\":\"\",\"cut_off\":[]},{\"rail\":"
    "\"peach2\",\"state\":\"up\",\"detail\":\"ring of "
    "4\",\"cut_off\":[\"n2\",\"n3\"]},{\"rail\":\"ofi\",\"state\":"
    "\"down\",\"detail\":\"no "
    "provider\"}],\"calibration\":{\"state\":\"measured\",\"path\":\"/var/lib/tcad/calibration\"}}";

Test(render, status)
{
    expect_render(
        render_status, status,
        "tcad         ready, started 1h 1m ago, node 1 (node1)\n"
        "             version 0.1.0, pid 42 of me\n"
        "cluster      not ready, lattice: 4 nodes, 2 connected, 1 not contacted, 3 down (n1, n4, "
        "...)\n"
        "             security tls\n"
        "sessions     1, 2 regions (3.00 MiB of 2.00 GiB), 3 plans\n"
        "groups       1 coordinated here\n"
        "quarantined  1.00 MiB of freed regions, until no peer can write there\n"
        "engines      asleep, 0 sessions, 1.23 M starts, 0 errors, 9 sleeps\n"
        "             busy, 1 session, 2 starts, 0 errors, 0 sleeps\n"
        "rails        shm up\n"
        "             peach2 up, ring of 4, cut off (n2, n3)\n"
        "             ofi down, no provider\n"
        "calibration  measured, /var/lib/tcad/calibration\n"
        "socket       /run/tcad/tcad.sock\n");
}

Test(render, status_of_one_of_each)
{
    expect_render(
        render_status,
        "{\"daemon\":{\"version\":\"0.1.0\",\"pid\":42,\"uptime_s\":1,\"node\":0,\"name\":\"n0\","
        "\"state\":\"ready\",\"user\":\"me\",\"socket\":\"/s\"},"
        "\"cluster\":{\"name\":\"c\",\"nodes\":1,\"connected\":0,\"unknown\":0,\"down\":0,"
        "\"down_nodes\":[],\"ready\":true,\"security\":\"tls\"},"
        "\"sessions\":1,\"groups\":1,\"regions\":{\"count\":1,\"bytes\":1,\"bytes_max\":2},"
        "\"plans\":1,\"engines\":[{\"state\":\"asleep\",\"sessions\":1,\"starts\":1,"
        "\"completions\":1,\"errors\":1,\"sleeps\":1}],\"rails\":[],\"calibration\":{\"state\":"
        "\"off\",\"path\":\"\"}}",
        "tcad         ready, started 1s ago, node 0 (n0)\n"
        "             version 0.1.0, pid 42 of me\n"
        "cluster      ready, c: 1 node, 0 connected, 0 down\n"
        "             security tls\n"
        "sessions     1, 1 region (1 B of 2 B), 1 plan\n"
        "groups       1 coordinated here\n"
        "engine       asleep, 1 session, 1 start, 1 error, 1 sleep\n"
        "rails        none\n"
        "calibration  off\n"
        "socket       /s\n");
}

Test(render, status_of_a_calibration_under_load)
{
    json_t *doc = document(status);
    struct shown *shown = shown_begin(false, false);
    json_t *calibration = json_object_get(doc, "calibration");

    json_object_set_new(calibration, "disturbed", json_true());
    json_object_set_new(calibration, "load", json_real(9.87));
    render_status(doc, &shown->screen);
    json_decref(doc);
    fflush(shown->screen.to);
    cr_expect_not_null(strstr(shown->text,
                              "calibration  measured, /var/lib/tcad/calibration\n"
                              "             on a busy machine (load 9.9 per processor): "
                              "repeat tcactl calibrate\n"),
                       "%s", shown->text);
    fclose(shown->screen.to);
    free(shown->text);
    free(shown);
}

/* Between words; blanks and colours that are at the break go. */
Test(render, folded_lines)
{
    static const char text[] = "one two three?  four a-word-that-is-longer-than-lines five\n\n"
                               "    \033[32m\303\244\303\244\303\244 sixteen more\033[0m seven\n";
    struct shown *shown = shown_begin(false, false);
    shown->screen.columns = 20;
    screen_fold(&shown->screen, text, 4);
    shown->screen.columns = 0;
    screen_fold(&shown->screen, text, 4);
    expect(shown, "one two three?  four\n"
                  "    a-word-that-is-longer-than-lines\n"
                  "    five\n"
                  "\n"
                  "    \033[32m\303\244\303\244\303\244 sixteen more\033[0m\n"
                  "    seven\n"
                  "one two three?  four a-word-that-is-longer-than-lines five\n"
                  "\n"
                  "    \033[32m\303\244\303\244\303\244 sixteen more\033[0m seven\n");
}

/* A node that is down is not named again because it has not answered. */
Test(render, silent_nodes)
{
    static const struct {
        const char *silent, *text;
    } cases[] = {
        {"[\"n1\"]", ", 1 down (n1)\n"},
        {"[\"n1\",\"n2\",\"n3\"]", ", 1 down (n1), no answer from (n2, n3)\n"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct shown *shown = shown_begin(false, false);
        json_t *doc = document("{\"cluster\":{\"down\":1,\"down_nodes\":[\"n1\"]}}");
        json_object_set_new(json_object_get(doc, "cluster"), "silent_nodes",
                            document(cases[i].silent));
        render_status(doc, &shown->screen);
        json_decref(doc);
        fflush(shown->screen.to);
        cr_expect(strstr(shown->text, cases[i].text), "%s", shown->text);
        fclose(shown->screen.to);
        free(shown->text);
        free(shown);
    }
}

Test(render, nodes)
{
    expect_render(
        render_nodes,
        "{\"nodes\":[{\"id\":0,\"name\":\"node0\",\"address\":\"127.0.0.1:7080\",\"subcluster\":"
        "\"a\",\"state\":"
        "\"self\",\"since_s\":10,\"rtt_us\":0,\"rails\":[\"shm\"],\"encryption\":[],\"last_error\":"
        "\"\"},"
        "{\"id\":1,\"name\":\"n1\",\"address\":\"127.0.0.1:7082\",\"subcluster\":\"a\",\"state\":"
        "\"up\",\"since_s\":1,\"rtt_us\":99.5,\"rails\":[],\"encryption\":[{\"rail\":\"tcp\","
        "\"seat\":"
        "\"daemon\",\"encryption\":\"tls\"},{\"rail\":\"tcp\",\"seat\":\"client\",\"encryption\":"
        "\"none\"}],\"last_error\":\"\"},"
        "{\"id\":12,\"name\":\"node12\",\"address\":\"127.0.0.1:7081\",\"subcluster\":\"b\","
        "\"state\":\"down\","
        "\"since_s\":5,\"rtt_us\":215.5,\"rails\":[],\"encryption\":[{\"rail\":\"tcp\",\"seat\":"
        "\"daemon\",\"encryption\":\"tls\"},{\"rail\":\"tcp\",\"seat\":\"client\",\"encryption\":"
        "\"tls\"}],\"last_error\":\"no heartbeat\"}]}",
        "ID  NAME    SUB-CLUSTER  STATE  SINCE      RTT  RAILS  ENCRYPTION                         "
        "  ADDRESS         NOTE\n"
        " 0  node0   a            self     10s        -  shm    -                                  "
        "  127.0.0.1:7080\n"
        " 1  n1      a            up        1s  99.5 us  -      tcp (daemon) tls, tcp (client) "
        "none  127.0.0.1:7082\n"
        "12  node12  b            down      5s        -  -      tls                                "
        "  127.0.0.1:7081  no heartbeat\n");
}

static const char topology[] =
    "{\"cluster\":\"lattice\",\"self\":0,\"nodes\":[{\"id\":0,\"name\":\"n0\",\"subcluster\":\"a\","
    "\"state\":\"self\"},"
    "{\"id\":1,\"name\":\"n1\",\"subcluster\":\"a\",\"state\":\"up\"},{\"id\":2,\"name\":"
    "\"n\\\"2\",\"subcluster\":\"b\","
    "\"state\":\"down\"}],\"links\":[{\"from\":0,\"to\":1,\"rail\":\"ofi\",\"state\":\"up\"},"
    "{\"from\":0,\"to\":2,\"rail\":\"ofi\",\"state\":\"down\"}],\"fabrics\":[{\"rail\":\"peach2\","
    "\"shape\":\"ring of "
    "2\",\"boards\":[{\"node\":0,\"place\":0,\"state\":\"up\"},{\"node\":1,\"place\":1,\"state\":"
    "\"cut off\"}],"
    "\"cables\":[{\"from\":0,\"from_port\":\"E\",\"to\":1,\"to_port\":\"W\",\"state\":\"out\"},{"
    "\"from\":1,"
    "\"from_port\":\"E\",\"to\":0,\"to_port\":\"W\",\"state\":\"in\"}],\"faults\":[{\"text\":"
    "\"channel 2 stopped: x\",\"count\":2},{\"text\":\"packets discarded "
    "y\",\"count\":1}]}],\"machine\":{\"packages\":"
    "1,"
    "\"cores\":2,\"processors\":4,"
    "\"memory_bytes\":8589934592,\"numa_nodes\":1,\"devices\":[{\"name\":\"eth0\",\"type\":"
    "\"network\",\"numa_node\":0}]}}";

Test(render, topology)
{
    expect_render(render_topology, topology,
                  "cluster lattice: 3 nodes, seen from node 0\n"
                  "|- sub-cluster a\n"
                  "|  |- 0 n0 self\n"
                  "|  `- 1 n1 up, ofi up\n"
                  "`- sub-cluster b\n"
                  "   `- 2 n\"2 down, ofi down\n"
                  "peach2: ring of 2, boards 0 up, 1 cut off\n"
                  "|- 0 E - 1 W out\n"
                  "|- 1 E - 0 W in\n"
                  "|- this node's board: channel 2 stopped: x, 2 times\n"
                  "`- this node's board: packets discarded y, 1 time\n"
                  "this machine: 1 package, 2 cores, 4 processors, 1 NUMA node, 8.00 GiB\n"
                  "`- eth0, network, NUMA node 0\n");
}

Test(render, topology_dot)
{
    expect_render(
        render_topology_dot, topology,
        "graph \"lattice\" {\n"
        "    layout=fdp; overlap=false; splines=true; fontname=\"sans-serif\";\n"
        "    node [shape=box, style=\"rounded,filled\", fillcolor=white, "
        "fontname=\"sans-serif\"];\n"
        "    edge [fontname=\"sans-serif\", fontsize=10];\n"
        "    subgraph cluster_0 {\n"
        "        label=\"a\";\n"
        "        style=\"rounded,filled\"; color=\"#eceff1\";\n"
        "        n0 [label=\"n0\", color=\"#2e7d32\", penwidth=3, tooltip=\"self\"];\n"
        "        n1 [label=\"n1\", color=\"#2e7d32\", penwidth=1, tooltip=\"up\"];\n"
        "    }\n"
        "    subgraph cluster_1 {\n"
        "        label=\"b\";\n"
        "        style=\"rounded,filled\"; color=\"#eceff1\";\n"
        "        n2 [label=\"n\\\"2\", color=\"#c62828\", penwidth=1, tooltip=\"down\"];\n"
        "    }\n"
        "    n0 -- n1 [label=\"ofi\", color=\"#2e7d32\", style=solid];\n"
        "    n0 -- n2 [label=\"ofi\", color=\"#c62828\", style=dashed];\n"
        "    n1 [xlabel=\"peach2\", fontcolor=\"#c62828\", style=\"rounded,dashed\"];\n"
        "    n0 -- n1 [taillabel=\"E\", headlabel=\"W\", color=\"#c62828\", penwidth=3, "
        "style=dotted];\n"
        "    n1 -- n0 [taillabel=\"E\", headlabel=\"W\", color=\"#2e7d32\", penwidth=3, "
        "style=solid];\n"
        "}\n");
}

Test(render, sessions_and_regions)
{
    expect_render(
        render_sessions,
        "{\"sessions\":[{\"id\":3,\"pid\":100,\"uid\":0,\"name\":\"himeno\","
        "\"group\":\"run-1\","
        "\"rank\":0,\"size\":4,\"regions\":2,\"region_bytes\":2048,\"plans\":6,\"starts\":600,"
        "\"bytes\":1048576,"
        "\"age_s\":65}]}",
        "ID  PID  USER  NAME    GROUP  RANK  REGIONS    MEMORY  PLANS  STARTS     BYTES    AGE\n"
        " 3  100  root  himeno  run-1   0/4        2  2.00 KiB      6     600  1.00 MiB  1m 5s\n");
    expect_render(
        render_sessions,
        "{\"sessions\":[{\"id\":3,\"pid\":100,\"uid\":0,\"name\":\"himeno\","
        "\"group\":\"run-1\","
        "\"rank\":0,\"size\":4,\"regions\":2,\"region_bytes\":2048,\"plans\":6,\"pairs\":2,"
        "\"starts\":600,\"bytes\":1048576,"
        "\"age_s\":65}]}",
        "ID  PID  USER  NAME    GROUP  RANK  REGIONS    MEMORY  PLANS  STARTS     BYTES    AGE  "
        "PAIRS\n"
        " 3  100  root  himeno  run-1   0/4        2  2.00 KiB      6     600  1.00 MiB  1m 5s  "
        "    2\n");
    expect_render(render_regions,
                  "{\"regions\":[{\"id\":9,\"session\":3,\"pid\":100,\"bytes\":4096,\"address\":"
                  "\"0x200000000000\","
                  "\"bindings\":1,\"published\":[\"left\",\"right\"]}]}",
                  "ID  SESSION  PID     BYTES  ADDRESS         BINDINGS  PUBLISHED\n"
                  " 9        3  100  4.00 KiB  0x200000000000         1  left right\n");
}

Test(render, users)
{
    expect_render(
        render_users,
        "{\"users\":[{\"uid\":0,\"sessions\":2,\"regions\":3,\"plans\":6,\"descriptors\":11,"
        "\"region_bytes\":1048576,\"region_bytes_freed\":4096,\"region_bytes_max\":1073741824,"
        "\"bytes\":2048,\"bytes_max\":67108864,\"kinds\":{\"sessions\":2048}}]}",
        "USER  SESSIONS  REGIONS  PLANS    MEMORY        OF      TCAD        OF  FDS\n"
        "root         2        3      6  1.00 MiB  1.00 GiB  2.00 KiB  64.0 MiB   11\n");
    expect_render(
        render_users,
        "{\"users\":[{\"uid\":0,\"sessions\":2,\"regions\":3,\"plans\":6,\"descriptors\":11,"
        "\"region_bytes\":1048576,\"region_bytes_quarantined\":4096,\"region_bytes_max\":"
        "1073741824,"
        "\"bytes\":2048,\"bytes_max\":67108864}]}",
        "USER  SESSIONS  REGIONS  PLANS    MEMORY        OF      TCAD        OF  FDS  QUARANTINED\n"
        "root         2        3      6  1.00 MiB  1.00 GiB  2.00 KiB  64.0 MiB   11     4.00 "
        "KiB\n");
}

Test(render, offload)
{
    expect_render(
        render_offload,
        "{\"processors\":[{\"session\":3,\"pid\":100,\"uid\":0,\"name\":\"card\",\"device\":"
        "\"rxe0:1\",\"memory_bytes\":1048576,\"domains\":1,\"cqs\":2,\"qps\":4,\"memories\":5,"
        "\"entries\":1200,\"completions\":1000,\"errors\":7,\"bytes\":4096}]}",
        "SESSION  PID  USER  NAME  DEVICE    MEMORY  QPS  CQS  MRS  ENTRIES  ERRORS     BYTES\n"
        "      3  100  root  card  rxe0:1  1.00 MiB    4    2    5     1200       7  4.00 KiB\n");
}

Test(render, nothing_there)
{
    expect_render(render_nodes, "{\"nodes\":[]}", "no nodes\n");
    expect_render(render_sessions, "{\"sessions\":[]}", "no sessions\n");
    expect_render(render_users, "{\"users\":[]}", "no users\n");
    expect_render(render_offload, "{\"processors\":[]}", "no offload processors\n");
    expect_render(render_regions, "{\"regions\":[]}", "no regions\n");
    expect_render(render_plans, "{\"plans\":[]}", "no plans\n");
}

/* A daemon of another version, or a hostile one: every malformed document is displayed, and none is
 * trusted. */
Test(render, survives_wrong_documents)
{
    static render_function *const all[] = {
        render_status,   render_nodes,   render_topology, render_topology_dot, render_topology_svg,
        render_sessions, render_regions, render_plans,    render_plan,         render_config,
        render_users,    render_ping,    render_reload,   render_calibrate,    render_drain,
        render_env,      render_offload, render_simulate, render_why,          render_ready,
        render_pings,
    };
    static const char *const texts[] = {
        "{}",
        "[]",
        "[1,2]",
        ("{\"nodes\":[1,null,\"x\",{}],\"links\":[[]],\"fabrics\":[{\"boards\":[7,{}],\"cables\":["
         "null,{}]},3],\"sessions\":[{}],\"users\":[{},3],\"regions\":[null],\"processors\":[{},7],"
         "\"plans\":[{\"id\":7}],\"machine\":3,"
         "\"chains\":[{\"steps\":[{\"kind\":\"put\"},{\"kind\":4}],\"candidates\":[[]]}],"
         "\"values\":"
         "[{}],\"variables\":[{}],\"algorithms\":[{},4],\"steps\":[{},null,{}],"
         "\"rails\":[{}],\"errors\":[{}],\"applied\":[1],\"daemon\":[],\"cluster\":{\"added\":{}}"
         "}"),
        ("{\"rails\":[{\"valid\":true,\"latency_ns\":1e308}],\"sessions\":1e300,\"daemon\":{"
         "\"uptime_s\":1e300}}"),
    };
    for (size_t t = 0; t < sizeof(texts) / sizeof(*texts); t++)
        for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
            struct shown *shown = shown_begin(true, true);
            json_t *doc = document(texts[t]);
            all[i](doc, &shown->screen);
            json_decref(doc);
            fclose(shown->screen.to);
            cr_expect(shown->text);
            free(shown->text);
            free(shown);
        }
}
