/* The daemon's log: the journal with fields when it is there, else stderr with time and level. Any
 * thread. */
#pragma once

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

/* fields: "TCAD_SESSION=3 TCAD_NODE=2" for the journal, NULL or "" for none. */
#define log_error(fields, ...)   log_message(LOG_LEVEL_ERROR, fields, __VA_ARGS__)
#define log_warning(fields, ...) log_message(LOG_LEVEL_WARNING, fields, __VA_ARGS__)
#define log_info(fields, ...)    log_message(LOG_LEVEL_INFO, fields, __VA_ARGS__)
#define log_debug(fields, ...)   log_message(LOG_LEVEL_DEBUG, fields, __VA_ARGS__)
