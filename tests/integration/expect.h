/* Programs whose ranks check the library's results. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/include/tca.h"

static uint32_t rank; /* of this process */
static int wrong;     /* its exit status */

/* text: part of the error text; NULL: any */
static inline void expect(int result, int expected, const char *text, const char *what)
{
    if (result == expected && (!text || strstr(tca_error_text(), text)))
        return;
    printf("rank %u: %s: %d, not %d: %s\n", rank, what, result, expected, tca_error_text());
    wrong = 1;
}

/* Ends the program if a call that the test needs has failed. */
static inline void check(int result, const char *what)
{
    if (result >= 0)
        return;
    printf("rank %u: %s: %s: %s\n", rank, what, tca_strerror(result), tca_error_text());
    exit(1);
}
