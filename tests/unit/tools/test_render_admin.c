#include "tests/unit/tools/show.h"

Test(render_admin, config)
{
    expect_render(
        render_config,
        "{\"file\":\"/etc/tcad/"
        "tcad.conf\",\"cluster_file\":null,\"values\":[{\"section\":\"engine\",\"key\":\"spin\","
        "\"value\":\"50us\",\"default\":\"50us\",\"origin\":\"default\",\"reloadable\":true},{"
        "\"section\":\"node\","
        "\"key\":\"id\",\"value\":3,\"default\":\"\",\"origin\":\"file\",\"reloadable\":false}]}",
        "file /etc/tcad/tcad.conf\n"
        "cluster file -\n"
        "KEY          VALUE  ORIGIN   APPLIED BY  DEFAULT\n"
        "engine.spin  50us   default  reload      50us\n"
        "node.id      3      file     restart     none\n");
}

Test(render_admin, ping_and_drain)
{
    expect_render(render_ping,
                  "{\"node\":2,\"name\":\"node2\",\"count\":5,\"lost\":1,\"rtt_us\":{\"min\":100,"
                  "\"median\":150.5,\"max\":2000}}",
                  "node 2 (node2): 4 of 5 answered; min 100 us, median 150 us, max 2.00 ms\n");
    expect_render(render_ping,
                  "{\"node\":2,\"name\":\"node2\",\"count\":5,\"lost\":5,\"rtt_us\":null}",
                  "node 2 (node2): 0 of 5 answered\n");
    expect_render(render_drain, "{\"state\":\"draining\",\"sessions\":2}",
                  "draining: new sessions are refused; 2 open\n");
    expect_render(render_drain, "{\"state\":\"ready\",\"sessions\":0}",
                  "ready for new sessions; 0 open\n");
}

Test(render_admin, pings)
{
    expect_render(render_pings,
                  "{\"pings\":[{\"node\":1,\"name\":\"node1\",\"count\":5,\"lost\":0,\"rtt_us\":{"
                  "\"min\":100,\"median\":150.5,\"max\":2000},\"error\":\"\"},{\"node\":2,\"name\":"
                  "\"node2\",\"count\":1,\"lost\":1,\"rtt_us\":null,\"error\":\"it is down\"}]}",
                  "ID  NAME   SENT  LOST     MIN  MEDIAN      MAX  ERROR\n"
                  " 1  node1     5     0  100 us  150 us  2.00 ms\n"
                  " 2  node2     1     1       -       -        -  it is down\n");
    expect_render(render_pings, "{\"pings\":[]}", "no other nodes\n");
}

Test(render_admin, why)
{
    expect_render(
        render_why,
        "{\"node\":2,\"name\":\"node2\",\"state\":\"down\",\"since_s\":3,\"host\":{\"name\":"
        "\"node2.example\",\"error\":null,\"next_s\":null},\"addresses\":[{\"address\":\"10.0.0."
        "1\",\"result\":\"No route to host\"},{\"address\":\"fd00::1\",\"result\":\"another "
        "key\"}],\"called\":false,\"port\":7080,\"next_s\":2,\"key\":\"different\",\"protocol\":{"
        "\"here\":20,\"there\":null,\"version_here\":\"1\",\"version_there\":\"\"},\"cluster_"
        "file\":\"unknown\",\"rails\":[{\"rail\":\"tcp\",\"state\":\"unknown\",\"why\":\"the "
        "node is not connected\"}],\"problem\":\"the cluster keys differ\",\"remedy\":\"Copy the "
        "key.\"}",
        "node         node2 (id 2) down for 3s, next tried in 2s\n"
        "name         node2.example\n"
        "addresses    10.0.0.1 port 7080: No route to host\n"
        "             fd00::1 port 7080: another key\n"
        "key          different\n"
        "protocol     20 here (tcad 1), unknown there\n"
        "cluster file unknown\n"
        "rails        tcp unknown: the node is not connected\n"
        "problem      the cluster keys differ\n"
        "remedy       Copy the key.\n");
    expect_render(
        render_why,
        "{\"node\":2,\"name\":\"node2\",\"state\":\"up\",\"since_s\":3,\"host\":{\"name\":"
        "\"node2\",\"error\":\"no such name\",\"next_s\":9},\"addresses\":[],\"called\":true,"
        "\"key\":\"same\",\"protocol\":{\"here\":20,\"there\":20,\"version_here\":\"1\","
        "\"version_there\":\"1\"},\"cluster_file\":\"same\",\"rails\":[],\"problem\":\"\","
        "\"remedy\":\"Nothing.\"}",
        "node         node2 (id 2) up for 3s\n"
        "name         node2: no such name, next looked up in 9s at the earliest\n"
        "addresses    connected by the other node\n"
        "key          same\n"
        "protocol     20 here (tcad 1), 20 there (tcad 1)\n"
        "cluster file same\n"
        "rails        none that leads to other nodes\n"
        "remedy       Nothing.\n");
}

