/* Handles out-of-memory errors in interactive programs: prints an error and exits. */
#pragma once

/* Returns the pointer; exits with status 1 if it is NULL. */
void *must(void *pointer);
