/* Tests families that a program registers: what is refused, what recipes then hold, and a mixer of the library written
 * anew as one of a program's own, which has its bits. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../tap.h"
#include "core/allocate.h"
#include "iclab/decode.h"
#include "iclab/families.h"
#include "iclab/text.h"
#include "iclab/train.h"

/* ---- What is refused ---- */

typedef struct settings {
    size_t length, d;
    double share;
    unsigned word;
    const char *text;
} settings;

#define GROUP(name, ...)                                                                                               \
    static const icl_recipe_key name##_rows[] = {__VA_ARGS__};                                                         \
    static const icl_recipe_group name##_group = {name##_rows, sizeof name##_rows / sizeof *name##_rows, NULL};        \
    static const icl_recipe_group *const name[] = {&name##_group, NULL};

GROUP(good, {ICL_KEY("task", settings, share), "0.5", 0, 1, .help = "a share"},
      {ICL_KEY("task", settings, d), NULL, .help = "shared with iclab's own families"})
GROUP(other_section, {ICL_KEY("train", settings, share), "0.5", .help = "a share"})
GROUP(other_type, {.section = "task", .name = "d", .type = ICL_KEY_NUMBER, .default_value = NULL, .help = "d"})
GROUP(other_default, {ICL_KEY("task", settings, d), "11", .help = "d"})
GROUP(other_range, {ICL_KEY("task", settings, d), "10", 1, 5, .help = "d"})
GROUP(bad_default, {ICL_KEY("task", settings, share), "2", 0, 1, .help = "a share"})
GROUP(no_default, {ICL_KEY("task", settings, share), NULL, 0, 1, .help = "a share"})
GROUP(bad_name, {.section = "task", .name = "a b", .type = ICL_KEY_TEXT, .default_value = "", .help = "a text"})

/* A task of two positions with two letters, which are always 0. */
static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    (void)recipe;
    (void)error;
    task->shape =
        (icl_task_shape){.positions = 2, .symbols = 2, .outputs = 2, .scored = 2, .loss = ICL_LOSS_CROSS_ENTROPY};
    return ICL_OK;
}

static icl_status draw(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                       const icl_batch_values *values, icl_error *error) {
    (void)task;
    (void)purpose;
    (void)seed;
    (void)step;
    (void)values;
    (void)error;
    return ICL_OK;
}

static void refuse(tap_run *tap, const char *name, const icl_recipe_group *const *keys, const char *expected) {
    const icl_task_family family = {.name = name, .keys = keys, .create = create, .draw = draw};
    icl_families *families = NULL;
    icl_recipe *recipe = NULL, *plain = NULL;
    icl_error error = {0};
    size_t count = 0, others = 0;

    tap_need(icl_families_create(&families, tap_error()));
    tap_ok(tap,
           icl_families_add_task(families, &family, &error) == ICL_ERROR_INPUT && strstr(error.message, expected) &&
               !strchr(error.message, '\n'),
           "refused: %s", error.message);
    tap_need(icl_recipe_create_with(families, &recipe, tap_error()));
    tap_need(icl_recipe_create_complete(&plain, tap_error()));
    (void)icl_recipe_keys(recipe, &count);
    (void)icl_recipe_keys(plain, &others);
    tap_ok(tap, count == others, "and leaves no key behind");
    icl_recipe_destroy(&plain);
    icl_recipe_destroy(&recipe);
    icl_families_destroy(&families);
}

static icl_variable keep(const icl_mixer_pass *pass, icl_variable x) {
    (void)pass;
    return x;
}

