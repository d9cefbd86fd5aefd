/* Types of elements, as programs name them (enum tca_type), and the operators that combine
 * elements. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum element_type {
    ELEMENT_BYTE,
    ELEMENT_CHAR,
    ELEMENT_BOOL,
    ELEMENT_INT8,
    ELEMENT_INT16,
    ELEMENT_INT32,
    ELEMENT_INT64,
    ELEMENT_INT128,
    ELEMENT_UINT8,
    ELEMENT_UINT16,
    ELEMENT_UINT32,
    ELEMENT_UINT64,
    ELEMENT_UINT128,
    ELEMENT_FLOAT16,
    ELEMENT_FLOAT,
    ELEMENT_DOUBLE,
    ELEMENT_LONG_DOUBLE,
    ELEMENT_COMPLEX_FLOAT,
    ELEMENT_COMPLEX_DOUBLE,
    ELEMENT_TYPES,
};

struct element_info {
    const char *name;
    uint32_t size_bytes;
    uint32_t alignment;
};
/* NULL: no such type. */
const struct element_info *element_info(uint32_t type);

/* What a put does with the element that it finds at its target. */
enum element_operator {
    OPERATOR_REPLACE,
    OPERATOR_SUM,
    OPERATOR_PRODUCT,
    OPERATOR_MIN,
    OPERATOR_MAX,
    OPERATOR_LOGICAL_AND,
    OPERATOR_LOGICAL_OR,
    OPERATOR_LOGICAL_XOR,
    OPERATOR_BIT_AND,
    OPERATOR_BIT_OR,
    OPERATOR_BIT_XOR,
    OPERATOR_MIN_LOC, /* of pairs: struct { type value; int32_t index; } */
    OPERATOR_MAX_LOC,
    OPERATORS,
};
/* "sum"; NULL: no such operator. */
const char *operator_name(uint32_t number);
/* Whether it combines elements of this type. Both numbers may be anything. */
bool operator_takes(uint32_t number, uint32_t type);

enum { OPERATOR_BYTES_MAX = 32 }; /* all lengths are powers of two */
/* Length of what it combines: an element, or a pair. It must take the type. */
uint32_t operator_bytes(uint32_t number, uint32_t type);
