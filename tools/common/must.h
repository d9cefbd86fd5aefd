/* For programs that a person has started: without memory there is nothing left to do but say so. */
#pragma once

/* The pointer, or the end of the program when it is NULL. */
void *must(void *pointer);