static void test_refusals(tap_run *tap) {
    static const char *const mixers[] = {"conv", "softmax", "a,b"}, *const predictors[] = {"oracle", "gd", "all", ""};
    const icl_model_family linear = {.name = "linear"};
    icl_families *families = NULL;
    icl_error error = {0};

    refuse(tap, "markov", NULL, "task markov: the name is taken");
    refuse(tap, "two words", NULL, "task \"two words\": expected a name");
    refuse(tap, "", NULL, "task \"\": expected a name");
    refuse(tap, "own", other_section, "own: its key train.share: expected a name of letters and digits in [task]");
    refuse(tap, "own", bad_name, "its key task.a b: expected");
    refuse(tap, "own", other_type, "its key task.d is known with another type, default or range");
    refuse(tap, "own", other_default,
           "its key task.d is known with another type, default or range (default 10, range 1");
    refuse(tap, "own", other_range, "its key task.d is known with another type, default or range");
    refuse(tap, "own", bad_default, "own: default: task.share = 2: expected a number from 0 to 1");
    refuse(tap, "own", no_default, "its key task.share: expected a default");
    tap_need(icl_families_create(&families, tap_error()));
    tap_ok(tap, icl_families_add_model(families, &linear, &error) == ICL_ERROR_INPUT, "%s", error.message);
    for (size_t i = 0; i < sizeof mixers / sizeof *mixers; i++)
        tap_ok(tap,
               icl_families_add_mixer(families, &(icl_mixer_family){.name = mixers[i], .mix = keep}, &error) ==
                   ICL_ERROR_INPUT,
               "%s", error.message);
    for (size_t i = 0; i < sizeof predictors / sizeof *predictors; i++)
        tap_ok(tap,
               icl_families_add_predictor(families, &(icl_predictor_family){.predictor = {.name = predictors[i]}},
                                          &error) == ICL_ERROR_INPUT,
               "%s", error.message);
    icl_families_destroy(&families);
}

/* ---- What recipes hold ---- */

static bool has_key(const icl_recipe *recipe, const char *section, const char *name) {
    return icl_recipe_value(recipe, section, name) != NULL;
}

static void test_recipes(tap_run *tap) {
    const icl_task_family family = {.name = "own", .keys = good, .create = create, .draw = draw};
    icl_families *families = NULL;
    icl_recipe *before = NULL, *recipe = NULL, *copy = NULL, *again = NULL;
    icl_task *task = NULL;
    settings read = {0};
    char *text = NULL;
    icl_error error = {0};

    tap_need(icl_families_create(&families, tap_error()));
    tap_need(icl_recipe_create_with(families, &before, tap_error()));
    tap_need(icl_families_add_task(families, &family, tap_error()));
    tap_ok(tap, icl_families_add_task(families, &family, &error) == ICL_ERROR_INPUT, "a second time: %s",
           error.message);
    tap_ok(tap,
           !has_key(before, "task", "share") &&
               icl_recipe_override(before, "task.family=own", &error) == ICL_ERROR_INPUT,
           "a recipe from before does not know it: %s", error.message);
    tap_need(icl_recipe_create_with(families, &recipe, tap_error()));
    tap_ok(tap,
           icl_recipe_override(recipe, "task.share=0.25", &error) == ICL_OK &&
               icl_recipe_check(recipe, "task", &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "task.family = own"),
           "its key is read with it alone: %s", error.message);
    tap_need(icl_recipe_override(recipe, "task.family=own", tap_error()));
    tap_ok(tap, icl_recipe_override(recipe, "task.share=1.5", &error) == ICL_ERROR_INPUT, "out of range: %s",
           error.message);
    tap_need(icl_recipe_override(recipe, "task.d=7", tap_error()));
    tap_need(icl_recipe_clone(recipe, &copy, tap_error()));
    icl_recipe_destroy(&recipe);
    icl_recipe_read(copy, &good_group, &read);
    tap_ok(tap, read.share == 0.25 && read.d == 7, "a clone reads share %g and d %zu", read.share, read.d);
    tap_need(icl_task_create(copy, &task, tap_error()));
    tap_ok(tap, task->family == &family, "its task is of the family");
    icl_task_destroy(&task);
    tap_need(icl_recipe_write(copy, &text, tap_error()));
    tap_ok(tap, strstr(text, "family = own\n") && strstr(text, "share = 0.25\n") && !strstr(text, "noise ="),
           "the written recipe has its keys and no other family's");
    tap_need(icl_recipe_create_with(families, &again, tap_error()));
    tap_ok(tap,
           icl_recipe_parse(again, text, "written", &error) == ICL_OK &&
               icl_recipe_number(again, "task", "share") == 0.25,
           "and is read back");
    icl_text_free(&text);
    icl_recipe_destroy(&before);
    icl_recipe_destroy(&copy);
    icl_recipe_destroy(&again);
    icl_families_destroy(&families);
}

