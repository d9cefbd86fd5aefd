/* Which addresses of this machine a daemon listens on. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "drivers/addresses.h"

/*
 * The addresses of `host`, which is this machine: a numeric one, or those of a name that are here.
 * Those of the loopback interface only if there are no others and all of the `count` other hosts
 * are of that interface, too. If the others are not (Debian's /etc/hosts has the host name at
 * 127.0.1.1), it is the address from which this machine reaches the first of them that has a route;
 * then *ret_text is a warning, else "". Looks names up, which can take long. -EADDRNOTAVAIL and the
 * reason in ret_text: there is none that other machines can reach; -ENOMEM. what: the setting, for
 * the texts.
 */
int addresses_own(const char *what, const char *host, uint16_t port, const char *const *others,
                  size_t count, struct addresses **ret_addresses, char *ret_text,
                  size_t text_bytes);
