/* The input of fuzz_tcp.c: records of what a peer does, one after the other. */
#pragma once

#include <stdint.h>

enum tcp_deed {
    /* a peer that puts into us */
    TCP_DIAL,  /* connects; the caller's connection until then is closed */
    TCP_HELLO, /* says hello: the bytes replace those of a hello, which is then signed */
    TCP_HEAD,  /* the bytes replace those of a head; what is left of them follows it */
    TCP_RAW,   /* sends the bytes */
    TCP_HANG_UP,
    /* the daemon that has us as its rail */
    TCP_FREE, /* frees a landing */
    TCP_POST, /* starts a put to the peer below */
    /* a peer that we put into */
    TCP_RECONNECT, /* a link that is broken tries again now */
    TCP_ANSWER,    /* accepts, sends a challenge, which the bytes replace */
    TCP_ADMIT,     /* the bytes replace those of a welcome, which is then signed */
    TCP_REPLY,     /* sends the bytes */
    TCP_CUT,
    TCP_DEEDS
};

struct tcp_record { /* followed by its bytes; the deed counts modulo TCP_DEEDS */
    uint8_t deed;
    uint8_t whose; /* TCP_CALLERS, TCP_LANDINGS or TCP_PUTS, modulo their number */
    uint16_t bytes;
};
_Static_assert(sizeof(struct tcp_record) == 4, "as it lies in files");

enum { TCP_CALLERS = 3, TCP_LANDINGS = 4, TCP_PUTS = 4 };

/* TCP_HEAD: a landing below TCP_LANDINGS with generation 0 means one of ours; number 0 means the
 * one that is due. */
