/*
 * Bus addresses are reused while a process on another node (sender.h) puts to their previous
 * owners, is killed, or is stopped: no put reaches other memory than that of its landing.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/wait.h"
#include "tests/unit/drivers/kit.h"
#include "tests/unit/drivers/peach2/rig.h"
#include "tests/unit/drivers/peach2/sender.h"

enum { CANARY = 0x5a, VICTIMS = 4, WINDOW = 32 << 20, SIZE = 1 << 20 };
#define PATIENCE_NS UINT64_C(30000000000)

/* Memory of node 0, with a landing for one node. */
struct memory {
    uint8_t *base;
    struct driver_region *region; /* NULL: none */
    struct driver_landing *landing;
    uint8_t blob[LANDING_MAX_BYTES];
    size_t blob_bytes;
};

static struct rig rig;
static struct side owner;
static struct sender *sender;
static struct layout *layout;
static struct memory victims[VICTIMS];
static unsigned board;
static uint64_t window_bytes, now_ns;

const char *side_board(void)
{
    return rig.boards[board].path;
}

uint64_t side_board_window(void)
{
    return window_bytes;
}

/* ---- waiting ---- */

static void progress(const char *what)
{
    cr_assert(owner.driver->ops->progress(owner.driver, 16) >= 0);
    cr_assert(clock_now_ns() - now_ns < PATIENCE_NS, "%s does not happen", what);
}

#define wait_until(what, condition)                                                                \
    do {                                                                                           \
        now_ns = clock_now_ns();                                                                   \
        while (!(condition))                                                                       \
            progress(what);                                                                        \
    } while (0)

static void sender_begin(void)
{
    board = 1;
    sender_start(sender);
    board = 0;
    wait_until("the start of the sender", atomic_load(&sender->ready));
}

static void open_with(const struct shape *shape, uint64_t bytes)
{
    window_bytes = bytes;
    layout = shape_layout(shape);
    rig_boards(&rig, 2, 1);
    cr_assert(side_open(&owner, "peach2", 0, 4096) == 0);
    sender = sender_new(owner.driver, layout);
    sender_begin();
}

/* ---- memory ---- */

