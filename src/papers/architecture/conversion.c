/*
 * Transformers converted to recurrent networks: Kasai and others 2021, "Finetuning Pretrained Transformers into RNNs"
 * (T2R, arXiv 2103.13076). Softmax attention is swapped for linear attention with a learned feature map phi(x) =
 * relu(W x + b), whose state has a fixed size, all other weights stay, and the whole is finetuned.
 *
 * The paper finetunes right after the swap, with maps that begin at random. Here the maps are also distilled first
 * (checked.h), which shows how well phi can imitate softmax attention with a given number of features. The paper's
 * tables are not at hand: this study judges that more features distil better and that finetuning helps; accuracies on
 * recall are shown next to the teacher's and that of the same linear model trained from scratch for all of the steps.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/safetensors.h"
#include "iclab/file.h"
#include "iclab/ops.h"
#include "model/sequence/sequence.h"
#include "papers/checked.h"
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

/* Shares of squares that the maps miss, and accuracies. A cell trains one of the last four models; the finetuned one
 * also measures the first three numbers at its start. */
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

/* ---- Distillation ---- */

#define NORMALIZER_EPSILON 1e-6 /* the epsilon of the mixer "linear" */

enum { EVALUATED = 256, MOST_LAYERS = 16, FLAT = 4 };

/* The inputs that one layer of softmax attention reads, on the tape. */
typedef struct seen_layer {
    size_t layer;
    icl_attention_params params;
    icl_sequence_heads heads;
} seen_layer;

typedef struct distillation {
    const icl_distillation_params *params;
    const icl_task *task;
    const icl_model *teacher;
    icl_backend *backend;
    icl_tape *tape;
    icl_tensor teacher_values, values, gradient; /* flat vectors: the teacher's and the student's */
    icl_tensor moments[2], measures;             /* of Adam; [3] */
    icl_batch batch, evaluated;
    seen_layer layers[MOST_LAYERS];
    size_t count; /* number of layers */
} distillation;

static void see(void *user, const icl_sequence_pass *pass, const icl_sequence_layer *layer,
                const icl_attention_params *params, const icl_sequence_heads *heads) {
    distillation *d = user;

    (void)pass;
    if (d->count < MOST_LAYERS)
        d->layers[d->count++] = (seen_layer){layer->index, *params, *heads};
}

icl_status icl_distillation_copy(const icl_model *from, const float *from_values, const icl_model *to, float *to_values,
                                 icl_error *error) {
    for (size_t i = 0; i < icl_model_parameter_count(from); i++)
        for (size_t j = 0; j < icl_model_parameter_count(to); j++) {
            const icl_parameter_info *a = icl_model_parameter(from, i), *b = icl_model_parameter(to, j);
            if (strcmp(a->name, b->name) != 0)
                continue;
            if (a->rank != b->rank || memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) != 0)
                return icl_fail(error, ICL_ERROR_INPUT, "parameter %s: expected the same shape in both models",
                                a->name);
            memcpy(to_values + b->offset, from_values + a->offset, a->count * sizeof *to_values);
        }
    return ICL_OK;
}

/* ---- Distillation: one layer ---- */

/* Returns a parameter of the student on the tape. */
static icl_variable find_parameter(distillation *d, size_t layer, const char *name) {
    const icl_model *student = d->params->student;
    icl_error error = {0};
    char full[64];

    snprintf(full, sizeof full, "block.%zu.mixer.%s", layer, name);
    for (size_t i = 0; i < icl_model_parameter_count(student); i++) {
        const icl_parameter_info *info = icl_model_parameter(student, i);
        if (strcmp(info->name, full) == 0)
            return icl_tape_parameter(
                d->tape,
                icl_tensor_reshape(icl_tensor_slice(d->values, 0, info->offset, info->count), info->rank, info->shape),
                icl_tensor_reshape(icl_tensor_slice(d->gradient, 0, info->offset, info->count), info->rank,
                                   info->shape));
    }
    icl_fail(&error, ICL_ERROR_INPUT, "distillation: the student has no %s: expected model.feature_map = learned:M",
             full);
    icl_tape_fail(d->tape, &error);
    return (icl_variable){-1};
}

