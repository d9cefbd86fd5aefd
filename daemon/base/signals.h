/*
 * The signals that end or crash tcad. Libraries for some networks, which libfabric needs, install
 * handlers for them in their constructors, before main(). These call exit(1) without a message, for
 * SIGTERM as for a crash. So SIGTERM, SIGINT and SIGHUP are blocked before the first constructor
 * runs, and stay so until tcad has its own handlers; and main() removes the handlers of libraries.
 *
 * Before that, while the loader maps the libraries, SIGTERM kills the process.
 */
#pragma once

/* Call first in main(). Gives all of these signals the dispositions with which the process
 * started. */
void signals_take_back(void);
/* Ends what began before main(): the mask is again that with which the process started. */
void signals_unblock(void);
/* In this thread; all others block every signal (proto/thread.h). */
void signals_block(void);
