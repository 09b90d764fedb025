/* Inspections of trained models, by family, and two parts of those of linear transformers: their weights, and the
 * nearest classical algorithm. */
#include "probe/inspect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "baseline/predictors.h"
#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/recipe.h"
#include "iclab/run.h"
#include "model/linear_transformer.h"
#include "numeric/matrix.h"
#include "numeric/statistics.h"
#include "probe/descent.h"
#include "probe/inspection.h"
#include "run/recipe_keys.h"

/* ---- Weights ---- */

/* Heat maps of P and Q, the four numbers that each layer has on its diagonals (Vladymyrov et al. 2024, arXiv
 * 2402.14180, section 3), and how far it is from patterns of the literature. */

typedef struct layer_maps {
    size_t count;
    icl_heat_map *maps; /* [count]: P and Q of each head, layer by layer */
    char (*labels)[64]; /* [count]; with room for the longest */
} layer_maps;

static void add_map(const icl_linear_layers *layers, size_t layer, size_t head, size_t heads, icl_model_part part,
                    size_t d, layer_maps *maps) {
    char *label = maps->labels[maps->count];
    const char *name = part == ICL_MODEL_P ? "P" : "Q";

    if (heads > 1)
        snprintf(label, sizeof maps->labels[0], "%s, layer %zu, head %zu", name, layer + 1, head + 1);
    else
        snprintf(label, sizeof maps->labels[0], "%s, layer %zu", name, layer + 1);
    maps->maps[maps->count++] = (icl_heat_map){
        .label = label, .rows = d + 1, .columns = d + 1, .values = icl_linear_layers_matrix(layers, layer, head, part)};
}

static icl_status create_maps(const icl_model *model, size_t d, const icl_linear_layers *layers, layer_maps *maps,
                              icl_error *error) {
    const size_t depth = icl_model_layers(model), heads = icl_model_heads(model);

    *maps = (layer_maps){0};
    ICL_CHECK(icl_allocate(2 * depth * heads, sizeof *maps->maps, "heat maps", &maps->maps, error));
    ICL_CHECK(icl_allocate(2 * depth * heads, sizeof *maps->labels, "labels", &maps->labels, error));
    for (size_t layer = 0; layer < depth; layer++)
        for (size_t head = 0; head < heads; head++) {
            add_map(layers, layer, head, heads, ICL_MODEL_P, d, maps);
            add_map(layers, layer, head, heads, ICL_MODEL_Q, d, maps);
        }
    return ICL_OK;
}

static void release_maps(layer_maps *maps) {
    icl_free(&maps->maps);
    icl_free(&maps->labels);
}

/* The most maps of a picture that is still legible. */
enum { MOST_MAPS = 64 };

typedef struct layer_shape {
    double terms[ICL_LINEAR_TERMS];
    icl_linear_patterns patterns;
    icl_inspect_step step;
} layer_shape;

/* Returns the share of |T|^2 that the four numbers make up (icl_linear_patterns). */
static double explained(const layer_shape *shape) {
    return 1 - shape->patterns.diagonal * shape->patterns.diagonal;
}

static icl_status report_layer(icl_inspection *run, size_t layer, const layer_shape *shape, icl_error *error) {
    const struct {
        const char *what, *quantity;
        double value;
    } rows[] = {
        {"diagonal: w_xx, w_xy, w_yx, w_yy", "share of the squared entries that they explain", explained(shape)},
        {"diagonal: w_xx, w_xy, w_yx, w_yy", "distance from the pattern", shape->patterns.diagonal},
        {"GD++: w_xx, w_yx", "distance from the pattern", shape->patterns.gdpp},
        {"gradient descent: w_yx", "distance from the pattern", shape->patterns.descent},
        {"sparse: P = [0 0; 0 1], Q = [A 0; 0 0]", "distance from the pattern", shape->patterns.sparse},
        {"sparse-b: P = [B 0; 0 1], Q = [A 0; 0 0]", "distance from the pattern", shape->patterns.sparse_b},
        {"A of the gradient step", "n times the nearest multiple of I", shape->step.multiple},
        {"A of the gradient step", "Dist(A, I)", shape->step.distance},
        {"A of the gradient step", "n times the nearest multiple of I of R^T A R", shape->step.whitened_multiple},
        {"A of the gradient step", "Dist(R^T A R, I)", shape->step.whitened},
    };

    for (int term = 0; term < ICL_LINEAR_TERMS; term++)
        ICL_CHECK(ICL_INSPECT_FOUND(run, error, .layer = layer + 1, .what = icl_linear_term_name((icl_linear_term)term),
                                    .quantity = "n times the coefficient", .value = shape->terms[term]));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!isnan(rows[i].value))
            ICL_CHECK(ICL_INSPECT_FOUND(run, error, .layer = layer + 1, .what = rows[i].what,
                                        .quantity = rows[i].quantity, .value = rows[i].value));
    return ICL_OK;
}

