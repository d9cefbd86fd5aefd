/* Declaring messages. */
#include <errno.h>

#include "client/core/error.h"
#include "client/qmp/qmp.h"

/* A tag for a displacement: the same at both ranks, that of the message's way. */
static uint32_t tag_of(const struct tca_qmp *qmp, const int *displacement, int sign)
{
    uint32_t tag = 0;

    for (uint32_t d = 0; d < qmp->dimensions; d++)
        tag = tag << 7 | (uint32_t)(sign * displacement[d] + QMP_DISPLACEMENT);
    return tag;
}

static int declare(struct tca_qmp *qmp, const struct tca_qmp_buffer *buffer,
                   const int *displacement, int sends, struct tca_msg_request **ret_request)
{
    struct tca_msg_buffer memory = {.address = buffer->address};
    struct tca_layout *layout = NULL;
    uint32_t rank = 0;
    int r = tca_qmp_displaced(qmp, displacement, &rank);

    if (r < 0)
        return r;
    if (buffer->blocks > 1) {
        r = tca_layout_strided(buffer->blocks, buffer->block_bytes, buffer->stride_bytes, &layout);
        if (r < 0)
            return r;
        memory.layout = layout;
    } else if (buffer->blocks == 1) {
        memory.bytes = buffer->block_bytes;
    }
    r = sends
            ? tca_msg_send_init(qmp->msg, rank, tag_of(qmp, displacement, 1), &memory, ret_request)
            : tca_msg_recv_init(qmp->msg, rank, tag_of(qmp, displacement, -1), &memory,
                                ret_request);
    tca_layout_free(layout);
    return r;
}

int tca_qmp_send_displaced(struct tca_qmp *qmp, const struct tca_qmp_buffer *buffer,
                           const int *displacement, struct tca_msg_request **ret_request)
{
    return declare(qmp, buffer, displacement, 1, ret_request);
}

int tca_qmp_recv_displaced(struct tca_qmp *qmp, const struct tca_qmp_buffer *buffer,
                           const int *displacement, struct tca_msg_request **ret_request)
{
    return declare(qmp, buffer, displacement, 0, ret_request);
}

static int relative(struct tca_qmp *qmp, const struct tca_qmp_buffer *buffer, uint32_t dimension,
                    int direction, int sends, struct tca_msg_request **ret_request)
{
    int displacement[TCA_QMP_DIMENSIONS] = {0};

    if (dimension >= qmp->dimensions)
        return error_set(-EINVAL, "grid: dimension %u: the grid has %u dimensions", dimension,
                         qmp->dimensions);
    if (direction != 1 && direction != -1)
        return error_set(-EINVAL, "grid: direction %d: it must be 1 or -1", direction);
    displacement[dimension] = direction;
    return declare(qmp, buffer, displacement, sends, ret_request);
}

int tca_qmp_send_relative(struct tca_qmp *qmp, const struct tca_qmp_buffer *buffer,
                          uint32_t dimension, int direction, struct tca_msg_request **ret_request)
{
    return relative(qmp, buffer, dimension, direction, 1, ret_request);
}

int tca_qmp_recv_relative(struct tca_qmp *qmp, const struct tca_qmp_buffer *buffer,
                          uint32_t dimension, int direction, struct tca_msg_request **ret_request)
{
    return relative(qmp, buffer, dimension, direction, 0, ret_request);
}
