/* Job names for MPICH's launcher, Hydra. */
#pragma once

#include <sys/types.h>

#include "proto/limits.h"

/* The proxy that started this process, which is the peer of PMI_FD; 0: unknown. */
pid_t hydra_proxy(void);

/* A name that all ranks of this job derive, and no other running job; "pmi" if it cannot be
 * determined. size: PMI_SIZE. */
void hydra_job_name(const char *size, char ret_name[NAME_MAX_BYTES]);
