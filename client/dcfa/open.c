/* Opening and closing an offload processor. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/core/error.h"
#include "client/core/segment.h"
#include "client/dcfa/dcfa.h"

static int take_segment(struct dcfa *processor, const Tca__DcfaOpened *opened, struct frame *frame)
{
    void *base;
    if (frame->fd_count != (opened->direct ? 3 : 2) ||
        opened->memory_offset < sizeof(struct dcfa_head) ||
        opened->memory_offset >= opened->segment_bytes)
        return error_set(-EPROTO,
                         "tcad sent %zu descriptors and an offload processor of %llu bytes",
                         frame->fd_count, (unsigned long long)opened->segment_bytes);
    int r = segment_map(frame->fds[0], 0, opened->segment_bytes, "the offload processor's memory",
                        &base);
    if (r < 0)
        return r;
    processor->head = base;
    processor->segment_bytes = opened->segment_bytes;
    processor->memory_offset = opened->memory_offset;
    processor->segment_fd = frame->fds[0];
    frame->fds[0] = -1;
    processor->wake_fd = frame->fds[1];
    frame->fds[1] = -1;
    if (opened->direct) {
        processor->device_fd = frame->fds[2];
        frame->fds[2] = -1;
    }
    strncpy(processor->device, opened->device, sizeof(processor->device) - 1);
    if (processor->head->magic != DCFA_MAGIC || processor->head->version != PROTO_VERSION)
        return error_set(-EPROTO,
                         "tcad sent an offload processor of version %u; this library "
                         "knows %d",
                         processor->head->version, PROTO_VERSION);
    return segment_populate(base, opened->segment_bytes);
}

int dcfa_open(struct tca *session, uint64_t memory_bytes, struct dcfa **ret_processor)
{
    struct dcfa *processor = calloc(1, sizeof(*processor));
    if (!processor)
        return error_static(-ENOMEM, "out of memory");
    processor->session = session;
    processor->segment_fd = processor->wake_fd = processor->device_fd = -1;
    Tca__DcfaOpen body = TCA__DCFA_OPEN__INIT;
    body.memory_bytes = memory_bytes;
    const Tca__Message request = REQUEST(DCFA_OPEN, dcfa_open, &body);
    struct reply reply;
    int r = session_request(session, &request, TCA__MESSAGE__BODY_DCFA_OPENED, &reply);
    if (r < 0) {
        free(processor);
        return r;
    }
    r = take_segment(processor, reply.message->dcfa_opened, reply.frame);
    reply_free(&reply);
    if (r < 0) {
        dcfa_close(processor);
        return r;
    }
    *ret_processor = processor;
    return 0;
}

struct dcfa *dcfa_close(struct dcfa *processor)
{
    if (!processor)
        return NULL;
    Tca__DcfaRelease body = TCA__DCFA_RELEASE__INIT;
    body.kind = DCFA_PROCESSOR;
    const Tca__Message request = REQUEST(DCFA_RELEASE, dcfa_release, &body);
    if (!processor->session->control.lost && !control_is_inherited(&processor->session->control))
        session_request(processor->session, &request, TCA__MESSAGE__BODY_DONE, NULL);
    for (struct dcfa_object *object = processor->objects, *next; object; object = next) {
        next = object->next;
        dcfa_object_free(object);
    }
    if (processor->head)
        munmap(processor->head, processor->segment_bytes);
    if (processor->segment_fd >= 0)
        close(processor->segment_fd);
    if (processor->wake_fd >= 0)
        close(processor->wake_fd);
    if (processor->device_fd >= 0)
        close(processor->device_fd);
    free(processor);
    return NULL;
}

void *dcfa_memory(const struct dcfa *processor, uint64_t *ret_bytes)
{
    if (ret_bytes)
        *ret_bytes = processor->segment_bytes - processor->memory_offset;
    return (uint8_t *)processor->head + processor->memory_offset;
}

const char *dcfa_device(const struct dcfa *processor)
{
    return processor->device;
}
