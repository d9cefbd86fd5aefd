/*
 * msg-hostile SEED: rank 1 writes packets of any content into the ring of rank 0 and notifies its
 * slots, while rank 0 makes, tests and releases requests. Nothing may end rank 0, or write beyond
 * its buffers; whatever is invalid is -EPROTO. Ends with 0, or prints what was wrong.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/layouts.h"
#include "client/msg/msg.h"
#include "tests/unit/proto/random.h"

enum { PACKETS = 600, REQUESTS = 24, END = 99, BYTES = 5000, CREDITS = 6, LAYOUT_ROOM = 512 };
enum { COUNT_BYTES = TCA_MSG_PAIRS * sizeof(struct msg_count) };

static struct tca *session;
static struct tca_msg *msg;
static struct msg_peer *peer; /* the other rank */
static struct random dice;

static int fail(const char *what, int error)
{
    printf("%s: %d: %s\n", what, error, tca_error_text());
    return -EIO;
}

/* ---- rank 1 */

static struct {
    uint8_t *memory;
    struct tca_plan *puts[MSG_RING];
    struct tca_plan *notifications[MSG_SLOTS];
    struct msg_count *counts; /* of messages that it says it has received */
    struct tca_plan *put_counts;
    struct tca_handle handle; /* of other memory, which it offers */
} hostile;

static int make_put(struct tca_put put, uint32_t slot, struct tca_plan **ret_plan)
{
    int r = msg_plan_new(msg, 0, ret_plan);

    put.target = peer->area;
    put.target_offset_bytes += peer->area_bytes;
    if (r >= 0)
        r = tca_plan_put(*ret_plan, &put);
    if (r >= 0)
        r = tca_plan_notify(*ret_plan, 0, peer->slot + slot);
    return r < 0 ? r : tca_plan_commit(*ret_plan, TCA_DEFAULT);
}

static int prepare(void)
{
    void *offered = NULL;
    int r = tca_alloc(session, MSG_RING * MSG_PACKET_BYTES, (void **)&hostile.memory);

    if (r >= 0) /* rank 0 puts there: not into packets that are on their way */
        r = tca_alloc(session, BYTES, &offered);
    if (r >= 0)
        r = tca_handle_of(session, offered, BYTES, &hostile.handle);
    for (uint32_t i = 0; r >= 0 && i < MSG_RING; i++) {
        struct tca_put put = {.source_address = hostile.memory + i * MSG_PACKET_BYTES,
                              .target_offset_bytes = offsetof(struct msg_area, packets[i]),
                              .bytes = MSG_PACKET_BYTES};
        r = make_put(put, MSG_SLOT_RING, &hostile.puts[i]);
    }
    if (r >= 0)
        r = tca_alloc(session, COUNT_BYTES, (void **)&hostile.counts);
    if (r >= 0)
        r = make_put((struct tca_put){.source_address = hostile.counts,
                                      .target_offset_bytes = offsetof(struct msg_area, confirmed),
                                      .bytes = COUNT_BYTES},
                     MSG_SLOT_WAKE, &hostile.put_counts);
    for (uint32_t i = 0; r >= 0 && i < MSG_SLOTS; i++)
        r = msg_plan_notify(peer, msg, peer->slot + i, &hostile.notifications[i]);
    return r < 0 ? fail("preparing", r) : 0;
}

static int start(struct tca_plan *plan)
{
    int r = tca_start(plan);
    if (r >= 0)
        r = tca_wait(plan, TCA_DEFAULT);
    return r < 0 ? fail("the hostile rank", r) : 0;
}

static int write_packet(struct msg_head head, const void *payload, size_t bytes)
{
    uint32_t place = ++peer->sent % MSG_RING;
    uint8_t *packet = hostile.memory + place * MSG_PACKET_BYTES;

    for (uint64_t round = 0; peer->sent - peer->confirmed > MSG_RING; round++) {
        int r = tca_notified(session, 0, msg->slot + MSG_SLOT_CREDIT);
        if (r < 0)
            return fail("waiting for credits", r);
        if (r > 0)
            peer->confirmed += MSG_CREDIT;
        tca_pause(round);
    }
    head.seq = peer->sent;
    memcpy(packet, &head, sizeof(head));
    memcpy(packet + sizeof(head), payload, bytes);
    return start(hostile.puts[place]);
}

static uint64_t any_length(void)
{
    static const uint64_t lengths[] = {0, 1, 8, BYTES, BYTES + 1, 1ull << 40, UINT64_MAX};
    return lengths[random_below(&dice, sizeof(lengths) / sizeof(lengths[0]))];
}

