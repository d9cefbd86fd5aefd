/* Writes the seed corpora of board, copy, frame, message, layout and tcp: fuzz_seeds
 * tests/fuzz/corpus. The files are committed. */
#include <errno.h>
#include <string.h>

#include "proto/frame.h"
#include "proto/layout_internal.h"
#include "proto/member.h"
#include "proto/message.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/seeds.h"

static const char *root;

void write_seed(const char *target, const char *name, int first, const void *data, size_t bytes)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s/%s", root, target, name);
    FILE *file = fopen(path, "wb");
    if (!file) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
    if (first >= 0)
        fputc(first, file);
    fwrite(data, 1, bytes, file);
    fclose(file);
}

/* ---- frames: the first byte is explained in fuzz_frame.c ---- */

static void frame_seed(const char *name, int first, uint16_t flags, const char *payload)
{
    uint8_t data[256];
    struct frame_header header;
    frame_header_fill(&header, 7, (uint32_t)strlen(payload));
    header.flags = flags;
    memcpy(data, &header, sizeof(header));
    memcpy(data + sizeof(header), payload, strlen(payload));
    write_seed("frame", name, first, data, sizeof(header) + strlen(payload));
}

static void frame_seeds(void)
{
    frame_seed("empty", 0, 0, "");
    frame_seed("inline", 0, 0, "hello");
    frame_seed("descriptors", 3, 0, "hello");
    frame_seed("too-many-descriptors", 17, 0, "hello");
    frame_seed("memfd", 1 | 32 | 64, FRAME_IN_MEMFD, "hello");
    frame_seed("memfd-and-more", 5 | 32 | 64, FRAME_IN_MEMFD, "hello");
    frame_seed("memfd-not-sealed", 1 | 32, FRAME_IN_MEMFD, "hello");
    frame_seed("memfd-missing", 0, FRAME_IN_MEMFD, "");
    write_seed("frame", "http", 0, "GET / HTTP/1.1\r\n\r\n", 18);
}

/* ---- messages ---- */

static void message_seed(const char *name, const Tca__Message *message)
{
    uint8_t data[1024];
    FUZZ_REQUIRE(tca__message__get_packed_size(message) <= sizeof(data));
    write_seed("message", name, -1, data, tca__message__pack(message, data));
}

static ProtobufCBinaryData blob(const char *text)
{
    return (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)text};
}

static void plan_seed(void)
{
    Tca__Notify notify = TCA__NOTIFY__INIT;
    Tca__Wait wait = TCA__WAIT__INIT;
    Tca__Step steps[] = {TCA__STEP__INIT, TCA__STEP__INIT, TCA__STEP__INIT};
    Tca__Step *step_list[] = {&steps[0], &steps[1], &steps[2]};
    Tca__Chain chain = TCA__CHAIN__INIT, *chains[] = {&chain, &chain};
    Tca__PlanCommit commit = TCA__PLAN_COMMIT__INIT;
    Tca__Message message = TCA__MESSAGE__INIT;
    Tca__Put put = BODY_OF(put, .source_region = 1, .source_offset = 4096);
    put.source_layout = put.target_layout = blob("layout");
    put.handle = blob("handle");
    notify.rank = wait.rank = 1;
    wait.count = 2;
    steps[0].step_case = TCA__STEP__STEP_WAIT;
    steps[0].wait = &wait;
    steps[1].step_case = TCA__STEP__STEP_PUT;
    steps[1].put = &put;
    steps[1].flush = put.ordered = true;
    steps[2].step_case = TCA__STEP__STEP_NOTIFY;
    steps[2].notify = &notify;
    chain.n_steps = 3;
    chain.steps = step_list;
    commit.name = (char *)"halo";
    commit.n_chains = 2;
    commit.chains = chains;
    commit.timeout_ns = 1000000000;
    message = (Tca__Message)MESSAGE_OF(PLAN_COMMIT, plan_commit, &commit);
    message_seed("plan-commit", &message);
}

