#pragma once

struct tca;

/* The region of this session that contains an address, or NULL. */
struct tca_region *region_find(struct tca *session, const void *address);

/* The session ends: frees the heap of tca_alloc(). region_clear() frees its regions. */
void heap_clear(struct tca *session);
