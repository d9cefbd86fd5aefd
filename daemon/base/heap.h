/* Pairing heaps whose nodes are members of their objects, so that nothing can fail. Adding takes
 * constant time; removing takes logarithmic time on average. */
#pragma once

#include <stdint.h>

/* Zeroed: in no heap. */
struct heap_node {
    struct heap_node *child, *next, **link; /* link NULL: in no heap */
    uint64_t key;
};

/* Zeroed: empty. */
struct heap {
    struct heap_node *first; /* no key is less than this one's */
};

/* The node is in no heap. */
void heap_add(struct heap *heap, struct heap_node *node, uint64_t key);
void heap_remove(struct heap *heap, struct heap_node *node);
/* After the heap has been copied to this address. */
void heap_moved(struct heap *heap);
