#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "client/compat/meet.h"

static _Thread_local struct {
    tcaresult result;
    char text[512];
} last;

static const char *const names[] = {
    [TCA_SUCCESS] = "success",
    [TCA_ERROR_INVALID_VALUE] = "invalid value",
    [TCA_ERROR_OUT_OF_MEMORY] = "out of memory",
    [TCA_ERROR_NOT_SUPPORTED] = "not supported",
    [TCA_ERROR_NOT_INITIALIZED] = "not initialized: call tcaInit() first",
    [TCA_ERROR_NOT_READY] = "not ready",
    [TCA_ERROR_PEER_LOST] = "the other process or node is lost",
    [TCA_ERROR_SYSTEM] = "system error",
};

TCA_API const char *tcaGetErrorString(tcaresult result)
{
    if (result < 0 || (size_t)result >= sizeof(names) / sizeof(names[0]))
        return "unknown result";
    return result != TCA_SUCCESS && result == last.result ? last.text : names[result];
}

tcaresult compat_fail(tcaresult result, const char *format, ...)
{
    va_list arguments;
    int length = snprintf(last.text, sizeof(last.text), "%s: ", names[result]);
    va_start(arguments, format);
    vsnprintf(last.text + length, sizeof(last.text) - (size_t)length, format, arguments);
    va_end(arguments);
    last.result = result;
    return result;
}

static tcaresult result_of(int error)
{
    switch (error) {
    case -EINVAL:
    case -EFAULT:
    case -ESTALE:
    case -EACCES:
    case -EOVERFLOW:
        return TCA_ERROR_INVALID_VALUE;
    case -ENOMEM:
    case -EDQUOT:
    case -E2BIG:
        return TCA_ERROR_OUT_OF_MEMORY;
    case -EOPNOTSUPP:
        return TCA_ERROR_NOT_SUPPORTED;
    case -EOWNERDEAD:
    case -EHOSTDOWN:
    case -ENETDOWN:
        return TCA_ERROR_PEER_LOST;
    default:
        return TCA_ERROR_SYSTEM;
    }
}

tcaresult compat_fail_errno(int error, const char *what)
{
    return compat_fail(result_of(error), "%s: %s", what, tca_error_text());
}

tcaresult compat_fail_as(tcaresult result, const char *text)
{
    snprintf(last.text, sizeof(last.text), "%s", text);
    last.result = result;
    return result;
}

const char *compat_last_text(void)
{
    return last.text;
}

tcaresult compat_ready(void)
{
    return compat.session ? TCA_SUCCESS : meet_missing();
}
