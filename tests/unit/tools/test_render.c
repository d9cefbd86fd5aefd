#include "tests/unit/tools/show.h"

static const char status[] =
    "{\"daemon\":{\"version\":\"0.1.0\",\"pid\":42,\"uptime_s\":3661.5,\"node\":1,\"name\":"
    "\"node1\",\"incarnation\":\"00ff\","
    "\"state\":\"ready\",\"user\":\"me\",\"socket\":\"/run/tcad/tcad.sock\",\"runtime_dir\":\"/run/"
    "tcad\"},"
    "\"cluster\":{\"name\":\"lattice\",\"nodes\":4,\"connected\":2,\"down\":1,\"ready\":false,"
    "\"security\":\"tls\"},"
    "\"sessions\":1,\"groups\":1,\"regions\":{\"count\":2,\"bytes\":3145728},\"plans\":3,"
    "\"engine\":{\"state\":\"asleep\",\"starts\":1234567,\"completions\":1234567,\"errors\":0,"
    "\"sleeps\":9},"
    "\"rails\":[{\"rail\":\"shm\",\"state\":\"up\",\"detail\":\"\"},{\"rail\":\"ofi\",\"state\":"
    "\"down\",\"detail\":\"no "
    "provider\"}],\"calibration\":{\"state\":\"measured\",\"path\":\"/var/lib/tcad/calibration\"}}";

Test(render, status)
{
    expect_render(
        render_status, status,
        "tcad         ready, started 1h 1m ago, node 1 (node1), pid 42 of me, version 0.1.0\n"
        "cluster      not ready, lattice: 4 nodes, 2 connected, 1 down, security tls\n"
        "sessions     1 in 1 group, 2 regions of 3.00 MiB, 3 plans\n"
        "engine       asleep, 1.23 M starts, 1.23 M completions, 0 errors, 9 sleeps\n"
        "rails        shm up\n"
        "             ofi down, no provider\n"
        "calibration  measured, /var/lib/tcad/calibration\n"
        "socket       /run/tcad/tcad.sock\n");
}

Test(render, nodes)
{
    expect_render(
        render_nodes,
        "{\"nodes\":[{\"id\":0,\"name\":\"node0\",\"address\":\"127.0.0.1:7080\",\"subcluster\":"
        "\"a\",\"state\":"
        "\"self\",\"since_s\":10,\"rtt_us\":0,\"rails\":[\"shm\"],\"last_error\":\"\"},"
        "{\"id\":12,\"name\":\"node12\",\"address\":\"127.0.0.1:7081\",\"subcluster\":\"b\","
        "\"state\":\"down\","
        "\"since_s\":5,\"rtt_us\":215.5,\"rails\":[],\"last_error\":\"no heartbeat\"}]}",
        "ID  NAME    SUB-CLUSTER  STATE  SINCE     RTT  RAILS  ADDRESS         NOTE\n"
        " 0  node0   a            self     10s       -  shm    127.0.0.1:7080\n"
        "12  node12  b            down      5s  216 us  -      127.0.0.1:7081  no heartbeat\n");
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
    "\"from_port\":\"E\",\"to\":0,\"to_port\":\"W\",\"state\":\"in\"}]}],\"machine\":{\"packages\":"
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
                  "`- 1 E - 0 W in\n"
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
    expect_render(render_regions,
                  "{\"regions\":[{\"id\":9,\"session\":3,\"pid\":100,\"bytes\":4096,\"address\":"
                  "\"0x200000000000\","
                  "\"bindings\":1,\"published\":[\"left\",\"right\"]}]}",
                  "ID  SESSION  PID     BYTES  ADDRESS         BINDINGS  PUBLISHED\n"
                  " 9        3  100  4.00 KiB  0x200000000000         1  left right\n");
}

