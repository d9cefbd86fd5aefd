/*
 * Values of datatypes: what a datatype describes, found by the contents from which it was made.
 *
 * The key of a value is a sequence of words: how it is made, its numbers, and the ids of the values
 * that it is made from. Ids are never used twice, so that the key of a value remains unique when
 * those it is made from have been dropped.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/include/tca.h"

struct value {
    uint64_t id;
    uint64_t users; /* handles and uses */
    uint64_t size_bytes;
    int64_t lower_bytes; /* of the first byte touched */
    int64_t extent_bytes;
    bool contiguous;           /* the data of one element is one block */
    struct tca_layout *layout; /* with the base and extent of the datatype; NULL: cannot be one */
    struct tca_layout *based;  /* the same with its first byte at its base; NULL: contiguous */
    uint64_t irregular;        /* at most so many of its blocks need an entry of a table */

    uint64_t hash;
    struct value *chain;           /* of the same bucket */
    struct value *older, *younger; /* among those without users */
    size_t words;
    uint64_t key[];
};

/* Finds a value and adds a user to it. NULL: none. */
struct value *value_find(const uint64_t *key, size_t words, uint64_t hash);
uint64_t value_hash(const uint64_t *key, size_t words);
/* Adds a value with one user. Takes the layout (NULL: it has none), also on failure. extent_bytes
 * is that of one element. -ENOMEM. */
struct value_args {
    const uint64_t *key;
    size_t words;
    uint64_t hash;
    struct tca_layout *layout;
    uint64_t size_bytes;
    int64_t extent_bytes;
    uint64_t irregular;
};
int value_new(const struct value_args *args, struct value **ret_value);
static inline struct value *value_keep(struct value *value)
{
    value->users++;
    return value;
}
/* Drops a user. NULL is a no-op. */
void value_drop(struct value *value);
/* Drops the values without users. */
void value_forget(void);
