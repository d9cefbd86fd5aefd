/* The older names: descriptors in numbered tables instead of chains. */
#include <stdlib.h>

#include "client/compat/channel.h"
#include "client/compat/desc.h"
#include "client/compat/turn.h"

enum {
    INTERNAL_COUNT = 1024,
    TABLES_MAX = 1024,
    TABLE_COUNT_MAX = 32768,
};

struct table {
    int count;
    struct transfer *descriptors;
    bool *set;
    tcaDesc *chain; /* made from it, starting at `first`; NULL: the table has changed since */
    int first;
};

static struct table *internal;
static struct table *tables[TABLES_MAX];

static struct table *table_free(struct table *table)
{
    if (!table)
        return NULL;
    tcaDescFree(table->chain);
    free(table->descriptors);
    free(table->set);
    free(table);
    return NULL;
}

static tcaresult table_new(int count, struct table **ret_table)
{
    struct table *table = calloc(1, sizeof(*table));
    if (table) {
        table->count = count;
        table->descriptors = calloc((size_t)count, sizeof(*table->descriptors));
        table->set = calloc((size_t)count, sizeof(*table->set));
    }
    if (!table || !table->descriptors || !table->set) {
        table_free(table);
        return compat_fail(TCA_ERROR_OUT_OF_MEMORY, "out of memory for a table of %d descriptors",
                           count);
    }
    *ret_table = table;
    return TCA_SUCCESS;
}

static tcaresult set(struct table *table, int number, int *ret_next, const struct request *request,
                     const char *name)
{
    struct transfer transfer;
    if (number < 0 || number >= table->count)
        return compat_fail(TCA_ERROR_INVALID_VALUE, "%s: descriptor %d is out of range (0 to %d)",
                           name, number, table->count - 1);
    tcaresult result = transfer_make(request, name, &transfer);
    if (result != TCA_SUCCESS)
        return result;
    table->descriptors[number] = transfer;
    table->set[number] = true;
    tcaDescFree(table->chain);
    table->chain = NULL;
    if (ret_next)
        *ret_next = number + 1;
    return TCA_SUCCESS;
}

static tcaresult make_chain(const struct table *table, int first, tcaDesc **ret_chain)
{
    tcaDesc *chain = tcaDescNew();
    tcaresult result = chain ? TCA_SUCCESS : TCA_ERROR_OUT_OF_MEMORY;
    for (int i = first; i < table->count && table->set[i] && result == TCA_SUCCESS; i++) {
        result = desc_append(chain, &table->descriptors[i]);
        if (!(table->descriptors[i].flags & tcaDMAContinue))
            break;
    }
    if (result == TCA_SUCCESS)
        *ret_chain = chain;
    else
        tcaDescFree(chain);
    return result;
}

static tcaresult load(struct table *table, int first, int channel, const char *name)
{
    if (first < 0 || first >= table->count || !table->set[first])
        return compat_fail(TCA_ERROR_INVALID_VALUE, "%s: descriptor %d was not set", name, first);
    if (table->chain && table->first != first) {
        tcaDescFree(table->chain);
        table->chain = NULL;
    }
    if (!table->chain) {
        tcaresult result = make_chain(table, first, &table->chain);
        if (result != TCA_SUCCESS)
            return result;
        table->first = first;
    }
    return tcaDescSet(table->chain, channel);
}

/* ---- the board's own table ---- */

static tcaresult open_internal(void)
{
    return internal ? TCA_SUCCESS : table_new(INTERNAL_COUNT, &internal);
}

TCA_API tcaresult tcaDMADescInt_Init(void)
{
    TAKE_TURN();
    internal = table_free(internal);
    return open_internal();
}

TCA_API tcaresult tcaSetDMADescInt_Memcpy(int number, int *ret_next, const tcaHandle *dst,
                                          off_t dst_off, const tcaHandle *src, off_t src_off,
                                          size_t size, int flags, int slot, int tag)
{
    TAKE_TURN();
    const struct request request = request_1d(dst, dst_off, src, src_off, size, flags, slot, tag);
    tcaresult result = open_internal();
    return result == TCA_SUCCESS
               ? set(internal, number, ret_next, &request, "tcaSetDMADescInt_Memcpy")
               : result;
}

