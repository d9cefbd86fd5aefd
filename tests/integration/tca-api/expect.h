/* Shared by the test programs without MPI. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <tca-api.h>

static void expect(tcaresult result, tcaresult expected, const char *what)
{
    if (result == expected)
        return;
    fprintf(stderr, "%s: %d (%s) instead of %d\n", what, result, tcaGetErrorString(result),
            expected);
    exit(1);
}
