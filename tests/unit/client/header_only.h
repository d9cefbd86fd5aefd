/* A layout of which only the header can be read: who reads on, as to hash it, dies. */
#pragma once

#include <criterion/criterion.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/layout/layout.h"

static inline struct tca_layout *header_only(uint64_t bytes)
{
    static struct tca_layout layouts[4];
    static unsigned count;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(pages, MAP_FAILED);
    cr_assert_eq(mprotect(pages + page, page, PROT_NONE), 0);
    struct tca_layout *layout = &layouts[count++];
    layout->program = (struct layout *)(pages + page - sizeof(struct layout));
    *layout->program = (struct layout){.op_count = 100, .size_bytes = bytes, .block_count = 1};
    return layout;
}