Test(render, plans)
{
    expect_render(
        render_plans,
        "{\"plans\":[{\"id\":\"3.0\",\"session\":3,\"pid\":100,\"name\":\"east\",\"channel\":1,"
        "\"chains\":2,"
        "\"steps\":4,\"rail\":\"ofi\",\"seat\":\"daemon\",\"bytes\":65536,\"starts\":12,"
        "\"running\":true,\"errors\":"
        "0,\"state\":\"ready\"},{\"id\":\"3.1\",\"session\":3,\"pid\":100,\"name\":\"\","
        "\"channel\":0,\"chains\":1,"
        "\"steps\":1,\"rail\":\"shm\",\"seat\":\"client\",\"bytes\":8,\"starts\":0,\"running\":"
        "true,\"errors\":2,"
        "\"state\":\"broken\"}]}",
        "ID   PID  NAME  STATE    RAIL  SEAT    CHAN  CHAINS  STEPS     BYTES  STARTS  ERRORS\n"
        "3.0  100  east  running  ofi   daemon     1       2      4  64.0 KiB      12       0\n"
        "3.1  100  -     broken   shm   client     0       1      1       8 B       0       2\n");
}

Test(render, plan_explains_itself)
{
    expect_render(render_plan,
                  "{\"id\":\"3.0\",\"name\":\"east\",\"session\":3,\"channel\":1,\"bytes\":65536,"
                  "\"starts\":12,\"state\":\"ready\",\"median_ns\":29000,\"p99_ns\":80000,"
                  "\"chains\":[{\"index\":0,\"rail\":\"ofi\",\"seat\":\"daemon\",\"predicted_ns\":"
                  "30500,"
                  "\"steps\":[{\"kind\":\"put\",\"bytes\":65536,\"blocks\":128,\"descriptors\":1,"
                  "\"gathered\":true,\"source\":{"
                  "\"region\":5,\"offset\":512,\"layout\":\"128 x 512 B every "
                  "4096\"},\"target\":{\"node\":2,\"region\":7,\"offset\":0,"
                  "\"layout\":\"contiguous\"},\"notify\":{\"rank\":1,\"slot\":4}},{\"kind\":"
                  "\"wait\",\"rank\":1,\"slot\":5,\"count\":2},"
                  "{\"kind\":\"notify\",\"rank\":1,\"slot\":6}],\"candidates\":[{\"rail\":\"shm\","
                  "\"seat\":\"client\",\"predicted_ns\":"
                  "null,\"chosen\":false,\"why\":\"other "
                  "node\"},{\"rail\":\"ofi\",\"seat\":\"daemon\",\"predicted_ns\":30500,"
                  "\"chosen\":true,\"why\":\"\"}]}]}",
                  "plan 3.0 (east), session 3, channel 1: ready, 64.0 KiB a start, 12 starts\n"
                  "measured in the daemon seat: median 29.0 us, p99 80.0 us\n"
                  "\n"
                  "chain 0: rail ofi, seat daemon; predicted 30.5 us\n"
                  "    0  put 64.0 KiB in 128 blocks, 1 descriptor, gathered and scattered\n"
                  "         from region 5 at 512, 128 x 512 B every 4096\n"
                  "         to   node 2 region 7 at 0, contiguous\n"
                  "         then notify rank 1, slot 4\n"
                  "    1  wait rank 1, slot 5, count 2\n"
                  "    2  notify rank 1, slot 6\n"
                  "    RAIL  SEAT    PREDICTED  CHOSEN  WHY\n"
                  "    shm   client          -          other node\n"
                  "    ofi   daemon    30.5 us  chosen\n");
}

#define PLAN_OF_COPY(copy)                                                                         \
    "{\"id\":\"3.0\",\"name\":\"\",\"session\":3,\"channel\":0,\"bytes\":8,\"starts\":0,"          \
    "\"state\":\"ready\",\"chains\":[{\"index\":0,"                                                \
    "\"rail\":\"shm\",\"seat\":\"client\",\"predicted_ns\":100,\"steps\":[{\"kind\":\"put\","      \
    "\"bytes\":8,\"blocks\":1,"                                                                    \
    "\"descriptors\":1,\"source\":{\"region\":1,\"offset\":0,\"layout\":\"contiguous\"},"          \
    "\"target\":{\"node\":0,\"region\":2,"                                                         \
    "\"offset\":0,\"layout\":\"contiguous\"},\"notify\":null,\"copy\":" copy "}]}]}"
