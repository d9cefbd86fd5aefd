/*
 * Hostlists: a compact notation for many names, as in Slurm and pdsh.
 *
 *   node[1-3,7]          node1 node2 node3 node7
 *   rack[01-04]n[1-2]    rack01n1 rack01n2 rack02n1 ...: the last range varies fastest, leading
 *                        zeros are kept
 *   login,node[1-2]      login node1 node2
 */
#pragma once

#include <stddef.h>

enum {
    HOSTLIST_NAMES_MAX = 1 << 17,
    HOSTLIST_NAME_MAX_BYTES = 256, /* of one name, with its NUL */
    HOSTLIST_DIGITS_MAX = 18,      /* of one number in brackets */
    HOSTLIST_DIMENSIONS_MAX = 8,   /* brackets of one name */
};

/* All zero is empty. */
struct hostlist {
    char **names;
    size_t count;
};
void hostlist_deinit(struct hostlist *list);

struct hostlist_problem {
    size_t position; /* 0 is the first character */
    char text[128];
};

/* 0, -EINVAL (syntax) or -E2BIG (more than max names), both with *ret_problem (may be NULL), or
 * -ENOMEM. Keeps the order of the text; a name may occur more than once. max: at most
 * HOSTLIST_NAMES_MAX. */
int hostlist_expand(const char *text, size_t max, struct hostlist *ret_list,
                    struct hostlist_problem *ret_problem);

/* The inverse: a text (the caller frees it) that expands to exactly these names in this order. It
 * combines neighbours that differ in one number. "" for no names. -EINVAL for names that
 * hostlist_expand() cannot produce. */
int hostlist_fold(const char *const *names, size_t count, char **ret_text);