/* Behind a note: a layout, which is often damaged. Returns its size. */
static size_t any_layout(uint8_t data[LAYOUT_ROOM])
{
    struct tca_layout *layout;
    if (tca_layout_strided(1 + random_below(&dice, 8), 1 + random_below(&dice, BYTES),
                           (int64_t)random_below(&dice, 2 * BYTES), &layout) < 0)
        return 0;
    int bytes = layout_export(layout, data, LAYOUT_ROOM);
    tca_layout_free(layout);
    if (bytes > 0 && random_below(&dice, 2) == 0)
        data[random_below(&dice, (uint64_t)bytes)] ^= (uint8_t)(1u << random_below(&dice, 8));
    return bytes > 0 ? (size_t)bytes - (random_below(&dice, 8) == 0) : 0;
}

static int any_packet(void)
{
    static const uint16_t sizes[] = {0, 1, 8, sizeof(struct msg_note), 2032, 2033, UINT16_MAX};
    static const uint16_t right[] = {0, 16, 8, sizeof(struct msg_note), sizeof(struct msg_note),
                                     8, 8,  8};
    struct {
        struct msg_note note;
        uint8_t layout[LAYOUT_ROOM];
    } payload = {.note = {.bytes = any_length(), .handle = hostile.handle}};
    uint32_t kind = (uint32_t)random_below(&dice, 8);

    if (random_below(&dice, 4) == 0)
        ((uint8_t *)&payload.note.handle)[random_below(&dice, sizeof(struct tca_handle))] ^= 1;
    if (random_below(&dice, 16) == 0) {
        hostile.counts[random_below(&dice, TCA_MSG_PAIRS)].value = any_length();
        int r = start(hostile.put_counts);
        if (r < 0)
            return r;
    }
    struct msg_head head = {
        .kind = (uint8_t)kind,
        .index = (uint8_t)random_below(&dice, MSG_DATA + 1),
        .bytes = random_below(&dice, 4) ? right[kind] : sizes[random_below(&dice, 7)],
        .tag = (uint32_t)random_below(&dice, 2),
        .request = (uint32_t)random_below(&dice, REQUESTS + 2),
    };
    size_t bytes = sizeof(payload.note);
    if ((kind == MSG_GRANT || kind == MSG_NOTICE) && random_below(&dice, 2) == 0) {
        bytes += any_layout(payload.layout);
        head.bytes = (uint16_t)bytes;
    }
    return write_packet(head, &payload, bytes);
}

/* The length of a pair's message beyond its receive, and then its data. */
static int too_long(void)
{
    const uint64_t bytes = 1ull << 40;
    int r = write_packet((struct msg_head){.kind = MSG_PAIRED, .bytes = 8}, &bytes, sizeof(bytes));

    return r < 0 ? r : start(hostile.notifications[MSG_SLOT_DATA]);
}

/* The notice of a receive whose memory nobody has. */
static int bad_memory(void)
{
    struct msg_note note = {.bytes = BYTES};

    memset(&note.handle, 0x5a, sizeof(note.handle));
    return write_packet((struct msg_head){.kind = MSG_NOTICE, .bytes = sizeof(note), .tag = 1},
                        &note, sizeof(note));
}

static int attack(void)
{
    int r = prepare();

    if (r >= 0 && (r = tca_barrier(session, TCA_DEFAULT)) >= 0 && (r = too_long()) >= 0)
        r = bad_memory();
    if (r >= 0)
        r = tca_barrier(session, TCA_DEFAULT);
    for (int i = 0, credits = 0; r >= 0 && i < PACKETS; i++) {
        r = any_packet();
        if (r >= 0 && random_below(&dice, 16) == 0) {
            uint32_t slot = (uint32_t)random_below(&dice, MSG_SLOTS);
            if (slot != MSG_SLOT_RING && (slot != MSG_SLOT_CREDIT || credits++ < CREDITS))
                r = start(hostile.notifications[slot]);
        }
    }
    if (r >= 0)
        r = write_packet((struct msg_head){.kind = MSG_SHORT, .tag = END}, "", 0);
    if (r >= 0 && (r = tca_barrier(session, TCA_DEFAULT)) >= 0)
        r = start(hostile.notifications[MSG_SLOT_RING]); /* without a packet */
    return r < 0 ? r : tca_barrier(session, TCA_DEFAULT);
}

/* ---- rank 0 */

static struct tca_msg_request *requests[REQUESTS];
static uint8_t *buffers[REQUESTS]; /* of exactly BYTES: the sanitizer watches their ends */

