/*
 * Linear attention with momentum: Nguyen and others 2022, "Momentum Transformer" (arXiv 2208.00579). The state of
 * linear attention takes a step for each token; with momentum b these are steps of the heavy ball,
 *
 *     m_t = b m_(t-1) + k_t v_t^T,  S_t = S_(t-1) + m_t
 *
 * so that S_t = sum over s <= t of (1 - b^(t-s+1)) / (1 - b) k_s v_s^T: earlier tokens weigh more than the last ones.
 *
 * Three identities are exact: with b = 0 it is linear attention; if all tokens are equal, S_t is that of linear
 * attention times
 *
 *     f_t = 1 / (1 - b) (1 - b (1 - b^t) / (t (1 - b))),  which tends to 1 / (1 - b);
 *
 * and token by token, from states, it gives the same outputs as for a whole sequence. The paper's tables are not at
 * hand, so that the effect of momentum on trained models (loss by b, on the same seeds and sequences) is shown and not
 * judged.
 */
#include <inttypes.h>
#include <math.h>

#include "papers/papers.h"
#include "train/settings.h"

enum { SEQUENCES = 16, TASKS = 2, MOMENTA = 3 };

/* An untrained layer with momentum, compared with linear attention with the same parameters. */
typedef struct exact_cell {
    const char *name;
    double momentum;
    bool from_states; /* compared with itself, token by token */
    size_t equal;     /* number of equal tokens; 0: the task's own tokens */
} exact_cell;

static const exact_cell exact_cells[] = {
    {"b = 0 beside linear attention", 0, false, 0},
    {"b = 0.9 beside linear attention", 0.9, false, 0},
    {"b = 0.9, from states beside whole sequences", 0.9, true, 0},
    {"b = 0.5, 1 equal tokens", 0.5, false, 1},
    {"b = 0.5, 25 equal tokens", 0.5, false, 25},
    {"b = 0.5, 50 equal tokens", 0.5, false, 50},
    {"b = 0.9, 1 equal tokens", 0.9, false, 1},
    {"b = 0.9, 25 equal tokens", 0.9, false, 25},
    {"b = 0.9, 50 equal tokens", 0.9, false, 50},
};

static const struct {
    const char *name, *what, *recipe, *settings;
    const char *before;       /* mixers before linear attention */
    size_t steps[ICL_SCALES]; /* 0: not at this scale */
} tasks[TASKS] = {
    {"dynamics", "dynamical system", "mesa", "eval.predictors=", "", {60, 1000, 10000}},
    {"recall", "recall", "recall", "eval.predictors= eval.every=0", "conv,", {0, 600, 6000}},
};

static const double momenta[MOMENTA] = {0, .5, .9};

static const size_t seeds[ICL_SCALES] = {2, 3, 5};

/* ---- Cells ---- */

static icl_phrase name_mixer(const char *before, double momentum) {
    return icl_phrase_print("model.mixer=%smomentum model.momentum=%g", before, momentum);
}

/* Adds the cells of a task, seed by seed, those of linear attention first; at[0] is the index of the linear attention
 * cell with the same seed. */
static void plan_task(icl_study *study, size_t task) {
    const size_t first = study->count;

    for (size_t i = 0; i < MOMENTA; i++)
        for (size_t k = 0; k < seeds[study->scale]; k++) {
            const uint32_t seed = icl_study_seed(study, k);
            const double b = momenta[i];
            ICL_ADD_CELL(study, .name = ICL_PHRASE(b > 0 ? "%s, b = %g" : "%s, linear attention", tasks[task].what, b),
                         .group = tasks[task].name, .recipe = tasks[task].recipe, .seed = seed, .at = {first + k},
                         .folder = ICL_PHRASE("%s-momentum-%g-seed%" PRIu32, tasks[task].name, b, seed),
                         .settings = {tasks[task].settings,
                                      ICL_PHRASE("train.steps=%zu", tasks[task].steps[study->scale]),
                                      b > 0 ? name_mixer(tasks[task].before, b).text
                                            : ICL_PHRASE("model.mixer=%slinear", tasks[task].before)},
                         .curve = tasks[task].what, .x = b);
        }
}

