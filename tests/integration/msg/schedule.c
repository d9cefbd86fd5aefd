#include "tests/integration/msg/schedule.h"

#include <stdbool.h>

enum { TAGS = 2 };
static const uint64_t sizes[] = {0, 1, 8, 16, 17, 200, 2032, 2033, 5000, 70000};

static uint64_t any_size(struct random *random)
{
    return sizes[random_below(random, sizeof(sizes) / sizeof(sizes[0]))];
}

void schedule_choose(struct message *messages, struct random *random, uint32_t count,
                     uint32_t ranks)
{
    for (uint32_t i = 0; i < MESSAGES; i++)
        messages[i] = (struct message){.from = UINT32_MAX}; /* none */
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes = any_size(random), room = any_size(random);
        messages[i] = (struct message){
            .from = (uint32_t)random_below(random, ranks),
            .to = (uint32_t)random_below(random, ranks),
            .tag = (uint32_t)random_below(random, TAGS),
            .bytes = bytes,
            .room = random_below(random, 6) ? bytes : room,
            .source = (enum memory)random_below(random, MEMORIES),
            .target = (enum memory)random_below(random, MEMORIES),
            .receive = i,
        };
        uint32_t other = (uint32_t)random_below(random, i + 1);
        messages[i].receive = messages[other].receive;
        messages[other].receive = i;
    }
}

static bool same_channel(const struct message *a, const struct message *b)
{
    return a->from == b->from && a->to == b->to && a->tag == b->tag;
}

const struct message *schedule_match(const struct message *messages, const struct message *mine)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < MESSAGES; i++)
        n += same_channel(&messages[i], mine) && messages[i].receive < mine->receive;
    for (uint32_t i = 0;; i++)
        if (same_channel(&messages[i], mine) && n-- == 0)
            return &messages[i];
}
