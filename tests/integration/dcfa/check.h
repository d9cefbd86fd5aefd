/* Checks that end the process. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                        \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            _Exit(1);                                                                              \
        }                                                                                          \
    } while (0)
/* A call that must succeed. */
#define GOOD(call)                                                                                 \
    do {                                                                                           \
        int result_ = (call);                                                                      \
        CHECK(result_ >= 0, "%d: %s", result_, tca_error_text());                                  \
    } while (0)
