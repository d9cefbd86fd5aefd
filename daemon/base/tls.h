/* TLS 1.3 between daemons. Both sides authenticate with the cluster key (an external pre-shared
 * key), without certificates. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct tls;

/* Reads the key file: at least 32 bytes after trimming white space, with the permissions that
 * config/secret.h requires. -EPERM, -EACCES, -ENOENT, -EINVAL; text describes the error and its
 * remedy. */
int tls_new(const char *key_file, char *text, size_t text_bytes, struct tls **ret_tls);
struct tls *tls_free(struct tls *tls);

/* For loop_stream.c: a session for one connection, which the caller frees with SSL_free(). NULL:
 * out of memory. */
struct ssl_st *tls_session_new(struct tls *tls, bool accept);
/* True after a handshake in which the peer authenticated with the key. */
bool tls_proven(const struct ssl_st *session);
/* Explains an OpenSSL error to the operator (text is static). Returns the corresponding negative
 * errno. */
int tls_explain(unsigned long error, const char **ret_text);
