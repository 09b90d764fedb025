/*
 * The constructions of von Oswald et al. 2022, "Transformers learn in-context by gradient descent" (arXiv 2212.07677),
 * proposition 1 and appendix: a layer of linear self-attention with W_K^T W_Q = diag(I, 0) and P = diag(0, -rate) is
 * one step of gradient descent, and with P = diag(-input I, -rate) one of GD++. Their predictions are compared with the
 * algorithms themselves, computed in double precision without attention, and the loss of one step with its closed form.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "papers/checked.h"
#include "papers/papers.h"
#include "run/evaluation.h"

enum { D = ICL_GD_DIMENSION, N = ICL_GD_CONTEXT, MOST_STEPS = 16, SEQUENCES = 2048 };

/* ---- Weights that are an algorithm's ---- */

/* One step of gradient descent on x uniform on [-a, a]^d, w ~ N(0, I), n pairs: its best rate for raw sums, and half of
 * the expected squared error. With S = sum_j x_j x_j^T, v = a^2 / 3 and E x^4 = a^4 / 5 the error is v / 2 tr
 * E (I - rate S)^2. */
typedef struct gd_step {
    double rate, half_loss;
} gd_step;
static gd_step best_step_of(double a, size_t d, size_t n) {
    const double v = a * a / 3, fourth = a * a * a * a / 5, dimension = (double)d, count = (double)n;
    const double trace = count * dimension * v;
    /* E tr S^2 = n E |x|^4 + n (n - 1) d v^2, E |x|^4 = d E x^4 + d (d - 1) v^2. */
    const double square =
        count * (dimension * fourth + dimension * (dimension - 1) * v * v) + count * (count - 1) * dimension * v * v;

    return (gd_step){.rate = trace / square, .half_loss = v / 2 * (dimension - trace * trace / square)};
}

void icl_gd_construct(const icl_model *model, const icl_descent *descent, size_t d, size_t n, float *values) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        const char part = info->name[strlen(info->name) - 1];
        const size_t layer = (size_t)strtoull(info->name + strlen("layer."), NULL, 10);
        const double rate = descent->rates[layer], input = descent->inputs ? descent->inputs[layer] : 0;
        const double x = part == 'P' ? -input : part == 'A' ? -rate * (double)n : (double)n;
        const double y = part == 'P' ? -rate : 0;
        float *const entries = values + info->offset;

        memset(entries, 0, info->count * sizeof *entries);
        if (info->rank == 1) { /* entries for inputs and (except in gd++'s Q) for the label */
            entries[0] = (float)x;
            if (info->count > 1)
                entries[1] = (float)y;
            continue;
        }
        for (size_t k = 0; k < info->shape[0]; k++)
            entries[k * info->shape[1] + k] = (float)(k < d ? x : y);
    }
}

/* The similarity of the sensitivities of the trainer's model and of the descent, on evaluation sequences: five numbers,
 * from the root mean squares of the difference of predictions and of predictions on. */
enum {
    DIFFERENCE = 0,
    PREDICTION,
    RELATIVE, /* the quotient of the two above */
    COSINE,
    DISTANCE,
    ALIGNMENT
};

