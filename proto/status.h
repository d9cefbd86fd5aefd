/* Status codes as they cross a wire: errno values differ between systems, these do not. */
#pragma once

#include <stdint.h>

/* A negative errno to the code that stands for it on the wire (0 for success); unknown ones become
 * "I/O error". */
uint32_t status_to_wire(int error);

/* The negative errno of this machine for a code from the wire; 0 for success, -EPROTO for a code
 * nobody knows. */
int status_from_wire(uint32_t code);

/* A word for a negative errno as this project uses it ("stale handle", "owner died"); never NULL.
 */
const char *status_text(int error);
