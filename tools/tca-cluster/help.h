/* What --help says. */
#pragma once

void help(void);
