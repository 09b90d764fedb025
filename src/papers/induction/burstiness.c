/*
 * The effect of the data: Reddy 2024 (arXiv 2312.03002), in-context and in-weights learning of classification, by
 * burstiness, number of classes and skew of their frequencies, at a reduced size: contexts of 4 or 8 pairs, items of 16
 * numbers, 8 labels, up to 2,048 classes.
 *
 * One model, trained on one kind of sequences, is asked three things:
 *     in context  classes that it never saw, two items of each in the context
 *     in weights  known classes that the context lacks
 *     swapped     known classes whose labels are moved by one: who reads the context gives the new ones
 *
 * The paper's numbers are plots that were not at hand; this study judges the abstract's statement that burstiness,
 * large dictionaries and skewed frequencies control the trade-off or simultaneous appearance of both.
 */
#include <inttypes.h>
#include <math.h>

#include "papers/papers.h"

enum { MOST_POINTS = 5, ASKED = 3, CLASSES = 1, FREQUENCIES, SWEEPS };

static const struct {
    const char *label, *settings;
} questions[ASKED] = {
    {"in context", "task.fresh=1 task.burstiness=2"},
    {"in weights", "task.bursty=0 task.query=outside"},
    {"swapped labels", "task.bursty=1 task.burstiness=2 task.label_shift=1"},
};

enum { IN_CONTEXT, IN_WEIGHTS };

/* A sweep over one quantity. */
typedef struct sweep {
    const char *name, *title, *key, *settings; /* settings: in addition to the key */
    double longer;                             /* factor of the training's length, compared with other sweeps */
    bool log_x;
    double points[MOST_POINTS]; /* the list ends at the first below 0 */
} sweep;

static const sweep sweeps[SWEEPS] = {
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

/* `sequences` are those of an evaluation; with `ends`, at scale ci, only the ends of a sweep are run. */
static const struct {
    size_t steps, seeds, sequences;
    bool ends;
    const char *settings;
} budgets[ICL_SCALES] = {
    {1000, 1, 1024, true, ""},
    {2000, 3, 4096, false, ""},
    {75000, 3, 10000, false,
     "task.examples=8 task.item_size=63 task.label_count=32 task.places=65 model.width=128 model.positions=none "
     "train.batch=128"},
};

/* ---- Cells ---- */

static size_t count_points(const sweep *data) {
    size_t count = 0;
    while (count < MOST_POINTS && data->points[count] >= 0)
        count++;
    return count;
}

static icl_phrase name_point(const sweep *data, double x) {
    return icl_phrase_print("%s-%g", data->name, x);
}

static void add_point(icl_study *study, const sweep *data, double x) {
    const double steps = data->longer * (double)budgets[study->scale].steps;

    for (size_t i = 0; i < budgets[study->scale].seeds; i++) {
        const uint32_t seed = icl_study_seed(study, i);
        ICL_ADD_CELL(study, .name = name_point(data, x).text, .group = data->name, .recipe = "classification",
                     .seed = seed, .x = x, .data = data,
                     .settings = {ICL_PHRASE("eval.sequences=%zu train.steps=%zu", budgets[study->scale].sequences,
                                             (size_t)steps),
                                  budgets[study->scale].settings, data->settings,
                                  ICL_PHRASE("%s=%g eval.predictors= eval.seed=%" PRIu32 " task.class_seed=%" PRIu32,
                                             data->key, x, seed, seed)});
    }
}

static void plan(icl_study *study) {
    for (size_t k = 0; k < SWEEPS; k++) {
        const size_t count = count_points(&sweeps[k]);
        for (size_t i = 0; i < count && (study->scale > ICL_SCALE_CI || k == CLASSES); i++)
            if (i == 0 || i + 1 == count || !budgets[study->scale].ends)
                add_point(study, &sweeps[k], sweeps[k].points[i]);
    }
}

/* The shares of right answers. */
static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    for (size_t i = 0; i < ASKED; i++)
        ICL_CHECK(icl_reproduce_accuracy_as(study->run, trained, cell->complete, questions[i].settings,
                                            &numbers[i].value, error));
    return ICL_OK;
}

/* ---- Judging ---- */

