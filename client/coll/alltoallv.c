/* Alltoall with blocks of any length: the ranks first exchange the places of their blocks. */
#include <errno.h>
#include <stdlib.h>

#include "client/coll/coll.h"
#include "client/core/error.h"

enum { PIECE = 4096 / sizeof(struct tca_coll_span) /* of one tca_allgather() */ };

static bool valid(const struct tca_coll_span *spans, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (spans[i].offset_bytes >= (uint64_t)1 << 48 || spans[i].bytes >= (uint64_t)1 << 48)
            return false;
    return true;
}

static uint64_t end_of(const struct tca_coll_span *spans, uint32_t count)
{
    uint64_t end = 0;

    for (uint32_t i = 0; i < count; i++)
        if (spans[i].offset_bytes + spans[i].bytes > end)
            end = spans[i].offset_bytes + spans[i].bytes;
    return end;
}

/* Takes from a part of what all ranks receive, of `count` senders from `first` on, what they
 * receive of this one. */
static int take_column(struct tca_coll *coll, const struct gathered *rows, uint32_t first,
                       uint32_t count)
{
    uint32_t me = coll_rank(coll);

    if (me < first || me >= first + count)
        return 0;
    for (uint32_t rank = 0; rank < coll->shape.places.size; rank++) {
        const struct tca_coll_span span =
            ((const struct tca_coll_span *)gathered_of(rows, rank))[me - first];
        coll->targets[rank] = span.offset_bytes;
        if (span.bytes != coll->spans[rank].bytes)
            return error_set(-EPROTO, "this rank sends %llu bytes to rank %u, which expects %llu",
                             (unsigned long long)coll->spans[rank].bytes, rank,
                             (unsigned long long)span.bytes);
    }
    return 0;
}

static int gather(struct tca_coll *coll, const struct tca_coll_span *received)
{
    uint32_t size = coll->shape.places.size;
    struct gathered rows;
    int r = 0, mismatch = 0;

    for (uint32_t first = 0; r >= 0 && first < size; first += PIECE) {
        uint32_t count = size - first < PIECE ? size - first : PIECE;
        r = group_share(coll->session, coll->group, received + first, count * sizeof(*received), 0,
                        &rows);
        if (r < 0)
            return r;
        if (mismatch == 0)
            mismatch = take_column(coll, &rows, first, count);
        gathered_deinit(&rows);
    }
    return mismatch;
}

static int prepare(struct tca_coll *coll, const struct tca_coll_span *sent,
                   const struct tca_coll_span *received)
{
    uint32_t size = coll->shape.places.size;
    struct tca_coll_span *none = NULL;

    coll->spans = calloc(size, sizeof(*coll->spans));
    coll->targets = calloc(size, sizeof(*coll->targets));
    if (!coll->spans || !coll->targets)
        return error_static(-ENOMEM, "out of memory");
    coll->shape.spans = coll->spans;
    coll->shape.targets = coll->targets;
    bool good = sent && received && valid(sent, size) && valid(received, size);
    if (!good) /* takes part all the same: the others wait for it */
        received = none = calloc(size, sizeof(*none));
    for (uint32_t i = 0; good && i < size; i++)
        coll->spans[i] = (struct coll_span){sent[i].offset_bytes, sent[i].bytes};
    int r = received ? gather(coll, received) : error_static(-ENOMEM, "out of memory");
    free(none);
    if (!good)
        return error_static(-EINVAL, "alltoallv: sent or received is NULL, or a block is not "
                                     "within 2^48 bytes");
    coll->in_bytes = end_of(sent, size);
    coll->out_bytes = end_of(received, size);
    if (r >= 0 && ((!coll->in && coll->in_bytes > 0) || (!coll->out && coll->out_bytes > 0)))
        return error_static(-EINVAL, "in or out is NULL: alltoall cannot be done in place");
    return r;
}

int tca_coll_alltoallv(struct tca *session, const void *in, const struct tca_coll_span *sent,
                       void *out, const struct tca_coll_span *received,
                       const struct tca_coll_args *args, struct tca_coll **ret_coll)
{
    struct tca_coll *coll = coll_begin(session, COLL_ALLTOALL, args);

    if (!coll)
        return error_static(-ENOMEM, "out of memory");
    coll->in = in;
    coll->out = out;
    coll_say_first(coll);
    return coll_make(coll, prepare(coll, sent, received), args, ret_coll);
}
