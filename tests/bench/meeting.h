/* Memory in which the processes of a measurement meet: a file that the script has made, empty. */
#pragma once

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Maps it, at first all zero. Ends the program if it cannot. */
static inline void *map_meeting(const char *path, size_t bytes)
{
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    void *meeting = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
        meeting = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (meeting == MAP_FAILED) {
        perror(path);
        exit(1);
    }
    close(fd);
    return meeting;
}