enum { COLUMNS = 13 };

static icl_status write_layer(icl_inspection *run, size_t layer, const layer_shape *shape, icl_error *error) {
    const double numbers[COLUMNS] = {(double)(layer + 1),       shape->terms[ICL_TERM_XX], shape->terms[ICL_TERM_XY],
                                     shape->terms[ICL_TERM_YX], shape->terms[ICL_TERM_YY], explained(shape),
                                     shape->patterns.diagonal,  shape->patterns.gdpp,      shape->patterns.descent,
                                     shape->patterns.sparse,    shape->patterns.sparse_b,  shape->step.distance,
                                     shape->step.whitened};
    char texts[COLUMNS][ICL_INSPECT_CELL];
    const char *cells[COLUMNS];

    for (size_t i = 0; i < COLUMNS; i++)
        cells[i] = icl_inspect_number(numbers[i], texts[i]);
    return icl_inspect_table_row(run, ICL_TONE_PLAIN, cells, error);
}

static icl_status write_layers(icl_inspection *run, const icl_linear_layers *layers, icl_error *error) {
    static const icl_report_column columns[COLUMNS] = {
        {"layer", true},           {"n w_xx", true},   {"n w_xy", true},
        {"n w_yx", true},          {"n w_yy", true},   {"explained", true},
        {"diagonal", true},        {"GD++", true},     {"GD", true},
        {"sparse", true},          {"sparse-b", true}, {"Dist(A, I)", true},
        {"Dist(R^T A R, I)", true}};
    double *matrices = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(2 * run->d * run->d, sizeof *matrices, "matrix of a step", &matrices, error));
    ICL_TRY(icl_inspect_table_begin(run, columns, COLUMNS, error));
    for (size_t layer = 0; layer < icl_model_layers(run->model); layer++) {
        layer_shape shape = {.patterns = icl_linear_layers_patterns(layers, layer),
                             .step = icl_inspect_measure_step(run, layers, layer, matrices)};
        icl_linear_layers_terms(layers, layer, shape.terms);
        ICL_TRY(report_layer(run, layer, &shape, error));
        ICL_TRY(write_layer(run, layer, &shape, error));
    }
    ICL_TRY(icl_inspect_table_end(run, error));
done:
    icl_free(&matrices);
    return status;
}

static const char gauge[] =
    "A layer is e <- e + c sum over heads of P G Q e, with G the sum of e e^T over the context, c = 1 or "
    "1/n. (P, Q) and (a P, Q / a) are the same layer for every a: shown are the two of equal Frobenius norm "
    "whose Q has a block of x with trace >= 0, so that the last corner of P is negative where a layer steps "
    "downhill.";

static const char legend[] =
    "n w_xx, n w_xy, n w_yx, n w_yy: a layer's four numbers, the sums over heads of products of the mean "
    "diagonal entries of P (x's or y's) and Q, times n c. explained: the share of the layer's squared "
    "entries that these four make up. Then distances, from 0, the layer is of that form, to 1, it has "
    "nothing of it: diagonal (the four numbers alone), GD++ (w_xx and w_yx), GD (gradient descent: w_yx), "
    "sparse (P = [0 0; 0 1], Q = [A 0; 0 0]) and sparse-b (P = [B 0; 0 1]). Dist(A, I) is the distance of "
    "the gradient step's A from the nearest multiple of I, Dist(R^T A R, I) the same in white inputs g, x = "
    "R g, where inputs have a covariance. Entries that nothing reads do not count.";

static icl_status inspect_weights(icl_inspection *run, const icl_linear_layers *layers, icl_error *error) {
    layer_maps maps = {0};
    icl_status status = ICL_OK;

    ICL_TRY(create_maps(run->model, run->d, layers, &maps, error));
    const size_t shown = maps.count < MOST_MAPS ? maps.count : MOST_MAPS;
    ICL_TRY(icl_inspect_section(run, "Weights", error));
    ICL_TRY(ICL_INSPECT_HEAT_MAPS(run, error, .name = "weights",
                                  .title = "P and Q of each layer (last row and column: y)", .count = shown,
                                  .maps = maps.maps));
    if (shown < maps.count)
        ICL_TRY(icl_inspect_paragraph(run, error, "These are the first %zu of %zu matrices.", shown, maps.count));
    ICL_TRY(icl_inspect_paragraph(run, error, "%s", gauge));
    ICL_TRY(icl_inspect_paragraph(run, error, "%s", legend));
    ICL_TRY(write_layers(run, layers, error));
done:
    release_maps(&maps);
    return status;
}

