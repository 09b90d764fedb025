/*
 * Table 1 of Vladymyrov, von Oswald, Sandler, Ge 2024, "Linear Transformers are Versatile In-Context Learners" (arXiv
 * 2402.14180): adjusted evaluation loss, which is half of the mean squared distance to the oracle ridge prediction, of
 * three kinds of linear transformer with 1 to 7 layers under ten distributions of the noise level.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/print.h"
#include "papers/papers.h"
#include "papers/versatile/versatile.h"

enum { LAYERS = 7 };

/* [layers - 1][form][noise], as printed. */
static const double published[LAYERS][ICL_VERSATILE_PARAMETERIZATIONS][ICL_VERSATILE_NOISES] = {
    {{1.768, 1.639, 1.396, 1.175, 1.015, .907, .841, .806, 1.007, .819},
     {1.767, 1.639, 1.396, 1.175, 1.015, .906, .841, .806, 1.007, .819},
     {1.768, 1.640, 1.397, 1.176, 1.016, .907, .842, .806, 1.008, .820}},
    {{.341, .295, .243, .265, .347, .366, .440, .530, .305, .427},
     {.265, .214, .173, .188, .219, .242, .254, .259, .201, .246},
     {.264, .215, .173, .188, .220, .245, .259, .263, .202, .276}},
    {{.019, .021, .071, .161, .259, .344, .454, .530, .222, .422},
     {.013, .015, .048, .087, .109, .118, .121, .123, .098, .119},
     {.012, .015, .049, .075, .101, .117, .124, .127, .076, .113}},
    {{9.91e-5, .014, .066, .160, .258, .344, .454, .530, .222, .422},
     {1.19e-4, .006, .024, .041, .050, .059, .065, .073, .043, .062},
     {1.63e-4, .005, .021, .038, .052, .065, .068, .076, .032, .061}},
    {{1.14e-7, .014, .066, .161, .265, .344, .454, .530, .222, .422},
     {1.81e-7, .004, .016, .029, .041, .051, .058, .062, .026, .051},
     {1.79e-7, .002, .015, .026, .038, .048, .059, .065, .016, .048}},
    {{2.37e-10, .009, .066, .161, .265, .344, .454, .530, .222, .422},
     {2.57e-10, .003, .014, .028, .040, .048, .054, .059, .020, .047},
     {2.71e-10, .002, .014, .025, .036, .044, .052, .059, .011, .043}},
    {{2.65e-12, .009, .066, .161, .265, .344, .454, .530, .222, .422},
     {2.50e-12, .002, .014, .027, .040, .047, .052, .059, .018, .046},
     {2.50e-12, .002, .010, .025, .035, .047, .050, .057, .010, .035}},
};

/* Rows below the models', in the same columns. */
static const struct {
    const char *predictor;
    double half_adjusted[ICL_VERSATILE_NOISES];
} references[] = {
    {"constrr", {0, .009, .066, .161, .265, .365, .454, .530, .222, .422}},
    {"adarr", {0, .003, .016, .034, .053, .068, .081, .092, .051, .084}},
    {"tunedrr", {0, .002, .010, .023, .037, .049, .060, .068, .021, .054}},
};
enum { REFERENCES = sizeof references / sizeof *references };

/* ---- Which cells ---- */

/* What a scale has: layers from 1 up to most_layers, and the noise settings whose bits are set. */
typedef struct extent {
    size_t most_layers, seeds, sequences;
    unsigned noises;
} extent;

#define NOISE(index) (1u << (index))
static const extent extents[ICL_SCALES] = {
    {2, 1, 20000, NOISE(5)},
    {4, 3, 100000, NOISE(1) | NOISE(5) | NOISE(8)},
    {LAYERS, 3, 100000, (1u << ICL_VERSATILE_NOISES) - 1},
};

/*
 * What a cell may lie above the printed one. The table's own evaluation on 100,000 sequences is off by up to .01 where
 * the loss is near 1 (its row of one layer lies .004 to .012 above the closed form), and it is printed to three digits:
 * 5 %, and one unit of the last digit. Without noise losses span twelve orders of magnitude, and twice the printed one
 * is the same number of layers: each further layer squares it.
 */
