/*
 * A frame carries one protobuf-c message.
 *
 * Between client and daemon, a frame is one SOCK_SEQPACKET message: header, payload, and
 * descriptors passed by SCM_RIGHTS. A payload longer than FRAME_INLINE_MAX is passed in a sealed
 * memfd, the first descriptor (FRAME_IN_MEMFD). Between daemons, the same header and payload are
 * sent over a stream, without descriptors.
 */
#pragma once

#include <assert.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"

enum {
    FRAME_MAGIC = 0x46414354, /* "TCAF" */
    FRAME_IN_MEMFD = 1 << 0,  /* flags: the payload is in the first descriptor */
};

struct frame_header {
    uint32_t magic;
    uint16_t version;
    uint16_t flags;
    uint32_t length_bytes; /* of the payload */
    uint32_t tag; /* chosen by the requester, repeated in the reply; 0: an unsolicited event */
};
static_assert(sizeof(struct frame_header) == 16, "wire format");

/* A received frame. Code that takes ownership of a descriptor sets its entry to -1. */
struct frame {
    struct frame_header header;
    uint8_t *payload; /* length_bytes bytes; NULL: still in its memfd, see frame_load() */
    uint8_t *loaded;  /* the same, if it was in a memfd: from malloc() */
    int fds[FRAME_FDS_MAX];
    size_t fd_count;
};

/* Checks an untrusted header. Returns 0, -EPROTO (not a frame, or unknown flags), -EPROTONOSUPPORT
 * (version mismatch) or -EMSGSIZE (payload longer than FRAME_PAYLOAD_MAX). On failure, *ret_why
 * (ret_why may be NULL) is a static text that names the reason. */
int frame_header_check(const struct frame_header *header, const char **ret_why);

void frame_header_fill(struct frame_header *ret_header, uint32_t tag, uint32_t length_bytes);

/* Sends one frame on a SOCK_SEQPACKET socket. Returns 0, -EAGAIN (would block, nothing was sent),
 * -EMSGSIZE, -EPIPE or another negative errno. Never raises SIGPIPE. The caller keeps ownership of
 * the descriptors. */
int frame_send(int socket_fd, uint32_t tag, const void *payload, size_t bytes, const int *fds,
               size_t fd_count);

/* As frame_send(), with a payload of `bytes` bytes that is already in a sealed memfd. The caller
 * keeps ownership of the memfd. -E2BIG: more than FRAME_FDS_MAX - 1 further descriptors. */
int frame_send_memfd(int socket_fd, uint32_t tag, int memfd, size_t bytes, const int *fds,
                     size_t fd_count);

/* Packs a message and sends it. A long message is packed straight into the memfd. Returns as
 * frame_send(), or -ENOMEM. */
int frame_send_message(int socket_fd, uint32_t tag, const ProtobufCMessage *message, const int *fds,
                       size_t fd_count);

/* Packs a message into a sealed memfd, for frame_send_memfd(). Returns the memfd, -EMSGSIZE or
 * another negative errno. */
int frame_pack(const ProtobufCMessage *message, size_t *ret_bytes);

/* Receives one frame. Returns 0 and a frame to be released with frame_free(), -EAGAIN (no frame is
 * waiting), -ECONNRESET (end of connection), an error of frame_header_check(), or -EPROTO (the
 * length does not match, or the memfd is not sealed). */
int frame_recv(int socket_fd, struct frame **ret_frame);

/* As frame_recv(), and sets *ret_header to the received header even if the frame is refused; all
 * zero if nothing was received. */
int frame_recv_any(int socket_fd, struct frame_header *ret_header, struct frame **ret_frame);

/* As frame_recv_any(), but leaves a long payload in its memfd, fds[0], until frame_load() reads it.
 * with_fds false: a message that carries descriptors stays on the socket, and FRAME_HAS_FDS is
 * returned: where they are received, Linux closes those for which there is no room, which can block
 * (frame_close_foreign() cannot prevent that). frame_load() may be called in any thread, and
 * returns 0, -EPROTO (the memfd is not sealed, or the length does not match) or another negative
 * errno. */
enum { FRAME_HAS_FDS = 1 };
int frame_recv_lazy(int socket_fd, bool with_fds, struct frame_header *ret_header,
                    struct frame **ret_frame);
int frame_load(struct frame *frame);

/* Replies to a frame of another version with a Failure in that version, so that its sender can read
 * it. Returns as frame_send(). */
int frame_refuse(int socket_fd, const struct frame_header *refused, const char *text);

/* Writes the text for such a reply: "OTHER (protocol version 1) is older than OWN (protocol version
 * 2)". */
void frame_compare(const char *other, unsigned other_version, const char *own, char *ret_text,
                   size_t text_bytes);

/* Shuts a connection down before it is closed and discards its unread messages. Otherwise close()
 * would close the descriptors in them, and a descriptor made by the other side can block close()
 * indefinitely. Nothing can be received afterwards. */
void frame_discard(int socket_fd);

/* Closes all but the first `keep` descriptors. */
void frame_close_fds(struct frame *frame, size_t keep);

/* Takes the first descriptor out of the frame. -1: it has none. */
int frame_take_fd(struct frame *frame);

/* Closes a descriptor that was received from outside. Negative: no effect. */
void frame_close_foreign(int fd);

/* Frees a frame and closes the descriptors that were not taken. NULL is a no-op. Returns NULL. */
struct frame *frame_free(struct frame *frame);

/* Returns a sealed memfd (no writes, no change of size) with a copy of these bytes, or a negative
 * errno. */
int frame_memfd(const char *name, const void *data, size_t bytes);
