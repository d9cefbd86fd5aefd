/* What the files of the tcp driver know of each other. */
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include "drivers/tcp/tcp_state.h"

#define TCP_MS UINT64_C(1000000)

/* tcp_instance.c: without a listener. */
int tcp_instance_new(const struct driver_events *events, struct tcp_driver **ret_tcp);
void tcp_close(struct driver *driver);

/* tcp_open.c */
int tcp_probe(const struct driver_config *config, struct driver_caps *ret_caps);
int tcp_open(const struct driver_config *config, const struct driver_events *events,
             struct driver **ret_driver);
int tcp_address(struct driver *driver, void *ret_address);

/* tcp_stream.c: reads and writes return bytes, -EAGAIN, or why the connection has ended (-ECONNRESET:
 * it was closed). */
int tcp_stream_init(struct tcp_driver *tcp, struct tcp_stream *stream, enum tcp_role role, int fd);
void tcp_stream_close(struct tcp_stream *stream);
enum tcp_end {
    TCP_END_LINK,   /* connects, and sends most */
    TCP_END_SOURCE, /* accepts, and receives most */
    TCP_END_DIALS,  /* the same with data both ways */
    TCP_END_LISTENS,
};
/* With the secret of the end that accepts, which outlives the handshake. kernel: where it can, it
 * encrypts. */
int tcp_stream_encrypt(struct tcp_driver *tcp, struct tcp_stream *stream, enum tcp_end end,
                       bool kernel, const uint8_t secret[TCP_SECRET_BYTES]);
/* 0, -EAGAIN, or why it failed. */
int tcp_stream_handshake(struct tcp_stream *stream);
/* Into the first part at least. */
ssize_t tcp_stream_read(struct tcp_stream *stream, const struct iovec *parts, int count);
ssize_t tcp_stream_write(struct tcp_stream *stream, const struct iovec *parts, int count);
/* Writes what was taken and is not in the socket yet: 0 when nothing is left. */
int tcp_stream_flush(struct tcp_stream *stream);
/* Reads until inbox has `bytes`: 0, -EAGAIN or why not. */
int tcp_stream_fill(struct tcp_stream *stream, uint8_t *inbox, size_t *inbox_bytes, size_t bytes);
/* All of it or -EIO: for the first words on a connection, which its buffer has room for. */
int tcp_stream_say(struct tcp_stream *stream, const void *words, size_t bytes);

/* tcp_seal.c: TLS on a socket; results as those of streams. */
int tcp_seal_method_new(struct bio_method_st **ret_method);
int tcp_seal_new(const struct tcp_driver *tcp, int fd, enum tcp_end end, bool kernel,
                 const uint8_t secret[TCP_SECRET_BYTES], struct tcp_seal **ret_seal);
void tcp_seal_free(struct tcp_seal *seal);
/* 1: it is over, and the kernel has the connection, which is written and read in clear; the seal is to
 * be freed. */
int tcp_seal_handshake(struct tcp_seal *seal);
ssize_t tcp_seal_read(struct tcp_seal *seal, const struct iovec *parts, int count);
/* Whether another read can find something. */
bool tcp_seal_has_more(const struct tcp_seal *seal);
/* What it returns was taken; the socket may not have had room for all of it. */
ssize_t tcp_seal_write(struct tcp_seal *seal, const struct iovec *parts, int count);
bool tcp_seal_has_unsent(const struct tcp_seal *seal);
/* Writes what the socket had no room for: 0 when nothing is left. */
int tcp_seal_flush(struct tcp_seal *seal);

/* tcp_auth.c */
int tcp_random(void *bytes, size_t count);
struct tcp_signature {
    uint8_t bytes[TCP_SECRET_BYTES];
};
struct tcp_signature tcp_sign_hello(const uint8_t secret[TCP_SECRET_BYTES],
                                    const uint8_t challenge[TCP_SECRET_BYTES],
                                    const struct tcp_hello *hello);
