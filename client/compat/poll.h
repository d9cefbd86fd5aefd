/* Threads that poll: how often each has looked in vain, for tca_pause(). */
#pragma once

/* A call of the API that says that it is not so yet, and is likely to be made again at once. */
void poll_in_vain(void);
/* Any other call. */
void polls_end(void);
