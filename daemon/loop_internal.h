/* Between the loop*.c files. */
#pragma once

#include <stdint.h>
#include <sys/time.h>

struct event_base;
struct loop;

struct event_base *loop_base(struct loop *loop);