static void bind_seeds(void)
{
    Tca__BindPut puts[] = {TCA__BIND_PUT__INIT, TCA__BIND_PUT__INIT},
                 *put_list[] = {puts, puts + 1};
    Tca__PeerBind bind = TCA__PEER_BIND__INIT;
    Tca__Landing landing = TCA__LANDING__INIT, *landings[] = {&landing};
    Tca__BoundPut bounds[] = {TCA__BOUND_PUT__INIT, TCA__BOUND_PUT__INIT},
                  *bound_list[] = {bounds, bounds + 1};
    Tca__Message message = TCA__MESSAGE__INIT;
    Tca__RailKey key = TCA__RAIL_KEY__INIT, *keys[] = {&key};
    puts[0].handle = blob("handle");
    puts[0].layout = blob("layout");
    puts[0].offset = 4096;
    puts[1].notify = true;
    puts[1].notify_session = 3;
    bind.group = (char *)"job";
    key.driver = (char *)"ofi";
    key.plane = (char *)"ofi:tcp";
    bind.n_rails = 1;
    bind.rails = keys;
    bind.n_puts = 2;
    bind.puts = put_list;
    message = (Tca__Message)MESSAGE_OF(PEER_BIND, peer_bind, &bind);
    message_seed("peer-bind", &message);

    landing.rail = 1;
    landing.blob = blob("blob");
    bounds[0].binding = 7;
    bounds[0].n_landings = 1;
    bounds[0].landings = landings;
    Tca__PeerBound bound = BODY_OF(peer_bound, .n_puts = 2, .puts = bound_list);
    message = (Tca__Message)MESSAGE_OF(PEER_BOUND, peer_bound, &bound);
    message_seed("peer-bound", &message);

    Tca__Failure failure = BODY_OF(
        failure, .status = 23, .text = (char *)"region 3 of node 1 was freed: get a new handle");
    bound.n_puts = 0;
    bound.failure = &failure;
    bound.failed = 1;
    message_seed("peer-not-bound", &message);
}

static void offer_seeds(void)
{
    Tca__PeerOffered offered = TCA__PEER_OFFERED__INIT;
    Tca__Message message = TCA__MESSAGE__INIT;
    Tca__RailKey key = BODY_OF(rail_key, .driver = (char *)"hca", .plane = (char *)"hca:1");
    Tca__PeerOffer offer = BODY_OF(peer_offer, .rail = &key, .generation = offered.generation = 7);
    offer.offer = offered.offer = blob("queue pair");
    message = (Tca__Message)MESSAGE_OF(PEER_OFFER, peer_offer, &offer);
    message_seed("peer-offer", &message);
    message = (Tca__Message)MESSAGE_OF(PEER_OFFERED, peer_offered, &offered);
    message_seed("peer-offered", &message);
}

static void link_seeds(void)
{
    Tca__Message message = TCA__MESSAGE__INIT;

    Tca__PeerWelcome welcome =
        BODY_OF(peer_welcome, .resume_key = blob("that of the link"), .received = 300);
    message = (Tca__Message)MESSAGE_OF(PEER_WELCOME, peer_welcome, &welcome);
    message_seed("peer-welcome", &message);

    Tca__PeerPong pong = TCA__PEER_PONG__INIT;
    pong.received = UINT64_MAX;
    message = (Tca__Message)MESSAGE_OF(PEER_PONG, peer_pong, &pong);
    message_seed("peer-pong", &message);

    Tca__PeerLeave leave = TCA__PEER_LEAVE__INIT;
    message = (Tca__Message)MESSAGE_OF(PEER_LEAVE, peer_leave, &leave);
    message_seed("peer-leave", &message);

    uint32_t ended[] = {0, 3, 70000, 1};
    Tca__PeerGroupEnds ends = BODY_OF(peer_group_ends, .team = 77, .n_ended = 4, .ended = ended,
                                      .n_down = 2, .down = ended);
    message = (Tca__Message)MESSAGE_OF(PEER_GROUP_ENDS, peer_group_ends, &ends);
    message_seed("peer-group-ends", &message);
}

static void message_seeds(void)
{
    Tca__Message message = TCA__MESSAGE__INIT;
    message_seed("nothing", &message);

    Tca__Hello hello =
        BODY_OF(hello, .version = PROTO_VERSION, .name = (char *)"himeno", .group_size = 4);
    message = (Tca__Message)MESSAGE_OF(HELLO, hello, &hello);
    message_seed("hello", &message);

    Tca__Failure failure =
        BODY_OF(failure, .status = 15,
                .text = (char *)"region: 65 GiB asked, quota 64 GiB: raise quota_bytes");
    message = (Tca__Message)MESSAGE_OF(FAILURE, failure, &failure);
    message_seed("failure", &message);

    struct group_member members[] = {{0, 0, 1}, {300, 300, 70000}};
    Tca__GroupMembers group =
        BODY_OF(group_members, .members = {sizeof(members), (uint8_t *)members});
    message = (Tca__Message)MESSAGE_OF(GROUP_MEMBERS, group_members, &group);
    message_seed("group-members", &message);

    Tca__RailAddress rail = TCA__RAIL_ADDRESS__INIT, *rails[] = {&rail};
    Tca__PeerHello peer = TCA__PEER_HELLO__INIT;
    rail.driver = (char *)"ofi";
    rail.name = (char *)"ofi:tcp:eth0";
    rail.plane = (char *)"ofi:tcp";
    rail.address = blob("address");
    peer.version = PROTO_VERSION;
    peer.node_name = (char *)"node1";
    peer.cluster = (char *)"test";
    peer.n_rails = 1;
    peer.rails = rails;
    peer.link_key = blob("the key of a new");
    peer.resume_key = blob("that of the link");
    message = (Tca__Message)MESSAGE_OF(PEER_HELLO, peer_hello, &peer);
    message_seed("peer-hello", &message);

    uint64_t bindings[] = {1, 2, UINT64_MAX};
    Tca__PeerUnbind unbind = BODY_OF(peer_unbind, .n_bindings = 3, .bindings = bindings);
    message = (Tca__Message)MESSAGE_OF(PEER_UNBIND, peer_unbind, &unbind);
    message_seed("peer-unbind", &message);
    bind_seeds();
    offer_seeds();
    link_seeds();
    plan_seed();
}

