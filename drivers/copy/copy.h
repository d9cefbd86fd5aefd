/* Copies between layouts, and between a layout and packed bytes. The caller has checked that the
 * memory is mapped. */
#pragma once

#include <stdint.h>

#include "proto/layout.h"

/* Copy packed bytes position .. position + length of the layout at base to a contiguous buffer, and
 * back. */
void copy_pack(void *target, const void *base, const struct layout *layout, uint64_t position_bytes,
               uint64_t length_bytes);
void copy_unpack(void *base, const struct layout *layout, uint64_t position_bytes,
                 const void *source, uint64_t length_bytes);

/* Two layouts of the same size, compiled to the fastest kernels that fit both. Private to the
 * process. Any number of threads may run a program concurrently. If source and target memory
 * overlap, the bytes are unspecified, with no other effect. */
struct copy_program;
/* Returns 0, -EMSGSIZE (sizes differ) or -ENOMEM. Takes time linear in the lengths of the two
 * layouts' programs. */
int copy_program_new(const struct layout *target, const struct layout *source,
                     struct copy_program **ret_program);
/* The same, for copy_program_run() and copy_program_run_stream() only, which can be less work. */
int copy_program_new_run(const struct layout *target, const struct layout *source,
                         struct copy_program **ret_program);
/* The same, also for copy_program_unpack(). */
int copy_program_new_unpack(const struct layout *target, const struct layout *source,
                            struct copy_program **ret_program);
/* Completes a program for all uses. The layouts must be those it was made of. 0 or -ENOMEM. */
int copy_program_complete(struct copy_program *program, const struct layout *target,
                          const struct layout *source);
/* The memory that a program uses; 0 for NULL. */
uint64_t copy_program_bytes(const struct copy_program *program);
struct copy_program *
copy_program_free(struct copy_program *program); /* NULL is a no-op; returns NULL */
/* Copies packed bytes position .. position + length (all: 0, layout->size_bytes) from layout to
 * layout. Seeking takes O(depth of the loops) plus O(log of the blocks in a list). A call costs 20
 * to 100 ns. A piece of a transpose should be several rows, because the rows that share a cache
 * line of the other side are copied together (512 x 512 complex doubles: 209 us as a whole, 303 us
 * in pieces of four rows, 1,640 us in single rows). */
void copy_program_run(const struct copy_program *program, void *target_base,
                      const void *source_base, uint64_t position_bytes, uint64_t length_bytes);
/* The same, from the source layout to a packed buffer, and from a packed buffer to the target
 * layout. */
void copy_program_pack(const struct copy_program *program, void *buffer, const void *source_base,
                       uint64_t position_bytes, uint64_t length_bytes);
void copy_program_unpack(const struct copy_program *program, void *target_base, const void *buffer,
                         uint64_t position_bytes, uint64_t length_bytes);

/*
 * As copy_program_run(), with streaming stores, which bypass the caches, wherever whole cache lines
 * are stored. All stores are ordered before later ones. Use it for a target that another core has
 * read or written since this core did: an ordinary store must first fetch the line from that core,
 * which costs 8 to 37 ns per line (16 KiB to 1 MiB, EPYC); a streaming store costs 2 ns. One-way
 * times until the other core has read all data, with memcpy() and with streaming stores: 4 KiB 2.8
 * and 2.6 us, 16 KiB 9.6 and 5.4 us, 64 KiB 44 and 8.8 us, 128 KiB 68 and 12 us, 1 MiB 637 and 89
 * us. Do not use it on the core that will read the target, which must then fetch the lines from
 * memory (64 KiB pulled and read: 8.1 and 10 us). Blocks of less than 512 bytes that are not whole
 * lines are stored as usual, because streaming does not help them.
 */
void copy_program_run_stream(const struct copy_program *program, void *target_base,
                             const void *source_base, uint64_t position_bytes,
                             uint64_t length_bytes);
