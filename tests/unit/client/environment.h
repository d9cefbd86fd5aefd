/* Sets and clears environment variables for one case. */
#pragma once

#include <stdlib.h>
#include <string.h>

static inline void clear_environment(void)
{
    clearenv();
}

/* "NAME=value" up to a NULL. */
static inline void set_environment(const char *const *pairs)
{
    clear_environment();
    for (; *pairs; pairs++) {
        const char *equals = strchr(*pairs, '=');
        char name[64] = {0};
        memcpy(name, *pairs, (size_t)(equals - *pairs));
        setenv(name, equals + 1, 1);
    }
}
