/* Preparing something together: in each round of it, all ranks learn whether all have succeeded.
 * For modules of this library that are built on tca.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/core/subgroup.h"
#include "client/include/tca.h"

enum { AGREE_TEXT_BYTES = 256 }; /* of an error, for the other ranks: the rest is cut off */

/* What a rank tells the others in a round begins with this: plain data, for tca_allgather(),
 * without gaps of unknown content. */
struct agree_head {
    int32_t error; /* 0, or a negative errno: this rank has failed */
    uint32_t round;
};

/* Ends a round. Collective for the group; NULL: for all ranks. `error`: 0, or why this rank has
 * failed, with its text as the error text; head->error becomes it. Gathers the heads of all ranks,
 * of so many bytes each, of which the first same_bytes bytes (at least those of this struct) are
 * compared: ret_heads->other. That some are not the same is no error here. As long as they are the
 * same, a round costs a rank no more in a large group than in a small one. If ranks have failed,
 * gathers the texts of their errors, too, which are not exchanged otherwise. The result is then the
 * error of the first of them, the same at all ranks but for those that have failed themselves,
 * which keep their own. -EPROTO: ranks are in different rounds. *ret_known: whether all ranks know
 * that one has failed, so that none of them goes on; not, if the gathering fails. `what`: "halo
 * exchange". The caller releases the heads, also after an error. */
int agree(struct tca *session, struct tca_group *group, const char *what, int error,
          struct agree_head *head, size_t head_bytes, size_t same_bytes, struct gathered *ret_heads,
          bool *ret_known);

static inline const struct agree_head *agree_head_of(const struct gathered *heads, uint32_t rank)
{
    return gathered_of(heads, rank);
}
