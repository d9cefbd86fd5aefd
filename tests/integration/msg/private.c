/*
 * msg-private SEED [forbidden | forked | killed | idle]: random messages between memory of all
 * kinds: heap, mappings, some of them read-only, stack, globals, regions, with and without layouts,
 * many at a time. All ranks roll the same dice, so each knows what it must receive. forbidden: the
 * kernel refuses rank 1 process_vm_readv() and process_vm_writev(). forked: each rank has children
 * meanwhile, which write to all of its buffers. killed: rank 1 ends in the middle by SIGKILL. idle:
 * rank 0 receives long messages of rank 1, which does not call meanwhile. Ends with 0, or prints
 * what was wrong.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/msg/msg.h"
#include "tests/integration/expect.h"
#include "tests/unit/proto/random.h"

enum { ROUNDS = 24, COUNT_MAX = 24, BYTES_MAX = 1 << 20, GUARD = 64, OWN_BYTES = 300000 };

enum memory { HEAP, MAPPED, READ_ONLY, STACK, GLOBAL, REGION, ALLOCATED, MEMORIES };

/* One message, as all ranks know it. */
struct message {
    uint32_t from, to;
    uint64_t bytes;
    enum memory source, target;
    uint64_t source_block, target_block; /* of a layout; 0: contiguous */
    uint64_t slack;                      /* the receive is longer */
};

/* One side of it, here. */
struct side {
    enum memory memory;
    uint64_t block, bytes, span; /* span: of all memory, with guards */
    uint8_t *all;
    struct tca_region *region;
    struct tca_layout *layout;
    struct tca_msg_request *request;
};

static struct tca *session;
static struct tca_msg *msg;
static struct random dice;
static bool forbidden, forked, killed;
static uint8_t global[OWN_BYTES];
static uint8_t *stack; /* OWN_BYTES of main()'s */
static bool global_used, stack_used;

/* ---- memory */

static uint64_t span_of(uint64_t bytes, uint64_t block)
{
    return 2 * GUARD + (block ? bytes * 2 : bytes) + 1;
}

/* Each only once at a time, and if it is long enough. */
static enum memory possible(enum memory memory, uint64_t span)
{
    if ((memory == GLOBAL && (global_used || span > OWN_BYTES)) ||
        (memory == STACK && (stack_used || span > OWN_BYTES)))
        return HEAP;
    return memory;
}

