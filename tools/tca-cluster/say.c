#include "tools/tca-cluster/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static bool is_quiet;
static bool step_open; /* the terminal's last line is a step */

void say_quiet(bool quiet)
{
    is_quiet = quiet;
}

static void clear_step(void)
{
    if (step_open)
        fputs("\r\033[K", stderr);
    step_open = false;
}

int complain(int error, const char *format, ...)
{
    va_list arguments;

    clear_step();
    fputs("tca-cluster: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return -error;
}

void say_step(const char *format, ...)
{
    va_list arguments;
    bool terminal = isatty(STDERR_FILENO);

    if (is_quiet)
        return;
    clear_step();
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    if (terminal)
        fflush(stderr);
    else
        fputc('\n', stderr);
    step_open = terminal;
}

void say(const char *format, ...)
{
    va_list arguments;

    if (is_quiet)
        return;
    clear_step();
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}
