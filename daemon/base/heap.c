#include "daemon/base/heap.h"

#include <stddef.h>

#include "proto/list.h"

/* Of two that are in no list, either NULL. */
static struct heap_node *merge(struct heap_node *a, struct heap_node *b)
{
    if (!a || !b)
        return a ? a : b;
    if (b->key < a->key) {
        struct heap_node *swap = a;
        a = b;
        b = swap;
    }
    LIST_ADD(&a->child, b, next, link);
    return a;
}

/* Of the children of one that leaves: in pairs from the left, then these from the right. */
static struct heap_node *merge_list(struct heap_node *list)
{
    struct heap_node *pairs = NULL, *all = NULL;
    while (list) {
        struct heap_node *a = list, *b = a->next;
        list = b ? b->next : NULL;
        a->next = NULL;
        if (b)
            b->next = NULL;
        a = merge(a, b);
        a->next = pairs;
        pairs = a;
    }
    while (pairs) {
        struct heap_node *next = pairs->next;
        pairs->next = NULL;
        all = merge(all, pairs);
        pairs = next;
    }
    return all;
}

static void set_first(struct heap *heap, struct heap_node *first)
{
    heap->first = first;
    heap_moved(heap);
}

void heap_moved(struct heap *heap)
{
    if (heap->first)
        heap->first->link = &heap->first;
}

void heap_add(struct heap *heap, struct heap_node *node, uint64_t key)
{
    *node = (struct heap_node){.key = key};
    set_first(heap, merge(heap->first, node));
}

void heap_remove(struct heap *heap, struct heap_node *node)
{
    LIST_REMOVE(node, next, link);
    set_first(heap, merge(heap->first, merge_list(node->child)));
    *node = (struct heap_node){.key = node->key};
}