Test(render_admin, reload)
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

Test(render_admin, calibrate)
{
    expect_render(
        render_calibrate,
        "{\"path\":\"/"
        "c\",\"rails\":[{\"rail\":\"shm\",\"seat\":\"client\",\"valid\":true,\"latency_ns\":110,"
        "\"hop_ns\":0,\"block_ns\":1.5,\"small_gb_per_s\":0.0125,"
        "\"large_gb_per_s\":5.25},{\"rail\":\"peach2\",\"seat\":\"daemon\",\"valid\":true,"
        "\"latency_ns\":5000,\"hop_ns\":700,\"block_ns\":1.5,"
        "\"small_gb_per_s\":10,\"large_gb_per_s\":5.25},{"
        "\"rail\":\"ofi\","
        "\"seat\":\"daemon\",\"valid\":false}]}",
        "RAIL    SEAT         LATENCY  PER HOP  PER BLOCK       SMALL      LARGE\n"
        "shm     client        110 ns        -    1.50 ns  12.50 MB/s  5.25 GB/s\n"
        "peach2  daemon       5.00 us   700 ns    1.50 ns  10.00 GB/s  5.25 GB/s\n"
        "ofi     daemon  not measured        -          -           -          -\n"
        "stored in /c\n");
}

Test(render_admin, env)
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

Test(render_admin, wisdom)
{
    expect_render(render_wisdom, "{\"path\":\"/w\",\"entries\":[]}", "no wisdom\nstored in /w\n");
    expect_render(
        render_wisdom,
        "{\"path\":\"/w\",\"entries\":[{\"key\":\"0123456789abcdef\",\"bytes\":65536,"
        "\"blocks\":1,\"distance\":0,\"mode\":\"push\",\"stream\":true,\"piece_bytes\":0,"
        "\"ns\":12500},{\"key\":\"fedcba9876543210\",\"bytes\":8192,\"blocks\":1024,"
        "\"distance\":2,\"mode\":\"ring\",\"stream\":false,\"piece_bytes\":2048,\"ns\":3100},"
        "{\"key\":\"00\",\"bytes\":100000,\"blocks\":2,\"distance\":1,\"mode\":\"pull\","
        "\"stream\":false,\"piece_bytes\":0,\"ns\":900},{\"key\":\"11\",\"bytes\":4096,"
        "\"blocks\":1,\"distance\":0,\"mode\":null,\"stream\":false,\"piece_bytes\":0,"
        "\"rail\":\"tcp:b\",\"ns\":5000}]}",
        "   BYTES  BLOCKS  DISTANCE  CHOICE                    INTERVAL  KEY\n"
        "64.0 KiB       1         0  push, past the caches      12.5 us  01234567\n"
        "8.00 KiB    1024         2  ring, pieces of 2.00 KiB   3.10 us  fedcba98\n"
        "97.7 KiB       2         1  pull                        900 ns  00\n"
        "4.00 KiB       1         0  rail tcp:b                 5.00 us  11\n"
        "stored in /w\n");
}
