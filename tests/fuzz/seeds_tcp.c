/* Seeds for the tcp driver: what peers say that mean well, and how they go wrong. */
#include <stddef.h>
#include <string.h>

#include "drivers/tcp/tcp_wire.h"
#include "tests/fuzz/fuzz_tcp.h"
#include "tests/fuzz/seeds.h"

static uint8_t input[4096];
static size_t used;

static void record(enum tcp_deed deed, unsigned whose, const void *bytes, size_t count)
{
    const struct tcp_record header = {
        .deed = (uint8_t)deed, .whose = (uint8_t)whose, .bytes = (uint16_t)count};
    memcpy(input + used, &header, sizeof(header));
    if (count > 0)
        memcpy(input + used + sizeof(header), bytes, count);
    used += sizeof(header) + count;
}

static void deed(enum tcp_deed deed, unsigned whose)
{
    record(deed, whose, NULL, 0);
}

static void seed(const char *name)
{
    write_seed("tcp", name, -1, input, used);
    used = 0;
}

/* ---- a peer that puts into us ---- */

static void enter(unsigned caller)
{
    deed(TCP_DIAL, caller);
    deed(TCP_HELLO, caller);
}

/* Of a put into a landing, with `count` of its bytes behind it. */
static void piece(unsigned caller, uint32_t landing, uint32_t length, uint64_t position,
                  uint8_t flags, size_t count)
{
    uint8_t words[sizeof(struct tcp_head) + 512] = {0};
    const struct tcp_head head = {.kind = TCP_PIECE,
                                  .flags = flags,
                                  .length_bytes = length,
                                  .landing = landing,
                                  .position_bytes = position};
    memcpy(words, &head, sizeof(head));
    memset(words + sizeof(head), 0x11, count);
    record(TCP_HEAD, caller, words, sizeof(head) + count);
}

static void control(unsigned caller, enum tcp_kind kind)
{
    const struct tcp_head head = {.kind = (uint8_t)kind, .flags = kind == TCP_ASK ? TCP_TELL : 0};
    record(TCP_HEAD, caller, &head, sizeof(head));
}

/* ---- a peer that we put into ---- */

static void reply(enum tcp_kind kind, uint64_t number)
{
    const struct tcp_head head = {.kind = (uint8_t)kind, .number = number};
    record(TCP_REPLY, 0, &head, sizeof(head));
}

static void admit(uint32_t known, uint64_t received)
{
    const struct tcp_welcome welcome = {
        .magic = TCP_WELCOME_MAGIC, .known = known, .received = received};
    deed(TCP_ANSWER, 0);
    record(TCP_ADMIT, 0, &welcome, offsetof(struct tcp_welcome, by_listener));
}

/* ---- the seeds ---- */

static void receive_seeds(void)
{
    static const uint8_t more[300] = {0};
    enter(0);
    piece(0, 0, 64, 0, TCP_LAST | TCP_TELL, 64);
    piece(0, 1, 200, 39800, 0, 200);
    piece(0, 2, 0, 0, TCP_LAST, 0);
    control(0, TCP_ASK);
    control(0, TCP_BYE);
    seed("receives");

    enter(0); /* the same link again, within a piece */
    piece(0, 0, 64, 0, TCP_LAST, 10);
    enter(0);
    piece(0, 0, 64, 0, TCP_LAST | TCP_TELL, 64);
    deed(TCP_HANG_UP, 0);
    seed("resumes");

    enter(0); /* straight into the target, which is freed meanwhile */
    piece(0, 0, 16384, 0, 0, 400);
    record(TCP_RAW, 0, more, sizeof(more));
    deed(TCP_FREE, 0);
    record(TCP_RAW, 0, more, sizeof(more));
    seed("freed");

    enter(0); /* into long blocks */
    piece(0, 3, 16384, 0, 0, 400);
    for (int i = 0; i < 3; i++)
        record(TCP_RAW, 0, more, sizeof(more));
    deed(TCP_POST, 3);
    admit(0, 0);
    seed("blocks");

    enter(0);
    enter(1);
    piece(0, 1, 300, 0, 0, 100);
    piece(1, 1, 300, 0, TCP_LAST, 300);
    piece(1, 7, 16, 0, TCP_LAST | TCP_TELL, 16);
    piece(1, 0, 16, 307196, TCP_LAST, 16);
    seed("two");
}

static void send_seeds(void)
{
    for (unsigned i = 0; i < TCP_PUTS; i++)
        deed(TCP_POST, i);
    admit(0, 0);
    reply(TCP_RECEIVED, 2);
    reply(TCP_RECEIVED, 4);
    deed(TCP_POST, 2);
    seed("sends");

    deed(TCP_POST, 2);
    deed(TCP_POST, 0);
    admit(0, 0);
    deed(TCP_CUT, 0);
    deed(TCP_RECONNECT, 0);
    admit(1, 1);
    reply(TCP_STALE, 1);
    reply(TCP_RECEIVED, 3);
    seed("sends-again");

    deed(TCP_POST, 1);
    admit(0, 0);
    deed(TCP_CUT, 0);
    deed(TCP_RECONNECT, 0);
    admit(0, 0); /* it has forgotten everything */
    seed("forgotten");
}

void tcp_seeds(void)
{
    receive_seeds();
    send_seeds();
}