/* Begins again with a rank that has failed. Plans of pairs may still wait for it. */
static int forgive(void)
{
    int error = peer->failed;

    if (error && error != -EPROTO && error != -EINVAL && error != -ESTALE && error != -EACCES)
        return fail("the rank failed with", msg_peer_failed(peer));
    peer->failed = 0;
    for (uint32_t i = 0; error && i < REQUESTS; i++)
        if (requests[i] && requests[i]->persistent)
            requests[i] = tca_msg_release(requests[i]);
    return 0;
}

static int any_request(void)
{
    uint32_t i = (uint32_t)random_below(&dice, REQUESTS), tag = (uint32_t)random_below(&dice, 2);
    static const uint64_t sizes[] = {0, 8, BYTES};
    const struct tca_msg_buffer buffer = {buffers[i], sizes[random_below(&dice, 3)], NULL};

    if (requests[i]) {
        tca_msg_test(requests[i]);
        if (random_below(&dice, 2))
            requests[i] = tca_msg_release(requests[i]);
        else if (requests[i]->persistent)
            tca_msg_start(requests[i]);
        return forgive();
    }
    switch (random_below(&dice, 4)) {
    case 0:
        tca_msg_send(msg, 1, tag, &buffer, &requests[i]);
        break;
    case 1:
        tca_msg_recv(msg, 1, tag, &buffer, &requests[i]);
        break;
    case 2:
        tca_msg_send_init(msg, 1, tag, &buffer, &requests[i]);
        break;
    default:
        tca_msg_recv_init(msg, 1, tag, &buffer, &requests[i]);
    }
    return forgive();
}

/* Everything until the last packet. */
static int suffer(void)
{
    const struct tca_msg_buffer nothing = {0};
    struct tca_msg_request *end = NULL;
    int r = 0;

    for (uint32_t i = 0; r >= 0; i = (i + 1) % 4) {
        if (!end)
            r = tca_msg_recv(msg, 1, END, &nothing, &end);
        if (r >= 0 && (r = tca_msg_test(end)) > 0)
            return 0;
        if (r < 0) { /* the rank has failed, and with it this receive */
            end = tca_msg_release(end);
            r = forgive();
        }
        if (r >= 0 && i == 0)
            r = any_request();
    }
    return r;
}

static int endure(void)
{
    struct tca_msg_request *received = NULL, *sent = NULL;
    const struct tca_msg_buffer buffer = {buffers[0], 100, NULL};
    int r;

    tca_msg_recv_init(msg, 1, 0, &buffer, &received);
    tca_msg_send_init(msg, 1, 1, &buffer, &sent);
    tca_msg_start(received);
    tca_msg_start(sent);
    if ((r = tca_barrier(session, TCA_DEFAULT)) < 0)
        return fail("barrier", r);
    if ((r = tca_msg_wait(received, TCA_DEFAULT)) != -EMSGSIZE)
        return fail("a message that is too long", r);
    if ((r = tca_msg_wait(sent, TCA_DEFAULT)) >= 0 || r == -ETIMEDOUT)
        return fail("a send to invalid memory", r);
    if ((r = forgive()) < 0 || (r = tca_msg_start(sent)) >= 0)
        return fail("another start of it", r);
    tca_msg_release(received);
    tca_msg_release(sent);
    if ((r = tca_barrier(session, TCA_DEFAULT)) < 0 || (r = suffer()) < 0 ||
        (r = tca_barrier(session, TCA_DEFAULT)) < 0)
        return r;
    while (!peer->failed)
        msg_peer_progress(peer, msg);
    if (peer->failed != -EPROTO)
        return fail("a notification without its packet", peer->failed);
    return tca_barrier(session, TCA_DEFAULT);
}

int main(int argc, char **argv)
{
    int r = argc < 2 ? -EINVAL : tca_open(NULL, &session);

    if (r >= 0)
        r = tca_msg_new(session, NULL, &msg);
    if (r < 0)
        return fail("setting up", r) < 0;
    dice.state = strtoull(argv[1], NULL, 0) * 2 + tca_rank(session);
    peer = &msg->peers[1 - tca_rank(session)];
    for (uint32_t i = 0; i < REQUESTS; i++)
        buffers[i] = malloc(BYTES);
    r = tca_rank(session) == 0 ? endure() : attack();
    tca_msg_free(msg);
    tca_close(session);
    for (uint32_t i = 0; i < REQUESTS; i++)
        free(buffers[i]);
    return r < 0;
}
