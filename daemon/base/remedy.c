#include "daemon/base/remedy.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

const char *remedy_of(int error)
{
    switch (error) {
    case -EMFILE:
        return "tcad has no file descriptors left: raise its LimitNOFILE= (ulimit -n), or end some "
               "sessions";
    case -ENFILE:
        return "the system has no file descriptors left: raise fs.file-max, or end some processes";
    case -EFBIG:
        return "tcad may not create files of this size: raise its LimitFSIZE= (ulimit -f)";
    default:
        return NULL;
    }
}

const char *remedy_text(int error)
{
    static _Thread_local char text[192];
    const char *remedy = remedy_of(error);
    snprintf(text, sizeof(text), "%s%s%s", strerrordesc_np(-error), remedy ? "; " : "",
             remedy ? remedy : "");
    return text;
}
