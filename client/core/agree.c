#include "client/core/agree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/error.h"
#include "client/core/subgroup.h"

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
                 const struct agree_head *head, size_t head_bytes, const struct gathered *heads)
{
    const uint32_t size = heads->other ? group_size(session, group) : 1;

    for (uint32_t rank = 1; rank < size; rank++)
        if (agree_head_of(heads, rank)->round != agree_head_of(heads, 0)->round)
            return error_set(-EPROTO,
                             "the ranks 0 and %u prepare different operations: all ranks make "
                             "these calls in the same order",
                             rank);
    if (memcmp(agree_head_of(heads, group_rank(session, group)), head, head_bytes) == 0)
        return 0;
    return error_set(-EPROTO, "the other ranks complete a %s whose preparation has failed here",
                     what);
}

/* The first rank that has failed, or the number of ranks. */
static uint32_t find_failed(uint32_t size, const struct gathered *heads)
{
    uint32_t rank = 0;

    if (agree_head_of(heads, 0)->error >= 0 && !heads->other)
        return size; /* all have told the same */
    while (rank < size && agree_head_of(heads, rank)->error >= 0)
        rank++;
    return rank;
}

int agree(struct tca *session, struct tca_group *group, const char *what, int error,
          struct agree_head *head, size_t head_bytes, size_t same_bytes, struct gathered *ret_heads,
          bool *ret_known)
{
    const uint32_t size = group_size(session, group);
    char text[1024] = "";

    if (error < 0)
        snprintf(text, sizeof(text), "%s", tca_error_text());
    head->error = error;
    *ret_known = false;
    int r = group_share(session, group, head, head_bytes, same_bytes, ret_heads);
    if (r >= 0) {
        const uint32_t first = find_failed(size, ret_heads);
        *ret_known = first < size;
        if (*ret_known)
            r = gather_texts(session, group, what, first, agree_head_of(ret_heads, first)->error,
                             text);
        else
            r = check(session, group, what, head, head_bytes, ret_heads);
    }
    return error < 0 ? error_set(error, "%s", text) : r;
}
