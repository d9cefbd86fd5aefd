/* The ofi driver without memory: freeing regions, posting puts and flushing continue. The linker
 * redirects the driver's calls of the allocator (not libfabric's) to this file. mmap64 is the name
 * of mmap() with _FILE_OFFSET_BITS=64, which meson sets. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/drivers/kit.h"

enum { BYTES = 1 << 20 };

static bool no_heap, no_mappings;

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__real_mmap64(void *address, size_t bytes, int access, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t bytes, int access, int flags, int fd, off_t offset);

void *__wrap_malloc(size_t bytes)
{
    return no_heap ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return no_heap ? NULL : __real_calloc(count, bytes);
}

void *__wrap_mmap64(void *address, size_t bytes, int access, int flags, int fd, off_t offset)
{
    if (!no_mappings)
        return __real_mmap64(address, bytes, access, flags, fd, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

static struct side sides[2];
static struct driver_peer *peer;
static struct layout *layout;

/* A region of the receiver's that the sender has written to, and a put that leads there. */
static struct driver_region *region;
static uint8_t *memory;
static unsigned gone;
static pid_t gone_in; /* thread */
static struct driver_landing *landing;
static struct driver_put *put;

static void region_gone(void *context)
{
    gone_in = gettid();
    __atomic_fetch_add(&gone, 1, __ATOMIC_RELEASE);
}

static void setup(void)
{
    uint8_t address[ADDRESS_MAX_BYTES], blob[LANDING_MAX_BYTES];
    size_t blob_bytes;
    struct driver_put_info info;
    for (unsigned i = 0; i < 2; i++)
        cr_assert(side_open(&sides[i], "ofi", 0, BYTES) == 0);
    struct driver *from = sides[0].driver, *to = sides[1].driver;
    size_t bytes = (size_t)to->ops->address(to, address);
    cr_assert(connect_to(from, address, bytes, &peer) == 0);

    int fd = memfd_create("region", MFD_CLOEXEC);
    cr_assert(fd >= 0 && ftruncate(fd, BYTES) == 0);
    memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert(memory != MAP_FAILED);
    const struct driver_memory args = {
        .base = memory, .length_bytes = BYTES, .fd = fd, .gone = region_gone};
    cr_assert(to->ops->region_add(to, &args, &region) == 0);
    close(fd);
    cr_assert(layout_contiguous(BYTES, &layout) == 0);
    const struct driver_landing_args landing_args = {
        .region = region, .layout = layout, .notify = true};
    cr_assert(to->ops->landing_new(to, &landing_args, &landing, blob, &blob_bytes) == 0);
    const struct driver_put_args put_args = {.peer = peer,
                                             .region = sides[0].region,
                                             .layout = layout,
                                             .landing = blob,
                                             .landing_bytes = blob_bytes,
                                             .target_layout = layout};
    cr_assert(from->ops->put_prepare(from, &put_args, &put, &info) == 0);
}

static void run_put(void)
{
    struct op op;
    op_init(&op);
    cr_assert(post(&sides[0], &sides[1], put, &op) == 0);
    cr_assert(pump_until(&sides[0], &sides[1], &op.done, 1));
    cr_assert(op.status == 0);
}

static void teardown(void)
{
    struct driver *from = sides[0].driver, *to = sides[1].driver;
    from->ops->put_release(from, put);
    if (landing)
        to->ops->landing_free(to, landing);
    if (region)
        to->ops->region_remove(to, region);
    from->ops->peer_disconnect(from, peer);
    pump_rounds(&sides[0], &sides[1], 100);
    for (unsigned i = 0; i < 2; i++)
        side_close(&sides[i]);
    cr_assert(gone == 1);
    munmap(memory, BYTES);
    free(layout);
}

TestSuite(ofi_memory, .init = setup, .fini = teardown, .timeout = 60);

/* Waits until the region has left the quarantine. */
static void wait_gone(void)
{
    cr_assert(pump_until(&sides[0], &sides[1], &gone, 1));
    cr_assert(gone_in != gettid(), "the thread that serves all peers has deregistered it");
}

static void free_region(void)
{
    struct driver *to = sides[1].driver;
    to->ops->landing_free(to, landing);
    to->ops->region_remove(to, region);
    landing = NULL;
    region = NULL;
}

Test(ofi_memory, regions_are_freed_without_heap)
{
    run_put();
    no_heap = true;
    free_region();
    no_heap = false;
    wait_gone();
}

/* The address is kept, and the region is not reported as gone, until the mapping is replaced. */
Test(ofi_memory, regions_are_freed_without_mappings)
{
    run_put();
    no_mappings = true;
    free_region();
    pump_rounds(&sides[0], &sides[1], 1000);
    cr_assert(gone == 0);
    no_mappings = false;
    wait_gone();
}

Test(ofi_memory, closing_frees_what_was_not_replaced)
{
    run_put();
    no_mappings = true;
    free_region();
    pump_rounds(&sides[0], &sides[1], 10);
    no_mappings = false;
}

Test(ofi_memory, puts_and_flushes_need_no_heap)
{
    struct op flush;
    run_put(); /* the link is made */
    no_heap = true;
    run_put();
    op_init(&flush);
    cr_assert(sides[0].driver->ops->peer_flush(sides[0].driver, peer, &flush.op) == 0);
    cr_assert(pump_until(&sides[0], &sides[1], &flush.done, 1));
    cr_assert(flush.status == 0);
    no_heap = false;
}
