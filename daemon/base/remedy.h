/* What to do about an error that a limit of the system causes, for people. */
#pragma once

/* "tcad has no ...: raise ..." for negative errnos that say which limit it was; NULL for others. */
const char *remedy_of(int error);
/* "Too many open files: tcad has no ...", or just what the errno means. */
const char *remedy_text(int error);
