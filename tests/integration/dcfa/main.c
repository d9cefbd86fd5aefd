/* dcfa TEST: transfers between offload processors of the tcad at TCA_SOCKET, on any device. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/integration/dcfa/tests.h"

void expect(struct dcfa_completion completion, enum dcfa_result result)
{
    CHECK(completion.result == result, "%s instead of %s", dcfa_result_name(completion.result),
          dcfa_result_name(result));
}

/* ---- transfers ---- */

static const uint32_t sizes[] = {0, 1, 8, 4096, 65536, 65537, 1 << 20};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

void writes_and_reads(struct world *world)
{
    const uint32_t peer = !world->rank, base = world->rank * HALF, other = peer * HALF;
    for (uint32_t i = 0; i < SIZES; i++) {
        world_fill(world->memory + base, sizes[i], i + 100 * world->rank);
        expect(world_move(world, peer, DCFA_WRITE, base, base, sizes[i]), DCFA_OK);
        world_barrier(world);
        CHECK(world_is(world->memory + other, sizes[i], i + 100 * peer), "write of %u", sizes[i]);
        world_barrier(world);
        memset(world->memory + base, 0, sizes[i]);
        expect(world_move(world, peer, DCFA_READ, base, base, sizes[i]), DCFA_OK);
        CHECK(world_is(world->memory + base, sizes[i], i + 100 * world->rank), "read of %u",
              sizes[i]);
        world_barrier(world);
    }
}

/* Gathered from unaligned addresses, scattered to others. */
static void pieces(struct world *world)
{
    struct dcfa_piece parts[DCFA_PIECES];
    if (world->rank == 1) {
        for (uint32_t i = 0; i < DCFA_PIECES; i++)
            parts[i] = world_piece(world, 1000 * i + 3, 600 - 100 * i);
        GOOD(dcfa_post_receive(world->qps[0], 5, parts, DCFA_PIECES));
        const struct dcfa_completion completion = world_wait(world, world->qps[0]);
        expect(completion, DCFA_OK);
        CHECK(completion.id == 5 && completion.bytes == 2100 && completion.what == DCFA_RECEIVE &&
                  completion.has_immediate && completion.immediate == 0xabcdef01,
              "%u bytes, 0x%x", completion.bytes, completion.immediate);
        uint8_t got[2100];
        for (uint32_t i = 0, at = 0; i < DCFA_PIECES; at += 600 - 100 * i, i++)
            memcpy(got + at, world->memory + 1000 * i + 3, 600 - 100 * i);
        CHECK(world_is(got, 2100, 9), "scattered data");
    } else {
        uint8_t data[2100];
        world_fill(data, 2100, 9);
        for (uint32_t i = 0; i < DCFA_PIECES; i++) {
            memcpy(world->memory + 5000 * i, data + 350 * i, 350);
            parts[i] = world_piece(world, 5000 * i, 350);
        }
        const struct dcfa_send send = {.what = DCFA_SEND_IMMEDIATE,
                                       .flags = DCFA_SIGNALLED,
                                       .pieces = parts,
                                       .piece_count = DCFA_PIECES,
                                       .immediate = 0xabcdef01};
        GOOD(dcfa_post_send(world->qps[1], &send)); /* perhaps before there is a receive */
        expect(world_wait(world, world->qps[1]), DCFA_OK);
    }
    world_barrier(world);
}

/* Many sends, most of them without a completion, to receives that are posted as they are
 * consumed. */
static void stream(struct world *world)
{
    enum { MESSAGES = 1000 };
    struct dcfa_completion completion;
    if (world->rank == 1) {
        for (uint32_t i = 0; i < MESSAGES + ENTRIES; i++) {
            if (i >= ENTRIES) {
                completion = world_wait(world, world->qps[0]);
                expect(completion, DCFA_OK);
                const uint32_t number = (uint32_t)completion.id;
                CHECK(number == i - ENTRIES && completion.bytes == number % DCFA_INLINE_BYTES,
                      "message %u", number);
                CHECK(world_is(world->memory + number % ENTRIES * 128, completion.bytes, number),
                      "data of message %u", number);
            }
            const struct dcfa_piece piece = world_piece(world, i % ENTRIES * 128, 128);
            if (i < MESSAGES)
                GOOD(dcfa_post_receive(world->qps[0], i, &piece, 1));
        }
    } else {
        for (uint32_t i = 0; i < MESSAGES; i++) {
            uint8_t data[DCFA_INLINE_BYTES];
            const struct dcfa_piece piece = {data, i % DCFA_INLINE_BYTES, 0};
            const struct dcfa_send send = {
                .id = i,
                .what = DCFA_SEND,
                .flags = DCFA_INLINE |
                         (i % ENTRIES == ENTRIES - 1 || i == MESSAGES - 1 ? DCFA_SIGNALLED : 0),
                .pieces = &piece,
                .piece_count = 1};
            int r;
            world_fill(data, sizeof(data), i);
            while ((r = dcfa_post_send(world->qps[1], &send)) == -EAGAIN)
                sched_yield();
            GOOD(r);
            if (send.flags & DCFA_SIGNALLED) {
                completion = world_wait(world, world->qps[1]);
                expect(completion, DCFA_OK);
                CHECK(completion.id == i, "completion %llu", (unsigned long long)completion.id);
            }
        }
    }
    world_barrier(world);
}

