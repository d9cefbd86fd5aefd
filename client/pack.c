/* Between a layout and a buffer. */
#include <errno.h>

#include "client/error.h"
#include "client/layout.h"
#include "drivers/copy/copy.h"

static int check_room(const struct layout *layout, uint64_t buffer_bytes, uint64_t position,
                      const char *what)
{
    if (position <= buffer_bytes && layout->size_bytes <= buffer_bytes - position)
        return 0;
    return error_set(-ENOSPC,
                     "%s: %llu bytes from position %llu on are more than the buffer's %llu bytes",
                     what, (unsigned long long)layout->size_bytes, (unsigned long long)position,
                     (unsigned long long)buffer_bytes);
}

int tca_pack(const struct tca_layout *layout, const void *base, void *buffer, uint64_t buffer_bytes,
             uint64_t *position)
{
    const struct layout *program = layout->program;
    int r = check_room(program, buffer_bytes, *position, "pack");
    if (r < 0)
        return r;
    copy_pack((uint8_t *)buffer + *position, base, program, 0, program->size_bytes);
    *position += program->size_bytes;
    return 0;
}

int tca_unpack(const struct tca_layout *layout, void *base, const void *buffer,
               uint64_t buffer_bytes, uint64_t *position)
{
    const struct layout *program = layout->program;
    int r = check_room(program, buffer_bytes, *position, "unpack");
    if (r < 0)
        return r;
    copy_unpack(base, program, 0, (const uint8_t *)buffer + *position, program->size_bytes);
    *position += program->size_bytes;
    return 0;
}
