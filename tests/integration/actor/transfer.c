/*
 * A stream of checked transfers between two actors. The sender fills its source anew for every
 * start, the receiver checks the data and acknowledges with a plan of its own; so lost, late and
 * foreign bytes are detected.
 */
#include <errno.h>
#include <unistd.h>

#include "tests/integration/actor/actor.h"

enum {
    SLICE_NS = 20 * 1000 * 1000
}; /* how long a receiver waits before it checks for the director's next line */

/* send PLAN REGION OFFSET SHAPE RANK ACK_SLOT COUNT [PAUSE]: COUNT starts, 0: until the next line;
 * PAUSE milliseconds after each. ok COUNT */
static int send_stream(struct actor *actor, const struct words *words)
{
    struct tca_plan *plan = word_plan(actor, words, 1);
    uint8_t *base =
        (uint8_t *)tca_region_address(word_region(actor, words, 2)) + word_number(words, 3);
    struct shape shape = word_shape(words, 4);
    uint32_t rank = (uint32_t)word_number(words, 5), slot = (uint32_t)word_number(words, 6);
    uint64_t count = word_number(words, 7), done = 0;
    useconds_t pause_us = words->count > 8 ? 1000 * (useconds_t)word_number(words, 8) : 0;
    int r = 0;
    while (r == 0 && (count == 0 ? !line_waits() : done < count)) {
        shape_fill(base, shape, done);
        r = tca_start(plan);
        if (r == 0)
            r = tca_wait(plan, TCA_DEFAULT);
        if (r == 0)
            r = tca_notified_wait(actor->session, rank, slot, TCA_DEFAULT);
        done += r == 0;
        if (pause_us > 0)
            usleep(pause_us);
    }
    if (r < 0)
        return say_error(r, "%llu %s", (unsigned long long)done, tca_error_text());
    return say("%llu", (unsigned long long)done);
}

/* receive REGION OFFSET SHAPE RANK SLOT ACK_PLAN COUNT: 0: until the next line. ok COUNT */
static int receive_stream(struct actor *actor, const struct words *words)
{
    const uint8_t *base =
        (uint8_t *)tca_region_address(word_region(actor, words, 1)) + word_number(words, 2);
    struct shape shape = word_shape(words, 3);
    uint32_t rank = (uint32_t)word_number(words, 4), slot = (uint32_t)word_number(words, 5);
    struct tca_plan *ack = word_plan(actor, words, 6);
    uint64_t count = word_number(words, 7), done = 0;
    int r = 0;
    while (count == 0 || done < count) {
        r = tca_notified_wait(actor->session, rank, slot, SLICE_NS);
        if (r == -ETIMEDOUT) {
            r = 0;
            if (line_waits())
                break;
            continue;
        }
        if (r < 0)
            break;
        uint64_t right = shape_check(base, shape, done);
        if (right != shape_bytes(shape))
            return say_error(-EBADMSG, "%llu byte %llu of %llu is wrong", (unsigned long long)done,
                             (unsigned long long)right, (unsigned long long)shape_bytes(shape));
        r = tca_start(ack);
        if (r == 0)
            r = tca_wait(ack, TCA_DEFAULT);
        if (r < 0)
            break;
        done++;
    }
    if (r < 0)
        return say_error(r, "%llu %s", (unsigned long long)done, tca_error_text());
    return say("%llu", (unsigned long long)done);
}

const struct command transfer_commands[] = {
    {"send", 7, send_stream},
    {"receive", 7, receive_stream},
    {NULL},
};
