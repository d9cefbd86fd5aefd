/*
 * An instance of the tcp driver between peers that know its secret and say what they like, when
 * they like: one that it puts into, and several that put into it. It must write nothing outside its
 * landings, nothing into those that were freed, and notify nobody for them; keep its own books
 * right, and complete every put exactly once.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drivers/table.h"
#include "drivers/tcp/config.h"
#include "drivers/tcp/tcp.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_tcp.h"

enum { GUARD = 0x5a, REGION_BYTES = 640 << 10, PAGE_BYTES = 4096, ROUNDS = 4 };

/* Contiguous, in short blocks, a notification alone, in long blocks. Puts read what landings of
 * these shapes cover: where it lies, packed, nothing. */
static const struct {
    uint64_t offset, block, count, stride;
} shapes[TCP_LANDINGS] = {
    {4096, 300 << 10, 1, 0}, {320 << 10, 8, 5000, 16}, {0, 0, 0, 0}, {448 << 10, 2048, 20, 6144}};

static struct tcp_driver *tcp;
static struct driver_region *region;
static uint8_t *memory;
static struct layout *layouts[TCP_LANDINGS];
static struct driver_landing *landings[TCP_LANDINGS]; /* NULL: freed */
static struct tcp_blob blobs[TCP_LANDINGS];

static struct {
    int fd; /* -1: none */
    uint64_t number;
} callers[TCP_CALLERS];

static struct {
    struct driver_op op;
    struct driver_put *put;
    bool running;
} starts[TCP_PUTS];

/* The peer that is put into. */
static int door_fd, answer_fd; /* answer_fd -1: none */
static struct tcp_address door;
static struct tcp_peer *peer;

/* ---- the driver's owner ---- */

static void notified(void *context, uint64_t token)
{
    FUZZ_REQUIRE(token < TCP_LANDINGS && landings[token]);
}

static void done(struct driver_op *op, int status)
{
    const size_t index = (size_t)(uintptr_t)op->owner;
    FUZZ_REQUIRE(starts[index].running && status <= 0);
    starts[index].running = false;
}

static void open_door(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);
    door_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    FUZZ_REQUIRE(bind(door_fd, (struct sockaddr *)&at, bytes) == 0 && listen(door_fd, 64) == 0 &&
                 getsockname(door_fd, (struct sockaddr *)&at, &bytes) == 0);
    door = (struct tcp_address){.magic = TCP_ADDRESS_MAGIC,
                                .version = TCP_WIRE_VERSION,
                                .count = 1,
                                .endpoints[0] = {.port = ntohs(at.sin_port), .family = 4},
                                .id = {{3, 4}},
                                .secret = "known to the peer"};
    memcpy(door.endpoints[0].host, &at.sin_addr, 4);
}

static void open_once(void)
{
    const struct tcp_config plain = {.plain = true};
    const struct driver_config config = {.own = &plain};
    const struct driver_events events = {.notified = notified};
    struct driver *driver;
    if (tcp)
        return;
    FUZZ_REQUIRE(tcp_driver_ops.open(&config, &events, &driver) == 0);
    tcp = tcp_of(driver);
    FUZZ_REQUIRE((memory = malloc(REGION_BYTES)));
    const struct driver_memory of = {.base = memory, .length_bytes = REGION_BYTES, .fd = -1};
    FUZZ_REQUIRE(mapped_add(driver, &of, &region) == 0);
    for (unsigned i = 0; i < TCP_LANDINGS; i++) {
        struct layout *block;
        FUZZ_REQUIRE(
            layout_contiguous(shapes[i].block, &block) == 0 &&
            layout_repeat(block, shapes[i].count, (int64_t)shapes[i].stride, &layouts[i]) == 0);
        free(block);
    }
    open_door();
}

