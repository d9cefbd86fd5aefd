#include "daemon/base/notify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "proto/wait.h"

int notify_listen_fd(void)
{
    int ours = -1;
    int count = sd_listen_fds(1);

    for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + count; fd++) {
        if (ours < 0 && sd_is_socket_unix(fd, SOCK_SEQPACKET, 1, NULL, 0) > 0) {
            ours = fd;
            continue;
        }
        log_warning(NULL,
                    "descriptor %d of socket activation is closed: only one listening UNIX socket "
                    "is expected, ListenSequentialPacket= in the socket unit",
                    fd);
        close(fd);
    }
    return ours;
}

void notify_ready(const char *status)
{
    sd_notifyf(0, "READY=1%s%s", status ? "\nSTATUS=" : "", status ? status : "");
}

void notify_reloading(void)
{
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_now_ns() / 1000);
}

void notify_stopping(void)
{
    sd_notify(0, "STOPPING=1");
}

uint64_t notify_watchdog_ns(void)
{
    uint64_t allowed_us;
    if (sd_watchdog_enabled(0, &allowed_us) <= 0)
        return 0;
    return allowed_us * 1000 / 2;
}

void notify_watchdog(void)
{
    sd_notify(0, "WATCHDOG=1");
}

/* ---- the journal ---- */

bool notify_stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM"); /* "device:inode" of the stream from systemd */
    unsigned long long device, inode;
    struct stat st;

    return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
           fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

int notify_journal(int level, const char *fields, const char *text)
{
    enum { FIELDS_MAX = 8, TEXT_MAX = 1100 };
    char message[TEXT_MAX], priority[16], identifier[] = "SYSLOG_IDENTIFIER=tcad";
    struct iovec parts[FIELDS_MAX + 3];
    int count = 0;

    snprintf(message, sizeof(message), "MESSAGE=%s", text);
    snprintf(priority, sizeof(priority), "PRIORITY=%d", level);
    parts[count++] = (struct iovec){.iov_base = message, .iov_len = strlen(message)};
    parts[count++] = (struct iovec){.iov_base = priority, .iov_len = strlen(priority)};
    parts[count++] = (struct iovec){.iov_base = identifier, .iov_len = sizeof(identifier) - 1};
    for (const char *at = fields ? fields : ""; *at && count < FIELDS_MAX + 3;) {
        size_t bytes = strcspn(at, " ");
        if (bytes > 0)
            parts[count++] = (struct iovec){.iov_base = (char *)at, .iov_len = bytes};
        at += bytes + strspn(at + bytes, " ");
    }
    return sd_journal_sendv(parts, count);
}
