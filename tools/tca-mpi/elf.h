/* Which libraries a program loads, read from its file and theirs, without running anything. */
#pragma once

/* Looks for a library with one of these names, NULL-terminated, among those that `path` needs,
 * directly or through others, as the loader finds them. The index of the name, -ENOENT: none, or
 * another negative errno: `path` cannot be read, or is no program of this machine (-ENOEXEC), such
 * as a script. */
int elf_find_needed(const char *path, const char *const *names);
