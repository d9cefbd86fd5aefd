/* tca_layouts: a form as one of our layouts, made with the constructor of the same name. */
#pragma once

#include <tca.h>

#include "tests/bench/ddtbench/form.h"

/* The caller frees it. 0 or what the library says. */
int tca_layout_of(const struct form *form, struct tca_layout **ret_layout);