static icl_phrase name_question(const sweep *data, size_t question, double x) {
    return icl_phrase_print("%s, %s %g", questions[question].label, data->key, x);
}

static icl_number answer(const icl_study *study, const sweep *data, size_t question, double x) {
    return icl_over_seeds(study, icl_study_find(study, name_point(data, x).text), question);
}

/* Judges the accuracy of a question at one point minus that at another, over seeds, which must be above 0. */
static void judge_change(icl_study *study, const sweep *data, size_t question, double from, double to) {
    const icl_number before = answer(study, data, question, from), after = answer(study, data, question, to);

    ICL_JUDGE(study, .what = name_question(data, question, to).text,
              .quantity = ICL_PHRASE("accuracy above that at %g", from), .ours = after.value - before.value,
              .standard_error = hypot(before.standard_error, after.standard_error), .target = 0,
              .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED, .source = "abstract: the data control the trade-off",
              .note = ICL_PHRASE("%.3f and %.3f, %zu seeds", after.value, before.value, budgets[study->scale].seeds));
}

static icl_number lesser(icl_number one, icl_number other) {
    return one.value > other.value ? other : one;
}

/* Judges whether skewed frequencies let both appear: the smaller of the two accuracies at a point must be above that
 * without skew. */
static void judge_both(icl_study *study, const sweep *data, double from, double to) {
    const icl_number context = answer(study, data, IN_CONTEXT, to), weights = answer(study, data, IN_WEIGHTS, to);
    const icl_number context_before = answer(study, data, IN_CONTEXT, from);
    const icl_number weights_before = answer(study, data, IN_WEIGHTS, from);
    const icl_number before = lesser(context_before, weights_before), after = lesser(context, weights);

    ICL_JUDGE(study, .what = ICL_PHRASE("lesser of both, %s %g", data->key, to),
              .quantity = "accuracy above that without skew", .ours = after.value - before.value,
              .standard_error = hypot(before.standard_error, after.standard_error), .target = 0,
              .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED,
              .source = "abstract: skew allows their simultaneous appearance",
              .note = ICL_PHRASE("in context %.3f, in weights %.3f; at %g %.3f and %.3f", context.value, weights.value,
                                 from, context_before.value, weights_before.value));
}

/* Judges a sweep after its last point. */
static void judge(icl_study *study, const icl_study_cell *cell) {
    const sweep *data = cell->data;
    const double first = data->points[0], last = data->points[count_points(data) - 1];

    for (size_t i = 0; i < ASKED; i++)
        ICL_JUDGE(study, .what = name_question(data, i, cell->x).text, .quantity = "accuracy",
                  ICL_OURS(icl_over_seeds(study, cell, i)));
    if (cell->x != last)
        return;
    if (data == &sweeps[FREQUENCIES]) {
        judge_both(study, data, first, 1);
        return;
    }
    judge_change(study, data, IN_CONTEXT, first, last);
    judge_change(study, data, IN_WEIGHTS, last, first);
}

static void conclude(icl_study *study) {
    for (size_t k = 0; k < SWEEPS; k++) {
        icl_curves curves = {.figure = {sweeps[k].name, "What two layers of attention learn, by the data",
                                        sweeps[k].title, "share of right answers", sweeps[k].log_x}};
        for (size_t i = 0; i < study->count; i++)
            for (size_t question = 0; question < ASKED && study->cells[i]->data == &sweeps[k]; question++)
                icl_study_plot(study, &curves, questions[question].label, ICL_SERIES_OURS, study->cells[i]->x,
                               study->cells[i]->numbers[question].value);
        icl_study_draw(study, &curves);
    }
}

const icl_reproduction icl_classification_burstiness = ICL_STUDY(
        .name = "classification-burstiness", .source = "arXiv 2312.03002",
        .about =
            "in-context beside in-weights learning of classification, by burstiness, classes and their frequencies",
        .claim =
            "Burstiness and many classes turn a classifier from learning in its weights to learning in context, and "
            "skewed frequencies of the classes let both appear.",
        .cost = {"5 s", "3 min", "3 d"}, .numbers = ASKED, .plan = plan, .measure = measure, .judge = judge,
        .conclude = conclude);