static double tolerance(double target, size_t noise) {
    return noise == 0 && target < .1 ? target : .05 * target + .001;
}

/* ---- Models ---- */

static icl_status evaluate_model(icl_reproducing *run, icl_versatile_model *model, icl_finding *finding, char note[128],
                                 icl_error *error) {
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    if (!icl_reproduce_judges(run))
        return ICL_OK;
    ICL_TRY(icl_reproduce_override(model->recipe, error, "eval.sequences=%zu", extents[run->params->scale].sequences));
    ICL_TRY(icl_evaluate(run->params->backend, model->trainer, model->recipe, &evaluation, error));
    const icl_score *score = &evaluation->scores[0];
    finding->ours = score->half_adjusted;
    finding->standard_error = score->half_adjusted_se;
    icl_print(note, 128, "seed %" PRIu32 ", best of %zu, %zu failed; median %.3g, trimmed mean %.3g", model->seed,
              model->seeds, model->failed, .5 * score->adjusted_median, .5 * score->adjusted_trimmed);
done:
    icl_evaluation_destroy(&evaluation);
    return status;
}

/* What came out of a cell; NaN: nothing. */
typedef struct cell_result {
    double loss, error;
} cell_result;

static icl_status reproduce_cell(icl_reproducing *run, const icl_versatile_cell *cell, cell_result *ours,
                                 icl_error *error) {
    const double target = published[cell->layers - 1][cell->parameterization][cell->noise];
    char name[ICL_VERSATILE_NAME], note[128] = "every seed diverged";
    icl_versatile_model model = {0};
    icl_status status = ICL_OK;
    icl_finding finding = {
        .what = name,
        .quantity = "half adjusted loss",
        .ours = (double)NAN,
        .target = target,
        .tolerance = tolerance(target, cell->noise),
        .criterion = ICL_AT_MOST,
        .evidence = ICL_READ,
        .source = "table 1",
        .note = note,
    };

    icl_versatile_name(cell, name);
    status = icl_versatile_train(run, cell, extents[run->params->scale].seeds, &model, error);
    if (status != ICL_ERROR_DIVERGED) {
        ICL_TRY(status);
        ICL_TRY(evaluate_model(run, &model, &finding, note, error));
    }
    *ours = (cell_result){finding.ours, finding.standard_error};
    ICL_TRY(icl_reproduce_found(run, &finding, error));
done:
    icl_versatile_model_clear(&model);
    return status;
}

/* ---- Reference predictors ---- */

/* Nothing is trained, so that sampling is all that can part ours from theirs: two standard errors of
 * ours beside what is the table's. */
static icl_status report_predictor(icl_reproducing *run, size_t noise, const icl_score *score, icl_error *error) {
    const double *target = NULL;
    char what[96];

    for (int i = 0; i < REFERENCES; i++)
        if (strcmp(references[i].predictor, score->predictor) == 0)
            target = &references[i].half_adjusted[noise];
    snprintf(what, sizeof what, "%s-%s", score->predictor, icl_versatile_noises[noise].name);
    return ICL_FOUND(run, error, .what = what, .quantity = "half adjusted loss", .ours = score->half_adjusted,
                     .standard_error = score->half_adjusted_se, .target = target ? *target : 0,
                     .tolerance = target ? tolerance(*target, noise) + 2 * score->half_adjusted_se : 0,
                     .evidence = target && noise > 0 ? ICL_READ : ICL_EVIDENCE_NONE, .source = "table 1",
                     .note = score->constants);
}

/* Ridge regressions, and the floor for anything that is not told sigma. They need no training: the model
 * beside them is a fresh one. */