#define SHOWN_OF_COPY(copy)                                                                        \
    "plan 3.0 (-), session 3, channel 0: ready, 8 B a start, 0 starts\n\nchain 0: rail shm, seat " \
    "client; predicted 100 ns\n"                                                                   \
    "    0  put 8 B in 1 block, 1 descriptor\n         from region 1 at 0, contiguous\n"           \
    "         to   node 0 region 2 at 0, contiguous\n" copy                                        \
    "    no candidates: this chain moves no bytes\n"

Test(render, plan_explains_its_copying)
{
    expect_render(render_plan, PLAN_OF_COPY("null"), SHOWN_OF_COPY(""));
    expect_render(render_plan, PLAN_OF_COPY("{\"ways\":[\"push\"],\"first_up_to_ns\":null}"),
                  SHOWN_OF_COPY("         copied by push\n"));
    expect_render(
        render_plan, PLAN_OF_COPY("{\"ways\":[\"half\",\"ring\"],\"first_up_to_ns\":130}"),
        SHOWN_OF_COPY("         copied by half up to 130 ns of distance, else by ring\n"));
}

Test(render, config)
{
    expect_render(
        render_config,
        "{\"file\":\"/etc/tcad/"
        "tcad.conf\",\"cluster_file\":null,\"values\":[{\"section\":\"engine\",\"key\":\"spin\","
        "\"value\":\"50us\",\"default\":\"50us\",\"origin\":\"default\",\"reloadable\":true},{"
        "\"section\":\"node\","
        "\"key\":\"id\",\"value\":3,\"default\":\"\",\"origin\":\"file\",\"reloadable\":false}]}",
        "file /etc/tcad/tcad.conf, cluster file -\n"
        "KEY          VALUE  ORIGIN   APPLIED BY  DEFAULT\n"
        "engine.spin  50us   default  reload      50us\n"
        "node.id      3      file     restart     none\n");
}

Test(render, ping_and_drain)
{
    expect_render(render_ping,
                  "{\"node\":2,\"name\":\"node2\",\"count\":5,\"lost\":1,\"rtt_us\":{\"min\":100,"
                  "\"median\":150.5,\"max\":2000}}",
                  "node 2 (node2): 4 of 5 answered; min 100 us, median 150 us, max 2.00 ms\n");
    expect_render(render_ping,
                  "{\"node\":2,\"name\":\"node2\",\"count\":5,\"lost\":5,\"rtt_us\":null}",
                  "node 2 (node2): 0 of 5 answered\n");
    expect_render(render_drain, "{\"state\":\"draining\",\"sessions\":2}",
                  "draining: no new sessions; 2 still open\n");
    expect_render(render_drain, "{\"state\":\"ready\",\"sessions\":0}",
                  "ready for new sessions; 0 open\n");
}

Test(render, reload)
{
    expect_render(render_reload,
                  "{\"applied\":[\"engine.spin\"],\"not_applied\":[{\"key\":\"node.id\",\"why\":"
                  "\"needs a restart\"}],\"errors\":[],"
                  "\"cluster\":{\"added\":[\"node4\",\"node5\"],\"removed\":[],\"moved\":[]}}",
                  "applied: engine.spin\n"
                  "not applied: node.id, needs a restart\n"
                  "nodes added: node4 node5\n");
    expect_render(
        render_reload,
        "{\"applied\":[],\"not_applied\":[],\"errors\":[{\"file\":\"tcad.conf\",\"line\":3,"
        "\"text\":\"no such key\"}],"
        "\"cluster\":{\"added\":[],\"removed\":[],\"moved\":[]}}",
        "tcad.conf:3: no such key\nnothing was applied: correct the errors and reload again\n");
    expect_render(render_reload, "{\"applied\":[],\"not_applied\":[],\"errors\":[],\"cluster\":{}}",
                  "nothing has changed\n");
}

