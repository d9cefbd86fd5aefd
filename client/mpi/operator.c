#include "client/mpi/operator.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "client/mpi/next.h"

static enum tca_combine combine_of(MPI_Op op)
{
    const struct {
        MPI_Op op;
        enum tca_combine combine;
    } known[] = {
        {MPI_SUM, TCA_COMBINE_SUM},          {MPI_PROD, TCA_COMBINE_PRODUCT},
        {MPI_MIN, TCA_COMBINE_MIN},          {MPI_MAX, TCA_COMBINE_MAX},
        {MPI_LAND, TCA_COMBINE_LOGICAL_AND}, {MPI_LOR, TCA_COMBINE_LOGICAL_OR},
        {MPI_LXOR, TCA_COMBINE_LOGICAL_XOR}, {MPI_BAND, TCA_COMBINE_BIT_AND},
        {MPI_BOR, TCA_COMBINE_BIT_OR},       {MPI_BXOR, TCA_COMBINE_BIT_XOR},
        {MPI_MINLOC, TCA_COMBINE_MIN_LOC},   {MPI_MAXLOC, TCA_COMBINE_MAX_LOC},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].op == op)
            return known[i].combine;
    return TCA_COMBINE_REPLACE;
}

struct element {
    MPI_Datatype type;
    enum tca_type number;
};

static bool find(const struct element *known, size_t count, MPI_Datatype type,
                 enum tca_type *ret_number)
{
    for (size_t i = 0; i < count; i++)
        if (known[i].type == type) {
            *ret_number = known[i].number;
            return true;
        }
    return false;
}

/* Integers and real numbers of C and Fortran that all compilers have alike. */
static bool number_of(MPI_Datatype type, enum tca_type *ret_number)
{
    const enum tca_type integer = TCA_TYPE_INT32, natural = TCA_TYPE_UINT32;
    const enum tca_type plain_char = CHAR_MIN < 0 ? TCA_TYPE_INT8 : TCA_TYPE_UINT8;
    const struct element known[] = {
        {MPI_DOUBLE, TCA_TYPE_DOUBLE},    {MPI_INT, integer},
        {MPI_FLOAT, TCA_TYPE_FLOAT},      {MPI_LONG, TCA_TYPE_INT64},
        {MPI_UNSIGNED, natural},          {MPI_UNSIGNED_LONG, TCA_TYPE_UINT64},
        {MPI_LONG_LONG, TCA_TYPE_INT64},  {MPI_UNSIGNED_LONG_LONG, TCA_TYPE_UINT64},
        {MPI_SHORT, TCA_TYPE_INT16},      {MPI_UNSIGNED_SHORT, TCA_TYPE_UINT16},
        {MPI_SIGNED_CHAR, TCA_TYPE_INT8}, {MPI_UNSIGNED_CHAR, TCA_TYPE_UINT8},
        {MPI_CHAR, plain_char},           {MPI_INT8_T, TCA_TYPE_INT8},
        {MPI_INT16_T, TCA_TYPE_INT16},    {MPI_INT32_T, TCA_TYPE_INT32},
        {MPI_INT64_T, TCA_TYPE_INT64},    {MPI_UINT8_T, TCA_TYPE_UINT8},
        {MPI_UINT16_T, TCA_TYPE_UINT16},  {MPI_UINT32_T, TCA_TYPE_UINT32},
        {MPI_UINT64_T, TCA_TYPE_UINT64},  {MPI_AINT, TCA_TYPE_INT64},
        {MPI_OFFSET, TCA_TYPE_INT64},     {MPI_COUNT, TCA_TYPE_INT64},
        {MPI_BYTE, TCA_TYPE_UINT8},       {MPI_INTEGER, TCA_TYPE_INT32},
        {MPI_REAL, TCA_TYPE_FLOAT},       {MPI_DOUBLE_PRECISION, TCA_TYPE_DOUBLE},
        {MPI_INTEGER4, TCA_TYPE_INT32},   {MPI_INTEGER8, TCA_TYPE_INT64},
        {MPI_REAL4, TCA_TYPE_FLOAT},      {MPI_REAL8, TCA_TYPE_DOUBLE},
    };

    return type != MPI_DATATYPE_NULL &&
           find(known, sizeof(known) / sizeof(known[0]), type, ret_number);
}

/* Pairs without a gap between the two. */
static bool pair_of(MPI_Datatype type, enum tca_type *ret_number)
{
    const struct element known[] = {
        {MPI_DOUBLE_INT, TCA_TYPE_DOUBLE},
        {MPI_FLOAT_INT, TCA_TYPE_FLOAT},
        {MPI_2INT, TCA_TYPE_INT32},
        {MPI_LONG_INT, TCA_TYPE_INT64},
    };

    return find(known, sizeof(known) / sizeof(known[0]), type, ret_number);
}

bool operator_of(MPI_Op op, MPI_Datatype type, struct tca_coll_operator *ret_operator)
{
    const enum tca_combine combine = combine_of(op);
    const bool is_pair = combine == TCA_COMBINE_MIN_LOC || combine == TCA_COMBINE_MAX_LOC;
    const bool is_bits = combine == TCA_COMBINE_BIT_AND || combine == TCA_COMBINE_BIT_OR ||
                         combine == TCA_COMBINE_BIT_XOR;
    enum tca_type number;

    if (combine == TCA_COMBINE_REPLACE || (type == MPI_BYTE && !is_bits))
        return false;
    if (!(is_pair ? pair_of(type, &number) : number_of(type, &number)) ||
        tca_combine_bytes(combine, number) < 0)
        return false;
    *ret_operator = (struct tca_coll_operator){.combine = combine, .type = number};
    return true;
}