static void begin(void)
{
    uint8_t offer[OFFER_MAX_BYTES];
    size_t offer_bytes;
    memset(memory, GUARD, REGION_BYTES);
    FUZZ_REQUIRE(tcp_peer_connect(&tcp->driver, &door, sizeof(door), (struct driver_peer **)&peer,
                                  offer, &offer_bytes) == 0);
    for (unsigned i = 0; i < TCP_LANDINGS; i++) {
        const bool data = shapes[i].block > 0;
        const struct driver_landing_args target = {.region = data ? region : NULL,
                                                   .offset_bytes = shapes[i].offset,
                                                   .layout = layouts[i],
                                                   .notify = true,
                                                   .token = i};
        struct driver_put_info info;
        size_t bytes;
        FUZZ_REQUIRE(tcp_landing_new(&tcp->driver, &target, &landings[i], &blobs[i], &bytes) == 0);
        struct tcp_blob theirs = blobs[i];
        theirs.id = door.id;
        const struct driver_put_args source = {.peer = (struct driver_peer *)peer,
                                               .flow = i % 2,
                                               .region = target.region,
                                               .offset_bytes = target.offset_bytes,
                                               .layout = layouts[i],
                                               .landing = &theirs,
                                               .landing_bytes = sizeof(theirs),
                                               .target_layout = layouts[i]};
        FUZZ_REQUIRE(tcp_put_prepare(&tcp->driver, &source, &starts[i].put, &info) == 0);
        starts[i].op = (struct driver_op){.done = done, .owner = (void *)(uintptr_t)i};
    }
    for (unsigned i = 0; i < TCP_CALLERS; i++)
        callers[i].fd = -1;
    answer_fd = -1;
}

static void work(unsigned rounds)
{
    while (rounds-- > 0) {
        tcp->rounds = TCP_EVENTS_EVERY - 1; /* it looks for events in each */
        FUZZ_REQUIRE(tcp_progress(&tcp->driver, 16) >= 0);
    }
}

static void free_landing(unsigned index)
{
    const uint64_t spread = (shapes[index].count - 1) * shapes[index].stride + shapes[index].block;
    if (!landings[index])
        return;
    tcp_landing_free(&tcp->driver, landings[index]);
    landings[index] = NULL;
    memset(memory + shapes[index].offset, GUARD, shapes[index].block > 0 ? spread : 0);
}

static void post(unsigned index)
{
    if (starts[index].running)
        return;
    starts[index].running = true;
    if (tcp_put_post(&tcp->driver, starts[index].put, &starts[index].op) < 0)
        starts[index].running = false;
}

/* ---- peers ---- */

/* By a reset: no port is left in TIME_WAIT. */
static void hang_up(int *fd)
{
    const struct linger now = {.l_onoff = 1};
    if (*fd < 0)
        return;
    setsockopt(*fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close(*fd);
    *fd = -1;
}

static void dial(unsigned index)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(tcp->address.endpoints[0].port)};
    memcpy(&to.sin_addr, tcp->address.endpoints[0].host, 4);
    hang_up(&callers[index].fd);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    FUZZ_REQUIRE(connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 || errno == EINTR);
    callers[index].fd = fd;
}

static void hear(int fd, void *words, size_t bytes)
{
    if (recv(fd, words, bytes, MSG_DONTWAIT) != (ssize_t)bytes)
        memset(words, 0, bytes);
}

