/*
 * An instance of the ofi driver and an attacker that speaks its protocol and knows its address.
 * Whatever arrives, nothing outside the landing's layout is written, no wrong notification is
 * raised, and honest peers are served.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/drivers/attacker.h"
#include "tests/unit/drivers/honest.h"

enum { REGION = 1 << 20, TOKEN = 7, OFFSET = 4096 };

static const struct shape shape = {.block = 8, .count = 1000, .stride = 16, .outer = 1};
static struct layout *layout;
static struct driver_landing *landing;
static struct ofi_blob blob;

static void setup(void)
{
    size_t bytes;
    cr_assert(side_open(&victim, "ofi", 4096, REGION) == 0);
    memset(victim.memory, 0x11, REGION);
    layout = shape_layout(&shape);
    struct driver_landing_args args = {
        .region = victim.region,
        .offset_bytes = OFFSET,
        .layout = layout,
        .notify = true,
        .token = TOKEN,
    };
    cr_assert(victim.driver->ops->landing_new(victim.driver, &args, &landing, &blob, &bytes) == 0);
    attacker_open();
}

static void check_alive(void)
{
    check_served(&victim, "ofi", 4096, &shape, OFFSET, &blob, sizeof(blob));
}

static void check_untouched(void)
{
    for (size_t i = 0; i < REGION; i++)
        cr_assert(victim.memory[i] == 0x11, "byte %zu was written", i);
}

static void teardown(void)
{
    attacker_close();
    victim.driver->ops->landing_free(victim.driver, landing);
    side_close(&victim);
    free(layout);
}

TestSuite(ofi_hostile, .init = setup, .fini = teardown, .timeout = 120);

Test(ofi_hostile, garbled_messages)
{
    uint32_t state = 42;
    for (unsigned i = 0; i < 400; i++) {
        struct ofi_message message = hello();
        size_t bytes = sizeof(message);
        uint8_t *raw = (uint8_t *)&message;
        switch (i % 4) {
        case 0:
            fill(raw, sizeof(message), i);
            break;
        case 1: /* valid except for some bytes */
            for (unsigned n = 0; n < 3; n++)
                raw[next_random(&state) % sizeof(message)] ^=
                    (uint8_t)(1u << next_random(&state) % 8);
            break;
        case 2:
            bytes = next_random(&state) % sizeof(message);
            break;
        case 3:
            message.type = (uint16_t)(next_random(&state) % 9);
            message.link = next_random(&state);
            message.source = next_random(&state) % 8192;
            message.number = next_random(&state);
            message.key_count = next_random(&state);
            break;
        }
        if (i % 4 != 0) /* replies must go to this host only */
            memcpy(message.from.name, attacker.own.name, sizeof(message.from.name));
        memcpy(attacker.buffer, &message, sizeof(message));
        send_message(bytes);
    }
    cr_assert(victim.notified_count == 0);
    check_untouched();
    check_alive();
}

Test(ofi_hostile, completion_data_at_random)
{
    uint32_t state = 4711;
    get_ring();
    for (unsigned i = 0; i < 2000; i++) {
        uint32_t data = next_random(&state);
        write_data(8, attacker.address.sink_address, attacker.address.sink_key, data);
    }
    cr_assert(victim.notified_count == 0, "notified without having been told the landing");
    check_untouched();
    check_alive();
}

/* A valid segment, for the test to corrupt. */
static struct ofi_segment segment_of(const struct ofi_message *ring, uint32_t sequence)
{
    return (struct ofi_segment){
        .secret = ring->secret,
        .landing_key = blob.landing_key,
        .length_bytes = 512,
        .landing = blob.landing,
        .generation = blob.generation,
        .sequence = sequence,
        .flags = OFI_SEGMENT_LAST,
    };
}

static uint64_t forged(void)
{
    return ((struct ofi_driver *)victim.driver)->forged;
}

/* Signs data with the ring's secret. */
static uint64_t sign(const struct ofi_message *ring, enum ofi_data_kind kind, uint32_t sequence)
{
    return ofi_data_sign(ofi_data_link(kind, ring->source_epoch, ring->source, sequence),
                         &ring->secret, ((struct ofi_driver *)victim.driver)->wide_data);
}

/* Offset and number of the next segment; the test's segments have 512 bytes of payload. */
static struct {
    uint32_t sequence, offset;
} cursor;

/* Writes the next segment. counted: the receiver will proceed to the one after it. */
static void write_segment(const struct ofi_message *ring, const struct ofi_segment *segment,
                          bool counted)
{
    memcpy(attacker.buffer, segment, sizeof(*segment));
    memset(attacker.buffer + sizeof(*segment), 0xee, 512);
    write_data(sizeof(*segment) + 512, ring->address + cursor.offset, ring->key,
               sign(ring, OFI_DATA_SEGMENT, cursor.sequence));
    if (!counted)
        return;
    cursor.sequence++;
    cursor.offset =
        window_ring_after(cursor.offset, (uint32_t)sizeof(*segment) + segment->length_bytes,
                          ring->segment_bytes, ring->ring_bytes);
}