static icl_status reproduce_predictors(icl_reproducing *run, size_t noise, double *bayes, icl_error *error) {
    const icl_versatile_cell cell = {1, ICL_VERSATILE_GDPP, noise};
    icl_recipe *recipe = NULL;
    icl_trainer *fresh = NULL;
    icl_evaluation *evaluation = NULL;
    char name[64];
    icl_status status = ICL_OK;

    *bayes = (double)NAN;
    snprintf(name, sizeof name, "predictors-%s", icl_versatile_noises[noise].name);
    if (!icl_reproduce_wants(run, name) || !icl_reproduce_judges(run))
        return ICL_OK;
    ICL_TRY(icl_versatile_recipe(run, &cell, 0, &recipe, error));
    ICL_TRY(icl_reproduce_override(recipe, error, "eval.predictors=constrr,adarr,tunedrr,bayes"));
    ICL_TRY(icl_reproduce_override(recipe, error, "eval.sequences=%zu", extents[run->params->scale].sequences));
    ICL_TRY(icl_reproduce_override(recipe, error, "eval.fit_sequences=%zu", extents[run->params->scale].sequences / 5));
    ICL_TRY(icl_trainer_create(run->params->backend, recipe, &fresh, error));
    ICL_TRY(icl_evaluate(run->params->backend, fresh, recipe, &evaluation, error));
    for (size_t i = 1; i < evaluation->count; i++)
        ICL_TRY(report_predictor(run, noise, &evaluation->scores[i], error));
    *bayes = evaluation->scores[evaluation->count - 1].half_adjusted;
done:
    icl_evaluation_destroy(&evaluation);
    icl_trainer_destroy(&fresh);
    icl_recipe_destroy(&recipe);
    return status;
}

/* ---- The order of the three kinds ---- */

/* A richer kind is at least as good where the table says so: within 3 %, which is what training leaves open, and two
 * standard errors, of which a heavy tail may not excuse itself: 10 % at most. */
static icl_status report_order(icl_reproducing *run, size_t noise, size_t layers, const cell_result *simple,
                               const cell_result *rich, const char *names, icl_error *error) {
    char what[96];

    snprintf(what, sizeof what, "L%zu-%s-%s", layers, names, icl_versatile_noises[noise].name);
    return ICL_FOUND(run, error, .what = what, .quantity = "richer less simpler", .ours = rich->loss - simple->loss,
                     .target = 0,
                     .tolerance = .03 * simple->loss + fmin(2 * hypot(simple->error, rich->error), .1 * simple->loss),
                     .criterion = ICL_AT_MOST, .evidence = ICL_READ, .source = "order in table 1");
}

static icl_status report_orders(icl_reproducing *run, size_t noise, size_t layers,
                                const cell_result ours[ICL_VERSATILE_PARAMETERIZATIONS], icl_error *error) {
    const double *theirs[ICL_VERSATILE_PARAMETERIZATIONS] = {&published[layers - 1][ICL_VERSATILE_GDPP][noise],
                                                             &published[layers - 1][ICL_VERSATILE_DIAG][noise],
                                                             &published[layers - 1][ICL_VERSATILE_FULL][noise]};

    for (int parameterization = ICL_VERSATILE_DIAG; parameterization < ICL_VERSATILE_PARAMETERIZATIONS;
         parameterization++) {
        const bool is_known = !isnan(ours[parameterization].loss) && !isnan(ours[parameterization - 1].loss);
        if (layers > 1 && noise > 0 && is_known && *theirs[parameterization] < *theirs[parameterization - 1])
            ICL_CHECK(report_order(run, noise, layers, &ours[parameterization - 1], &ours[parameterization],
                                   parameterization == ICL_VERSATILE_DIAG ? "diag-below-gd++" : "full-below-diag",
                                   error));
    }
    return ICL_OK;
}

/* ---- The picture ---- */

/* A column of the table: ours, NaN where there is nothing, and the floor. */
typedef struct column {
    cell_result ours[LAYERS][ICL_VERSATILE_PARAMETERIZATIONS];
    double bayes; /* NaN: not measured */
} column;

/* One kind of model over the number of layers: ours and theirs. x is shared. */
typedef struct curve {
    double ours[LAYERS], error[LAYERS], theirs[LAYERS];
} curve;