struct tcp_signature tcp_sign_welcome(const uint8_t secret[TCP_SECRET_BYTES],
                                      const uint8_t nonce[TCP_SECRET_BYTES],
                                      const struct tcp_welcome *welcome);
struct tcp_signature tcp_sign_pair(const uint8_t secret[TCP_SECRET_BYTES],
                                   const struct tcp_pair_hello *hello);
bool tcp_signed(const uint8_t by[TCP_SECRET_BYTES], const struct tcp_signature *signature);
static inline bool tcp_same(struct tcp_id a, struct tcp_id b)
{
    return a.word[0] == b.word[0] && a.word[1] == b.word[1];
}

/* tcp_landing.c */
int tcp_region_add(struct driver *driver, const struct driver_memory *memory,
                   struct driver_region **ret_region);
void tcp_region_remove(struct driver *driver, struct driver_region *region);
int tcp_landing_new(struct driver *driver, const struct driver_landing_args *args,
                    struct driver_landing **ret_landing, void *ret_blob, size_t *ret_blob_bytes);
void tcp_landing_free(struct driver *driver, struct driver_landing *landing);
uint64_t tcp_landing_bytes(const struct driver_landing *landing);

/* tcp_peer.c */
/* Whether it is one that can be connected to. */
bool tcp_address_read(const void *bytes, size_t count, struct tcp_address *ret_address);
bool tcp_encrypts(const void *address, size_t address_bytes);
struct tcp_peer *tcp_peer_new(struct tcp_driver *tcp);
int tcp_peer_connect(struct driver *driver, const void *address, size_t address_bytes,
                     struct driver_peer **ret_peer, void *ret_offer, size_t *ret_offer_bytes);
void tcp_peer_disconnect(struct driver *driver, struct driver_peer *peer);
void tcp_peer_fail(struct driver *driver, struct driver_peer *peer, int error);
int tcp_peer_flush(struct driver *driver, struct driver_peer *peer, struct driver_op *op);
/* Each has something to do in the next round. */
void tcp_peer_activate(struct tcp_peer *peer);
void tcp_peer_deactivate(struct tcp_peer *peer);
/* The peer is lost: puts in flight complete with the error. */
void tcp_peer_lose(struct tcp_peer *peer, int error);

/* tcp_link.c */
socklen_t tcp_socket_address(const struct tcp_address *address, struct sockaddr_storage *ret);
/* Opens its connection, writes what is there: how many pieces were written or counted. */
int tcp_link_work(struct tcp_peer *peer, uint64_t now_ns);
void tcp_link_broken(struct tcp_peer *peer, uint64_t now_ns);
/* The same, by no wish of ours: whoever hands over connections is told. */
void tcp_link_breaks(struct tcp_peer *peer, int error, uint64_t now_ns);
/* The next piece of the window, with so many bytes of the copies; NULL: no room now. */
struct tcp_piece *tcp_link_piece(struct tcp_link *link, uint32_t copy_bytes);
void tcp_link_free(struct tcp_link *link);
/* tcp_write.c: pieces, or why the connection has ended. */
int tcp_link_write(struct tcp_peer *peer);
/* tcp_count.c: what comes back. */
int tcp_link_read(struct tcp_peer *peer);
int tcp_link_take(struct tcp_link *link, const struct tcp_head *head);

/* tcp_put.c */
int tcp_put_prepare(struct driver *driver, const struct driver_put_args *args,
                    struct driver_put **ret_put, struct driver_put_info *ret_info);
void tcp_put_release(struct driver *driver, struct driver_put *put);
void tcp_put_part(struct driver *driver, struct driver_put *put, const struct driver_part *part);
int tcp_put_post(struct driver *driver, struct driver_put *put, struct driver_op *op);
/* Makes pieces of the puts that wait, as far as there is room. */
int tcp_puts_pump(struct tcp_peer *peer, unsigned budget);

