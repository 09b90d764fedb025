/*
 * A case without the gap between Adam and SGD with momentum that landscape-adam-sgd shows (arXiv 2310.01082, section 3,
 * which holds the gap to be a trait of transformers, and not of networks on images): two layers on 8 x 8 pictures of
 * handwritten digits, both optimizers at their own best learning rate.
 *
 * Scales short and full read digits.csv of the current folder: a line for each picture with 64 whole numbers from 0 to
 * 16, and the digit. Scale ci, which needs no file, has ten clouds of normal points in their place. Every third picture
 * is held out, and the loss there is judged; the best rate is that with the lowest mean of it over the seeds.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/loss.h"
#include "iclab/random.h"
#include "numeric/statistics.h"
#include "papers/landscape/landscape.h"
#include "papers/papers.h"

enum { PIXELS = 64, CLASSES = 10, HIDDEN = 64, ROW = PIXELS + 1, HELD_OUT = 3, MOST_PICTURES = 5000 };

static const char *const file_name = "digits.csv";

/* The stream of this file's random numbers. Tasks have other streams (task/streams.h). */
#define PICTURE_STREAM 0x64696769u

/* ---- Pictures: numbers from -1 to 1, and the class ---- */

typedef struct pictures {
    size_t count;
    float *rows; /* [MOST_PICTURES][ROW] */
} pictures;

icl_status icl_digits_parse(const char *text, size_t most, float *rows, size_t *count, icl_error *error) {
    const char *at = text;

    *count = 0;
    while (*at != '\0') {
        if (*count == most)
            return icl_fail(error, ICL_ERROR_INPUT, "%s: more than %zu lines, expected fewer", file_name, most);
        for (size_t i = 0; i < ROW; i++) {
            char *end;
            const unsigned long number = strtoul(at, &end, 10);
            const bool ends = i < PIXELS ? *end == ',' : strchr("\r\n", *end) != NULL; /* or where the text ends */
            if (end == at || number > (i < PIXELS ? 16 : CLASSES - 1) || !ends)
                return icl_fail(error, ICL_ERROR_INPUT,
                                "%s, line %zu, field %zu: expected %d numbers from 0 to 16 and a digit, between commas",
                                file_name, *count + 1, i + 1, PIXELS);
            rows[*count * ROW + i] = i < PIXELS ? (float)number / 8 - 1 : (float)number;
            at = i < PIXELS ? end + 1 : end + strspn(end, "\r\n");
        }
        ++*count;
    }
    return *count >= HELD_OUT
               ? ICL_OK
               : icl_fail(error, ICL_ERROR_INPUT, "%s: %zu lines, expected at least %d", file_name, *count, HELD_OUT);
}

/* Draws ten clouds about centres, which are nearer to each other than their widths would tell apart for sure. */
static void draw_clouds(uint32_t seed, pictures *all) {
    const icl_random_key points = {seed, PICTURE_STREAM, 1}, centres = {seed, PICTURE_STREAM, 2};

    all->count = 1500;
    for (size_t i = 0; i < all->count; i++) {
        const size_t class = i % CLASSES;
        for (size_t k = 0; k < PIXELS; k++)
            all->rows[i * ROW + k] = .5F * icl_normal_from_word(icl_random_word(points, i * PIXELS + k)) +
                                     .2F * icl_normal_from_word(icl_random_word(centres, class * PIXELS + k));
        all->rows[i * ROW + PIXELS] = (float)class;
    }
}

static icl_status read_pictures(const icl_study *study, pictures *all, icl_error *error) {
    char *text = NULL;
    size_t size;
    icl_status status = ICL_OK;

    ICL_CHECK(icl_study_room(study, (size_t)MOST_PICTURES * ROW, sizeof *all->rows, &all->rows, error));
    if (study->scale == ICL_SCALE_CI) {
        draw_clouds(study->run->params->seed, all);
        return ICL_OK;
    }
    ICL_TRY(icl_file_read(file_name, 0, &text, &size, error));
    ICL_TRY(icl_digits_parse(text, MOST_PICTURES, all->rows, &all->count, error));
done:
    icl_text_free(&text);
    return status;
}

/* ---- The task: a picture is a sequence of one position ---- */