static icl_status align(const icl_study *study, icl_trainer *trainer, const icl_descent *descent, size_t sequences,
                        icl_number numbers[ALIGNMENT], icl_error *error) {
    const icl_reproduce_params *params = study->run->params;
    const icl_model *model = icl_trainer_model(trainer);
    const size_t n = icl_task_context(icl_trainer_task(trainer));
    icl_sequences drawn = {0};
    double *algorithm = NULL, *ours = NULL, *scratch = NULL;
    float *values = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_sequences_create(params->backend, icl_trainer_task(trainer), params->seed, &drawn, error));
    const size_t count = sequences < drawn.chunk ? sequences : drawn.chunk;
    ICL_TRY(icl_study_parameters(study, trainer, &values, error));
    ICL_TRY(icl_study_room(study, count, D * sizeof *algorithm, &algorithm, error));
    ICL_TRY(icl_study_room(study, count, D * sizeof *ours, &ours, error));
    ICL_TRY(icl_study_room(study, icl_descent_scratch(D, n), sizeof *scratch, &scratch, error));
    ICL_TRY(icl_sequences_sample(&drawn, 0, error));
    ICL_TRY(icl_tensor_read(drawn.batch.inputs, drawn.inputs, error));
    ICL_TRY(icl_sensitivity(params->backend, model, D, n, values, count, drawn.inputs, ours, error));
    icl_descent_weights(descent, D, n, count, drawn.inputs, scratch, algorithm);
    const icl_alignment alignment = icl_align(D, n, count, drawn.inputs, algorithm, ours);
    numbers[DIFFERENCE].value = alignment.predictions;
    numbers[PREDICTION].value = alignment.mean_prediction;
    numbers[RELATIVE].value = alignment.predictions / alignment.mean_prediction;
    numbers[COSINE].value = alignment.cosine;
    numbers[DISTANCE].value = alignment.sensitivities;
done:
    icl_sequences_release(&drawn);
    return status;
}

/* ---- gd-construction: models that are not trained ---- */

/* Uses steps of a length that is stable for nearly every context, the same for all layers. */
#define STABLE_RATE  0.3
#define STABLE_INPUT 0.1

typedef struct construction {
    const char *name, *form;
    size_t steps;
    double input; /* of GD++ */
    bool is_best; /* one step with the best rate, which the paper finds by a search */
} construction;

static const construction constructions[] = {
    {"full-1-step", "full", 1, 0, false},
    {"full-2-steps", "full", 2, 0, false},
    {"full-16-steps", "full", 16, 0, false},
    {"sparse-16-steps", "sparse", 16, 0, false},
    {"tied-16-steps", "full model.tied=true", 16, 0, false},
    {"full-2-steps-gd++", "full", 2, STABLE_INPUT, false},
    {"full-16-steps-gd++", "full", 16, STABLE_INPUT, false},
    {"tied-16-steps-gd++", "gd++ model.tied=true", 16, STABLE_INPUT, false},
    {"best-step", "full", 1, 0, true},
};

static void plan_construction(icl_study *study) {
    for (size_t i = 0; i < sizeof constructions / sizeof *constructions; i++)
        ICL_ADD_CELL(study, .name = constructions[i].name, .data = &constructions[i], .recipe = "gd",
                     .is_untrained = true,
                     .settings = {ICL_PHRASE("model.layers=%zu model.parameterization=%s", constructions[i].steps,
                                             constructions[i].form)});
}

/* ---- gd-construction: numbers ---- */

/* The squared error is measured for the best single step. */
enum { ROUNDING = ALIGNMENT, STEP_LOSS, CONSTRUCTION_NUMBERS };

/* Bounds the rounding of K stable steps, relative and in root mean square: a step sums n products of d products, rounds
 * the parameters, which are floats on any device, and magnifies no earlier error. */
static double rounding(const icl_backend *backend, size_t steps) {
    const bool is_double = icl_backend_capabilities(backend)->element_size == sizeof(double);
    return (double)steps * (is_double ? 3 : N + D + 8) * (double)FLT_EPSILON;
}

static icl_status measure_construction(icl_study *study, const icl_study_cell *cell, icl_trainer *trainer,
                                       icl_number *numbers, icl_error *error) {
    const construction *data = cell->data;
    const icl_model *model = icl_trainer_model(trainer);
    const size_t sequences = study->scale == ICL_SCALE_CI ? 50000 : 400000;
    double rates[MOST_STEPS], inputs[MOST_STEPS];
    const icl_descent descent = {data->steps, rates, data->input > 0 ? inputs : NULL};
    float *values = NULL;

    for (size_t i = 0; i < data->steps; i++) {
        rates[i] = data->is_best ? best_step_of(.5, D, N).rate : STABLE_RATE;
        inputs[i] = data->input;
    }
    ICL_CHECK(icl_study_room(study, icl_model_size(model), sizeof *values, &values, error));
    icl_gd_construct(model, &descent, D, N, values);
    ICL_CHECK(icl_trainer_set_parameters(trainer, values, error));
    numbers[ROUNDING].value = rounding(study->run->params->backend, data->steps);
    return data->is_best ? icl_study_loss(study, trainer, sequences, &numbers[STEP_LOSS], error)
                         : align(study, trainer, &descent, SEQUENCES, numbers, error);
}