static void test_named(tap_run *tap) {
    icl_recipe *recipe = NULL;
    icl_error error = {0};

    tap_ok(tap,
           icl_recipe_create_named(NULL, "quickstart", &recipe, &error) == ICL_OK && recipe &&
               icl_recipe_count(recipe, "train", "growth") == 400,
           "a recipe of the library by its name");
    icl_recipe_destroy(&recipe);
    tap_ok(tap,
           icl_recipe_create_named(NULL, "quickstrt", &recipe, &error) == ICL_ERROR_INPUT && !recipe &&
               strstr(error.message, "the nearest is quickstart"),
           "%s", error.message);
}

/* ---- A mixer of the library, written anew ---- */

typedef struct copied {
    double scale;
} copied;

/* Adds what the mixer linear adds with one head and without norm and gate of the output. */
static icl_status create_copied(const icl_recipe *recipe, icl_mixer_block *block, icl_mixer_builder *builder,
                                icl_error *error) {
    copied *own = block->state;

    (void)recipe;
    own->scale = 1 / sqrt((double)block->width);
    ICL_CHECK(icl_mixer_add_matrix(builder, "query", block->width, block->width, error));
    ICL_CHECK(icl_mixer_add_matrix(builder, "key", block->width, block->width, error));
    ICL_CHECK(icl_mixer_add_matrix(builder, "value", block->width, block->width, error));
    return icl_mixer_add_output(builder, "output", block->width, block->width, error);
}

static icl_variable as_head(icl_tape *tape, icl_variable x) {
    const icl_tensor seen = icl_tape_value(tape, x);
    return icl_tape_reshape(tape, x, 4, (size_t[]){seen.shape[0], 1, seen.shape[1], seen.shape[2]});
}

static icl_variable mix_copied(const icl_mixer_pass *pass, icl_variable x) {
    const copied *own = pass->block->state;
    const icl_tensor seen = icl_tape_value(pass->tape, x);
    const size_t width = pass->block->width, shape[] = {seen.shape[0], 1, width, width};
    const icl_recurrence_params params = {.scale = own->scale};
    icl_recurrence_variables operands = {0};
    icl_variable *const heads[] = {&operands.q, &operands.k, &operands.v};
    icl_variable before, after, out;
    size_t part = 0;

    for (size_t i = 0; i < 3; i++)
        *heads[i] = as_head(pass->tape, icl_tape_matmul(pass->tape, 1.0, x, pass->parameters[i]));
    if (pass->memory) {
        before = icl_model_memory_recall(pass->memory, pass->tape, 4, shape, &part);
        operands.state = &before;
    }
    out = icl_tape_recurrence(pass->tape, &params, &operands, pass->memory ? &after : NULL);
    if (pass->memory)
        icl_model_memory_keep(pass->memory, pass->tape, part, after);
    out = icl_tape_reshape(pass->tape, out, 3, seen.shape);
    return icl_tape_matmul(pass->tape, 1.0, out, pass->parameters[3]);
}

static const icl_mixer_family copied_mixer = {
    .name = "copied", .state_size = sizeof(copied), .remembers = true, .create = create_copied, .mix = mix_copied};

enum { SYMBOLS = 3, LENGTH = 12, BATCH = 8, NUMBERS = BATCH * LENGTH * SYMBOLS };

