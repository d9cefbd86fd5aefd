/*
 * Device memory of this process.
 *
 * Data from another node can only be copied into device memory by the process that owns it, and it
 * must arrive even while that process's program is not in a call of the API. So every process with
 * a GPU has an agent, a thread with its own session, which receives the data and copies it to
 * device memory (agent.c). Other processes send it requests (desk.c). Within a node, the memory can
 * be exported and mapped (remote.c), and the agent is not needed.
 *
 * All this uses tca.h only. Regions of tca.h are never device memory: daemons, drivers and all
 * processes of a node must be able to map them.
 */
#pragma once

#include "client/compat/device/cuda.h"

struct device_memory {
    uint64_t number; /* never reused in this process */
    struct cuda_memory cuda;
    unsigned users; /* its owner and running copies of the agent */
    struct device_memory *next;
};

/* Loads the driver and joins the agents' group. Collective. */
tcaresult device_open(void);
/* Whether tcaMemoryGPU is device memory in this process. */
bool device_ready(void);
/* Ends the agent. */
void device_close(void);

tcaresult device_new(uint64_t bytes, struct device_memory **ret_memory);
/* Memory that the program has allocated with CUDA, by an address in it. */
tcaresult device_adopt(const void *address, struct device_memory **ret_memory);
/* The memory can no longer be found; it is freed after the last copy. */
void device_end(struct device_memory *memory);

/* For the agent: NULL if device_end() was called. */
struct device_memory *device_take(uint64_t number);
void device_give(struct device_memory *memory);