/* ---- The nearest classical algorithm ---- */

/*
 * The classical algorithm nearest to a model is found as follows. Each candidate's constants are fitted to the model's
 * own predictions on some sequences, and its distance to these is measured on others. Among those as close as the
 * closest one, within two standard errors of the difference or to rounding, the one with the fewest constants is named.
 */

enum { LEAST_FIT = 1024, MOST_SEARCHED = 4, MOST_CANDIDATES = 16, MOST_POINTS = 1000 };

/* Shares of the predictions' mean square: the limit of rounding, that of "nearly the same algorithm", and that of
 * "close". */
#define ROUNDING 1e-10
#define NEARLY   1e-3
#define CLOSE    0.05

typedef struct candidate {
    double distance, standard_error; /* mean of (its prediction - the model's)^2 */
    double cosine;                   /* mean cosine of sensitivities; NaN if there are none */
    double loss, loss_error;         /* its own squared error */
} candidate;

typedef struct comparison {
    icl_inspection *run;
    const icl_inspect_descent *descent; /* the descent that the layers are near */
    const icl_inspect_sample *sample;
    icl_predictors *predictors;
    size_t count, best;
    double size;         /* mean square of the model's predictions */
    double *weights;     /* [sequences][count][d] */
    double *predictions; /* [count][sequences] */
    double *model;       /* [sequences], the model's predictions */
    double *values, *of; /* [sequences], [sequences][d] */
    candidate candidates[MOST_CANDIDATES];
} comparison;

/* Lists candidates, those with the fewest constants first. Preconditioned ones are listed if they differ. They have
 * as many steps as there are layers that do something, but no more than can be searched for if the layers give no
 * start. */
static void list_candidates(const comparison *c, char *names, size_t size) {
    const bool is_preconditioned = icl_task_get_prior(c->run->task)->weight_root != NULL;
    const size_t limit = c->descent->is_known ? ICL_INSPECT_MOST_STEPS : MOST_SEARCHED;
    const size_t most = c->descent->steps < limit ? c->descent->steps : limit;

    snprintf(names, size, "ols,adarr,bayes,ridge,gd:1%s,tunedrr", is_preconditioned ? ",pgd:1" : "");
    if (most < 2)
        return;
    snprintf(names + strlen(names), size - strlen(names), ",gd:%zu", most);
    if (is_preconditioned)
        snprintf(names + strlen(names), size - strlen(names), ",pgd:%zu", most);
    snprintf(names + strlen(names), size - strlen(names), ",gd++:%zu", most);
    if (is_preconditioned)
        snprintf(names + strlen(names), size - strlen(names), ",pgd++:%zu", most);
}

/* Writes "3 steps of gradient descent". */
static void spell(const char *name, char *text, size_t size) {
    static const struct {
        const char *name, *words;
    } words[] = {
        {"ols", "least squares"},
        {"adarr", "AdaRR, ridge with the residual variance estimated from the context"},
        {"bayes", "the Bayes-optimal predictor"},
        {"ridge", "ridge regression with a constant penalty"},
        {"tunedrr", "TunedRR, ridge with a multiple of the estimated residual variance, cut at a cap"},
        {"gd", "gradient descent"},
        {"pgd", "gradient descent preconditioned with the covariance of the weights"},
        {"gd++", "GD++"},
        {"pgd++", "GD++ preconditioned with the covariance of the weights"},
    };
    const size_t length = strcspn(name, ":");
    const unsigned long steps = name[length] == ':' ? strtoul(name + length + 1, NULL, 10) : 0;

    snprintf(text, size, "%s", name);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].name) == length && strncmp(words[i].name, name, length) == 0) {
            if (steps > 0)
                snprintf(text, size, "%lu step%s of %s", steps, steps > 1 ? "s" : "", words[i].words);
            else
                snprintf(text, size, "%s", words[i].words);
        }
}

