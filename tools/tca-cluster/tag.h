/* Lines of several processes on one output: whole lines only, each with its rank before it. */
#pragma once

#include <stddef.h>
#include <stdio.h>

struct tag {
    int fd; /* what the process writes arrives here; -1: it has ended */
    FILE *to;
    size_t rank;
    char *text; /* of a line that is not complete */
    size_t bytes;
};

/* Takes fd over. */
void tag_init(struct tag *tag, int fd, FILE *to, size_t rank);
/* Passes on what has arrived. */
void tag_pump(struct tag *tag);
/* The rest, and the end. */
void tag_finish(struct tag *tag);
