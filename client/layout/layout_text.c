/* Formatting a sequence of element types. */
#include <stdio.h>
#include <string.h>

#include "client/layout/layout.h"

struct types types_of(enum tca_type type, uint64_t count)
{
    return (struct types){.type = type, .count = count};
}

/* Appends to a text. Where it does not fit, the text ends in "..." and does not grow any more. */
static void put(char *text, size_t text_bytes, const char *more)
{
    static const char dots[] = "...";
    size_t used = strlen(text), length = strlen(more);
    bool cut = used >= sizeof(dots) - 1 && strcmp(text + used - (sizeof(dots) - 1), dots) == 0;
    if (cut)
        return;
    if (used + length + sizeof(dots) <= text_bytes)
        memcpy(text + used, more, length + 1);
    else
        snprintf(text + used, text_bytes - used, "%s", dots);
}

static void put_run(char *text, size_t text_bytes, enum tca_type type, uint64_t count)
{
    char run[48];
    if (count == 0)
        return;
    snprintf(run, sizeof(run), "%s%llu x %s", text[0] ? ", " : "", (unsigned long long)count,
             element_info((uint32_t)type)->name);
    put(text, text_bytes, run);
}

/* Moves the last run to the text. */
static void flush_run(struct types *sum)
{
    put_run(sum->text, sizeof(sum->text), sum->type, sum->count);
    sum->count = 0;
}

static void append_run(struct types *sum, enum tca_type type, uint64_t count)
{
    if (sum->count > 0 && sum->type != type)
        flush_run(sum);
    sum->type = type;
    sum->count += count;
}

void types_append(struct types *sum, const struct types *behind, uint64_t count)
{
    if (!behind->text[0]) {
        if (behind->count > 0)
            append_run(sum, behind->type, behind->count * count);
        return;
    }
    char item[TYPES_TEXT_BYTES + 32];
    if (count == 1) {
        snprintf(item, sizeof(item), "%s", behind->text);
    } else {
        struct types inner = *behind;
        flush_run(&inner);
        snprintf(item, sizeof(item), "%llu x (%s)", (unsigned long long)count, inner.text);
    }
    flush_run(sum);
    if (sum->text[0])
        put(sum->text, sizeof(sum->text), ", ");
    put(sum->text, sizeof(sum->text), item);
    if (count == 1 && behind->count > 0)
        append_run(sum, behind->type, behind->count);
}

void types_describe(const struct types *sum, char *text, size_t text_bytes)
{
    if (text_bytes < sizeof("..."))
        return;
    text[0] = 0;
    put(text, text_bytes, sum->text[0] || sum->count > 0 ? sum->text : "nothing");
    put_run(text, text_bytes, sum->type, sum->count);
}