static icl_status fit_candidates(comparison *c, icl_error *error) {
    const size_t measured = c->sample->count, wanted = measured / 4 > LEAST_FIT ? measured / 4 : LEAST_FIT;
    icl_inspect_sample fitting = {0};
    char names[256];
    icl_status status = ICL_OK;

    list_candidates(c, names, sizeof names);
    ICL_TRY(icl_inspect_draw(c->run, ICL_INSPECT_FIT, wanted < measured ? wanted : measured, &fitting, error));
    const icl_inspect_descent *near = c->descent;
    const icl_imitation imitation = {
        .count = fitting.count,
        .tokens = fitting.tokens,
        .predictions = fitting.predictions,
        .plain = {near->is_known ? near->steps : 0, near->rates, near->inputs},
        .preconditioned = {near->is_known ? near->steps : 0, near->white_rates, near->white_inputs},
    };
    ICL_TRY(icl_predictors_imitate(c->run->task, c->run->params->backend, names, &imitation, &c->predictors, error));
    c->count = icl_predictors_count(c->predictors);
done:
    icl_inspect_sample_release(&fitting);
    return status;
}

static icl_status predict_candidates(comparison *c, icl_error *error) {
    const icl_inspect_sample *sample = c->sample;
    const size_t d = c->run->d;

    ICL_CHECK(icl_allocate(sample->count, c->count * d * sizeof(double), "implied weights", &c->weights, error));
    ICL_CHECK(icl_allocate(sample->count, c->count * sizeof(double), "predictions", &c->predictions, error));
    ICL_CHECK(icl_allocate(sample->count, sizeof(double), "predictions", &c->model, error));
    ICL_CHECK(icl_allocate(sample->count, sizeof(double), "squared distances", &c->values, error));
    ICL_CHECK(icl_allocate(sample->count, d * sizeof(double), "implied weights", &c->of, error));
    ICL_CHECK(icl_predictors_weights(c->predictors, sample->count, sample->tokens, sample->noise, c->weights, error));
    for (size_t i = 0; i < sample->count; i++) {
        const float *query = icl_inspect_query(c->run, sample, i);
        for (size_t j = 0; j < c->count; j++)
            c->predictions[j * sample->count + i] = icl_inspect_product(c->weights + (i * c->count + j) * d, query, d);
        c->model[i] = sample->weights ? icl_inspect_product(sample->weights + i * d, query, d) : sample->predictions[i];
        c->size += c->model[i] * c->model[i] / (double)sample->count;
    }
    return ICL_OK;
}

static double cosine_of(comparison *c, size_t index) {
    const icl_inspect_sample *sample = c->sample;
    const size_t d = c->run->d;

    if (!sample->weights)
        return (double)NAN;
    for (size_t i = 0; i < sample->count; i++)
        memcpy(c->of + i * d, c->weights + (i * c->count + index) * d, d * sizeof(double));
    return icl_align(d, c->run->n, sample->count, sample->tokens, sample->weights, c->of).cosine;
}

static void measure_candidate(comparison *c, size_t index) {
    const size_t count = c->sample->count;
    const double *predictions = c->predictions + index * count;
    candidate *measured = &c->candidates[index];

    for (size_t i = 0; i < count; i++)
        c->values[i] = (predictions[i] - c->model[i]) * (predictions[i] - c->model[i]);
    measured->distance = icl_mean(c->values, count);
    measured->standard_error = icl_standard_error(c->values, count);
    for (size_t i = 0; i < count; i++)
        c->values[i] =
            (predictions[i] - (double)c->sample->targets[i]) * (predictions[i] - (double)c->sample->targets[i]);
    measured->loss = icl_mean(c->values, count);
    measured->loss_error = icl_standard_error(c->values, count);
    measured->cosine = cosine_of(c, index);
}

/* Returns whether a candidate comes as close as another: to rounding, or within two standard errors of the
 * difference. */
static bool is_as_close(const comparison *c, size_t index, size_t other) {
    const size_t count = c->sample->count;
    const double *mine = c->predictions + index * count, *theirs = c->predictions + other * count;

    if (c->candidates[index].distance <= ROUNDING * c->size)
        return true;
    for (size_t i = 0; i < count; i++)
        c->values[i] =
            (mine[i] - c->model[i]) * (mine[i] - c->model[i]) - (theirs[i] - c->model[i]) * (theirs[i] - c->model[i]);
    return icl_mean(c->values, count) <= 2 * icl_standard_error(c->values, count);
}

static void choose_nearest(comparison *c) {
    size_t nearest = 0;

    for (size_t i = 1; i < c->count; i++)
        if (c->candidates[i].distance < c->candidates[nearest].distance)
            nearest = i;
    for (c->best = 0; c->best < nearest && !is_as_close(c, c->best, nearest); c->best++)
        ;
}

