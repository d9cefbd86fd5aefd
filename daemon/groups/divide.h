/* How a split divides a group: the same at all nodes, from what all ranks have given. */
#pragma once

#include <stdint.h>

#define DIVIDE_NONE UINT32_MAX /* a rank of this colour gets no part */

/* What a rank gives, as it is gathered. */
struct divide_choice {
    uint32_t colour;
    int32_t key;
};

/* A rank of the group. The parts follow one another; in a part, ranks are in the order of their
 * keys, and of their own numbers where these are equal. */
struct divided {
    uint32_t colour;
    int32_t key;
    uint32_t rank;
};

/* The parts that have one of these ranks. ret_divided: room for `size` and `count` more. Returns
 * how many it has filled. */
uint32_t divide(const uint8_t *choices, uint32_t size, const uint32_t *ranks, uint32_t count,
                struct divided *ret_divided);
/* How many of them, from the first one on, are in one part. */
uint32_t divide_part(const struct divided *divided, uint32_t count);