/* ---- gd-construction: judging ---- */

static void judge_construction(icl_study *study, const icl_study_cell *cell) {
    const construction *data = cell->data;
    const icl_number *numbers = cell->numbers, loss = numbers[STEP_LOSS];
    const gd_step best = best_step_of(.5, D, N);

    if (data->is_best)
        ICL_JUDGE(study, .quantity = "half squared error", .ours = .5 * loss.value,
                  .standard_error = .5 * loss.standard_error, .target = best.half_loss,
                  .tolerance = 2 * loss.standard_error, .evidence = ICL_COMPUTED, .source = "closed form",
                  .note = ICL_PHRASE("rate %.4f for raw sums, %.3f / n", best.rate, best.rate * N));
    else
        ICL_JUDGE(study, .quantity = "difference of predictions, relative", ICL_OURS(numbers[RELATIVE]),
                  .tolerance = numbers[ROUNDING].value, .criterion = ICL_AT_MOST, .evidence = ICL_READ,
                  .source = "proposition 1",
                  .note = ICL_PHRASE("1 - cosine of sensitivities %.1e, their distance %.1e", 1 - numbers[COSINE].value,
                                     numbers[DISTANCE].value));
}

const icl_reproduction icl_gd_construction =
    ICL_STUDY(.name = "gd-construction", .source = "arXiv 2212.07677, proposition 1",
              .about = "weights that make layers steps of gradient descent and GD++, against the algorithms",
              .claim =
                  "There are weights with which layers of linear attention are steps of gradient descent, or of GD++.",
              .scope = "A met table means that the op computes these steps of gradient descent to rounding with "
                       "weights by hand; whether training finds such weights is asked by gd-trained.",
              .cost = {"1 s", "2 s", NULL}, .numbers = CONSTRUCTION_NUMBERS, .plan = plan_construction,
              .measure = measure_construction, .judge = judge_construction);

/* ---- gd-trained and gd-recurrent ---- */

/*
 * Trained layers beside gradient descent: von Oswald et al. 2022, "Transformers learn in-context by gradient descent"
 * (arXiv 2212.07677), for x uniform on [-1/2, 1/2]^10.
 *
 * gd-trained (sections 3 and 4, ten pairs): one full layer learns one step of gradient descent, two learn two steps of
 * GD++. The paper's measures: losses, the difference of predictions, cosine and distance of the sensitivities d
 * prediction / d x, the loss of the average of learned and constructed weights, and losses for inputs scaled by a
 * factor that training never saw.
 *
 * gd-recurrent (section 4): one layer applied again and again. Two applications are trained; in the form of GD++ their
 * two numbers are its rate and gamma, x <- (I - gamma X^T X) x, whose fitted values the paper lists for four lengths of
 * the context. Then the layer is applied up to fifty times, every change to a token multiplied by .75.
 */

enum { WIDTH = D + 1, LAYER = 2 * WIDTH * WIDTH };

/* Computes half losses of two parameter vectors under the cell's recipe with one more setting. */
static icl_status measure_half_losses(const icl_study *study, const icl_study_cell *cell, const char *setting,
                                      size_t sequences, const float *const vectors[2], icl_number *first,
                                      icl_number *second, icl_error *error) {
    icl_paired_loss losses[2];

    ICL_CHECK(icl_reproduce_losses_as(study->run, cell->complete, setting, sequences, 2, vectors, losses, error));
    first->value = .5 * losses[0].mse;
    second->value = .5 * losses[1].mse;
    return ICL_OK;
}

