/*
 * Memory of an ofi instance that is freed while peers put into it: late writes do not reach other
 * memory, the connection survives, and the addresses become free when nothing more can arrive.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/wait.h"
#include "tests/unit/drivers/attacker.h"

enum { MOST = 16 << 20, CANARY = 0x5a };

static unsigned frees_wanted(void)
{
    const char *text = getenv("TEST_OFI_FREES");
    return text ? (unsigned)atoi(text) : 100;
}

static struct ofi_driver *instance(struct side *side)
{
    return (struct ofi_driver *)side->driver;
}

/* Memory as the daemon creates it: a mapped memfd. */
struct memory {
    struct driver_region *region;
    uint8_t *base;
    size_t bytes;
};

static void memory_new(struct side *side, struct memory *memory, size_t bytes)
{
    int fd = memfd_create("freed", MFD_CLOEXEC);
    cr_assert(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    memory->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memory->bytes = bytes;
    cr_assert(memory->base != MAP_FAILED);
    memset(memory->base, CANARY, bytes);
    struct driver_memory args = {.base = memory->base, .length_bytes = bytes, .fd = fd};
    cr_assert(side->driver->ops->region_add(side->driver, &args, &memory->region) == 0);
    close(fd);
}

static void memory_free(struct side *side, struct memory *memory)
{
    side->driver->ops->region_remove(side->driver, memory->region);
    munmap(memory->base, memory->bytes);
}

static void check_canary(const struct memory *memory)
{
    for (size_t i = 0; i < memory->bytes; i += 8)
        if (memory->base[i] != CANARY)
            cr_assert_fail("byte %zu of somebody else's memory was written", i);
}

static bool quarantine_empty(struct side *a, struct side *b)
{
    const uint64_t give_up_ns = clock_now_ns() + UINT64_C(30000000000);
    while (instance(a)->quarantine_count > 0) {
        pump_rounds(a, b, 10);
        if (clock_now_ns() > give_up_ns)
            return false;
    }
    return true;
}

/* ---- an honest peer ---- */

static struct side sides[2];
static struct driver_peer *peer;

/* The target is freed while a put is in flight, and other memory is allocated at once. */
static void free_under_way(unsigned number, size_t bytes)
{
    uint8_t blob[LANDING_MAX_BYTES];
    size_t blob_bytes;
    struct memory freed, next;
    struct driver_landing *landing;
    struct driver_put *put;
    struct driver_put_info info;
    struct op op;
    struct driver *from = sides[0].driver, *to = sides[1].driver;
    const bool strided = number % 4 == 3;
    const struct shape shape = {.block = bytes, .count = 1, .outer = 1},
                       comb = {.block = bytes / 512,
                               .count = 256,
                               .stride = (int64_t)bytes / 256,
                               .outer = 1};
    struct layout *source = shape_layout(strided ? &comb : &shape),
                  *target = shape_layout(strided ? &comb : &shape);

    memory_new(&sides[1], &freed, bytes);
    struct driver_landing_args landing_args = {
        .region = freed.region, .layout = target, .notify = true, .token = number};
    cr_assert(to->ops->landing_new(to, &landing_args, &landing, blob, &blob_bytes) == 0);
    struct driver_put_args args = {.peer = peer,
                                   .region = sides[0].region,
                                   .layout = source,
                                   .landing = blob,
                                   .landing_bytes = blob_bytes,
                                   .target_layout = target};
    cr_assert(from->ops->put_prepare(from, &args, &put, &info) == 0);
    op_init(&op);
    cr_assert(post(&sides[0], &sides[1], put, &op) == 0);
    pump_rounds(&sides[0], &sides[1], number % 7);

    to->ops->landing_free(to, landing);
    memory_free(&sides[1], &freed);
    memory_new(&sides[1], &next, bytes);
    cr_assert(pump_until(&sides[0], &sides[1], &op.done, 1), "free %u: the put hangs", number);
    cr_assert(op.status == 0 || op.status == -ESTALE, "free %u: %d", number, op.status);
    pump_rounds(&sides[0], &sides[1], 50);
    check_canary(&next);
    memory_free(&sides[1], &next);
    from->ops->put_release(from, put);
    free(source);
    free(target);
}

Test(ofi_freed, while_a_peer_puts, .timeout = 300)
{
    uint8_t address[ADDRESS_MAX_BYTES];
    for (unsigned i = 0; i < 2; i++)
        cr_assert(side_open(&sides[i], "ofi", 0, MOST) == 0);
    size_t bytes = (size_t)sides[1].driver->ops->address(sides[1].driver, address);
    cr_assert(connect_to(sides[0].driver, address, bytes, &peer) == 0);
    memset(sides[0].memory, 0xbb, MOST);
    const unsigned frees = frees_wanted();
    for (unsigned i = 0; i < frees; i++)
        free_under_way(i, (size_t)4096 << i % 13);
    cr_assert(sides[0].downs == 0, "a free has cost the peer");
    cr_assert(quarantine_empty(&sides[1], &sides[0]), "%zu places are kept for ever",
              (size_t)instance(&sides[1])->quarantine_count);
    cr_assert(instance(&sides[1])->quarantine_bytes == 0);
    sides[0].driver->ops->peer_disconnect(sides[0].driver, peer);
    pump_rounds(&sides[0], &sides[1], 100);
    for (unsigned i = 0; i < 2; i++)
        side_close(&sides[i]);
}

/* ---- an unknown key ---- */

/* A put to the beginning of the region, with this bit of the key changed. */
static struct driver_put *put_to(struct driver_landing **ret_landing, const struct layout *layout,
                                 uint64_t wrong)
{
    uint8_t bytes[LANDING_MAX_BYTES];
    struct ofi_blob blob;
    size_t count;
    struct driver_put *put;
    struct driver_put_info info;
    struct driver_landing_args landing_args = {
        .region = sides[1].region, .layout = layout, .notify = true, .token = wrong};
    struct driver *from = sides[0].driver, *to = sides[1].driver;
    cr_assert(to->ops->landing_new(to, &landing_args, ret_landing, bytes, &count) == 0);
    memcpy(&blob, bytes, sizeof(blob));
    blob.key ^= wrong;
    struct driver_put_args args = {.peer = peer,
                                   .flow = wrong,
                                   .region = sides[0].region,
                                   .layout = layout,
                                   .landing = &blob,
                                   .landing_bytes = sizeof(blob),
                                   .target_layout = layout};
    cr_assert(from->ops->put_prepare(from, &args, &put, &info) == 0);
    return put;
}

Test(ofi_freed, unknown_key, .timeout = 120)
{
    enum { BYTES = 3 << 20, PUTS = 4 };
    uint8_t address[ADDRESS_MAX_BYTES];
    struct driver_landing *landings[PUTS];
    struct driver_put *puts[PUTS];
    struct op ops[PUTS];
    struct layout *layout;
    for (unsigned i = 0; i < 2; i++)
        cr_assert(side_open(&sides[i], "ofi", 0, BYTES) == 0);
    size_t bytes = (size_t)sides[1].driver->ops->address(sides[1].driver, address);
    cr_assert(connect_to(sides[0].driver, address, bytes, &peer) == 0);
    cr_assert(layout_contiguous(BYTES, &layout) == 0);
    memset(sides[0].memory, 0xbb, BYTES);
    for (unsigned i = 0; i < PUTS; i++)
        puts[i] = put_to(&landings[i], layout, i % 2);
    for (unsigned round = 0; round < 3; round++) {
        sides[1].notified_count = 0;
        for (unsigned i = 0; i < PUTS; i++) {
            op_init(&ops[i]);
            const int r = post(&sides[0], &sides[1], puts[i], &ops[i]);
            cr_assert(r == (i % 2 && round > 0 ? -ESTALE : 0), "round %u, put %u: %d", round, i, r);
        }
        for (unsigned i = 0; i < PUTS; i++) {
            if (i % 2 && round > 0)
                continue;
            cr_assert(pump_until(&sides[0], &sides[1], &ops[i].done, 1), "put %u hangs", i);
            cr_assert(ops[i].status == (i % 2 ? -ESTALE : 0), "put %u: %d", i, ops[i].status);
            /* Operations that were lost with the connection are sent again once. */
            cr_assert(ops[i].op.retries <= 2 * BYTES / OFI_PIECE_BYTES, "put %u: %u retries", i,
                      ops[i].op.retries);
        }
        cr_assert(pump_until(&sides[0], &sides[1], &sides[1].notified_count, PUTS / 2));
        pump_rounds(&sides[0], &sides[1], 1000);
        cr_assert(sides[1].notified_count == PUTS / 2, "notified of what is not there");
    }
    for (unsigned i = 0; i < BYTES; i++)
        cr_assert(sides[1].memory[i] == 0xbb);
    cr_assert(sides[0].downs == 0);
    for (unsigned i = 0; i < PUTS; i++) {
        sides[0].driver->ops->put_release(sides[0].driver, puts[i]);
        sides[1].driver->ops->landing_free(sides[1].driver, landings[i]);
    }
    sides[0].driver->ops->peer_disconnect(sides[0].driver, peer);
    pump_rounds(&sides[0], &sides[1], 100);
    for (unsigned i = 0; i < 2; i++)
        side_close(&sides[i]);
    free(layout);
}

/* ---- a sender that sends half a write, and the rest after other memory was allocated ---- */

/* Runs the attacker until a full socket stops its write halfway. */
static unsigned attacker_stop(void)
{
    enum { ROUNDS = 200 };
    struct fi_cq_data_entry entry;
    /* Only the attacker progresses, so the write stops when the sockets are full. */
    for (unsigned i = 0; i < ROUNDS; i++)
        fi_cq_read(attacker.cq, &entry, 1);
    return attacker.sent;
}

Test(ofi_freed, half_a_write, .timeout = 120)
{
    enum { BYTES = 16 << 20, HALF = 64 };
    uint8_t blob_bytes[LANDING_MAX_BYTES];
    struct ofi_blob blob;
    size_t count;
    struct memory freed, next[8];
    struct driver_landing *landing;
    cr_assert(side_open(&victim, "ofi", 4096, 1 << 20) == 0);
    attacker_open();
    get_ring();

    memory_new(&victim, &freed, BYTES);
    struct layout *layout;
    cr_assert(layout_contiguous(BYTES, &layout) == 0);
    struct driver_landing_args args = {.region = freed.region, .layout = layout, .notify = true};
    cr_assert(victim.driver->ops->landing_new(victim.driver, &args, &landing, blob_bytes, &count) ==
              0);
    memcpy(&blob, blob_bytes, sizeof(blob));

    uint8_t *source = malloc(BYTES);
    struct fid_mr *mr;
    memset(source, 0xee, BYTES);
    cr_assert(fi_mr_reg(attacker.domain, source, BYTES, FI_WRITE, 0, 77, 0, &mr, NULL) == 0);
    while (fi_write(attacker.endpoint, source, BYTES, fi_mr_desc(mr), attacker.victim, blob.address,
                    blob.key, &attacker) != 0)
        pump(1);
    attacker.posted++;
    attacker_stop();
    for (unsigned i = 0; i < HALF && freed.base[BYTES / 4] == CANARY; i++) {
        attacker_stop();
        cr_assert(victim.driver->ops->progress(victim.driver, 16) >= 0);
    }
    cr_assert(freed.base[0] == 0xee, "nothing has come yet");
    cr_assert(freed.base[BYTES - 1] == CANARY, "all has come already");

    victim.driver->ops->landing_free(victim.driver, landing);
    memory_free(&victim, &freed);
    for (unsigned i = 0; i < 8; i++)
        memory_new(&victim, &next[i], BYTES);
    while (attacker.sent < attacker.posted)
        pump(1);
    pump(1000);
    for (unsigned i = 0; i < 8; i++)
        check_canary(&next[i]);
    /* It has not confirmed that it has stopped: the addresses are not reused. */
    cr_assert(instance(&victim)->quarantine_count == 1);
    for (unsigned i = 0; i < 8; i++)
        memory_free(&victim, &next[i]);
    fi_close(&mr->fid);
    free(source);
    free(layout);
    attacker_close();
    side_close(&victim);
}

/* ---- a sender that is slow to reply ---- */

/* Frees memory that had a landing, whose key the sender may know. */
static void free_told(void)
{
    uint8_t blob[LANDING_MAX_BYTES];
    size_t bytes;
    struct memory told;
    struct driver_landing *landing;
    struct layout *layout;
    struct driver *to = sides[1].driver;
    memory_new(&sides[1], &told, 1 << 20);
    cr_assert(layout_contiguous(1 << 20, &layout) == 0);
    struct driver_landing_args args = {.region = told.region, .layout = layout};
    cr_assert(to->ops->landing_new(to, &args, &landing, blob, &bytes) == 0);
    to->ops->landing_free(to, landing);
    memory_free(&sides[1], &told);
    free(layout);
}

/* Counts wake-ups until it asks the sender to stop. */
static unsigned wakes_until_asked(struct side *side, const struct ofi_source *source)
{
    const uint64_t asked = source->holder.asked;
    unsigned wakes = 0;
    while (source->holder.asked == asked) {
        struct pollfd event = {.fd = side->driver->ops->event_fd(side->driver), .events = POLLIN};
        cr_assert(side->driver->ops->progress(side->driver, 16) >= 0);
        if (side->driver->ops->arm(side->driver) < 0)
            continue;
        cr_assert(poll(&event, 1, 30000) == 1, "it never asks");
        wakes++;
    }
    return wakes;
}

Test(ofi_freed, sleeps_until_it_asks, .timeout = 120)
{
    uint8_t address[ADDRESS_MAX_BYTES];
    for (unsigned i = 0; i < 2; i++)
        cr_assert(side_open(&sides[i], "ofi", 0, 1 << 20) == 0);
    size_t bytes = (size_t)sides[1].driver->ops->address(sides[1].driver, address);
    cr_assert(connect_to(sides[0].driver, address, bytes, &peer) == 0);
    free_under_way(0, 1 << 20);
    cr_assert(quarantine_empty(&sides[1], &sides[0]));

    free_told();
    const struct ofi_driver *ofi = instance(&sides[1]);
    const struct ofi_source *source = ofi->sources[ofi->sources_end - 1];
    const unsigned wakes = wakes_until_asked(&sides[1], source);
    cr_assert(wakes < 20, "%u wakes in a second with nothing to do", wakes);
    cr_assert(quarantine_empty(&sides[1], &sides[0]));

    sides[0].driver->ops->peer_disconnect(sides[0].driver, peer);
    pump_rounds(&sides[0], &sides[1], 100);
    for (unsigned i = 0; i < 2; i++)
        side_close(&sides[i]);
}

/* ---- a sender that has died ---- */

Test(ofi_freed, the_dead_do_not_answer, .timeout = 120)
{
    uint8_t address[ADDRESS_MAX_BYTES];
    struct driver_peer *back;
    for (unsigned i = 0; i < 2; i++)
        cr_assert(side_open(&sides[i], "ofi", 0, 1 << 20) == 0);
    size_t bytes = (size_t)sides[1].driver->ops->address(sides[1].driver, address);
    cr_assert(connect_to(sides[0].driver, address, bytes, &peer) == 0);
    bytes = (size_t)sides[0].driver->ops->address(sides[0].driver, address);
    cr_assert(connect_to(sides[1].driver, address, bytes, &back) == 0);
    free_under_way(0, 1 << 20);
    cr_assert(quarantine_empty(&sides[1], &sides[0]));

    free_told();
    struct driver *to = sides[1].driver;
    pump_rounds(&sides[1], &sides[1], 1000);
    cr_assert(instance(&sides[1])->quarantine_count == 1, "freed before the peer has confirmed");

    /* Its owner has given it up, but the connection exists: it may still write. */
    to->ops->peer_fail(to, back, -EHOSTDOWN);
    pump_rounds(&sides[1], &sides[1], 100);
    to->ops->peer_disconnect(to, back);
    pump_rounds(&sides[1], &sides[1], 1000);
    cr_assert(instance(&sides[1])->quarantine_count >= 1, "freed while the connection exists");

    side_close(&sides[0]);
    struct side none = {0};
    cr_assert(quarantine_empty(&sides[1], &none), "kept although no peer is left");
    side_close(&sides[1]);
}
