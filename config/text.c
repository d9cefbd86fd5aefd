#include "config/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_all(int fd, size_t bytes, char **ret_text, size_t *ret_bytes)
{
    char *text = malloc(bytes + 1);
    size_t have = 0;

    if (!text)
        return -ENOMEM;
    while (have < bytes) {
        ssize_t n = read(fd, text + have, bytes - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int error = -errno;
            free(text);
            return error;
        }
        if (n == 0)
            break; /* it shrank meanwhile */
        have += (size_t)n;
    }
    text[have] = '\0';
    *ret_text = text;
    *ret_bytes = have;
    return 0;
}

int config_text_read(const char *path, char **ret_text, size_t *ret_bytes,
                     struct config_errors *errors)
{
    /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    int r;

    if (fd < 0) {
        r = -errno;
        if (r != -ENOENT)
            config_errors_add(errors, path, 0, "cannot be opened: %s", strerror(-r));
        return r;
    }
    if (fstat(fd, &st) < 0) {
        r = -errno;
        config_errors_add(errors, path, 0, "cannot be examined: %s", strerror(-r));
    } else if (!S_ISREG(st.st_mode)) {
        r = -EINVAL;
        config_errors_add(errors, path, 0, "is not a regular file");
    } else if (st.st_size > CONFIG_FILE_MAX_BYTES) {
        r = -EFBIG;
        config_errors_add(errors, path, 0, "has %lld bytes; the limit is %d", (long long)st.st_size,
                          CONFIG_FILE_MAX_BYTES);
    } else {
        r = read_all(fd, (size_t)st.st_size, ret_text, ret_bytes);
        if (r < 0)
            config_errors_add(errors, path, 0, "cannot be read: %s", strerror(-r));
    }
    close(fd);
    return r;
}

/* The length of the UTF-8 sequence at text; 0: invalid, or a control character. */
static size_t sequence_bytes(const unsigned char *text, size_t bytes)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n;
    uint32_t code;

    if (text[0] < 0x80)
        return text[0] == '\t' || (text[0] >= 0x20 && text[0] != 0x7f) ? 1 : 0;
    if ((text[0] & 0xe0) == 0xc0)
        n = 2, code = text[0] & 0x1f;
    else if ((text[0] & 0xf0) == 0xe0)
        n = 3, code = text[0] & 0x0f;
    else if ((text[0] & 0xf8) == 0xf0)
        n = 4, code = text[0] & 0x07;
    else
        return 0;
    if (n > bytes)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3f);
    }
    if (code < least[n] || code < 0xa0 || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    return n;
}

bool config_text_clean(const char *text, size_t bytes)
{
    for (size_t i = 0, n; i < bytes; i += n) {
        n = sequence_bytes((const unsigned char *)text + i, bytes - i);
        if (n == 0)
            return false;
    }
    return true;
}

void config_lines_init(struct config_lines *lines, const char *file, const char *text, size_t bytes,
                       struct config_errors *errors)
{
    *lines =
        (struct config_lines){.file = file, .errors = errors, .next = text, .end = text + bytes};
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static void cut_comment(char *text)
{
    for (char *p = text; *p; p++)
        if (*p == '#' && (p == text || is_space(p[-1]))) {
            *p = '\0';
            return;
        }
}

char *config_trim(char *text)
{
    while (is_space(*text))
        text++;
    size_t n = strlen(text);
    while (n > 0 && is_space(text[n - 1]))
        n--;
    text[n] = '\0';
    return text;
}

bool config_lines_next(struct config_lines *lines)
{
    while (lines->next < lines->end) {
        const char *start = lines->next;
        const char *stop = memchr(start, '\n', (size_t)(lines->end - start));
        size_t bytes = (size_t)((stop ? stop : lines->end) - start);

        lines->next = stop ? stop + 1 : lines->end;
        lines->line++;
        if (bytes > 0 && start[bytes - 1] == '\r')
            bytes--;
        if (bytes > CONFIG_LINE_MAX_BYTES) {
            config_errors_add(lines->errors, lines->file, lines->line,
                              "the line has %zu bytes; the limit is %d", bytes,
                              CONFIG_LINE_MAX_BYTES);
            continue;
        }
        if (!config_text_clean(start, bytes)) {
            config_errors_add(
                lines->errors, lines->file, lines->line,
                "the line contains control characters or invalid UTF-8; write plain text");
            continue;
        }
        memcpy(lines->text, start, bytes);
        lines->text[bytes] = '\0';
        cut_comment(lines->text);
        char *trimmed = config_trim(lines->text);
        memmove(lines->text, trimmed, strlen(trimmed) + 1);
        if (lines->text[0])
            return true;
    }
    return false;
}
