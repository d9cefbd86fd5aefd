/* fork(): a child gets private copies of what its parent shares, locks that nobody holds, and no
 * threads. */
#pragma once

/* From the first call on, forks of this process are handled. Any thread. */
void forks_handle(void);