static icl_status create_task(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    (void)recipe, (void)error;
    task->shape = (icl_task_shape){
        .positions = 1, .inputs = PIXELS, .outputs = CLASSES, .scored = 1, .loss = ICL_LOSS_CROSS_ENTROPY};
    return ICL_OK;
}

/* Draws any of the pictures that are not held out; for evaluation all that are, one after another. */
static icl_status draw_batch(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                             const icl_batch_values *values, icl_error *error) {
    const pictures *all = task->family->settings;
    const icl_random_key key = {seed, PICTURE_STREAM, step};

    (void)error;
    for (size_t s = 0; s < values->size; s++) {
        size_t place = HELD_OUT * s + HELD_OUT - 1;
        if (purpose == ICL_FOR_TRAINING) {
            const size_t drawn = icl_random_word(key, s) % (all->count / HELD_OUT * (HELD_OUT - 1));
            place = drawn / (HELD_OUT - 1) * HELD_OUT + drawn % (HELD_OUT - 1);
        }
        memcpy(values->inputs + s * PIXELS, all->rows + place * ROW, PIXELS * sizeof(float));
        values->targets[s] = all->rows[place * ROW + PIXELS];
    }
    return ICL_OK;
}

/* ---- The model: a ReLU between two maps ---- */

static icl_status create_model(const icl_recipe *recipe, icl_model *model, icl_error *error) {
    (void)recipe;
    ICL_CHECK(icl_model_add_parameter(model, 2, (size_t[]){PIXELS, HIDDEN}, error, "first"));
    ICL_CHECK(icl_model_add_parameter(model, 3, (size_t[]){1, 1, HIDDEN}, error, "first.bias"));
    ICL_CHECK(icl_model_add_parameter(model, 2, (size_t[]){HIDDEN, CLASSES}, error, "second"));
    return icl_model_add_parameter(model, 3, (size_t[]){1, 1, CLASSES}, error, "second.bias");
}

static void initialize(const icl_model *model, uint32_t seed, float *values) {
    for (size_t i = 0; i < model->parameter_count; i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        const float width = info->rank == 2 ? sqrtf((i == 0 ? 2.0F : 1.0F) / (float)info->shape[0]) : 0;
        for (size_t k = info->offset; k < info->offset + info->count; k++)
            values[k] = width * icl_model_noise(seed, k);
    }
}

static icl_variable predict(const icl_model *model, icl_tape *tape, const icl_variable *parameters, icl_variable inputs,
                            size_t depth) {
    const icl_variable first = icl_tape_matmul(tape, 1, inputs, parameters[0]);
    const icl_variable hidden = icl_tape_unary(tape, ICL_RELU, icl_tape_binary(tape, ICL_ADD, first, parameters[1]));

    (void)model, (void)depth;
    return icl_tape_binary(tape, ICL_ADD, icl_tape_matmul(tape, 1, hidden, parameters[2]), parameters[3]);
}

/* ---- Cells: at[] is the optimizer, the learning rate, and the number of the seed ---- */

enum { RATES = 6, MOST_SEEDS = ICL_LANDSCAPE_SEEDS, ADAM = ICL_LANDSCAPE_ADAM, SGD = ICL_LANDSCAPE_SGD, BATCH = 128 };

static const double rates[ICL_LANDSCAPE_OPTIMIZERS][RATES] = {{.0003, .001, .003, .01, .03, .1},
                                                              {.003, .01, .03, .1, .3, 1}};

static const struct { size_t steps, seeds; } budgets[ICL_SCALES] = {{100, 2}, {500, 4}, {2000, MOST_SEEDS}};

/* Says where the pictures are to be had, if they are not here. Lists of cells need none. */
static icl_status check_file(const icl_study *study, icl_error *error) {
    if (study->scale == ICL_SCALE_CI || study->run->listener || icl_path_exists(file_name))
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s: missing: expected the digits of scikit-learn: tools/packages --tables && zcat "
                    "/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz >%s",
                    file_name, file_name);
}

