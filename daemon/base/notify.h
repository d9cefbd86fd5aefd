/* Communication with systemd, and the only user of libsystemd. Without systemd the functions have
 * no effect. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The SOCK_SEQPACKET listening socket passed by socket activation, or -1. Closes other passed
 * descriptors with a warning. */
int notify_listen_fd(void);
/* status: shown by systemctl; NULL: unchanged. */
void notify_ready(const char *status);
void notify_reloading(void);
void notify_stopping(void);
/* Interval for notify_watchdog(), half of the watchdog's limit; 0: no watchdog. */
uint64_t notify_watchdog_ns(void);
void notify_watchdog(void);

/* For log.c: whether stderr is connected to the journal, so that it is better to use the journal
 * directly. */
bool notify_stderr_is_journal(void);
/* level: as in syslog. fields: "A=1 B=2", NULL for none. Any thread. 0 or a negative errno. */
int notify_journal(int level, const char *fields, const char *text);
