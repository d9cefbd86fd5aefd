/* Between the loop*.c files. */
#pragma once

#include <stdint.h>
#include <sys/time.h>

struct event_base;
struct loop;

struct event_base *loop_base(struct loop *loop);

/* Rounded up: a timer of 1 ns is not one of 0. */
struct timeval loop_timeval(uint64_t ns);
