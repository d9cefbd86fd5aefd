/* tcaInit() and tcaMalloc() of GPU memory: the result and message of each, and of a put that then
 * fails. */
#include <stdio.h>
#include <tca-api.h>

static int say(const char *what, tcaresult result)
{
    printf("%s: %d %s\n", what, result, tcaGetErrorString(result));
    return result;
}

int main(void)
{
    void *memory;
    tcaHandle handle;
    if (say("tcaInit", tcaInit()) != TCA_SUCCESS ||
        say("tcaMalloc", tcaMalloc(&memory, 5 << 20, tcaMemoryGPU)) != TCA_SUCCESS)
        return 1;
    tcaDesc *desc = tcaDescNew();
    if (tcaCreateHandle(&handle, memory, 5 << 20, tcaMemoryGPU) != TCA_SUCCESS ||
        tcaDescSetMemcpy(desc, &handle, 0, &handle, 4096, 4096, 0, 0, 0) != TCA_SUCCESS ||
        tcaDescSet(desc, 0) != TCA_SUCCESS)
        return 1;
    return say("tcaStartDMADesc", tcaStartDMADesc(0)) ? 1 : 0;
}