static void immediate_write(struct world *world)
{
    if (world->rank == 1) {
        GOOD(dcfa_post_receive(world->qps[0], 8, NULL, 0));
        const struct dcfa_completion completion = world_wait(world, world->qps[0]);
        expect(completion, DCFA_OK);
        CHECK(completion.id == 8 && completion.what == DCFA_RECEIVE_WRITE &&
                  completion.has_immediate && completion.immediate == 1 &&
                  world_is(world->memory, 5000, 31),
              "what %u, immediate %u", completion.what, completion.immediate);
    } else {
        world_fill(world->memory + HALF, 5000, 31);
        expect(world_move(world, 1, DCFA_WRITE_IMMEDIATE, HALF, 0, 5000), DCFA_OK);
    }
    world_barrier(world);
}

static void transfers(struct world *world)
{
    writes_and_reads(world);
    pieces(world);
    stream(world);
    immediate_write(world);
    completions(world);
}

/* ---- without system calls ---- */

/* From now on, no system calls except wake-ups of tcad, and yields of this test. */
static void forbid_calls(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_yield, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof(rules) / sizeof(rules[0]), rules};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
              prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0,
          "seccomp: %d", errno);
}

/* Both ranks write to each other and poll their memory and completions. */
static void filtered(struct world *world)
{
    enum { ROUNDS = 500 };
    const uint32_t peer = !world->rank;
    _Atomic uint64_t *mine = (_Atomic uint64_t *)world->memory;
    uint64_t *out = (uint64_t *)(world->memory + 4096);
    const struct dcfa_piece piece = world_piece(world, 4096, 8);
    const struct dcfa_send send = {.what = DCFA_WRITE,
                                   .flags = DCFA_SIGNALLED,
                                   .pieces = &piece,
                                   .piece_count = 1,
                                   .remote_address = world->cards[peer].memory,
                                   .remote_key = world->cards[peer].key};
    forbid_calls();
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        struct dcfa_completion completion;
        if (world->rank == 1)
            while (*mine != i)
                sched_yield();
        *out = i;
        if (dcfa_post_send(world->qps[peer], &send) != 0)
            _exit(2);
        while (dcfa_poll(world->cq, 1, &completion) == 0)
            sched_yield();
        if (completion.result != DCFA_OK)
            _exit(3);
        if (world->rank == 0)
            while (*mine != i)
                sched_yield();
    }
    _exit(0);
}

/* ---- death ---- */

/* Until all ranks but 2 have written their last message: that they are done. */
static void await_survivors(struct world *world)
{
    volatile uint8_t *flags = world->memory + MEMORY_BYTES - 4096;
    world->memory[HALF] = 1;
    for (uint32_t peer = 0; peer < world->size; peer++)
        if (peer != 2)
            expect(world_move(world, peer, DCFA_WRITE, HALF, MEMORY_BYTES - 4096 + world->rank, 1),
                   DCFA_OK);
    for (uint32_t peer = 0; peer < world->size; peer++)
        while (peer != 2 && !flags[peer])
            usleep(1000);
}

/* Rank 2 is killed while all ranks write to each other. The others lose it, and nothing else. */
static void death(struct world *world)
{
    enum { ROUNDS = 300 };
    bool lost = false;
    for (uint32_t i = 0; i < ROUNDS || (world->rank != 2 && !lost); i++) {
        if (world->rank == 2 && i == ROUNDS / 3)
            raise(SIGKILL);
        for (uint32_t peer = 0; peer < world->size; peer++) {
            if (peer == 2 && lost)
                continue;
            const struct dcfa_completion completion =
                world_move(world, peer, DCFA_WRITE, HALF, world->rank * 4096, 3000);
            if (peer == 2 && completion.result != DCFA_OK) {
                expect(completion, DCFA_UNREACHABLE);
                lost = true;
            } else {
                expect(completion, DCFA_OK);
            }
        }
    }
    await_survivors(world);
}

/* Ten writes and an error; then waits to be ended. */
static void held(struct world *world)
{
    for (int i = 0; i < 10; i++)
        expect(world_move(world, 0, DCFA_WRITE, 0, HALF, 4096), DCFA_OK);
    expect(world_move(world, 0, DCFA_WRITE, 0, MEMORY_BYTES - 1, 4096), DCFA_REMOTE_ACCESS);
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        uint32_t ranks;
        int dies;
        void (*run)(struct world *world);
    } tests[] = {
        {"transfers", 2, -1, transfers}, {"errors", 2, -1, errors}, {"commands", 1, -1, commands},
        {"filtered", 2, -1, filtered},   {"death", 4, 2, death},    {"held", 1, -1, held},
        {"measure", 2, -1, measure},     {"fair", 4, -1, fair},
    };
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        if (argc == 2 && strcmp(argv[1], tests[i].name) == 0)
            return world_run(tests[i].ranks, tests[i].dies, tests[i].run);
    fputs("usage: dcfa TEST\n", stderr);
    return 2;
}
