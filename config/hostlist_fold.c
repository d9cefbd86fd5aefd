/* Folding: pass k joins neighbours that differ only in the k-th number from the right. */
#include "config/hostlist.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The position of a number in an item. */
struct number {
    size_t start, digits;
};

/* The k-th number (0: the last) of an item, counting each bracket as one. False: it does not exist,
 * is a bracket, or is too long. */
static bool find_number(const char *item, unsigned k, struct number *ret)
{
    size_t i = strlen(item);

    while (i > 0) {
        char last = item[--i];
        if (last == ']') {
            while (item[i] != '[')
                i--;
        } else if (isdigit((unsigned char)last)) {
            size_t stop = i + 1;
            while (i > 0 && isdigit((unsigned char)item[i - 1]))
                i--;
            if (k == 0) {
                *ret = (struct number){.start = i, .digits = stop - i};
                return ret->digits <= HOSTLIST_DIGITS_MAX;
            }
        } else {
            continue;
        }
        if (k-- == 0)
            return false; /* brackets */
    }
    return false;
}

static bool same_but_number(const char *a, struct number na, const char *b, struct number nb)
{
    return na.start == nb.start && memcmp(a, b, na.start) == 0 &&
           strcmp(a + na.start + na.digits, b + nb.start + nb.digits) == 0;
}

/* Whether b's number may follow a's in a range that began with `first`. */
static bool continues(const char *first, struct number nf, const char *a, struct number na,
                      const char *b, struct number nb)
{
    unsigned long long va = strtoull(a + na.start, NULL, 10), vb = strtoull(b + nb.start, NULL, 10);
    bool padded =
        (nf.digits > 1 && first[nf.start] == '0') || (nb.digits > 1 && b[nb.start] == '0');

    return vb == va + 1 && (!padded || nf.digits == nb.digits);
}

/* Joins items that differ only in the k-th number into one. NULL: out of memory. */
static char *join(char *const *items, size_t count, unsigned k)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    struct number outer, first, last, next;

    if (!to)
        return NULL;
    find_number(items[0], k, &outer);
    fprintf(to, "%.*s[", (int)outer.start, items[0]);
    for (size_t i = 0, j; i < count; i = j) {
        find_number(items[i], k, &first);
        last = first;
        for (j = i + 1; j < count; j++) {
            find_number(items[j], k, &next);
            if (!continues(items[i], first, items[j - 1], last, items[j], next))
                break;
            last = next;
        }
        fprintf(to, "%s%.*s", i ? "," : "", (int)first.digits, items[i] + first.start);
        if (j > i + 1)
            fprintf(to, "-%.*s", (int)last.digits, items[j - 1] + last.start);
    }
    fprintf(to, "]%s", items[0] + outer.start + outer.digits);
    if (fclose(to) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* One pass, in place: the number of items left, or -ENOMEM. */
static long fold_pass(char **items, size_t count, unsigned k)
{
    size_t kept = 0;

    for (size_t i = 0, j; i < count; i = j) {
        struct number first, next;

        j = i + 1;
        if (find_number(items[i], k, &first))
            while (j < count && find_number(items[j], k, &next) &&
                   same_but_number(items[i], first, items[j], next))
                j++;
        if (j > i + 1) {
            char *joined = join(items + i, j - i, k);
            if (!joined)
                return -ENOMEM;
            free(items[i]);
            items[i] = joined;
        }
        char *item = items[i];
        items[i] = NULL;
        for (size_t n = i + 1; n < j; n++) {
            free(items[n]);
            items[n] = NULL;
        }
        items[kept++] = item;
    }
    return (long)kept;
}

static bool foldable(const char *name)
{
    size_t n = strlen(name);

    return n > 0 && n < HOSTLIST_NAME_MAX_BYTES && strcspn(name, "[], \t\n\v\f\r") == n;
}

static char *concatenate(char *const *items, size_t count)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);

    if (!to)
        return NULL;
    for (size_t i = 0; i < count; i++)
        fprintf(to, "%s%s", i ? "," : "", items[i]);
    if (fclose(to) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

int hostlist_fold(const char *const *names, size_t count, char **ret_text)
{
    char **items = calloc(count + 1, sizeof(*items)), *text = NULL;
    long left = (long)count;
    int r = items ? 0 : -ENOMEM;

    for (size_t i = 0; r == 0 && i < count; i++) {
        if (!foldable(names[i]))
            r = -EINVAL;
        else if (!(items[i] = strdup(names[i])))
            r = -ENOMEM;
    }
    for (unsigned k = 0; r == 0 && k < HOSTLIST_DIMENSIONS_MAX; k++) {
        long n = fold_pass(items, (size_t)left, k);
        if (n < 0)
            r = (int)n;
        else
            left = n;
    }
    if (r == 0 && !(text = concatenate(items, (size_t)left)))
        r = -ENOMEM;
    for (size_t i = 0; items && i < count; i++)
        free(items[i]);
    free(items);
    if (r == 0)
        *ret_text = text;
    return r;
}
