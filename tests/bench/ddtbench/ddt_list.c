/* ddt_list: one line of JSON for each pattern, in the order of their numbers. */
#include <inttypes.h>
#include <stdio.h>

#include "tests/bench/ddtbench/pattern.h"

int main(void)
{
    for (uint32_t number = 0; number < pattern_count(); number++) {
        struct pattern pattern;

        pattern_init(&pattern, number);
        printf("{\"pattern\":\"%s\",\"bytes\":%" PRIu64 ",\"area_bytes\":%" PRIu64 "}\n",
               pattern.name, pattern.bytes, pattern.area_bytes);
        pattern_deinit(&pattern);
    }
    return 0;
}
