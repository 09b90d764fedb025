/*
 * Transformers converted to recurrent networks: Kasai and others 2021, "Finetuning Pretrained Transformers into RNNs"
 * (T2R, arXiv 2103.13076). Softmax attention is swapped for linear attention with a learned feature map phi(x) =
 * relu(W x + b), whose state has a fixed size, all other weights stay, and the whole is finetuned.
 *
 * The paper finetunes right behind the swap, with maps that begin at random. Here the maps are also distilled before
 * (distillation.h), which shows what phi can take over of softmax attention by its number of features. The paper's
 * tables are not at hand: judged is that more features distil better and that finetuning helps; accuracies on recall
 * stand beside the teacher's and that of the same linear model trained from scratch for all of the steps.
 */
#include <stdio.h>

#include "papers/architecture/student.h"
#include "papers/curves.h"
#include "papers/losses.h"
#include "papers/papers.h"
#include "papers/phrase.h"
#include "papers/seeds.h"

enum { MOST_SIZES = 5 };

static const char *const teacher_overrides = "eval.every=0 eval.predictors= model.mixer=conv,softmax";
static const struct {
    size_t seeds, sizes[MOST_SIZES];         /* numbers of features, up to the first 0 */
    size_t training, distilling, finetuning; /* steps */
} budgets[ICL_SCALES] = {
    {1, {4, 32}, 60, 20, 20},
    {3, {4, 16, 64}, 1200, 200, 200},
    {5, {4, 8, 16, 32, 64}, 4000, 2000, 2000},
};

/* What is measured of each seed. */
typedef enum measure { RANDOM_LOSS = 0, LOSS, TEACHER, CONVERTED, FINETUNED, SWAPPED, SCRATCH, MEASURES } measure;

static const char *const labels[MEASURES] = {
    "random maps",
    "distilled maps",
    "softmax, the teacher",
    "distilled",
    "distilled and finetuned",
    "swapped and finetuned (T2R)",
    "linear, from scratch",
};

/* Losses of the maps in one figure, accuracies in another, by the number of features. */
typedef struct outcome {
    icl_curves losses, accuracies;
} outcome;

static icl_status add(outcome *to, measure of, size_t size, double value, icl_error *error) {
    return icl_curves_add(of <= LOSS ? &to->losses : &to->accuracies, labels[of],
                          of == TEACHER ? ICL_SERIES_REFERENCE : ICL_SERIES_OURS, (double)size, value, error);
}

static icl_curve_point point(const outcome *of, measure which, size_t size) {
    return icl_curves_at(which <= LOSS ? &of->losses : &of->accuracies, labels[which], (double)size);
}

/* ---- One seed ---- */

/* Trains a linear model of so many features from some parameters, NULL: the recipe's, and measures it. */
static icl_status train_linear(icl_reproducing *run, const char *name, size_t size, size_t steps, uint32_t seed,
                               const float *initial, double *accuracy, icl_error *error) {
    char cell_name[ICL_SEEDED_NAME], mixer[ICL_STUDENT_MIXER];
    const icl_seeded_cell cell = {
        .name = cell_name, .recipe = "recall", .overrides = {mixer}, .steps = steps, .seed = seed, .initial = initial};
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    snprintf(cell_name, sizeof cell_name, "%s-%zu", name, size);
    icl_student_mixer(size, mixer);
    ICL_TRY(icl_reproduce_evaluate_seed(run, &cell, &evaluation, error));
    *accuracy = evaluation->scores[0].accuracy;
done:
    icl_evaluation_destroy(&evaluation);
    return status;
}

/* `scratch`: the accuracy of the model that was trained from scratch. */
static icl_status convert(icl_reproducing *run, icl_trainer *teacher, size_t size, uint32_t seed, double scratch,
                          outcome *to, icl_error *error) {
    const size_t finetuning = budgets[run->params->scale].finetuning;
    double is[MEASURES] = {[SCRATCH] = scratch};
    icl_student s = {.swapped = NULL};
    icl_status status = ICL_OK;

    const icl_student_params with = {.teacher = teacher,
                                     .trained = budgets[run->params->scale].training,
                                     .features = size,
                                     .steps = budgets[run->params->scale].distilling,
                                     .seed = seed};
    ICL_TRY(icl_student_open(run, &with, &s, error));
    ICL_TRY(
        icl_reproduce_next(run, train_linear(run, "swapped", size, finetuning, seed, s.swapped, &is[SWAPPED], error)));
    ICL_TRY(icl_student_distil(run, &s, error));
    ICL_TRY(train_linear(run, "finetuned", size, finetuning, seed, s.distilled, &is[FINETUNED], error));
    ICL_TRY(icl_trainer_set_parameters(s.made.trainer, s.distilled, error));
    ICL_TRY(icl_reproduce_accuracy_as(run, s.made.trainer, s.made.recipe, "", &is[CONVERTED], error));
    is[RANDOM_LOSS] = s.losses[0];
    is[LOSS] = s.losses[1];
    for (measure i = 0; i < MEASURES; i++)
        if (i != TEACHER)
            ICL_TRY(add(to, i, size, is[i], error));
done:
    icl_student_close(&s);
    return status;
}

