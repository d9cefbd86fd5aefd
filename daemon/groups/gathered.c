#include "daemon/groups/gathered.h"

#include <string.h>
#include <unistd.h>

#include "daemon/groups/group_internal.h"
#include "daemon/sessions/session.h"
#include "proto/frame.h"

/* The ranks of a node compare equally many bytes, so that it does this once for them. */
static void compare(struct gathered *gathered, uint32_t same_bytes)
{
    same_bytes = same_bytes < gathered->each ? same_bytes : (uint32_t)gathered->each;
    if (gathered->same_bytes == same_bytes)
        return;
    gathered->same_bytes = same_bytes;
    gathered->other = 0;
    for (size_t at = gathered->each; at < gathered->bytes; at += gathered->each)
        if (memcmp(gathered->data + at, gathered->data, same_bytes) != 0) {
            gathered->other = (uint32_t)(at / gathered->each);
            return;
        }
}

void gathered_send(struct gathered *gathered, struct session *session, const struct caller *caller)
{
    Tca__Gathered body = TCA__GATHERED__INIT;
    const Tca__Message message = MESSAGE_OF(GATHERED, gathered, &body);

    compare(gathered, caller->same_bytes);
    body.other = gathered->other;
    if (gathered->memfd < 0 && gathered->bytes > GATHERED_INLINE_MAX)
        gathered->memfd = frame_memfd("tca-gathered", gathered->data, gathered->bytes);
    if (gathered->memfd >= 0)
        body.memfd_bytes = gathered->bytes;
    else
        body.blobs = (ProtobufCBinaryData){gathered->bytes, (uint8_t *)gathered->data};
    session_answer(session, caller->tag, &message, &gathered->memfd, gathered->memfd >= 0);
}

void gathered_end(struct gathered *gathered)
{
    if (gathered->memfd >= 0)
        close(gathered->memfd);
}
