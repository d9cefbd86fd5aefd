/* The hca driver where there is no device of the name, whatever this machine has. */
#include <criterion/criterion.h>
#include <errno.h>

#include "drivers/driver.h"
#include "drivers/hca/config.h"

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
