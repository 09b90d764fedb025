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
#include <inttypes.h>
#include <string.h>

#include "core/allocate.h"
#include "core/safetensors.h"
#include "iclab/file.h"
#include "papers/architecture/distillation.h"
#include "papers/papers.h"

enum { MOST_SIZES = 5 };

static const struct {
    size_t seeds, sizes[MOST_SIZES];         /* numbers of features, up to the first 0 */
    size_t training, distilling, finetuning; /* steps */
} budgets[ICL_SCALES] = {
    {1, {4, 32}, 60, 20, 20},
    {3, {4, 16, 64}, 1200, 200, 200},
    {5, {4, 8, 16, 32, 64}, 4000, 2000, 2000},
};

/* Shares of squares that the maps miss, and accuracies. A cell trains one of the models of the last four; the one that
 * is finetuned measures the first ones of its start, too. */
enum { RANDOM_LOSS = 0, LOSS, CONVERTED, TEACHER, FINETUNED, SWAPPED, SCRATCH, NUMBERS };

static const struct {
    const char *label, *folder;
} models[NUMBERS] = {
    {"random maps", NULL},
    {"distilled maps", NULL},
    {"distilled", NULL},
    {"softmax, the teacher", "teacher"},
    {"distilled and finetuned", "finetuned"},
    {"swapped and finetuned (T2R)", "swapped"},
    {"linear, from scratch", "scratch"},
};

/* ---- Cells ---- */

enum { MODEL = 0, FEATURES }; /* places in the grid; the teacher has no features */

static icl_phrase name_point(size_t model, size_t features) {
    return model == TEACHER ? icl_phrase_print("%s", models[model].label)
                            : icl_phrase_print("%zu features, %s", features, models[model].label);
}

static const icl_study_cell *add_model(icl_study *study, size_t model, size_t features, uint32_t seed, size_t steps,
                                       const icl_study_cell *teacher) {
    return ICL_ADD_CELL(
        study, .name = name_point(model, features).text, .group = "recall", .recipe = "recall", .seed = seed,
        .folder = model == TEACHER ? ICL_PHRASE("teacher-seed%" PRIu32, seed)
                                   : ICL_PHRASE("%s-%zu-seed%" PRIu32, models[model].folder, features, seed),
        .settings = {ICL_PHRASE("train.steps=%zu eval.every=0 eval.predictors=", steps),
                     model == TEACHER ? "model.mixer=conv,softmax"
                                      : ICL_PHRASE("model.mixer=conv,linear model.normalizer=true "
                                                   "model.output_norm=none model.feature_map=learned:%zu",
                                                   features)},
        .begins_with = teacher, .at = {model, features});
}

static void plan(icl_study *study) {
    const size_t *sizes = budgets[study->scale].sizes;
    const size_t training = budgets[study->scale].training, finetuning = budgets[study->scale].finetuning;

    for (size_t k = 0; k < budgets[study->scale].seeds; k++) {
        const uint32_t seed = icl_study_seed(study, k);
        const icl_study_cell *teacher = add_model(study, TEACHER, 0, seed, training, NULL);
        for (size_t i = 0; i < MOST_SIZES && sizes[i] > 0; i++) {
            add_model(study, SCRATCH, sizes[i], seed, training + finetuning, NULL);
            add_model(study, SWAPPED, sizes[i], seed, finetuning, teacher);
            add_model(study, FINETUNED, sizes[i], seed, finetuning, teacher);
        }
    }
}

/* ---- Distilled maps, which are kept beside the runs ---- */

static bool is_array(const icl_named_tensor *tensor, icl_element_type type, size_t count) {
    return tensor && tensor->type == type && icl_named_tensor_count(tensor) == count;
}

static icl_status read_maps(const char *path, const char *made_of, size_t count, float *values, double losses[2],
                            icl_error *error) {
    icl_safetensors *file = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_safetensors_read(path, &file, error));
    const char *seen = icl_safetensors_metadata(file, "made_of");
    const icl_named_tensor *kept = icl_safetensors_find(file, "values");
    const icl_named_tensor *numbers = icl_safetensors_find(file, "numbers");
    if (!seen || strcmp(seen, made_of) != 0 || !is_array(kept, ICL_ELEMENT_F32, count) ||
        !is_array(numbers, ICL_ELEMENT_F64, 2))
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "%s: made of %s; expected %s: remove it to compute it again", path,
                         seen ? seen : "something else", made_of));
    memcpy(values, kept->data, count * sizeof *values);
    memcpy(losses, numbers->data, 2 * sizeof *losses);
