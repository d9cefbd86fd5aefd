/* Numbers with units as text. The parsers return 0, -EINVAL (syntax) or -ERANGE (does not fit). */
#pragma once

#include <stdint.h>
#include <stdio.h>

/* 4096, 0x1000, 128K, 32T: factors of 1024. */
int units_parse_size(const char *text, uint64_t *ret_value);
/* 0666 or 666: octal. */
int units_parse_octal(const char *text, uint64_t *ret_value);
/* 500ns, 50us, 250ms, 1.5s, 2min, 1h; a 0 needs no unit. */
int units_parse_duration(const char *text, uint64_t *ret_ns);

/* Exactly, with the largest unit that needs no fraction. */
void units_write_size(uint64_t value, FILE *to);
void units_write_duration(uint64_t ns, FILE *to);