/* tcp_listen.c */
void tcp_accept(struct tcp_driver *tcp, uint64_t now_ns);
void tcp_opening_work(struct tcp_driver *tcp, struct tcp_opening *opening, uint64_t now_ns);
void tcp_openings_expire(struct tcp_driver *tcp, uint64_t now_ns);
void tcp_opening_free(struct tcp_driver *tcp, struct tcp_opening *opening);
int tcp_admit(struct driver *driver, const void *address, size_t address_bytes, bool come);
void tcp_shut(struct driver *driver, bool shut);
void tcp_door(const struct driver *driver, struct driver_door *ret_door);

/* tcp_door.c */
int tcp_pair_expect(struct driver *driver, uint64_t pair, const uint8_t secret[PAIR_SECRET_BYTES]);
void tcp_pair_forget(struct driver *driver, uint64_t pair);
/* Looks at what an opening has to say first: 0 (it is none for a pair), 1 (it was: it is gone),
 * -EAGAIN or why it must end. */
int tcp_opening_pair(struct tcp_driver *tcp, struct tcp_opening *opening);

/* tcp_dial.c */
int tcp_pair_dial(struct driver *driver, const void *address, size_t address_bytes, uint64_t pair,
                  const uint8_t secret[PAIR_SECRET_BYTES], uint64_t timeout_ns, bool *ret_encrypts);

/* tcp_adopt.c: says the welcome of an adopted connection, after the TLS handshake. 0 or why not. */
int tcp_source_greet(struct tcp_source *source);
/* A round is about to write what tcp_push() has kept. */
void tcp_burst_over(struct tcp_link *link, uint64_t now_ns);

/* tcp_source.c */
/* Without a connection. NULL: too many, or no memory. */
struct tcp_source *tcp_source_new(struct tcp_driver *tcp);
/* A link has said hello: its source, old or new, gets the stream. NULL: too many. */
struct tcp_source *tcp_source_open(struct tcp_driver *tcp, const struct tcp_hello *hello,
                                   struct tcp_stream *stream, bool *ret_known);
/* A landing was made that sources may have waited for. */
void tcp_sources_resume(struct tcp_driver *tcp);
/* How many pieces were received. */
int tcp_source_read(struct tcp_driver *tcp, struct tcp_source *source, uint64_t now_ns);
/* It is read in the next rounds, without an event. */
void tcp_source_heat(struct tcp_driver *tcp, struct tcp_source *source);
/* Its connection has ended; what it has received is remembered, for the next one. */
void tcp_source_disconnect(struct tcp_driver *tcp, struct tcp_source *source, int error,
                           uint64_t now_ns);
/* The same, without the time. */
void tcp_source_reset(struct tcp_driver *tcp, struct tcp_source *source);
void tcp_source_free(struct tcp_driver *tcp, struct tcp_source *source);
void tcp_sources_drop(struct tcp_driver *tcp, struct tcp_id id);
void tcp_sources_expire(struct tcp_driver *tcp, uint64_t now_ns);

/* tcp_tell.c: what a source has to tell its sender. */
int tcp_source_reply(struct tcp_source *source, enum tcp_kind kind, uint64_t number);
/* How much was received; 0 or why the connection must end. */
int tcp_source_count(struct tcp_source *source, uint64_t now_ns);
/* The same, if it is due. */
void tcp_source_tell(struct tcp_driver *tcp, struct tcp_source *source, uint64_t now_ns);
/* Whether a source that shares its connection has something to tell, between two pieces of its link.
 * NULL: no. */
static inline bool tcp_source_unsent(const struct tcp_source *source)
{
    return source && (source->outbox_bytes > 0 || source->due);
}
/* Call before its outbox is written: adds a count that is due, or will be soon and would then cost a
 * message of its own. */
void tcp_source_join(struct tcp_source *source);
/* So many bytes of the outbox were written. */
void tcp_source_sent(struct tcp_source *source, size_t bytes);

/* tcp_progress.c */
int tcp_progress(struct driver *driver, unsigned budget);
int tcp_event_fd(struct driver *driver);
int tcp_arm(struct driver *driver);
/* Frees what begins with the stream when no event of this round can name it any more. */
void tcp_free_later(struct tcp_driver *tcp, struct tcp_stream *stream);