static void plan(icl_study *study) {
    for (size_t i = 0; i < sizeof exact_cells / sizeof *exact_cells; i++)
        ICL_ADD_CELL(study, .name = exact_cells[i].name, .group = "exact", .recipe = "mesa", .is_untrained = true,
                     .settings = {"eval.predictors=", name_mixer("", exact_cells[i].momentum).text},
                     .data = &exact_cells[i]);
    for (size_t task = 0; task < TASKS; task++)
        if (tasks[task].steps[study->scale] > 0)
            plan_task(study, task);
}

/* ---- Exact layers ---- */

enum { DIFFERENCE = 0, FACTOR, LOSS, ACCURACY, ABOVE, NUMBERS }; /* the last one: loss above that of linear attention */

/* Outputs [SEQUENCES][scored][width]. */
typedef struct outputs {
    icl_batch batch;
    float *linear, *ball, *stepwise; /* outputs for whole sequences, and from states */
} outputs;

/* Writes one token for each sequence to all of its positions. */
static icl_status repeat_tokens(const icl_study *study, const icl_batch *batch, icl_error *error) {
    const size_t positions = batch->shape.positions, width = batch->shape.inputs;
    float *inputs = NULL;

    ICL_CHECK(icl_study_read(study, batch->inputs, &inputs, error));
    for (size_t row = 0; row < batch->size * positions; row++)
        for (size_t i = 0; i < width; i++) /* the token of the last position, which is not a copy of zeros */
            inputs[row * width + i] = inputs[(row / positions * positions + positions - 1) * width + i];
    return icl_tensor_write(batch->inputs, inputs, error);
}

/* Predicts by linear attention. Models of all momenta begin with the same parameters, which have the same names and
 * shapes. */
static icl_status predict_linear(const icl_study *study, outputs *out, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_trainer *linear = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_recipe("mesa", &recipe, error));
    ICL_TRY(icl_recipe_set_count(recipe, ICL_TRAIN_KEY(seed), study->run->params->seed, error));
    ICL_TRY(icl_trainer_create(study->run->params->backend, recipe, &linear, error));
    ICL_TRY(icl_trainer_predict(linear, &out->batch, out->linear, error));
done:
    icl_trainer_destroy(&linear);
    icl_recipe_destroy(&recipe);
    return status;
}

/* Returns the largest difference over the largest number of a. */
static double relative_distance(const float *a, const float *b, size_t count) {
    double worst = 0, largest = 0;

    for (size_t i = 0; i < count; i++) {
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
        largest = fmax(largest, fabs((double)a[i]));
    }
    return worst / largest;
}

/* After t equal tokens linear attention gives y + t c, and with momentum y + t f_t c. Returns the f_t of the outputs,
 * as a mean over sequences and numbers weighted by |c|. */
static double measure_factor(const outputs *seen, size_t t) {
    const size_t width = seen->batch.shape.outputs, last = seen->batch.shape.scored - 1;
    double product = 0, square = 0;

    for (size_t row = 0; row < SEQUENCES; row++)
        for (size_t i = 0; i < width; i++) {
            const size_t first = row * (last + 1) * width + i;
            const double c = ((double)seen->linear[first + last * width] - (double)seen->linear[first]) / (double)last;
            const double y = (double)seen->linear[first] - c;
            product += c * ((double)seen->ball[first + (t - 1) * width] - y) / (double)t;
            square += c * c;
        }
    return product / square;
}

