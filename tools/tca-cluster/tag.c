#include "tools/tca-cluster/tag.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/must.h"

enum { LINE_MAX_BYTES = 64 * 1024 }; /* longer lines are split */

void tag_init(struct tag *tag, int fd, FILE *to, size_t rank)
{
    *tag = (struct tag){.fd = fd, .to = to, .rank = rank, .text = must(malloc(LINE_MAX_BYTES))};
    fcntl(fd, F_SETFL, O_NONBLOCK);
}

static void pass(struct tag *tag, size_t bytes)
{
    fprintf(tag->to, "[%zu] ", tag->rank);
    fwrite(tag->text, 1, bytes, tag->to);
    if (bytes == 0 || tag->text[bytes - 1] != '\n')
        fputc('\n', tag->to);
    memmove(tag->text, tag->text + bytes, tag->bytes - bytes);
    tag->bytes -= bytes;
}

void tag_pump(struct tag *tag)
{
    while (tag->fd >= 0) {
        ssize_t n = read(tag->fd, tag->text + tag->bytes, LINE_MAX_BYTES - tag->bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n <= 0) {
            close(tag->fd);
            tag->fd = -1;
            break;
        }
        tag->bytes += (size_t)n;
        for (char *end; (end = memchr(tag->text, '\n', tag->bytes));)
            pass(tag, (size_t)(end - tag->text) + 1);
        if (tag->bytes == LINE_MAX_BYTES)
            pass(tag, tag->bytes);
    }
    fflush(tag->to);
}

void tag_finish(struct tag *tag)
{
    tag_pump(tag);
    if (tag->bytes > 0)
        pass(tag, tag->bytes);
    fflush(tag->to);
    if (tag->fd >= 0)
        close(tag->fd);
    tag->fd = -1;
    free(tag->text);
    tag->text = NULL;
}
