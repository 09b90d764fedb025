/*
 * Which classical algorithm a model is nearest to. Each candidate's constants are fitted to the model's own predictions
 * on some sequences, and its distance to these is measured on others; among those that come as close as the closest
 * one, within two standard errors of the difference or to rounding, the one with the fewest constants is named.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "baseline/imitate.h"
#include "core/allocate.h"
#include "numeric/statistics.h"
#include "probe/descent.h"
#include "probe/inspection.h"

enum { LEAST_FIT = 1024, MOST_SEARCHED = 4, MOST_CANDIDATES = 16, MOST_POINTS = 1000 };

/* Shares of the predictions' mean square: what rounding makes, and what is called the same algorithm, or nearly. */
#define ROUNDING 1e-10
#define NEARLY   1e-3
#define CLOSE    0.05

typedef struct candidate {
    double distance, standard_error; /* mean of (its prediction - the model's)^2 */
    double cosine;                   /* of sensitivities, mean; NaN without */
    double loss, loss_error;         /* its own squared error */
} candidate;

typedef struct comparison {
    icl_inspection *run;
    const icl_inspect_descent *descent; /* that the layers are near */
    const icl_inspect_sample *sample;
    icl_predictors *predictors;
    size_t count, best;
    double size;         /* mean square of the model's predictions */
    double *weights;     /* [sequences][count][d] */
    double *predictions; /* [count][sequences] */
    double *model;       /* [sequences], its predictions */
    double *values, *of; /* [sequences], [sequences][d] */
    candidate candidates[MOST_CANDIDATES];
} comparison;

/* ---- Candidates ---- */

/* Fewest constants first. Preconditioned ones where they differ; steps as many as there are layers that do something,
 * but no more than can be searched for where the layers give no start. */
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

/* "3 steps of gradient descent" */
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

static icl_status fit(comparison *c, icl_error *error) {
    const size_t measured = c->sample->count, wanted = measured / 4 > LEAST_FIT ? measured / 4 : LEAST_FIT;
    icl_inspect_sample fitting = {0};
    char names[256];
    icl_status status = ICL_OK;

    list_candidates(c, names, sizeof names);
    ICL_TRY(icl_inspect_draw(c->run, ICL_INSPECT_FIT, wanted < measured ? wanted : measured, &fitting, error));
    const icl_inspect_descent *near = c->descent;
    const icl_imitation of = {
        .count = fitting.count,
        .tokens = fitting.tokens,
        .predictions = fitting.predictions,
        .plain = {near->is_known ? near->steps : 0, near->rates, near->inputs},
        .preconditioned = {near->is_known ? near->steps : 0, near->white_rates, near->white_inputs},
    };
    ICL_TRY(icl_predictors_imitate(c->run->task, names, &of, &c->predictors, error));
    c->count = icl_predictors_count(c->predictors);
done:
    icl_inspect_sample_release(&fitting);
    return status;
}

/* ---- Measuring ---- */

static icl_status predict(comparison *c, icl_error *error) {
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

static void measure(comparison *c, size_t index) {
    const size_t count = c->sample->count;
    const double *predictions = c->predictions + index * count;
    candidate *to = &c->candidates[index];

    for (size_t i = 0; i < count; i++)
        c->values[i] = (predictions[i] - c->model[i]) * (predictions[i] - c->model[i]);
    to->distance = icl_mean(c->values, count);
    to->standard_error = icl_standard_error(c->values, count);
    for (size_t i = 0; i < count; i++)
        c->values[i] =
            (predictions[i] - (double)c->sample->targets[i]) * (predictions[i] - (double)c->sample->targets[i]);
    to->loss = icl_mean(c->values, count);
    to->loss_error = icl_standard_error(c->values, count);
    to->cosine = cosine_of(c, index);
}

/* Whether a candidate comes as close as another: to rounding, or within two standard errors of the difference. */
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

static void choose(comparison *c) {
    size_t nearest = 0;

    for (size_t i = 1; i < c->count; i++)
        if (c->candidates[i].distance < c->candidates[nearest].distance)
            nearest = i;
    for (c->best = 0; c->best < nearest && !is_as_close(c, c->best, nearest); c->best++)
        ;
}

/* ---- Writing ---- */

static icl_status report(const comparison *c, size_t index, icl_error *error) {
    const candidate *is = &c->candidates[index];
    const char *name = icl_predictors_name(c->predictors, index);
    const struct {
        const char *quantity;
        double value, standard_error;
    } rows[] = {
        {"mean squared distance to the model's predictions", is->distance, is->standard_error},
        {"share of the predictions' mean square", is->distance / c->size, is->standard_error / c->size},
        {"cosine of sensitivities", is->cosine, 0},
        {"its own squared error", is->loss, is->loss_error},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ICL_CHECK(ICL_INSPECT_FOUND(c->run, error, .what = name, .quantity = rows[i].quantity, .value = rows[i].value,
                                    .standard_error = rows[i].standard_error,
                                    .note = icl_predictors_constants(c->predictors, index)));
    return ICL_OK;
}

static icl_status write_row(const comparison *c, size_t index, icl_error *error) {
    const candidate *is = &c->candidates[index];
    char words[160], distance[ICL_INSPECT_CELL], share[ICL_INSPECT_CELL], cosine[ICL_INSPECT_CELL],
        loss[ICL_INSPECT_CELL];
    const char *const cells[] = {words,
                                 icl_inspect_measured(is->distance, is->standard_error, distance),
                                 icl_inspect_number(is->distance / c->size, share),
                                 icl_inspect_number(is->cosine, cosine),
                                 icl_inspect_measured(is->loss, is->loss_error, loss),
                                 icl_predictors_constants(c->predictors, index)};

    spell(icl_predictors_name(c->predictors, index), words, sizeof words);
    return icl_inspect_table_row(c->run, index == c->best ? ICL_TONE_STRONG : ICL_TONE_PLAIN, cells, error);
}

static icl_status write_table(const comparison *c, icl_error *error) {
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
        ICL_CHECK(report(c, i, error));
        ICL_CHECK(write_row(c, i, error));
    }
    return icl_inspect_table_end(c->run, error);
}

/* The model's predictions over the algorithm's. */
static icl_status draw(const comparison *c, icl_error *error) {
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

static icl_status conclude(const comparison *c, icl_error *error) {
    const candidate *is = &c->candidates[c->best];
    const char *constants = icl_predictors_constants(c->predictors, c->best);
    const double share = is->distance / c->size;
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
                             .standard_error = is->standard_error / c->size, .note = c->run->lead.bytes);
}

icl_status icl_inspect_algorithms(icl_inspection *run, const icl_inspect_sample *sample,
                                  const icl_inspect_descent *descent, icl_error *error) {
    comparison c = {.run = run, .sample = sample, .descent = descent};
    icl_status status = ICL_OK;

    if (icl_task_get_prior(run->task)->nonlinear)
        return icl_text_print(&run->lead, error,
                              "The task's targets are not linear: there is no classical algorithm to compare with.");
    icl_inspect_progress(run, "fitting classical algorithms", 0);
    ICL_TRY(fit(&c, error));
    ICL_TRY(predict(&c, error));
    for (size_t i = 0; i < c.count; i++)
        measure(&c, i);
    choose(&c);
    ICL_TRY(write_table(&c, error));
    ICL_TRY(draw(&c, error));
    ICL_TRY(conclude(&c, error));
done:
    icl_free(&c.weights);
    icl_free(&c.predictions);
    icl_free(&c.model);
    icl_free(&c.values);
    icl_free(&c.of);
    icl_predictors_destroy(&c.predictors);
    return status;
}
