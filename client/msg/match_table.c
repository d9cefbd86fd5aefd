#include "client/msg/match_table.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

enum { ANY_TAG = 1, ANY_RANK = 2, KINDS = 4, QUEUES_FIRST = 64, LINKS_PER_QUEUE = 2 };

static inline uint32_t hash_of(struct match_key key)
{
    uint64_t hash = ((uint64_t)key.rank << 32 | key.tag) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 32 ^ key.context) * UINT64_C(0xd6e8feb86659fd93);
    return hash >> 32;
}

static inline struct match_queue *queue_of(const struct match_table *table, uint32_t hash)
{
    return &table->queues[hash & (table->queue_count - 1)];
}

static inline bool same(struct match_key a, struct match_key b)
{
    return a.rank == b.rank && a.tag == b.tag && a.context == b.context;
}

static inline struct match_link *find(const struct match_table *table, struct match_key key)
{
    struct match_link *link = queue_of(table, hash_of(key))->first;

    while (link && !same(link->key, key))
        link = link->next;
    return link;
}

static inline void append(struct match_queue *queue, struct match_link *link)
{
    link->next = NULL;
    link->previous = queue->last;
    if (queue->last)
        queue->last->next = link;
    else
        queue->first = link;
    queue->last = link;
}

/* Links with one key stay in order: they come from one queue. Without memory the table stays as it
 * is, and gets slower. */
static __attribute__((noinline)) void grow(struct match_table *table)
{
    struct match_table wider = {.queue_count = table->queue_count * 2,
                                .link_count = table->link_count};

    wider.queues = calloc(wider.queue_count, sizeof(*wider.queues));
    if (!wider.queues)
        return;
    for (uint64_t i = 0; i < table->queue_count; i++)
        for (struct match_link *link = table->queues[i].first, *next; link; link = next) {
            next = link->next;
            append(queue_of(&wider, link->hash), link);
        }
    free(table->queues);
    *table = wider;
}

static inline void add(struct match_table *table, struct match_link *link)
{
    if (table->link_count >= table->queue_count * LINKS_PER_QUEUE)
        grow(table);
    append(queue_of(table, link->hash), link);
    table->link_count++;
}

static inline void take_out(struct match_table *table, struct match_link *link)
{
    struct match_queue *queue = queue_of(table, link->hash);

    *(link->previous ? &link->previous->next : &queue->first) = link->next;
    *(link->next ? &link->next->previous : &queue->last) = link->previous;
    table->link_count--;
}

int matching_init(struct matching *matching)
{
    *matching = (struct matching){.stamp = 0};
    for (int i = 0; i < 2; i++) {
        struct match_table *table = i ? &matching->messages : &matching->receives;
        table->queue_count = QUEUES_FIRST;
        table->queues = calloc(QUEUES_FIRST, sizeof(*table->queues));
    }
    if (matching->receives.queues && matching->messages.queues)
        return 0;
    matching_deinit(matching);
    return -ENOMEM;
}

void matching_deinit(struct matching *matching)
{
    free(matching->receives.queues);
    free(matching->messages.queues);
    *matching = (struct matching){.stamp = 0};
}

/* The key under which a receive of this kind waits for the message. */
static struct match_key key_of_kind(struct match_key message, uint32_t kind)
{
    if (kind & ANY_TAG)
        message.tag = MATCH_ANY;
    if (kind & ANY_RANK)
        message.rank = MATCH_ANY;
    return message;
}

static uint32_t kind_of(struct match_key key)
{
    return (key.tag == MATCH_ANY ? ANY_TAG : 0) | (key.rank == MATCH_ANY ? ANY_RANK : 0);
}

/* ---- receives */

void match_post(struct matching *matching, struct match_receive *receive, struct match_key key)
{
    const uint32_t kind = kind_of(key);

    receive->link =
        (struct match_link){.key = key, .hash = hash_of(key), .stamp = ++matching->stamp};
    add(&matching->receives, &receive->link);
    matching->posted[kind]++;
    matching->kinds |= 1u << kind;
}

void match_withdraw(struct matching *matching, struct match_receive *receive)
{
    const uint32_t kind = kind_of(receive->link.key);

    take_out(&matching->receives, &receive->link);
    if (--matching->posted[kind] == 0)
        matching->kinds &= ~(1u << kind);
}

struct match_receive *match_take_receive(struct matching *matching, struct match_key message)
{
    struct match_link *first = NULL;

    for (uint32_t kinds = matching->kinds; kinds; kinds &= kinds - 1) {
        const uint32_t kind = (uint32_t)__builtin_ctz(kinds);
        struct match_link *link = find(&matching->receives, key_of_kind(message, kind));
        if (link && (!first || link->stamp < first->stamp))
            first = link;
    }
    if (!first)
        return NULL;
    struct match_receive *receive = (struct match_receive *)first; /* its only member */
    match_withdraw(matching, receive);
    return receive;
}

/* ---- messages */

void match_keep(struct matching *matching, struct match_message *message, struct match_key key)
{
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        struct match_link *link = &message->links[kind];
        link->key = key_of_kind(key, kind);
        link->hash = hash_of(link->key);
        add(&matching->messages, link);
    }
}

void match_drop(struct matching *matching, struct match_message *message)
{
    for (uint32_t kind = 0; kind < KINDS; kind++)
        take_out(&matching->messages, &message->links[kind]);
}

static struct match_message *message_of(struct match_link *link)
{
    return (struct match_message *)(link - kind_of(link->key));
}

struct match_message *match_find_message(const struct matching *matching, struct match_key key)
{
    if (matching->messages.link_count == 0)
        return NULL;
    struct match_link *link = find(&matching->messages, key);
    return link ? message_of(link) : NULL;
}

struct match_message *match_some_message(const struct matching *matching)
{
    const struct match_table *messages = &matching->messages;

    for (uint64_t i = 0; messages->link_count > 0 && i < messages->queue_count; i++)
        if (messages->queues[i].first)
            return message_of(messages->queues[i].first);
    return NULL;
}