/* Accuracies of the models from scratch, by their sizes. */
static icl_status convert_teacher(icl_reproducing *run, uint32_t seed, const double *scratch, outcome *to,
                                  icl_error *error) {
    const size_t *sizes = budgets[run->params->scale].sizes;
    const icl_seeded_cell cell = {.name = "teacher",
                                  .recipe = "recall",
                                  .overrides = {teacher_overrides},
                                  .steps = budgets[run->params->scale].training,
                                  .seed = seed,
                                  .is_needed = true};
    icl_seeded teacher = {NULL};
    double accuracy = 0;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_train_seed(run, &cell, &teacher, error));
    if (icl_reproduce_judges(run))
        ICL_TRY(icl_reproduce_accuracy_as(run, teacher.trainer, teacher.recipe, "", &accuracy, error));
    for (size_t i = 0; i < MOST_SIZES && sizes[i] > 0; i++) {
        ICL_TRY(add(to, TEACHER, sizes[i], accuracy, error));
        ICL_TRY(icl_reproduce_next(run, convert(run, teacher.trainer, sizes[i], seed, scratch[i], to, error)));
    }
done:
    icl_seeded_release(&teacher);
    return status;
}

/* The models from scratch need no teacher. */
static icl_status reproduce_seed(icl_reproducing *run, uint32_t seed, outcome *to, icl_error *error) {
    const size_t *sizes = budgets[run->params->scale].sizes;
    const size_t steps = budgets[run->params->scale].training + budgets[run->params->scale].finetuning;
    double scratch[MOST_SIZES] = {0};

    for (size_t i = 0; i < MOST_SIZES && sizes[i] > 0; i++)
        ICL_CHECK(
            icl_reproduce_next(run, train_linear(run, "scratch", sizes[i], steps, seed, NULL, &scratch[i], error)));
    return icl_reproduce_next(run, convert_teacher(run, seed, scratch, to, error));
}

/* ---- The table ---- */

/* The losses and accuracies of one number of features; fewer: the number before, or 0. */
static icl_status judge_size(icl_reproducing *run, size_t size, size_t fewer, const outcome *of, icl_error *error) {
    const icl_curve_point loss = point(of, LOSS, size), random = point(of, RANDOM_LOSS, size);
    const icl_curve_point before = fewer > 0 ? point(of, LOSS, fewer) : random;

    ICL_CHECK(ICL_FOUND_POINT(run, error, loss, .what = ICL_PHRASE("%zu features, distilled maps", size),
                              .quantity = "|o' - o|^2 / |o|^2", .target = before.mean, .criterion = ICL_AT_MOST,
                              .evidence = ICL_INFERRED, .source = "more features distil better",
                              .note = ICL_PHRASE("random maps %.3f; the limit is that of %s", random.mean,
                                                 fewer > 0 ? "fewer features" : "random maps")));
    for (measure i = CONVERTED; i < MEASURES; i++) {
        const bool helps = i == FINETUNED && run->params->scale > ICL_SCALE_CI; /* at which no model learns recall */
        ICL_CHECK(ICL_FOUND_POINT(
            run, error, point(of, i, size), .what = ICL_PHRASE("%zu features, %s", size, labels[i]),
            .quantity = "accuracy", .target = helps ? point(of, CONVERTED, size).mean : 0, .criterion = ICL_AT_LEAST,
            .evidence = helps ? ICL_INFERRED : ICL_EVIDENCE_NONE, .source = helps ? "finetuning helps" : NULL));
    }
    return ICL_OK;
}

static icl_status judge(icl_reproducing *run, const outcome *of, icl_error *error) {
    const size_t *sizes = budgets[run->params->scale].sizes;

    ICL_CHECK(
        ICL_FOUND_POINT(run, error, point(of, TEACHER, sizes[0]), .what = labels[TEACHER], .quantity = "accuracy"));
    for (size_t i = 0; i < MOST_SIZES && sizes[i] > 0; i++)
        ICL_CHECK(judge_size(run, sizes[i], i > 0 ? sizes[i - 1] : 0, of, error));
    return ICL_OK;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    outcome of = {.losses.figure = {.name = "distillation",
                                    .title = "Softmax attention distilled into linear attention",
                                    .x_label = "features",
                                    .y_label = "share of squares that is missed",
                                    .log_x = true},
                  .accuracies.figure = {.name = "accuracy",
                                        .title = "Recall behind the conversion",
                                        .x_label = "features",
                                        .y_label = "accuracy",
                                        .log_x = true}};
    icl_status status = ICL_OK;

    if (!icl_reproduce_wants(run, "recall"))
        return ICL_OK;
    for (size_t seed = 0; seed < budgets[run->params->scale].seeds; seed++)
        ICL_TRY(reproduce_seed(run, icl_reproduce_seed(run, seed), &of, error));
    ICL_TRY(judge(run, &of, error));
    ICL_TRY(icl_curves_draw(run, &of.losses, error));
    ICL_TRY(icl_curves_draw(run, &of.accuracies, error));
done:
    icl_curves_release(&of.losses);
    icl_curves_release(&of.accuracies);
    return status;
}

const icl_reproduction icl_rnn_conversion = {
    .name = "rnn-conversion",
    .source = "arXiv 2103.13076",
    .about = "softmax attention converted to a recurrence: learned feature maps, distilled and finetuned",
    .cost = {"5 s", "8 min", "4 h"},
    .is_shared = true,
    .run = reproduce,
};
