/*
 * Memories on text: each mixer as a byte-level language model, at equal parameters and steps.
 *
 * A model is layers of one mixer, each with a gated feed-forward part whose hidden numbers make all models as large as
 * that of softmax attention with feed_forward_factor = 2. Softmax attention sees the whole window, or in a second model
 * the last quarter of it. Rotary positions stand beside softmax alone; the others know the order from their states.
 * The loss is that of the last twentieth of the text, in windows, in bits per byte; by position it shows what a model
 * gains from a longer context. There are no published numbers for these sizes: the study judges that models are equally
 * large, that they know more than how often each byte comes, and that bytes cost less where more stands before them.
 *
 * The text of the scales short and full is bible.txt (the recipe text-memories says more); that of scale ci is the
 * folder of the recipes itself, which is there wherever iclab is.
 */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_store.h"
#include "iclab/decode.h"
#include "iclab/file.h"
#include "iclab/model.h"
#include "iclab/run.h"
#include "papers/papers.h"
#include "run/files.h"
#include "run/recipe_keys.h"

static const struct {
    const char *name, *mixer;
    bool is_attention;
    bool has_window; /* of a quarter of the length */
} memories[] = {
    {"softmax", "softmax", true, false},
    {"softmax, window", "softmax", true, true},
    {"gated-delta", "gated-delta", false, false},
    {"mamba2", "mamba2", false, false},
    {"retention", "retention", false, false},
    {"gla", "gla", false, false},
    {"kda", "kda", false, false},
    {"rwkv7", "rwkv7", false, false},
};
enum { MEMORIES = sizeof memories / sizeof *memories };

static const struct {
    const char *settings;
    size_t length, width, steps, seeds, trained; /* the first mixers are trained */
} scales[ICL_SCALES] = {
    {"train.batch=8 train.warmup=5 model.heads=2 eval.sequences=64", 32, 16, 100, 1, 3},
    {"train.batch=16 train.warmup=50 model.heads=2 eval.sequences=1024", 128, 64, 600, 1, MEMORIES},
    {"train.batch=16 train.warmup=100 model.heads=4 model.layers=4 eval.sequences=4096", 256, 128, 5000, 3, MEMORIES},
};

static const char *const recipe_name = "text-memories", *const text_name = "bible.txt";

/* ---- Cells ---- */

enum { FACTOR = 2 };

/* Settings of a memory, with this many hidden numbers of the feed-forward part. */
static icl_phrase describe(const icl_study *study, size_t memory, size_t hidden) {
    const size_t length = scales[study->scale].length, width = scales[study->scale].width;

    return icl_phrase_print("task.length=%zu model.width=%zu model.mixer=%s model.feed_forward_factor=%.6f "
                            "model.positions=%s model.convolution=%d model.window=%zu train.steps=%zu",
                            length, width, memories[memory].mixer, (double)hidden / (double)width,
                            memories[memory].is_attention ? "rotary" : "none", memories[memory].is_attention ? 0 : 4,
                            memories[memory].has_window ? length / 4 : 0, scales[study->scale].steps);
}

/* Counts the parameters of a model, whose task is not opened: its shape follows from the recipe. */
static icl_status count_parameters(const icl_study *study, size_t memory, size_t hidden, size_t *count,
                                   icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_task_shape shape;
    icl_model *model = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_recipe(recipe_name, &recipe, error));
    ICL_TRY(icl_reproduce_override_all(recipe, scales[study->scale].settings, error));
    ICL_TRY(icl_reproduce_override_all(recipe, describe(study, memory, hidden).text, error));
    ICL_TRY(icl_task_read_text_shape(recipe, &shape, error));
    ICL_TRY(icl_model_create(recipe, shape, &model, error));
    *count = icl_model_size(model);
done:
    icl_model_destroy(&model);
    icl_recipe_destroy(&recipe);
    return status;
}

/* Finds the hidden numbers that make a model as large as that of softmax attention: parameters grow by the same amount
 * with each. */
static size_t fit_hidden(icl_study *study, size_t memory) {
    const size_t width = scales[study->scale].width;
    size_t wanted = 0, once = 0, twice = 0;

    ICL_STUDY_CALL(study, count_parameters, study, 0, FACTOR * width, &wanted);
    ICL_STUDY_CALL(study, count_parameters, study, memory, width, &once);
    ICL_STUDY_CALL(study, count_parameters, study, memory, 2 * width, &twice);
    if (icl_study_has_failed(study) || twice <= once)
        return width;
    const double hidden = (double)width * (1 + ((double)wanted - (double)once) / ((double)twice - (double)once));
    return hidden < 1 ? 1 : (size_t)(hidden + 0.5);
}

