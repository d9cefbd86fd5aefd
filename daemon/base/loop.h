/*
 * The daemon's event loop, and the only user of libevent: it offers descriptors, timers, deferred
 * calls, message streams and a small HTTP responder. Everything runs on the loop's thread; other
 * threads may only call loop_post_own() and the functions marked as such.
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

/* Any thread: the duration of the current turn of the loop (0: it waits for events), and of the
 * longest turn so far. No other event is processed during a turn. */
uint64_t loop_busy_ns(const struct loop *loop);
uint64_t loop_longest_ns(const struct loop *loop);
/* Any thread: number of slices of jobs so far. */
uint64_t loop_slices(const struct loop *loop);

/*
 * Long work in slices: step(context) works until loop_slice_over() and returns whether there is
 * more; it is then called again in the next turn, after all other ready events. A step always makes
 * progress. It may free the job if it returns false. The first slice runs at once, unless other
 * jobs are queued or the turn has been long: short work is complete when loop_job_begin() returns.
 */
struct loop_job {
    struct loop_job *next;
    bool (*step)(void *context);
    void *context;
};
void loop_job_begin(struct loop *loop, struct loop_job *job, bool (*step)(void *context),
                    void *context);
bool loop_slice_over(const struct loop *loop);

/* Any thread: runs call(context) on the loop's thread, in the order of the posts. `post` lies in an
 * object of the caller's, and is the loop's until call() begins, which may free it. */
struct loop_post {
    struct loop_post *next;
    void (*call)(void *context);
    void *context;
};
void loop_post_own(struct loop *loop, struct loop_post *post, void (*call)(void *context),
                   void *context);
/* Any thread: a post will come within microseconds. The loop looks for it a while before it
 * sleeps. */
void loop_expect(struct loop *loop);
/* After loop_run(), when no other thread posts any more: runs all posted calls, and those that they
 * post. */
void loop_finish_posts(struct loop *loop);

enum {
    LOOP_READ = 1 << 0,
    LOOP_WRITE = 1 << 1,
};
/* Calls back whenever the descriptor is ready for one of `events` (level-triggered). The caller
 * keeps the descriptor. */
int loop_io_new(struct loop *loop, int fd, unsigned events,
                void (*ready)(void *context, unsigned events), void *context,
                struct loop_io **ret_io);
int loop_io_set(struct loop_io *io, unsigned events); /* 0: suspends it */
struct loop_io *loop_io_free(struct loop_io *io);     /* allowed from within its own callback */

int loop_timer_new(struct loop *loop, void (*expired)(void *context), void *context,
                   struct loop_timer **ret_timer);
/* Expires after delay_ns, then every interval_ns (0: only once). Replaces an earlier setting. */
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
    void (*ready)(void *context); /* connected; the TLS handshake is complete */
    /* A complete frame. The payload is valid during the call. */
    void (*frame)(void *context, uint32_t tag, const void *payload, size_t bytes);
    /* The stream has ended (end of file, error or protocol error, which text describes). The last
     * call; the owner must still free the stream. */
    void (*closed)(void *context, int error, const char *text);
    void *context;
};

/* Limit of the bytes not yet accepted by the kernel: one frame of any length, and some more. */
enum { STREAM_QUEUE_MAX_BYTES = FRAME_PAYLOAD_MAX + (32 << 20) };

/* tls NULL: unencrypted. fd: connected, or connecting; ready() or closed() is called later. These
 * two take ownership of fd, also if they fail. */
int stream_connect(struct loop *loop, struct tls *tls, int fd, const struct stream_events *events,
                   struct stream **ret_stream);
int stream_accept(struct loop *loop, struct tls *tls, int fd, const struct stream_events *events,
                  struct stream **ret_stream);
/* Sets the longest payload that is accepted; FRAME_INLINE_MAX until then. */
void stream_set_limit(struct stream *stream, size_t payload_bytes);
/* Queues a frame. -ENOTCONN before ready() and after closed(); -ENOBUFS: the queue is full, because
 * the peer does not read. */
int stream_send(struct stream *stream, uint32_t tag, const void *payload, size_t bytes);
/* After ready(): ends the connection if sent data is not acknowledged for this long. */
void stream_set_send_timeout(struct stream *stream, uint64_t timeout_ns);
/* Number of bytes queued and not yet accepted by the kernel. */
size_t stream_queued_bytes(const struct stream *stream);
/* Number of bytes received, including those of incomplete frames. */
uint64_t stream_received_bytes(const struct stream *stream);
/* Address of the peer; -ENOTCONN. */
int stream_peer_address(const struct stream *stream, struct sockaddr_storage *ret_address,
                        socklen_t *ret_bytes);
struct stream *stream_free(struct stream *stream); /* allowed from within its own callbacks */

/* ---- listening sockets ---- */

struct listener;
/* Listens on TCP. accepted(context, fd, peer's address as text) owns fd. */
int listener_tcp(struct loop *loop, const struct sockaddr *address, socklen_t address_bytes,
                 void (*accepted)(void *context, int fd, const char *from), void *context,
                 struct listener **ret);
/* Accepts on an existing listening descriptor: the daemon's UNIX socket, or socket activation. */
int listener_fd(struct loop *loop, int fd,
                void (*accepted)(void *context, int fd, const char *from), void *context,
                struct listener **ret);
/* Without descriptors, connections wait until there are some. With these callbacks, they are passed
 * to refused() instead, with the error; as it owns fd, in the place of a single spare descriptor,
 * the next one waits until fd has been closed. more() is called first, and returns whether it has
 * freed some descriptors. */
void listener_when_full(struct listener *listener, bool (*more)(void *context),
                        void (*refused)(void *context, int fd, int error));
/* Holds: accepts no more connections, which wait, until it is called with false. From within
 * accepted(), too. */
void listener_hold(struct listener *listener, bool held);
struct listener *listener_free(struct listener *listener); /* closes its descriptor */
int listener_port(const struct listener *listener);        /* the TCP port in use */

/* ---- HTTP, for metrics: GET only, few and short connections ---- */

struct http;
/* answer() returns a text from malloc() (NULL: 404) and its content type. */
int http_new(struct loop *loop, const char *address, uint16_t port,
             char *(*answer)(void *context, const char *path, const char **ret_type), void *context,
             struct http **ret);
int http_port(const struct http *http);
struct http *http_free(struct http *http);
