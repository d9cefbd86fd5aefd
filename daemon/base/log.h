/* The daemon's log: the journal, with fields, if it is available, else stderr, with time and level.
 * Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum log_level {
    LOG_LEVEL_ERROR = 3, /* as in syslog */
    LOG_LEVEL_WARNING = 4,
    LOG_LEVEL_INFO = 6,
    LOG_LEVEL_DEBUG = 7,
};

/* target: "auto", "stderr" or "journal". */
void log_init(enum log_level level, const char *target);
void log_message(enum log_level level, const char *fields, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Rate limit for messages that clients, or anyone who reaches a port, can trigger at will:
 * LOG_LIMIT_BURST messages per LOG_LIMIT_WHILE_NS; the next message reports how many were
 * suppressed. One limit, initially zero, for each kind of message; one thread.
 */
enum { LOG_LIMIT_BURST = 5 };
#define LOG_LIMIT_WHILE_NS UINT64_C(10000000000)
struct log_limit {
    uint64_t since_ns; /* 0: no message yet */
    uint32_t said, suppressed;
};
/* Whether to log now, and the number of messages suppressed before. */
bool log_limit_pass(struct log_limit *limit, uint64_t now_ns, uint32_t *ret_suppressed);
void log_limited(struct log_limit *limit, enum log_level level, const char *fields,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

/* fields: "TCAD_SESSION=3 TCAD_NODE=2" for the journal, NULL or "" for none. */
#define log_error(fields, ...)   log_message(LOG_LEVEL_ERROR, fields, __VA_ARGS__)
#define log_warning(fields, ...) log_message(LOG_LEVEL_WARNING, fields, __VA_ARGS__)
#define log_info(fields, ...)    log_message(LOG_LEVEL_INFO, fields, __VA_ARGS__)
#define log_debug(fields, ...)   log_message(LOG_LEVEL_DEBUG, fields, __VA_ARGS__)
