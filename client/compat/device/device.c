/* The device memory of this process. */
#include "client/compat/device/device.h"

#include <pthread.h>
#include <stdlib.h>

#include "client/compat/device/post.h"

/* Shared by the program's thread and the agent's. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct device_memory *memories;
static uint64_t last_number;

static void insert(struct device_memory *memory)
{
    if (last_number == 0) {
        agent_pin(memory->cuda.place);
        desk_pin(memory->cuda.place);
    }
    pthread_mutex_lock(&lock);
    memory->number = ++last_number;
    memory->users = 1;
    memory->next = memories;
    memories = memory;
    pthread_mutex_unlock(&lock);
}

static tcaresult no_memory(void)
{
    return compat_fail(TCA_ERROR_OUT_OF_MEMORY, "out of host memory");
}

tcaresult device_new(uint64_t bytes, struct device_memory **ret_memory)
{
    struct device_memory *memory = calloc(1, sizeof(*memory));
    if (!memory)
        return no_memory();
    tcaresult result = cuda_memory_new(bytes, &memory->cuda);
    if (result != TCA_SUCCESS) {
        free(memory);
        return result;
    }
    insert(memory);
    *ret_memory = memory;
    return TCA_SUCCESS;
}

tcaresult device_adopt(const void *address, struct device_memory **ret_memory)
{
    struct device_memory *memory = calloc(1, sizeof(*memory));
    if (!memory)
        return no_memory();
    tcaresult result = cuda_memory_find(address, &memory->cuda);
    if (result != TCA_SUCCESS) {
        free(memory);
        return result;
    }
    insert(memory);
    *ret_memory = memory;
    return TCA_SUCCESS;
}

struct device_memory *device_take(uint64_t number)
{
    pthread_mutex_lock(&lock);
    struct device_memory *memory = memories;
    while (memory && memory->number != number)
        memory = memory->next;
    if (memory)
        memory->users++;
    pthread_mutex_unlock(&lock);
    return memory;
}

void device_give(struct device_memory *memory)
{
    pthread_mutex_lock(&lock);
    bool last = --memory->users == 0;
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    cuda_memory_free(&memory->cuda);
    free(memory);
}

void device_end(struct device_memory *memory)
{
    pthread_mutex_lock(&lock);
    struct device_memory **link = &memories;
    while (*link != memory)
        link = &(*link)->next;
    *link = memory->next;
    pthread_mutex_unlock(&lock);
    device_give(memory);
}
