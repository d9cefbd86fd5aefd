/* Numbers as text with three digits and a unit. */
#pragma once

#include <stdint.h>

struct units_text {
    char text[32];
};

struct units_text units_bytes(double bytes); /* "1.50 KiB" */
struct units_text units_ns(double ns);       /* "1.25 us" */
struct units_text units_time(double ns);     /* the same; "-": 0 */
struct units_text units_age(double seconds); /* "3d 4h", "12s" */
struct units_text units_count(double count); /* "12345", "1.23 M" */
/* "s" unless the number is 1. */
const char *units_plural(long long count);
