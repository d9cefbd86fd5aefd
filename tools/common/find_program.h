/* Finds a program of this project: near this program, as built or as installed, else in PATH. */
#pragma once

#include <limits.h>

/* name: such as "tcad". 0, or -ENOENT. */
int find_program(const char *name, char ret_path[static PATH_MAX]);
/* The directory of this program's binary. 0 or negative errno. */
int find_own_directory(char ret_path[static PATH_MAX]);
