#include "config/value.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "config/address.h"
#include "config/guess.h"
#include "config/hostlist.h"
#include "config/text.h"
#include "config/units.h"
#include "proto/limits.h"

enum { PATH_MAX_BYTES = 4096 };

static int complain(char *why, size_t why_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int complain(char *why, size_t why_bytes, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why, why_bytes, format, args);
    va_end(args);
    return -EINVAL;
}

/* Like complain(), and appends the legal values. */
static int complain_range(const struct config_key *key, char *why, size_t why_bytes,
                          const char *what)
{
    char range[128] = "";
    FILE *to = fmemopen(range, sizeof(range), "w");

    if (to) {
        config_value_write_range(key, to);
        fclose(to);
    }
    return complain(why, why_bytes, "%s; write %s", what, range);
}

static int parse_number(const struct config_key *key, const char *text, void *field, char *why,
                        size_t why_bytes)
{
    uint64_t value;
    int r;

    if (key->type == CONFIG_DURATION)
        r = units_parse_duration(text, &value);
    else if (key->type == CONFIG_MODE)
        r = units_parse_octal(text, &value);
    else
        r = units_parse_size(text, &value);
    if (r == -EINVAL)
        return complain_range(key, why, why_bytes,
                              key->type == CONFIG_DURATION ? "is not a duration (50us, 250ms, 5s)"
                              : key->type == CONFIG_MODE   ? "is not an octal mode"
                                                         : "is not a number (65536, 64K, 0x10000)");
    if (r == -ERANGE || value > key->max)
        return complain_range(key, why, why_bytes, "is too large");
    if (value < key->min)
        return complain_range(key, why, why_bytes, "is too small");
    if (key->multiple && value % key->multiple)
        return complain_range(key, why, why_bytes, "is not a multiple of the step");

    if (key->type == CONFIG_NUMBER || key->type == CONFIG_MODE)
        *(uint32_t *)field = (uint32_t)value;
    else
        *(uint64_t *)field = value;
    return 0;
}

static const struct config_choice *find_choice(const struct config_key *key, const char *name)
{
    for (const struct config_choice *choice = key->choices; choice->name; choice++)
        if (strcmp(choice->name, name) == 0)
            return choice;
    return NULL;
}

static int no_choice(const struct config_key *key, const char *name, char *why, size_t why_bytes)
{
    struct config_guess guess;
    char what[160] = "";

    /* In a list, name the word; one that is too long for a message is not a misspelt choice. */
    if (key->type == CONFIG_CHOICES && strlen(name) <= 40)
        snprintf(what, sizeof(what), "\"%s\" ", name);
    config_guess_init(&guess, name);
    for (const struct config_choice *choice = key->choices; choice->name; choice++)
        config_guess_try(&guess, choice->name);
    size_t n = strlen(what);
    if (guess.best)
        snprintf(what + n, sizeof(what) - n, "is not known (did you mean \"%s\"?)", guess.best);
    else
        snprintf(what + n, sizeof(what) - n, "is not known");
    return complain_range(key, why, why_bytes, what);
}

static int parse_choices(const struct config_key *key, const char *text, void *field, char *why,
                         size_t why_bytes)
{
    uint32_t set = 0;
    char *words = strdup(text), *next = NULL;
    int r = 0;

    if (!words)
        return -ENOMEM;
    for (char *word = strtok_r(words, " \t,", &next); word && r == 0;
         word = strtok_r(NULL, " \t,", &next)) {
        const struct config_choice *choice = find_choice(key, word);
        if (choice)
            set |= choice->value;
        else
            r = no_choice(key, word, why, why_bytes);
    }
    free(words);
    if (r == 0 && set == 0)
        r = complain_range(key, why, why_bytes, "is empty");
    if (r == 0)
        *(uint32_t *)field = set;
    return r;
}

static int parse_choice(const struct config_key *key, const char *text, void *field, char *why,
                        size_t why_bytes)
{
    const struct config_choice *choice = find_choice(key, text);

    if (!choice)
        return no_choice(key, text, why, why_bytes);
    *(uint32_t *)field = choice->value;
    return 0;
}

