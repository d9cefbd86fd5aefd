#include "tools/common/number.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

bool number_parse(const char *option, const char *text, unsigned least, unsigned most,
                  unsigned *ret_number)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end || errno || value < least || value > most) {
        fprintf(stderr, "%s: %s %s: give a number from %u to %u\n", program_invocation_short_name,
                option, text, least, most);
        return false;
    }
    *ret_number = (unsigned)value;
    return true;
}
