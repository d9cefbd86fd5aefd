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

/* A pair of layouts of the same size, compiled to the fastest kernels that fit both. It is the
 * process's own, and read-only while it runs: any number of threads may run it. Source and target
 * memory may overlap: the bytes are then unspecified, and nothing else happens. */
struct copy_program;
/* 0, -EMSGSIZE (sizes differ), -ENOMEM. In time linear in the lengths of the two layouts' programs.
 */
int copy_program_new(const struct layout *target, const struct layout *source,
                     struct copy_program **ret_program);
/* The same for copy_program_run() and copy_program_run_stream() only, where that is less work. */
int copy_program_new_run(const struct layout *target, const struct layout *source,
                         struct copy_program **ret_program);
/* For these and copy_program_unpack(). */
int copy_program_new_unpack(const struct layout *target, const struct layout *source,
                            struct copy_program **ret_program);
/* From now on it is good for everything; the layouts are those it was made of. 0, -ENOMEM. */
int copy_program_complete(struct copy_program *program, const struct layout *target,
                          const struct layout *source);
struct copy_program *
copy_program_free(struct copy_program *program); /* NULL is fine; returns NULL */
/* Packed bytes position .. position + length of it (the whole: 0, layout->size_bytes), from layout
 * to layout. Any piece is found in no time: O(depth of the loops), O(log) of the blocks in a list.
 * A call costs some 20 to 100 ns; a piece of a transpose should be several rows, for as many as
 * have elements in one line of the other side are copied at once (512 x 512 complex doubles: 209 us
 * whole, 303 in pieces of four rows, 1,640 in single rows). */
void copy_program_run(const struct copy_program *program, void *target_base,
                      const void *source_base, uint64_t position_bytes, uint64_t length_bytes);
/* The same of the program's source side into a buffer; from a buffer to its target side. */
void copy_program_pack(const struct copy_program *program, void *buffer, const void *source_base,
                       uint64_t position_bytes, uint64_t length_bytes);
void copy_program_unpack(const struct copy_program *program, void *target_base, const void *buffer,
                         uint64_t position_bytes, uint64_t length_bytes);

/*
 * As copy_program_run(), with stores past the caches wherever whole cache lines are stored; all
 * stores are ordered before any that follow. For a target that another processor has read or
 * written since this one did: an ordinary store must first get the line from there, which costs 8
 * to 37 ns a line (16 KiB to 1 MiB, EPYC), past the caches it is 2 ns. One way, until the other one
 * has read it all, by memcpy and past the caches, in us: 4 KiB 2.8 and 2.6, 16 KiB 9.6 and 5.4, 64
 * KiB 44 and 8.8, 128 KiB 68 and 12, 1 MiB 637 and 89. For the processor that will read the target
 * itself they are the wrong ones (64 KiB pulled and read: 8.1 and 10): the lines then come from
 * memory. Blocks of less than 512 bytes that are not all whole lines are stored as usual: it does
 * them no good.
 */
void copy_program_run_stream(const struct copy_program *program, void *target_base,
                             const void *source_base, uint64_t position_bytes,
                             uint64_t length_bytes);
