/* Every operator for every type, with every set of kernels, compared with single elements in the
 * widest type. */
#include <criterion/criterion.h>
#include <float.h>
#include <string.h>

#include "drivers/copy/combine.h"
#include "drivers/copy/kernels.h"
#include "tests/unit/proto/random.h"

enum { ELEMENTS_MAX = 200, GUARD = 32, MEMORY = ELEMENTS_MAX * OPERATOR_BYTES_MAX + 2 * GUARD };

static struct random dice = {20261123};

/* ---- the reference ---- */

static unsigned __int128 combine_bits(enum element_operator number, unsigned __int128 a,
                                      unsigned __int128 b)
{
    switch (number) {
    case OPERATOR_SUM:
        return a + b;
    case OPERATOR_PRODUCT:
        return a * b;
    case OPERATOR_MIN:
        return a < b ? a : b;
    case OPERATOR_MAX:
        return a > b ? a : b;
    case OPERATOR_LOGICAL_AND:
        return a && b;
    case OPERATOR_LOGICAL_OR:
        return a || b;
    case OPERATOR_LOGICAL_XOR:
        return !a != !b;
    case OPERATOR_BIT_AND:
        return a & b;
    case OPERATOR_BIT_OR:
        return a | b;
    default:
        return a ^ b;
    }
}

/* Two's complement: order is kept when the sign is extended and then turned. */
static unsigned __int128 widen(const uint8_t *bytes, uint32_t size, bool is_signed)
{
    unsigned __int128 value = 0;
    memcpy(&value, bytes, size);
    if (!is_signed)
        return value;
    if (bytes[size - 1] & 0x80 && size < sizeof(value))
        value |= ~(unsigned __int128)0 << 8 * size;
    return value;
}

static void combine_integers(enum element_operator number, enum element_type type, uint8_t *a,
                             const uint8_t *b)
{
    const uint32_t size = element_info(type)->size_bytes;
    const bool ordered = number == OPERATOR_MIN || number == OPERATOR_MAX;
    const bool is_signed = type >= ELEMENT_INT8 && type <= ELEMENT_INT128;
    const unsigned __int128 turn =
        ordered && is_signed ? (unsigned __int128)1 << 127 : (unsigned __int128)0;
    const unsigned __int128 result =
        combine_bits(number, widen(a, size, is_signed) ^ turn, widen(b, size, is_signed) ^ turn) ^
        turn;
    memcpy(a, &result, size);
}

/* Of x87, the rest is padding. */
enum { LONG_DOUBLE_BYTES = LDBL_MANT_DIG == 64 ? 10 : sizeof(long double) };
#define REAL(type)                                                                                 \
    {                                                                                              \
        type x, y;                                                                                 \
        memcpy(&x, a, sizeof(x));                                                                  \
        memcpy(&y, b, sizeof(y));                                                                  \
        const type least = y < x ? y : x, most = y > x ? y : x;                                    \
        type result = number == OPERATOR_MIN ? least : most;                                       \
        if (number == OPERATOR_SUM)                                                                \
            result = x + y;                                                                        \
        if (number == OPERATOR_PRODUCT)                                                            \
            result = x * y;                                                                        \
        memcpy(a, &result, sizeof(type) == 16 ? LONG_DOUBLE_BYTES : sizeof(type));                 \
        break;                                                                                     \
    }
#define COMPLEX(type)                                                                              \
    {                                                                                              \
        type x[2], y[2];                                                                           \
        memcpy(x, a, sizeof(x));                                                                   \
        memcpy(y, b, sizeof(y));                                                                   \
        type sum[2] = {x[0] + y[0], x[1] + y[1]};                                                  \
        type product[2] = {x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]};                  \
        memcpy(a, number == OPERATOR_SUM ? sum : product, sizeof(x));                              \
        break;                                                                                     \
    }

static void combine_one(enum element_operator number, enum element_type type, uint8_t *a,
                        const uint8_t *b)
{
    switch (type) {
    case ELEMENT_FLOAT16:
        REAL(_Float16)
    case ELEMENT_FLOAT:
        REAL(float)
    case ELEMENT_DOUBLE:
        REAL(double)
    case ELEMENT_LONG_DOUBLE:
        REAL(long double)
    case ELEMENT_COMPLEX_FLOAT:
        COMPLEX(float)
    case ELEMENT_COMPLEX_DOUBLE:
        COMPLEX(double)
    default:
        combine_integers(number, type, a, b);
    }
}