/* False: no bus addresses are free now. */
static bool memory_try(struct memory *memory, const void *from, size_t from_bytes)
{
    struct driver *driver = owner.driver;
    const size_t bytes = (size_t)layout->upper_bytes;
    const int fd = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    cr_assert(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    memory->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    cr_assert(memory->base != MAP_FAILED);
    layout_set(layout, memory->base, CANARY);
    const struct driver_memory args = {.base = memory->base, .length_bytes = bytes, .fd = fd};
    int r = driver->ops->region_add(driver, &args, &memory->region);
    close(fd);
    const struct driver_landing_args landing = {
        .region = memory->region, .layout = layout, .from = from, .from_bytes = from_bytes};
    if (r == 0) {
        r = driver->ops->landing_new(driver, &landing, &memory->landing, memory->blob,
                                     &memory->blob_bytes);
        if (r < 0)
            driver->ops->region_remove(driver, memory->region);
    }
    cr_assert(r == 0 || r == -EADDRNOTAVAIL, "%d", r);
    if (r < 0) {
        munmap(memory->base, bytes);
        *memory = (struct memory){0};
    }
    return r == 0;
}

static void memory_free(struct memory *memory)
{
    owner.driver->ops->landing_free(owner.driver, memory->landing);
    owner.driver->ops->region_remove(owner.driver, memory->region);
    munmap(memory->base, (size_t)layout->upper_bytes);
    *memory = (struct memory){0};
}

static void memory_check(const struct memory *memory)
{
    struct layout_cursor cursor;
    int64_t offset;
    uint64_t bytes;
    layout_cursor_init(&cursor, layout, 0);
    while (layout_cursor_next(&cursor, UINT64_MAX, &offset, &bytes))
        for (uint64_t i = 0; i < bytes; i++)
            if (memory->base[offset + (int64_t)i] != CANARY)
                cr_assert_fail("byte %" PRIu64 " of somebody else's memory was written", i);
}

/* Memory that nobody puts into. */
static void add_victim(unsigned number)
{
    struct memory *victim = &victims[number % VICTIMS];
    if (victim->region) {
        memory_check(victim);
        memory_free(victim);
    }
    wait_until("a free address", memory_try(victim, sender->owner, (size_t)sender->owner_bytes));
}

static void free_victims(void)
{
    for (unsigned i = 0; i < VICTIMS; i++)
        if (victims[i].region) {
            memory_check(&victims[i]);
            memory_free(&victims[i]);
        }
}

/* ---- targets ---- */

static void tell(const struct memory *target)
{
    memcpy(sender->blob, target->blob, target->blob_bytes);
    sender->blob_bytes = target->blob_bytes;
    atomic_fetch_add(&sender->told, 1);
}

/* One that the sender puts into. */
static void target_new(struct memory *target)
{
    for (;;) {
        wait_until("a free address",
                   memory_try(target, sender->address, (size_t)sender->address_bytes));
        tell(target);
        const uint32_t number = atomic_load(&sender->told);
        wait_until("a put",
                   atomic_load(&sender->put) == number || atomic_load(&sender->ended) == number);
        if (atomic_load(&sender->put) == number)
            return;
        memory_free(target); /* its peer was lost because of an earlier recall */
    }
}

/* Frees targets while the sender puts into them, and uses their addresses for others. */
static void churn(unsigned count)
{
    struct memory target;
    for (unsigned i = 0; i < count; i++) {
        target_new(&target);
        memory_free(&target);
        add_victim(i);
    }
}

static void close_all(void)
{
    sender_end(sender);
    free_victims();
    side_close(&owner);
    rig_end_boards(&rig);
    free(layout);
    munmap(sender, sizeof(*sender));
}

/* ---- tests ---- */

static const struct shape plain = {.block = SIZE, .count = 1, .outer = 1},
                          /* what the hardware cannot do: staged */
    odd = {.block = 60000, .count = 16, .stride = 60001, .outer = 1, .offset = 3},
                          sparse = {.block = 4096,
                                    .count = 2,
                                    .stride = (INT64_C(16) << 30) - 4096,
                                    .outer = 1};

Test(peach2_recall, addresses_are_reused, .timeout = 120)
{
    open_with(&plain, WINDOW);
    churn(120);
    cr_assert(atomic_load(&sender->stale) > 0 && atomic_load(&sender->failed) == 0);
    close_all();
}

Test(peach2_recall, the_same_with_staged_puts, .timeout = 120)
{
    open_with(&odd, WINDOW);
    churn(120);
    cr_assert(atomic_load(&sender->stale) > 0 && atomic_load(&sender->failed) == 0);
    close_all();
}

/* 100 x 32 GiB of 512 GiB, of which no more than a few pages are touched. */
Test(peach2_recall, sparse_memory_of_16_GiB, .timeout = 120)
{
    open_with(&sparse, 0);
    churn(50);
    cr_assert(atomic_load(&sender->stale) > 0 && atomic_load(&sender->failed) == 0);
    close_all();
}

/* Others go on without it. Its next instance is admitted. */
Test(peach2_recall, the_sender_is_killed, .timeout = 120)
{
    struct memory target;
    open_with(&plain, WINDOW);
    churn(10);
    target_new(&target);
    sender_kill(sender);
    memory_free(&target);
    for (unsigned i = 0; i < 60; i++)
        add_victim(i);
    for (unsigned i = 0; i < 2; i++) { /* targets that nobody puts into any more */
        wait_until("a free address",
                   memory_try(&target, sender->address, (size_t)sender->address_bytes));
        memory_free(&target);
    }
    sender_begin();
    churn(60);
    close_all();
}

/* Stopped with puts prepared and in flight: others go on, and what it sends when it continues is
 * discarded. Its puts fail; then it connects anew. */
Test(peach2_recall, the_sender_is_stopped, .timeout = 120)
{
    struct memory target;
    open_with(&plain, WINDOW);
    churn(10);
    target_new(&target);
    kill(sender->pid, SIGSTOP);
    memory_free(&target);
    for (unsigned i = 0; i < 12; i++) { /* more than fit into the window */
        for (unsigned j = 0; j < 4; j++) {
            wait_until("a free address",
                       memory_try(&target, sender->address, (size_t)sender->address_bytes));
            memory_free(&target);
        }
        add_victim(i);
    }
    const unsigned ended = atomic_load(&sender->stale) + atomic_load(&sender->failed);
    kill(sender->pid, SIGCONT);
    wait_until("the end of its puts",
               atomic_load(&sender->stale) + atomic_load(&sender->failed) > ended);
    for (unsigned i = 0; i < VICTIMS; i++)
        memory_check(&victims[i]);
    churn(60);
    close_all();
}

/* Its next instance maps other memory at the addresses to which the sender still puts. */
Test(peach2_recall, the_owner_restarts, .timeout = 120)
{
    struct memory target;
    open_with(&plain, WINDOW);
    for (unsigned i = 0; i < 6; i++) {
        target_new(&target);
        const unsigned failed = atomic_load(&sender->failed);
        memory_free(&target);
        free_victims();
        side_close(&owner);
        cr_assert(side_open(&owner, "peach2", 0, 4096) == 0);
        /* the sender reads it when its peer has failed, which needs progress here */
        sender->owner_bytes = owner.driver->ops->address(owner.driver, sender->owner);
        for (unsigned j = 0; j < VICTIMS; j++)
            add_victim(j);
        wait_until("the end of its puts", atomic_load(&sender->failed) > failed);
    }
    close_all();
}
