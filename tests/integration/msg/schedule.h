/* Random messages between ranks, and which one a receive must get. */
#pragma once

#include <stdint.h>

#include "tests/unit/proto/random.h"

enum { MESSAGES = 60 /* of all ranks, in a round */ };

/* Memory of one side of a message. */
enum memory { ALLOCATED, HEAP, STRIDED, HEAP_STRIDED, MEMORIES };

/* One message as it is sent, and one receive of the same ranks and tag, which may get another one:
 * messages are sent in the order of the array, receives are made in that of `receive`. */
struct message {
    uint32_t from, to, tag;
    uint64_t bytes; /* that are sent */
    uint64_t room;  /* of the receive */
    enum memory source, target;
    uint32_t receive;
};

void schedule_choose(struct message *messages, struct random *random, uint32_t count,
                     uint32_t ranks);
/* The message that the receive of `mine` gets: of the messages of its ranks and tag, the n-th, if
 * it is the n-th receive. */
const struct message *schedule_match(const struct message *messages, const struct message *mine);