static icl_status report_candidate(const comparison *c, size_t index, icl_error *error) {
    const candidate *nearest = &c->candidates[index];
    const char *name = icl_predictors_name(c->predictors, index);
    const struct {
        const char *quantity;
        double value, standard_error;
    } rows[] = {
        {"mean squared distance to the model's predictions", nearest->distance, nearest->standard_error},
        {"share of the predictions' mean square", nearest->distance / c->size, nearest->standard_error / c->size},
        {"cosine of sensitivities", nearest->cosine, 0},
        {"its own squared error", nearest->loss, nearest->loss_error},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ICL_CHECK(ICL_INSPECT_FOUND(c->run, error, .what = name, .quantity = rows[i].quantity, .value = rows[i].value,
                                    .standard_error = rows[i].standard_error,
                                    .note = icl_predictors_constants(c->predictors, index)));
    return ICL_OK;
}

static icl_status write_candidate(const comparison *c, size_t index, icl_error *error) {
    const candidate *nearest = &c->candidates[index];
    char words[160], distance[ICL_INSPECT_CELL], share[ICL_INSPECT_CELL], cosine[ICL_INSPECT_CELL],
        loss[ICL_INSPECT_CELL];
    const char *const cells[] = {words,
                                 icl_inspect_measured(nearest->distance, nearest->standard_error, distance),
                                 icl_inspect_number(nearest->distance / c->size, share),
                                 icl_inspect_number(nearest->cosine, cosine),
                                 icl_inspect_measured(nearest->loss, nearest->loss_error, loss),
                                 icl_predictors_constants(c->predictors, index)};

    spell(icl_predictors_name(c->predictors, index), words, sizeof words);
    return icl_inspect_table_row(c->run, index == c->best ? ICL_TONE_STRONG : ICL_TONE_PLAIN, cells, error);
}

static icl_status write_candidates(const comparison *c, icl_error *error) {
    static const icl_report_column columns[] = {{"algorithm", false},   {"distance to the model", true},
                                                {"share", true},        {"cosine of sensitivities", true},
                                                {"its own loss", true}, {"fitted constants", false}};

    ICL_CHECK(icl_inspect_section(c->run, "The nearest classical algorithm", error));
    ICL_CHECK(icl_inspect_paragraph(c->run, error,
                                    "Constants are fitted to the model's predictions, on other sequences than "
                                    "those measured here; step sizes and input steps multiply sums as they "
                                    "are, without 1/n. Distance: the mean of (its prediction - the model's)^2 "
                                    "with one standard error; share: the same over the mean square of the "
                                    "model's predictions, %.4g. The sensitivity is d prediction / d x of the "
                                    "query.",
                                    c->size));
    ICL_CHECK(icl_inspect_table_begin(c->run, columns, sizeof columns / sizeof *columns, error));
    for (size_t i = 0; i < c->count; i++) {
        ICL_CHECK(report_candidate(c, i, error));
        ICL_CHECK(write_candidate(c, i, error));
    }
    return icl_inspect_table_end(c->run, error);
}

/* Draws the model's predictions over the algorithm's. */
static icl_status draw_nearest(const comparison *c, icl_error *error) {
    const size_t count = c->sample->count < MOST_POINTS ? c->sample->count : MOST_POINTS;
    const double *predictions = c->predictions + c->best * c->sample->count;
    double ends[2] = {predictions[0], predictions[0]};
    char words[160];

    spell(icl_predictors_name(c->predictors, c->best), words, sizeof words);
    for (size_t i = 0; i < count; i++) {
        ends[0] = fmin(ends[0], predictions[i]);
        ends[1] = fmax(ends[1], predictions[i]);
    }
    const icl_series series[] = {{"model", ICL_SERIES_CLOUD, count, predictions, c->model, NULL},
                                 {"equal", ICL_SERIES_REFERENCE, 2, ends, ends, NULL}};
    return ICL_INSPECT_FIGURE(c->run, error, .name = "nearest",
                              .title = "Predictions of the model and of the nearest algorithm", .x_label = words,
                              .y_label = "model", .count = 2, .series = series);
}

const char *icl_inspect_nearness(double share) {
    return share <= ROUNDING ? "is, to rounding,"
           : share <= NEARLY ? "is nearly"
           : share <= CLOSE  ? "comes close to"
                             : "is none of the classical algorithms compared; nearest is";
}

static icl_status name_nearest(const comparison *c, icl_error *error) {
    const candidate *nearest = &c->candidates[c->best];
    const char *constants = icl_predictors_constants(c->predictors, c->best);
    const double share = nearest->distance / c->size;
    char words[160];

    if (c->size == 0)
        return icl_text_print(&c->run->lead, error, "The model predicts 0, whatever the context.");
    spell(icl_predictors_name(c->predictors, c->best), words, sizeof words);
    ICL_CHECK(icl_text_print(&c->run->lead, error, "The model %s %s", icl_inspect_nearness(share), words));
    if (constants[0] != '\0')
        ICL_CHECK(icl_text_print(&c->run->lead, error, " (%s)", constants));
    ICL_CHECK(icl_text_print(&c->run->lead, error, ": predictions differ by %.2g of their size (root mean squares).",
                             sqrt(share)));
    return ICL_INSPECT_FOUND(c->run, error, .what = "nearest algorithm",
                             .quantity = icl_predictors_name(c->predictors, c->best), .value = share,
                             .standard_error = nearest->standard_error / c->size, .note = c->run->lead.bytes);
}

static icl_status inspect_algorithms(icl_inspection *run, const icl_inspect_sample *sample,
                                     const icl_inspect_descent *descent, icl_error *error) {
    comparison c = {.run = run, .sample = sample, .descent = descent};
    icl_status status = ICL_OK;

    if (!icl_task_get_prior(run->task))
        return icl_text_print(&run->lead, error,
                              "The task's targets are not linear: there is no classical algorithm to compare with.");
    icl_inspect_progress(run, "fitting classical algorithms", 0);
    ICL_TRY(fit_candidates(&c, error));
    ICL_TRY(predict_candidates(&c, error));
    for (size_t i = 0; i < c.count; i++)
        measure_candidate(&c, i);
    choose_nearest(&c);
    ICL_TRY(write_candidates(&c, error));
    ICL_TRY(draw_nearest(&c, error));
    ICL_TRY(name_nearest(&c, error));
done:
    icl_free(&c.weights);
    icl_free(&c.predictions);
    icl_free(&c.model);
    icl_free(&c.values);
    icl_free(&c.of);
    icl_predictors_destroy(&c.predictors);
    return status;
}

/* ---- Families of models ---- */

/* The fewest sequences to measure on, for large models. Smaller ones take so many that pruning all layers costs about
 * WORK multiplications. */
#define LEAST_SEQUENCES 100
#define WORK            8e9

/* Each layer has about 6 prunings, and each pruning runs all layers, with two products of D x D matrices a head and two
 * more. */
static size_t sequences_of(const icl_inspection *run) {
    const double depth = (double)icl_model_layers(run->model), heads = (double)icl_model_heads(run->model);
    const double each = 6 * depth * depth * (2 * heads + 2) * pow((double)(run->d + 1), 3);

    if (run->params->sequences > 0)
        return run->params->sequences;
    return (size_t)fmin(ICL_INSPECT_SEQUENCES, fmax(LEAST_SEQUENCES, WORK / each));
}

static icl_status inspect_linear(icl_inspection *run, icl_error *error) {
    /* A layer with softmax is no product of matrices. */
    const bool is_softmax = icl_linear_read(run->recipe).scale == ICL_SCALE_SOFTMAX;
    icl_linear_layers *layers = NULL;
    icl_inspect_sample sample = {0};
    icl_inspect_descent descent = {.steps = icl_model_layers(run->model)};
    icl_status status = ICL_OK;

    ICL_TRY(icl_linear_layers_create(run->model, run->d, run->n, run->values, &layers, error));
    ICL_TRY(icl_inspect_draw(run, ICL_INSPECT_MEASURE, sequences_of(run), &sample, error));
    ICL_TRY(inspect_weights(run, layers, error));
    if (!is_softmax)
        ICL_TRY(icl_inspect_terms(run, layers, &sample, &descent, error));
    else
        ICL_TRY(icl_inspect_paragraph(run, error,
                                      "Attention weights pass through a softmax here (model.scale = softmax): "
                                      "layers are not linear and do not fall into terms."));
    ICL_TRY(inspect_algorithms(run, &sample, &descent, error));
    if (run->details.length > 0)
        ICL_TRY(icl_text_append(&run->lead, run->details.bytes, run->details.length, error));
done:
    icl_inspect_sample_release(&sample);
    icl_linear_layers_destroy(&layers);
    return status;
}

/* ---- Models of other families ---- */

/* The numbers of a parameter. Those of singular values are NaN unless it is a matrix. */
typedef struct parameter_numbers {
    double root_mean_square, largest, rank;
} parameter_numbers;

static icl_status measure_parameter(const icl_inspection *run, const icl_parameter_info *info,
                                    parameter_numbers *numbers, icl_error *error) {
    const size_t count = info->count, most = info->rank == 2 ? info->shape[info->shape[0] > info->shape[1]] : 0;
    double *matrix = NULL, *singular = NULL, squares = 0;
    icl_status status = ICL_OK;

    *numbers = (parameter_numbers){.largest = (double)NAN, .rank = (double)NAN};
    ICL_TRY(icl_allocate(count, sizeof *matrix, "a parameter", &matrix, error));
    for (size_t i = 0; i < count; i++) {
        matrix[i] = (double)run->values[info->offset + i];
        squares += matrix[i] * matrix[i];
    }
    numbers->root_mean_square = count > 0 ? sqrt(squares / (double)count) : 0;
    if (most == 0)
        goto done;
    ICL_TRY(icl_allocate(most, sizeof *singular, "singular values", &singular, error));
    ICL_TRY(icl_singular_values(matrix, info->shape[0], info->shape[1], singular, error));
    numbers->largest = singular[0];
    numbers->rank = icl_entropy_rank(singular, most);
done:
    icl_free(&matrix);
    icl_free(&singular);
    return status;
}

static void print_shape(const icl_parameter_info *info, char text[ICL_INSPECT_CELL]) {
    size_t used = 0;

    for (int i = 0; i < info->rank && used < ICL_INSPECT_CELL; i++)
        used += (size_t)snprintf(text + used, ICL_INSPECT_CELL - used, "%s%zu", i > 0 ? " x " : "", info->shape[i]);
}

static icl_status add_parameter(icl_inspection *run, const icl_parameter_info *info, icl_error *error) {
    parameter_numbers numbers;
    char shape[ICL_INSPECT_CELL] = "1", texts[3][ICL_INSPECT_CELL];

    ICL_CHECK(icl_inspect_poll(run, error));
    ICL_CHECK(measure_parameter(run, info, &numbers, error));
    ICL_CHECK(ICL_INSPECT_FOUND(run, error, .what = info->name, .quantity = "root mean square",
                                .value = numbers.root_mean_square));
    if (!isnan(numbers.largest)) {
        ICL_CHECK(ICL_INSPECT_FOUND(run, error, .what = info->name, .quantity = "largest singular value",
                                    .value = numbers.largest));
        ICL_CHECK(
            ICL_INSPECT_FOUND(run, error, .what = info->name, .quantity = "effective rank", .value = numbers.rank));
    }
    print_shape(info, shape);
    return icl_inspect_table_row(run, ICL_TONE_PLAIN,
                                 (const char *const[]){info->name, shape,
                                                       icl_inspect_number(numbers.root_mean_square, texts[0]),
                                                       icl_inspect_number(numbers.largest, texts[1]),
                                                       icl_inspect_number(numbers.rank, texts[2])},
                                 error);
}

/* Shows what every family has: parameters, and losses. */
static icl_status inspect_other(icl_inspection *run, icl_error *error) {
    static const icl_report_column columns[] = {{"parameter", false},
                                                {"shape", true},
                                                {"root mean square", true},
                                                {"largest singular value", true},
                                                {"effective rank", true}};
    const size_t count = icl_model_parameter_count(run->model), asked = run->params->sequences;

    ICL_CHECK(icl_text_print(&run->lead, error, "The model of the family %s has %zu parameter%s of %zu numbers in all.",
                             run->model->family->name, count, count == 1 ? "" : "s", icl_model_size(run->model)));
    ICL_CHECK(icl_inspect_section(run, "Parameters", error));
    ICL_CHECK(icl_inspect_table_begin(run, columns, sizeof columns / sizeof *columns, error));
    for (size_t i = 0; i < count; i++)
        ICL_CHECK(add_parameter(run, icl_model_parameter(run->model, i), error));
    ICL_CHECK(icl_inspect_table_end(run, error));
    ICL_CHECK(icl_inspect_paragraph(run, error,
                                    "The effective rank is exp(H) of the singular values over their sum (Roy and "
                                    "Vetterli 2007): from 1 to the number of singular values. Probes of what layers "
                                    "compute know the families linear, softmax and sequence."));
    return icl_inspect_losses(run, asked > 0 ? asked : ICL_INSPECT_LOSS_SEQUENCES, error);
}

static icl_status inspect_family(icl_inspection *run, icl_error *error) {
    static const struct {
        const char *name;
        icl_status (*inspect)(icl_inspection *, icl_error *);
    } families[] = {{"linear", inspect_linear}, {"softmax", icl_inspect_window}, {"sequence", icl_inspect_sequence}};
    const char *family = icl_recipe_value(run->recipe, "model", "family");

    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].name, family) == 0)
            return families[i].inspect(run, error);
    return inspect_other(run, error);
}

