/* The first request on every connection. */
#pragma once

#include "client/core/control.h"

/* group_size 0: an administrative connection. name NULL: the program's name. The reply is a Welcome
 * of this library's protocol version. */
int hello_ask(struct control *control, const char *name, uint32_t group_size, uint64_t end_ns,
              struct reply *ret_reply);