static icl_variable apply_map(distillation *d, icl_variable x, icl_variable weight, icl_variable bias) {
    return icl_tape_unary(d->tape, ICL_RELU,
                          icl_tape_binary(d->tape, ICL_ADD, icl_tape_matmul(d->tape, 1, x, weight), bias));
}

/* Records o' and o, [B, H, queries, n]. */
static void attend(distillation *d, const seen_layer *layer, icl_variable *ours, icl_variable *theirs) {
    const icl_attention_params linear = {.kind = ICL_ATTENTION_LINEAR, .mask = layer->params.mask, .scale = 1};
    const icl_variable weight = find_parameter(d, layer->layer, "features");
    const icl_variable bias = find_parameter(d, layer->layer, "features_bias");
    const icl_variable q = apply_map(d, layer->heads.q, weight, bias), k = apply_map(d, layer->heads.k, weight, bias);
    const icl_tensor v = icl_tape_value(d->tape, layer->heads.v);
    const icl_variable ones = icl_tape_filled(d->tape, 4, (const size_t[]){v.shape[0], v.shape[1], v.shape[2], 1}, 1);
    const icl_variable sum = icl_tape_scale_add(d->tape, 1, icl_tape_attention(d->tape, &linear, q, k, ones), 1,
                                                icl_tape_filled(d->tape, 0, NULL, NORMALIZER_EPSILON));

    *ours = icl_tape_binary(d->tape, ICL_DIVIDE, icl_tape_attention(d->tape, &linear, q, k, layer->heads.v), sum);
    *theirs = icl_tape_attention(d->tape, &layer->params, layer->heads.q, layer->heads.k, layer->heads.v);
}

/* Sums squares over heads, queries and numbers, [B, 1, 1, 1]. */
static icl_variable squares(distillation *d, icl_variable x, icl_reduce_kind kind) {
    return icl_tape_reduce(d->tape, kind, 1u << 1 | 1u << 2 | 1u << 3, icl_tape_unary(d->tape, ICL_SQUARE, x));
}

/* Runs the teacher on the batch, which leaves d->layers on the tape. */
static icl_status run_teacher(distillation *d, const icl_batch *batch, icl_error *error) {
    const icl_sequence_watch watch = {.attention = see, .user = d};

    d->count = 0;
    icl_tape_reset(d->tape);
    return icl_sequence_watch_run(d->teacher, d->tape, d->teacher_values, (icl_tensor){0}, batch->inputs, &watch,
                                  error);
}

/* ---- Distillation: measuring and training ---- */

static icl_status add_sum(const distillation *d, icl_variable sums, double *to, icl_error *error) {
    float values[EVALUATED];

    ICL_CHECK(icl_tensor_read(icl_tape_value(d->tape, sums), values, error));
    for (size_t i = 0; i < EVALUATED; i++)
        *to += (double)values[i];
    return ICL_OK;
}

static icl_status measure_maps(distillation *d, double *loss, icl_error *error) {
    double misses = 0, all = 0;

    ICL_CHECK(run_teacher(d, &d->evaluated, error));
    for (size_t i = 0; i < d->count; i++) {
        icl_variable ours, theirs;
        attend(d, &d->layers[i], &ours, &theirs);
        const icl_variable miss = icl_tape_binary(d->tape, ICL_SUBTRACT, ours, theirs);
        ICL_CHECK(add_sum(d, squares(d, miss, ICL_SUM), &misses, error));
        ICL_CHECK(add_sum(d, squares(d, theirs, ICL_SUM), &all, error));
    }
    *loss = misses / all;
    return icl_tape_status(d->tape, error);
}