static icl_status load(icl_inspection *run, icl_error *error) {
    ICL_CHECK(icl_recipe_create_with(run->params->families, &run->recipe, error));
    ICL_CHECK(icl_run_read_recipe(run->params->run, run->recipe, error));
    ICL_CHECK(icl_trained_load(run->params->backend, run->params->run, run->recipe, &run->trainer, error));
    run->task = icl_trainer_task(run->trainer);
    run->model = icl_trainer_model(run->trainer);
    run->d = icl_task_dimension(run->task);
    run->n = icl_task_context(run->task);
    run->seed = (uint32_t)icl_evaluation_read(run->recipe).seed;
    ICL_CHECK(icl_allocate(icl_model_size(run->model), sizeof *run->values, "parameters", &run->values, error));
    return icl_trainer_get_parameters(run->trainer, run->values, error);
}

/* Begins the documents. */
static icl_status begin(icl_inspection *run, icl_error *error) {
    const icl_inspect_params *params = run->params;

    run->drawing =
        (icl_drawing){.folder = params->folder, .command = "iclab inspect", .draw = params->draw, .user = params->user};
    ICL_CHECK(icl_folder_create(params->folder, error));
    ICL_CHECK(icl_report_create(&run->report, error));
    return icl_text_print(&run->table, error, "layer,what,quantity,value,standard_error,note\n");
}

