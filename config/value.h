/* Values of every type of the table: read, written, compared. A field is where struct tcad_conf has
 * the value. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "config/keys.h"

/* 0, -ENOMEM, or -EINVAL and in why what is wrong and what is legal. The former value of the field
 * is released. */
int config_value_parse(const struct config_key *key, const char *text, void *field, char *why,
                       size_t why_bytes);

/* As one would write it; nothing for none. */
void config_value_write(const struct config_key *key, const void *field, FILE *to);
/* What is legal: "1ms to 1h", "tls or plain". */
void config_value_write_range(const struct config_key *key, FILE *to);

bool config_value_equal(const struct config_key *key, const void *a, const void *b);
void config_value_swap(const struct config_key *key, void *a, void *b);
void config_value_clear(const struct config_key *key, void *field);

/* Of a node: letters, digits and, behind the first, "-_."; fits NAME_MAX_BYTES. */
bool config_name_valid(const char *text);
