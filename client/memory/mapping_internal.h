/* Between mapping.c, which maps regions, and mapping_segment.c. */
#pragma once

#include "client/memory/mapping.h"

/* Takes a descriptor, by its index from 1, out of the frame. */
int mapping_take_fd(struct frame *frame, uint32_t index);
/* Takes the segment of a mapping over from the frame, unless it is known. */
int mapping_adopt_segment(struct tca *session, const Tca__Mapping *mapping, struct frame *frame);
void mapping_clear_segments(struct tca *session);
