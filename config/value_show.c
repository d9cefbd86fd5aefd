/* Values as text, and operations on fields by type. */
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "config/address.h"
#include "config/units.h"
#include "config/value.h"

static size_t field_bytes(const struct config_key *key)
{
    switch (key->type) {
    case CONFIG_NUMBER:
    case CONFIG_MODE:
    case CONFIG_CHOICE:
    case CONFIG_CHOICES:
        return sizeof(uint32_t);
    case CONFIG_BYTES:
    case CONFIG_POINTER:
    case CONFIG_DURATION:
        return sizeof(uint64_t);
    case CONFIG_NAME:
    case CONFIG_WORD:
    case CONFIG_PATH:
        return sizeof(char *);
    case CONFIG_ADDRESS:
        return sizeof(struct config_address);
    case CONFIG_CPUS:
        return sizeof(cpu_set_t);
    }
    abort();
}

static bool is_string(const struct config_key *key)
{
    return key->type == CONFIG_NAME || key->type == CONFIG_WORD || key->type == CONFIG_PATH;
}

bool config_value_equal(const struct config_key *key, const void *a, const void *b)
{
    if (is_string(key)) {
        const char *x = *(char *const *)a, *y = *(char *const *)b;
        return x && y ? strcmp(x, y) == 0 : x == y;
    }
    if (key->type == CONFIG_ADDRESS)
        return config_address_equal(a, b);
    return memcmp(a, b, field_bytes(key)) == 0;
}

void config_value_swap(const struct config_key *key, void *a, void *b)
{
    char *x = a, *y = b;

    for (size_t i = field_bytes(key); i-- > 0;) {
        char byte = x[i];
        x[i] = y[i];
        y[i] = byte;
    }
}

void config_value_clear(const struct config_key *key, void *field)
{
    if (is_string(key))
        free(*(char **)field);
    memset(field, 0, field_bytes(key));
}

/* a-b,c */
static void write_cpus(const cpu_set_t *cpus, FILE *to)
{
    const char *comma = "";

    for (unsigned i = 0, j; i < CPU_SETSIZE; i = j) {
        j = i + 1;
        if (!CPU_ISSET(i, cpus))
            continue;
        while (j < CPU_SETSIZE && CPU_ISSET(j, cpus))
            j++;
        fprintf(to, j > i + 1 ? "%s%u-%u" : "%s%u", comma, i, j - 1);
        comma = ",";
    }
}

static void write_choices(const struct config_key *key, uint32_t set, FILE *to)
{
    const char *separator = "";

    for (const struct config_choice *choice = key->choices; choice->name; choice++) {
        bool have = key->type == CONFIG_CHOICES ? (set & choice->value) != 0 : set == choice->value;
        if (!have)
            continue;
        fprintf(to, "%s%s", separator, choice->name);
        separator = " ";
    }
}

void config_value_write(const struct config_key *key, const void *field, FILE *to)
{
    char address[CONFIG_ADDRESS_TEXT_MAX];

    switch (key->type) {
    case CONFIG_NUMBER:
        fprintf(to, "%" PRIu32, *(const uint32_t *)field);
        break;
    case CONFIG_MODE:
        fprintf(to, "%04" PRIo32, *(const uint32_t *)field);
        break;
    case CONFIG_CHOICE:
    case CONFIG_CHOICES:
        write_choices(key, *(const uint32_t *)field, to);
        break;
    case CONFIG_BYTES:
        units_write_size(*(const uint64_t *)field, to);
        break;
    case CONFIG_POINTER:
        fprintf(to, "%#" PRIx64, *(const uint64_t *)field);
        break;
    case CONFIG_DURATION:
        units_write_duration(*(const uint64_t *)field, to);
        break;
    case CONFIG_NAME:
    case CONFIG_WORD:
    case CONFIG_PATH:
        if (*(char *const *)field)
            fputs(*(char *const *)field, to);
        break;
    case CONFIG_ADDRESS:
        config_address_format(field, address);
        fputs(address, to);
        break;
    case CONFIG_CPUS:
        write_cpus(field, to);
        break;
    }
}

char *config_value_text(const struct config_key *key, const void *field)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);

    if (!to)
        return NULL;
    config_value_write(key, field, to);
    if (fclose(to) == 0)
        return text;
    free(text);
    return NULL;
}

static void write_choice_names(const struct config_key *key, FILE *to)
{
    const char *before_last = key->type == CONFIG_CHOICES ? ", " : " or ";

    for (const struct config_choice *choice = key->choices; choice->name; choice++) {
        bool first = choice == key->choices, last = !choice[1].name;
        fprintf(to, "%s%s", first ? "" : last ? before_last : ", ", choice->name);
    }
}

static void write_limit(const struct config_key *key, uint64_t limit, FILE *to)
{
    if (key->type == CONFIG_DURATION)
        units_write_duration(limit, to);
    else if (key->type == CONFIG_POINTER)
        fprintf(to, "%#" PRIx64, limit);
    else if (key->type == CONFIG_MODE)
        fprintf(to, "%04" PRIo64, limit);
    else if (key->type == CONFIG_BYTES)
        units_write_size(limit, to);
    else
        fprintf(to, "%" PRIu64, limit);
}

void config_value_write_range(const struct config_key *key, FILE *to)
{
    switch (key->type) {
    case CONFIG_CHOICES:
        fputs("one or more of ", to);
        __attribute__((fallthrough));
    case CONFIG_CHOICE:
        write_choice_names(key, to);
        break;
    case CONFIG_NAME:
        fputs("a node name", to);
        break;
    case CONFIG_WORD:
        fputs("a word", to);
        break;
    case CONFIG_PATH:
        fputs("an absolute path", to);
        break;
    case CONFIG_ADDRESS:
        fputs("HOST:PORT", to);
        break;
    case CONFIG_CPUS:
        fputs("a list such as 0-3,8", to);
        break;
    default:
        write_limit(key, key->min, to);
        fputs(" to ", to);
        write_limit(key, key->max, to);
        if (key->multiple) {
            fputs(" in steps of ", to);
            units_write_size(key->multiple, to);
        }
    }
    if (key->optional)
        fputs(", or none", to);
}
