/*
 * msg-hostile SEED: rank 1 writes packets of any content into the ring of rank 0, receives that do
 * not exist and garbage into what ranks of a node share, and notifies slots of rank 0, while that
 * one makes, tests and releases requests. Nothing may end rank 0, or write beyond its buffers;
 * whatever is invalid is -EPROTO. Ends with 0, or prints what was wrong.
 */
#include <errno.h>
#include <stddef.h>

#include "client/core/layouts.h"
#include "client/msg/msg.h"
#include "tests/integration/expect.h"
#include "tests/unit/proto/random.h"

enum { PACKETS = 600, REQUESTS = 24, END = 99, BYTES = 5000, CREDITS = 6, LAYOUT_ROOM = 512 };
enum { COUNT_BYTES = TCA_MSG_PAIRS * sizeof(struct msg_count) };

static struct tca *session;
static struct tca_msg *msg;
static struct msg_peer *peer; /* the other rank */
static struct random dice;

static _Noreturn void fail(const char *what, int error)
{
    printf("%s: %d: %s\n", what, error, tca_error_text());
    exit(1);
}

/* ---- rank 1 */

static struct {
    uint8_t *memory;
    struct tca_plan *puts[MSG_RING];
    struct tca_plan *notifications[MSG_SLOTS];
    struct msg_count *counts; /* of messages that it says it has received */
    struct tca_plan *put_counts;
    void *offered; /* other memory */
    uint8_t private[BYTES];
    struct tca_handle handle;
    struct msg_area *there; /* what rank 0 keeps for this rank; NULL: on another node */
    uint64_t announcements;
} hostile;

static struct tca_plan *make_put(struct tca_put put, uint32_t slot)
{
    struct tca_plan *plan;

    put.target = peer->area;
    put.target_offset_bytes += peer->area_bytes;
    check(msg_plan_new(msg, 0, &plan), "plan");
    check(tca_plan_put(plan, &put), "put");
    check(tca_plan_notify(plan, 0, peer->slot + slot), "notify");
    check(tca_plan_commit(plan, TCA_DEFAULT), "commit");
    return plan;
}

static void prepare(void)
{
    struct tca_region *offered;

    check(tca_alloc(session, MSG_RING * MSG_PACKET_BYTES, (void **)&hostile.memory), "memory");
    /* rank 0 puts there: not into packets that are on their way */
    check(tca_region_alloc(session, 2 * sizeof(struct msg_stage), &offered), "region");
    hostile.offered = tca_region_address(offered);
    check(tca_region_handle(offered, 0, BYTES, &hostile.handle), "handle");
    hostile.there = (struct msg_area *)msg_direct_ring(peer, msg); /* packets: its first member */
    for (uint32_t i = 0; i < MSG_RING; i++)
        hostile.puts[i] =
            make_put((struct tca_put){.source_address = hostile.memory + i * MSG_PACKET_BYTES,
                                      .target_offset_bytes = offsetof(struct msg_area, packets[i]),
                                      .bytes = MSG_PACKET_BYTES},
                     MSG_SLOT_RING);
    check(tca_alloc(session, COUNT_BYTES, (void **)&hostile.counts), "memory");
    hostile.put_counts =
        make_put((struct tca_put){.source_address = hostile.counts,
                                  .target_offset_bytes = offsetof(struct msg_area, confirmed),
                                  .bytes = COUNT_BYTES},
                 MSG_SLOT_WAKE);
    for (uint32_t i = 0; i < MSG_SLOTS; i++)
        check(msg_plan_notify(peer, msg, peer->slot + i, &hostile.notifications[i]), "notifier");
}

static void start(struct tca_plan *plan)
{
    check(tca_start(plan), "start");
    check(tca_wait(plan, TCA_DEFAULT), "wait");
}

