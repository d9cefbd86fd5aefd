/* Copy kernels: from one layout to another, from and to packed bytes. All memory has been checked
 * to be there. */
#pragma once

#include <stdint.h>

#include "proto/layout.h"

/* Packed bytes position .. position + length of the layout at base, to a contiguous buffer, and
 * back. */
void copy_pack(void *target, const void *base, const struct layout *layout, uint64_t position_bytes,
               uint64_t length_bytes);
void copy_unpack(void *base, const struct layout *layout, uint64_t position_bytes,
                 const void *source, uint64_t length_bytes);

/* A pair of layouts of the same size, compiled to the fastest kernel that fits it. */
struct copy_program;
int copy_program_new(const struct layout *target, const struct layout *source,
                     struct copy_program **ret_program);
struct copy_program *
copy_program_free(struct copy_program *program); /* NULL is fine; returns NULL */
/* Runs packed bytes position .. position + length of it (the whole: 0, layout->size_bytes). */
void copy_program_run(const struct copy_program *program, void *target_base,
                      const void *source_base, uint64_t position_bytes, uint64_t length_bytes);
/* Packed bytes position .. position + length of the program's source side into a buffer; from a
 * buffer to its target side. */
void copy_program_pack(const struct copy_program *program, void *buffer, const void *source_base,
                       uint64_t position_bytes, uint64_t length_bytes);
void copy_program_unpack(const struct copy_program *program, void *target_base, const void *buffer,
                         uint64_t position_bytes, uint64_t length_bytes);
