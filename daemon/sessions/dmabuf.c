#include "daemon/sessions/dmabuf.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int dmabuf_bytes(int fd, uint64_t *ret_bytes)
{
    char path[64], line[256];
    bool named = false, sized = false;
    uint64_t bytes = 0;
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    FILE *from = fopen(path, "re");
    if (!from)
        return -errno;
    while (!(named && sized) && fgets(line, sizeof(line), from)) {
        sized |= sscanf(line, "size:%" SCNu64, &bytes) == 1;
        named |= strncmp(line, "exp_name:", strlen("exp_name:")) == 0;
    }
    fclose(from);
    if (!named || !sized)
        return -EINVAL;
    *ret_bytes = bytes;
    return 0;
}
