/*
 * The rails of a configuration: one for each driver that [rails] enables, with the keys there (the
 * short form), then one for each section:
 *
 *   [rail NAME]
 *   driver = ofi
 *   provider = verbs
 *
 * Which keys a section may have depends on its driver; conf_rails.c has the table.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct config_errors;
struct config_key;
struct tcad_conf;

/* Strings as in struct tcad_conf. A member that the rail's driver does not have is 0. */
struct conf_rail {
    char *name;           /* NULL: of the short form, which has no name here */
    uint32_t driver;      /* enum conf_rails */
    char *plane;          /* NULL: the driver's default */
    char *address;        /* tcp, hca, ofi; NULL: any */
    uint32_t port;        /* tcp, ofi; 0: any free port. hca: of the device; 0: an active one */
    uint32_t security;    /* tcp: enum conf_security */
    uint32_t kernel_tls;  /* tcp: 0: never; else if it can be had */
    char *device;         /* hca; NULL: the first with an active port */
    char *provider;       /* ofi; NULL: libfabric's first choice */
    uint32_t unprotected; /* ofi: bool */
    char *board;          /* peach2: control socket */
    uint32_t rings;       /* peach2 */
    uint64_t window;      /* peach2: bytes */

    /* of a section, before conf_rails_complete(): what it says */
    unsigned line; /* where it begins; 0: an override */
    struct conf_rail_entry *entries;
    size_t entry_count;
};

/* While a file or an override is read: the section of that name, which is made if it is new, and
 * one of its keys. 0 or -ENOMEM; other errors go to errors. line 0: an override. */
int conf_rail_section(struct tcad_conf *conf, const char *name, unsigned line,
                      struct config_errors *errors, size_t *ret_index);
int conf_rail_set(struct tcad_conf *conf, size_t index, const char *name, const char *value,
                  unsigned line, struct config_errors *errors);
/* The name in "rail NAME", or NULL if the text is not of that form. */
const char *conf_rail_named(const char *section);

/* Checks the sections, applies defaults, and puts the rails of the short form in front. 0, -ENOMEM,
 * or errors. */
int conf_rails_complete(struct tcad_conf *conf, struct config_errors *errors);
void conf_rails_free(struct tcad_conf *conf);

/* The keys that a section of the rail can have: the next one from *index on, or NULL. */
const struct config_key *conf_rail_key(const struct conf_rail *rail, size_t *index);
/* Whether the section sets the key. */
bool conf_rail_gives(const struct conf_rail *rail, const char *name);
/* The value as text for the file, from malloc (NULL: out of memory), and whether the section gives
 * it. */
char *conf_rail_value(const struct conf_rail *rail, const struct config_key *key, bool *ret_given);
/* Writes the sections. */
void conf_rails_write(const struct tcad_conf *conf, FILE *to);
/* Whether the other configuration has a section of this rail's name; and with the same values. */
bool conf_rail_known(const struct conf_rail *rail, const struct tcad_conf *other);
bool conf_rail_unchanged(const struct conf_rail *rail, const struct tcad_conf *other);