/* ---- One and two layers: cells ---- */

enum { MOST_LAYERS = 2, FACTORS = 7 };

/* Finds rates for raw sums that minimise the loss, by a fit of the descent itself to 300,000 contexts; for one step by
 * its closed form. */
typedef struct trained_cell {
    const char *name, *parameterization;
    size_t layers;
    double rates[MOST_LAYERS], inputs[MOST_LAYERS];
    double half_loss;
    /* The tolerance for scaled inputs, for which the losses of two layers and of two steps grow very large, but not
     * equally. */
    double scaled;
    const char *algorithm;
    icl_scale first;
} trained_cell;

static const trained_cell trained_cells[] = {
    {"full-L1", "full", 1, {.60606}, {0}, .20623, .05, "gradient descent", ICL_SCALE_CI},
    {"sparse-L2", "sparse", 2, {1.15732, .400503}, {0}, .1417, .1, "gradient descent", ICL_SCALE_SHORT},
    {"full-L2", "full", 2, {.410784, 3.63928}, {.398084}, .0929, 1, "GD++", ICL_SCALE_CI},
};

static const struct {
    size_t steps, batch, sequences;
    double loss, average; /* relative tolerances */
} trained_budgets[ICL_SCALES] = {
    {800, 512, 40000, .06, .1}, {4000, 2048, 200000, .02, .05}, {20000, 2048, 400000, .02, .05}};

static const double factors[FACTORS] = {.5, .75, 1, 1.25, 1.5, 1.75, 2};

static void plan_trained(icl_study *study) {
    for (size_t i = 0; i < sizeof trained_cells / sizeof *trained_cells; i++) {
        const trained_cell *cell = &trained_cells[i];
        if (study->scale >= cell->first)
            ICL_ADD_CELL(study, .name = cell->name, .data = cell, .recipe = "gd",
                         .settings = {ICL_PHRASE("model.layers=%zu model.parameterization=%s", cell->layers,
                                                 cell->parameterization),
                                      ICL_PHRASE("train.steps=%zu train.batch=%zu", trained_budgets[study->scale].steps,
                                                 trained_budgets[study->scale].batch),
                                      "train.starts=1 train.polish=off"});
    }
}

/* ---- One and two layers: numbers ---- */

/* Half losses of the constructed and of the learned weights, the excess of learned and averaged weights over the
 * constructed ones; and the first two by the factor of the inputs. */
enum {
    ALGORITHM = ALIGNMENT,
    LEARNED,
    EXCESS,
    AVERAGE_EXCESS,
    SCALED_ALGORITHM,
    SCALED_LEARNED = SCALED_ALGORITHM + FACTORS,
    TRAINED_NUMBERS = SCALED_LEARNED + FACTORS
};

static icl_descent descent_of(const trained_cell *cell) {
    return (icl_descent){cell->layers, cell->rates, cell->inputs[0] > 0 ? cell->inputs : NULL};
}

/* Steps of plain gradient descent may change places (lemma 4 of arXiv 2306.00297): takes the order that is nearer to
 * the learned weights. */
static void construct(const trained_cell *cell, const icl_model *model, const float *learned, float *values) {
    const double swapped[MOST_LAYERS] = {cell->rates[1], cell->rates[0]};
    const icl_descent descent = descent_of(cell), other = {cell->layers, swapped, NULL};
    double apart[2] = {0, 0};

    icl_gd_construct(model, &descent, D, N, values);
    if (cell->layers < 2 || descent.inputs)
        return;
    for (int order = 0; order < 2; order++) {
        icl_gd_construct(model, order == 0 ? &descent : &other, D, N, values);
        for (size_t k = 0; k < icl_model_size(model); k++)
            apart[order] += fabs((double)values[k] - (double)learned[k]);
    }
    if (apart[0] < apart[1])
        icl_gd_construct(model, &descent, D, N, values);
}

/* Scales every full layer's P so that its last corner is 1, and Q inversely, which changes no prediction: the freedom
 * (g P, Q / g) must be removed from weights before they are averaged. */
