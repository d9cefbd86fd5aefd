/* What tca_error_text() says: one text per thread. */
#pragma once

#include "proto/tca.pb-c.h"

/* Formats the text and returns `code`, so that `return error_set(-EINVAL, ...)` reads well. */
int error_set(int code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* The same without formatting, for calls that programs make in loops: `text` is static. */
int error_static(int code, const char *text);

/* What the daemon said. Its text is copied. */
int error_wire(const Tca__Failure *failure) __attribute__((cold));

/* Puts a few words before the text that is there already: "step 3 of chain 0: ..." */
int error_prefix(int code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
