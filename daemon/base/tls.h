/* TLS 1.3 between daemons. Both sides authenticate with the cluster key (an external pre-shared
 * key), without certificates. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tls;

/* Reads the key file: at least 32 bytes after trimming white space, with the permissions that
 * config/secret.h requires. -EPERM, -EACCES, -ENOENT, -EINVAL; text describes the error and its
 * remedy. */
int tls_new(const char *key_file, char *text, size_t text_bytes, struct tls **ret_tls);
struct tls *tls_free(struct tls *tls);
/* A secret for another purpose, which all nodes with the key derive. -EIO. */
int tls_secret(const struct tls *tls, const char *purpose, uint64_t ret_secret[2]);

/* ---- for loop_stream.c ---- */

/* A session for a connected, non-blocking socket, which the caller keeps; NULL: out of memory. */
struct ssl_st *tls_session_new(struct tls *tls, bool accept, int fd);
struct ssl_st *tls_session_free(struct ssl_st *session);

struct tls_result {
    enum {
        TLS_DONE,
        TLS_WAITS_TO_READ, /* until the socket can be read */
        TLS_WAITS_TO_WRITE,
        TLS_ENDED, /* the peer has closed the connection */
        TLS_FAILED,
    } what;
    size_t bytes;     /* DONE: read or written, at least 1 */
    int error;        /* FAILED */
    const char *text; /* FAILED: for the operator, static */
};
/* The peer has authenticated with the key: DONE. Before the others. */
struct tls_result tls_handshake(struct ssl_st *session);
struct tls_result tls_read(struct ssl_st *session, void *ret_bytes, size_t room);
/* A write that waits must be repeated with the same bytes, and perhaps more. */
struct tls_result tls_write(struct ssl_st *session, const void *bytes, size_t count);
/* Whether tls_read() may have data, even if the socket has none. */
bool tls_has_data(const struct ssl_st *session);
