/*
 * For how long a link has been in trouble, in time in which its driver could do something about it:
 * without a processor nothing connects, and whoever is as late as the machine is must not take the
 * other end for lost.
 */
#pragma once

#include <stdint.h>

/* While a link is in trouble, its driver looks at it at least this often. */
#define PATIENCE_LOOK_NS UINT64_C(100000000)

/* Call at each look. since_ns: since when it has been in trouble, 0: it is not; looked_ns: the last
 * look. Takes out what the look is late. */
static inline void patience_look(uint64_t *since_ns, uint64_t *looked_ns, uint64_t now_ns)
{
    if (*since_ns != 0 && *since_ns <= *looked_ns && now_ns - *looked_ns > 2 * PATIENCE_LOOK_NS)
        *since_ns += now_ns - *looked_ns - PATIENCE_LOOK_NS;
    *looked_ns = now_ns;
}
