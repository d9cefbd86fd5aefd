/*
 * A daemon of the cluster that sends messages which no driver sends: nothing outside the landing is
 * written, nobody is notified who should not be, and only its own connection is lost. Needs a
 * device: tests/vm/run.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/hca/hca.h"
#include "tests/unit/drivers/kit.h"

enum { REGION = 1 << 16, TOKEN = 7, OFFSET = 4096, BYTES = 1000 };

static struct side victim, attacker, honest;
static struct layout *layout;
static struct driver_landing *landing;
static struct hca_blob blob;
static struct hca_peer *peer;
static struct driver_peer *back;

static void setup(void)
{
    size_t bytes;
    struct driver_peer *to;
    cr_assert(side_open(&victim, "hca", 0, REGION) == 0);
    cr_assert(side_open(&attacker, "hca", 0, REGION) == 0);
    cr_assert(connect_sides(&attacker, &victim, &to, &back) == 0);
    peer = (struct hca_peer *)to;
    memset(victim.memory, 0x11, REGION);
    cr_assert(layout_contiguous(BYTES, &layout) == 0);
    struct driver_landing_args args = {.region = victim.region,
                                       .offset_bytes = OFFSET,
                                       .layout = layout,
                                       .notify = true,
                                       .token = TOKEN};
    cr_assert(victim.driver->ops->landing_new(victim.driver, &args, &landing, &blob, &bytes) == 0);
}

/* Another peer of the victim is served as before. */
static void teardown(void)
{
    struct driver_peer *to, *from;
    struct driver_put *put;
    struct driver_put_info info;
    struct op op;
    const unsigned before = victim.notified_count;
    cr_assert(side_open(&honest, "hca", 0, REGION) == 0);
    cr_assert(connect_sides(&honest, &victim, &to, &from) == 0);
    struct driver *driver = honest.driver;
    struct driver_put_args args = {.peer = to,
                                   .region = honest.region,
                                   .layout = layout,
                                   .landing = &blob,
                                   .landing_bytes = sizeof(blob),
                                   .target_layout = layout};
    cr_assert(driver->ops->put_prepare(driver, &args, &put, &info) == 0);
    op_init(&op);
    cr_assert(post(&honest, &victim, put, &op) == 0);
    cr_assert(pump_until(&honest, &victim, &op.done, 1) && op.status == 0);
    cr_assert(pump_until(&honest, &victim, &victim.notified_count, before + 1));

    driver->ops->put_release(driver, put);
    victim.driver->ops->landing_free(victim.driver, landing);
    driver->ops->peer_disconnect(driver, to);
    victim.driver->ops->peer_disconnect(victim.driver, from);
    victim.driver->ops->peer_disconnect(victim.driver, back);
    attacker.driver->ops->peer_disconnect(attacker.driver, (struct driver_peer *)peer);
    side_close(&honest);
    side_close(&attacker);
    side_close(&victim);
    free(layout);
}

TestSuite(hca_hostile, .init = setup, .fini = teardown, .timeout = 120);

static struct hca_head head_of(uint64_t position, uint32_t length)
{
    return (struct hca_head){.kind = HCA_PIECE,
                             .flags = HCA_LAST,
                             .length_bytes = length,
                             .landing = blob.landing,
                             .generation = blob.generation,
                             .position_bytes = position};
}

/* Sends so many bytes that begin with the head. */
static void say(const struct hca_head *head, uint32_t bytes)
{
    uint8_t *buffer = peer->buffers;
    struct ibv_sge sge = {
        .addr = (uintptr_t)buffer, .length = bytes, .lkey = peer->buffers_mr->lkey};
    struct ibv_send_wr request = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
    memset(buffer, 0xee, peer->hca->segment_bytes);
    memcpy(buffer, head, bytes < sizeof(*head) ? bytes : sizeof(*head));
    cr_assert(hca_send_chain(peer, &request, 1, NULL) == 0);
}