static void normalise(const icl_model *model, float *values) {
    for (size_t i = 0; i + 1 < icl_model_parameter_count(model); i += 2) {
        const icl_parameter_info *p = icl_model_parameter(model, i), *q = icl_model_parameter(model, i + 1);
        const double scale = 1 / (double)values[p->offset + p->count - 1];
        for (size_t k = 0; k < p->count; k++) {
            values[p->offset + k] = (float)((double)values[p->offset + k] * scale);
            values[q->offset + k] = (float)((double)values[q->offset + k] / scale);
        }
    }
}

static icl_status measure_trained(icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                  icl_number *numbers, icl_error *error) {
    const trained_cell *data = cell->data;
    const icl_descent descent = descent_of(data);
    const icl_model *model = icl_trainer_model(trained);
    const size_t sequences = trained_budgets[study->scale].sequences;
    float constructed[MOST_LAYERS * LAYER], learned[MOST_LAYERS * LAYER], average[MOST_LAYERS * LAYER];
    const float *const vectors[] = {constructed, learned, average};
    icl_paired_loss losses[3];

    ICL_CHECK(align(study, trained, &descent, 2048, numbers, error));
    ICL_CHECK(icl_trainer_get_parameters(trained, learned, error));
    construct(data, model, learned, constructed);
    if (strcmp(data->parameterization, "full") == 0) {
        normalise(model, constructed);
        normalise(model, learned);
    }
    for (size_t k = 0; k < icl_model_size(model); k++)
        average[k] = .5F * (constructed[k] + learned[k]);
    ICL_CHECK(icl_reproduce_losses(study->run, trained, sequences, 3, vectors, losses, error));
    numbers[ALGORITHM] = (icl_number){.5 * losses[0].mse, .5 * losses[0].se};
    numbers[LEARNED] = (icl_number){.5 * losses[1].mse, .5 * losses[1].se};
    numbers[EXCESS] = (icl_number){.5 * losses[1].excess, .5 * losses[1].excess_se};
    numbers[AVERAGE_EXCESS] = (icl_number){.5 * losses[2].excess, .5 * losses[2].excess_se};
    for (size_t i = 0; i < FACTORS; i++)
        ICL_CHECK(measure_half_losses(study, cell, ICL_PHRASE("task.inputs=uniform:%g", .5 * factors[i]), sequences / 4,
                                      vectors, &numbers[SCALED_ALGORITHM + i], &numbers[SCALED_LEARNED + i], error));
    return ICL_OK;
}

/* ---- One and two layers: judging ---- */

/* The loss of one step is known exactly, and a difference to it scatters far less. */
static void judge_losses(icl_study *study, const icl_study_cell *cell) {
    const trained_cell *data = cell->data;
    const icl_number *numbers = cell->numbers, excess = numbers[EXCESS];
    const bool is_exact = data->layers == 1;
    const double algorithm = is_exact ? data->half_loss : numbers[ALGORITHM].value;
    const double own = is_exact ? excess.standard_error : numbers[LEARNED].standard_error;

    ICL_JUDGE(study, .quantity = "half squared error", .ours = algorithm + excess.value, .standard_error = own,
              .target = data->half_loss,
              .tolerance = trained_budgets[study->scale].loss * data->half_loss + (is_exact ? 0 : 2 * own),
              .evidence = ICL_COMPUTED, .source = is_exact ? "closed form" : "minimised directly",
              .note = ICL_PHRASE("%s %.4f on the same sequences, difference %.1e +- %.0e", data->algorithm,
                                 numbers[ALGORITHM].value, excess.value, excess.standard_error));
    ICL_JUDGE(study, .quantity = "half squared error of averaged weights",
              .ours = algorithm + numbers[AVERAGE_EXCESS].value, .standard_error = own, .target = algorithm,
              .tolerance = trained_budgets[study->scale].average * algorithm, .criterion = ICL_AT_MOST,
              .evidence = ICL_STATED, .source = "section 3, figure 2",
              .note = "learned and constructed weights, halfway");
}