static void fill_curve(curve *to, const column *from, size_t noise, int parameterization, size_t layers) {
    for (size_t l = 0; l < layers; l++) {
        to->ours[l] = from->ours[l][parameterization].loss;
        to->error[l] = from->ours[l][parameterization].error;
        to->theirs[l] = published[l][parameterization][noise];
    }
}

static icl_status draw_column(icl_reproducing *run, size_t noise, const column *of, icl_error *error) {
    enum { SERIES = 2 * ICL_VERSATILE_PARAMETERIZATIONS + 1 };
    static const char *const theirs[ICL_VERSATILE_PARAMETERIZATIONS] = {"gd++, table 1", "diag, table 1",
                                                                        "full, table 1"};
    const size_t layers = extents[run->params->scale].most_layers;
    curve curves[ICL_VERSATILE_PARAMETERIZATIONS];
    icl_series series[SERIES];
    double depth[LAYERS], floor[LAYERS];
    char name[64], title[128];

    for (size_t l = 0; l < layers; l++) {
        depth[l] = (double)(l + 1);
        floor[l] = of->bayes;
    }
    for (int parameterization = 0; parameterization < ICL_VERSATILE_PARAMETERIZATIONS; parameterization++) {
        curve *c = &curves[parameterization];
        const size_t at = 2 * (size_t)parameterization;
        fill_curve(c, of, noise, parameterization, layers);
        series[at] = (icl_series){
            icl_versatile_parameterizations[parameterization], ICL_SERIES_OURS, layers, depth, c->ours, c->error};
        series[at + 1] = (icl_series){theirs[parameterization], ICL_SERIES_PUBLISHED, layers, depth, c->theirs, NULL};
    }
    series[SERIES - 1] = (icl_series){"Bayes-optimal", ICL_SERIES_REFERENCE, layers, depth, floor, NULL};
    snprintf(name, sizeof name, "table1-%s", icl_versatile_noises[noise].name);
    snprintf(title, sizeof title, "Table 1 of arXiv 2402.14180, %s", icl_versatile_noises[noise].text);
    const size_t count = noise > 0 ? SERIES : SERIES - 1; /* without noise the floor is 0 */
    return ICL_DRAW_FIGURE(run, error, .name = name, .title = title, .x_label = "layers",
                           .y_label = "half adjusted loss", .log_y = true, .count = count, .series = series);
}

/* ---- The whole table ---- */

static icl_status reproduce_column(icl_reproducing *run, size_t noise, icl_error *error) {
    const size_t layers = extents[run->params->scale].most_layers, before = run->findings;
    column all = {.bayes = (double)NAN};

    ICL_CHECK(icl_versatile_train_ahead(run, noise, layers, extents[run->params->scale].seeds, error));
    ICL_CHECK(reproduce_predictors(run, noise, &all.bayes, error));
    for (size_t l = 0; l < layers; l++) {
        for (int parameterization = 0; parameterization < ICL_VERSATILE_PARAMETERIZATIONS; parameterization++) {
            const icl_versatile_cell cell = {l + 1, (icl_versatile_parameterization)parameterization, noise};
            char name[ICL_VERSATILE_NAME];
            icl_versatile_name(&cell, name);
            all.ours[l][parameterization] = (cell_result){(double)NAN, 0};
            if (icl_reproduce_wants(run, name))
                ICL_CHECK(reproduce_cell(run, &cell, &all.ours[l][parameterization], error));
        }
        ICL_CHECK(report_orders(run, noise, l + 1, all.ours[l], error));
    }
    if (run->findings > before)
        ICL_CHECK(draw_column(run, noise, &all, error));
    return ICL_OK;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    for (size_t noise = 0; noise < ICL_VERSATILE_NOISES; noise++)
        if (extents[run->params->scale].noises & NOISE(noise))
            ICL_CHECK(reproduce_column(run, noise, error));
    return ICL_OK;
}

const icl_reproduction icl_versatile_table1 = {
    .name = "versatile-table1",
    .source = "arXiv 2402.14180, table 1",
    .about = "adjusted loss of GD++, diagonal and full linear transformers beside ridge regressions",
    .cost = {"5 s", "10 min", "45 min"},
    .run = reproduce,
};
