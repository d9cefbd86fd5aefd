/* The drivers of tcad. */
#include "drivers/table.h"

const struct driver_ops *const drivers_all[] = {
    &shm_driver_ops, &peach2_driver_ops, &hca_driver_ops, &ofi_driver_ops, &tcp_driver_ops, NULL};
