/* Merges the output of several processes by whole lines, each prefixed with its rank. */
#pragma once

#include <stdio.h>

struct tag {
    int fd; /* the process's output; -1: it has ended */
    FILE *to;
    size_t rank;
    char *text; /* of an incomplete line */
    size_t bytes;
};

/* Takes ownership of fd. */
void tag_init(struct tag *tag, int fd, FILE *to, size_t rank);
/* Prints the lines that have arrived. */
void tag_pump(struct tag *tag);
/* Prints the rest and closes fd. */
void tag_finish(struct tag *tag);