static icl_status measure_exact(icl_study *study, const exact_cell *exact, icl_trainer *ball, icl_number *numbers,
                                icl_error *error) {
    outputs out = {.linear = NULL};

    ICL_CHECK(icl_study_batch(study, icl_trainer_task(ball), SEQUENCES, 0, 0, &out.batch, error));
    if (exact->equal > 0)
        ICL_CHECK(repeat_tokens(study, &out.batch, error));
    const size_t count = SEQUENCES * out.batch.shape.scored * out.batch.shape.outputs;
    ICL_CHECK(icl_study_room(study, 3 * count, sizeof *out.linear, &out.linear, error));
    out.ball = out.linear + count;
    out.stepwise = out.ball + count;
    ICL_CHECK(predict_linear(study, &out, error));
    ICL_CHECK(icl_trainer_predict(ball, &out.batch, out.ball, error));
    ICL_CHECK(icl_trainer_decode(ball, &out.batch, out.stepwise, error));
    if (exact->equal > 0)
        numbers[FACTOR].value = measure_factor(&out, exact->equal);
    numbers[DIFFERENCE].value = exact->from_states ? relative_distance(out.ball, out.stepwise, count)
                                                   : relative_distance(out.linear, out.ball, count);
    return ICL_OK;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    icl_evaluation *evaluation = NULL;

    if (cell->is_untrained)
        return measure_exact(study, cell->data, trained, numbers, error);
    ICL_CHECK(icl_study_evaluate(study, cell, trained, NULL, &evaluation, error));
    numbers[LOSS].value = evaluation->scores[0].mse;
    numbers[ACCURACY].value = evaluation->scores[0].accuracy;
    numbers[ABOVE].value = numbers[LOSS].value - study->cells[cell->at[0]]->numbers[LOSS].value;
    return ICL_OK;
}

/* ---- Judging ---- */

/* Rounding of sums of fewer than 100 terms of single precision, with numbers up to ten times as large as the
 * results. */
#define ROUNDING (1000 * 0x1p-24)

#define DIFFERENCE_CHECK(cells, target, tolerance, criterion, source)                                                  \
    {                                                                                                                  \
        "largest difference", cells, DIFFERENCE, target, NULL, {tolerance, tolerance, tolerance}, {0}, 0, criterion,   \
            ICL_COMPUTED, source, NULL                                                                                 \
    }

static const icl_study_check_row checks[] = {
    DIFFERENCE_CHECK("b = 0 beside", 0, 0, ICL_WITHIN, "the same operations"),
    DIFFERENCE_CHECK("b = 0.9 beside", .1, 0, ICL_AT_LEAST, "another state"),
    DIFFERENCE_CHECK("from states", 0, ROUNDING, ICL_WITHIN, "rounding"),
    ICL_ROW(.quantity = "loss above that of linear attention", .only = ", b = ", .number = ABOVE,
            .note = "seed by seed"),
};

static void judge_factor(icl_study *study, const icl_study_cell *cell, const exact_cell *data) {
    const double b = data->momentum, t = (double)data->equal, limit = 1 / (1 - b);

    ICL_JUDGE(study, .quantity = "factor", ICL_OURS(cell->numbers[FACTOR]),
              .target = limit * (1 - b * (1 - pow(b, t)) / (t * (1 - b))), .tolerance = limit * ROUNDING,
              .evidence = ICL_COMPUTED, .source = "geometric sums", .note = ICL_PHRASE("the limit is %g", limit));
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    const exact_cell *data = cell->data;

    if (data) {
        if (data->equal > 0)
            judge_factor(study, cell, data);
        return;
    }
    const icl_number accuracy = icl_over_seeds(study, cell, ACCURACY);
    ICL_JUDGE(study, .quantity = "loss", ICL_OURS(icl_over_seeds(study, cell, LOSS)),
              .note = isnan(accuracy.value)
                          ? NULL
                          : ICL_PHRASE("accuracy %.4f +- %.4f", accuracy.value, accuracy.standard_error));
}

#define LOSS_FIGURE(task, cells)                                                                                       \
    {                                                                                                                  \
        .figure = {.name = task, .title = "Loss by momentum", .x_label = "momentum b", .y_label = "loss"},             \
        .only = cells, .number = LOSS                                                                                  \
    }

static const icl_study_figure_row figures[] = {LOSS_FIGURE("dynamics", "dynamical"), LOSS_FIGURE("recall", "recall")};

const icl_reproduction icl_momentum_recurrence = ICL_STUDY(
        .name = "momentum-recurrence", .source = "arXiv 2208.00579",
        .about = "linear attention with momentum: what is exact, and its loss by momentum",
        .claim = "Linear attention with momentum is a recurrence whose state takes steps of the heavy ball, and with a "
                 "momentum of 0 it is linear attention.",
        .scope = "A met table means that the op is the recurrence of the heavy ball, in three exact "
                 "identities; whether momentum helps trained models is shown and not judged.",
        .cost = {"3 s", "5 min", "2 h"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
        ICL_CHECKS(checks), ICL_FIGURES(figures));