/* ---- layouts: the first byte is explained in fuzz_layout.c ---- */

static void layout_seed(const char *name, struct layout *layout)
{
    write_seed("layout", name, 0, layout, layout_bytes(layout));
    free(layout);
}

static struct layout *repeat(struct layout *inner, uint64_t count, int64_t stride)
{
    struct layout *made;
    FUZZ_REQUIRE(layout_repeat(inner, count, stride, &made) == 0);
    free(inner);
    return made;
}

static struct layout *contiguous(uint64_t bytes)
{
    struct layout *made;
    FUZZ_REQUIRE(layout_contiguous(bytes, &made) == 0);
    return made;
}

/* 3 x (a list of two blocks, and a block); the fuzz target completes the header. */
static void list_seed(void)
{
    struct {
        struct layout header;
        struct layout_op ops[3];
        struct layout_pair pairs[2];
    } program = {
        .header = {.op_count = 3, .pair_count = 2, .ub_bytes = 100, .alignment = 1},
        .ops = {{.kind = LAYOUT_LOOP, .body = 2, .count = 3, .stride_bytes = 100},
                {.kind = LAYOUT_LIST, .body = 0, .count = 2},
                {.kind = LAYOUT_BLOCK, .count = 8, .offset_bytes = 64}},
        .pairs = {{0, 4}, {16, 4}},
    };
    write_seed("layout", "list", 1, &program, sizeof(program));
}

static void layout_seeds(void)
{
    layout_seed("empty", contiguous(0));
    layout_seed("contiguous", contiguous(4096));
    layout_seed("strided", repeat(contiguous(256), 64, 4096));
    layout_seed("backwards", repeat(contiguous(8), 5, -100));
    layout_seed("nested", repeat(repeat(repeat(contiguous(8), 4, 32), 3, 1000), 2, 100000));
    layout_seed("huge", repeat(repeat(contiguous(2), 1ull << 30, 4), 1ull << 30, 5ll << 30));
    list_seed();
}

/* ---- copies: fuzz_copy.c describes the format ---- */

static void copy_seeds(void)
{
    enum { LIST, LOOP, LOOP_TOO, BLOCK };
    static const uint8_t blocks[] = {0, 0, 63, BLOCK, 63, 0, 0, BLOCK, 15, 9, 0, BLOCK, 47, 3, 1},
                         lists[] = {0, 0,    47, LIST, 15, 3, 0, 0, 1, 0, 2, 1, 5, 0, 9,
                                    3, LIST, 7,  128,  0,  0, 3, 0, 0, 7, 2, 1, 1, 4, 4},
                         rows[] = {1,     0, 63, LOOP, 7,    0,  0, 0, 10, LOOP, 7,     0, 0, 0, 3,
                                   BLOCK, 0, 0,  0,    LOOP, 63, 0, 0, 0,  1,    BLOCK, 0, 0, 0},
                         nested[] = {2,    1, 31, LOOP_TOO, 3, 5,   0,     0, 60, LOOP, 3, 1,
                                     0,    0, 20, LIST,     3, 3,   0,     0, 1,  0,    3, 0,
                                     LOOP, 9, 2,  0,        0, 252, BLOCK, 7, 0,  0};
    write_seed("copy", "blocks", -1, blocks, sizeof(blocks));
    write_seed("copy", "lists", -1, lists, sizeof(lists));
    write_seed("copy", "rows", -1, rows, sizeof(rows));
    write_seed("copy", "nested", -1, nested, sizeof(nested));
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s CORPUS-DIRECTORY\n", argv[0]);
        return 2;
    }
    root = argv[1];
    board_seeds();
    copy_seeds();
    frame_seeds();
    message_seeds();
    layout_seeds();
    tcp_seeds();
    return 0;
}
