/*
 * Random unit keys with one-hot values, written into a memory of fixed size by the op and the solver that models of
 * sequences train with. A sequence writes all keys, with strength 1, as often as there are passes, and then asks each
 * of them, with strength 0.
 */
#ifndef ICLAB_PAPERS_RECALL_KEYS_H
#define ICLAB_PAPERS_RECALL_KEYS_H

#include <stdint.h>

#include "iclab/status.h"
#include "iclab/tensor.h"

/* Sets of keys at a time. */
enum { ICL_RECALL_SETS = 16 };

/* Of a mesa layer. It leaves something of each error: sqrt(ridge) / 4 in the limit where n = d, the worst case. */
#define ICL_RECALL_RIDGE 1e-3

typedef enum icl_recall_rule { ICL_RECALL_SUM = 0, ICL_RECALL_DELTA, ICL_RECALL_MESA } icl_recall_rule;

/* Closed also after a failure; T = passes n + n tokens. */
typedef struct icl_recall_keys {
    size_t d, n, tokens;
    double *keys;             /* [ICL_RECALL_SETS][n][d] of length 1 */
    float *written, *outputs; /* [ICL_RECALL_SETS][T][d]; [ICL_RECALL_SETS][n][n] */
    icl_tensor k, v, beta;    /* [ICL_RECALL_SETS, 1, T, d], [1, 1, T, n], [1, 1, T, 1] */
    icl_tensor ridge, out;    /* [1, 1, 1, d]; [ICL_RECALL_SETS, 1, T, n] */
} icl_recall_keys;

icl_status icl_recall_keys_open(icl_backend *backend, size_t d, size_t n, size_t passes, icl_recall_keys *w,
                                icl_error *error);
void icl_recall_keys_close(icl_recall_keys *w);

/* Draws set number `first` and those behind it. */
icl_status icl_recall_keys_draw(icl_recall_keys *w, uint32_t seed, size_t first, icl_error *error);

/* Writes them by the rule, and asks each. */
icl_status icl_recall_keys_ask(icl_recall_keys *w, icl_backend *backend, icl_recall_rule rule, icl_error *error);

/* Half of the squared error of an answer, averaged over the keys of set i. */
double icl_recall_keys_error(const icl_recall_keys *w, size_t i);

#endif
