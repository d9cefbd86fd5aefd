/* Where the daemon's binary is: beside this program, as built or as installed, else in PATH. */
#pragma once

#include <limits.h>

/* 0, or -ENOENT. */
int find_tcad(char ret_path[static PATH_MAX]);
/* The directory of this program's own binary: 0 or negative errno. */
int find_own_directory(char ret_path[static PATH_MAX]);
