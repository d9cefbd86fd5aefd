/* Preloaded into an example: once, the received data differs from what was sent. The example's
 * self-check must detect that. */
#include <dlfcn.h>
#include <string.h>

#include "client/include/tca-api.h"

enum { STORE_MAX = 256 };

static unsigned char *memory; /* the first that it has */
static size_t memory_bytes;
static int spoiled;

static void *original(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

TCA_API tcaresult tcaMalloc(void **ret_memory, size_t size, int type)
{
    tcaresult (*call)(void **, size_t, int) = original("tcaMalloc");
    tcaresult result = call(ret_memory, size, type);
    if (result == TCA_SUCCESS && !memory) {
        memory = *ret_memory;
        memory_bytes = size;
    }
    return result;
}

TCA_API tcaresult tcaWaitDMARecvDesc(const tcaHandle *handle, int slot, int tag)
{
    tcaresult (*call)(const tcaHandle *, int, int) = original("tcaWaitDMARecvDesc");
    tcaresult result = call(handle, slot, tag);
    for (size_t i = 0; i < memory_bytes && !spoiled; i++)
        memory[i] ^= 0x55;
    spoiled = 1;
    return result;
}

TCA_API tcaresult tcaSendPIO(const tcaPIOHandle *pio, off_t off, const void *src, size_t size)
{
    tcaresult (*call)(const tcaPIOHandle *, off_t, const void *, size_t) = original("tcaSendPIO");
    unsigned char bytes[STORE_MAX];
    if (spoiled || size > sizeof(bytes))
        return call(pio, off, src, size);
    memcpy(bytes, src, size);
    bytes[5] ^= 0x55; /* adds to a double, which is a small number */
    spoiled = 1;
    return call(pio, off, bytes, size);
}
