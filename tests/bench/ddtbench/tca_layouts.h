/* tca_layouts: a form as one of tcad's layouts, made with the constructor of the same name. */
#pragma once

#include <tca.h>

#include "tests/bench/ddtbench/form.h"

/* The caller frees it. 0 or the library's error. */
int tca_layout_of(const struct form *form, struct tca_layout **ret_layout);
