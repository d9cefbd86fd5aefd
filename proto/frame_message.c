/* From a message to a frame. Short ones are packed into memory; layouts with lists make long ones,
 * whose parts go into the memfd from where they are. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/frame.h"
#include "proto/frame_memfd.h"

struct sink {
    ProtobufCBuffer buffer;
    int memfd;
    int error; /* of a write; what comes after it is lost */
    size_t gathered_bytes;
    uint8_t gathered[4096]; /* small parts, until they are worth a call */
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

static int send_long(int socket_fd, uint32_t tag, const ProtobufCMessage *message, size_t bytes,
                     const int *fds, size_t fd_count)
{
    struct sink sink = {.buffer.append = append, .memfd = memfd_new("tca-frame")};
    if (sink.memfd < 0)
        return sink.memfd;
    protobuf_c_message_pack_to_buffer(message, &sink.buffer);
    flush(&sink);
    int r = sink.error;
    if (r == 0)
        r = memfd_seal(sink.memfd);
    if (r == 0)
        r = frame_send_memfd(socket_fd, tag, sink.memfd, bytes, fds, fd_count);
    close(sink.memfd);
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
    uint8_t *payload = bytes <= sizeof small ? small : malloc(bytes);
    if (!payload)
        return -ENOMEM;
    protobuf_c_message_pack(message, payload);
    int r = frame_send(socket_fd, tag, payload, bytes, fds, fd_count);
    if (payload != small)
        free(payload);
    return r;
}
