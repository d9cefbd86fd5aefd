/* TLS 1.3 between daemons, both sides proven by the cluster key (an external pre-shared key): no
 * certificates. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct tls;

/* Reads the key file: at least 32 bytes after white space is trimmed, and secret as config/secret.h
 * says. -EPERM, -EACCES, -ENOENT, -EINVAL; text gets what is wrong and how to mend it. */
int tls_new(const char *key_file, char *text, size_t text_bytes, struct tls **ret_tls);
struct tls *tls_free(struct tls *tls);

/* For loop_stream.c. A session for one connection, the caller's to free with SSL_free(); NULL: no
 * memory. */
struct ssl_st *tls_session_new(struct tls *tls, bool accept);
/* True after a handshake in which the key proved the other side. */
bool tls_proven(const struct ssl_st *session);
/* What an OpenSSL error means for the one who runs the cluster (text is static), and the errno that
 * stands for it. */
int tls_explain(unsigned long error, const char **ret_text);
