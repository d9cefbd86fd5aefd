/* drivers/manycore: what each of several offload processors gets, served round by round. One of
 * them is greedy: it has many queue pairs, long transfers, or queues full of garbage. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "drivers/manycore/loop.h"
#include "drivers/manycore/port.h"
#include "drivers/manycore/server.h"

enum {
    PROCESSORS = 4,
    GREEDY = 0,
    GREEDY_QPS = 32, /* and receive queues, which need space for their completions */
    ENTRIES = 256,
    CQ_ENTRIES = 16384,
    MEMORY_BYTES = 1 << 20,
    ROUNDS = 400,
};

/* The processor's side of its queues. */
struct processor {
    struct port *port;
    struct ring cq, sends[GREEDY_QPS];
    uint32_t key, qps;
    uint64_t done, bytes, failed; /* completed entries; of them in error */
    uint64_t most;                /* entries that were taken in one round */
};

static struct verbs_device *device;
static struct port_server *server;
static struct port_stats totals;
static struct processor processors[PROCESSORS];

static void on_broken(void *context, const char *why)
{
    (void)context;
    cr_assert_fail("%s", why);
}

static struct port_created create(struct processor *processor, struct port_request request)
{
    struct port_created created;
    char text[256] = "";
    cr_assert_eq(port_create(processor->port, &request, &created, text, sizeof(text)), 0, "%s",
                 text);
    return created;
}

/* A queue pair that leads to itself. */
static void make_qp(struct processor *processor)
{
    const struct port_created made = create(
        processor,
        (struct port_request){.kind = DCFA_QP, .entries = ENTRIES, .receive_entries = ENTRIES});
    char text[256] = "";
    cr_assert_eq(port_connect(processor->port, made.id, made.address, DCFA_ADDRESS_BYTES, text,
                              sizeof(text)),
                 0, "%s", text);
    dcfa_ring_init(&processor->sends[processor->qps++],
                   (uint8_t *)processor->port->head + made.queue.offset, sizeof(struct dcfa_entry),
                   ENTRIES);
}

static void make(struct processor *processor, struct port_owner owner, uint32_t qps)
{
    *processor = (struct processor){0};
    cr_assert_eq(
        port_new(server, device, owner, MEMORY_BYTES, &totals, on_broken, NULL, &processor->port),
        0);
    memset((uint8_t *)processor->port->head + PORT_QUEUE_BYTES, 1, MEMORY_BYTES);
    memset((uint8_t *)processor->port->head + DCFA_PAGE_BYTES, 0,
           PORT_QUEUE_BYTES - DCFA_PAGE_BYTES);
    create(processor, (struct port_request){.kind = DCFA_DOMAIN});
    const struct port_created memory =
        create(processor, (struct port_request){.kind = DCFA_MEMORY,
                                                .offset = PORT_QUEUE_BYTES,
                                                .bytes = MEMORY_BYTES,
                                                .address = PORT_QUEUE_BYTES,
                                                .access = DCFA_ACCESS_ALL});
    processor->key = memory.local_key;
    const struct port_created cq =
        create(processor, (struct port_request){.kind = DCFA_CQ, .entries = CQ_ENTRIES});
    dcfa_ring_init(&processor->cq, (uint8_t *)processor->port->head + cq.queue.offset,
                   sizeof(struct dcfa_completion_entry), CQ_ENTRIES);
    while (processor->qps < qps)
        make_qp(processor);
}

static void set_up(void)
{
    cr_assert_eq(verbs_open_loop(&device), 0);
    cr_assert_eq(port_server_new(device, 1000, 1000, &server), 0);
    for (unsigned i = 0; i < PROCESSORS; i++)
        make(&processors[i], (struct port_owner){.user = 1000}, i == GREEDY ? GREEDY_QPS : 1);
    port_server_lock(server); /* from now on, this thread serves */
}

static void close_all(void)
{
    for (unsigned i = 0; i < PROCESSORS; i++)
        port_free(processors[i].port);
    port_server_free(server);
    device->ops->close(device);
}

static void tear_down(void)
{
    port_server_unlock(server);
    close_all();
}

TestSuite(manycore, .init = set_up, .fini = tear_down, .timeout = 120);

/* Fills its queues with writes of so many bytes, opcode: or something that is none. */
static void fill(struct processor *processor, unsigned opcode, uint32_t bytes)
{
    const struct dcfa_entry entry = {.id = bytes,
                                     .opcode = (uint8_t)opcode,
                                     .flags = DCFA_FLAG_SIGNALLED,
                                     .count = 1,
                                     .pieces = {{PORT_QUEUE_BYTES, bytes, processor->key}},
                                     .remote_address = PORT_QUEUE_BYTES,
                                     .remote_key = processor->key};
    uint64_t posted = 0;
    for (uint32_t i = 0; i < processor->qps; i++)
        while (ring_push(&processor->sends[i], &entry) == 0)
            posted++;
    if (processor->done > 0 && posted > processor->most)
        processor->most = posted;
}

static void take(struct processor *processor)
{
    struct dcfa_completion_entry entry;
    while (ring_pop(&processor->cq, &entry) > 0) {
        processor->done++;
        processor->failed += entry.status != DCFA_ST_OK;
        processor->bytes += entry.status == DCFA_ST_OK ? entry.id : 0;
    }
}

