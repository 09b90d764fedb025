/* Tests the verdicts of `iclab compare --train` on devices that lose digits: their losses are wrong by a known share,
 * and each verdict is met on both sides of its limits. */
#include "iclab/compare_training.h"

#include <math.h>
#include <string.h>

#include "backend/contract.h"
#include "iclab/ops.h"
#include "iclab/recipe.h"
#include "recipes.h"
#include "tap.h"

/* LOSSES: the operand of update_step, whose operands are (parameters, state, state, measures, threshold, gradient,
 * losses, norms). */
enum { LOSSES = 6, MOST_LOSSES = 16, STEPS = 3 };

/* A device whose losses are too large by this share, from its first step on. */
typedef struct planted {
    icl_backend_functions functions;
    icl_op_function *update;
    const icl_backend *backend;
    double share;
} planted;

static planted devices[2];

static icl_status update_wrongly(icl_backend *backend, const void *params, const icl_tensor *operands,
                                 icl_error *error) {
    const planted *is = backend == devices[0].backend ? &devices[0] : &devices[1];
    float losses[MOST_LOSSES];
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_read(operands[LOSSES], losses, error));
    for (size_t i = 0; i < operands[LOSSES].shape[0]; i++)
        losses[i] *= (float)(1 + is->share);
    ICL_TRY(icl_tensor_write(operands[LOSSES], losses, error));
    ICL_TRY(is->update(backend, params, operands, error));
done:
    return status;
}

static icl_status open_device(size_t index, const char *spec, double share, icl_backend **backend, icl_error *error) {
    planted *is = &devices[index];

    ICL_CHECK(icl_backend_open(&(icl_backend_params){.spec = spec}, backend, error));
    is->functions = *(*backend)->functions;
    is->update = is->functions.ops[ICL_OP_update_step];
    is->functions.ops[ICL_OP_update_step] = update_wrongly;
    is->backend = *backend;
    is->share = share;
    (*backend)->functions = &is->functions;
    return ICL_OK;
}

/* ---- Verdicts ---- */

typedef struct verdict_case {
    const char *what, *against; /* a spec */
    double device_share, against_share;
    icl_verdict verdict; /* of each forced step */
    const char *reason;  /* its beginning; NULL: not checked */
} verdict_case;

/* The limit is half of the digits, 2^-12. A device is blamed alone if it is sixteen times as far away as the other. */
static const verdict_case cases[] = {
    {"rounding alone", "cpu:threads=1", 0, 0, ICL_VERDICT_PASS, NULL},
    {"a little less than half of the digits", "cpu:threads=1", 0x1p-12 * .99, 0, ICL_VERDICT_PASS, NULL},
    {"a little more, of the device", "cpu:threads=1", 0x1p-12 * 1.01, 0, ICL_VERDICT_FAIL, "cpu:threads=2 differs"},
    {"a little more, of the other", "cpu:threads=1", 0, 0x1p-12 * 1.01, ICL_VERDICT_FAIL, "cpu:threads=1 differs"},
    {"both, one 15 times as far as the other", "cpu:threads=1", 0x1p-6, 0x1p-6 / 15, ICL_VERDICT_MISTRUSTED,
     "cpu:threads=1 differs"}, /* the last to be judged */
    {"both, one 17 times as far as the other", "cpu:threads=1", 0x1p-6, 0x1p-6 / 17, ICL_VERDICT_FAIL,
     "cpu:threads=2 differs"},
    {"nobody of single precision stands beside it", "ref", 0x1p-6, 0, ICL_VERDICT_MISTRUSTED, "cpu:threads=2 differs"},
    {"ref loses them, and is judged by the device", "ref", 0, 0x1p-6, ICL_VERDICT_FAIL, "ref differs"},
    {"no number", "ref", (double)NAN, 0, ICL_VERDICT_FAIL, "cpu:threads=2 diverged: loss nan"},
};

typedef struct seen {
    const verdict_case *of;
    unsigned forced, free, wrong; /* steps */
} seen;

static icl_status look(void *user, const icl_step_comparison *step, icl_error *error) {
    seen *s = user;
    const verdict_case *of = s->of;
    const icl_verdict expected =
        step->mode == ICL_TRAINING_FORCED || isnan(of->device_share) ? of->verdict : ICL_VERDICT_PASS;
    const char *reason = expected == ICL_VERDICT_PASS ? "" : of->reason;

    (void)error;
    s->forced += step->mode == ICL_TRAINING_FORCED;
    s->free += step->mode == ICL_TRAINING_FREE;
    if (step->verdict != expected || strncmp(step->reason, reason, strlen(reason)) != 0 ||
        (*reason == '\0') != (step->reason[0] == '\0')) {
        s->wrong++;
        tap_note("%s step %llu: %s, \"%s\"", icl_training_mode_name(step->mode), (unsigned long long)step->step,
                 icl_verdict_name(step->verdict), step->reason);
    }
    return ICL_OK;
}

static icl_status compare(const verdict_case *of, seen *s, icl_training_summary *summary, icl_error *error) {
    icl_training_params params = {.steps = STEPS, .callback = look, .user = s};
    icl_recipe *recipe = NULL;
    icl_backend *device = NULL, *against = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make_recipe("", "task.d=2 task.n=3 model.layers=1 train.batch=4 train.steps=3", &recipe, error));
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "ref"}, &params.reference, error));
    ICL_TRY(open_device(0, "cpu:threads=2", of->device_share, &device, error));
    ICL_TRY(open_device(1, of->against, of->against_share, &against, error));
    params.recipe = recipe;
    params.device = device;
    params.against = against;
    ICL_TRY(icl_compare_training(&params, summary, error));
done:
    icl_backend_close(&against);
    icl_backend_close(&device);
    icl_backend_close(&params.reference);
    icl_recipe_destroy(&recipe);
    return status;
}

static void test_case(tap_run *tap, const verdict_case *of) {
    seen s = {.of = of};
    icl_training_summary summary;
    icl_error error = {0};
    const bool diverges = isnan(of->device_share);

    if (!tap_status(tap, compare(of, &s, &summary, &error), &error, of->what))
        return;
    tap_ok(tap, s.wrong == 0 && s.forced == STEPS && s.free == (diverges ? 1 : STEPS), "%s: %s in %u forced steps",
           of->what, icl_verdict_name(of->verdict), s.forced);
    tap_ok(tap,
           summary.failed == (of->verdict == ICL_VERDICT_FAIL ? (uint64_t)(STEPS + diverges) : 0) &&
               summary.mistrusted == (of->verdict == ICL_VERDICT_MISTRUSTED ? STEPS : 0),
           "counted: %llu failed, %llu mistrusted", (unsigned long long)summary.failed,
           (unsigned long long)summary.mistrusted);
    const icl_training_extreme *largest = &summary.device[ICL_TRAINING_FORCED].loss;
    if (diverges)
        tap_ok(tap, isnan(largest->value) && largest->step == 1, "no number is the largest, first in step %llu",
               (unsigned long long)largest->step);
    else
        tap_ok(tap, fabs(largest->value - of->device_share) < 1e-6,
               "the largest difference of a loss is the planted one: %.3g", largest->value);
}

int main(void) {
    tap_run tap = {0};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        test_case(&tap, &cases[i]);
    return tap_done(&tap);
}