TCA_API tcaresult tcaSetDMADescInt_Memcpy2D(int number, int *ret_next, const tcaHandle *dst,
                                            off_t dst_off, size_t dst_pitch, const tcaHandle *src,
                                            off_t src_off, size_t src_pitch, size_t width,
                                            size_t height, int flags, int slot, int tag)
{
    TAKE_TURN();
    struct request request = request_1d(dst, dst_off, src, src_off, width, flags, slot, tag);
    request.target_pitch = dst_pitch;
    request.source_pitch = src_pitch;
    request.height = height;
    tcaresult result = open_internal();
    return result == TCA_SUCCESS
               ? set(internal, number, ret_next, &request, "tcaSetDMADescInt_Memcpy2D")
               : result;
}

TCA_API tcaresult tcaSetDMAChainInt(int channel, int first)
{
    TAKE_TURN();
    tcaresult result = channel_check(channel);
    if (result == TCA_SUCCESS)
        result = open_internal();
    return result == TCA_SUCCESS ? load(internal, first, channel, "tcaSetDMAChainInt") : result;
}

/* ---- the program's tables ---- */

static tcaresult find(int number, const char *name, struct table **ret_table)
{
    if (number < 0 || number >= TABLES_MAX || !tables[number])
        return compat_fail(TCA_ERROR_INVALID_VALUE, "%s: %d is not a table from tcaCreateDMADesc()",
                           name, number);
    *ret_table = tables[number];
    return TCA_SUCCESS;
}

TCA_API tcaresult tcaCreateDMADesc(int *ret_table, int count)
{
    TAKE_TURN();
    int number = 0;
    if (!ret_table || count < 1 || count > TABLE_COUNT_MAX)
        return compat_fail(TCA_ERROR_INVALID_VALUE,
                           "tcaCreateDMADesc: %d descriptors: a table has 1 to %d", count,
                           TABLE_COUNT_MAX);
    while (number < TABLES_MAX && tables[number])
        number++;
    if (number == TABLES_MAX)
        return compat_fail(TCA_ERROR_OUT_OF_MEMORY,
                           "tcaCreateDMADesc: all %d tables are in use: destroy some", TABLES_MAX);
    tcaresult result = table_new(count, &tables[number]);
    if (result == TCA_SUCCESS)
        *ret_table = number;
    return result;
}

TCA_API tcaresult tcaSetDMADesc_Memcpy(int table_number, int number, int *ret_next,
                                       const tcaHandle *dst, off_t dst_off, const tcaHandle *src,
                                       off_t src_off, size_t size, int flags, int slot, int tag)
{
    TAKE_TURN();
    const struct request request = request_1d(dst, dst_off, src, src_off, size, flags, slot, tag);
    struct table *table = NULL;
    tcaresult result = find(table_number, "tcaSetDMADesc_Memcpy", &table);
    return result == TCA_SUCCESS ? set(table, number, ret_next, &request, "tcaSetDMADesc_Memcpy")
                                 : result;
}

TCA_API tcaresult tcaSetDMADesc_Memcpy2D(int table_number, int number, int *ret_next,
                                         const tcaHandle *dst, off_t dst_off, size_t dst_pitch,
                                         const tcaHandle *src, off_t src_off, size_t src_pitch,
                                         size_t width, size_t height, int flags, int slot, int tag)
{
    TAKE_TURN();
    struct request request = request_1d(dst, dst_off, src, src_off, width, flags, slot, tag);
    struct table *table = NULL;
    request.target_pitch = dst_pitch;
    request.source_pitch = src_pitch;
    request.height = height;
    tcaresult result = find(table_number, "tcaSetDMADesc_Memcpy2D", &table);
    return result == TCA_SUCCESS ? set(table, number, ret_next, &request, "tcaSetDMADesc_Memcpy2D")
                                 : result;
}

TCA_API tcaresult tcaSetDMAChain(int channel, int table_number)
{
    TAKE_TURN();
    struct table *table = NULL;
    tcaresult result = channel_check(channel);
    if (result == TCA_SUCCESS)
        result = find(table_number, "tcaSetDMAChain", &table);
    return result == TCA_SUCCESS ? load(table, 0, channel, "tcaSetDMAChain") : result;
}

TCA_API tcaresult tcaDestroyDMADesc(int table_number)
{
    TAKE_TURN();
    struct table *table = NULL;
    tcaresult result = find(table_number, "tcaDestroyDMADesc", &table);
    if (result == TCA_SUCCESS)
        tables[table_number] = table_free(table);
    return result;
}