Test(ofi_hostile, spoilt_segments)
{
    struct ofi_message ring = get_ring();
    const uint64_t size = blob.size_bytes;
    for (unsigned spoil = 0; spoil < 11; spoil++) {
        struct ofi_segment segment = segment_of(&ring, cursor.sequence);
        bool counted = true; /* it is the sender's, but has no valid target; false: it is ignored */
        switch (spoil) {
        case 0:
            segment.position_bytes = size - 511;
            break;
        case 1:
            segment.position_bytes = UINT64_MAX - 255;
            break;
        case 2:
            segment.position_bytes = size + 1;
            break;
        case 3:
            segment.length_bytes = ring.segment_bytes;
            counted = false;
            break;
        case 4:
            segment.length_bytes = UINT32_MAX;
            counted = false;
            break;
        case 5:
            segment.generation ^= 1;
            break;
        case 6:
            segment.landing ^= 1;
            break;
        case 7:
            segment.landing = UINT32_MAX;
            break;
        case 8:
            segment.landing_key ^= 1;
            break;
        case 9:
            segment.secret.word[1] ^= 1;
            counted = false;
            break;
        case 10:
            segment.sequence++;
            counted = false;
            break;
        }
        write_segment(&ring, &segment, counted);
    }
    cr_assert(victim.notified_count == 0);
    check_untouched();

    /* the ring still works */
    struct ofi_segment honest = segment_of(&ring, cursor.sequence);
    write_segment(&ring, &honest, true);
    cr_assert(victim.notified_count == 1);
    for (uint64_t i = 0; i < 512; i++)
        cr_assert(victim.memory[OFFSET + shape_place(&shape, i)] == 0xee);
    check_alive();
}

Test(ofi_hostile, segments_at_random)
{
    struct ofi_message ring = get_ring();
    uint32_t state = 31337;
    for (uint32_t i = 0; i < 500; i++) {
        struct ofi_segment segment = segment_of(&ring, cursor.sequence);
        uint8_t *raw = (uint8_t *)&segment;
        for (unsigned n = 0; n < 4; n++)
            raw[next_random(&state) % sizeof(segment)] = (uint8_t)next_random(&state);
        if (next_random(&state) % 8 == 0)
            write_data(8, ring.address, ring.key, next_random(&state) | 1u << 30);
        const bool counted = segment.sequence == cursor.sequence &&
                             ofi_same(&segment.secret, &ring.secret) &&
                             segment.length_bytes <= ring.segment_bytes - sizeof(segment);
        write_segment(&ring, &segment, counted);
    }
    /* Segments that are valid by chance are written to the layout, and nothing elsewhere. */
    uint8_t *image = malloc(REGION);
    memset(image, 0x11, REGION);
    for (uint64_t i = 0; i < shape_bytes(&shape); i++)
        image[OFFSET + shape_place(&shape, i)] = victim.memory[OFFSET + shape_place(&shape, i)];
    cr_assert(memcmp(image, victim.memory, REGION) == 0);
    free(image);
    check_alive();
}

/* A completion without a segment raises no notification, and the valid one is still counted. */
Test(ofi_hostile, completions_without_their_segments)
{
    struct ofi_message ring = get_ring();
    for (uint32_t i = 0; i < 20; i++) {
        const uint64_t before = forged();
        memset(attacker.buffer, 0, 8);
        write_data(8, attacker.address.sink_address, attacker.address.sink_key,
                   sign(&ring, OFI_DATA_SEGMENT, i));
        cr_assert(victim.notified_count == i);
        cr_assert(forged() == before + 1);
        struct ofi_segment segment = segment_of(&ring, cursor.sequence);
        write_segment(&ring, &segment, true);
        cr_assert(victim.notified_count == i + 1, "a forged completion has swallowed a segment");
    }
    check_alive();
}

/* ---- a connection is lost, with an operation, and the next ones come over another */

/* Returns the count. */
static uint64_t ask_count(const struct ofi_message *ring, uint64_t number)
{
    struct ofi_message sync = hello();
    const unsigned before = attacker.received;
    sync.type = OFI_SYNC;
    sync.source = ring->source;
    sync.source_epoch = ring->source_epoch;
    sync.secret = ring->secret;
    sync.number = number;
    cr_assert(fi_recv(attacker.endpoint, inbox(), sizeof(*inbox()), fi_mr_desc(attacker.mr),
                      FI_ADDR_UNSPEC, attacker.buffer) == 0);
    memcpy(attacker.buffer, &sync, sizeof(sync));
    send_message(sizeof(sync));
    while (attacker.received == before)
        pump(1);
    cr_assert(inbox()->type == OFI_SYNCED && inbox()->status == 0 && inbox()->number == number);
    return inbox()->count;
}

