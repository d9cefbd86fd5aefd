/*
 * Results, texts and absent arguments between Fortran and libtca. The interfaces of tca.f90 call
 * the functions tca_f_*(), which have no other prototypes: arrays come as C descriptors, absent
 * arguments as NULL.
 */
#pragma once

#include <ISO_Fortran_binding.h>
#include <stdint.h>

/* An argument that libtca does not see is wrong: keeps the text, and returns -EINVAL. */
int fortran_refuse(const char *text);
/* A result of libtca, whose text replaces one of ours. */
int fortran_from(int result);
/* Hands a result to the program: 0 or the error in *ierror or, if that is absent, an error ends the
 * program. */
void fortran_done(int result, int *ierror);
/* The same of a call that returns 1 or 0. */
int fortran_tested(int result, int *ierror);
/* A string of Fortran, without trailing blanks, cut after 255 bytes. NULL if absent. */
const char *fortran_string(const CFI_cdesc_t *text, char buffer[static 256]);
int64_t fortran_timeout(const int64_t *timeout_ns, int64_t otherwise);
