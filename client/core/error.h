/* The text of tca_error_text(), one per thread. */
#pragma once

#include "proto/tca.pb-c.h"

/* Formats the text and returns `code`. */
int error_set(int code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* The same without formatting, for calls that programs make in loops. `text` must be static. */
int error_static(int code, const char *text);

/* Sets the daemon's text (copied) and returns its status. */
int error_wire(const Tca__Failure *failure) __attribute__((cold));

/* Appends to the current text. */
int error_suffix(int code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* Inserts a prefix before the current text: "step 3 of chain 0: ..." */
int error_prefix(int code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