static icl_status distil_step(distillation *d, size_t number, icl_error *error) {
    const double rest = (double)(d->params->steps - number) / (double)d->params->steps;
    const icl_update_params update = {
        .adam = {.learning_rate = d->params->learning_rate * .5 * (1 - cos(3.14159265358979323846 * rest)),
                 .beta1 = .9,
                 .beta2 = .999,
                 .epsilon = 1e-8,
                 .step = number + 1}};
    icl_variable loss = {-1};

    ICL_CHECK(icl_task_sample(d->task, d->backend, ICL_FOR_TRAINING, d->params->seed, number, &d->batch, error));
    ICL_CHECK(run_teacher(d, &d->batch, error));
    for (size_t i = 0; i < d->count; i++) {
        icl_variable ours, theirs;
        attend(d, &d->layers[i], &ours, &theirs);
        const icl_variable miss = squares(d, icl_tape_binary(d->tape, ICL_SUBTRACT, ours, theirs), ICL_MEAN);
        loss = i == 0 ? miss : icl_tape_binary(d->tape, ICL_ADD, loss, miss);
    }
    ICL_CHECK(icl_tape_backward(d->tape, loss, error));
    const icl_tensor losses = icl_tensor_reshape(icl_tape_value(d->tape, loss), 1, &d->params->batch);
    return icl_update_step(d->backend, &update, d->values, d->moments, d->measures, (icl_tensor){0}, d->gradient,
                           losses, (icl_tensor){0}, (icl_tensor){0}, error);
}

/* ---- Distillation: the whole ---- */

/* The gradient of parameters other than apply_map's stays 0, so that Adam does not change them. */
static icl_status create_tensors(icl_reproducing *run, distillation *d, const float *values, icl_error *error) {
    const size_t size = icl_model_size(d->params->student), teacher_size = icl_model_size(d->teacher), three = 3;
    icl_tensor *const flat[FLAT] = {&d->values, &d->gradient, &d->moments[0], &d->moments[1]};
    float *teacher_values = NULL;
    icl_status status = ICL_OK;

    for (size_t i = 0; i < FLAT; i++) {
        ICL_TRY(icl_tensor_create(d->backend, 1, &size, flat[i], error));
        ICL_TRY(icl_fill(d->backend, *flat[i], 0, error));
    }
    ICL_TRY(icl_tensor_write(d->values, values, error));
    ICL_TRY(icl_tensor_create(d->backend, 1, &three, &d->measures, error));
    ICL_TRY(icl_tensor_create(d->backend, 1, &teacher_size, &d->teacher_values, error));
    ICL_TRY(icl_allocate(teacher_size, sizeof *teacher_values, "parameters", &teacher_values, error));
    ICL_TRY(icl_trainer_get_parameters(d->params->teacher, teacher_values, error));
    ICL_TRY(icl_tensor_write(d->teacher_values, teacher_values, error));
    ICL_TRY(icl_batch_create(d->task, d->backend, ICL_FOR_TRAINING, d->params->batch, &d->batch, error));
    ICL_TRY(icl_batch_create(d->task, d->backend, ICL_FOR_EVALUATION, EVALUATED, &d->evaluated, error));
    ICL_TRY(icl_task_sample(d->task, d->backend, ICL_FOR_EVALUATION, run->params->seed, 0, &d->evaluated, error));
done:
    icl_free(&teacher_values);
    return status;
}

static void release_distillation(distillation *d) {
    icl_tape_destroy(&d->tape);
    icl_batch_release(&d->batch);
    icl_batch_release(&d->evaluated);
    icl_tensor_release(&d->teacher_values);
    icl_tensor_release(&d->values);
    icl_tensor_release(&d->gradient);
    icl_tensor_release(&d->moments[0]);
    icl_tensor_release(&d->moments[1]);
    icl_tensor_release(&d->measures);
}

icl_status icl_distillation_run(icl_reproducing *run, const icl_distillation_params *params, float *values,
                                double *before, double *after, icl_error *error) {
    distillation d = {.params = params,
                      .task = icl_trainer_task(params->teacher),
                      .teacher = icl_trainer_model(params->teacher),
                      .backend = run->params->backend};
    icl_status status = ICL_OK;

    ICL_TRY(icl_tape_create(d.backend, &d.tape, error));
    ICL_TRY(create_tensors(run, &d, values, error));
    ICL_TRY(measure_maps(&d, before, error));
    for (size_t number = 0; number < params->steps; number++) {
        ICL_TRY(icl_reproduce_poll(run, error));
        ICL_TRY(distil_step(&d, number, error));
    }
    ICL_TRY(measure_maps(&d, after, error));
    ICL_TRY(icl_tensor_read(d.values, values, error));
done:
    release_distillation(&d);
    return status;
}

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