static void write_packet(struct msg_head head, const void *payload, size_t bytes)
{
    uint32_t place = ++peer->sent % MSG_RING;
    uint8_t *packet = hostile.memory + place * MSG_PACKET_BYTES;

    for (uint64_t round = 0; peer->sent - peer->confirmed > MSG_RING; round++) {
        int r = tca_notified(session, 0, msg->slot + MSG_SLOT_CREDIT);
        check(r, "waiting for credits");
        if (r > 0)
            peer->confirmed += MSG_CREDIT;
        tca_pause(round);
    }
    head.seq = peer->sent;
    memcpy(packet, &head, sizeof(head));
    memcpy(packet + sizeof(head), payload, bytes);
    start(hostile.puts[place]);
}

static uint64_t any_length(void)
{
    static const uint64_t lengths[] = {0, 1, 8, BYTES, BYTES + 1, 1ull << 40, UINT64_MAX};
    return lengths[random_below(&dice, sizeof(lengths) / sizeof(lengths[0]))];
}

/* Of the hostile rank's memory, or of none. */
static struct near_place any_place(void)
{
    struct near_place place = near_place_of(session, &msg->owner, hostile.offered, BYTES);
    switch (random_below(&dice, 8)) {
    case 0:
        place.region = random_below(&dice, 3);
        break;
    case 1:
        place.offset = any_length();
        break;
    case 2:
        place.entry = any_length();
        break;
    case 3: /* any address of this rank */
        place = (struct near_place){.region = NEAR_PRIVATE,
                                    .offset = random_below(&dice, 4) ? (uintptr_t)hostile.private
                                                                     : any_length()};
        break;
    default:
        break;
    }
    return place;
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

static void any_packet(void)
{
    static const uint16_t sizes[] = {0, 1, 8, sizeof(struct msg_note), 2032, 2033, UINT16_MAX};
    static const uint16_t right[] = {
        0, 16, sizeof(struct msg_offer), sizeof(struct msg_note), sizeof(struct msg_note), 8, 8,
        8, 8};
    struct {
        union {
            struct msg_note note;
            struct msg_offer offer;
        };
        uint8_t layout[LAYOUT_ROOM];
    } payload = {.note = {.bytes = any_length(), .handle = hostile.handle}};
    uint32_t kind = (uint32_t)random_below(&dice, 9);

    if (kind == MSG_OFFER)
        payload.offer = (struct msg_offer){.bytes = any_length(),
                                           .place = any_place(),
                                           .context = (uint32_t)random_below(&dice, 2),
                                           .stage = any_place()};
    else if (random_below(&dice, 4) == 0)
        ((uint8_t *)&payload.note.handle)[random_below(&dice, sizeof(struct tca_handle))] ^= 1;
    if (random_below(&dice, 16) == 0) {
        hostile.counts[random_below(&dice, TCA_MSG_PAIRS)].value = any_length();
        start(hostile.put_counts);
    }
    struct msg_head head = {
        .kind = (uint8_t)(kind | (random_below(&dice, 4) ? 0 : MSG_STRAIGHT)),
        .index = (uint8_t)random_below(&dice, MSG_DATA + 1),
        .bytes = random_below(&dice, 4) ? right[kind] : sizes[random_below(&dice, 7)],
        .tag = (uint32_t)random_below(&dice, 2),
        .request = (uint32_t)random_below(&dice, kind == MSG_SHORT ? 2 : REQUESTS + 2),
    };
    size_t bytes = sizeof(payload.note);
    if (kind == MSG_OFFER && random_below(&dice, 2) == 0) { /* with its data, or with other bytes */
        bytes = sizeof(payload.offer) + 8 * random_below(&dice, 2);
        head.bytes = (uint16_t)bytes;
    }
    if ((kind == MSG_GRANT || kind == MSG_NOTICE) && random_below(&dice, 2) == 0) {
        bytes += any_layout(payload.layout);
        head.bytes = (uint16_t)bytes;
    }
    write_packet(head, &payload, bytes);
}

/* A receive that does not exist, or is not what it says. */
static void announce_any(void)
{
    struct announce_page *page = &hostile.there->announced;
    const uint64_t number = ++hostile.announcements;
    struct announcement *line = &page->lines[number % ANNOUNCE_LINES];

    line->word = (uint32_t)random_below(&dice, ANNOUNCE_WORDS + (number % 32 == 0));
    line->context = random_below(&dice, 8) == 0;
    line->tag = random_below(&dice, 4) ? (uint32_t)random_below(&dice, 2) : MATCH_ANY;
    line->seen = (uint32_t)any_length();
    line->place = any_place();
    line->bytes = any_length();
    if (line->word < ANNOUNCE_WORDS)
        atomic_store(&page->words[line->word], number << 2 | random_below(&dice, 4));
    atomic_store(&line->number, number);
}

/* Where rank 0 announces its receives, what says where its regions are, and where this rank's
 * are. */
static void scribble(void)
{
    const struct {
        void *memory;
        uint64_t bytes;
    } all[] = {
        {&peer->here->announced, sizeof(peer->here->announced)},
        {&peer->here->announced.read, sizeof(uint64_t)},
        {(void *)peer->direct->view.directory, sizeof(struct near_directory)},
        {msg->owner.directory, sizeof(struct near_directory)},
        {&hostile.there->announced, sizeof(hostile.there->announced)},
        {hostile.offered, offsetof(struct msg_stage, data)},
    };
    const uint64_t i = random_below(&dice, sizeof(all) / sizeof(all[0]));
    ((uint64_t *)all[i].memory)[random_below(&dice, all[i].bytes / 8)] =
        random_below(&dice, 2) ? random_below(&dice, 64) : any_length();
}

/* The length of a pair's message beyond its receive, and then its data. */
static void too_long(void)
{
    const uint64_t bytes = 1ull << 40;

    write_packet((struct msg_head){.kind = MSG_PAIRED, .bytes = 8}, &bytes, sizeof(bytes));
    start(hostile.notifications[MSG_SLOT_DATA]);
}

/* The notice of a receive whose memory nobody has. */
static void bad_memory(void)
{
    struct msg_note note = {.bytes = BYTES};

    memset(&note.handle, 0x5a, sizeof(note.handle));
    write_packet((struct msg_head){.kind = MSG_NOTICE, .bytes = sizeof(note), .tag = 1}, &note,
                 sizeof(note));
}

static void meet(void)
{
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
}

static void attack(void)
{
    prepare();
    meet();
    too_long();
    bad_memory();
    meet();
    for (int i = 0, credits = 0; i < PACKETS; i++) {
        any_packet();
        if (hostile.there)
            announce_any();
        if (hostile.there && random_below(&dice, 8) == 0)
            scribble();
        if (random_below(&dice, 16) == 0) {
            uint32_t slot = (uint32_t)random_below(&dice, MSG_SLOTS);
            if (slot != MSG_SLOT_RING && (slot != MSG_SLOT_CREDIT || credits++ < CREDITS))
                start(hostile.notifications[slot]);
        }
    }
    write_packet((struct msg_head){.kind = MSG_SHORT, .tag = END}, "", 0);
    meet();
    start(hostile.notifications[MSG_SLOT_RING]); /* without a packet */
    meet();
}

/* ---- rank 0 */

static struct tca_msg_request *requests[REQUESTS];
static uint8_t *buffers[REQUESTS]; /* of exactly BYTES: the sanitizer watches their ends */

/* Begins again with a rank that has failed. Plans of pairs may still wait for it. */
static void forgive(void)
{
    int error = peer->failed;

    if (error && error != -EPROTO && error != -EINVAL && error != -EOWNERDEAD && error != -EACCES)
        fail("the rank failed with", msg_peer_failed(peer));
    peer->failed = 0;
    for (uint32_t i = 0; error && i < REQUESTS; i++)
        if (requests[i] && requests[i]->persistent)
            requests[i] = tca_msg_release(requests[i]);
}

static void receive_any(struct tca_msg_envelope envelope, const struct tca_msg_buffer *buffer,
                        struct tca_msg_request **request)
{
    envelope.flags = 0;
    tca_msg_recv_from(msg, &envelope, buffer, request);
}

static void take_any(const struct tca_msg_envelope *envelope, const struct tca_msg_buffer *buffer,
                     struct tca_msg_request **request)
{
    struct tca_msg_message *message;
    struct tca_msg_status status;

