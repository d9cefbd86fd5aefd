/* Lists from which an object can be removed without a search: of objects with a pointer `next`, and
 * a pointer `link` to the pointer to the object, which is NULL after a removal. The newest object
 * is the first. */
#pragma once

#define LIST_ADD(head, object, next, link)                                                         \
    do {                                                                                           \
        (object)->next = *(head);                                                                  \
        (object)->link = (head);                                                                   \
        if ((object)->next)                                                                        \
            (object)->next->link = &(object)->next;                                                \
        *(object)->link = (object);                                                                \
    } while (0)

#define LIST_REMOVE(object, next, link)                                                            \
    do {                                                                                           \
        *(object)->link = (object)->next;                                                          \
        if ((object)->next)                                                                        \
            (object)->next->link = (object)->link;                                                 \
        (object)->link = NULL;                                                                     \
    } while (0)
