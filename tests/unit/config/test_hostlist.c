#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/hostlist.h"

static const struct {
    const char *text, *names; /* separated by spaces */
    const char *folded;       /* NULL: like text */
} good[] = {
    {"node", "node", NULL},
    {"node[1-3,7]", "node1 node2 node3 node7", NULL},
    {"rack[01-02]n[1-2]", "rack01n1 rack01n2 rack02n1 rack02n2", NULL},
    {"login,node[1-2]", "login node1 node2", NULL},
    {"node1,node2,node3", "node1 node2 node3", "node[1-3]"},
    {"n[08-11]", "n08 n09 n10 n11", NULL},
    {"n[8-11]", "n8 n9 n10 n11", NULL},
    {"n[1,01,001]", "n1 n01 n001", NULL},
    {"n[099,100]", "n099 n100", "n[099-100]"},
    {"n[09,100]", "n09 n100", NULL},
    {"n[3,2,1]", "n3 n2 n1", NULL},
    {"n[1,1]", "n1 n1", NULL},
    {"[1-2]", "1 2", NULL},
    {"a[1-2]b[3-4]c[5-6]", "a1b3c5 a1b3c6 a1b4c5 a1b4c6 a2b3c5 a2b3c6 a2b4c5 a2b4c6", NULL},
    {"n[1-2]0", "n10 n20", "n[10,20]"},
    {"[1-2][1-2]", "11 12 21 22", "[11-12,21-22]"},
    {"n[0-0]", "n0", "n0"},
    {"10.0.0.[1-2]:7080", "10.0.0.1:7080 10.0.0.2:7080", NULL},
    {"a1b1,a1b2,a2b1", "a1b1 a1b2 a2b1", "a1b[1-2],a2b1"},
    {"a1,b1,a2", "a1 b1 a2", NULL},
    {"n[999999999999999999]", "n999999999999999999", "n999999999999999999"},
};

static const struct {
    const char *text;
    int error;
    size_t position;
    const char *why;
} bad[] = {
    {"", -EINVAL, 0, "a name is missing"},
    {",", -EINVAL, 0, "a name is missing"},
    {"a,", -EINVAL, 2, "a name is missing"},
    {"a,,b", -EINVAL, 2, "a name is missing"},
    {"n[", -EINVAL, 1, "the bracket is not closed"},
    {"n[1-3", -EINVAL, 1, "the bracket is not closed"},
    {"n]", -EINVAL, 1, "the bracket has no opening bracket"},
    {"n[]", -EINVAL, 2, "a number is missing; ranges are written [1-3,7]"},
    {"n[1,]", -EINVAL, 4, "a number is missing; ranges are written [1-3,7]"},
    {"n[-3]", -EINVAL, 2, "a number is missing; ranges are written [1-3,7]"},
    {"n[1-]", -EINVAL, 4, "a number is missing; ranges are written [1-3,7]"},
    {"n[a]", -EINVAL, 2, "a number is missing; ranges are written [1-3,7]"},
    {"n[1x]", -EINVAL, 3, "\"x\" is not part of a range; ranges are written [1-3,7]"},
    {"n[1-2-3]", -EINVAL, 5, "\"-\" is not part of a range; ranges are written [1-3,7]"},
    {"n[[1]]", -EINVAL, 2, "a number is missing; ranges are written [1-3,7]"},
    {"n[3-1]", -EINVAL, 2, "the range 3-1 is descending"},
    {"n[01-100]", -EINVAL, 2,
     "with leading zeros, both ends of a range need the same number of digits"},
    {"n[1-02]", -EINVAL, 2,
     "with leading zeros, both ends of a range need the same number of digits"},
    {"n[1000000000000000000]", -EINVAL, 2, "a number has more than 18 digits"},
    {"a b", -EINVAL, 1, "white space inside a name"},
    {"a[1][1][1][1][1][1][1][1][1]", -EINVAL, 25, "a name has more than 8 brackets"},
    {"n[0-131072]", -E2BIG, 11, "more than 131072 names"},
    {"n[0-999999999999999999]", -E2BIG, 23, "more than 131072 names"},
    {"n[1-400]m[1-400]", -E2BIG, 16, "more than 131072 names"},
};

static char *join(const struct hostlist *list)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);

    for (size_t i = 0; i < list->count; i++)
        fprintf(to, "%s%s", i ? " " : "", list->names[i]);
    fclose(to);
    return text;
}

Test(hostlist, good)
{
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        struct hostlist list;
        struct hostlist_problem problem = {0};
        char *folded = NULL;

        cr_assert_eq(hostlist_expand(good[i].text, HOSTLIST_NAMES_MAX, &list, &problem), 0,
                     "%s: %s", good[i].text, problem.text);
        char *names = join(&list);
        cr_expect_str_eq(names, good[i].names);
        cr_assert_eq(hostlist_fold((const char *const *)list.names, list.count, &folded), 0);
        cr_expect_str_eq(folded, good[i].folded ? good[i].folded : good[i].text);
        free(folded);
        free(names);
        hostlist_deinit(&list);
    }
}

Test(hostlist, bad)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct hostlist list = {.count = 42};
        struct hostlist_problem problem = {.position = 99};

        cr_expect_eq(hostlist_expand(bad[i].text, HOSTLIST_NAMES_MAX, &list, &problem),
                     bad[i].error, "%s", bad[i].text);
        cr_expect_eq(problem.position, bad[i].position, "%s: at %zu", bad[i].text,
                     problem.position);
        cr_expect_str_eq(problem.text, bad[i].why);
        cr_expect_eq(list.count, 42, "written although it failed");
        cr_expect_eq(hostlist_expand(bad[i].text, HOSTLIST_NAMES_MAX, &list, NULL), bad[i].error);
    }
}

Test(hostlist, bounds)
{
    struct hostlist list;
    char name[300];

    cr_assert_eq(hostlist_expand("n[0-131071]", HOSTLIST_NAMES_MAX, &list, NULL), 0);
    cr_expect_eq(list.count, 131072);
    hostlist_deinit(&list);
    cr_expect_eq(hostlist_expand("n[1-3]", 2, &list, NULL), -E2BIG);

    memset(name, 'a', sizeof(name));
    name[HOSTLIST_NAME_MAX_BYTES - 1] = '\0';
    cr_assert_eq(hostlist_expand(name, 1, &list, NULL), 0);
    hostlist_deinit(&list);
    name[HOSTLIST_NAME_MAX_BYTES - 1] = 'a';
    name[HOSTLIST_NAME_MAX_BYTES] = '\0';
    cr_expect_eq(hostlist_expand(name, 1, &list, NULL), -EINVAL);
    strcpy(name + HOSTLIST_NAME_MAX_BYTES - 2, "[7-10]");
    cr_expect_eq(hostlist_expand(name, 9, &list, NULL), -EINVAL);
}

Test(hostlist, fold_refuses_what_cannot_be_expanded)
{
    static const char *const names[] = {"", "a[1]", "a,b", "a b", "a\tb"};
    char *text = NULL;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const char *list[] = {"good", names[i]};
        cr_expect_eq(hostlist_fold(list, 2, &text), -EINVAL, "\"%s\"", names[i]);
        cr_expect_null(text);
    }
    cr_assert_eq(hostlist_fold(NULL, 0, &text), 0);
    cr_expect_str_eq(text, "");
    free(text);
}
