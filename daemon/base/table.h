/* Things found by a number, in constant time: a hash table that grows with what is in it. What is in
 * it has its entry inside itself, so that adding cannot fail. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct table_entry {
    struct table_entry *next; /* in its bucket */
    uint64_t id;
    void *owner;
};

struct table {
    struct table_entry **buckets; /* NULL: `first` is the only one */
    struct table_entry *first;
    unsigned bits; /* of the number of buckets */
    size_t count;
};

/* A table of zeroes is an empty one. Frees what the table has, not what was in it. */
void table_deinit(struct table *table);
void table_add(struct table *table, struct table_entry *entry, uint64_t id, void *owner);
void table_remove(struct table *table, struct table_entry *entry);
/* The owner, or NULL. Of several of one id, any. */
void *table_find(const struct table *table, uint64_t id);
/* The first entry of this id, or NULL; and the next one of the same. */
struct table_entry *table_first(const struct table *table, uint64_t id);
struct table_entry *table_again(const struct table_entry *entry);
/* Every owner; each() may remove and free the one that it is given, and no other. */
void table_each(const struct table *table, void (*each)(void *context, void *owner), void *context);

/* A number for several together. */
uint64_t table_mix(uint64_t a, uint64_t b);
/* One for a text, different in each process: whoever chooses the texts cannot make them meet. From
 * the loop's thread. */
uint64_t table_text(const char *text);