static void write_piece(const struct ofi_message *ring, uint32_t sequence)
{
    write_data(8, attacker.address.sink_address, attacker.address.sink_key,
               sign(ring, OFI_DATA_PIECE, sequence));
}

/* What was asked for again counts when it has come again: pieces change their target until then. */
Test(ofi_hostile, operations_after_a_gap_come_twice)
{
    const struct ofi_message ring = get_ring();
    struct ofi_segment lost = segment_of(&ring, 0), last = segment_of(&ring, 2);
    const uint32_t after = window_ring_after(0, (uint32_t)sizeof(lost) + lost.length_bytes,
                                             ring.segment_bytes, ring.ring_bytes);
    lost.flags = 0;
    write_piece(&ring, 1);
    cursor.sequence = 2;
    cursor.offset = after;
    write_segment(&ring, &last, false);
    cr_assert(victim.notified_count == 0);

    cr_assert(ask_count(&ring, 1) == 0);
    cursor.sequence = 0;
    cursor.offset = 0;
    write_segment(&ring, &lost, false);
    cr_assert(victim.notified_count == 0, "the end counts, but the piece is still to come");
    write_piece(&ring, 1);
    cr_assert(ask_count(&ring, 2) == 2);
    cursor.sequence = 2;
    cursor.offset = after;
    write_segment(&ring, &last, false);
    cr_assert(victim.notified_count == 1);
    cr_assert(ask_count(&ring, 3) == 3);
}

/* Where the order is not kept, a repeated request may come after what it asked for. */
Test(ofi_hostile, a_request_for_the_count_comes_twice)
{
    const struct ofi_message ring = get_ring();
    struct ofi_segment lost = segment_of(&ring, 0);
    cr_assert(ask_count(&ring, 1) == 0);
    write_piece(&ring, 1);
    cr_assert(ask_count(&ring, 1) == 0);
    cursor.sequence = 0;
    cursor.offset = 0;
    write_segment(&ring, &lost, false);
    cr_assert(ask_count(&ring, 1) == 2);
}

/* Valid except for the secret: it is ignored, and hides no valid one. */
Test(ofi_hostile, completions_without_the_secret)
{
    static const enum ofi_data_kind kinds[] = {OFI_DATA_SEGMENT, OFI_DATA_PIECE};
    struct ofi_message ring = get_ring();
    cr_assert(((struct ofi_driver *)victim.driver)->wide_data, "this provider has no room for it");
    for (uint32_t i = 0; i < 40; i++) {
        const uint64_t before = forged(), right = sign(&ring, kinds[i % 2], cursor.sequence);
        memset(attacker.buffer, 0, 8);
        write_data(8, attacker.address.sink_address, attacker.address.sink_key,
                   i % 4 < 2 ? (uint32_t)right : right ^ UINT64_C(1) << (32 + i % 32));
        cr_assert(victim.notified_count == i);
        cr_assert(forged() == before + 1);
        struct ofi_segment segment = segment_of(&ring, cursor.sequence);
        write_segment(&ring, &segment, true);
        cr_assert(victim.notified_count == i + 1, "a forged completion has swallowed a segment");
    }
    check_alive();
}

/* Messages without the instance's cookie are ignored. */
Test(ofi_hostile, messages_without_the_cookie)
{
    for (unsigned i = 0; i < 20; i++) {
        const uint64_t before = forged();
        struct ofi_message message = hello();
        message.to.word[i % 2] ^= UINT64_C(1) << i;
        memcpy(attacker.buffer, &message, sizeof(message));
        send_message(sizeof(message));
        cr_assert(forged() == before + 1);
    }
    check_alive();
}

/* More HELLOs than links: each gets a reply, and none costs more than its ring. */
Test(ofi_hostile, the_same_hello_again_and_again)
{
    uint32_t place = 0;
    for (unsigned i = 0; i < 50; i++) {
        struct ofi_message ring = get_ring();
        if (i == 0)
            place = ring.source;
        cr_assert(ring.source == place, "a new place for the same sender");
    }
    check_alive();
}

/* A sender that repeats HELLO and receives no reply. */
Test(ofi_hostile, hellos_without_ears)
{
    for (unsigned i = 0; i < 300; i++) {
        struct ofi_message message = hello();
        message.link = i;
        memcpy(attacker.buffer, &message, sizeof(message));
        send_message(sizeof(message));
    }
    check_alive();
}

/* Senders that are dead when they get the reply: nothing listens at their ports. */
Test(ofi_hostile, hellos_of_the_dead)
{
    for (unsigned i = 0; i < 200; i++) {
        struct ofi_message message = hello();
        message.from.cookie.word[1] = i;
        message.from.name[2] = 0; /* big endian: ports below 256 */
        message.from.name[3] = (uint8_t)(i + 1);
        memcpy(attacker.buffer, &message, sizeof(message));
        send_message(sizeof(message));
    }
    check_alive();
}
