/* Shared by the files that implement struct tcad_conf only. */
#pragma once

#include <stdbool.h>

#include "config/keys.h"
#include "config/tcad_conf.h"

/* The origin of each value, for errors that later checks find. */
struct tcad_conf_origins {
    struct {
        bool given;    /* by the file or an override, else it is a default */
        unsigned line; /* 0: an override */
    } keys[CONFIG_KEYS_MAX];
};

static inline void *conf_field(struct tcad_conf *conf, const struct config_key *key)
{
    return (char *)conf + key->offset;
}

static inline const void *conf_field_const(const struct tcad_conf *conf,
                                           const struct config_key *key)
{
    return (const char *)conf + key->offset;
}

/* Whether the file or an override sets the key. */
static inline bool conf_given(const struct tcad_conf *conf, const struct config_key *key)
{
    return conf->origins->keys[key - config_keys].given;
}

/* The key of a member of struct tcad_conf. */
#define KEY_AT(field) config_key_at(offsetof(struct tcad_conf, field))

/* conf_defaults.c: sets the defaults, except those that need the cluster file: the rails'
 * addresses. 0, -ENOMEM, or -EINVAL with errors. */
int conf_set_defaults(struct tcad_conf *conf, bool system, struct config_errors *errors);
int conf_set_rail_defaults(struct tcad_conf *conf, struct config_errors *errors);
/* Sets the default of a key. Takes ownership of the text, which is NULL if out of memory. source:
 * of the default, for errors. */
int conf_set_default(struct tcad_conf *conf, const struct config_key *key, char *text,
                     const char *source, struct config_errors *errors);

/* Sets the defaults, loads the cluster file, and checks values against each other. 0, -ENOMEM, or
 * -EINVAL with errors. */
int conf_complete(struct tcad_conf *conf, bool system, struct config_errors *errors);

/* The address on which rails listen unless the file names one: never all interfaces, which
 * control.listen may name; NULL: none. */
const char *conf_rail_host(const struct tcad_conf *conf);

/* Adds an error about the value of a key, with the file and line of the value. */
void conf_blame(const struct tcad_conf *conf, const struct config_key *key,
                struct config_errors *errors, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