static icl_status write_markdown(icl_inspection *run, const char *title, icl_error *error) {
    const icl_capabilities *device = icl_backend_capabilities(run->params->backend);
    icl_text whole = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_text_print(&whole, error, "# %s\n\n%s\n\n", title, run->lead.bytes));
    ICL_TRY(icl_text_append(&whole, run->markdown.bytes, run->markdown.length, error));
    ICL_TRY(icl_text_print(&whole, error,
                           "---\n\nDevice %s (%s), evaluation sequences of seed %u. Every number is in inspect.csv.\n",
                           device->spec, device->name, (unsigned)run->seed));
    ICL_TRY(icl_file_write_in(run->params->folder, "inspect.md", whole.bytes, whole.length, error));
done:
    icl_text_release(&whole);
    return status;
}

static icl_status write_report(icl_inspection *run, const char *title, icl_error *error) {
    char seed[ICL_INSPECT_CELL], *recipe = NULL;
    const icl_report_fact facts[] = {{"run", run->params->run}, {"seed of the evaluation sequences", seed}};
    icl_status status = ICL_OK;

    snprintf(seed, sizeof seed, "%u", (unsigned)run->seed);
    ICL_TRY(icl_report_provenance(run->report,
                                  &(icl_provenance){.facts = facts,
                                                    .count = sizeof facts / sizeof *facts,
                                                    .device = icl_backend_capabilities(run->params->backend)},
                                  error));
    ICL_TRY(icl_recipe_write(run->recipe, &recipe, error));
    ICL_TRY(icl_report_listing(run->report, "The run's recipe", recipe, error));
    ICL_TRY(icl_report_write(run->report, title, run->lead.bytes, run->params->folder, error));
done:
    icl_free(&recipe);
    return status;
}

