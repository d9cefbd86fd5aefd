/* What the files that make up struct tcad_conf share. Nobody else includes this. */
#pragma once

#include <stdbool.h>

#include "config/keys.h"
#include "config/tcad_conf.h"

/* Where the value of each key came from, for errors that are found later. */
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

/* Defaults for what was not given, the cluster file, and the checks of values against each other.
 * 0, -ENOMEM, or -EINVAL with errors. */
int conf_complete(struct tcad_conf *conf, bool system, struct config_errors *errors);

/* An error about the value of a key: knows where it came from. */
void conf_blame(const struct tcad_conf *conf, const struct config_key *key,
                struct config_errors *errors, const char *what);
