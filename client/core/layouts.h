/* Layouts as plain data, for modules of this library that are built on tca.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "client/include/tca.h"

/* Writes a layout for another rank. Returns its size; -E2BIG: more than `room` bytes. */
int layout_export(const struct tca_layout *layout, void *data, size_t room);
/* Makes a layout of untyped bytes from what another rank has written, which is copied before it is
 * checked. -EPROTO: it is not valid. */
int layout_import(const void *data, size_t bytes, struct tca_layout **ret_layout);
/* As tca_pack() and tca_unpack(), of the packed bytes position .. position + bytes only, which must
 * be in the layout. */
void layout_pack_part(const struct tca_layout *layout, const void *base, void *packed,
                      uint64_t position, uint64_t bytes);
void layout_unpack_part(const struct tca_layout *layout, void *base, const void *packed,
                        uint64_t position, uint64_t bytes);
/* Whether two layouts, which may be NULL, describe the same bytes in the same way. */
bool layout_same(const struct tca_layout *a, const struct tca_layout *b);