static void plan(icl_study *study) {
    ICL_STUDY_CALL(study, check_file, study);
    for (size_t optimizer = 0; optimizer < ICL_LANDSCAPE_OPTIMIZERS; optimizer++)
        for (size_t rate = 0; rate < RATES; rate++)
            for (size_t seed = 0; seed < budgets[study->scale].seeds; seed++)
                ICL_ADD_CELL(study,
                             .name =
                                 ICL_PHRASE("%s, rate %g", icl_landscape_optimizers[optimizer], rates[optimizer][rate]),
                             .at = {optimizer, rate, seed});
}

/* ---- Measuring ---- */

enum { LOSS = 0, ACCURACY, TRAINED, NUMBERS }; /* held out; and the mean loss of the last tenth of the steps */

static icl_status make_recipe(const icl_study *study, const icl_study_cell *cell, icl_recipe **recipe,
                              icl_error *error) {
    const size_t optimizer = cell->at[0];
    const icl_phrase settings = icl_phrase_print(
        "train.schedule=constant train.warmup=0 train.clip=0 %s "
        "train.optimizer=%s train.learning_rate=%g train.steps=%zu train.batch=%d train.seed=%" PRIu32,
        optimizer == SGD ? "train.momentum=0.9" : "", icl_landscape_optimizers[optimizer],
        rates[optimizer][cell->at[1]], budgets[study->scale].steps, BATCH, icl_study_seed(study, cell->at[2]));

    ICL_CHECK(icl_recipe_create_complete(recipe, error));
    return icl_reproduce_override_all(*recipe, settings.text, error);
}

static icl_status evaluate(const icl_study *study, icl_trainer *trainer, size_t count, icl_number *numbers,
                           icl_error *error) {
    float *outputs = NULL, *classes = NULL;
    icl_batch batch;

    ICL_CHECK(icl_study_batch(study, icl_trainer_task(trainer), count, 0, 0, &batch, error));
    ICL_CHECK(icl_study_read(study, batch.targets, &classes, error));
    ICL_CHECK(icl_study_room(study, count * CLASSES, sizeof *outputs, &outputs, error));
    ICL_CHECK(icl_trainer_predict(trainer, &batch, outputs, error));
    numbers[LOSS].value = numbers[ACCURACY].value = 0;
    for (size_t s = 0; s < count; s++) {
        const double target = (double)classes[s];
        double logits[CLASSES];
        for (size_t k = 0; k < CLASSES; k++)
            logits[k] = (double)outputs[s * CLASSES + k];
        numbers[LOSS].value += icl_loss_of(ICL_LOSS_CROSS_ENTROPY, CLASSES, logits, &target) / (double)count;
        numbers[ACCURACY].value += icl_loss_accuracy(ICL_LOSS_CROSS_ENTROPY, CLASSES, logits, &target) / (double)count;
    }
    return ICL_OK;
}

static icl_status train(const icl_study *study, icl_trainer *trainer, double *trained, icl_error *error) {
    const size_t steps = budgets[study->scale].steps, last = steps / 10;
    size_t count;

    ICL_CHECK(icl_reproduce_poll(study->run, error));
    ICL_CHECK(icl_trainer_run(trainer, steps - last, error));
    ICL_CHECK(icl_trainer_run(trainer, last, error));
    const float *losses = icl_trainer_losses(trainer, &count);
    *trained = 0;
    for (size_t i = 0; i < count; i++)
        *trained += (double)losses[i] / (double)count;
    return ICL_OK;
}

/* A training that diverges leaves its numbers NaN. */
static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *none, icl_number *numbers,
                          icl_error *error) {
    const icl_model_family model = {
        .name = "pictures", .create = create_model, .initialize = initialize, .predict = predict};
    pictures all = {0};
    const icl_task_family task = {.name = "pictures", .settings = &all, .create = create_task, .draw = draw_batch};
    const icl_trainer_parts parts = {.task = &task, .model = &model};
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    (void)none;
    ICL_TRY(read_pictures(study, &all, error));
    ICL_TRY(make_recipe(study, cell, &recipe, error));
    ICL_TRY(icl_trainer_create_with(study->run->params->backend, &parts, recipe, &trainer, error));
    ICL_TRY(train(study, trainer, &numbers[TRAINED].value, error));
    ICL_TRY(evaluate(study, trainer, all.count / HELD_OUT, numbers, error));
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status == ICL_ERROR_DIVERGED ? ICL_OK : status;
}

