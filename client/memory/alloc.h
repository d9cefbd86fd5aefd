#pragma once

struct tca;

/* The session ends: forgets what tca_alloc() knew. Its regions go with the others. */
void heap_clear(struct tca *session);
