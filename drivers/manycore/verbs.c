#include "drivers/manycore/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int verbs_open(const char *name, struct verbs_device **ret_device, char *text, size_t text_bytes)
{
    const bool choose = strcmp(name, "auto") == 0;
    int r;
    if (strcmp(name, "loop") != 0) {
        r = verbs_open_hca(choose ? NULL : name, ret_device, text, text_bytes);
        if (r != -ENODEV || !choose)
            return r;
    }
    r = verbs_open_loop(ret_device);
    if (r < 0)
        snprintf(text, text_bytes, "device loop: %s", strerrordesc_np(-r));
    return r;
}
