/*
 * The loops that combine elements, once for each instruction set (variant.h). They are simple, so
 * that the compiler vectorises them: see drivers/copy/meson.build.
 *
 * Types with `aligned(1)`: regions may be used at any offset. Sums and products of signed integers
 * are those of unsigned ones, which wrap around; so are products of short ones, which would else be
 * promoted to a signed int.
 */
#include "drivers/copy/combine.h"

#include <stddef.h>
#include <string.h>

#include "drivers/copy/variant.h"

#define ANYWHERE __attribute__((aligned(1), may_alias))

typedef ANYWHERE int8_t s8;
typedef ANYWHERE int16_t s16;
typedef ANYWHERE int32_t s32;
typedef ANYWHERE int64_t s64;
typedef ANYWHERE __int128 s128;
typedef ANYWHERE uint8_t u8;
typedef ANYWHERE uint16_t u16;
typedef ANYWHERE uint32_t u32;
typedef ANYWHERE uint64_t u64;
typedef ANYWHERE unsigned __int128 u128;
typedef ANYWHERE _Float16 f16;
typedef ANYWHERE float f32;
typedef ANYWHERE double f64;
typedef ANYWHERE long double f80;
typedef struct {
    f32 re, im;
} c64;
typedef struct {
    f64 re, im;
} c128;

#define KERNEL(operation, type, expression)                                                        \
    static void operation##_##type(void *restrict targets, const void *restrict sources,           \
                                   uint64_t bytes)                                                 \
    {                                                                                              \
        type *restrict target = targets;                                                           \
        const type *restrict source = sources;                                                     \
        for (uint64_t i = 0; i < bytes / sizeof(type); i++) {                                      \
            const type a = target[i], b = source[i];                                               \
            target[i] = (type)(expression);                                                        \
        }                                                                                          \
    }

#define ARITHMETIC(type)                                                                           \
    KERNEL(sum, type, a + b)                                                                       \
    KERNEL(product, type, a *b)
#define ORDERED(type)                                                                              \
    KERNEL(min, type, b < a ? b : a)                                                               \
    KERNEL(max, type, b > a ? b : a)
#define LOGICAL(type)                                                                              \
    KERNEL(land, type, (a != 0) & (b != 0))                                                        \
    KERNEL(lor, type, (a != 0) | (b != 0))                                                         \
    KERNEL(lxor, type, (a != 0) ^ (b != 0))
#define COMPLEX(type)                                                                              \
    KERNEL(sum, type, ((type){a.re + b.re, a.im + b.im}))                                          \
    KERNEL(product, type, ((type){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}))

/* Pairs of a value and an index: one of the two pairs, whole. They are copied, as a pair may be
 * anywhere. */
#define PAIRS(operation, type, first)                                                              \
    static void operation##_##type(void *restrict targets, const void *restrict sources,           \
                                   uint64_t bytes)                                                 \
    {                                                                                              \
        struct pair {                                                                              \
            type value;                                                                            \
            _Alignas(sizeof(type) > 4 ? sizeof(type) : 4) int32_t index;                           \
        } a, b;                                                                                    \
        for (uint64_t at = 0; at < bytes; at += sizeof(a)) {                                       \
            memcpy(&a, (const char *)targets + at, sizeof(a));                                     \
            memcpy(&b, (const char *)sources + at, sizeof(b));                                     \
            if ((first) || (b.value == a.value && b.index < a.index))                              \
                memcpy((char *)targets + at, (const char *)sources + at, sizeof(b));               \
        }                                                                                          \
    }
#define LOCATED(type)                                                                              \
    PAIRS(min_loc, type, b.value < a.value)                                                        \
    PAIRS(max_loc, type, b.value > a.value)