static icl_status open_trainer(icl_backend *backend, const icl_families *families, const char *mixer,
                               icl_trainer **trainer, icl_error *error) {
    static const char *const base[] = {"task.family=markov",    "task.symbols=3",          "task.length=12",
                                       "model.family=sequence", "model.layers=2",          "model.width=8",
                                       "model.key_width=0",     "train.batch=8",           "train.warmup=0",
                                       "train.growth=0",        "train.learning_rate=0.01"};
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_with(families, &recipe, error));
    for (size_t i = 0; i < sizeof base / sizeof *base; i++)
        ICL_TRY(icl_recipe_override(recipe, base[i], error));
    ICL_TRY(icl_recipe_set_text(recipe, "model", "mixer", mixer, error));
    if (strstr(mixer, "linear"))
        ICL_TRY(icl_recipe_set_text(recipe, "model", "output_norm", "none", error));
    ICL_TRY(icl_trainer_create(backend, recipe, trainer, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

typedef struct outcome {
    float whole[NUMBERS], decoded[NUMBERS];
} outcome;

static icl_status train(icl_backend *backend, const icl_families *families, const char *mixer, outcome *found,
                        icl_error *error) {
    icl_trainer *trainer = NULL;
    icl_batch batch = {0};
    icl_status status = ICL_OK;

    ICL_TRY(open_trainer(backend, families, mixer, &trainer, error));
    ICL_TRY(icl_trainer_run(trainer, 5, error));
    ICL_TRY(icl_batch_create(icl_trainer_task(trainer), backend, ICL_FOR_EVALUATION, BATCH, &batch, error));
    ICL_TRY(icl_task_sample(icl_trainer_task(trainer), backend, ICL_FOR_EVALUATION, 1, 0, &batch, error));
    ICL_TRY(icl_trainer_predict(trainer, &batch, found->whole, error));
    ICL_TRY(icl_trainer_decode(trainer, &batch, found->decoded, error));
done:
    icl_batch_release(&batch);
    icl_trainer_destroy(&trainer);
    return status;
}

static icl_status create_twice(const icl_recipe *recipe, icl_mixer_block *block, icl_mixer_builder *builder,
                               icl_error *error) {
    (void)recipe;
    ICL_CHECK(icl_mixer_add_constants(builder, "gain", block->width, 1, error));
    return icl_mixer_add_constants(builder, "gain", block->width, 1, error);
}

static icl_variable mix_narrow(const icl_mixer_pass *pass, icl_variable x) {
    return icl_tape_slice(pass->tape, x, 2, 0, 1);
}

static void expect_no_training(tap_run *tap, icl_backend *backend, const icl_families *families, const char *mixer,
                               const char *expected) {
    outcome *found = NULL;
    icl_error error = {0};

    tap_need(icl_allocate(1, sizeof *found, "outcome", &found, tap_error()));
    tap_ok(tap,
           train(backend, families, mixer, found, &error) == ICL_ERROR_INPUT && strstr(error.message, expected) != NULL,
           "%s: %s", mixer, error.message);
    icl_free(&found);
}

static void test_mixer(tap_run *tap, icl_backend *backend) {
    static const char *const pairs[][2] = {
        {"copied", "linear"}, {"copied,linear", "linear,linear"}, {"linear, copied", "linear"}};
    const icl_mixer_family narrow = {.name = "narrow", .remembers = true, .mix = mix_narrow};
    const icl_mixer_family forgetful = {.name = "forgetful", .mix = keep};
    const icl_mixer_family twice = {.name = "twice", .create = create_twice, .mix = keep};
    icl_families *families = NULL;
    outcome *own = NULL, *theirs = NULL;
    icl_error error = {0};

    tap_need(icl_allocate(1, sizeof *own, "outcome", &own, tap_error()));
    tap_need(icl_allocate(1, sizeof *theirs, "outcome", &theirs, tap_error()));
    tap_need(icl_families_create(&families, tap_error()));
    tap_need(icl_families_add_mixer(families, &copied_mixer, tap_error()));
    tap_need(icl_families_add_mixer(families, &narrow, tap_error()));
    tap_need(icl_families_add_mixer(families, &forgetful, tap_error()));
    tap_need(icl_families_add_mixer(families, &twice, tap_error()));
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (!tap_status(tap, train(backend, families, pairs[i][0], own, &error), &error, pairs[i][0]) ||
            !tap_status(tap, train(backend, NULL, pairs[i][1], theirs, &error), &error, pairs[i][1]))
            continue;
        tap_ok(tap, memcmp(own->whole, theirs->whole, sizeof own->whole) == 0, "%s: the bits of %s after training",
               pairs[i][0], pairs[i][1]);
        tap_ok(tap, memcmp(own->decoded, theirs->decoded, sizeof own->decoded) == 0, "and as it decodes");
    }
    expect_no_training(tap, backend, families, "narrow",
                       "model.mixer = narrow gave [8, 11, 1] (rank 3), expected [8, 11, 8]");
    expect_no_training(tap, backend, families, "forgetful", "decode");
    expect_no_training(tap, backend, families, "twice", "twice adds block.0.mixer.gain twice: expected another name");
    expect_no_training(tap, backend, families, "copie", "did you mean \"copied\"?");
    icl_families_destroy(&families);
    icl_free(&own);
    icl_free(&theirs);
}

int main(void) {
    tap_run tap = {0};
    icl_backend *backend = NULL;

    tap_need(icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &backend, tap_error()));
    test_refusals(&tap);
    test_recipes(&tap);
    test_named(&tap);
    test_mixer(&tap, backend);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
