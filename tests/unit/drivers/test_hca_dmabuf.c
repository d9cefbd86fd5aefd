/* Memory of dmabufs, registered with a device that takes them, or their mappings only, or neither.
 * Soft-RoCE takes no dmabuf: the linker redirects the driver's registrations to this file. */
#include <criterion/criterion.h>
#include <errno.h>

#include "drivers/hca/hca.h"

enum { FD = 77, PAGE = 4096, BYTES = 16 * PAGE, PART = 3 * PAGE, PART_BYTES = 5 * PAGE };

/* A registration that the device has. */
struct registered {
    struct ibv_mr mr; /* first */
    bool dmabuf, used;
    int fd;
    uint64_t offset_bytes, iova;
    int access;
};

static struct registered registered[8];
static int dmabuf_error, mapping_error;
static unsigned asked_dmabuf, asked_mapping;
static uint8_t memory[BYTES] __attribute__((aligned(PAGE)));

static struct ibv_mr *add(struct ibv_pd *pd, void *address, size_t bytes, struct registered values)
{
    struct registered *at = registered;
    while (at->used)
        at++;
    cr_assert(at < registered + 8);
    *at = values;
    at->used = true;
    at->mr = (struct ibv_mr){.pd = pd, .addr = address, .length = bytes};
    return &at->mr;
}

struct ibv_mr *__wrap_ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                        uint64_t iova, int fd, int access);
struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access);
struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length,
                                       uint64_t iova, unsigned int access);
int __wrap_ibv_dereg_mr(struct ibv_mr *mr);

struct ibv_mr *__wrap_ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                        uint64_t iova, int fd, int access)
{
    asked_dmabuf++;
    errno = dmabuf_error;
    return dmabuf_error ? NULL
                        : add(pd, NULL, length,
                              (struct registered){.dmabuf = true,
                                                  .fd = fd,
                                                  .offset_bytes = offset,
                                                  .iova = iova,
                                                  .access = access});
}

struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length,
                                       uint64_t iova, unsigned int access)
{
    asked_mapping++;
    errno = mapping_error;
    return mapping_error
               ? NULL
               : add(pd, address, length, (struct registered){.iova = iova, .access = (int)access});
}

/* The header's ibv_reg_mr() calls either, depending on what the compiler knows of `access`. */
struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
    return __wrap_ibv_reg_mr_iova2(pd, address, length, (uintptr_t)address, (unsigned)access);
}

int __wrap_ibv_dereg_mr(struct ibv_mr *mr)
{
    ((struct registered *)mr)->used = false;
    return 0;
}

static struct ibv_pd pd;
static struct hca_domain domain = {.pd = &pd, .users = 1};
static struct hca_driver hca = {.domain = &domain, .lock = PTHREAD_MUTEX_INITIALIZER};
static unsigned gone;

static void is_gone(void *context)
{
    gone++;
}

static int region_add(bool dmabuf, struct driver_region **ret_region)
{
    const struct driver_memory of = {
        .base = memory, .length_bytes = BYTES, .fd = FD, .dmabuf = dmabuf, .gone = is_gone};
    return hca_region_add(&hca.driver, &of, ret_region);
}

static void check(bool dmabuf, uint64_t offset, uint64_t bytes)
{
    for (struct registered *at = registered; at < registered + 8; at++)
        if (at->used && at->mr.length == bytes && at->iova == (uintptr_t)memory + offset) {
            cr_assert(at->dmabuf == dmabuf);
            cr_assert(at->access == (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
            cr_assert(!dmabuf || (at->fd == FD && at->offset_bytes == offset));
            cr_assert(dmabuf || at->mr.addr == memory + offset);
            return;
        }
    cr_assert_fail("bytes %lu + %lu are not registered", offset, bytes);
}

/* All of it and a part, as a dmabuf or as a mapping. */
static void check_both(bool memory_is_dmabuf, bool dmabuf)
{
    struct driver_region *region;
    cr_assert_eq(region_add(memory_is_dmabuf, &region), 0);
    check(dmabuf, 0, BYTES);
    cr_assert_eq(hca_region_part(&hca.driver, region, PART, PART_BYTES), 0);
    check(dmabuf, PART, PART_BYTES);
    hca_region_remove(&hca.driver, region);
    cr_assert_eq(gone, 1);
    cr_assert_eq(domain.users, 1);
    for (int i = 0; i < 8; i++)
        cr_assert(!registered[i].used);
}

Test(hca_dmabuf, is_registered)
{
    check_both(true, true);
    cr_assert_eq(asked_mapping, 0);
}

Test(hca_dmabuf, is_not_asked_of_other_memory)
{
    check_both(false, false);
    cr_assert_eq(asked_dmabuf, 0);
}

Test(hca_dmabuf, its_mapping_if_the_device_takes_none)
{
    dmabuf_error = EOPNOTSUPP;
    check_both(true, false);
}

Test(hca_dmabuf, neither)
{
    struct driver_region *region;
    dmabuf_error = EOPNOTSUPP;
    mapping_error = EFAULT;
    cr_assert_eq(region_add(true, &region), -EFAULT);
    cr_assert_eq(asked_dmabuf, 1);
    cr_assert_eq(asked_mapping, 1);
    cr_assert_eq(domain.users, 1);
}