/* ---- pairs: of equal values, that with the least index ---- */

static bool is_pair(enum element_operator number)
{
    return number == OPERATOR_MIN_LOC || number == OPERATOR_MAX_LOC;
}

/* Whether the value of `b` comes before that of `a`. */
static bool precedes(enum element_operator number, enum element_type type, const uint8_t *b,
                     const uint8_t *a)
{
    uint8_t best[16];
    memcpy(best, a, element_info(type)->size_bytes);
    combine_one(number == OPERATOR_MIN_LOC ? OPERATOR_MIN : OPERATOR_MAX, type, best, b);
    return memcmp(best, a, element_info(type)->size_bytes) != 0;
}

static void combine_pair(enum element_operator number, enum element_type type, uint8_t *a,
                         const uint8_t *b)
{
    const uint32_t half = operator_bytes(number, type) / 2;
    int32_t a_index, b_index;
    memcpy(&a_index, a + half, sizeof(a_index));
    memcpy(&b_index, b + half, sizeof(b_index));
    if (precedes(number, type, b, a) || (!precedes(number, type, a, b) && b_index < a_index))
        memcpy(a, b, 2 * half);
}

/* ---- elements: numbers, of which some are equal, 0, the least or the greatest ---- */

static void random_real(enum element_type type, uint8_t *element)
{
    const double value = ((double)random_below(&dice, 4001) - 2000) / 16;
    const _Float16 half = (_Float16)value;
    const float single = (float)(value / 3);
    const double twofold = value / 3;
    const long double extended = (long double)value / 3;
    if (type == ELEMENT_FLOAT16)
        memcpy(element, &half, sizeof(half));
    else if (type == ELEMENT_FLOAT)
        memcpy(element, &single, sizeof(single));
    else if (type == ELEMENT_LONG_DOUBLE)
        memcpy(element, &extended, sizeof(extended));
    else
        memcpy(element, &twofold, sizeof(twofold));
}

static void random_element(enum element_type type, uint8_t *element)
{
    const uint32_t size = element_info(type)->size_bytes;
    switch (type) {
    case ELEMENT_FLOAT16:
    case ELEMENT_FLOAT:
    case ELEMENT_DOUBLE:
    case ELEMENT_LONG_DOUBLE:
        random_real(type, element);
        return;
    case ELEMENT_COMPLEX_FLOAT:
        random_real(ELEMENT_FLOAT, element);
        random_real(ELEMENT_FLOAT, element + 4);
        return;
    case ELEMENT_COMPLEX_DOUBLE:
        random_real(ELEMENT_DOUBLE, element);
        random_real(ELEMENT_DOUBLE, element + 8);
        return;
    default:
        break;
    }
    const uint64_t kind = random_below(&dice, 5);
    for (uint32_t i = 0; i < size; i++)
        element[i] = kind == 0 ? 0 : kind == 1 ? 0xff : (uint8_t)random_next(&dice);
    if (kind == 2) /* the least or the greatest of a signed type */
        memset(element, element[size - 1] & 1 ? 0xff : 0, size - 1);
    if (kind == 2)
        element[size - 1] = element[size - 1] & 1 ? 0x7f : 0x80;
    if (type == ELEMENT_BOOL)
        element[0] &= 1;
}

/* ---- the tests ---- */

