#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tca.h>

#include "client/fortran/result.h"

static _Thread_local char own_text[200]; /* of an error that is found here; "": libtca's */

int fortran_refuse(const char *text)
{
    snprintf(own_text, sizeof(own_text), "%s", text);
    return -EINVAL;
}

const char *tca_f_error_text(void)
{
    return own_text[0] ? own_text : tca_error_text();
}

size_t tca_f_length(const char *text)
{
    return strlen(text);
}

/* Hands a result to the program, or ends it. */
void fortran_done(int result, int *ierror)
{
    if (result > 0)
        result = 0;
    if (ierror)
        *ierror = result;
    else if (result) {
        fprintf(stderr, "tca: %s\n", tca_f_error_text());
        exit(1);
    }
    if (!result)
        own_text[0] = '\0';
}

/* Of libtca's calls, whose text replaces one of ours. */
int fortran_from(int result)
{
    own_text[0] = '\0';
    return result;
}

/* A string of Fortran, without trailing blanks. NULL if absent. */
const char *fortran_string(const CFI_cdesc_t *text, char buffer[static 256])
{
    if (!text)
        return NULL;
    uint64_t length = text->elem_len;
    while (length && ((const char *)text->base_addr)[length - 1] == ' ')
        length--;
    if (length > 255)
        length = 255;
    memcpy(buffer, text->base_addr, length);
    buffer[length] = '\0';
    return buffer;
}

int64_t fortran_timeout(const int64_t *timeout_ns, int64_t otherwise)
{
    return timeout_ns ? *timeout_ns : otherwise;
}

int fortran_tested(int result, int *ierror)
{
    fortran_done(result, ierror);
    return result > 0;
}
