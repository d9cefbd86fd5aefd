/* What MPICH's launcher calls its jobs. */
#pragma once

#include <sys/types.h>

#include "proto/limits.h"

/* The proxy that started this process, at the other end of PMI_FD; 0: unknown. */
pid_t hydra_proxy(void);

/* A name that all ranks of this job find, and those of no other job that runs at the same time;
 * "pmi" when there is no telling. size: PMI_SIZE. */
void hydra_job_name(const char *size, char ret_name[NAME_MAX_BYTES]);
