#pragma once

#include "client/include/tca.h"
#include "proto/layout.h"

/* A public layout is a program of proto/layout.h under another name. */
static inline const struct layout *layout_of(const struct tca_layout *layout)
{
    return (const struct layout *)layout;
}