/* Judges losses for larger or smaller inputs where the two are farthest apart. */
static void judge_scaled(icl_study *study, const icl_study_cell *cell) {
    const trained_cell *data = cell->data;
    const icl_number *learned = cell->numbers + SCALED_LEARNED, *algorithm = cell->numbers + SCALED_ALGORITHM;
    const icl_phrase name = icl_phrase_print("scaled-inputs-%s", cell->name);
    const icl_phrase title = icl_phrase_print("von Oswald et al., figure 2: inputs of another scale, %s", cell->name);
    icl_curves curves =
        ICL_CURVES(.name = name.text, .title = title.text, .x_label = "scale of the inputs, 1 in training",
                   .y_label = "half squared error", .log_y = true);
    double worst = 0;
    size_t farthest = 0;

    for (size_t i = 0; i < FACTORS; i++) {
        const double apart = fabs(log(learned[i].value / algorithm[i].value));
        if (!(apart <= worst)) {
            worst = apart;
            farthest = i;
        }
    }
    ICL_JUDGE(study, .quantity = "inputs scaled by 1/2 to 2: largest |ln| of the losses' ratio", .ours = worst,
              .tolerance = data->scaled, .criterion = ICL_AT_MOST, .evidence = ICL_INFERRED, .source = "figure 2",
              .note = ICL_PHRASE("at %g: %.4g, %s %.4g", factors[farthest], learned[farthest].value, data->algorithm,
                                 algorithm[farthest].value));
    icl_study_plot_numbers(study, &curves, "learned", ICL_SERIES_OURS, factors, learned, FACTORS);
    icl_study_plot_numbers(study, &curves, data->algorithm, ICL_SERIES_REFERENCE, factors, algorithm, FACTORS);
    icl_study_draw(study, &curves);
}

static const icl_study_check_row trained_checks[] = {
    ICL_ROW(.quantity = "cosine of sensitivities", .number = COSINE, .target = 1,
            .absolute = {1 - .97, 1 - .99, 1 - .99}, .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED,
            .source = "figure 2", .note = "with those of the algorithm; their distance {}", .beside = {DISTANCE}),
    ICL_ROW(.quantity = "difference of predictions, relative", .number = RELATIVE, .absolute = {.2, .1, .1},
            .criterion = ICL_AT_MOST, .evidence = ICL_INFERRED, .source = "figure 2",
            .note = "{} of {}, root mean squares", .beside = {DIFFERENCE, PREDICTION}),
};

static void judge_trained(icl_study *study, const icl_study_cell *cell) {
    judge_losses(study, cell);
    judge_scaled(study, cell);
}

const icl_reproduction icl_gd_trained =
    ICL_STUDY(.name = "gd-trained", .source = "arXiv 2212.07677, figures 2 and 3",
              .about = "one and two trained layers beside steps of gradient descent and GD++",
              .claim =
                  "One trained layer of linear attention is a step of gradient descent, and two are two steps of GD++.",
              .scope = "A met table means that one and two trained layers predict nearly what their steps do, on "
                       "inputs of the training's law and on scaled ones; deeper models, noise and softmax "
                       "attention were not tested.",
              .cost = {"2 s", "1 min", "4 min"}, .numbers = TRAINED_NUMBERS, .plan = plan_trained,
              .measure = measure_trained, ICL_CHECKS(trained_checks), .judge = judge_trained);

/* ---- A layer applied again and again: cells ---- */

enum { DEPTHS = 12 };

#define DAMPING 0.75

static const double depths[DEPTHS] = {1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50};

typedef struct recurrent_cell {
    const char *name, *parameterization;
    size_t n, batch;         /* sequences of a step; longer contexts need fewer */
    double half_loss, gamma; /* 0: there is no target */
    bool is_repeated;
    icl_scale first;
} recurrent_cell;

