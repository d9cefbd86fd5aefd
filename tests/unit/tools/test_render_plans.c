#include "tests/unit/tools/show.h"

#define TIMES "\"median_ns\":53200,\"p99_ns\":1200000"

Test(render_plans, plans)
{
    expect_render(
        render_plans,
        "{\"plans\":[{\"id\":\"3.0\",\"session\":3,\"pid\":100,\"name\":\"east\",\"rail\":\"ofi\","
        "\"seat\":\"daemon\",\"nodes\":[2,0],\"bytes\":65536,\"starts\":12,\"running_s\":0.5,"
        "\"errors\":0,\"state\":\"ready\"," TIMES "},"
        "{\"id\":\"3.1\",\"session\":3,\"pid\":100,\"name\":\"\",\"rail\":\"ofi\","
        "\"seat\":\"daemon\",\"nodes\":[1,2,3,4,5,6],\"bytes\":8,\"starts\":1,\"running_s\":63,"
        "\"errors\":0,\"state\":\"ready\"},"
        "{\"id\":\"3.2\",\"session\":3,\"pid\":100,\"name\":\"\",\"rail\":\"shm\","
        "\"seat\":\"client\",\"nodes\":[],\"bytes\":8,\"starts\":0,\"running_s\":null,"
        "\"errors\":2,\"state\":\"broken\"}]}",
        "ID   PID  NAME  STATE              RAIL  SEAT    TO             BYTES  STARTS   MEDIAN    "
        "  "
        "P99  ERRORS\n"
        "3.0  100  east  running            ofi   daemon  2 0         64.0 KiB      12  53.2 us  "
        "1.20 ms       0\n"
        "3.1  100  -     running for 1m 3s  ofi   daemon  1 2 3 4 +2       8 B       1        -    "
        "    "
        "-       0\n"
        "3.2  100  -     broken             shm   client  -                8 B       0        -    "
        "    "
        "-       2\n");
}

/* What a start that does not end waits for. */
Test(render_plans, plan_says_what_it_waits_for)
{
    expect_render(
        render_plan,
        "{\"id\":\"3.0\",\"name\":\"east\",\"session\":3,\"channel\":1,\"bytes\":8,"
        "\"starts\":12,\"rounds\":1,\"running_s\":12.2,\"errors\":1,\"state\":\"ready\",\"chains\":"
        "[{\"index\":0,\"rail\":\"peach2\",\"wanted_rail\":\"peach2\",\"seat\":\"daemon\","
        "\"predicted_ns\":500,"
        "\"steps\":[{\"kind\":\"put\",\"bytes\":8,\"blocks\":1,\"descriptors\":1,\"source\":"
        "{\"region\":1,\"offset\":0,\"layout\":\"contiguous\"},\"target\":{\"node\":2,"
        "\"region\":2,\"offset\":0,\"layout\":\"contiguous\"},\"link\":\"cut off\"},{\"kind\":"
        "\"notify\",\"node\":3,\"rank\":1,\"slot\":6,\"link\":\"down\"},{\"kind\":\"notify\","
        "\"node\":4,\"rank\":2,\"slot\":6,\"link\":\"up\"}]}]}",
        "plan 3.0 (east), session 3, channel 1: running for 12s, 8 B per start, 12 starts, 1 "
        "round, 1 failed\n"
        "\n"
        "chain 0: rail peach2, seat daemon; predicted 500 ns\n"
        "    0  put 8 B in 1 block, 1 descriptor\n"
        "         from region 1 at 0, contiguous\n"
        "         to   node 2 region 2 at 0, contiguous\n"
        "         the rail to node 2 is cut off\n"
        "    1  notify rank 1, slot 6\n"
        "         the rail to node 3 is down\n"
        "    2  notify rank 2, slot 6\n"
        "    no candidates: this chain moves no bytes\n");
}

