/* A job of the library's thread (client/core/helper.h): it advances the running collective
 * operations of a session. While one is running, the session is this thread's: the program's calls
 * for operations hold the lock. */
#pragma once

#include <stdint.h>

struct coll_siblings;
struct coll_thread;

/* Adds the job, unless there is one. -EBUSY: operations are running; or as helper_add(). */
int coll_thread_begin(struct coll_siblings *siblings);
/* NULL is a no-op. */
void coll_thread_end(struct coll_thread *thread);

/* NULL: no-ops. */
void coll_thread_lock(struct coll_thread *thread);
void coll_thread_unlock(struct coll_thread *thread);

/* Both with the lock held: an operation has begun; and waits until operations may have completed.
 * 0 or -ETIMEDOUT. */
void coll_thread_wake(struct coll_thread *thread);
int coll_thread_sleep(struct coll_thread *thread, uint64_t end_ns);
