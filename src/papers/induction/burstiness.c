/*
 * What the data decide: Reddy 2024 (arXiv 2312.03002), in-context beside in-weights learning of classification, by
 * burstiness, number of classes and skew of their frequencies, at a reduced size: contexts of 4 or 8 pairs, items of 16
 * numbers, 8 labels, up to 2,048 classes.
 *
 * One model, trained on one kind of sequences, is asked three things:
 *     in context  classes that it never saw, two items of each in the context
 *     in weights  known classes that the context lacks
 *     swapped     known classes whose labels are moved by one: who reads the context gives the new ones
 *
 * The paper's numbers are plots that were not at hand; judged is what its abstract says, that burstiness, large
 * dictionaries and skewed frequencies control the trade-off or simultaneous appearance of both.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "papers/curves.h"
#include "papers/losses.h"
#include "papers/papers.h"

enum { MOST_POINTS = 5, ASKED = 3 };

static const struct {
    const char *label, *overrides;
} questions[ASKED] = {
    {"in context", "task.fresh=1 task.burstiness=2"},
    {"in weights", "task.bursty=0 task.query=outside"},
    {"swapped labels", "task.bursty=1 task.burstiness=2 task.label_shift=1"},
};

enum { IN_CONTEXT, IN_WEIGHTS };

/* One quantity that varies. */
typedef struct sweep {
    const char *name, *title, *key, *others; /* others: overrides of the recipe beside the key's */
    double longer;                           /* than other sweeps' trainings */
    bool log_x;
    double points[MOST_POINTS]; /* up to the first below 0 */
} sweep;

static const sweep sweeps[] = {
    {"burstiness",
     "items of each class in a context of 8",
     "task.burstiness",
     "task.examples=8 task.classes=512",
     1.5,
     true,
     {1, 2, 4, -1}},
    {"classes", "known classes", "task.classes", "", 1, true, {16, 64, 256, 2048, -1}},
    {"frequencies",
     "exponent of the classes' frequencies",
     "task.frequency_exponent",
     "task.classes=1024",
     1,
     false,
     {0, .5, 1, 1.5, -1}},
};

/* Sequences of an evaluation; the ends of a sweep alone at ci. */
static const struct {
    size_t steps, seeds, sequences;
    bool ends;
    const char *overrides;
} budgets[ICL_SCALES] = {
    {1000, 1, 1024, true, ""},
    {2000, 3, 4096, false, ""},
    {75000, 3, 10000, false,
     "task.examples=8 task.item_size=63 task.label_count=32 task.places=65 model.width=128 model.positions=none "
     "train.batch=128"},
};

/* ---- One model ---- */

static icl_status describe(const icl_reproducing *run, const sweep *of, double x, uint32_t seed, icl_recipe **recipe,
                           icl_error *error) {
    ICL_CHECK(icl_reproduce_recipe("classification", recipe, error));
    ICL_CHECK(icl_reproduce_override_all(*recipe, budgets[run->params->scale].overrides, error));
    ICL_CHECK(icl_reproduce_override_all(*recipe, of->others, error));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "%s=%g", of->key, x));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "train.steps=%.0f",
                                     of->longer * (double)budgets[run->params->scale].steps));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "eval.sequences=%zu", budgets[run->params->scale].sequences));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "eval.predictors="));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "train.seed=%" PRIu32, seed));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "task.class_seed=%" PRIu32, seed));
    return icl_reproduce_override(*recipe, error, "eval.seed=%" PRIu32, seed);
}