Test(render_plans, plan_explains_itself)
{
    expect_render(
        render_plan,
        "{\"id\":\"3.0\",\"name\":\"east\",\"session\":3,\"channel\":1,\"bytes\":65536,"
        "\"starts\":12,\"state\":\"ready\",\"median_ns\":29000,\"p99_ns\":80000,"
        "\"chains\":[{\"index\":0,\"rail\":\"ofi\",\"wanted_rail\":\"peach2\",\"seat\":\"daemon\","
        "\"wanted_seat\":\"client\",\"predicted_ns\":30500,"
        "\"steps\":[{\"kind\":\"put\",\"bytes\":65536,\"blocks\":128,\"descriptors\":1,"
        "\"gathered\":true,\"after\":3,\"source\":{"
        "\"region\":5,\"offset\":512,\"layout\":\"128 x 512 B every "
        "4096\"},\"target\":{\"node\":2,\"region\":7,\"offset\":0,"
        "\"layout\":\"contiguous\"},\"notify\":{\"rank\":1,\"slot\":4},\"ordered\":true,"
        "\"flush\":true},{\"kind\":"
        "\"wait\",\"rank\":1,\"slot\":5,\"count\":2},"
        "{\"kind\":\"notify\",\"rank\":1,\"slot\":6}],\"candidates\":[{\"rail\":\"shm\","
        "\"seat\":\"client\",\"predicted_ns\":"
        "null,\"hops\":0,\"chosen\":false,\"why\":\"other "
        "node\"},{\"rail\":\"peach2\",\"seat\":\"daemon\",\"predicted_ns\":40000,\"hops\":8,"
        "\"chosen\":false,\"blocks\":14,\"ns\":51000,\"why\":\"slower by trial\"},"
        "{\"rail\":\"ofi\",\"seat\":\"daemon\",\"predicted_ns\":30500,\"hops\":0,"
        "\"chosen\":true,\"why\":\"\"}]}]}",
        "plan 3.0 (east), session 3, channel 1: ready, 64.0 KiB per start, 12 starts\n"
        "measured in the daemon seat: median 29.0 us, p99 80.0 us\n"
        "\n"
        "chain 0: rail ofi (away from peach2), seat daemon (below client); predicted 30.5 us\n"
        "    0  put 64.0 KiB in 128 blocks, 1 descriptor, gathered and scattered\n"
        "         from region 5 at 512, 128 x 512 B every 4096\n"
        "         to   node 2 region 7 at 0, contiguous\n"
        "         then notify rank 1, slot 4\n"
        "         visible only after all earlier puts\n"
        "         after step 3, which uses some of the same bytes\n"
        "         then waits until all puts so far are complete remotely\n"
        "    1  wait rank 1, slot 5, count 2\n"
        "    2  notify rank 1, slot 6\n"
        "    RAIL    SEAT    PREDICTED  BLOCKS  INTERVAL  HOPS  CHOSEN  WHY\n"
        "    shm     client          -       -         -     -          other node\n"
        "    peach2  daemon    40.0 us      14   51.0 us     8          slower by trial\n"
        "    ofi     daemon    30.5 us       -         -     -  chosen\n");
}

