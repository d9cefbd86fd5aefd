/*
 * Frames: what one protobuf-c message travels in.
 *
 * Between client and daemon a frame is one SOCK_SEQPACKET message: header, payload, descriptors by
 * SCM_RIGHTS. A payload longer than FRAME_INLINE_MAX goes in a sealed memfd, which is then the
 * first descriptor (FRAME_IN_MEMFD). Between daemons the same header and payload go over a stream,
 * without descriptors.
 */
#pragma once

#include <assert.h>
#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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
    uint32_t tag; /* chosen by the asker, repeated in the answer; 0: an event nobody asked for */
};
static_assert(sizeof(struct frame_header) == 16, "wire format");

/* A received frame. Whoever takes a descriptor sets its entry to -1. */
struct frame {
    struct frame_header header;
    uint8_t *payload; /* length_bytes bytes */
    int fds[FRAME_FDS_MAX];
    size_t fd_count;
};

/* Checks a header from outside: 0, -EPROTO (no frame, or unknown flags), -EPROTONOSUPPORT (another
 * version), -EMSGSIZE (longer than FRAME_PAYLOAD_MAX). *ret_why (may be NULL) says which,
 * statically. */
int frame_header_check(const struct frame_header *header, const char **ret_why);

void frame_header_fill(struct frame_header *ret_header, uint32_t tag, uint32_t length_bytes);

/* Sends one frame on a SOCK_SEQPACKET socket. 0, -EAGAIN (would block, nothing sent), -EMSGSIZE,
 * -EPIPE, ... Never raises SIGPIPE; the descriptors stay the caller's. */
int frame_send(int socket_fd, uint32_t tag, const void *payload, size_t bytes, const int *fds,
               size_t fd_count);

/* The same with a payload that lies in a sealed memfd already, so many bytes of it; that stays the
 * caller's, too. -E2BIG: one descriptor fewer fits. */
int frame_send_memfd(int socket_fd, uint32_t tag, int memfd, size_t bytes, const int *fds,
                     size_t fd_count);

/* Packs a message and sends it. What is in a long one is copied once, into the memfd. As
 * frame_send(), and -ENOMEM. */
int frame_send_message(int socket_fd, uint32_t tag, const ProtobufCMessage *message, const int *fds,
                       size_t fd_count);

/* Receives one frame. 0 and a frame for frame_free(), -EAGAIN (none there), -ECONNRESET (end of
 * connection), or the errors of frame_header_check() and -EPROTO for a length that does not match
 * or a memfd that is not sealed. */
int frame_recv(int socket_fd, struct frame **ret_frame);

/* The same; *ret_header is the header of what was there, refused or not (all zero: there was none).
 */
int frame_recv_any(int socket_fd, struct frame_header *ret_header, struct frame **ret_frame);

/* The answer to a frame of another version, in that version, so that its sender can read it: a
 * Failure. As frame_send(). */
int frame_refuse(int socket_fd, const struct frame_header *refused, const char *text);

/* For such an answer: "the library (version 1) is older than tcad (version 2)". */
void frame_compare(const char *other, unsigned other_version, const char *own, char *ret_text,
                   size_t text_bytes);

/* Before a connection is closed: takes what still waits there away, so that closing it does not
 * close descriptors of the other side's making, which may take as long as it likes. Nothing can be
 * received after this. */
void frame_discard(int socket_fd);

/* Closes the descriptors that nobody took. NULL is fine; returns NULL. */
struct frame *frame_free(struct frame *frame);

/* A sealed memfd with a copy of these bytes (no writes, no change of size): the descriptor, or
 * negative errno. */
int frame_memfd(const char *name, const void *data, size_t bytes);
