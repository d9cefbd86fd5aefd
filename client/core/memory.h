/* Memory, for modules of this library that are built on tca.h. */
#pragma once

#include <stdbool.h>

#include "client/include/tca.h"

/* Whether it was made by tca_region_attach(). */
bool region_is_attached(const struct tca_region *region);
