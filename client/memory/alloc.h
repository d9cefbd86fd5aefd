#pragma once

struct tca;

/* The session ends: frees the heap of tca_alloc(). region_clear() frees its regions. */
void heap_clear(struct tca *session);
