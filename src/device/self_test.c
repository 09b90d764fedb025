/*
 * The self-test of OpenCL devices compares known answers with results that take the same way as users' work: the same
 * op functions, kernels and pool. Drivers have shipped with compilers that give wrong numbers and no error; such a
 * device is refused.
 *
 * The answers are those of a few cases of the conformance suite, with a tolerance in place of their bounds: a device
 * whose exponential is a little worse than OpenCL demands is still of use, while a wrong formula or a miscompiled
 * kernel is off by more than a thousandth. A case that is exact has no tolerance.
 */
#include "device/device.h"

#include "conformance/case.h"

/* About a thousand roundings of numbers near 1. */
#define NEAR 1e-4

/* OpenCL 1.2 (5.6.4.2) exempts relaxed functions from every promise of section 7.4, so no bound follows from it:
 * Intel's exp on CPUs is off by 3e-4. */
#define RELAXED 10

/* Finds the first case of the op whose name begins with `name`. */
typedef struct known_answer {
    icl_tested which;
    icl_op op;
    const char *name;
    double tolerance;
    size_t way; /* of the op's, from 1; 0: all */
} known_answer;

enum { FUSED = 1, BY_PRODUCTS }; /* ways of softmax attention */

static const known_answer answers[] = {
    {ICL_TESTED_ON_OPENING, ICL_OP_matmul, "matmul (33x257)(33x7)(7x257) plain integers", 0},
    {ICL_TESTED_ON_OPENING, ICL_OP_matmul, "matmul beta (7x5)(7x33)(33x5) plain integers", 0},
    {ICL_TESTED_ON_OPENING, ICL_OP_matmul_strict, "matmul_strict (7x5)(7x33)(33x5) plain random", 0},
    {ICL_TESTED_ON_OPENING, ICL_OP_attention_forward, "softmax forward causal (2x6x7x5)", NEAR, FUSED},
    {ICL_TESTED_ON_OPENING, ICL_OP_attention_backward, "softmax backward causal (2x6x7x3)", NEAR, FUSED},
    {ICL_TESTED_ON_OPENING, ICL_OP_reduce, "sum_of_squares (33x1)(33x255) plain integers", 0},
    {ICL_TESTED_ON_OPENING, ICL_OP_random_fill, "random uniform from 2^34 - 5 (257)", 0},
    {ICL_TESTED_ON_OPENING, ICL_OP_random_fill, "random normal from 2^34 - 5 (257)", 0},
    {ICL_TESTED_ON_OPENING, ICL_OP_spherical, "spherical radius (130x5)", 0},
    {ICL_TESTED_ON_OPENING, ICL_OP_update_step, "update adam (65)(65)(65)(3)(65)", NEAR},
    {ICL_TESTED_ON_OPENING, ICL_OP_update_step, "update adam (65)(65)(65)(3)(1)", NEAR},
    {ICL_TESTED_LINEAR_TRANSFORMER, ICL_OP_linear_transformer_gradient,
     "linear_transformer_gradient full (depth 3 of 3, heads 1, tokens in gram space) (5)", NEAR},
    /* With more pairs than coordinates the row of noise has a chi-distributed element, too. */
    {ICL_TESTED_GRAM, ICL_OP_gram_sample, "gram_sample short (9x5x5)", 0},
    {ICL_TESTED_GRAM, ICL_OP_gram_sample, "gram_sample long (9x5x5)", 0},
    {ICL_TESTED_SMALL, ICL_OP_matmul, "matmul beta (3x67)(3x5)(5x67) plain integers", 0},
    {ICL_TESTED_SMALL, ICL_OP_normalize, "normalize layer in place (5x33)", NEAR},
    {ICL_TESTED_SMALL, ICL_OP_binary, "add (257)", NEAR},
    /* There are cases of many and of few tokens, because the form may depend on their number, and cases with decays so
     * strong that the backward pass computes the states forward again, and weak enough that it runs them back. */
    {ICL_TESTED_RECURRENCE, ICL_OP_recurrence_forward, "recurrence forward delta scalar strong (1x2x37x2)", NEAR},
    {ICL_TESTED_RECURRENCE, ICL_OP_recurrence_forward, "recurrence forward delta scalar strong (1x1x2x2)", NEAR},
    {ICL_TESTED_RECURRENCE_GRADIENT, ICL_OP_recurrence_backward, "recurrence backward delta scalar strong (1x2x37x4)",
     NEAR},
    {ICL_TESTED_RECURRENCE_GRADIENT, ICL_OP_recurrence_backward,
     "recurrence backward delta scalar read apart (1x2x33x8)", NEAR},
    {ICL_TESTED_ATTENTION_PRODUCTS, ICL_OP_attention_forward, "softmax forward causal (2x6x7x5)", NEAR, BY_PRODUCTS},
    {ICL_TESTED_ATTENTION_PRODUCTS, ICL_OP_attention_backward, "softmax backward causal (2x6x7x3)", NEAR, BY_PRODUCTS},
    {ICL_TESTED_CLBLAST, ICL_OP_matmul, "matmul (33x257)(33x7)(7x257) plain integers", 0},
    {ICL_TESTED_CLBLAST, ICL_OP_matmul, "matmul beta (7x5)(7x33)(33x5) plain integers", 0},
};

static icl_status check_case(icl_backend *backend, const icl_case *c, icl_error *error) {
    const char *device = backend->capabilities.name, *op = icl_op_infos[c->op].name;
    icl_case_result result = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_case_run(c, backend, &result, error));
    if (!result.guards_intact)
        status = icl_fail(error, ICL_ERROR_DEVICE, "self-test of %s: %s of %.*s wrote outside its outputs", device, op,
                          (int)c->title_length, c->name);
    else if (!icl_case_passed(&result))
        status = icl_fail(error, ICL_ERROR_DEVICE, "self-test of %s: %s: %s of %.*s is %.9g, expected %.9g", device, op,
                          result.worst_name, (int)c->title_length, c->name, result.outputs[result.worst], result.truth);
done:
    icl_case_result_clear(&result);
    return status;
}

/* Runs the case in one way of its op, or in each that the backend has. */
static icl_status check_ways(icl_backend *backend, const icl_case *c, size_t only, icl_error *error) {
    const icl_choice_functions *choices = backend->functions->choices;
    const char *const *names;
    const size_t ways = only ? only : choices ? choices->ways(backend, c->op, &c->params, &names) : 0;
    icl_status status = ICL_OK;

    if (ways == 0)
        return check_case(backend, c, error);
    for (size_t way = only ? only - 1 : 0; way < ways && status == ICL_OK; way++) {
        choices->choose_way(backend, c->op, way);
        status = check_case(backend, c, error);
    }
    choices->choose_way(backend, c->op, ICL_ANY_WAY);
    return status;
}

icl_status icl_device_self_test(icl_backend *backend, icl_tested which, icl_error *error) {
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        icl_case c;
        if (answers[i].which != which)
            continue;
        ICL_CHECK(icl_case_find(answers[i].op, answers[i].name, &c, error));
        c.runs_once = true;
        c.tolerance = (backend->capabilities.fast_math ? RELAXED : 1) * answers[i].tolerance;
        ICL_CHECK(check_ways(backend, &c, answers[i].way, error));
    }
    return ICL_OK;
}
