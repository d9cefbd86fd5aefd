/*
 * The daemon's event loop. The only room that knows libevent: everybody else sees descriptors,
 * timers, deferred calls, message streams and a small HTTP responder. Everything runs on the loop's
 * thread; only loop_post() may be called from others.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "proto/limits.h"

struct loop;
struct loop_io;
struct loop_timer;
struct loop_signal;

int loop_new(struct loop **ret_loop);
struct loop *loop_free(struct loop *loop);
/* Runs until loop_stop(). 0 or negative errno. */
int loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

/* Any thread: for how long the turn of the loop that is under way has run (0: it waits for events),
 * and the longest turn so far: so long nobody was answered. */
uint64_t loop_busy_ns(const struct loop *loop);
uint64_t loop_longest_ns(const struct loop *loop);
/* Slices of jobs so far. */
uint64_t loop_slices(const struct loop *loop);

/*
 * Long work in slices: step(context) does some of it, until loop_slice_over(), and returns whether
 * there is more; then it is called again in the next turn, after everybody else who was ready. A
 * step always does something, and it may free the job when it returns false. The first slice is
 * done at once, unless others wait for theirs or this turn has been long: what is short is over when
 * this returns.
 */
struct loop_job {
    struct loop_job *next;
    bool (*step)(void *context);
    void *context;
};
void loop_job_begin(struct loop *loop, struct loop_job *job, bool (*step)(void *context),
                    void *context);
bool loop_slice_over(const struct loop *loop);

/* From any thread: call(context) runs on the loop's thread, in the order of the posts. -ENOMEM. */
int loop_post(struct loop *loop, void (*call)(void *context), void *context);
/* After loop_run(), once no other thread posts any more: runs what was posted, and what that posts.
 */
void loop_finish_posts(struct loop *loop);

enum {
    LOOP_READ = 1 << 0,
    LOOP_WRITE = 1 << 1,
};
/* Calls back whenever the descriptor is ready for one of `events` (level triggered). The descriptor
 * stays the caller's. */
int loop_io_new(struct loop *loop, int fd, unsigned events,
                void (*ready)(void *context, unsigned events), void *context,
                struct loop_io **ret_io);
int loop_io_set(struct loop_io *io, unsigned events); /* 0: none for now */
struct loop_io *loop_io_free(struct loop_io *io);     /* allowed from within its own callback */

int loop_timer_new(struct loop *loop, void (*expired)(void *context), void *context,
                   struct loop_timer **ret_timer);
/* Once after delay_ns, then every interval_ns (0: only once). Setting again replaces. */
int loop_timer_set(struct loop_timer *timer, uint64_t delay_ns, uint64_t interval_ns);
void loop_timer_stop(struct loop_timer *timer);
struct loop_timer *loop_timer_free(struct loop_timer *timer);

int loop_signal_new(struct loop *loop, int number, void (*raised)(void *context), void *context,
                    struct loop_signal **ret_signal);
struct loop_signal *loop_signal_free(struct loop_signal *signal);

/* ---- streams of frames to other daemons: TCP, with or without TLS ---- */

struct stream;
struct tls; /* tls.h */

struct stream_events {
    void (*ready)(void *context); /* connected, and TLS is up */
    /* A whole frame; the payload is valid during the call. */
    void (*frame)(void *context, uint32_t tag, const void *payload, size_t bytes);
    /* It is over (end, error, protocol error: text says what); no further call. The stream is still
     * to be freed. */
    void (*closed)(void *context, int error, const char *text);
    void *context;
};

/* Bytes not yet taken by the kernel: one frame of any length, and some. */
enum { STREAM_QUEUE_MAX_BYTES = FRAME_PAYLOAD_MAX + (16 << 20) };

/* tls NULL: plain. Connecting is asynchronous: ready() or closed() comes later. */
int stream_connect(struct loop *loop, struct tls *tls, const struct sockaddr *address,
                   socklen_t address_bytes, const struct stream_events *events,
                   struct stream **ret_stream);
/* Takes fd over. */
int stream_accept(struct loop *loop, struct tls *tls, int fd, const struct stream_events *events,
                  struct stream **ret_stream);
/* The longest payload that is taken from the other side; FRAME_INLINE_MAX until this is called. */
void stream_set_limit(struct stream *stream, size_t payload_bytes);
/* Queues a frame; -ENOTCONN before ready() and after closed(); -ENOBUFS when the other side has not
 * read for long and the queue is full. */
int stream_send(struct stream *stream, uint32_t tag, const void *payload, size_t bytes);
/* After ready(): the connection ends when what was sent has not arrived for so long. */
void stream_set_send_timeout(struct stream *stream, uint64_t timeout_ns);
/* What was queued and the kernel has not taken yet. */
size_t stream_queued_bytes(const struct stream *stream);
/* All that has arrived, also of frames that are not complete yet. */
uint64_t stream_received_bytes(const struct stream *stream);
/* Where the other side is; -ENOTCONN. */
int stream_peer_address(const struct stream *stream, struct sockaddr_storage *ret_address,
                        socklen_t *ret_bytes);
struct stream *stream_free(struct stream *stream); /* allowed from within its own callbacks */

/* ---- listening sockets ---- */

struct listener;
/* Listens on TCP; accepted(context, fd, peer address text) owns fd. */
int listener_tcp(struct loop *loop, const struct sockaddr *address, socklen_t address_bytes,
                 void (*accepted)(void *context, int fd, const char *from), void *context,
                 struct listener **ret);
/* On a listening descriptor that exists already (UNIX socket made by us, or socket activation). */
int listener_fd(struct loop *loop, int fd,
                void (*accepted)(void *context, int fd, const char *from), void *context,
                struct listener **ret);
/* Who connects while there are no descriptors left waits until there are. With this, it is handed to
 * refused() instead, with the error, which closes it before it returns: a descriptor is kept for
 * that. more() comes before: whether some could be given up. */
void listener_when_full(struct listener *listener, bool (*more)(void *context),
                        void (*refused)(void *context, int fd, int error));
struct listener *listener_free(struct listener *listener); /* closes its descriptor */
int listener_port(const struct listener *listener);        /* the TCP port in use */

/* ---- HTTP, for metrics: GET only, few connections at a time, and each of them short ---- */

struct http;
/* answer() returns a text from malloc (or NULL: 404) and its content type. */
int http_new(struct loop *loop, const char *address, uint16_t port,
             char *(*answer)(void *context, const char *path, const char **ret_type), void *context,
             struct http **ret);
int http_port(const struct http *http);
struct http *http_free(struct http *http);
