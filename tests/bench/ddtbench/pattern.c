#include "tests/bench/ddtbench/pattern.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static uint32_t count_of(const struct pattern_entry *entries)
{
    uint32_t count = 0;

    while (entries[count].name)
        count++;
    return count;
}

uint32_t pattern_count(void)
{
    return count_of(ddtbench_patterns) + count_of(plain_patterns);
}

void pattern_init(struct pattern *pattern, uint32_t number)
{
    uint32_t of_ddtbench = count_of(ddtbench_patterns);
    const struct pattern_entry *entry =
        number < of_ddtbench ? &ddtbench_patterns[number] : &plain_patterns[number - of_ddtbench];

    *pattern = (struct pattern){.shelf = shelf_new()};
    snprintf(pattern->name, sizeof(pattern->name), "%s", entry->name);
    entry->make(pattern, entry->numbers);
    pattern->bytes = form_bytes(pattern->send) * (pattern->exchange ? 2 : 1);
    if (pattern->bytes != entry->bytes ||
        form_bytes(pattern->receive) != form_bytes(pattern->send)) {
        fprintf(stderr, "ddt: %s is of %" PRIu64 " bytes, and was made of %" PRIu64 "\n",
                entry->name, entry->bytes, pattern->bytes);
        exit(1);
    }
}

void pattern_deinit(struct pattern *pattern)
{
    shelf_free(pattern->shelf);
    *pattern = (struct pattern){0};
}