static void get_memory(struct side *side)
{
    side->memory = possible(side->memory, side->span);
    switch (side->memory) {
    case MAPPED:
    case READ_ONLY:
        side->all =
            mmap(NULL, side->span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        check(side->all == MAP_FAILED ? -ENOMEM : 0, "mmap");
        break;
    case STACK:
        side->all = stack;
        stack_used = true;
        break;
    case GLOBAL:
        side->all = global;
        global_used = true;
        break;
    case REGION:
        check(tca_region_alloc(session, side->span, &side->region), "region");
        side->all = tca_region_address(side->region);
        break;
    case ALLOCATED:
        check(tca_alloc(session, side->span, (void **)&side->all), "memory");
        break;
    default:
        side->all = malloc(side->span);
    }
    memset(side->all, 0xee, side->span);
}

static void begin(struct side *side, enum memory memory, uint64_t bytes, uint64_t block)
{
    *side = (struct side){
        .memory = memory, .block = block, .bytes = bytes, .span = span_of(bytes, block)};
    get_memory(side);
    if (block)
        check(tca_layout_strided(bytes / block, block, (int64_t)block * 2, &side->layout),
              "layout");
}

static void end(struct side *side)
{
    tca_msg_release(side->request);
    tca_layout_free(side->layout);
    tca_msg_forget(msg);
    if (side->memory == REGION)
        check(killed ? 0 : tca_region_free(side->region), "freeing a region");
    else if (side->memory == ALLOCATED)
        check(tca_free(session, side->all), "freeing memory");
    else if (side->memory == MAPPED || side->memory == READ_ONLY)
        munmap(side->all, side->span);
    else if (side->memory == HEAP)
        free(side->all);
    stack_used &= side->memory != STACK;
    global_used &= side->memory != GLOBAL;
}

static uint8_t *byte_of(const struct side *side, uint64_t n)
{
    return side->all + GUARD + (side->block ? n / side->block * side->block + n : n);
}

static uint8_t content(uint32_t round, uint32_t m, uint64_t n)
{
    return (uint8_t)(1 + (n * 7 + round * 13 + m * 29 + n / 251) % 253);
}

/* ---- messages */

static struct message any_message(uint32_t size)
{
    static const uint64_t blocks[] = {0, 0, 0, 8, 48, 4096, 16384};
    struct message m = {.from = (uint32_t)random_below(&dice, size),
                        .to = (uint32_t)random_below(&dice, size),
                        .source = (enum memory)random_below(&dice, MEMORIES),
                        .target = (enum memory)random_below(&dice, MEMORIES),
                        .source_block = blocks[random_below(&dice, 7)],
                        .target_block = blocks[random_below(&dice, 7)]};
    const uint64_t limits[] = {4000, 80000, 300000, BYTES_MAX};

    m.bytes = random_below(&dice, limits[random_below(&dice, 4)]);
    if (m.source_block || m.target_block) /* whole blocks of both: each divides the larger one */
        m.bytes = (m.bytes / 49152 + 1) * 49152;
    if (m.target == READ_ONLY)
        m.target = HEAP;
    m.slack = random_below(&dice, 3) || m.target_block ? 0 : random_below(&dice, 5000);
    return m;
}

static void send(struct side *side, const struct message *m, uint32_t round, uint32_t number)
{
    begin(side, m->source, m->bytes, m->source_block);
    for (uint64_t n = 0; n < m->bytes; n++)
        *byte_of(side, n) = content(round, number, n);
    if (side->memory == READ_ONLY)
        mprotect(side->all, side->span, PROT_READ);
    const struct tca_msg_buffer buffer = {side->all + GUARD, m->bytes, side->layout};
    int r = tca_msg_send(msg, m->to, number, &buffer, &side->request);
    if (r != -EOWNERDEAD || !killed)
        check(r, "send");
}

static void receive(struct side *side, const struct message *m, uint32_t number)
{
    begin(side, m->target, m->bytes + m->slack, m->target_block);
    const struct tca_msg_buffer buffer = {side->all + GUARD, m->bytes + m->slack, side->layout};
    int r = tca_msg_recv(msg, m->from, number, &buffer, &side->request);
    if (r != -EOWNERDEAD || !killed)
        check(r, "receive");
}

/* What was received, and that nothing else was written. */
static void compare(const struct side *side, const struct message *m, uint32_t round,
                    uint32_t number)
{
    uint8_t *right = malloc(side->span);
    memset(right, 0xee, side->span);
    for (uint64_t n = 0; n < m->bytes; n++)
        right[byte_of(side, n) - side->all] = content(round, number, n);
    if (memcmp(right, side->all, side->span) != 0 || tca_msg_bytes(side->request) != m->bytes) {
        uint64_t n = 0;
        while (n < side->span && right[n] == side->all[n])
            n++;
        printf("rank %u, round %u: message %u of %lu bytes from rank %u, memory %d to %d, blocks "
               "of %lu to %lu: byte %lu of %lu is wrong\n",
               rank, round, number, m->bytes, m->from, m->source, m->target, m->source_block,
               m->target_block, n, side->span);
        exit(1);
    }
    free(right);
}

/* The processes of a node reach each other's memory: no copy of all data was made. */
static void expect_one_copy(const struct side *side, const struct message *m)
{
    if (forbidden || m->source_block || m->target_block || m->bytes < 1 << 17 || m->from == m->to ||
        tca_node_of(session, m->from) != tca_node_of(session, m->to))
        return;
    if (side->request->staging)
        expect(1, 0, NULL, "a long message that was staged");
}

/* ---- a round */

static void fork_one(struct side *sides, uint32_t count)
{
    const pid_t child = fork();

    for (uint32_t i = 0; child == 0 && i < count; i++)
        if (sides[i].all && sides[i].memory != REGION && sides[i].memory != ALLOCATED &&
            sides[i].memory != READ_ONLY)
            memset(sides[i].all, 0x11, sides[i].span);
    if (child == 0)
        _exit(0);
    check(child < 0 ? -errno : 0, "fork");
    waitpid(child, NULL, 0);
}

static void wait_for(const struct side *side, const struct message *m)
{
    if (!side->request)
        return;
    const int r = tca_msg_wait(side->request, TCA_DEFAULT);
    if (r != -EOWNERDEAD || !killed || (m->from != 1 && m->to != 1))
        check(r, "wait");
}

static void finish(struct side *side, const struct message *m, uint32_t round, uint32_t number,
                   bool received)
{
    if (side->request && !(killed && (m->from == 1 || m->to == 1))) {
        if (received)
            compare(side, m, round, number);
        expect_one_copy(side, m);
    }
    end(side);
}

static void play(uint32_t round, uint32_t size)
{
    struct message messages[COUNT_MAX];
    struct side sent[COUNT_MAX] = {0}, received[COUNT_MAX] = {0};
    const uint32_t count = 1 + (uint32_t)random_below(&dice, COUNT_MAX);
    const bool first = (random_below(&dice, 1u << size) >> rank) & 1; /* receives */

    for (uint32_t m = 0; m < count; m++)
        messages[m] = any_message(size);
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t m = 0; m < count; m++) {
            if (messages[m].to == rank && first == (half == 0))
                receive(&received[m], &messages[m], m);
            if (messages[m].from == rank && first == (half == 1))
                send(&sent[m], &messages[m], round, m);
            if (killed && rank == 1 && round == ROUNDS / 2 && half == 1 && m == count / 2)
                raise(SIGKILL);
        }
    if (forked) {
        fork_one(sent, count);
        fork_one(received, count);
    }
    for (uint32_t m = 0; m < count; m++) {
        wait_for(&received[m], &messages[m]);
        wait_for(&sent[m], &messages[m]);
    }
    for (uint32_t m = 0; m < count; m++) {
        if (messages[m].to == rank)
            finish(&received[m], &messages[m], round, m, true);
        if (messages[m].from == rank)
            finish(&sent[m], &messages[m], round, m, false);
    }
}

