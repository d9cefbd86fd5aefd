/* A hash table that finds objects by a number. It grows with its contents. Entries are members of
 * the objects, so that adding cannot fail. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct table_entry {
    struct table_entry *next; /* in its bucket */
    uint64_t id;
    void *owner;
};

struct table {
    struct table_entry **buckets; /* NULL: `first` is the only bucket */
    struct table_entry *first;
    unsigned bits; /* of the number of buckets */
    size_t count;
};

/* A zeroed table is empty. Frees the table's memory, not the objects. */
void table_deinit(struct table *table);
void table_add(struct table *table, struct table_entry *entry, uint64_t id, void *owner);
void table_remove(struct table *table, struct table_entry *entry);
/* The owner with this id, or NULL; if there are several, any of them. */
void *table_find(const struct table *table, uint64_t id);
/* The first entry with this id, and the next one with the same id; NULL: none. */
struct table_entry *table_first(const struct table *table, uint64_t id);
struct table_entry *table_again(const struct table_entry *entry);
/* Calls each() for every owner; it may remove and free that owner, but no other. */
void table_each(const struct table *table, void (*each)(void *context, void *owner), void *context);

/* Combines two numbers into an id. */
uint64_t table_mix(uint64_t a, uint64_t b);
/* Hashes a text, with a key per process, so that nobody can choose texts that collide. Loop's
 * thread only. */
uint64_t table_text(const char *text);
