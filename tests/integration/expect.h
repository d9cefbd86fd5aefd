/* Programs that compare what functions of the library reject. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "client/include/tca.h"

static uint32_t rank; /* of this process */
static int wrong;     /* its exit status */

/* text: part of the error text; NULL: any */
static void expect(int result, int expected, const char *text, const char *what)
{
    if (result == expected && (!text || strstr(tca_error_text(), text)))
        return;
    printf("rank %u: %s: %d, not %d: %s\n", rank, what, result, expected, tca_error_text());
    wrong = 1;
}
