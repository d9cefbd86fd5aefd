#include "proto/element.h"

#include <stddef.h>

static const struct element_info types[ELEMENT_TYPES] = {
    [ELEMENT_BYTE] = {"byte", 1, 1},
    [ELEMENT_CHAR] = {"char", 1, 1},
    [ELEMENT_BOOL] = {"bool", 1, 1},
    [ELEMENT_INT8] = {"int8", 1, 1},
    [ELEMENT_INT16] = {"int16", 2, 2},
    [ELEMENT_INT32] = {"int32", 4, 4},
    [ELEMENT_INT64] = {"int64", 8, 8},
    [ELEMENT_INT128] = {"int128", 16, 16},
    [ELEMENT_UINT8] = {"uint8", 1, 1},
    [ELEMENT_UINT16] = {"uint16", 2, 2},
    [ELEMENT_UINT32] = {"uint32", 4, 4},
    [ELEMENT_UINT64] = {"uint64", 8, 8},
    [ELEMENT_UINT128] = {"uint128", 16, 16},
    [ELEMENT_FLOAT16] = {"float16", 2, 2},
    [ELEMENT_FLOAT] = {"float", 4, 4},
    [ELEMENT_DOUBLE] = {"double", 8, 8},
    [ELEMENT_LONG_DOUBLE] = {"long double", 16, 16},
    [ELEMENT_COMPLEX_FLOAT] = {"complex float", 8, 4},
    [ELEMENT_COMPLEX_DOUBLE] = {"complex double", 16, 8},
};

const struct element_info *element_info(uint32_t type)
{
    return type < ELEMENT_TYPES ? &types[type] : NULL;
}

/* Groups of types. */
#define TYPES(first, last)                                                                         \
    ((1u << (ELEMENT_##last + 1)) - 1 - ((1u << ELEMENT_##first) - 1)) /* from first to last */
#define INTEGERS TYPES(INT8, UINT128)
#define REALS    TYPES(FLOAT16, LONG_DOUBLE)
#define COMPLEX  TYPES(COMPLEX_FLOAT, COMPLEX_DOUBLE)
#define BOOLEANS TYPES(BOOL, BOOL)
#define BYTES    TYPES(BYTE, BYTE)

static const struct {
    const char *name;
    uint32_t types; /* a bit for each that it combines */
} operators[OPERATORS] = {
    [OPERATOR_REPLACE] = {"replace", 0},
    [OPERATOR_SUM] = {"sum", INTEGERS | REALS | COMPLEX},
    [OPERATOR_PRODUCT] = {"product", INTEGERS | REALS | COMPLEX},
    [OPERATOR_MIN] = {"min", INTEGERS | REALS},
    [OPERATOR_MAX] = {"max", INTEGERS | REALS},
    [OPERATOR_LOGICAL_AND] = {"logical and", INTEGERS | BOOLEANS},
    [OPERATOR_LOGICAL_OR] = {"logical or", INTEGERS | BOOLEANS},
    [OPERATOR_LOGICAL_XOR] = {"logical xor", INTEGERS | BOOLEANS},
    [OPERATOR_BIT_AND] = {"bitwise and", INTEGERS | BYTES},
    [OPERATOR_BIT_OR] = {"bitwise or", INTEGERS | BYTES},
    [OPERATOR_BIT_XOR] = {"bitwise xor", INTEGERS | BYTES},
    [OPERATOR_MIN_LOC] = {"min with index", INTEGERS | REALS},
    [OPERATOR_MAX_LOC] = {"max with index", INTEGERS | REALS},
};

const char *operator_name(uint32_t number)
{
    return number < OPERATORS ? operators[number].name : NULL;
}

bool operator_takes(uint32_t number, uint32_t type)
{
    return number < OPERATORS && type < ELEMENT_TYPES && operators[number].types >> type & 1;
}

/* Both members of a pair take the space of the longer one. */
uint32_t operator_bytes(uint32_t number, uint32_t type)
{
    const uint32_t value = types[type].size_bytes, index = sizeof(int32_t);

    if (number != OPERATOR_MIN_LOC && number != OPERATOR_MAX_LOC)
        return value;
    return 2 * (value > index ? value : index);
}