Test(render, calibrate)
{
    expect_render(
        render_calibrate,
        "{\"path\":\"/"
        "c\",\"rails\":[{\"rail\":\"shm\",\"seat\":\"client\",\"valid\":true,\"latency_ns\":110,"
        "\"descriptor_ns\":20,\"block_ns\":1.5,\"small_gb_per_s\":10,\"large_gb_per_s\":5.25},{"
        "\"rail\":\"ofi\","
        "\"seat\":\"daemon\",\"valid\":false}]}",
        "RAIL  SEAT         LATENCY  PER DESCRIPTOR  PER BLOCK       SMALL      LARGE\n"
        "shm   client        110 ns           20 ns    1.50 ns  10.00 GB/s  5.25 GB/s\n"
        "ofi   daemon  not measured               -          -           -          -\n"
        "kept in /c\n");
#define WAYS  "\"half_line\":0.155,\"ring_line_ns\":13.9"
#define SHOWN "no rails\ncopying by half: 0.155 of the distance a line; by ring: 13.9 ns a line\n"
    expect_render(render_calibrate,
                  "{\"path\":\"/c\",\"rails\":[],\"ways\":{\"valid\":true,\"error\":\"\"," WAYS
                  "}}",
                  SHOWN "kept in /c\n");
    expect_render(render_calibrate,
                  "{\"path\":\"/c\",\"rails\":[],\"ways\":{\"valid\":false,\"error\":\"busy\"," WAYS
                  "}}",
                  SHOWN "these are defaults: busy\nkept in /c\n");
}

static const char stats[] = "{\"families\":[{\"name\":\"tcad_bytes\",\"type\":\"counter\",\"unit\":"
                            "\"bytes\",\"help\":\"moved\",\"samples\":[{"
                            "\"labels\":{\"rail\":\"shm\"},\"value\":2048},{\"labels\":{\"rail\":"
                            "\"ofi\"},\"value\":0}]},{\"name\":\"tcad_sessions\","
                            "\"type\":\"gauge\",\"unit\":\"\",\"help\":\"open\",\"samples\":[{"
                            "\"labels\":{},\"value\":3}]}]}";

Test(render, stats)
{
    json_t *doc = document(stats);
    struct shown *shown = shown_begin(false, false);

    render_stats(doc, NULL, &shown->screen);
    expect(shown, "NAME           LABELS       VALUE  MEANING\n"
                  "tcad_bytes     rail=shm  2.00 KiB  moved\n"
                  "tcad_bytes     rail=ofi       0 B\n"
                  "tcad_sessions                   3  open\n");
    shown = shown_begin(false, false);
    render_stats(doc, "sess", &shown->screen);
    expect(shown, "NAME           LABELS  VALUE  MEANING\ntcad_sessions              3  open\n");
    shown = shown_begin(false, false);
    render_stats(doc, "nothing", &shown->screen);
    expect(shown, "no such statistics\n");
    json_decref(doc);
}

/* Two seconds apart; session 7 is new, so it has no rate; the counter of shm has begun anew. */
static const char then[] = "{\"status\":{\"daemon\":{\"state\":\"ready\"},\"cluster\":{\"ready\":"
                           "true,\"down\":0},\"sessions\":1,\"plans\":1,"
                           "\"engine\":{\"starts\":100},\"rails\":[{\"rail\":\"shm\",\"state\":"
                           "\"up\"},{\"rail\":\"ofi\",\"state\":\"up\"}]},"
                           "\"sessions\":{\"sessions\":[{\"id\":3,\"pid\":100,\"rank\":0,"
                           "\"starts\":100,\"bytes\":1000}]},\"stats\":{\"families\":[{"
                           "\"name\":\"rail_bytes\",\"type\":\"counter\",\"unit\":\"bytes\","
                           "\"samples\":[{\"labels\":{\"rail\":\"shm\"},\"value\":"
                           "500},{\"labels\":{\"rail\":\"ofi\"},\"value\":0}]}]}}";
static const char later[] = "{\"status\":{\"daemon\":{\"state\":\"degraded\"},\"cluster\":{"
                            "\"ready\":false,\"down\":1},\"sessions\":2,\"plans\":1,"
                            "\"engine\":{\"starts\":300},\"rails\":[{\"rail\":\"shm\",\"state\":"
                            "\"up\"},{\"rail\":\"ofi\",\"state\":\"down\"}]},"
                            "\"sessions\":{\"sessions\":[{\"id\":3,\"pid\":100,\"rank\":0,"
                            "\"starts\":300,\"bytes\":5000},{\"id\":7,\"pid\":101,"
                            "\"rank\":1,\"starts\":50,\"bytes\":50}]},\"stats\":{\"families\":[{"
                            "\"name\":\"rail_bytes\",\"type\":\"counter\",\"unit\":"
                            "\"bytes\",\"samples\":[{\"labels\":{\"rail\":\"shm\"},\"value\":100},{"
                            "\"labels\":{\"rail\":\"ofi\"},\"value\":4096}]}]}}";

