/* What configures an instance of peach2 besides struct driver_config: driver_config.own. */
#pragma once

#include <stdint.h>

struct peach2_config {
    const char *board;     /* control socket of this node's board; NULL: no board */
    uint32_t nodes;        /* of the sub-cluster; 0: the maximum */
    uint64_t window_bytes; /* of bus addresses; 0: all that the board has */
    uint32_t rings;        /* cabled as 1 or 2 rings; 0: by the number of nodes */
};
