/* Numbers of the command line. */
#pragma once

#include <stdbool.h>

/* False: it is none from least to most, and that was said. */
bool number_parse(const char *option, const char *text, unsigned least, unsigned most,
                  unsigned *ret_number);