static void serve(unsigned opcode, uint32_t greedy_bytes, uint32_t bytes)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < PROCESSORS; i++)
            fill(&processors[i], i == GREEDY ? opcode : DCFA_OP_WRITE,
                 i == GREEDY ? greedy_bytes : bytes);
        port_server_round(server);
        for (unsigned i = 0; i < PROCESSORS; i++)
            take(&processors[i]);
    }
}

/* In per cent of what the last one got, which is as modest as the others. */
static void expect_share(uint64_t got, uint64_t least, uint64_t most, unsigned processor)
{
    const uint64_t share = 100 * got / processors[PROCESSORS - 1].bytes;
    cr_expect(share >= least && share <= most, "processor %u has %d %% of another's bytes",
              processor, (int)share);
}

static void expect_equal(uint64_t least, uint64_t most)
{
    for (unsigned i = 0; i < PROCESSORS; i++) {
        cr_expect_eq(processors[i].failed, 0, "processor %u", i);
        expect_share(processors[i].bytes, i == GREEDY ? least : 99, i == GREEDY ? most : 101, i);
    }
}

Test(manycore, many_queue_pairs_get_no_more_than_one)
{
    serve(DCFA_OP_WRITE, 8, 8);
    expect_equal(95, 105);
    cr_expect_geq(processors[PROCESSORS - 1].done, ROUNDS * 10); /* and not one by one */
}

/* Some are still on their way at the end. */
Test(manycore, long_transfers_get_no_more_than_short_ones)
{
    serve(DCFA_OP_WRITE, 2 * LOOP_SLICE_BYTES, 16 << 10);
    expect_equal(85, 105);
}

/* Each of its queue pairs gets its turn. */
Test(manycore, queue_pairs_of_one_processor_take_turns)
{
    serve(DCFA_OP_WRITE, LOOP_SLICE_BYTES, LOOP_SLICE_BYTES);
    expect_equal(90, 110);
    for (uint32_t i = 0; i < GREEDY_QPS; i++) {
        const uint32_t posted = processors[GREEDY].port->qps[i]->send.first;
        cr_expect(posted >= ROUNDS / GREEDY_QPS - 1 && posted <= ROUNDS / GREEDY_QPS + 2,
                  "queue pair %u has completed %u of %d entries", i, posted, ROUNDS);
    }
}

/* Its queue pairs fail, and what it goes on to post is flushed; that costs it its own share
 * only. */
Test(manycore, garbage_takes_nothing_from_others)
{
    serve(99, 8, 8);
    for (uint32_t i = 0; i < GREEDY_QPS; i++)
        cr_expect(processors[GREEDY].port->qps[i]->send.failed, "queue pair %u has had no turn", i);
    cr_expect_gt(processors[GREEDY].failed, ROUNDS * 10);
    cr_expect_leq(processors[GREEDY].most, 100, "%d entries in one round",
                  (int)processors[GREEDY].most);
    for (unsigned i = 1; i < PROCESSORS; i++) {
        cr_expect_eq(processors[i].failed, 0);
        cr_expect_geq(processors[i].done, ROUNDS * 10);
    }
}

/* ---- whose queue pairs can be connected ---- */

static struct port_created new_qp(struct processor *processor)
{
    return create(processor,
                  (struct port_request){.kind = DCFA_QP, .entries = 2, .receive_entries = 2});
}

static int connect_to(struct processor *processor, const struct port_created *qp,
                      const uint8_t *address, const char *text)
{
    char said[256] = "";
    int r = port_connect(processor->port, qp->id, address, DCFA_ADDRESS_BYTES, said, sizeof(said));
    cr_expect(r == 0 || strstr(said, text), "%s", said);
    return r;
}

/* Those of one user of one cluster, by addresses that nobody has changed. */
Test(manycore_owners, one_user)
{
    static const struct port_owner owners[PROCESSORS] = {
        {1000, {1, 2}}, {1000, {1, 2}}, {1001, {1, 2}}, {1000, {3, 4}}};
    cr_assert_eq(verbs_open_loop(&device), 0);
    cr_assert_eq(port_server_new(device, 1000, 1000, &server), 0);
    for (unsigned i = 0; i < PROCESSORS; i++)
        make(&processors[i], owners[i], 0);
    const struct port_created mine = new_qp(&processors[0]), other = new_qp(&processors[1]),
                              stranger = new_qp(&processors[2]), foreign = new_qp(&processors[3]);
    cr_expect_eq(connect_to(&processors[2], &stranger, mine.address, "another user"), -EACCES);
    cr_expect_eq(connect_to(&processors[0], &mine, stranger.address, "another user"), -EACCES);
    cr_expect_eq(connect_to(&processors[0], &mine, foreign.address, "this cluster"), -EINVAL);
    for (unsigned i = 0; i < DCFA_ADDRESS_BYTES; i++) {
        uint8_t forged[DCFA_ADDRESS_BYTES];
        memcpy(forged, other.address, sizeof(forged));
        forged[i] ^= 1;
        cr_expect_eq(connect_to(&processors[0], &mine, forged, "this cluster"), -EINVAL, "byte %u",
                     i);
    }
    cr_expect_eq(connect_to(&processors[0], &mine, other.address, ""), 0);
    cr_expect_eq(connect_to(&processors[1], &other, mine.address, ""), 0);
    close_all();
}
