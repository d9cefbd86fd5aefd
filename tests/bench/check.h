/* Programs that measure: an error ends them. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <tca.h>

/* Ends the program if the call has failed. */
static inline void check(int result, const char *what)
{
    if (result >= 0)
        return;
    fprintf(stderr, "%s: %s (%s)\n", what, tca_error_text(), tca_strerror(result));
    exit(1);
}
