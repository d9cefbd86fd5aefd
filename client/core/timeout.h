/* Time-outs of a session's calls. */
#pragma once

#include "client/include/tca.h"

/* Resolves TCA_DEFAULT: *ret_timeout_ns is >= 0 or TCA_FOREVER. 0 or -EINVAL. */
int session_timeout(const struct tca *session, int64_t timeout_ns, int64_t *ret_timeout_ns);

/* The deadline of a wait with TCA_DEFAULT that begins now (client/core/clock.h). */
uint64_t session_end(const struct tca *session);