/* ---- Judging ---- */

static icl_number over_seeds(const icl_study *study, size_t optimizer, size_t rate, size_t number) {
    return icl_over_seeds(study, icl_landscape_find(study, optimizer, rate, 0, 0), number);
}

/* Returns the place of the rate with the least mean of a number; a rate at which a training diverged has none. */
static size_t best_rate(const icl_study *study, size_t optimizer, size_t number) {
    double least = HUGE_VAL;
    size_t best = 0;

    for (size_t rate = 0; rate < RATES; rate++) {
        const double mean = over_seeds(study, optimizer, rate, number).value;
        if (mean < least) {
            least = mean;
            best = rate;
        }
    }
    return best;
}

/* Computes the mean over seeds of log(Adam / SGD) of a loss, each at the best rate for it. */
static icl_number log_ratio(const icl_study *study, size_t number) {
    const size_t seeds = budgets[study->scale].seeds;
    const size_t adam = best_rate(study, ADAM, number), sgd = best_rate(study, SGD, number);
    double logs[MOST_SEEDS];

    for (size_t seed = 0; seed < seeds; seed++)
        logs[seed] = log(icl_landscape_find(study, ADAM, adam, seed, 0)->numbers[number].value /
                         icl_landscape_find(study, SGD, sgd, seed, 0)->numbers[number].value);
    return (icl_number){icl_mean(logs, seeds), icl_standard_error(logs, seeds)};
}

static void conclude(icl_study *study) {
    const char *what = study->scale == ICL_SCALE_CI ? "ten clouds" : "digits";
    size_t best[ICL_LANDSCAPE_OPTIMIZERS];

    for (size_t optimizer = 0; optimizer < ICL_LANDSCAPE_OPTIMIZERS; optimizer++) {
        const size_t rate = best[optimizer] = best_rate(study, optimizer, LOSS);
        ICL_JUDGE(study, .what = ICL_PHRASE("%s, %s", what, icl_landscape_optimizers[optimizer]),
                  .quantity = "best learning rate of six", .ours = rates[optimizer][rate],
                  .note = ICL_PHRASE("held-out loss %.3g, accuracy %.4f; training loss at the end %.3g%s",
                                     over_seeds(study, optimizer, rate, LOSS).value,
                                     over_seeds(study, optimizer, rate, ACCURACY).value,
                                     over_seeds(study, optimizer, rate, TRAINED).value,
                                     rate == 0 || rate == RATES - 1 ? "; at an end of the six" : ""));
    }
    ICL_JUDGE(study, .what = what, .quantity = "log of the loss of Adam / of SGD", ICL_OURS(log_ratio(study, LOSS)),
              .target = 0, .tolerance = .5, .evidence = ICL_INFERRED, .source = "no gap on images",
              .note = ICL_PHRASE("held out; %zu seeds; of the training loss at the end, at rates %g and %g that are "
                                 "best for it, %.3g",
                                 budgets[study->scale].seeds, rates[ADAM][best_rate(study, ADAM, TRAINED)],
                                 rates[SGD][best_rate(study, SGD, TRAINED)], log_ratio(study, TRAINED).value));
    ICL_JUDGE(study, .what = what, .quantity = "accuracy, Adam",
              ICL_OURS(over_seeds(study, ADAM, best[ADAM], ACCURACY)),
              .target = study->scale == ICL_SCALE_CI ? .7 : .93, .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED,
              .source = "networks tell digits apart");
}

const icl_reproduction icl_landscape_digits =
    ICL_STUDY(.name = "landscape-digits", .source = "arXiv 2310.01082, section 3",
              .about = "losses of Adam and SGD on pictures of digits (digits.csv), each at its best learning rate",
              .claim = "Adam and SGD with momentum train a network on images to nearly the same held-out loss: the gap "
                       "is a trait of transformers.",
              .scope = "A met table means that on 8 x 8 digits Adam and SGD, each at its best rate, have nearly "
                       "the same held-out loss in two layers; larger images and deeper networks were not tested, "
                       "and at scale ci clouds of points stand in for digits.",
              .cost = {"1 s", "10 s", "1 min"}, .numbers = NUMBERS, .plan = plan, .measure = measure,
              .conclude = conclude);
