#include "daemon/base/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/notify.h"
#include "proto/wait.h"

enum { TEXT_MAX = 1024 };

static _Atomic int highest = LOG_LEVEL_INFO;
static _Atomic bool to_journal;

void log_init(enum log_level level, const char *target)
{
    atomic_store(&highest, (int)level);
    atomic_store(&to_journal, strcmp(target, "journal") == 0 ||
                                  (strcmp(target, "auto") == 0 && notify_stderr_is_journal()));
}

/* Replaces control characters, as messages contain names chosen by clients: a message is one
 * line. */
static void make_line(char *text, int wanted)
{
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    if (wanted >= TEXT_MAX)
        memcpy(text + TEXT_MAX - 4, "...", 4);
}

static const char *level_name(enum log_level level)
{
    switch (level) {
    case LOG_LEVEL_ERROR:
        return "error";
    case LOG_LEVEL_WARNING:
        return "warning";
    case LOG_LEVEL_INFO:
        return "info";
    case LOG_LEVEL_DEBUG:
        return "debug";
    }
    return "?";
}

static void write_stderr(enum log_level level, const char *text)
{
    char line[TEXT_MAX + 64];
    struct timespec now;
    struct tm parts;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t at = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &parts);
    int n = snprintf(line + at, sizeof(line) - at, ".%06ldZ %s: %s\n", now.tv_nsec / 1000,
                     level_name(level), text);
    /* A single write keeps the lines of different threads apart. An error cannot be reported. */
    (void)!write(STDERR_FILENO, line, at + (size_t)n);
}

static bool is_wanted(enum log_level level)
{
    return (int)level <= atomic_load_explicit(&highest, memory_order_relaxed);
}

static void write_line(enum log_level level, const char *fields, char *text, int wanted)
{
    make_line(text, wanted);
    if (!atomic_load_explicit(&to_journal, memory_order_relaxed) ||
        notify_journal((int)level, fields, text) < 0)
        write_stderr(level, text);
}

void log_message(enum log_level level, const char *fields, const char *format, ...)
{
    char text[TEXT_MAX];
    va_list arguments;
    if (!is_wanted(level))
        return;
    va_start(arguments, format);
    int wanted = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    write_line(level, fields, text, wanted);
}

bool log_limit_pass(struct log_limit *limit, uint64_t now_ns, uint32_t *ret_suppressed)
{
    if (limit->since_ns == 0 || now_ns - limit->since_ns >= LOG_LIMIT_WHILE_NS) {
        limit->since_ns = now_ns;
        limit->said = 0;
    }
    if (limit->said >= LOG_LIMIT_BURST) {
        limit->suppressed++;
        return false;
    }
    limit->said++;
    *ret_suppressed = limit->suppressed;
    limit->suppressed = 0;
    return true;
}

void log_limited(struct log_limit *limit, enum log_level level, const char *fields,
                 const char *format, ...)
{
    char text[TEXT_MAX];
    uint32_t suppressed;
    va_list arguments;
    if (!is_wanted(level) || !log_limit_pass(limit, clock_now_ns(), &suppressed))
        return;
    va_start(arguments, format);
    int wanted = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (suppressed > 0 && wanted >= 0 && wanted < TEXT_MAX)
        wanted += snprintf(text + wanted, sizeof(text) - (size_t)wanted,
                           " (%" PRIu32 " more like this were suppressed)", suppressed);
    write_line(level, fields, text, wanted);
}
