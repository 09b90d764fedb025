/*
 * Memories whose keys are written again (Schlag, Irie, Schmidhuber 2021, arXiv 2102.11174, section 6.1, setting 2,
 * figure 3): a query asks for the last value. Sums can only return the mean of all values of a key, whatever the keys,
 * and the delta rule replaces.
 */
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/task_family.h"
#include "numeric/statistics.h"
#include "papers/fastweight/fastweight.h"
#include "papers/papers.h"

enum { DRAWN = 1000 }; /* sequences of the mean's loss */

/* The task with keys that are asked once each, as the evaluation has it. */
static icl_status make_task(size_t keys, icl_task **task, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_recipe("fastweight", &recipe, error));
    ICL_TRY(icl_reproduce_override(recipe, error, "task.keys=%zu", keys));
    ICL_TRY(icl_reproduce_override(recipe, error, "task.writes=%zu", keys));
    ICL_TRY(icl_reproduce_override(recipe, error, "task.queries=%zu", keys));
    ICL_TRY(icl_reproduce_override(recipe, error, "task.draws=repeated"));
    ICL_TRY(icl_reproduce_override(recipe, error, "task.asked=keys"));
    ICL_TRY(icl_task_create(recipe, task, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

/* The reference predictor that returns the mean of a key's values. */
static const icl_reference_predictor *mean_predictor(const icl_task *task) {
    const icl_reference_predictor *found = task->family->references(task);
    while (strcmp(found->name, "mean") != 0)
        found++;
    return found;
}

/* A batch, and the losses of its sequences and how many keys these ask for. */
typedef struct sample {
    icl_batch batch;
    float *inputs, *targets, *weights;
    double *outputs, losses[DRAWN], asked[DRAWN];
} sample;

static icl_status draw_sample(const icl_reproducing *run, const icl_task *task, sample *s, icl_error *error) {
    icl_backend *backend = run->params->backend;

    ICL_CHECK(icl_batch_create(task, backend, ICL_FOR_EVALUATION, DRAWN, &s->batch, error));
    ICL_CHECK(icl_task_sample(task, backend, ICL_FOR_EVALUATION, run->params->seed, 1, &s->batch, error));
    ICL_CHECK(icl_allocate(icl_tensor_count(&s->batch.inputs), sizeof(float), "inputs", &s->inputs, error));
    ICL_CHECK(icl_allocate(icl_tensor_count(&s->batch.targets), sizeof(float), "targets", &s->targets, error));
    ICL_CHECK(icl_allocate(icl_tensor_count(&s->batch.weights), sizeof(float), "weights", &s->weights, error));
    ICL_CHECK(icl_allocate(icl_tensor_count(&s->batch.targets), sizeof(double), "outputs", &s->outputs, error));
    ICL_CHECK(icl_tensor_read(s->batch.inputs, s->inputs, error));
    ICL_CHECK(icl_tensor_read(s->batch.targets, s->targets, error));
    return icl_tensor_read(s->batch.weights, s->weights, error);
}

/* The sum over the keys that are asked for, and their number. */
static double loss_of_sequence(const sample *s, size_t sequence, double *asked) {
    const size_t queries = s->batch.shape.scored, values = s->batch.shape.outputs, first = sequence * queries;
    double sum = 0;
    size_t i = 0;

    for (; i < queries && s->weights[first + i] > 0; i++)
        for (size_t k = (first + i) * values; k < (first + i + 1) * values; k++)
            sum += .5 * (s->outputs[k] - (double)s->targets[k]) * (s->outputs[k] - (double)s->targets[k]);
    *asked = (double)i;
    return sum;
}

/* The mean over all keys of all sequences, a ratio of two means, with the standard error of its linear part. */
static double mean_loss(sample *s, double *standard_error) {
    double sum = 0, asked = 0;

    for (size_t i = 0; i < DRAWN; i++) {
        s->losses[i] = loss_of_sequence(s, i, &s->asked[i]);
        sum += s->losses[i];
        asked += s->asked[i];
    }
    for (size_t i = 0; i < DRAWN; i++)
        s->losses[i] = (s->losses[i] - sum / asked * s->asked[i]) * DRAWN / asked;
    *standard_error = icl_standard_error(s->losses, DRAWN);
    return sum / asked;
}

/* The mean's loss on drawn sequences, beside its expectation. */
static icl_status judge_mean(icl_reproducing *run, size_t keys, icl_error *error) {
    icl_task *task = NULL;
    sample s = {.inputs = NULL};
    char what[ICL_FASTWEIGHT_NAME];
    double se;
    icl_status status = ICL_OK;

    snprintf(what, sizeof what, "mean of a key's values, S %zu", keys);
    if (!icl_reproduce_wants(run, what))
        return ICL_OK;
    ICL_TRY(make_task(keys, &task, error));
    ICL_TRY(draw_sample(run, task, &s, error));
    const icl_reference_predictor *mean = mean_predictor(task);
    ICL_TRY(mean->predict(mean, &(icl_shown_sequences){task, DRAWN, s.inputs, &s.batch}, s.outputs, error));
    const double loss = mean_loss(&s, &se);
    /* 4: a row in 16,000 is farther off by chance. */
    ICL_TRY(ICL_FOUND(run, error, .what = what, .quantity = "half squared error", .ours = loss, .standard_error = se,
                      .target = icl_fastweight_mean_floor(keys), .tolerance = 4 * se, .evidence = ICL_COMPUTED,
                      .source = "binomial law of a key's writes"));
done:
    icl_free(&s.inputs);
    icl_free(&s.targets);
    icl_free(&s.weights);
    icl_free(&s.outputs);
    icl_batch_release(&s.batch);
    icl_task_destroy(&task);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    static const icl_fastweight_curve lines[] = {
        {"dpfp-1, delta",
         "delta",
         "dpfp:1",
         128,
         {.001, .001, .0049, .0063, .000086, .0141, .0475, .104, .133, .171},
         NULL,
         ICL_SCALE_CI},
        {"dpfp-1, sum",
         "sum",
         "dpfp:1",
         128,
         {.097, .104, .103, .113, .111, .128, .155, .180, .201, .231},
         NULL,
         ICL_SCALE_CI},
        /* The norm of what is read makes losses S / 2 where nothing was learned; .5 is the loss of zeros, which
         * training reaches by reading little against the norm's epsilon. */
        {"dpfp-1, fwm",
         "fwm",
         "dpfp:1",
         0,
         {.040, .49, .499, .4999, .526, .556, .743, 1.97, 2.5, 1.09},
         NULL,
         ICL_SCALE_SHORT,
         .short_steps = 3300},
        /* Before those that take less: workers begin with the first, and none is to wait for the longest. */
        {"favor-64, delta",
         "delta",
         "favor:64",
         128,
         {.102, .183, .398, .493, .5},
         NULL,
         ICL_SCALE_SHORT,
         "model.directions=drawn",
         .short_steps = 2000,
         .short_patience = 5},
        {"dpfp-2, delta",
         "delta",
         "dpfp:2",
         256,
         {.001, .001, .001, .001, .085, .001, .001, .001, .001, .001},
         NULL,
         ICL_SCALE_SHORT},
        {"elu+1, delta",
         "delta",
         "elu+1",
         64,
         {.001, .001, .001, .094, .150, .215, .257, .276, .315, .341},
         NULL,
         ICL_SCALE_SHORT},
        /* S = 20: 1.8 after 15,000 steps, five minutes of a core. A step takes .1 s at S = 60, .3 s at 100. */
        {"tanh, fwm",
         "fwm",
         "tanh",
         0,
         {1.50, 4.83, 9.02, 30.3, 42.4, 56.0, 59.8, 74.8, 85.3, 95.5},
         NULL,
         ICL_SCALE_FULL,
         "train.learning_rate=0.0001 train.batch=128"},
    };
    static const icl_fastweight_figure figure = {
        .name = "fastweight-overwrite",
        .title = "Fast weights: keys that are written again (setting 2, figure 3)",
        .source = "authors' logs, setting 2",
        .repeated = true,
        .most = 200,
        .count = sizeof lines / sizeof *lines,
        .curves = lines,
    };
    static const size_t sizes[] = {20, 60, 100, 200};
    icl_curves curves = {0};
    icl_status status = ICL_OK;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && icl_reproduce_judges(run); i++) {
        ICL_TRY(judge_mean(run, sizes[i], error));
        ICL_TRY(icl_curves_add(&curves, "mean of a key's values", ICL_SERIES_REFERENCE, (double)sizes[i],
                               icl_fastweight_mean_floor(sizes[i]), error));
    }
    ICL_TRY(icl_fastweight_reproduce(run, &figure, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

const icl_reproduction icl_fastweight_overwrite = {
    .name = "fastweight-overwrite",
    .source = "arXiv 2102.11174, figure 3",
    .about = "fast weights whose keys are written again, by the rule of writing",
    .cost = {"5 s", "15 min", "2 h"},
    .is_shared = true,
    .run = reproduce,
};
