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
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "papers/architecture/architecture.h"
#include "papers/architecture/distillation.h"
#include "papers/curves.h"
#include "papers/papers.h"

enum { MOST_SIZES = 5 };

static const char *const teacher_overrides = "eval.every=0 eval.predictors= model.mixer=conv,softmax";
static const char *const student_overrides = "eval.every=0 eval.predictors= model.mixer=conv,linear "
                                             "model.normalizer=true model.output_norm=none model.feature_map=learned:";

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
    icl_curve_point seen = {.mean = (double)NAN};
    icl_error error = {0};

    /* Of a curve without a value at this size nothing is known. */
    (void)icl_curves_point(which <= LOSS ? &of->losses : &of->accuracies, labels[which], (double)size, &seen, &error);
    return seen;
}

/* ---- One seed ---- */

static icl_status measure_accuracy(icl_reproducing *run, icl_trainer *trainer, const icl_recipe *recipe,
                                   double *accuracy, icl_error *error) {
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_evaluate(run->params->backend, trainer, recipe, &evaluation, error));
    *accuracy = evaluation->scores[0].accuracy;
done:
    icl_evaluation_destroy(&evaluation);
    return status;
}

/* Trains a linear model of so many features from some parameters, NULL: the recipe's, and measures it. */
static icl_status train_linear(icl_reproducing *run, const char *name, size_t size, size_t steps, uint32_t seed,
                               const float *initial, double *accuracy, icl_error *error) {
    char cell_name[ICL_SEEDED_NAME], overrides[256];
    const icl_seeded_cell cell = {.name = cell_name,
                                  .recipe = "recall",
                                  .overrides = overrides,
                                  .steps = steps,
                                  .seed = seed,
                                  .initial = initial};
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    snprintf(cell_name, sizeof cell_name, "%s-%zu", name, size);
    snprintf(overrides, sizeof overrides, "%s%zu", student_overrides, size);
    ICL_TRY(icl_reproduce_evaluate_seed(run, &cell, &evaluation, error));
    *accuracy = evaluation->scores[0].accuracy;
done:
    icl_evaluation_destroy(&evaluation);
    return status;
}

/* A linear model that holds the teacher's parameters and random maps, and these. */
typedef struct student {
    icl_recipe *recipe;
    icl_trainer *trainer;
    float *swapped, *distilled; /* parameters, with random maps and with distilled ones */
} student;

static icl_status make_student(icl_reproducing *run, icl_trainer *teacher, size_t size, uint32_t seed, student *made,
                               icl_error *error) {
    char overrides[256];
    const icl_seeded_cell cell = {.name = "student", .recipe = "recall", .overrides = overrides, .seed = seed};
    float *values = NULL;
    icl_status status = ICL_OK;

    snprintf(overrides, sizeof overrides, "%s%zu", student_overrides, size);
    ICL_TRY(icl_reproduce_train_seed(run, &cell, &made->recipe, &made->trainer, error));
    const icl_model *model = icl_trainer_model(made->trainer), *from = icl_trainer_model(teacher);
    ICL_TRY(icl_allocate(icl_model_size(from), sizeof *values, "parameters", &values, error));
    ICL_TRY(icl_allocate(icl_model_size(model), sizeof(float), "parameters", &made->swapped, error));
    ICL_TRY(icl_allocate(icl_model_size(model), sizeof(float), "parameters", &made->distilled, error));
    ICL_TRY(icl_trainer_get_parameters(teacher, values, error));
    ICL_TRY(icl_trainer_get_parameters(made->trainer, made->swapped, error));
    ICL_TRY(icl_architecture_copy(from, values, model, made->swapped, error));
    for (size_t i = 0; i < icl_model_size(model); i++)
        made->distilled[i] = made->swapped[i];
done:
    icl_free(&values);
    return status;
}

static void release_student(student *gone) {
    icl_trainer_destroy(&gone->trainer);
    icl_recipe_destroy(&gone->recipe);
    icl_free(&gone->swapped);
    icl_free(&gone->distilled);
}