/* The process puts over its own connection; each start chooses what it moves. */
Test(render_plans, plan_shows_its_pair_and_what_it_moved)
{
#define PUT_OVER(pair)                                                                             \
    "{\"kind\":\"put\",\"bytes\":4096,\"blocks\":1,\"descriptors\":1,\"parts\":true,\"source\":{"  \
    "\"region\":1,\"offset\":0,\"layout\":\"contiguous\"},\"target\":{\"node\":1,\"region\":2,"    \
    "\"offset\":0,\"layout\":\"contiguous\"},\"pair\":" pair "}"
#define OPEN(encrypted)                                                                            \
    "{\"node\":1,\"ended\":false,\"session\":5,\"rail\":\"tcp:lo\",\"encrypted\":" encrypted       \
    ",\"bytes\":900000}"
#define ENDED "{\"node\":1,\"ended\":true,\"session\":null,\"rail\":null,\"encrypted\":null}"
    expect_render(
        render_plan,
        "{\"id\":\"3.0\",\"name\":\"\",\"session\":3,\"channel\":0,\"bytes\":8192,\"starts\":3,"
        "\"parts\":true,\"moved_bytes\":2048,\"state\":\"ready\",\"chains\":[{\"index\":0,"
        "\"rail\":\"tcp:lo\",\"seat\":\"client\",\"predicted_ns\":100,\"steps\":[" PUT_OVER(
            OPEN("true")) "," PUT_OVER(ENDED) ",{\"kind\":\"notify\",\"rank\":1,\"slot\":6,"
                                              "\"pair\":" OPEN("false") "}]}]}",
        "plan 3.0 (-), session 3, channel 0: ready, 8.00 KiB per start at most, 3 starts, 2.00 KiB "
        "moved\n"
        "\n"
        "chain 0: rail tcp:lo, seat client; predicted 100 ns\n"
        "    0  put 4.00 KiB in 1 block, 1 descriptor\n"
        "         at most: each start chooses the part that it moves\n"
        "         from region 1 at 0, contiguous\n"
        "         to   node 1 region 2 at 0, contiguous\n"
        "         over a connection of the two processes to session 5 of node 1: rail tcp:lo, "
        "encrypted; up to 879 KiB in each\n"
        "    1  put 4.00 KiB in 1 block, 1 descriptor\n"
        "         at most: each start chooses the part that it moves\n"
        "         from region 1 at 0, contiguous\n"
        "         to   node 1 region 2 at 0, contiguous\n"
        "         over a connection of the two processes, which has ended\n"
        "    2  notify rank 1, slot 6\n"
        "         over a connection of the two processes to session 5 of node 1: rail tcp:lo, in "
        "clear; up to 879 KiB in each\n"
        "    no candidates: this chain moves no bytes\n");
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
    "plan 3.0 (-), session 3, channel 0: ready, 8 B per start, 0 starts\n\nchain 0: rail shm, "    \
    "seat "                                                                                        \
    "client; predicted 100 ns\n"                                                                   \
    "    0  put 8 B in 1 block, 1 descriptor\n         from region 1 at 0, contiguous\n"           \
    "         to   node 0 region 2 at 0, contiguous\n" copy                                        \
    "    no candidates: this chain moves no bytes\n"

Test(render_plans, plan_explains_its_copying)
{
    expect_render(render_plan, PLAN_OF_COPY("null"), SHOWN_OF_COPY(""));
    expect_render(render_plan, PLAN_OF_COPY("{\"methods\":[\"push\"],\"first_up_to_ns\":null}"),
                  SHOWN_OF_COPY("         copy mode push\n"));
    expect_render(render_plan,
                  PLAN_OF_COPY("{\"methods\":[\"half\",\"ring\"],\"first_up_to_ns\":130}"),
                  SHOWN_OF_COPY("         copy mode half up to 130 ns of distance, else ring\n"));
    expect_render(
        render_plan,
        PLAN_OF_COPY(
            "{\"methods\":[\"ring\"],\"first_up_to_ns\":null,\"tried\":["
            "{\"mode\":\"push\",\"stream\":true,\"piece_bytes\":0,\"blocks\":1,\"ns\":2500,"
            "\"chosen\":false},{\"mode\":\"ring\",\"stream\":false,\"piece_bytes\":2048,"
            "\"blocks\":26,\"ns\":900,\"chosen\":true}]}"),
        SHOWN_OF_COPY("         copy mode ring\n"
                      "         tried push past the caches: 2.50 us from start to start, 1 block\n"
                      "               ring in pieces of 2.00 KiB: 900 ns from start to start, 26 "
                      "blocks, chosen\n"));
}

/* Which algorithm carries out the collective operation of the plan, and why. */
Test(render_plans, plan_shows_its_collective_operation)
{
#define PLAN(collective)                                                                           \
    "{\"id\":\"3.0\",\"name\":\"broadcast, trinary\",\"session\":3,\"channel\":0,\"bytes\":8,"     \
    "\"starts\":1,\"state\":\"ready\",\"chains\":[],\"collective\":" collective "}"
#define LINE "plan 3.0 (broadcast, trinary), session 3, channel 0: ready, 8 B per start, 1 start\n"
    expect_render(render_plan, PLAN("null"), LINE);
    expect_render(
        render_plan,
        PLAN("{\"operation\":\"broadcast\",\"algorithm\":\"trinary\",\"requested\":false,\"ranks\":"
             "16,"
             "\"root\":3,\"bytes\":1048576,\"segment_bytes\":16384,\"per_node\":4,"
             "\"per_subcluster\":2,\"candidates\":[{\"algorithm\":\"direct\",\"predicted_ns\":"
             "1500000,"
             "\"segment_bytes\":null,\"chosen\":false},{\"algorithm\":\"trinary\",\"predicted_ns\":"
             "250000,\"segment_bytes\":16384,\"chosen\":true}]}"),
        LINE
        "broadcast of 1.00 MiB, root 3, among 16 ranks: algorithm trinary in pieces of 16.0 KiB, "
        "by predicted cost:\n"
        "    ALGORITHM  PREDICTED    PIECES  CHOSEN\n"
        "    direct       1.50 ms         -\n"
        "    trinary       250 us  16.0 KiB  chosen\n"
        "    all ranks: tcactl simulate broadcast 1048576 --ranks 16 --ppn 4 --subcluster 2 "
        "--root 3 --algorithm trinary --segment 16384 --steps\n");
    expect_render(
        render_plan,
        PLAN("{\"operation\":\"alltoall\",\"algorithm\":\"direct\",\"requested\":true,\"ranks\":1,"
             "\"root\":0,\"bytes\":0,\"segment_bytes\":null,\"per_node\":null,"
             "\"per_subcluster\":null,\"candidates\":[]}"),
        LINE "alltoall, among 1 rank: algorithm direct, requested by the program\n");
#undef PLAN
#undef LINE
}
