/* Prints the text of --help. */
#pragma once

void help(void);