done:
    icl_safetensors_destroy(&file);
    return status;
}

static icl_status write_maps(const char *path, const char *made_of, size_t count, float *values, double losses[2],
                             icl_error *error) {
    const icl_named_tensor tensors[] = {
        {"values", ICL_ELEMENT_F32, 1, {count}, values},
        {"numbers", ICL_ELEMENT_F64, 1, {2}, losses},
    };
    return icl_safetensors_write(path, tensors, 2, &(icl_metadata){"made_of", made_of}, 1, error);
}

/* Distils the random maps in `values`, or reads what was distilled before. */
static icl_status distil(const icl_study *study, const icl_study_cell *cell, const icl_distillation_params *params,
                         float *values, double losses[2], icl_error *error) {
    const size_t count = icl_model_size(params->student);
    const icl_phrase made_of = icl_phrase_print("%zu steps of %zu sequences with learning rate %g, seed %" PRIu32
                                                " behind %zu, evaluation %" PRIu32,
                                                params->steps, params->batch, params->learning_rate, params->seed,
                                                budgets[study->scale].training, study->run->params->seed);
    char *folder = NULL, *path = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_path_join(study->run->params->folder, "kept", &folder, error));
    ICL_TRY(icl_path_join(folder,
                          ICL_PHRASE("distilled-%zu-seed%" PRIu32 ".safetensors", cell->at[FEATURES], params->seed),
                          &path, error));
    if (icl_path_exists(path)) {
        ICL_TRY(read_maps(path, made_of.text, count, values, losses, error));
    } else {
        icl_reproduce_say(study->run, "distilling %zu features, %zu steps", cell->at[FEATURES], params->steps);
        ICL_TRY(icl_distillation_run(study->run, params, values, &losses[0], &losses[1], error));
        ICL_TRY(icl_folder_create(folder, error));
        ICL_TRY(write_maps(path, made_of.text, count, values, losses, error));
    }
done:
    icl_free(&folder);
    icl_free(&path);
    return status;
}

/* ---- Starts and measures ---- */

/* Gives a linear model with random maps what it shares with the teacher, and, where it is to be finetuned, distilled
 * maps; `losses` receives what is missed before and behind. */
static icl_status convert(const icl_study *study, const icl_study_cell *cell, icl_trainer *teacher,
                          const icl_model *model, float *values, double losses[2], icl_error *error) {
    const icl_model *from = icl_trainer_model(teacher);
    float *taught = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(icl_model_size(from), sizeof *taught, "parameters", &taught, error));
    ICL_TRY(icl_trainer_get_parameters(teacher, taught, error));
    ICL_TRY(icl_distillation_copy(from, taught, model, values, error));
    if (cell->at[MODEL] == FINETUNED)
        ICL_TRY(distil(study, cell,
                       &(icl_distillation_params){.teacher = teacher,
                                                  .student = model,
                                                  .steps = budgets[study->scale].distilling,
                                                  .batch = 64,
                                                  .learning_rate = .01,
                                                  .seed = cell->seed},
                       values, losses, error));
done:
    icl_free(&taught);
    return status;
}

static icl_status begin(icl_study *study, const icl_study_cell *cell, icl_trainer *from, const icl_model *model,
                        float *values, icl_error *error) {
    double losses[2];
    return convert(study, cell, from, model, values, losses, error);
}

/* The trainer then holds what it began with. */
static icl_status measure_start(icl_study *study, const icl_study_cell *cell, icl_trainer *trainer, icl_number *numbers,
                                icl_error *error) {
    const icl_model *model = icl_trainer_model(trainer);
    icl_trainer *teacher = NULL;
    float *values = NULL;
    double losses[2];
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_trained(study, cell->begins_with, &teacher, error));
    ICL_TRY(icl_allocate(icl_model_size(model), sizeof *values, "parameters", &values, error));
    icl_model_initialize(model, cell->seed, values);
    ICL_TRY(convert(study, cell, teacher, model, values, losses, error));
    ICL_TRY(icl_trainer_set_parameters(trainer, values, error));
    ICL_TRY(icl_reproduce_accuracy_as(study->run, trainer, cell->complete, "", &numbers[CONVERTED].value, error));
    numbers[RANDOM_LOSS].value = losses[0];
    numbers[LOSS].value = losses[1];
