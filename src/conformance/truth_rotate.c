/* Rotary positions. Each result is a sum of two products, all rounded once: |error| <= gamma(2) (|a x| + |b y|)
 * (Higham, section 3.1). */
#include <math.h>

#include "conformance/cases.h"

enum { OUT = 0, IN, ANGLES };

icl_status icl_truth_rotate(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t tokens = c->shape[ANGLES][0], half = c->shape[ANGLES][1];
    const double sign = c->params.inverse ? -1 : 1;
    (void)error;

    for (size_t i = 0; i < icl_case_count(c, OUT); i++) {
        const size_t column = i % (2 * half), token = i / (2 * half) % tokens, pair = column % half;
        const double *angle = truth->operand[ANGLES] + 2 * (token * half + pair);
        const bool is_low = column < half;
        const double own = truth->operand[IN][i], other = truth->operand[IN][is_low ? i + half : i - half];
        const double straight = angle[0] * own, crossed = (is_low ? -sign : sign) * angle[1] * other;
        truth->operand[OUT][i] = straight + crossed;
        truth->bound[OUT][i] = icl_gamma(2, truth->unit) * (fabs(straight) + fabs(crossed));
    }
    return ICL_OK;
}
