/*
 * Texts of findings, made where they are used:
 *
 *     ICL_FOUND(run, error, .what = ICL_PHRASE("%s, keys of %zu", name, width), .ours = accuracy)
 *
 * A phrase lives to the end of the statement that makes it, C's lifetime of what a function returns (C11 6.2.4): it is
 * for the arguments of a call, and never for a variable.
 */
#ifndef ICLAB_PAPERS_PHRASE_H
#define ICLAB_PAPERS_PHRASE_H

#include "iclab/status.h"

typedef struct icl_phrase {
    char text[256];
} icl_phrase;

/* Cut where it is longer. */
icl_phrase icl_phrase_print(const char *format, ...) ICL_PRINTF(1, 2);

#define ICL_PHRASE(...) (icl_phrase_print(__VA_ARGS__).text)

#endif