static icl_status convert(icl_reproducing *run, icl_trainer *teacher, size_t size, uint32_t seed, outcome *to,
                          icl_error *error) {
    const size_t training = budgets[run->params->scale].training, finetuning = budgets[run->params->scale].finetuning;
    double is[MEASURES] = {0};
    student s = {NULL};
    icl_status status = ICL_OK;

    ICL_TRY(make_student(run, teacher, size, seed, &s, error));
    const icl_distillation_params params = {.teacher = teacher,
                                            .student = icl_trainer_model(s.trainer),
                                            .steps = budgets[run->params->scale].distilling,
                                            .batch = 64,
                                            .learning_rate = .01,
                                            .seed = seed};
    icl_reproduce_say(run, "distilling %zu features, %zu steps", size, params.steps);
    ICL_TRY(icl_distillation_run(run, &params, s.distilled, &is[RANDOM_LOSS], &is[LOSS], error));
    ICL_TRY(icl_trainer_set_parameters(s.trainer, s.distilled, error));
    ICL_TRY(measure_accuracy(run, s.trainer, s.recipe, &is[CONVERTED], error));
    ICL_TRY(train_linear(run, "finetuned", size, finetuning, seed, s.distilled, &is[FINETUNED], error));
    ICL_TRY(train_linear(run, "swapped", size, finetuning, seed, s.swapped, &is[SWAPPED], error));
    ICL_TRY(train_linear(run, "scratch", size, training + finetuning, seed, NULL, &is[SCRATCH], error));
    for (measure i = 0; i < MEASURES; i++)
        if (i != TEACHER)
            ICL_TRY(add(to, i, size, is[i], error));
done:
    release_student(&s);
    return status;
}

static icl_status reproduce_seed(icl_reproducing *run, uint32_t seed, outcome *to, icl_error *error) {
    const size_t *sizes = budgets[run->params->scale].sizes;
    const icl_seeded_cell cell = {.name = "teacher",
                                  .recipe = "recall",
                                  .overrides = teacher_overrides,
                                  .steps = budgets[run->params->scale].training,
                                  .seed = seed};
    icl_recipe *recipe = NULL;
    icl_trainer *teacher = NULL;
    double accuracy;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_train_seed(run, &cell, &recipe, &teacher, error));
    ICL_TRY(measure_accuracy(run, teacher, recipe, &accuracy, error));
    for (size_t i = 0; i < MOST_SIZES && sizes[i] > 0; i++) {
        ICL_TRY(add(to, TEACHER, sizes[i], accuracy, error));
        ICL_TRY(convert(run, teacher, sizes[i], seed, to, error));
    }
done:
    icl_trainer_destroy(&teacher);
    icl_recipe_destroy(&recipe);
    return status;
}

/* ---- The table ---- */

/* The losses and accuracies of one number of features; fewer: the number before, or 0. */
static icl_status judge_size(icl_reproducing *run, size_t size, size_t fewer, const outcome *of, icl_error *error) {
    const icl_curve_point loss = point(of, LOSS, size), random = point(of, RANDOM_LOSS, size);
    const icl_curve_point before = fewer > 0 ? point(of, LOSS, fewer) : random;
    char what[ICL_SEEDED_NAME], note[96];

    snprintf(note, sizeof note, "random maps %.3f; the limit is that of %s", random.mean,
             fewer > 0 ? "fewer features" : "random maps");
    snprintf(what, sizeof what, "%zu features, distilled maps", size);
    ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "|o' - o|^2 / |o|^2", .ours = loss.mean,
                        .standard_error = loss.standard_error, .target = before.mean, .criterion = ICL_AT_MOST,
                        .evidence = ICL_INFERRED, .source = "more features distil better", .note = note));
    for (measure i = CONVERTED; i < MEASURES; i++) {
        const icl_curve_point is = point(of, i, size), converted = point(of, CONVERTED, size);
        icl_finding found = {
            .what = what, .quantity = "accuracy", .ours = is.mean, .standard_error = is.standard_error};
        snprintf(what, sizeof what, "%zu features, %s", size, labels[i]);
        if (i == FINETUNED && run->params->scale > ICL_SCALE_CI) { /* at which no model learns recall */
            found.target = converted.mean;
            found.criterion = ICL_AT_LEAST;
            found.evidence = ICL_INFERRED;
            found.source = "finetuning helps";
        }
        ICL_CHECK(icl_reproduce_found(run, &found, error));
    }
    return ICL_OK;
}

static icl_status judge(icl_reproducing *run, const outcome *of, icl_error *error) {
    const size_t *sizes = budgets[run->params->scale].sizes;
    const icl_curve_point teacher = point(of, TEACHER, sizes[0]);

    ICL_CHECK(ICL_FOUND(run, error, .what = labels[TEACHER], .quantity = "accuracy", .ours = teacher.mean,
                        .standard_error = teacher.standard_error));
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
        ICL_TRY(reproduce_seed(run, run->params->seed + (uint32_t)seed, &of, error));
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
    .run = reproduce,
};
