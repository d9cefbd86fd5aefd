/* Status codes on the wire, which unlike errno values are the same on every system. */
#pragma once

#include <stdint.h>

/* The wire code of a negative errno or of 0 (success). Unknown errors become "I/O error". */
uint32_t status_to_wire(int error);

/* The local negative errno of a wire code; 0 for success, -EPROTO for an unknown code. */
int status_from_wire(uint32_t code);

/* A description of a negative errno in the terms of this project ("stale handle"); never NULL. */
const char *status_text(int error);