    if (tca_msg_take(msg, envelope, 0, &message, &status) < 0)
        return;
    forgive();
    tca_msg_recv_message(message, buffer, request);
}

static void any_request(void)
{
    uint32_t i = (uint32_t)random_below(&dice, REQUESTS), tag = (uint32_t)random_below(&dice, 2);
    static const uint64_t sizes[] = {0, 8, BYTES};
    const struct tca_msg_buffer buffer = {buffers[i], sizes[random_below(&dice, 3)], NULL};

    const struct tca_msg_envelope envelope = {.rank = 1,
                                              .tag = tag,
                                              .context = (uint32_t)random_below(&dice, 2),
                                              .flags =
                                                  random_below(&dice, 2) ? TCA_MSG_SYNCHRONOUS : 0};

    if (requests[i]) {
        tca_msg_test(requests[i]);
        if (random_below(&dice, 4) == 0)
            tca_msg_cancel(requests[i]);
        if (random_below(&dice, 2))
            requests[i] = tca_msg_release(requests[i]);
        else if (requests[i]->persistent)
            tca_msg_start(requests[i]);
        forgive();
        return;
    }
    switch (random_below(&dice, 5)) {
    case 0:
        tca_msg_send_to(msg, &envelope, &buffer, &requests[i]);
        break;
    case 1:
        receive_any(envelope, &buffer, &requests[i]);
        break;
    case 2:
        tca_msg_send_init(msg, 1, tag, &buffer, &requests[i]);
        break;
    case 3:
        take_any(&envelope, &buffer, &requests[i]);
        break;
    default:
        tca_msg_recv_init(msg, 1, tag, &buffer, &requests[i]);
    }
    forgive();
}

/* Everything until the last packet. */
static void suffer(void)
{
    const struct tca_msg_buffer nothing = {0};
    struct tca_msg_request *end = NULL;

    for (uint32_t i = 0;; i = (i + 1) % 4) {
        int r = end ? 0 : tca_msg_recv(msg, 1, END, &nothing, &end);
        if (r >= 0 && (r = tca_msg_test(end)) > 0)
            return;
        if (r < 0) { /* the rank has failed, and with it this receive */
            end = tca_msg_release(end);
            forgive();
        }
        if (i == 0)
            any_request();
    }
}

static void endure(void)
{
    struct tca_msg_request *received = NULL, *sent = NULL;
    const struct tca_msg_buffer buffer = {buffers[0], 100, NULL};
    int r;

    tca_msg_recv_init(msg, 1, 0, &buffer, &received);
    tca_msg_send_init(msg, 1, 1, &buffer, &sent);
    tca_msg_start(received);
    tca_msg_start(sent);
    meet();
    if ((r = tca_msg_wait(received, TCA_DEFAULT)) != -EMSGSIZE)
        fail("a message that is too long", r);
    if ((r = tca_msg_wait(sent, TCA_DEFAULT)) >= 0 || r == -ETIMEDOUT)
        fail("a send to invalid memory", r);
    forgive();
    if ((r = tca_msg_start(sent)) >= 0)
        fail("another start of it", r);
    tca_msg_release(received);
    tca_msg_release(sent);
    meet();
    suffer();
    meet();
    while (!peer->failed)
        msg_peer_progress(peer, msg);
    if (peer->failed != -EPROTO)
        fail("a notification without its packet", peer->failed);
    meet();
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    check(tca_open(NULL, &session), "open");
    check(tca_msg_new(session, NULL, &msg), "messenger");
    rank = tca_rank(session);
    dice.state = strtoull(argv[1], NULL, 0) * 2 + rank;
    peer = &msg->peers[1 - rank];
    for (uint32_t i = 0; i < REQUESTS; i++)
        buffers[i] = malloc(BYTES);
    if (rank == 0)
        endure();
    else
        attack();
    tca_msg_free(msg);
    tca_close(session);
    for (uint32_t i = 0; i < REQUESTS; i++)
        free(buffers[i]);
    return wrong;
}
