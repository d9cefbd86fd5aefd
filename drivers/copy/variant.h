/* The kernels are compiled once for each instruction set, whose name is COPY_VARIANT. */
#pragma once

#include "drivers/copy/combine.h"
#include "drivers/copy/kernels.h"

#ifndef COPY_VARIANT
#define COPY_VARIANT plain
#endif
#define VARIANT_PASTE(name, variant) name##_##variant
#define VARIANT_NAME(name, variant)  VARIANT_PASTE(name, variant)

#define copy_nest_choose           VARIANT_NAME(copy_nest_choose, COPY_VARIANT)
#define copy_list_choose           VARIANT_NAME(copy_list_choose, COPY_VARIANT)
#define copy_nest_choose_transpose VARIANT_NAME(copy_nest_choose_transpose, COPY_VARIANT)
#define copy_nest_choose_stream    VARIANT_NAME(copy_nest_choose_stream, COPY_VARIANT)
#define copy_list_choose_stream    VARIANT_NAME(copy_list_choose_stream, COPY_VARIANT)
#define copy_combine_choose        VARIANT_NAME(copy_combine_choose, COPY_VARIANT)
#define copy_stream                VARIANT_NAME(copy_stream, COPY_VARIANT)
#define copy_stream_end            VARIANT_NAME(copy_stream_end, COPY_VARIANT)

copy_nest_kernel *copy_nest_choose(const struct copy_nest *nest);
copy_list_kernel *copy_list_choose(const struct copy_list *list);
copy_nest_kernel *copy_nest_choose_transpose(const struct copy_nest *nest);
copy_nest_kernel *copy_nest_choose_stream(const struct copy_nest *nest);
copy_list_kernel *copy_list_choose_stream(const struct copy_list *list);
combine_kernel *copy_combine_choose(enum element_operator number, enum element_type type);
void copy_stream_end(void);
void copy_stream(uint8_t *target, const uint8_t *source, uint64_t bytes);
