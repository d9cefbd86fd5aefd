/* The hca driver where there is no device of the name, whatever this machine has. */
#include <criterion/criterion.h>
#include <errno.h>

#include "drivers/driver.h"
#include "drivers/hca/hca.h"

Test(hca_absent, says_so, .timeout = 60)
{
    const struct hca_config own = {.device = "no-such-device"};
    const struct driver_config config = {.own = &own};
    const struct driver_events events = {0};
    const struct driver_ops *ops = driver_find("hca");
    struct driver_caps caps;
    struct driver *driver;
    cr_assert(ops && ops->id == DRIVER_HCA && driver_of_id(DRIVER_HCA) == ops);
    cr_assert(ops->probe(&config, &caps) == -ENODEV);
    cr_assert(ops->open(&config, &events, &driver) == -ENODEV);
}

/* The more peers there may be, the shorter are messages, so that the buffers of all of them stay
 * within a limit; no shorter than a copied put. */
Test(hca_absent, segments_by_peers)
{
    const uint64_t wished = 128 << 10, buffers = HCA_RECEIVES + HCA_WINDOW;
    uint32_t last = wished;
    for (uint32_t peers = 1; peers <= 1 << 17; peers *= 2) {
        const struct hca_config own = {.peers = peers};
        const struct driver_config config = {.segment_bytes = wished, .own = &own};
        const uint32_t bytes = hca_segment_bytes(&config);
        cr_assert(bytes <= last && bytes % 64 == 0 &&
                  bytes >= HCA_COPY_BYTES + sizeof(struct hca_head));
        if (peers <= 4096)
            cr_assert(bytes >= 1024 && bytes * buffers * peers <= HCA_BUFFERS_MAX);
        if (peers <= 32)
            cr_assert(bytes == wished);
        last = bytes;
    }
    cr_assert(hca_segment_bytes(&(struct driver_config){0}) == HCA_SEGMENT_BYTES);
}
