/* One-line descriptions of layouts. */
#include <stdarg.h>
#include <stdio.h>

#include "proto/layout_internal.h"

struct text {
    char *at;
    size_t room; /* including the NUL */
};

__attribute__((format(printf, 2, 3))) static void say(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text->at, text->room, format, args);
    va_end(args);
    size_t used = n < 0 ? 0 : (size_t)n < text->room ? (size_t)n : text->room - 1;
    text->at += used;
    text->room -= used;
}

/* "16 KiB": in the largest unit not above the size, with one decimal unless it is a multiple. */
static void say_size(struct text *text, uint64_t bytes)
{
    static const char units[] = "KMGTPE";
    if (bytes < 1024) {
        say(text, "%llu B", (unsigned long long)bytes);
        return;
    }
    unsigned unit = 0;
    while (unit < 5 && bytes >> (10 * (unit + 2)) != 0)
        unit++;
    unsigned shift = 10 * (unit + 1);
    if (bytes & ((1ull << shift) - 1))
        say(text, "%.1f %ciB", (double)bytes / (double)(1ull << shift), units[unit]);
    else
        say(text, "%llu %ciB", (unsigned long long)(bytes >> shift), units[unit]);
}

/* Whether the program is one block in nested loops. */
static bool is_chain(const struct layout *layout)
{
    for (uint32_t i = 0; i + 1 < layout->op_count; i++)
        if (layout->ops[i].kind != LAYOUT_LOOP || layout->ops[i].body != layout->op_count - i - 1)
            return false;
    return layout->op_count > 0 && layout->ops[layout->op_count - 1].kind == LAYOUT_BLOCK;
}

static void say_chain(struct text *text, const struct layout *layout)
{
    uint32_t loops = layout->op_count - 1;
    for (uint32_t i = 0; i < loops; i++)
        say(text, i + 1 < loops ? "%llu x (" : "%llu x ", (unsigned long long)layout->ops[i].count);
    say(text, "%llu B", (unsigned long long)layout->ops[loops].count);
    for (uint32_t i = loops; i > 0; i--)
        say(text, i > 1 ? " every %lld B)" : " every %lld B",
            (long long)layout->ops[i - 1].stride_bytes);
    if (layout->lower_bytes != 0)
        say(text, " from %lld", (long long)layout->lower_bytes);
}

static void say_blocks(struct text *text, const struct layout *layout)
{
    const unsigned long long blocks = (unsigned long long)layout_runs(layout);
    if (layout->op_count > 1)
        say(text, "%llu blocks in %u operations", blocks, layout->op_count);
    else if (layout->ops[0].each_bytes != 0)
        say(text, "%llu blocks of %llu B", blocks, (unsigned long long)layout->ops[0].each_bytes);
    else
        say(text, "%llu blocks", blocks);
    say(text, ", %lld to %lld", (long long)layout->lower_bytes, (long long)layout->upper_bytes);
}

void layout_describe(const struct layout *layout, char *string, size_t size)
{
    if (size == 0)
        return;
    struct text text = {.at = string, .room = size};
    if (layout->op_count == 0) {
        say(&text, "empty");
        return;
    }
    if (is_chain(layout))
        say_chain(&text, layout);
    else
        say_blocks(&text, layout);
    if (layout->op_count > 1 || layout->size_bytes >= 1024) {
        say(&text, " (");
        say_size(&text, layout->size_bytes);
        say(&text, ")");
    }
}