/* Says where the Bible is to be had, if it is not here. Lists of cells need no text. */
static icl_status check_text(const icl_study *study, icl_error *error) {
    if (study->scale == ICL_SCALE_CI || study->run->listener || icl_path_exists(text_name))
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s: missing: expected a text to train on, such as the King James Bible: tools/packages --texts "
                    "&& bible -f 'gen1:1-rev22:21' >%s",
                    text_name, text_name);
}

/* Has a recipe of scale ci read the folder of the recipes. */
static icl_status choose_text(const icl_study *study, icl_recipe *recipe, icl_error *error) {
    icl_status status = ICL_OK;
    char *path = NULL;

    if (study->scale > ICL_SCALE_CI)
        return ICL_OK;
    ICL_TRY(icl_recipe_find_by_name(recipe_name, &path, error));
    *strrchr(path, '/') = '\0';
    ICL_TRY(icl_recipe_set(recipe, "task", "file", path, "override", error));
done:
    icl_free(&path);
    return status;
}

static icl_status make_base(const icl_study *study, icl_recipe **recipe, icl_error *error) {
    ICL_CHECK(check_text(study, error));
    ICL_CHECK(icl_reproduce_recipe(recipe_name, recipe, error));
    return choose_text(study, *recipe, error);
}

static void plan(icl_study *study) {
    icl_recipe *base = NULL;

    ICL_STUDY_CALL(study, make_base, study, &base);
    for (size_t memory = 0; base && memory < scales[study->scale].trained; memory++) {
        const size_t hidden = fit_hidden(study, memory);
        for (size_t i = 0; i < scales[study->scale].seeds; i++)
            ICL_ADD_CELL(study, .name = memories[memory].name, .base = base, .seed = icl_study_seed(study, i),
                         .folder = ICL_PHRASE("%s%s-seed%u", memories[memory].mixer,
                                              memories[memory].has_window ? "-window" : "", icl_study_seed(study, i)),
                         .at = {memory},
                         .settings = {scales[study->scale].settings, describe(study, memory, hidden).text});
    }
    icl_recipe_destroy(&base);
}

/* ---- Numbers ---- */

/* Bits per byte of the model and of predictors; numbers of the parameters and of the state behind a window; seconds of
 * the training; then bits per byte in each eighth of a window. */
enum {
    BITS = 0,
    BYTES,
    TRIGRAMS,
    CONTEXT,
    PARAMETERS,
    STATE,
    SECONDS,
    EIGHTHS,
    PLACES = 8,
    NUMBERS = EIGHTHS + PLACES
};

/* Runs a decoder over a window of zeros, and measures what it keeps. */
static icl_status measure_state(const icl_study *study, icl_trainer *trained, icl_number *state, icl_error *error) {
    const icl_model *model = icl_trainer_model(trained);
    const size_t length = scales[study->scale].length, size = icl_model_size(model), one = 1;
    icl_backend *backend = study->run->params->backend;
    icl_decoder *decoder = NULL;
    icl_tensor parameters = {0}, symbol = {0}, outputs = {0};
    float *values = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_parameters(study, trained, &values, error));
    ICL_TRY(icl_tensor_create(backend, 1, &size, &parameters, error));
    ICL_TRY(icl_tensor_write(parameters, values, error));
    ICL_TRY(icl_tensor_create(backend, 1, &one, &symbol, error));
    ICL_TRY(icl_fill(backend, symbol, 0, error));
    ICL_TRY(icl_tensor_create(backend, 2, (const size_t[]){1, 256}, &outputs, error));
    ICL_TRY(icl_decoder_create(model, backend, parameters, 1, &decoder, error));
    for (size_t t = 0; t < length; t++)
        ICL_TRY(icl_decoder_step(decoder, symbol, outputs, error));
    state->value = (double)icl_decoder_state_bytes(decoder) / (double)icl_backend_capabilities(backend)->element_size;
done:
    icl_decoder_destroy(&decoder);
    icl_tensor_release(&parameters);
    icl_tensor_release(&symbol);
    icl_tensor_release(&outputs);
    return status;
}

