/* Remedies for errors caused by limits of the system. */
#pragma once

/* "tcad has no ...: raise ..." for negative errnos that identify the limit; NULL for others.
 * Static. */
const char *remedy_of(int error);
/* "Too many open files; tcad has no ...", or only the description of the errno. Valid until the
 * next call in this thread. */
const char *remedy_text(int error);
