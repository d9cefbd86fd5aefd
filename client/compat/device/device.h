/*
 * Device memory of this process: what its program allocates or names, and what others put into.
 *
 * Nobody but the GPU's own process can put into its memory from another node, and no program waits
 * until its notification has been waited for. So every process that has a GPU has an agent: a
 * thread with a session of its own, which takes what comes for this process's device memory and
 * copies it there (agent.c). All others ask it (desk.c). On one node the memory itself can be
 * handed over (remote.c), and nobody has to be asked.
 *
 * All of it is built on tca.h, which has no memory of this kind: regions are what daemons, drivers
 * and all processes of a node map alike.
 */
#pragma once

#include "client/compat/device/cuda.h"

struct device_memory {
    uint64_t number; /* never used again in this process */
    struct cuda_memory cuda;
    unsigned users; /* its owner, and the agent's copies */
    struct device_memory *next;
};

/* Loads the driver and meets the others. Collective. */
tcaresult device_open(void);
/* Whether tcaMemoryGPU is device memory here. */
bool device_ready(void);
/* Ends the agent. */
void device_close(void);

tcaresult device_new(uint64_t bytes, struct device_memory **ret_memory);
/* The program's own memory around an address. */
tcaresult device_adopt(const void *address, struct device_memory **ret_memory);
/* From now on nobody finds it; it goes when the last copy has ended. */
void device_end(struct device_memory *memory);

/* For the agent: NULL when it has ended. */
struct device_memory *device_take(uint64_t number);
void device_give(struct device_memory *memory);