/* Distils the random maps in `values`, or reads the maps that were distilled before. */
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

/* Gives a linear model with random maps the parameters that it shares with the teacher, and, if it is to be finetuned,
 * distilled maps; `losses` receives the share that the maps miss before and after. */
static icl_status convert(const icl_study *study, const icl_study_cell *cell, icl_trainer *teacher,
                          const icl_model *model, float *values, double losses[2], icl_error *error) {
    float *taught = NULL;

    ICL_CHECK(icl_study_parameters(study, teacher, &taught, error));
    ICL_CHECK(icl_distillation_copy(icl_trainer_model(teacher), taught, model, values, error));
    if (cell->at[MODEL] != FINETUNED)
        return ICL_OK;
    return distil(study, cell,
                  &(icl_distillation_params){.teacher = teacher,
                                             .student = model,
                                             .steps = budgets[study->scale].distilling,
                                             .batch = 64,
                                             .learning_rate = .01,
                                             .seed = cell->seed},
                  values, losses, error);
}

static icl_status begin(icl_study *study, const icl_study_cell *cell, icl_trainer *from, const icl_model *model,
                        float *values, icl_error *error) {
    double losses[2];
    return convert(study, cell, from, model, values, losses, error);
}

/* Measures the model at its start; afterwards the trainer holds its initial parameters again. */
static icl_status measure_start(icl_study *study, const icl_study_cell *cell, icl_trainer *trainer, icl_number *numbers,
                                icl_error *error) {
    const icl_model *model = icl_trainer_model(trainer);
    icl_trainer *teacher = NULL;
    float *values = NULL;
    double losses[2];

    ICL_CHECK(icl_study_trained(study, cell->begins_with, &teacher, error));
    ICL_CHECK(icl_study_room(study, icl_model_size(model), sizeof *values, &values, error));
    icl_model_initialize(model, cell->seed, values);
    ICL_CHECK(convert(study, cell, teacher, model, values, losses, error));
    ICL_CHECK(icl_trainer_set_parameters(trainer, values, error));
    numbers[RANDOM_LOSS].value = losses[0];
    numbers[LOSS].value = losses[1];
    return icl_reproduce_accuracy_as(study->run, trainer, cell->complete, "", &numbers[CONVERTED].value, error);
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    ICL_CHECK(
        icl_reproduce_accuracy_as(study->run, trained, cell->complete, "", &numbers[cell->at[MODEL]].value, error));
    return cell->at[MODEL] == FINETUNED ? measure_start(study, cell, trained, numbers, error) : ICL_OK;
}

/* ---- Judging ---- */

/* Returns the next smaller number of features; 0 if there is none. */
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

/* Judges a cell. At scale ci no model learns recall, so that the gain of finetuning is not judged. */
static void judge(icl_study *study, const icl_study_cell *cell) {
    const bool helps = cell->at[MODEL] == FINETUNED && study->scale > ICL_SCALE_CI;

    if (cell->at[MODEL] == FINETUNED)
        judge_start(study, cell);
    ICL_JUDGE(study, .quantity = "accuracy", ICL_OURS(icl_over_seeds(study, cell, cell->at[MODEL])),
              .target = helps ? icl_over_seeds(study, cell, CONVERTED).value : 0, .criterion = ICL_AT_LEAST,
              .evidence = helps ? ICL_INFERRED : ICL_EVIDENCE_NONE, .source = helps ? "finetuning helps" : NULL);
}

/* ---- Figures ---- */

/* The teacher is drawn as a line over all numbers of features. */
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
        .scope = "A met table means that more features distil better and that finetuning helps small "
                 "models on recall; the paper's languages and its savings of time were not tested.",
        .cost = {"5 s", "8 min", "4 h"}, .numbers = NUMBERS, .plan = plan, .begin = begin, .measure = measure,
        .judge = judge, .conclude = conclude);