bool config_name_valid(const char *text)
{
    size_t n = strlen(text);

    if (n == 0 || n >= NAME_MAX_BYTES || text[0] == '-' || text[0] == '.')
        return false;
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr("-_.", *text))
            return false;
    return true;
}

static int check_string(const struct config_key *key, const char *text, char *why, size_t why_bytes)
{
    switch (key->type) {
    case CONFIG_NAME:
        if (!config_name_valid(text))
            return complain(why, why_bytes, "is not a node name; " CONFIG_NAME_RULE);
        return 0;
    case CONFIG_PATH:
        if (text[0] != '/')
            return complain(why, why_bytes, "is not an absolute path; begin with /");
        if (strlen(text) >= PATH_MAX_BYTES)
            return complain(why, why_bytes, "is longer than %d bytes", PATH_MAX_BYTES - 1);
        return 0;
    default:
        for (const char *p = text; *p; p++)
            if (!isalnum((unsigned char)*p) && !strchr("-_.:;/%", *p))
                return complain(why, why_bytes,
                                "contains \"%c\"; write letters, digits, - _ . : ; / %%", *p);
        if (strlen(text) >= ADDRESS_MAX_BYTES)
            return complain(why, why_bytes, "is longer than %d characters", ADDRESS_MAX_BYTES - 1);
        return 0;
    }
}

static int parse_string(const struct config_key *key, const char *text, char **field, char *why,
                        size_t why_bytes)
{
    int r = check_string(key, text, why, why_bytes);

    if (r < 0)
        return r;
    char *copy = strdup(text);
    if (!copy)
        return -ENOMEM;
    free(*field);
    *field = copy;
    return 0;
}

static int parse_cpus(const char *text, cpu_set_t *field, char *why, size_t why_bytes)
{
    struct hostlist list;
    char bracketed[1024];
    cpu_set_t cpus;
    int r;

    CPU_ZERO(&cpus);
    if (snprintf(bracketed, sizeof(bracketed), "[%s]", text) >= (int)sizeof(bracketed))
        return complain(why, why_bytes, "is longer than %zu characters", sizeof(bracketed) - 3);
    r = strpbrk(text, "[]") ? -EINVAL : hostlist_expand(bracketed, CPU_SETSIZE, &list, NULL);
    if (r == -ENOMEM)
        return r;
    if (r < 0)
        return complain(why, why_bytes, "is not a list of processors; write a list such as 0-3,8");
    for (size_t i = 0; i < list.count; i++) {
        unsigned long cpu = strtoul(list.names[i], NULL, 10);
        if (cpu >= CPU_SETSIZE) {
            hostlist_deinit(&list);
            return complain(why, why_bytes, "contains processor %lu; the largest number is %d", cpu,
                            CPU_SETSIZE - 1);
        }
        CPU_SET(cpu, &cpus);
    }
    hostlist_deinit(&list);
    *field = cpus;
    return 0;
}

int config_value_parse(const struct config_key *key, const char *text, void *field, char *why,
                       size_t why_bytes)
{
    if (!config_text_clean(text, strlen(text)))
        return complain(why, why_bytes, "contains control characters or invalid UTF-8");
    if (!*text || (key->optional && (strcmp(text, "none") == 0 || strcmp(text, "off") == 0))) {
        if (!key->optional)
            return complain_range(key, why, why_bytes, "has no value");
        config_value_clear(key, field);
        return 0;
    }

    switch (key->type) {
    case CONFIG_CHOICE:
        return parse_choice(key, text, field, why, why_bytes);
    case CONFIG_CHOICES:
        return parse_choices(key, text, field, why, why_bytes);
    case CONFIG_NAME:
    case CONFIG_WORD:
    case CONFIG_PATH:
        return parse_string(key, text, field, why, why_bytes);
    case CONFIG_ADDRESS:
        return config_address_parse(text, key->port, field, why, why_bytes);
    case CONFIG_CPUS:
        return parse_cpus(text, field, why, why_bytes);
    default:
        return parse_number(key, text, field, why, why_bytes);
    }
}
