/* The drivers of libtca. */
#include "drivers/table.h"

const struct driver_ops *const drivers_all[] = {&shm_driver_ops, NULL};