static void forbid(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0, "PR_SET_NO_NEW_PRIVS");
    check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? -errno : 0, "seccomp");
}

/* ---- a sender that does not call */

static void await_stop(pid_t pid)
{
    char path[64], line[256] = "";

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    for (uint64_t n = 0; !strstr(line, ") T "); n++) {
        FILE *file = fopen(path, "r");
        if (!file || !fgets(line, sizeof(line), file))
            expect(1, 0, NULL, "reading the state of rank 1");
        fclose(file);
        tca_pause(n);
    }
}

/* Rank 1 is stopped when it has sent: rank 0 receives all of it. */
static void receive_idle(bool with_layout)
{
    const uint64_t bytes = BYTES_MAX;
    struct side side = {0};

    if (rank == 1) {
        const struct message m = {.from = 1, .to = 0, .bytes = bytes, .source = HEAP};
        send(&side, &m, 0, 0);
        raise(SIGSTOP);
        wait_for(&side, &m);
    } else {
        const struct message m = {.from = 1,
                                  .to = 0,
                                  .bytes = bytes,
                                  .target = HEAP,
                                  .target_block = with_layout ? 4096 : 0};
        const pid_t pid = msg->peers[1].direct->view.owner_pid;
        await_stop(pid);
        receive(&side, &m, 0);
        wait_for(&side, &m);
        compare(&side, &m, 0, 0);
        check(kill(pid, SIGCONT) < 0 ? -errno : 0, "SIGCONT");
    }
    end(&side);
}

/* Which ranks this one can reach, and why not. */
static void expect_reach(void)
{
    const int node = (int)tca_node(session);

    for (uint32_t other = 0; other < tca_size(session); other++) {
        const int r = tca_msg_reaches(msg, other);
        if (other == rank)
            expect(r, -EOPNOTSUPP, "this rank", "reaching itself");
        else if (tca_node_of(session, other) != node)
            expect(r, -EOPNOTSUPP, "another node", "reaching another node");
        else if (forbidden && rank == 1)
            expect(r, -EPERM, "seccomp", "reaching what is forbidden");
        else
            expect(r, 0, NULL, "reaching a rank of the node");
        if (r == 0) /* a rank that names another one's region instead of its own */
            expect(near_owner_pid(session, msg->peers[other].direct->areas, rank), 0, NULL,
                   "the process of another rank's region");
    }
    expect(tca_msg_reaches(msg, tca_size(session)), -EINVAL, "the group has ranks", "no rank");
}

int main(int argc, char **argv)
{
    uint8_t own[OWN_BYTES];

    stack = own;
    dice = (struct random){(uint64_t)atoi(argv[1])};
    forbidden = argc > 2 && strcmp(argv[2], "forbidden") == 0;
    forked = argc > 2 && strcmp(argv[2], "forked") == 0;
    killed = argc > 2 && strcmp(argv[2], "killed") == 0;
    check(tca_open(NULL, &session), "open");
    rank = tca_rank(session);
    if (forbidden && rank == 1)
        forbid();
    check(tca_msg_new(session, NULL, &msg), "messenger");
    expect_reach();
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
    const bool idle = argc > 2 && strcmp(argv[2], "idle") == 0;
    for (int i = 0; idle && i < 2; i++)
        receive_idle(i);
    for (uint32_t round = 0; round < ROUNDS && !idle && !(killed && round > ROUNDS / 2); round++)
        play(round, tca_size(session));
    tca_msg_free(msg);
    tca_close(session);
    return wrong;
}