Test(render, watch_lines)
{
    json_t *before = document(then), *now = document(later);
    struct shown *shown = shown_begin(false, false);

    render_watch_lines(before, now, 2, "T", &shown->screen);
    expect(shown, "T daemon state=degraded cluster_ready=no nodes_down=1 sessions=2 plans=1 "
                  "starts_per_s=100\n"
                  "T session id=3 pid=100 rank=0 starts_per_s=100 bytes_per_s=2000\n"
                  "T session id=7 pid=101 rank=1 starts_per_s=- bytes_per_s=-\n"
                  "T rail name=shm state=up rail_bytes_per_s=-\n"
                  "T rail name=ofi state=down rail_bytes_per_s=2048\n");
    shown = shown_begin(false, false);
    render_watch_lines(NULL, before, 0, "T", &shown->screen);
    expect(shown,
           "T daemon state=ready cluster_ready=yes nodes_down=0 sessions=1 plans=1 starts_per_s=-\n"
           "T session id=3 pid=100 rank=0 starts_per_s=- bytes_per_s=-\n"
           "T rail name=shm state=up rail_bytes_per_s=-\n"
           "T rail name=ofi state=up rail_bytes_per_s=-\n");
    json_decref(before);
    json_decref(now);
}

Test(render, env)
{
    expect_render(render_env,
                  "{\"variables\":[{\"name\":\"TCA_NODE\",\"value\":null,\"default\":\"\","
                  "\"meaning\":\"the node\"},{\"name\":"
                  "\"TCA_SPIN\",\"value\":\"1us\",\"default\":\"50us\",\"meaning\":\"how "
                  "long\"}],\"socket\":\"/s\",\"why\":"
                  "\"user\"}",
                  "VARIABLE  VALUE      DEFAULT  MEANING\n"
                  "TCA_NODE  (not set)  -        the node\n"
                  "TCA_SPIN  1us        50us     how long\n"
                  "socket in use: /s (user)\n");
}

Test(render, nothing_there)
{
    expect_render(render_nodes, "{\"nodes\":[]}", "no nodes\n");
    expect_render(render_sessions, "{\"sessions\":[]}", "no sessions\n");
    expect_render(render_regions, "{\"regions\":[]}", "no regions\n");
    expect_render(render_plans, "{\"plans\":[]}", "no plans\n");
}

/* Another version's daemon, or a hostile one: every document that is not what it should be is
 * shown, none is believed. */
Test(render, survives_wrong_documents)
{
    static render_function *const all[] = {
        render_status,  render_nodes,     render_topology, render_topology_dot, render_sessions,
        render_regions, render_plans,     render_plan,     render_config,       render_ping,
        render_reload,  render_calibrate, render_drain,    render_env,
    };
    static const char *const texts[] = {
        "{}",
        "[]",
        "[1,2]",
        "{\"nodes\":[1,null,\"x\",{}],\"links\":[[]],\"fabrics\":[{\"boards\":[7,{}],\"cables\":["
        "null,{}]},3],\"sessions\":[{}],\"regions\":[null],"
        "\"plans\":[{\"id\":7}],\"machine\":3,"
        "\"chains\":[{\"steps\":[{\"kind\":\"put\"},{\"kind\":4}],\"candidates\":[[]]}],\"values\":"
        "[{}],\"variables\":[{}],"
        "\"rails\":[{}],\"errors\":[{}],\"applied\":[1],\"daemon\":[],\"cluster\":{\"added\":{}}}",
        "{\"rails\":[{\"valid\":true,\"latency_ns\":1e308}],\"sessions\":1e300,\"daemon\":{"
        "\"uptime_s\":1e300}}",
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
