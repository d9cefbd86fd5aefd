#include "daemon/peers/outbox.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/frame.h"

static size_t cost(size_t count)
{
    return sizeof(struct kept) + sizeof(struct frame_header) + count;
}

void outbox_init(struct outbox *outbox)
{
    *outbox = (struct outbox){.last = &outbox->first};
}

static void forget_first(struct outbox *outbox)
{
    struct kept *kept = outbox->first;

    outbox->first = kept->next;
    if (!outbox->first)
        outbox->last = &outbox->first;
    outbox->bytes -= cost(kept->count);
    outbox->acknowledged++;
    free(kept);
}

void outbox_deinit(struct outbox *outbox)
{
    while (outbox->first)
        forget_first(outbox);
}

int outbox_add(struct outbox *outbox, uint32_t tag, size_t count, struct kept **ret_kept)
{
    if (cost(count) > OUTBOX_MAX_BYTES - outbox->bytes)
        return -ENOBUFS;
    struct kept *kept = malloc(sizeof(*kept) + count);
    if (!kept)
        return -ENOMEM;
    kept->next = NULL;
    kept->count = count;
    kept->tag = tag;
    *outbox->last = kept;
    outbox->last = &kept->next;
    outbox->bytes += cost(count);
    outbox->sent++;
    *ret_kept = kept;
    return 0;
}

int outbox_acknowledge(struct outbox *outbox, uint64_t received)
{
    if (received < outbox->acknowledged || received > outbox->sent)
        return -EPROTO;
    while (outbox->acknowledged < received)
        forget_first(outbox);
    return 0;
}