static void check_untouched(void)
{
    for (unsigned i = 0; i < REGION; i++)
        if (victim.memory[i] != 0x11)
            cr_assert_fail("byte %u was written", i);
}

/* Its connection is lost, and nothing else has happened. */
static void check_rejected(void)
{
    cr_assert(pump_until(&victim, NULL, &victim.downs, 1), "was accepted");
    cr_assert(victim.down_error == -ENETDOWN && victim.notified_count == 0);
    check_untouched();
}

Test(hca_hostile, less_than_a_head)
{
    const struct hca_head head = head_of(0, 0);
    say(&head, sizeof(head) - 1);
    check_rejected();
}

Test(hca_hostile, another_length)
{
    const struct hca_head head = head_of(0, 9);
    say(&head, sizeof(head) + 8);
    check_rejected();
}

Test(hca_hostile, behind_the_landing)
{
    const struct hca_head head = head_of(BYTES - 7, 8);
    say(&head, sizeof(head) + 8);
    check_rejected();
}

Test(hca_hostile, a_position_that_overflows)
{
    const struct hca_head head = head_of(UINT64_MAX - 3, 8);
    say(&head, sizeof(head) + 8);
    check_rejected();
}

Test(hca_hostile, more_than_the_landing)
{
    const struct hca_head head = head_of(0, BYTES + 1);
    say(&head, sizeof(head) + BYTES + 1);
    check_rejected();
}

Test(hca_hostile, an_unknown_kind)
{
    struct hca_head head = head_of(0, 0);
    head.kind = HCA_RECALL + 1;
    say(&head, sizeof(head));
    check_rejected();
}

Test(hca_hostile, counts_what_was_not_sent)
{
    struct hca_head head = head_of(0, 0);
    head.kind = HCA_COUNT;
    head.counted = 1;
    say(&head, sizeof(head));
    check_rejected();
}

Test(hca_hostile, recalls_half_a_number)
{
    struct hca_head head = head_of(0, 12);
    head.kind = HCA_RECALL;
    say(&head, sizeof(head) + 12);
    check_rejected();
}

Test(hca_hostile, longer_than_the_buffer)
{
    const struct hca_head head = head_of(0, peer->hca->segment_bytes);
    say(&head, peer->hca->segment_bytes + (uint32_t)sizeof(head));
    check_rejected();
}

/* What could be late for a landing that was freed is no reason to end the connection. */
Test(hca_hostile, landings_that_do_not_exist)
{
    struct hca_head head = head_of(0, 8);
    head.generation++;
    say(&head, sizeof(head) + 8);
    head.landing = UINT32_MAX;
    say(&head, sizeof(head) + 8);
    const uint32_t wrong[] = {hca_imm(blob.landing, blob.generation + 1), UINT32_MAX};
    for (unsigned i = 0; i < 2; i++) {
        struct ibv_send_wr request = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                                      .imm_data = htonl(wrong[i]),
                                      .wr.rdma = {.remote_addr = blob.address, .rkey = blob.rkey}};
        cr_assert(hca_send_chain(peer, &request, 1, NULL) == 0);
    }
    const uint64_t received = ((struct hca_peer *)back)->credits.counted;
    while (((struct hca_peer *)back)->credits.counted < received + 4)
        pump_rounds(&victim, NULL, 1);
    cr_assert(victim.downs == 0 && victim.notified_count == 0);
    check_untouched();
}

/* ---- keys of parts ---- */

/* A landing in a part of the region that has a handle of its own. */
static struct driver_landing *land_in(uint64_t offset, uint64_t bytes, struct hca_blob *ret_blob)
{
    struct driver_landing *made;
    size_t size;
    struct driver_landing_args args = {.region = victim.region,
                                       .offset_bytes = offset,
                                       .layout = layout,
                                       .part_offset_bytes = offset,
                                       .part_bytes = bytes};
    cr_assert(victim.driver->ops->landing_new(victim.driver, &args, &made, ret_blob, &size) == 0);
    return made;
}

