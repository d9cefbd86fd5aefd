/* The table of all keys of tcad.conf, used by parsing, checks, defaults, help, JSON and reload. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CONFIG_KEYS_MAX = 64 };

/* The syntax of a value, and its type in struct tcad_conf. */
enum config_type {
    CONFIG_NUMBER,   /* uint32_t; 4096, 64K (1024 each) */
    CONFIG_MODE,     /* uint32_t; octal */
    CONFIG_BYTES,    /* uint64_t; 128K, 32T */
    CONFIG_POINTER,  /* uint64_t; 0x200000000000 */
    CONFIG_DURATION, /* uint64_t, nanoseconds; 250ms, 1.5s */
    CONFIG_CHOICE,   /* uint32_t, one of the choices */
    CONFIG_CHOICES,  /* uint32_t, bits: at least one of the choices */
    CONFIG_NAME,     /* char *: a node name */
    CONFIG_WORD,     /* char *; letters, digits and some punctuation */
    CONFIG_PATH,     /* char *, absolute */
    CONFIG_ADDRESS,  /* struct config_address */
    CONFIG_CPUS,     /* cpu_set_t; 0-3,8 */
};

struct config_choice {
    const char *name; /* NULL ends the list */
    uint32_t value;
};

struct config_key {
    const char *section, *name;
    enum config_type type;
    size_t offset;     /* in struct tcad_conf */
    uint64_t min, max; /* of numbers, in the unit of the field */
    uint16_t port;     /* of addresses: the default; 0: the port is required */
    uint64_t multiple; /* of numbers: 0, or what they must be a multiple of */
    const struct config_choice *choices;
    const char *initial; /* the default, as text; NULL: derived as default_help says */
    const char *default_help;
    bool optional; /* an empty value, "none" or "off" is legal and means none */
    bool reloadable;
    const char *help;
};

extern const struct config_key config_keys[];
extern const size_t config_key_count;

/* NULL: no such key. */
const struct config_key *config_key_find(const char *section, const char *name);
/* The key of the field at that offset of struct tcad_conf. */
const struct config_key *config_key_at(size_t offset);
