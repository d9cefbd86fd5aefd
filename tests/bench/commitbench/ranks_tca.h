/* ranks_tca: the two ranks of commit_tca and puts_tca. */
#pragma once

#include <stdint.h>
#include <tca.h>

#include "tests/bench/check.h"

#define PATIENCE_NS INT64_C(60000000000)

struct ranks {
    struct tca *session;
    struct tca_region *region;
    struct tca_handle handles[2]; /* of both regions */
};

/* Opens the session, and makes a region of so many bytes. Collective. */
void ranks_open(struct ranks *ranks, uint64_t bytes);
/* Collective. */
void ranks_close(struct ranks *ranks);
