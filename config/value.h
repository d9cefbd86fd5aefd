/* Parsing, writing and comparing values of every type in the table of keys. A field is the member
 * of struct tcad_conf that holds the value. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "config/keys.h"
#include "proto/limits.h"

/* 0, -ENOMEM, or -EINVAL with the error and the legal values in why. Frees the former value. */
int config_value_parse(const struct config_key *key, const char *text, void *field, char *why,
                       size_t why_bytes);

/* As in a configuration file; nothing for none. */
void config_value_write(const struct config_key *key, const void *field, FILE *to);
/* The same, from malloc; NULL: out of memory. */
char *config_value_text(const struct config_key *key, const void *field);
/* The legal values: "1ms to 1h", "tls or plain". */
void config_value_write_range(const struct config_key *key, FILE *to);

bool config_value_equal(const struct config_key *key, const void *a, const void *b);
void config_value_swap(const struct config_key *key, void *a, void *b);
void config_value_clear(const struct config_key *key, void *field);

/* Whether the text is valid as the name of a node, a cluster or a sub-cluster. */
bool config_name_valid(const char *text);
#define CONFIG_NAME_RULE "write at most 63 letters, digits, - _ . and begin with none of - ."
static_assert(NAME_MAX_BYTES == 64, "CONFIG_NAME_RULE says so");
