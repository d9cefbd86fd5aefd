/* The drivers' tables of operations, for the two definitions of drivers_all[]. */
#pragma once

#include "drivers/driver.h"

extern const struct driver_ops shm_driver_ops;
extern const struct driver_ops ofi_driver_ops;
extern const struct driver_ops hca_driver_ops;
extern const struct driver_ops peach2_driver_ops;
extern const struct driver_ops tcp_driver_ops;
