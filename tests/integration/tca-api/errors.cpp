// What makes no sense is refused with words, from C++; and what the header leaves to programs, they
// may define.
#include <cstring>

#include "check.h"

#define TCA_SAFE_CALL(call) TCA_CHECK(call)
enum { TCA_OP_INT8, TCA_OP_INT16, TCA_OP_TYPE_MAX };
static std::size_t get_tca_data_size(tcaDataType type)
{
    return static_cast<std::size_t>(type) >> 8;
}

static void enums()
{
    int counts[TCA_OP_NOOP + 1] = {};
    counts[TCA_OP_SUM]++;
    static const tcaOp ops[] = {TCA_OP_SUM,  TCA_OP_PROD, TCA_OP_MAX, TCA_OP_MIN,
                                TCA_OP_LAND, TCA_OP_BAND, TCA_OP_LOR, TCA_OP_BOR,
                                TCA_OP_LXOR, TCA_OP_BXOR, TCA_OP_NOOP};
    for (int i = 0; i <= TCA_OP_NOOP; i++)
        REQUIRE(ops[i] == i);
    REQUIRE(TCA_OP_NOOP == 10 && counts[0] == 1);
    static const struct {
        tcaDataType type;
        std::size_t bytes;
    } types[] = {{TCA_CHAR, 1},
                 {TCA_SIGNED_CHAR, 1},
                 {TCA_UNSIGNED_CHAR, 1},
                 {TCA_BYTE, 1},
                 {TCA_SHORT, 2},
                 {TCA_UNSIGNED_SHORT, 2},
                 {TCA_INT, sizeof(int)},
                 {TCA_UNSIGNED, sizeof(unsigned)},
                 {TCA_LONG, sizeof(long)},
                 {TCA_UNSIGNED_LONG, sizeof(unsigned long)},
                 {TCA_LONG_LONG, 8},
                 {TCA_UNSIGNED_LONG_LONG, 8},
                 {TCA_FLOAT, sizeof(float)},
                 {TCA_DOUBLE, sizeof(double)},
                 {TCA_LONG_DOUBLE, sizeof(long double)}};
    bool seen[(TCA_LONG_DOUBLE & 0xff) + 1] = {};
    for (const auto &type : types) {
        const int low = type.type & 0xff;
        REQUIRE(get_tca_data_size(type.type) == type.bytes);
        REQUIRE(low <= (TCA_LONG_DOUBLE & 0xff) && !seen[low]);
        seen[low] = true;
    }
    const char *version = "TCA " TCA_LIB_VERSION;
    REQUIRE(std::strlen(version) > 4);
}

int main(int argc, char **argv)
{
    char *memory;
    void *other;
    tcaHandle own, bytes;
    std::memset(&bytes, 0, sizeof(bytes));
    TCA_EXPECT(tcaMalloc(&other, 8, tcaMemoryCPU), TCA_ERROR_NOT_INITIALIZED);
    begin(&argc, &argv);
    enums();
    const int next = (rank + 1) % size;
    TCA_SAFE_CALL(tcaMalloc(reinterpret_cast<void **>(&memory), 1000, tcaMemoryCPU));
    tcaHandle *all = gather_handles(memory, 1000, tcaMemoryCPU);
    TCA_SAFE_CALL(tcaCreateHandle(&own, memory + 10, 100, tcaMemoryCPU));

    TCA_EXPECT(tcaCreateHandle(&bytes, memory, 100000, tcaMemoryCPU), TCA_ERROR_INVALID_VALUE);
    TCA_EXPECT(tcaMalloc(&other, 8, 17), TCA_ERROR_INVALID_VALUE);
    TCA_EXPECT(tcaFree(&own, tcaMemoryCPU), TCA_ERROR_INVALID_VALUE);
    TCA_EXPECT(tcaDestroyHandle(&bytes), TCA_ERROR_INVALID_VALUE);
    TCA_EXPECT(tcaWaitDMARecvDesc(&bytes, 0, 0), TCA_ERROR_INVALID_VALUE);

    tcaDesc *desc = tcaDescNew();
    const int flags = tcaDMANotify | tcaDMAPipeline;
    if (next != rank)
        TCA_EXPECT(tcaDescSetMemcpy(desc, &own, 0, &all[next], 0, 8, flags, 0, 0),
                   TCA_ERROR_INVALID_VALUE);
    if (next != rank)
        REQUIRE(std::strstr(tcaGetErrorString(TCA_ERROR_INVALID_VALUE), "source") != nullptr);
    TCA_EXPECT(tcaDescSetMemcpy(desc, &all[next], 993, &own, 0, 8, flags, 0, 0),
               TCA_ERROR_INVALID_VALUE);
    TCA_EXPECT(tcaDescSetMemcpy(desc, &all[next], 0, &own, 93, 8, flags, 0, 0),
               TCA_ERROR_INVALID_VALUE);
    TCA_EXPECT(tcaDescSetMemcpy(desc, &all[next], -1, &own, 0, 8, flags, 0, 0),
               TCA_ERROR_INVALID_VALUE);
    TCA_EXPECT(tcaDescSetMemcpy(desc, &all[next], 0, &own, 0, SIZE_MAX, flags, 0, 0),
               TCA_ERROR_INVALID_VALUE);
    TCA_EXPECT(tcaDescSetMemcpy(desc, &all[next], 0, &own, 0, 8, flags, -1, 0),
               TCA_ERROR_INVALID_VALUE);
    TCA_EXPECT(tcaDescSetMemcpy2D(desc, &all[next], 0, 7, &own, 0, 8, 8, 2, flags, 0, 0),
               TCA_ERROR_INVALID_VALUE);
    TCA_EXPECT(tcaDescSetMemcpy2D(desc, &all[next], 0, SIZE_MAX / 2, &own, 0, 8, 8, 3, flags, 0, 0),
               TCA_ERROR_INVALID_VALUE);
    TCA_EXPECT(tcaDescSet(desc, 4), TCA_ERROR_INVALID_VALUE);
    TCA_EXPECT(tcaDescSet(nullptr, 0), TCA_ERROR_INVALID_VALUE);
    TCA_EXPECT(tcaStartDMADesc(0), TCA_ERROR_INVALID_VALUE);
    TCA_EXPECT(tcaWaitDMAC(-1), TCA_ERROR_INVALID_VALUE);

    // A handle whose memory is gone, by the time somebody puts there.
    TCA_SAFE_CALL(tcaMalloc(&other, 64, tcaMemoryGPU));
    tcaHandle *gone = gather_handles(other, 64, tcaMemoryGPU);
    barrier();
    TCA_SAFE_CALL(tcaFree(other, tcaMemoryGPU));
    barrier();
    TCA_SAFE_CALL(tcaDescSetMemcpy(desc, &gone[next], 0, &own, 0, 8, flags, 0, 0));
    TCA_EXPECT(tcaDescSet(desc, 0), TCA_ERROR_INVALID_VALUE);
    REQUIRE(std::strlen(tcaGetErrorString(12345)) > 0 &&
            std::strlen(tcaGetErrorString(TCA_SUCCESS)) > 0);
    TCA_SAFE_CALL(tcaDescFree(desc));
    TCA_SAFE_CALL(tcaDestroyHandle(&own));
    std::free(all);
    std::free(gone);
    return end("errors");
}
