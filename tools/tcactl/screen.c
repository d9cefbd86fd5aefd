#include "tools/tcactl/screen.h"

#include <langinfo.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/common/must.h"

void screen_init(struct screen *screen, FILE *to, bool no_color)
{
    const char *refused = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    struct winsize size;

    screen->to = to;
    screen->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    screen->color = !no_color && !(refused && *refused) && isatty(fileno(to)) &&
                    !(term && strcmp(term, "dumb") == 0);
    screen->columns = ioctl(fileno(to), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

const char *screen_begin(const struct screen *screen, enum screen_color color)
{
    static const char *const sequences[] = {
        [COLOR_NONE] = "",          [COLOR_GOOD] = "\033[32m", [COLOR_WARN] = "\033[33m",
        [COLOR_BAD] = "\033[1;31m", [COLOR_HEAD] = "\033[1m",
    };
    return screen->color ? sequences[color] : "";
}

const char *screen_end(const struct screen *screen, enum screen_color color)
{
    return screen->color && color != COLOR_NONE ? "\033[0m" : "";
}

static bool one_of(const char *word, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(word, *words) == 0)
            return true;
    return false;
}

enum screen_color screen_color_of(const char *state)
{
    static const char *const good[] = {"up",       "self",   "ready", "yes", "running",
                                       "measured", "chosen", "tls",   "in",  NULL};
    static const char *const warn[] = {"draining", "connecting", "absent", "plain",
                                       "stopped",  "starting",   "none",   NULL};
    static const char *const bad[] = {"down",   "degraded", "broken",  "no", "ended",
                                      "silent", "out",      "cut off", NULL};

    if (one_of(state, good))
        return COLOR_GOOD;
    if (one_of(state, warn))
        return COLOR_WARN;
    return one_of(state, bad) ? COLOR_BAD : COLOR_NONE;
}

unsigned screen_text(const struct screen *screen, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    unsigned columns = 0;

    while (*p) {
        size_t n = 1;
        bool shown = *p >= 0x20 && *p != 0x7f;

        if (*p >= 0x80) { /* jansson accepts only valid UTF-8; shows anything else byte by byte */
            while ((p[n] & 0xc0) == 0x80 && n < 4)
                n++;
            bool control = n == 2 && p[0] == 0xc2 && p[1] < 0xa0;
            bool turns =
                n == 3 &&
                p[0] == 0xe2 && /* controls text direction: U+200E, 200F, 2028-202E, 2066-2069 */
                ((p[1] == 0x80 &&
                  ((p[2] >= 0x8e && p[2] <= 0x8f) || (p[2] >= 0xa8 && p[2] <= 0xae))) ||
                 (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9));
            shown = screen->utf8 && n > 1 && !control && !turns;
        }
        if (shown)
            fwrite(p, 1, n, screen->to);
        else
            fputc('?', screen->to);
        columns++;
        p += n;
    }
    return columns;
}

static void print(const struct screen *screen, const char *format, va_list arguments)
{
    const size_t bytes = strlen(format), first = strspn(format, "\n");
    size_t last = 0;
    char *text = NULL;

    while (last < bytes - first && format[bytes - 1 - last] == '\n')
        last++;
    if (vasprintf(&text, format, arguments) < 0)
        text = must(NULL);
    text[strlen(text) - last] = '\0';
    fprintf(screen->to, "%.*s", (int)first, format);
    screen_text(screen, text + first);
    fputs(format + bytes - last, screen->to);
    free(text);
}

void screen_print(const struct screen *screen, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print(screen, format, arguments);
    va_end(arguments);
}

void screen_paint(const struct screen *screen, enum screen_color color, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs(screen_begin(screen, color), screen->to);
    print(screen, format, arguments);
    fputs(screen_end(screen, color), screen->to);
    va_end(arguments);
}

void screen_state(const struct screen *screen, const char *state)
{
    screen_paint(screen, screen_color_of(state), "%s", state);
}

/* The bytes of a word, and its columns: those of colours have none. */
static size_t word_of(const char *text, unsigned *ret_columns)
{
    size_t n = 0;
    bool colours = false;

    *ret_columns = 0;
    for (; text[n] && text[n] != '\n' && (colours || text[n] != ' '); n++) {
        if (text[n] == '\033')
            colours = true;
        else if (colours)
            colours = text[n] != 'm';
        else
            *ret_columns += (text[n] & 0xc0) != 0x80;
    }
    return n;
}

void screen_fold(const struct screen *screen, const char *lines, unsigned indent)
{
    unsigned column = 0, columns;

    while (*lines) {
        const unsigned blanks = (unsigned)strspn(lines, " ");
        const size_t bytes = word_of(lines + blanks, &columns);
        const char *word = lines + blanks;
        if (screen->columns && column > indent && column + blanks + columns > screen->columns) {
            fprintf(screen->to, "\n%*s", (int)indent, "");
            column = indent;
        } else {
            fprintf(screen->to, "%*s", (int)blanks, "");
            column += blanks;
        }
        fwrite(word, 1, bytes, screen->to);
        column += columns;
        lines = word + bytes;
        if (*lines == '\n') {
            fputc('\n', screen->to);
            column = 0;
            lines++;
        }
    }
}