static const recurrent_cell recurrent_cells[] = {
    {"gd-n10", "sparse", 10, 2048, .1570, 0, false, ICL_SCALE_SHORT},
    {"gd++-n10", "gd++", 10, 2048, .1109, .179, true, ICL_SCALE_CI},
    {"full-n10", "full", 10, 2048, .1109, 0, true, ICL_SCALE_SHORT},
    {"gd++-n25", "gd++", 25, 1024, 0, .099, false, ICL_SCALE_SHORT},
    {"gd++-n50", "gd++", 50, 512, 0, .056, false, ICL_SCALE_SHORT},
    {"gd++-n100", "gd++", 100, 512, 0, .029, false, ICL_SCALE_SHORT},
};

static const struct {
    size_t steps, batch, sequences; /* batch: at most */
    double loss_tolerance, gamma_tolerance;
} recurrent_budgets[ICL_SCALES] = {
    {800, 512, 40000, .05, .1}, {2000, 2048, 200000, .02, .05}, {20000, 2048, 400000, .02, .05}};

static bool is_plus(const recurrent_cell *cell) {
    return strcmp(cell->parameterization, "gd++") == 0;
}

static void plan_recurrent(icl_study *study) {
    const size_t most = recurrent_budgets[study->scale].batch, steps = recurrent_budgets[study->scale].steps;

    for (size_t i = 0; i < sizeof recurrent_cells / sizeof *recurrent_cells; i++) {
        const recurrent_cell *cell = &recurrent_cells[i];
        if (study->scale >= cell->first)
            ICL_ADD_CELL(study, .name = cell->name, .data = cell, .has_start = is_plus(cell), .recipe = "gd",
                         .settings = {"model.layers=2 model.tied=true",
                                      ICL_PHRASE("model.parameterization=%s", cell->parameterization),
                                      ICL_PHRASE("task.n=%zu train.batch=%zu train.steps=%zu", cell->n,
                                                 cell->batch < most ? cell->batch : most, steps),
                                      "train.starts=1 train.polish=off"});
    }
}

/* Starts at GD++ with somewhat more than the best single step's rate, and P and Q of similar size; training ends
 * elsewhere, but from this start it gets there for every n. From the recipe's start, long contexts end in a minimum at
 * which inputs grow. */
static icl_status begin_recurrent(icl_study *study, const icl_study_cell *cell, icl_trainer *from,
                                  const icl_model *model, float *values, icl_error *error) {
    const recurrent_cell *data = cell->data;
    const double rate = 1.5 * best_step_of(.5, D, data->n).rate, q = sqrt(rate * (double)data->n);

    (void)study, (void)from, (void)model, (void)error;
    values[0] = (float)(-.2 * q);
    values[1] = (float)-q;
    values[2] = (float)q;
    return ICL_OK;
}

/* ---- A layer applied again and again: numbers ---- */

/* The squared error, the two numbers of GD++, and half losses of 1 to 50 applications, undamped (as trained) and
 * damped. */
enum { LOSS = 0, GAMMA, RATE, AS_TRAINED, DAMPED = AS_TRAINED + DEPTHS, RECURRENT_NUMBERS = DAMPED + DEPTHS };

/* The change of a token is proportional to P, which stands before Q. */
static icl_status measure_repeated(icl_study *study, const icl_study_cell *cell, const icl_model *model,
                                   const float *values, icl_number *numbers, icl_error *error) {
    const size_t count = icl_model_parameter(model, 0)->count;
    float damped[LAYER];
    const float *const vectors[] = {values, damped};

    for (size_t k = 0; k < icl_model_size(model); k++)
        damped[k] = k < count ? (float)(DAMPING * (double)values[k]) : values[k];
    for (size_t i = 0; i < DEPTHS; i++)
        ICL_CHECK(measure_half_losses(study, cell, ICL_PHRASE("model.layers=%.0f", depths[i]), 8192, vectors,
                                      &numbers[AS_TRAINED + i], &numbers[DAMPED + i], error));
    return ICL_OK;
}

