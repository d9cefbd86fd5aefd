#include "tests/unit/drivers/peach2/sender.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/drivers/kit.h"

enum { PUTS = 256, MUST_NOT_FAIL = 3 };

struct sending {
    struct sender *sender;
    struct side side;
    struct driver_peer *peer;
    unsigned downs; /* when it was connected */
    struct one {
        struct driver_put *put; /* NULL: none */
        uint32_t number;
        struct op op;
        bool runs;
    } puts[PUTS];
};

static void must(bool good)
{
    if (!good)
        _exit(MUST_NOT_FAIL);
}

static void reconnect(struct sending *sending)
{
    struct sender *sender = sending->sender;
    struct driver *driver = sending->side.driver;
    if (sending->peer)
        driver->ops->peer_disconnect(driver, sending->peer);
    sending->downs = sending->side.downs;
    must(connect_to(driver, sender->owner, (size_t)sender->owner_bytes, &sending->peer) == 0);
}

/* Puts end in any order. */
static void raise_to(_Atomic uint32_t *at, uint32_t number)
{
    if (number > atomic_load(at))
        atomic_store(at, number);
}

static void release(struct sending *sending, struct one *one)
{
    sending->side.driver->ops->put_release(sending->side.driver, one->put);
    *one = (struct one){0};
}

static void ended(struct sending *sending, struct one *one, int error)
{
    atomic_fetch_add(error == -ESTALE ? &sending->sender->stale : &sending->sender->failed, 1);
    raise_to(&sending->sender->ended, one->number);
    release(sending, one);
}

static void advance(struct sending *sending, struct one *one)
{
    struct driver *driver = sending->side.driver;
    if (one->runs && one->op.done == 0)
        return;
    if (one->runs && one->op.status == 0)
        raise_to(&sending->sender->put, one->number);
    int r = one->runs ? one->op.status : 0;
    op_init(&one->op);
    one->runs = true;
    if (r == 0)
        r = driver->ops->put_post(driver, one->put, &one->op.op);
    if (r < 0)
        ended(sending, one, r);
}

static void prepare(struct sending *sending, uint32_t number)
{
    struct sender *sender = sending->sender;
    struct driver *driver = sending->side.driver;
    struct driver_put_info info;
    struct one *one = sending->puts;
    while (one->put)
        must(++one < sending->puts + PUTS);
    const struct driver_put_args args = {.peer = sending->peer,
                                         .region = sending->side.region,
                                         .layout = sender->layout,
                                         .landing = sender->blob,
                                         .landing_bytes = sender->blob_bytes,
                                         .target_layout = sender->layout};
    int r = driver->ops->put_prepare(driver, &args, &one->put, &info);
    one->number = number;
    if (r < 0) { /* -ESTALE: recalled on the way */
        *one = (struct one){0};
        must(r == -ESTALE);
        atomic_fetch_add(&sender->stale, 1);
        raise_to(&sender->ended, number);
    }
}

static bool any(const struct sending *sending)
{
    for (unsigned i = 0; i < PUTS; i++)
        if (sending->puts[i].put)
            return true;
    return false;
}

static void run(struct sending *sending)
{
    struct sender *sender = sending->sender;
    uint32_t seen = atomic_load(&sender->told);
    while (!atomic_load(&sender->end)) {
        for (unsigned i = 0; i < PUTS; i++)
            if (sending->puts[i].put)
                advance(sending, &sending->puts[i]);
        if (sending->side.downs != sending->downs && !any(sending))
            reconnect(sending);
        const uint32_t told = atomic_load(&sender->told);
        if (told != seen && sending->side.downs == sending->downs) {
            seen = told;
            prepare(sending, told);
        }
        must(sending->side.driver->ops->progress(sending->side.driver, 16) >= 0);
    }
}

static void stop(struct sending *sending)
{
    struct driver *driver = sending->side.driver;
    for (unsigned i = 0; i < PUTS; i++) {
        struct one *one = &sending->puts[i];
        while (one->put && one->runs && one->op.done == 0)
            must(driver->ops->progress(driver, 16) >= 0);
        if (one->put)
            release(sending, one);
    }
    driver->ops->peer_disconnect(driver, sending->peer);
    side_close(&sending->side);
}

static void process(struct sender *sender)
{
    static struct sending sending;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close_range(3, UINT_MAX, 0); /* also the owner's connection to its board */
    sending.sender = sender;
    must(side_open(&sending.side, "peach2", 0, (size_t)sender->layout->upper_bytes) == 0);
    layout_set(sender->layout, sending.side.memory, SENDER_BYTE);
    sender->address_bytes = sending.side.driver->ops->address(sending.side.driver, sender->address);
    reconnect(&sending);
    atomic_store(&sender->ready, 1);
    run(&sending);
    stop(&sending);
}

void layout_set(const struct layout *layout, uint8_t *base, uint8_t byte)
{
    struct layout_cursor cursor;
    int64_t offset;
    uint64_t bytes;
    layout_cursor_init(&cursor, layout, 0);
    while (layout_cursor_next(&cursor, UINT64_MAX, &offset, &bytes))
        memset(base + offset, byte, bytes);
}

struct sender *sender_new(const struct driver *owner, const struct layout *layout)
{
    struct sender *sender =
        mmap(NULL, sizeof(*sender), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert(sender != MAP_FAILED);
    sender->layout = layout;
    sender->owner_bytes = owner->ops->address((struct driver *)(uintptr_t)owner, sender->owner);
    return sender;
}

void sender_start(struct sender *sender)
{
    atomic_store(&sender->ready, 0);
    atomic_store(&sender->end, 0);
    signal(SIGCHLD, SIG_DFL); /* for its status */
    const pid_t pid = fork();
    cr_assert(pid >= 0);
    if (pid == 0) {
        process(sender);
        _exit(0);
    }
    sender->pid = pid;
}

void sender_end(struct sender *sender)
{
    int status = 0;
    atomic_store(&sender->end, 1);
    while (waitpid(sender->pid, &status, 0) < 0)
        cr_assert(errno == EINTR, "errno %d", errno);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the sender ended with %x", status);
}

void sender_kill(struct sender *sender)
{
    kill(sender->pid, SIGKILL);
    waitpid(sender->pid, NULL, 0);
}
