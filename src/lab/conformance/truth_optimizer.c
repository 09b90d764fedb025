/*
 * Clipping, its thresholds and optimizer steps.
 *
 * The constants beta, 1 - beta and the bias corrections are computed in double and rounded once (ops.h), so each
 * contributes at most u relative.
 */
#include <math.h>

#include "lab/conformance/case.h"

/* factor = min(1, limit / norm): the division's 2.5 ulp and the rounded limit, then one product. */
static void clip(icl_truth *truth, size_t i) {
    const double limit = icl_device_rounded(truth, truth->c->params.value), norm = truth->operand[1][0];
    const double factor = norm > limit ? limit / norm : 1;
    truth->operand[0][i] *= factor;
    truth->bound[0][i] = icl_gamma(7, truth->unit) * fabs(truth->operand[0][i]);
}

static void adam(icl_truth *truth, size_t i) {
    const icl_adam_params *p = &truth->c->params.adam;
    const double u = truth->unit, g = truth->operand[3][i], parameter = truth->operand[0][i];
    const double correction1 = 1 - pow(p->beta1, (double)p->step),
                 correction2 = 1 - pow(p->beta2, (double)p->step);
    const double kept = p->beta1 * truth->operand[1][i], fresh = (1 - p->beta1) * g;
    const double m = kept + fresh;
    const double v = p->beta2 * truth->operand[2][i] + (1 - p->beta2) * g * g;
    const double denominator = sqrt(v / correction2) + p->epsilon;
    const double update = p->learning_rate * (m / correction1) / denominator;
    const double decayed = parameter * (1 - p->learning_rate * p->weight_decay);

    /* m: a rounded constant, a product and the sum: 3 roundings a term. v: one more for g * g, and all terms are positive. */
    const double m_bound = icl_gamma(3, u) * (fabs(kept) + fabs(fresh));
    const double v_bound = icl_gamma(5, u) * v;
    /* The update: m's error; half of v's relative error plus the division by the correction (5u + u) and sqrt (6u) in the
       denominator, epsilon and the sum (2u); two divisions (10u), the correction (u), the rate and its product (2u). */
    const double update_bound = p->learning_rate * m_bound / correction1 / denominator * 1.01 +
                                icl_gamma(2.5 + 6 + 6 + 2 + 10 + 1 + 2, u) * fabs(update);
    truth->operand[1][i] = m;
    truth->bound[1][i] = m_bound;
    truth->operand[2][i] = v;
    truth->bound[2][i] = v_bound;
    truth->operand[0][i] = decayed - update;
    truth->bound[0][i] =
        update_bound + icl_gamma(4, u) * fabs(decayed) + icl_gamma(1, u) * fabs(decayed - update);
}

static void sgd(icl_truth *truth, size_t i) {
    const icl_sgd_params *p = &truth->c->params.sgd;
    const double u = truth->unit, g = truth->operand[2][i], parameter = truth->operand[0][i];
    const double kept = p->momentum * truth->operand[1][i];
    const double velocity = kept + g, velocity_bound = icl_gamma(3, u) * (fabs(kept) + fabs(g));
    const double update = p->learning_rate * velocity;

    truth->operand[1][i] = velocity;
    truth->bound[1][i] = velocity_bound;
    truth->operand[0][i] = parameter - update;
    truth->bound[0][i] = 1.01 * p->learning_rate * velocity_bound + icl_gamma(2, u) * fabs(update) +
                         icl_gamma(1, u) * fabs(parameter - update);
}

/* Whether the optional norm of a step is there and forbids it. */
static bool is_forbidden(const icl_truth *truth, int norm) {
    return truth->c->rank[norm] >= 0 && !isfinite(truth->operand[norm][0]);
}

/*
 * A new threshold: share_of_one = 1 / (fraction B) is rounded once and the product once (2u r, r <= 6), the difference, the rate and
 * its product once each: the exponent is off by less than 0.1 (12 + 5 + 2 * 5) u = 2.7 u. exp is off by 3 ulp (6u), the last product
 * rounds once. The first one: each term meets the division (2.5 ulp), its product, ceil(B / 64) + 6 additions, and the last product with
 * the rounded factor, and all terms are positive.
 */
static void track(icl_truth *truth) {
    const size_t count = icl_case_count(truth->c, 2);
    double *threshold = truth->operand[0], sum = 0;
    size_t finite = 0, above = 0;

    for (size_t i = 0; i < count; i++) {
        const double norm = truth->operand[2][i];
        if (!isfinite(norm))
            continue;
        finite++;
        above += norm > *threshold;
        sum += norm * 0x1p-40; /* far from overflow */
    }
    truth->bound[0][0] = 0;
    if (*threshold > 0) {
        const double excess = (double)above / (truth->c->params.threshold.fraction * (double)count) - 1;
        *threshold *= exp(ICL_THRESHOLD_RATE * fmin(excess, ICL_THRESHOLD_LEAP));
        truth->bound[0][0] = icl_gamma(10, truth->unit) * *threshold;
    } else if (finite > 0) {
        *threshold = ICL_THRESHOLD_FIRST * (sum / (double)finite) * 0x1p40;
        truth->bound[0][0] = icl_gamma(ceil((double)count / 64) + 13, truth->unit) * *threshold;
    }
    truth->operand[1][0] = (double)(count - finite);
    truth->bound[1][0] = 0;
}

/* Nothing changes. */
static void keep(icl_truth *truth, int outputs) {
    for (int i = 0; i < outputs; i++)
        for (size_t k = 0; k < icl_case_count(truth->c, i); k++)
            truth->bound[i][k] = 0;
}

icl_status icl_truth_optimizer(icl_truth *truth, icl_error *error) {
    const icl_op op = truth->c->op;
    (void)error;
    if (op == ICL_OP_track_threshold) {
        track(truth);
        return ICL_OK;
    }
    if (op != ICL_OP_clip && is_forbidden(truth, op == ICL_OP_adam_step ? 4 : 3)) {
        keep(truth, icl_op_infos[op].outputs);
        return ICL_OK;
    }
    for (size_t i = 0; i < icl_case_count(truth->c, 0); i++) {
        if (op == ICL_OP_clip)
            clip(truth, i);
        else if (op == ICL_OP_adam_step)
            adam(truth, i);
        else
            sgd(truth, i);
    }
    return ICL_OK;
}
