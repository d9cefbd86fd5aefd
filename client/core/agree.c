#include "client/core/agree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/error.h"
#include "client/core/subgroup.h"

static const struct agree_head *head_of(const void *heads, size_t head_bytes, uint32_t rank)
{
    return (const struct agree_head *)((const char *)heads + rank * head_bytes);
}

/* Sets the error of this rank, with the text that it has given: as another process wrote it. */
static int set_error(const char *what, uint32_t rank, int error, const char *text)
{
    char clean[AGREE_TEXT_BYTES] = "";
    for (size_t i = 0; i + 1 < sizeof(clean) && text[i]; i++)
        clean[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i];
    return error_set(error, "%s: rank %u: %s", what, rank, clean[0] ? clean : tca_strerror(error));
}

/* Ranks have failed, the first of them is this one. */
static int gather_texts(struct tca *session, struct tca_group *group, const char *what,
                        uint32_t first, int error, const char *own)
{
    char text[AGREE_TEXT_BYTES] = "";
    char(*texts)[AGREE_TEXT_BYTES] = calloc(group_size(session, group), sizeof(*texts));
    memcpy(text, own, strnlen(own, sizeof(text) - 1)); /* as much as fits; it ends with a NUL */
    const int r =
        texts ? group_gather(session, group, text, sizeof(text), texts, TCA_DEFAULT) : -ENOMEM;
    set_error(what, first, error, r < 0 ? "" : texts[first]);
    free(texts);
    return error;
}

/* That all ranks are in the same round, and what was told in it is what this rank has told. */
static int check(const struct tca *session, const struct tca_group *group, const char *what,
                 const struct agree_head *head, size_t head_bytes, const void *heads)
{
    for (uint32_t rank = 1; rank < group_size(session, group); rank++)
        if (head_of(heads, head_bytes, rank)->round != head_of(heads, head_bytes, 0)->round)
            return error_set(-EPROTO,
                             "the ranks 0 and %u prepare different operations: all ranks make "
                             "these calls in the same order",
                             rank);
    if (memcmp(head_of(heads, head_bytes, group_rank(session, group)), head, head_bytes) == 0)
        return 0;
    return error_set(-EPROTO, "the other ranks complete a %s whose preparation has failed here",
                     what);
}

int agree(struct tca *session, struct tca_group *group, const char *what, int error,
          struct agree_head *head, size_t head_bytes, void *ret_heads, bool *ret_known)
{
    const uint32_t size = group_size(session, group);
    uint32_t first = 0;
    char text[1024] = "";

    if (error < 0)
        snprintf(text, sizeof(text), "%s", tca_error_text());
    head->error = error;
    *ret_known = false;
    int r = group_gather(session, group, head, head_bytes, ret_heads, TCA_DEFAULT);
    if (r >= 0) {
        while (first < size && head_of(ret_heads, head_bytes, first)->error >= 0)
            first++;
        *ret_known = first < size;
        if (*ret_known)
            r = gather_texts(session, group, what, first,
                             head_of(ret_heads, head_bytes, first)->error, text);
        else
            r = check(session, group, what, head, head_bytes, ret_heads);
    }
    return error < 0 ? error_set(error, "%s", text) : r;
}