KERNEL(sum, u8, (unsigned)a + b)
KERNEL(product, u8, (unsigned)a *b)
KERNEL(sum, u16, (unsigned)a + b)
KERNEL(product, u16, (unsigned)a *b)
ARITHMETIC(u32)
ARITHMETIC(u64)
ARITHMETIC(u128)
ARITHMETIC(f16)
ARITHMETIC(f32)
ARITHMETIC(f64)
ARITHMETIC(f80)
COMPLEX(c64)
COMPLEX(c128)
ORDERED(s8)
ORDERED(s16)
ORDERED(s32)
ORDERED(s64)
ORDERED(s128)
ORDERED(u8)
ORDERED(u16)
ORDERED(u32)
ORDERED(u64)
ORDERED(u128)
ORDERED(f16)
ORDERED(f32)
ORDERED(f64)
ORDERED(f80)
LOCATED(s8)
LOCATED(s16)
LOCATED(s32)
LOCATED(s64)
LOCATED(s128)
LOCATED(u8)
LOCATED(u16)
LOCATED(u32)
LOCATED(u64)
LOCATED(u128)
LOCATED(f16)
LOCATED(f32)
LOCATED(f64)
LOCATED(f80)
LOGICAL(u8)
LOGICAL(u16)
LOGICAL(u32)
LOGICAL(u64)
LOGICAL(u128)
KERNEL(band, u8, a &b)
KERNEL(bor, u8, a | b)
KERNEL(bxor, u8, a ^ b)

#define ALL_INTEGERS(operation, s, u)                                                              \
    [ELEMENT_INT8] = operation##_##s##8, [ELEMENT_INT16] = operation##_##s##16,                    \
    [ELEMENT_INT32] = operation##_##s##32, [ELEMENT_INT64] = operation##_##s##64,                  \
    [ELEMENT_INT128] = operation##_##s##128, [ELEMENT_UINT8] = operation##_##u##8,                 \
    [ELEMENT_UINT16] = operation##_##u##16, [ELEMENT_UINT32] = operation##_##u##32,                \
    [ELEMENT_UINT64] = operation##_##u##64, [ELEMENT_UINT128] = operation##_##u##128
#define ALL_REALS(operation)                                                                       \
    [ELEMENT_FLOAT16] = operation##_f16, [ELEMENT_FLOAT] = operation##_f32,                        \
    [ELEMENT_DOUBLE] = operation##_f64, [ELEMENT_LONG_DOUBLE] = operation##_f80
#define ALL_COMPLEX(operation)                                                                     \
    [ELEMENT_COMPLEX_FLOAT] = operation##_c64, [ELEMENT_COMPLEX_DOUBLE] = operation##_c128

static combine_kernel *const kernels[OPERATORS][ELEMENT_TYPES] = {
    [OPERATOR_SUM] = {ALL_INTEGERS(sum, u, u), ALL_REALS(sum), ALL_COMPLEX(sum)},
    [OPERATOR_PRODUCT] = {ALL_INTEGERS(product, u, u), ALL_REALS(product), ALL_COMPLEX(product)},
    [OPERATOR_MIN] = {ALL_INTEGERS(min, s, u), ALL_REALS(min)},
    [OPERATOR_MAX] = {ALL_INTEGERS(max, s, u), ALL_REALS(max)},
    [OPERATOR_LOGICAL_AND] = {ALL_INTEGERS(land, u, u), [ELEMENT_BOOL] = land_u8},
    [OPERATOR_LOGICAL_OR] = {ALL_INTEGERS(lor, u, u), [ELEMENT_BOOL] = lor_u8},
    [OPERATOR_LOGICAL_XOR] = {ALL_INTEGERS(lxor, u, u), [ELEMENT_BOOL] = lxor_u8},
    [OPERATOR_MIN_LOC] = {ALL_INTEGERS(min_loc, s, u), ALL_REALS(min_loc)},
    [OPERATOR_MAX_LOC] = {ALL_INTEGERS(max_loc, s, u), ALL_REALS(max_loc)},
};

combine_kernel *copy_combine_choose(enum element_operator number, enum element_type type)
{
    switch (number) { /* bits are the same in all types */
    case OPERATOR_BIT_AND:
        return band_u8;
    case OPERATOR_BIT_OR:
        return bor_u8;
    case OPERATOR_BIT_XOR:
        return bxor_u8;
    default:
        return kernels[number][type];
    }
}