static void check(enum element_operator number, enum element_type type)
{
    static uint8_t target[MEMORY], source[MEMORY], expected[MEMORY];
    const uint32_t size = operator_bytes(number, type);
    const uint64_t count = random_below(&dice, ELEMENTS_MAX + 1);
    uint8_t *to = target + random_below(&dice, GUARD), *from = source + random_below(&dice, GUARD);
    combine_kernel *kernel = combine_choose(number, type);

    memset(target, 0x5a, sizeof(target));
    for (uint64_t i = 0; i < count; i++) {
        random_element(type, to + i * size);
        random_element(type, from + i * size);
        if (is_pair(number)) {
            random_element(ELEMENT_INT32, to + i * size + size / 2);
            random_element(ELEMENT_INT32, from + i * size + size / 2);
        }
    }
    memcpy(expected, target, sizeof(target));
    for (uint64_t i = 0; i < count; i++)
        (is_pair(number) ? combine_pair : combine_one)(
            number, type, expected + (to - target) + i * size, from + i * size);
    const uint64_t first = count ? random_below(&dice, count) * size : 0;
    kernel(to, from, first);
    kernel(to + first, from + first, count * size - first);
    cr_assert(memcmp(target, expected, sizeof(target)) == 0, "%s of %s, %u elements, set %s",
              operator_name(number), element_info(type)->name, (unsigned)count,
              copy_kernels()->name);
}

Test(combine, gives_what_one_element_after_another_gives)
{
    unsigned sets = 0, kinds = 0;

    for (unsigned set = 0; copy_kernels_name(set); set++) {
        if (!copy_kernels_use(copy_kernels_name(set)))
            continue;
        sets++;
        for (unsigned number = 0; number < OPERATORS; number++)
            for (unsigned type = 0; type < ELEMENT_TYPES; type++) {
                if (!operator_takes(number, type))
                    continue;
                kinds++;
                for (int round = 0; round < 100; round++)
                    check(number, type);
            }
    }
    cr_assert(sets >= 1 && kinds == sets * (2 * 16 + 4 * 14 + 3 * 11 + 3 * 11), "%u kinds", kinds);
}

Test(combine, knows_its_operators_and_types)
{
    static const uint32_t strange[] = {OPERATORS, ELEMENT_TYPES, 1000, UINT32_MAX};
    for (unsigned i = 0; i < sizeof(strange) / sizeof(*strange); i++) {
        cr_assert(!operator_takes(strange[i], ELEMENT_INT8));
        cr_assert(strange[i] < ELEMENT_TYPES || !operator_takes(OPERATOR_SUM, strange[i]));
        cr_assert(strange[i] < OPERATORS || !operator_name(strange[i]));
        cr_assert(strange[i] < ELEMENT_TYPES || !element_info(strange[i]));
    }
    cr_assert(!operator_takes(OPERATOR_REPLACE, ELEMENT_INT8));
    cr_assert(!operator_takes(OPERATOR_MIN, ELEMENT_COMPLEX_FLOAT));
    cr_assert(!operator_takes(OPERATOR_BIT_OR, ELEMENT_FLOAT));
    cr_assert(!operator_takes(OPERATOR_SUM, ELEMENT_CHAR));
    cr_assert(!operator_takes(OPERATOR_MAX_LOC, ELEMENT_COMPLEX_DOUBLE));
}

#define PAIR_BYTES(type)                                                                           \
    sizeof(struct {                                                                                \
        type value;                                                                                \
        int32_t index;                                                                             \
    })

Test(combine, pairs_are_those_of_c)
{
    cr_assert_eq(operator_bytes(OPERATOR_MIN_LOC, ELEMENT_INT8), PAIR_BYTES(int8_t));
    cr_assert_eq(operator_bytes(OPERATOR_MIN_LOC, ELEMENT_INT16), PAIR_BYTES(int16_t));
    cr_assert_eq(operator_bytes(OPERATOR_MIN_LOC, ELEMENT_FLOAT), PAIR_BYTES(float));
    cr_assert_eq(operator_bytes(OPERATOR_MAX_LOC, ELEMENT_DOUBLE), PAIR_BYTES(double));
    cr_assert_eq(operator_bytes(OPERATOR_MAX_LOC, ELEMENT_UINT128), PAIR_BYTES(unsigned __int128));
    cr_assert_eq(operator_bytes(OPERATOR_MAX_LOC, ELEMENT_LONG_DOUBLE), PAIR_BYTES(long double));
    for (unsigned number = 0; number < OPERATORS; number++)
        for (unsigned type = 0; type < ELEMENT_TYPES; type++)
            cr_assert(!operator_takes(number, type) ||
                      OPERATOR_BYTES_MAX % operator_bytes(number, type) == 0);
}
