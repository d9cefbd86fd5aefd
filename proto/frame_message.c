/* Packs messages into frames. Short messages are packed in memory. Long ones (layouts with lists)
 * are written to a memfd part by part, without an intermediate copy. */
#include <errno.h>
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
    if (bytes > sizeof sink->gathered - sink->gathered_bytes)
        flush(sink);
    if (bytes <= sizeof sink->gathered) {
        if (bytes > 0)
            memcpy(sink->gathered + sink->gathered_bytes, data, bytes);
        sink->gathered_bytes += bytes;
    } else if (sink->error == 0) {
        sink->error = memfd_write(sink->memfd, data, bytes);
    }
}

int frame_pack(const ProtobufCMessage *message, size_t *ret_bytes)
{
    const size_t bytes = protobuf_c_message_get_packed_size(message);
    struct sink sink = {.buffer.append = append};
    if (bytes > FRAME_PAYLOAD_MAX)
        return -EMSGSIZE;
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
    *ret_bytes = bytes;
    return sink.memfd;
}

static int send_long(int socket_fd, uint32_t tag, const ProtobufCMessage *message, const int *fds,
                     size_t fd_count)
{
    size_t bytes;
    int memfd = frame_pack(message, &bytes);
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
        return send_long(socket_fd, tag, message, fds, fd_count);
    uint8_t *payload = bytes <= sizeof small ? small : malloc(bytes);
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
    if (bytes > sizeof frame.payload)
        return -EMSGSIZE;
    tca__message__pack(&message, frame.payload);
    frame_header_fill(&frame.header, refused->tag, (uint32_t)bytes);
    frame.header.version = refused->version;
    if (send(socket_fd, &frame, sizeof frame.header + bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
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
