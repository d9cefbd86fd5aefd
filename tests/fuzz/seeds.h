/* Writing seed corpora. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One file: a first byte (none when negative), then the data. */
void write_seed(const char *target, const char *name, int first, const void *data, size_t bytes);

void board_seeds(void);
void tcp_seeds(void);
