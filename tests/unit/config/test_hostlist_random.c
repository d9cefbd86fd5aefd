/* Random names: expand(fold(names)) returns the same names in the same order. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/hostlist.h"

static unsigned roll(unsigned sides)
{
    return (unsigned)random() % sides;
}

static void check(const char *const *names, size_t count)
{
    struct hostlist list = {0};
    struct hostlist_problem problem = {0};
    char *text = NULL, *again = NULL;

    cr_assert_eq(hostlist_fold(names, count, &text), 0);
    cr_assert_eq(hostlist_expand(text, HOSTLIST_NAMES_MAX, &list, &problem), 0, "%s: %s", text,
                 problem.text);
    cr_assert_eq(list.count, count, "%s", text);
    for (size_t i = 0; i < count; i++)
        cr_assert_str_eq(list.names[i], names[i], "%s", text);
    cr_assert_eq(hostlist_fold((const char *const *)list.names, list.count, &again), 0);
    cr_assert_str_eq(again, text);
    free(again);
    free(text);
    hostlist_deinit(&list);
}

/* Names in which runs, padding, several numbers and repetition all happen. */
Test(hostlist, names_survive_folding)
{
    enum { NAMES = 40 };
    static const char *const letters[] = {"a", "b", "rack", "-", "."};
    static char names[NAMES][64];
    const char *list[NAMES];

    srandom(7);
    for (unsigned round = 0; round < 20000; round++) {
        size_t count = 1 + roll(NAMES);
        for (size_t i = 0; i < count; i++) {
            char *to = names[i];
            if (i > 0 && roll(3)) { /* like the one before, except for the last digit */
                strcpy(to, names[i - 1]);
                char *last = to + strlen(to) - 1;
                if (*last >= '0' && *last < '9')
                    ++*last;
            } else {
                *to = '\0';
                for (unsigned parts = 1 + roll(4); parts > 0; parts--)
                    sprintf(to + strlen(to), roll(2) ? "%s%u" : "%s%02u", letters[roll(5)],
                            roll(12));
            }
            list[i] = to;
        }
        check(list, count);
    }
}

/* Products of ranges fold into one item. */
Test(hostlist, products_fold_to_one)
{
    srandom(8);
    for (unsigned round = 0; round < 500; round++) {
        struct hostlist list = {0};
        char text[128] = "", *folded = NULL;

        for (unsigned parts = 1 + roll(3); parts > 0; parts--) {
            unsigned first = roll(90), last = first + 1 + roll(9);
            sprintf(text + strlen(text), roll(2) ? "n[%u-%u]" : "n[%03u-%03u]", first, last);
        }
        cr_assert_eq(hostlist_expand(text, HOSTLIST_NAMES_MAX, &list, NULL), 0, "%s", text);
        cr_assert_eq(hostlist_fold((const char *const *)list.names, list.count, &folded), 0);
        cr_expect_str_eq(folded, text);
        free(folded);
        hostlist_deinit(&list);
    }
}