/* Trains a model and adds what it answers to the curves. */
static icl_status train(icl_reproducing *run, const sweep *of, double x, size_t number, icl_curves *curves,
                        icl_error *error) {
    const uint32_t seed = run->params->seed + (uint32_t)number;
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_evaluation *evaluation = NULL;
    char folder[128];
    icl_status status = ICL_OK;

    snprintf(folder, sizeof folder, "runs/%s-%g-seed%" PRIu32, of->name, x, seed);
    ICL_TRY(describe(run, of, x, seed, &recipe, error));
    ICL_TRY(icl_reproduce_train(run, folder, recipe, &trainer, error));
    for (size_t i = 0; i < ASKED; i++) {
        icl_evaluation_destroy(&evaluation);
        ICL_TRY(icl_reproduce_evaluate_as(run, trainer, recipe, questions[i].overrides, &evaluation, error));
        ICL_TRY(icl_curves_add(curves, questions[i].label, ICL_SERIES_OURS, x, evaluation->scores[0].accuracy, error));
    }
done:
    icl_evaluation_destroy(&evaluation);
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

/* ---- Verdicts ---- */

/* The accuracy of a question at one point less that at another, over seeds, which must be above 0. */
static icl_status judge_change(icl_reproducing *run, const sweep *of, const icl_curves *curves, size_t question,
                               double from, double to, icl_error *error) {
    icl_curve_point before, after;
    char what[96], quantity[96], note[96];

    ICL_CHECK(icl_curves_point(curves, questions[question].label, from, &before, error));
    ICL_CHECK(icl_curves_point(curves, questions[question].label, to, &after, error));
    snprintf(what, sizeof what, "%s, %s %g", questions[question].label, of->key, to);
    snprintf(quantity, sizeof quantity, "accuracy above that at %g", from);
    snprintf(note, sizeof note, "%.3f and %.3f, %zu seeds", after.mean, before.mean, after.seeds);
    return ICL_FOUND(run, error, .what = what, .quantity = quantity, .ours = after.mean - before.mean,
                     .standard_error = hypot(before.standard_error, after.standard_error), .target = 0,
                     .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED,
                     .source = "abstract: the data control the trade-off", .note = note);
}

/* Skewed frequencies let both appear: the smaller of the two accuracies at a point above that without skew. */
static icl_status judge_both(icl_reproducing *run, const sweep *of, const icl_curves *curves, double from, double to,
                             icl_error *error) {
    icl_curve_point at[2][2]; /* [from, to][question] */
    char what[96], note[128];

    for (size_t question = 0; question < 2; question++) {
        ICL_CHECK(icl_curves_point(curves, questions[question].label, from, &at[0][question], error));
        ICL_CHECK(icl_curves_point(curves, questions[question].label, to, &at[1][question], error));
    }
    const icl_curve_point *before = &at[0][at[0][IN_CONTEXT].mean > at[0][IN_WEIGHTS].mean];
    const icl_curve_point *after = &at[1][at[1][IN_CONTEXT].mean > at[1][IN_WEIGHTS].mean];
    snprintf(what, sizeof what, "lesser of both, %s %g", of->key, to);
    snprintf(note, sizeof note, "in context %.3f, in weights %.3f; at %g %.3f and %.3f", at[1][IN_CONTEXT].mean,
             at[1][IN_WEIGHTS].mean, from, at[0][IN_CONTEXT].mean, at[0][IN_WEIGHTS].mean);
    return ICL_FOUND(
        run, error, .what = what, .quantity = "accuracy above that without skew", .ours = after->mean - before->mean,
        .standard_error = hypot(before->standard_error, after->standard_error), .target = 0, .criterion = ICL_AT_LEAST,
        .evidence = ICL_INFERRED, .source = "abstract: skew allows their simultaneous appearance", .note = note);
}

static icl_status show_points(icl_reproducing *run, const sweep *of, const icl_curves *curves, double x,
                              icl_error *error) {
    for (size_t question = 0; question < ASKED; question++) {
        icl_curve_point point;
        char what[96];
        ICL_CHECK(icl_curves_point(curves, questions[question].label, x, &point, error));
        snprintf(what, sizeof what, "%s, %s %g", questions[question].label, of->key, x);
        ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "accuracy", .ours = point.mean,
                            .standard_error = point.standard_error));
    }
    return ICL_OK;
}

/* ---- The sweeps ---- */

static size_t count_points(const sweep *of) {
    size_t count = 0;
    while (count < MOST_POINTS && of->points[count] >= 0)
        count++;
    return count;
}

static icl_status judge(icl_reproducing *run, const sweep *of, const icl_curves *curves, icl_error *error) {
    const double first = of->points[0], last = of->points[count_points(of) - 1];

    if (of == &sweeps[2])
        return judge_both(run, of, curves, first, 1, error);
    ICL_CHECK(judge_change(run, of, curves, IN_CONTEXT, first, last, error));
    return judge_change(run, of, curves, IN_WEIGHTS, last, first, error);
}

static icl_status reproduce_sweep(icl_reproducing *run, const sweep *of, icl_error *error) {
    icl_curves curves = {.figure = {.name = of->name,
                                    .title = "What two layers of attention learn, by the data",
                                    .x_label = of->title,
                                    .y_label = "share of right answers",
                                    .log_x = of->log_x}};
    const size_t count = count_points(of);
    icl_status status = ICL_OK;

    for (size_t i = 0; i < count; i++) {
        if (budgets[run->params->scale].ends && i > 0 && i + 1 < count)
            continue;
        for (size_t seed = 0; seed < budgets[run->params->scale].seeds; seed++)
            ICL_TRY(icl_reproduce_next(run, train(run, of, of->points[i], seed, &curves, error)));
        ICL_TRY(show_points(run, of, &curves, of->points[i], error));
    }
    ICL_TRY(judge(run, of, &curves, error));
    ICL_TRY(icl_curves_draw(run, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    const bool is_ci = run->params->scale == ICL_SCALE_CI;

    for (size_t i = 0; i < sizeof sweeps / sizeof *sweeps; i++)
        if (icl_reproduce_wants(run, sweeps[i].name) && (!is_ci || i == 1))
            ICL_CHECK(reproduce_sweep(run, &sweeps[i], error));
    return ICL_OK;
}

const icl_reproduction icl_classification_burstiness = {
    .name = "classification-burstiness",
    .source = "arXiv 2312.03002",
    .about = "in-context beside in-weights learning of classification, by burstiness, classes and their frequencies",
    .cost = {"5 s", "3 min", "3 d"},
    .is_shared = true,
    .run = reproduce,
};