/* Reads how long the training took from its folder. */
static icl_status read_seconds(const icl_study *study, const icl_study_cell *cell, icl_number *seconds,
                               icl_error *error) {
    icl_status status = ICL_OK;
    char *folder = NULL;
    cJSON *facts = NULL;

    ICL_TRY(icl_study_folder(study, cell, &folder, error));
    ICL_TRY(icl_record_read(folder, ICL_RUN_FACTS, &facts, error));
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(facts, "training_seconds");
    if (cJSON_IsNumber(number))
        seconds->value = number->valuedouble;
done:
    cJSON_Delete(facts);
    icl_free(&folder);
    return status;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    static const char *const references[] = {"bytes", "ngram:3", "context:1"};
    icl_evaluation *evaluation = NULL;

    ICL_CHECK(icl_study_evaluate(study, cell, trained, NULL, &evaluation, error));
    const icl_score *model = evaluation->scores;
    numbers[BITS] = (icl_number){model->bits_per_byte, model->bits_per_byte_se};
    for (size_t i = 0; i < 3; i++) {
        const icl_score *reference = icl_reproduce_score(evaluation, references[i]);
        numbers[BYTES + i] = (icl_number){reference->bits_per_byte, reference->bits_per_byte_se};
    }
    for (size_t place = 0; place < PLACES; place++) {
        const size_t first = model->position_count * place / PLACES;
        const size_t end = model->position_count * (place + 1) / PLACES;
        double sum = 0;
        for (size_t t = first; t < end; t++)
            sum += model->positions[t].loss;
        numbers[EIGHTHS + place].value = sum / (double)(end - first) / log(2);
    }
    numbers[PARAMETERS].value = (double)icl_model_size(icl_trainer_model(trained));
    ICL_CHECK(read_seconds(study, cell, &numbers[SECONDS], error));
    return measure_state(study, trained, &numbers[STATE], error);
}

/* ---- Judging ---- */

static void judge(icl_study *study, const icl_study_cell *cell) {
    const icl_study_cell *first = icl_study_find(study, memories[0].name);
    icl_number bits = icl_over_seeds(study, cell, BITS);
    const icl_number *numbers = cell->numbers;

    bits.standard_error = fmax(bits.standard_error, numbers[BITS].standard_error);
    ICL_JUDGE(study, .quantity = "bits per byte", ICL_OURS(bits), .target = numbers[BYTES].value,
              .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = "how often each byte comes",
              .note = ICL_PHRASE("%.0f numbers of state, %.3g s; ngram:3 %.3f, context:1 %.3f", numbers[STATE].value,
                                 numbers[SECONDS].value, numbers[TRIGRAMS].value, numbers[CONTEXT].value));
    ICL_JUDGE(study, .quantity = "bits per byte, the last eighth of a window less the first",
              .ours =
                  icl_over_seeds(study, cell, EIGHTHS + PLACES - 1).value - icl_over_seeds(study, cell, EIGHTHS).value,
              .criterion = ICL_AT_MOST, .evidence = study->scale > ICL_SCALE_CI ? ICL_INFERRED : ICL_EVIDENCE_NONE,
              .source = "more stands before them");        /* too little is learned at scale ci */
    if (!first || isnan(first->numbers[PARAMETERS].value)) /* --only left it out */
        return;
    ICL_JUDGE(study, .quantity = "parameters", .ours = numbers[PARAMETERS].value,
              .target = first->numbers[PARAMETERS].value, .tolerance = .01 * first->numbers[PARAMETERS].value,
              .evidence = ICL_COMPUTED, .source = "those of softmax");
}

static void conclude(icl_study *study) {
    icl_curves curves = ICL_CURVES(.name = recipe_name, .title = "Bits per byte by position, at equal parameters",
                                   .x_label = "position in the window", .y_label = "bits per byte");

    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        if (i > 0 && strcmp(cell->name, study->cells[i - 1]->name) == 0)
            continue; /* another seed */
        for (size_t place = 0; place < PLACES; place++)
            icl_study_plot_number(study, &curves, cell->name, ICL_SERIES_LINE,
                                  ((double)place + .5) / PLACES * (double)scales[study->scale].length,
                                  icl_over_seeds(study, cell, EIGHTHS + place));
    }
    icl_study_draw(study, &curves);
}

const icl_reproduction icl_text_memories = ICL_STUDY(
        .name = "text-memories",
        .source = "arXiv 2412.06464, 2405.21060, 2307.08621, 2312.06635, 2510.26692, 2503.14456",
        .about = "mixers as language models of bytes, at equal parameters and steps: bits per byte, by position",
        .claim =
            "Memories of every kind learn text: each knows more than how often each byte comes, and bytes that come "
            "later in a window cost less.",
        .scope = "A met table means that models are equally large, know more than how often bytes come and "
                 "gain from what stands before; the order of mixers is shown and not judged, as one text "
                 "and one short training decide it.",
        .cost = {"5 s", "9 min", "12 h"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
        .conclude = conclude);
