#include "tools/common/find_program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int find_own_directory(char ret_path[static PATH_MAX])
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

    if (n < 0)
        return -errno;
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    if (!slash)
        return -ENOENT;
    *slash = '\0';
    strcpy(ret_path, path);
    return 0;
}

static int try_in(const char *directory, size_t bytes, const char *below, const char *name,
                  char ret_path[static PATH_MAX])
{
    char path[PATH_MAX];
    struct stat st;
    int n = snprintf(path, sizeof(path), "%.*s/%s%s", (int)bytes, directory, below, name);

    if (n < 0 || n >= (int)sizeof(path) || stat(path, &st) < 0 || !S_ISREG(st.st_mode) ||
        access(path, X_OK) < 0)
        return -ENOENT;
    strcpy(ret_path, path);
    return 0;
}

int find_program(const char *name, char ret_path[static PATH_MAX])
{
    /* As built (build/tools/, build/daemon/) and as installed. */
    static const char *const beside[] = {"", "../daemon/", "../sbin/", "../libexec/",
                                         "../libexec/tcad/"};
    char own[PATH_MAX];

    if (find_own_directory(own) == 0)
        for (size_t i = 0; i < sizeof(beside) / sizeof(*beside); i++)
            if (try_in(own, strlen(own), beside[i], name, ret_path) == 0)
                return 0;

    const char *path = getenv("PATH");
    for (const char *p = path ? path : ""; *p; p += strspn(p, ":")) {
        size_t n = strcspn(p, ":");
        if (*p == '/' && try_in(p, n, "", name, ret_path) == 0)
            return 0;
        p += n;
    }
    return try_in("/usr/sbin", strlen("/usr/sbin"), "", name, ret_path);
}
