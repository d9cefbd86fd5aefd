/* What systemd is told, and what it hands over. The only room that knows libsystemd; all of it does
 * nothing without systemd. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The SOCK_SEQPACKET listening socket of socket activation, or -1: none was passed. Other
 * descriptors are closed with a warning. */
int notify_listen_fd(void);
/* status: for people; NULL leaves what it was. */
void notify_ready(const char *status);
void notify_reloading(void);
void notify_stopping(void);
/* How often to call notify_watchdog() (half of what the watchdog allows; 0: never). */
uint64_t notify_watchdog_ns(void);
void notify_watchdog(void);

/* For log.c. True when what we write to stderr ends up in the journal anyway, so that we had better
 * write there ourselves. */
bool notify_stderr_is_journal(void);
/* level: of syslog. fields: "A=1 B=2", NULL for none. Any thread. 0 or negative errno. */
int notify_journal(int level, const char *fields, const char *text);
