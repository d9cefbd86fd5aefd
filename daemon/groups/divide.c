#include "daemon/groups/divide.h"

#include <stdlib.h>
#include <string.h>

static int by_part(const void *a, const void *b)
{
    const struct divided *x = a, *y = b;
    if (x->colour != y->colour)
        return x->colour < y->colour ? -1 : 1;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static struct divided read_choice(const uint8_t *choices, uint32_t rank)
{
    struct divide_choice choice;
    memcpy(&choice, choices + rank * sizeof(choice), sizeof(choice));
    return (struct divided){choice.colour, choice.key, rank};
}

/* Sorts the colours of these ranks, without DIVIDE_NONE, into an array. */
static uint32_t find_colours(const uint8_t *choices, const uint32_t *ranks, uint32_t count,
                             struct divided *ret_colours)
{
    uint32_t colours = 0, different = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct divided own = read_choice(choices, ranks[i]);
        if (own.colour != DIVIDE_NONE)
            ret_colours[colours++] = (struct divided){.colour = own.colour};
    }
    qsort(ret_colours, colours, sizeof(*ret_colours), by_part);
    for (uint32_t i = 0; i < colours; i++)
        if (i == 0 || ret_colours[i].colour != ret_colours[different - 1].colour)
            ret_colours[different++] = ret_colours[i];
    return different;
}

static int by_colour(const void *key, const void *element)
{
    const struct divided *x = key, *y = element;
    return x->colour < y->colour ? -1 : x->colour > y->colour;
}

uint32_t divide(const uint8_t *choices, uint32_t size, const uint32_t *ranks, uint32_t count,
                struct divided *ret_divided)
{
    struct divided *wanted = ret_divided + size;
    const uint32_t colours = find_colours(choices, ranks, count, wanted);
    uint32_t found = 0;

    for (uint32_t rank = 0; rank < size; rank++) {
        const struct divided choice = read_choice(choices, rank);
        if (bsearch(&choice, wanted, colours, sizeof(*wanted), by_colour))
            ret_divided[found++] = choice;
    }
    qsort(ret_divided, found, sizeof(*ret_divided), by_part);
    return found;
}

uint32_t divide_part(const struct divided *divided, uint32_t count)
{
    uint32_t length = 0;
    while (length < count && divided[length].colour == divided[0].colour)
        length++;
    return length;
}
