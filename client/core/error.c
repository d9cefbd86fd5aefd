#include "client/core/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/include/tca.h"
#include "proto/status.h"

static _Thread_local char buffer[1024];
static _Thread_local const char *last_text;

int error_set(int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(buffer, sizeof(buffer), format, arguments);
    va_end(arguments);
    last_text = buffer;
    return code;
}

int error_static(int code, const char *text)
{
    last_text = text;
    return code;
}

int error_wire(const Tca__Failure *failure)
{
    int code = status_from_wire(failure->status);
    if (code == 0)
        return error_set(-EPROTO, "tcad reported a failure without a status");
    return error_set(code, "%s", failure->text[0] ? failure->text : status_text(code));
}

int error_prefix(int code, const char *format, ...)
{
    char text[sizeof(buffer)];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < sizeof(text))
        snprintf(text + length, sizeof(text) - (size_t)length, "%s", tca_error_text());
    memcpy(buffer, text, sizeof(buffer));
    last_text = buffer;
    return code;
}

int error_suffix(int code, const char *format, ...)
{
    char text[sizeof(buffer)];
    int length = snprintf(text, sizeof(text), "%s", tca_error_text());
    va_list arguments;
    va_start(arguments, format);
    if (length >= 0 && (size_t)length < sizeof(text))
        vsnprintf(text + length, sizeof(text) - (size_t)length, format, arguments);
    va_end(arguments);
    memcpy(buffer, text, sizeof(buffer));
    last_text = buffer;
    return code;
}

const char *tca_error_text(void)
{
    return last_text ? last_text : "";
}

const char *tca_strerror(int error)
{
    return status_text(error);
}
