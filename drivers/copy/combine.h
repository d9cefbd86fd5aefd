/* Combining elements with those at a target, for puts that reduce. */
#pragma once

#include <stdint.h>

#include "proto/element.h"

/* target[i] = target[i] operator source[i], for `bytes` bytes, a multiple of the element's size.
 * Needs no alignment. The result does not depend on how the bytes are divided into calls, nor on
 * the processor. If the memory overlaps, it is unspecified, with no other effect. */
typedef void combine_kernel(void *target, const void *source, uint64_t bytes);

/* operator_takes() this type. */
combine_kernel *combine_choose(enum element_operator number, enum element_type type);
