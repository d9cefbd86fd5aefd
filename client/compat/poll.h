/* Threads that poll: how often each has polled without success, for tca_pause(). */
#pragma once

/* For a call that returns "not ready" and will probably be repeated at once. */
void poll_found_nothing(void);
/* For any other call. */
void polls_end(void);