static void write_there(const struct hca_blob *to, int64_t at)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)peer->buffers, .length = 8, .lkey = peer->buffers_mr->lkey};
    struct ibv_send_wr request = {
        .opcode = IBV_WR_RDMA_WRITE,
        .sg_list = &sge,
        .num_sge = 1,
        .wr.rdma = {.remote_addr = to->address + (uint64_t)at, .rkey = to->rkey}};
    memset(peer->buffers, 0xee, 8);
    cr_assert(hca_send_chain(peer, &request, 1, NULL) == 0);
}

static void check_confined(int64_t at)
{
    struct hca_blob part;
    struct driver_landing *narrow = land_in(OFFSET, BYTES, &part);
    cr_assert(part.rkey != blob.rkey && part.region != blob.region);
    write_there(&part, at);
    check_rejected();
    victim.driver->ops->landing_free(victim.driver, narrow);
}

Test(hca_hostile, the_key_of_a_part_ends_with_it)
{
    check_confined(BYTES - 7);
}

Test(hca_hostile, the_key_of_a_part_begins_with_it)
{
    check_confined(-1);
}

/* Another user's region, which has landings of its own for the same peer. */
Test(hca_hostile, the_key_of_a_part_is_no_key_of_other_regions)
{
    struct side *side = &victim;
    struct hca_blob part, others;
    static uint8_t memory[REGION] __attribute__((aligned(4096)));
    struct driver_region *region, *own = side->region;
    const struct driver_memory args = {.base = memory, .length_bytes = sizeof(memory), .fd = -1};
    cr_assert(side->driver->ops->region_add(side->driver, &args, &region) == 0);
    struct driver_landing *narrow = land_in(OFFSET, BYTES, &part);
    side->region = region;
    struct driver_landing *other = land_in(OFFSET, BYTES, &others);
    side->region = own;
    cr_assert(others.address == (uintptr_t)memory + OFFSET && others.rkey != part.rkey);
    others.rkey = part.rkey;
    write_there(&others, 0);
    check_rejected();
    for (unsigned i = 0; i < REGION; i++)
        cr_assert(memory[i] == 0, "byte %u of the other region was written", i);
    side->driver->ops->landing_free(side->driver, narrow);
    side->driver->ops->landing_free(side->driver, other);
    side->driver->ops->region_remove(side->driver, region);
}

Test(hca_hostile, the_key_of_a_part_is_good_within)
{
    struct hca_blob part;
    struct driver_landing *narrow = land_in(OFFSET, BYTES, &part);
    const volatile uint8_t *first = victim.memory + OFFSET, *last = first + BYTES - 1;
    write_there(&part, 0);
    write_there(&part, BYTES - 8);
    while (*first != 0xee || *last != 0xee)
        pump_rounds(&victim, NULL, 1);
    cr_expect(first[-1] == 0x11 && last[1] == 0x11 && victim.downs == 0);
    victim.driver->ops->landing_free(victim.driver, narrow);
}

Test(hca_hostile, landings_share_the_keys_of_parts)
{
    struct hca_blob one, same, other, whole;
    struct driver_landing *made[] = {land_in(OFFSET, BYTES, &one), land_in(OFFSET, BYTES, &same),
                                     land_in(0, BYTES, &other), land_in(0, REGION, &whole)};
    cr_expect(same.rkey == one.rkey && other.rkey != one.rkey && whole.rkey == blob.rkey);
    for (unsigned i = 0; i < 4; i++)
        victim.driver->ops->landing_free(victim.driver, made[i]);
    for (unsigned i = 1; i <= 40; i++) { /* more than are kept */
        made[0] = land_in(i * 1024, BYTES, &other);
        cr_expect(other.rkey != whole.rkey);
        victim.driver->ops->landing_free(victim.driver, made[0]);
        pump_rounds(&victim, NULL, 1);
    }
    cr_expect_eq(victim.downs, 0);
}
