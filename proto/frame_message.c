/* Packs messages into frames: in memory, but if a part is long (a layout with lists), part by part
 * into a memfd, without an intermediate copy. Packing in memory moves a part once for each message
 * around it, the other way measures it once for each, which takes most of the time where there are
 * many short ones. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/frame.h"
#include "proto/frame_memfd.h"
#include "proto/message.h"
#include "proto/status.h"

struct sink {
    ProtobufCBuffer buffer;
    int memfd;
    int error; /* of the first failed write; later data is dropped */
    size_t gathered_bytes;
    uint8_t gathered[4096]; /* collects small parts for one write() */
};

static void flush(struct sink *sink)
{
    if (sink->error == 0)
        sink->error = memfd_write(sink->memfd, sink->gathered, sink->gathered_bytes);
    sink->gathered_bytes = 0;
}

static void append(ProtobufCBuffer *buffer, size_t bytes, const uint8_t *data)
{
    struct sink *sink = (struct sink *)buffer;
    if (bytes > sizeof(sink->gathered) - sink->gathered_bytes)
        flush(sink);
    if (bytes <= sizeof(sink->gathered)) {
        if (bytes > 0)
            memcpy(sink->gathered + sink->gathered_bytes, data, bytes);
        sink->gathered_bytes += bytes;
    } else if (sink->error == 0) {
        sink->error = memfd_write(sink->memfd, data, bytes);
    }
}

static int pack_parts(const ProtobufCMessage *message)
{
    struct sink sink = {.buffer.append = append};
    sink.memfd = memfd_new("tca-frame");
    if (sink.memfd < 0)
        return sink.memfd;
    protobuf_c_message_pack_to_buffer(message, &sink.buffer);
    flush(&sink);
    int r = sink.error;
    if (r == 0)
        r = memfd_seal(sink.memfd);
    if (r < 0) {
        close(sink.memfd);
        return r;
    }
    return sink.memfd;
}

static int pack_in_memory(const ProtobufCMessage *message, size_t bytes)
{
    uint8_t *payload = malloc(bytes + 1);
    if (!payload)
        return -ENOMEM;
    protobuf_c_message_pack(message, payload);
    int memfd = frame_memfd("tca-frame", payload, bytes);
    free(payload);
    return memfd;
}

/* At any depth. */
static bool has_long_part(const ProtobufCMessage *message)
{
    enum { LONG = 1 << 16 };
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        const uint8_t *at = (const uint8_t *)message + field->offset,
                      *quantifier = (const uint8_t *)message + field->quantifier_offset;
        const bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
        if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF &&
            *(const uint32_t *)quantifier != field->id)
            continue;
        const size_t count = repeated ? *(const size_t *)quantifier : 1;
        const void *first = repeated ? *(const void *const *)at : at;
        for (size_t k = 0; k < count && field->type == PROTOBUF_C_TYPE_BYTES; k++)
            if (((const ProtobufCBinaryData *)first)[k].len > LONG)
                return true;
        for (size_t k = 0; k < count && field->type == PROTOBUF_C_TYPE_MESSAGE; k++) {
            const ProtobufCMessage *part = ((const ProtobufCMessage *const *)first)[k];
            if (part && has_long_part(part))
                return true;
        }
    }
    return false;
}

static int pack(const ProtobufCMessage *message, size_t bytes)
{
    return has_long_part(message) ? pack_parts(message) : pack_in_memory(message, bytes);
}

int frame_pack(const ProtobufCMessage *message, size_t *ret_bytes)
{
    const size_t bytes = protobuf_c_message_get_packed_size(message);
    int memfd = bytes > FRAME_PAYLOAD_MAX ? -EMSGSIZE : pack(message, bytes);
    if (memfd >= 0)
        *ret_bytes = bytes;
    return memfd;
}

static int send_long(int socket_fd, uint32_t tag, const ProtobufCMessage *message, size_t bytes,
                     const int *fds, size_t fd_count)
{
    int memfd = pack(message, bytes);
    if (memfd < 0)
        return memfd;
    int r = frame_send_memfd(socket_fd, tag, memfd, bytes, fds, fd_count);
    close(memfd);
    return r;
}

int frame_send_message(int socket_fd, uint32_t tag, const ProtobufCMessage *message, const int *fds,
                       size_t fd_count)
{
    uint8_t small[4096];
    const size_t bytes = protobuf_c_message_get_packed_size(message);
    if (bytes > FRAME_PAYLOAD_MAX)
        return -EMSGSIZE;
    if (bytes > FRAME_INLINE_MAX)
        return send_long(socket_fd, tag, message, bytes, fds, fd_count);
    uint8_t *payload = bytes <= sizeof(small) ? small : malloc(bytes);
    if (!payload)
        return -ENOMEM;
    protobuf_c_message_pack(message, payload);
    int r = frame_send(socket_fd, tag, payload, bytes, fds, fd_count);
    if (payload != small)
        free(payload);
    return r;
}

/* ---- replies to another version ---- */

int frame_refuse(int socket_fd, const struct frame_header *refused, const char *text)
{
    Tca__Failure failure = TCA__FAILURE__INIT;
    struct {
        struct frame_header header;
        uint8_t payload[2048];
    } frame;
    failure.status = status_to_wire(-EPROTONOSUPPORT);
    failure.text = (char *)text;
    const Tca__Message message = MESSAGE_OF(FAILURE, failure, &failure);
    const size_t bytes = tca__message__get_packed_size(&message);
    if (bytes > sizeof(frame.payload))
        return -EMSGSIZE;
    tca__message__pack(&message, frame.payload);
    frame_header_fill(&frame.header, refused->tag, (uint32_t)bytes);
    frame.header.version = refused->version;
    if (send(socket_fd, &frame, sizeof(frame.header) + bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return -errno;
    return 0;
}

void frame_compare(const char *other, unsigned other_version, const char *own, char *ret_text,
                   size_t text_bytes)
{
    const unsigned own_version = PROTO_VERSION;
    snprintf(ret_text, text_bytes, "%s (protocol version %u) is %s than %s (protocol version %u)",
             other, other_version, other_version < own_version ? "older" : "newer", own,
             own_version);
}
