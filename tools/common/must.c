#include "tools/common/must.h"

#include <stdio.h>
#include <stdlib.h>

void *must(void *pointer)
{
    if (!pointer) {
        fputs("out of memory\n", stderr);
        exit(1);
    }
    return pointer;
}
