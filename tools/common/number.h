/* Numbers on the command line. */
#pragma once

#include <stdbool.h>

/* False: not a number from least to most; prints an error that names the option. */
bool number_parse(const char *option, const char *text, unsigned least, unsigned most,
                  unsigned *ret_number);