/* Writes inspect.md, report.html and inspect.csv. */
static icl_status write_documents(icl_inspection *run, icl_error *error) {
    icl_text title = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_text_print(&title, error, "What %s computes", run->params->run));
    ICL_TRY(write_markdown(run, title.bytes, error));
    ICL_TRY(write_report(run, title.bytes, error));
    ICL_TRY(icl_file_write_in(run->params->folder, "inspect.csv", run->table.bytes, run->table.length, error));
done:
    icl_text_release(&title);
    return status;
}

icl_status icl_inspect(const icl_inspect_params *params, char **summary, icl_error *error) {
    icl_inspection run = {.params = params};
    icl_status status = ICL_OK;

    ICL_TRY(load(&run, error));
    ICL_TRY(begin(&run, error));
    ICL_TRY(inspect_family(&run, error));
    ICL_TRY(write_documents(&run, error));
    ICL_TRY(icl_duplicate(run.lead.bytes, summary, error));
done:
    icl_text_release(&run.lead);
    icl_text_release(&run.details);
    icl_text_release(&run.markdown);
    icl_text_release(&run.table);
    icl_report_destroy(&run.report);
    icl_free(&run.values);
    icl_trainer_destroy(&run.trainer);
    icl_recipe_destroy(&run.recipe);
    return status;
}
