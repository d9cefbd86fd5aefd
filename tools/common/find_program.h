/* Where a program that belongs to us is: beside this one, as built or as installed, else in PATH.
 */
#pragma once

#include <limits.h>

/* "tcad" or "tca-peach2". 0, or -ENOENT. */
int find_program(const char *name, char ret_path[static PATH_MAX]);
/* The directory of this program's own binary: 0 or negative errno. */
int find_own_directory(char ret_path[static PATH_MAX]);