static void say(int fd, const void *words, size_t bytes)
{
    if (fd >= 0 && bytes > 0)
        (void)!send(fd, words, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void say_hello(unsigned index, const uint8_t *data, size_t bytes)
{
    const int fd = callers[index].fd;
    struct tcp_challenge challenge;
    struct tcp_welcome welcome;
    struct tcp_hello hello = {
        .magic = TCP_HELLO_MAGIC, .version = TCP_WIRE_VERSION, .id = {{1, 2}}, .link = index};
    hear(fd, &challenge, sizeof(challenge));
    memcpy(&hello, data, least(bytes, offsetof(struct tcp_hello, by_listener)));
    const struct tcp_signature signature =
        tcp_sign_hello(tcp->address.secret, challenge.nonce, &hello);
    memcpy(hello.by_listener, signature.bytes, sizeof(hello.by_listener));
    say(fd, &hello, sizeof(hello));
    work(ROUNDS);
    hear(fd, &welcome, sizeof(welcome));
    callers[index].number = welcome.received;
}

static void say_head(unsigned index, const uint8_t *data, size_t bytes)
{
    struct tcp_head head = {.kind = TCP_PIECE};
    const size_t own = least(bytes, sizeof(head));
    memcpy(&head, data, own);
    if (head.landing < TCP_LANDINGS && head.generation == 0) {
        const struct tcp_blob *blob = &blobs[head.landing];
        head.landing = blob->landing;
        head.generation = blob->generation;
    }
    if (head.number == 0)
        head.number = callers[index].number++;
    say(callers[index].fd, &head, sizeof(head));
    say(callers[index].fd, data + own, bytes - own);
}

static void answer(const uint8_t *data, size_t bytes)
{
    struct tcp_challenge challenge = {.magic = TCP_CHALLENGE_MAGIC, .version = TCP_WIRE_VERSION};
    hang_up(&answer_fd);
    answer_fd = accept4(door_fd, NULL, NULL, SOCK_CLOEXEC);
    memcpy(&challenge, data, least(bytes, sizeof(challenge)));
    say(answer_fd, &challenge, sizeof(challenge));
}

static void admit(const uint8_t *data, size_t bytes)
{
    struct tcp_hello hello;
    struct tcp_welcome welcome = {.magic = TCP_WELCOME_MAGIC};
    hear(answer_fd, &hello, sizeof(hello));
    memcpy(&welcome, data, least(bytes, offsetof(struct tcp_welcome, by_listener)));
    const struct tcp_signature signature = tcp_sign_welcome(door.secret, hello.nonce, &welcome);
    memcpy(welcome.by_listener, signature.bytes, sizeof(welcome.by_listener));
    say(answer_fd, &welcome, sizeof(welcome));
}

static void swallow(int fd)
{
    static uint8_t nowhere[1 << 20];
    if (fd >= 0)
        (void)!recv(fd, nowhere, sizeof(nowhere), MSG_DONTWAIT);
}

/* ---- what must hold ---- */

static void check(void)
{
    const struct tcp_sender *sender = &peer->sender;
    const struct window *window = &sender->window;
    unsigned polled = 0, receivers = 0, accepted = 0;
    FUZZ_REQUIRE(window->counted <= sender->written && sender->written <= window->made);
    FUZZ_REQUIRE(window->made - window->counted <= TCP_WINDOW &&
                 sender->unwritten <= TCP_UNWRITTEN_MAX);
    FUZZ_REQUIRE(window->ring.head <= TCP_COPIES_BYTES - TCP_INLINE_BYTES);
    FUZZ_REQUIRE(!sender->connection || sender->connection->sender == sender);
    for (const struct tcp_receiver *at = tcp->receivers; at; at = at->next) {
        polled += at->polls > 0;
        receivers++;
        FUZZ_REQUIRE(at->begin <= at->end && at->end <= TCP_RECEIVE_BYTES);
        FUZZ_REQUIRE(at->outbox_bytes <= TCP_OUTBOX_BYTES &&
                     at->credits.reported <= at->credits.counted);
        FUZZ_REQUIRE(!at->in_piece || at->piece_bytes <= at->head.length_bytes);
        FUZZ_REQUIRE(at->connection ? at->connection->receiver == at : at->polls == 0);
    }
    for (const struct tcp_connection *at = tcp->listener.accepted; at; at = at->next_accepted)
        accepted++;
    FUZZ_REQUIRE(polled == tcp->polled_count && receivers == tcp->receiver_count);
    FUZZ_REQUIRE(accepted == tcp->listener.accepted_count && accepted <= TCP_OPENINGS_MAX);
}

static bool is_target(uint64_t at)
{
    for (unsigned i = 0; i < TCP_LANDINGS; i++) {
        if (!landings[i] || shapes[i].block == 0 || at < shapes[i].offset)
            continue;
        const uint64_t inside = at - shapes[i].offset,
                       row = shapes[i].stride > 0 ? inside / shapes[i].stride : 0;
        if (row < shapes[i].count && inside - row * shapes[i].stride < shapes[i].block)
            return true;
    }
    return false;
}

static void check_memory(void)
{
    static uint8_t untouched[PAGE_BYTES];
    memset(untouched, GUARD, sizeof(untouched));
    for (uint64_t page = 0; page < REGION_BYTES; page += PAGE_BYTES) {
        if (memcmp(memory + page, untouched, PAGE_BYTES) == 0)
            continue;
        for (uint64_t at = page; at < page + PAGE_BYTES; at++)
            FUZZ_REQUIRE(memory[at] == GUARD || is_target(at));
    }
}

static void end(void)
{
    tcp_peer_fail(&tcp->driver, (struct driver_peer *)peer, -EHOSTDOWN);
    work(1);
    for (unsigned i = 0; i < TCP_PUTS; i++) {
        FUZZ_REQUIRE(!starts[i].running);
        tcp_put_release(&tcp->driver, starts[i].put);
    }
    tcp_peer_disconnect(&tcp->driver, (struct driver_peer *)peer);
    for (unsigned i = 0; i < TCP_CALLERS; i++)
        hang_up(&callers[i].fd);
    while (hang_up(&answer_fd), (answer_fd = accept4(door_fd, NULL, NULL, 0)) >= 0)
        ;
    work(1);
    while (tcp->listener.accepted)
        tcp_connection_close(tcp->listener.accepted);
    while (tcp->receivers)
        tcp_receiver_free(tcp->receivers);
    work(1);
    for (unsigned i = 0; i < TCP_LANDINGS; i++)
        free_landing(i);
}

static void obey(const struct tcp_record *record, const uint8_t *data)
{
    const unsigned index = record->whose % TCP_CALLERS;
    switch (record->deed % TCP_DEEDS) {
    case TCP_DIAL:
        dial(index);
        break;
    case TCP_HELLO:
        say_hello(index, data, record->bytes);
        break;
    case TCP_HEAD:
        say_head(index, data, record->bytes);
        break;
    case TCP_RAW:
        say(callers[index].fd, data, record->bytes);
        break;
    case TCP_HANG_UP:
        hang_up(&callers[index].fd);
        break;
    case TCP_FREE:
        free_landing(record->whose % TCP_LANDINGS);
        break;
    case TCP_POST:
        post(record->whose % TCP_PUTS);
        break;
    case TCP_RECONNECT:
        if (!peer->sender.connection)
            peer->sender.redial_ns = 0;
        break;
    case TCP_ANSWER:
        answer(data, record->bytes);
        break;
    case TCP_ADMIT:
        admit(data, record->bytes);
        break;
    case TCP_REPLY:
        say(answer_fd, data, record->bytes);
        break;
    default:
        hang_up(&answer_fd);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tcp_record record;
    open_once();
    begin();
    while (bytes >= sizeof(record)) {
        memcpy(&record, data, sizeof(record));
        data += sizeof(record);
        bytes -= sizeof(record);
        record.bytes = (uint16_t)least(bytes, record.bytes);
        obey(&record, data);
        data += record.bytes;
        bytes -= record.bytes;
        work(ROUNDS);
        if (record.deed % TCP_DEEDS != TCP_ANSWER) /* a hello is read by TCP_ADMIT */
            swallow(tcp_is_up(peer->sender.connection) ? answer_fd : -1);
        check();
    }
    check_memory();
    end();
    return 0;
}