/* Measures gamma for raw sums, -p_x q_x / n, and the rate, -p_y q_x / n. */
static icl_status measure_recurrent(icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                    icl_number *numbers, icl_error *error) {
    const recurrent_cell *data = cell->data;
    const size_t sequences = recurrent_budgets[study->scale].sequences;
    float values[LAYER];

    ICL_CHECK(icl_trainer_get_parameters(trained, values, error));
    if (data->half_loss > 0)
        ICL_CHECK(icl_study_loss(study, trained, sequences, &numbers[LOSS], error));
    if (is_plus(data)) {
        numbers[GAMMA].value = -(double)values[0] * (double)values[2] / (double)data->n;
        numbers[RATE].value = -(double)values[1] * (double)values[2] / (double)data->n;
    }
    return data->is_repeated ? measure_repeated(study, cell, icl_trainer_model(trained), values, numbers, error)
                             : ICL_OK;
}

/* ---- A layer applied again and again: judging ---- */

static void judge_repeated(icl_study *study, const icl_study_cell *cell) {
    const icl_number *trained = cell->numbers + AS_TRAINED, *damped = cell->numbers + DAMPED;
    const icl_phrase name = icl_phrase_print("applied-again-%s", cell->name);
    const icl_phrase title =
        icl_phrase_print("von Oswald et al., section 4: a layer trained for two applications, %s", cell->name);
    icl_curves curves = ICL_CURVES(.name = name.text, .title = title.text, .x_label = "applications",
                                   .y_label = "half squared error", .log_x = true, .log_y = true);

    ICL_JUDGE(study, .quantity = "half squared error of 50 damped applications", ICL_OURS(damped[DEPTHS - 1]),
              .target = trained[1].value, .criterion = ICL_AT_MOST, .evidence = ICL_INFERRED,
              .source = "figure 4: further applications help",
              .note = ICL_PHRASE("two applications as trained: %.4f", trained[1].value));
    icl_study_plot_numbers(study, &curves, "damped by .75", ICL_SERIES_OURS, depths, damped, DEPTHS);
    icl_study_plot_numbers(study, &curves, "as trained", ICL_SERIES_LINE, depths, trained, DEPTHS);
    icl_study_draw(study, &curves);
}

static void judge_recurrent(icl_study *study, const icl_study_cell *cell) {
    const recurrent_cell *data = cell->data;
    const icl_number *numbers = cell->numbers, loss = numbers[LOSS];

    if (data->half_loss > 0)
        ICL_JUDGE(study, .quantity = "half squared error", .ours = .5 * loss.value,
                  .standard_error = .5 * loss.standard_error, .target = data->half_loss,
                  .tolerance = recurrent_budgets[study->scale].loss_tolerance * data->half_loss + loss.standard_error,
                  .evidence = ICL_COMPUTED, .source = "minimised directly");
    if (data->gamma > 0)
        ICL_JUDGE(study, .quantity = "gamma", ICL_OURS(numbers[GAMMA]), .target = data->gamma,
                  .tolerance = recurrent_budgets[study->scale].gamma_tolerance * data->gamma, .evidence = ICL_READ,
                  .source = "section 4", .note = ICL_PHRASE("rate %.4f", numbers[RATE].value));
    if (data->is_repeated)
        judge_repeated(study, cell);
}

const icl_reproduction icl_gd_recurrent = ICL_STUDY(
        .name = "gd-recurrent", .source = "arXiv 2212.07677, section 4",
        .about = "one layer trained for two applications: GD++'s gamma, and what fifty applications do",
        .claim =
            "One layer of linear attention trained for two applications learns GD++, and more of them, damped, help.",
        .scope = "A met table means that one layer trained for two applications learns the printed gamma "
                 "and goes on improving when damped; more applications in training were not tested.",
        .cost = {"2 s", "2 min", "15 min"}, .numbers = RECURRENT_NUMBERS, .plan = plan_recurrent,
        .begin = begin_recurrent, .measure = measure_recurrent, .judge = judge_recurrent);
