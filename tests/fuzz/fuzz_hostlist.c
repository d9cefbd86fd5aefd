/* Any text is a hostlist or is refused, and folding keeps its names. */
#include <string.h>

#include "config/hostlist.h"
#include "tests/fuzz/fuzz.h"

enum { NAMES_MAX = 1000 }; /* more of them only take longer */

static void check_fold(const struct hostlist *list)
{
    struct hostlist again = {0};
    char *text = NULL;

    FUZZ_REQUIRE(hostlist_fold((const char *const *)list->names, list->count, &text) == 0);
    FUZZ_REQUIRE(hostlist_expand(text, NAMES_MAX, &again, NULL) == 0);
    FUZZ_REQUIRE(again.count == list->count);
    for (size_t i = 0; i < list->count; i++)
        FUZZ_REQUIRE(strcmp(list->names[i], again.names[i]) == 0);
    hostlist_deinit(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct hostlist list = {0};
    struct hostlist_problem problem = {0};
    char *text = strndup((const char *)data, bytes);

    if (!text)
        return 0;
    if (hostlist_expand(text, NAMES_MAX, &list, &problem) == 0) {
        check_fold(&list);
    } else {
        FUZZ_REQUIRE(problem.position <= strlen(text));
        FUZZ_REQUIRE(problem.text[0]);
    }
    hostlist_deinit(&list);
    free(text);
    return 0;
}