done:
    icl_trainer_destroy(&teacher);
    icl_free(&values);
    return status;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    ICL_CHECK(
        icl_reproduce_accuracy_as(study->run, trained, cell->complete, "", &numbers[cell->at[MODEL]].value, error));
    return cell->at[MODEL] == FINETUNED ? measure_start(study, cell, trained, numbers, error) : ICL_OK;
}

/* ---- Judging ---- */

/* The next smaller number of features; 0: there is none. */
static size_t find_fewer(const icl_study *study, size_t features) {
    const size_t *sizes = budgets[study->scale].sizes;
    size_t i = 0;

    while (sizes[i] != features)
        i++;
    return i > 0 ? sizes[i - 1] : 0;
}

static void judge_start(icl_study *study, const icl_study_cell *cell) {
    const size_t features = cell->at[FEATURES], fewer = find_fewer(study, features);
    const icl_number random = icl_over_seeds(study, cell, RANDOM_LOSS);
    const icl_study_cell *before = icl_study_find(study, name_point(FINETUNED, fewer).text);
    const icl_number limit = before ? icl_over_seeds(study, before, LOSS) : random;

    ICL_JUDGE(study, .what = name_point(LOSS, features).text, .quantity = "|o' - o|^2 / |o|^2",
              ICL_OURS(icl_over_seeds(study, cell, LOSS)), .target = limit.value, .criterion = ICL_AT_MOST,
              .evidence = ICL_INFERRED, .source = "more features distil better",
              .note = ICL_PHRASE("random maps %.3f; the limit is that of %s", random.value,
                                 before ? "fewer features" : "random maps"));
    ICL_JUDGE(study, .what = name_point(CONVERTED, features).text, .quantity = "accuracy",
              ICL_OURS(icl_over_seeds(study, cell, CONVERTED)));
}

/* At scale ci no model learns recall. */
static void judge(icl_study *study, const icl_study_cell *cell) {
    const bool helps = cell->at[MODEL] == FINETUNED && study->scale > ICL_SCALE_CI;

    if (cell->at[MODEL] == FINETUNED)
        judge_start(study, cell);
    ICL_JUDGE(study, .quantity = "accuracy", ICL_OURS(icl_over_seeds(study, cell, cell->at[MODEL])),
              .target = helps ? icl_over_seeds(study, cell, CONVERTED).value : 0, .criterion = ICL_AT_LEAST,
              .evidence = helps ? ICL_INFERRED : ICL_EVIDENCE_NONE, .source = helps ? "finetuning helps" : NULL);
}

/* ---- Figures ---- */

/* The teacher is a line over all numbers of features. */
static void plot(icl_study *study, icl_curves *curves, size_t number) {
    const size_t model = number <= CONVERTED ? FINETUNED : number, *sizes = budgets[study->scale].sizes;

    for (size_t i = 0; i < study->count; i++)
        for (size_t k = 0; k < MOST_SIZES && sizes[k] > 0; k++)
            if (study->cells[i]->at[MODEL] == model && (model == TEACHER || study->cells[i]->at[FEATURES] == sizes[k]))
                icl_study_plot(study, curves, models[number].label,
                               model == TEACHER ? ICL_SERIES_REFERENCE : ICL_SERIES_OURS, (double)sizes[k],
                               study->cells[i]->numbers[number].value);
}

static void conclude(icl_study *study) {
    icl_curves losses = {.figure = {"distillation", "Softmax attention distilled into linear attention", "features",
                                    "share of squares that is missed", true}};
    icl_curves accuracies = {.figure = {"accuracy", "Recall behind the conversion", "features", "accuracy", true}};

    for (size_t number = 0; number < NUMBERS; number++)
        plot(study, number <= LOSS ? &losses : &accuracies, number);
    icl_study_draw(study, &losses);
    icl_study_draw(study, &accuracies);
}

const icl_reproduction icl_rnn_conversion = ICL_STUDY(
        .name = "rnn-conversion", .source = "arXiv 2103.13076",
        .about = "softmax attention converted to a recurrence: learned feature maps, distilled and finetuned",
        .claim =
            "Softmax attention can be swapped for linear attention with a learned feature map: more features take over "
            "more of it, and finetuning helps.",
        .cost = {"5 s", "8 min", "4 h"}, .numbers = NUMBERS, .plan = plan, .begin = begin, .measure = measure,
        .judge = judge, .conclude = conclude);
