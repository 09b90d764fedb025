/* Tests the conversion of softmax attention: parameters are copied by name, maps that give every key the same weight
 * are softmax attention whose scores are all 0, and distilling changes only the maps and brings them closer. */
#include "papers/checked.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/status.h"
#include "tap.h"

static const char *const small = "task.length=24 task.pairs=4 task.vocabulary=16 model.width=8 model.key_width=4 "
                                 "eval.every=0 eval.predictors= train.seed=1";

typedef struct models {
    icl_trainer *teacher, *student;
    float *teacher_values, *values, *distilled; /* the last two are the student's */
} models;

static void make(const icl_reproducing *run, const char *own, icl_trainer **trainer, float **values) {
    icl_recipe *recipe = NULL;

    tap_need(icl_reproduce_recipe("recall", &recipe, tap_error()));
    tap_need(icl_reproduce_override_all(recipe, small, tap_error()));
    tap_need(icl_reproduce_override_all(recipe, own, tap_error()));
    tap_need(icl_trainer_create(run->params->backend, recipe, trainer, tap_error()));
    tap_need(
        icl_allocate(icl_model_size(icl_trainer_model(*trainer)), sizeof **values, "parameters", values, tap_error()));
    tap_need(icl_trainer_get_parameters(*trainer, *values, tap_error()));
    icl_recipe_destroy(&recipe);
}

static void open_models(const icl_reproducing *run, models *m) {
    make(run, "model.mixer=conv,softmax", &m->teacher, &m->teacher_values);
    make(run, "model.mixer=conv,linear model.output_norm=none model.normalizer=true model.feature_map=learned:6",
         &m->student, &m->values);
    tap_need(icl_allocate(icl_model_size(icl_trainer_model(m->student)), sizeof(float), "parameters", &m->distilled,
                          tap_error()));
}

static void close_models(models *m) {
    icl_trainer_destroy(&m->teacher);
    icl_trainer_destroy(&m->student);
    icl_free(&m->teacher_values);
    icl_free(&m->values);
    icl_free(&m->distilled);
}

/* Returns the parameters of that name; NULL if there are none. */
static float *find(const icl_model *model, float *values, const char *name, size_t *count) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++)
        if (strcmp(icl_model_parameter(model, i)->name, name) == 0) {
            *count = icl_model_parameter(model, i)->count;
            return values + icl_model_parameter(model, i)->offset;
        }
    return NULL;
}

static void set(const icl_model *model, float *values, const char *name, float value) {
    size_t count = 0;
    float *own = find(model, values, name, &count);

    for (size_t i = 0; i < count; i++)
        own[i] = value;
}

static void test_copy(tap_run *tap, models *m) {
    const icl_model *teacher = icl_trainer_model(m->teacher), *student = icl_trainer_model(m->student);
    size_t count = 0, same = 0, maps = 0;

    for (size_t i = 0; i < icl_model_size(teacher); i++)
        m->teacher_values[i] = 100 + (float)i;
    tap_need(icl_distillation_copy(teacher, m->teacher_values, student, m->values, tap_error()));
    for (size_t i = 0; i < icl_model_parameter_count(student); i++) {
        const char *name = icl_model_parameter(student, i)->name;
        const float *from = find(teacher, m->teacher_values, name, &count);
        const float *to = m->values + icl_model_parameter(student, i)->offset;
        same += from && memcmp(from, to, count * sizeof *to) == 0;
        maps += !from && fabsf(to[0]) < 100;
    }
    tap_ok(tap, same == icl_model_parameter_count(teacher) && maps == 2, "%zu go over, %zu stay", same, maps);
}

/* A model of another width has parameters of the same names, but is refused. */
static void test_shapes(tap_run *tap, icl_reproducing *run, models *m) {
    icl_trainer *narrow = NULL;
    float *values = NULL;
    icl_error error = {0};

    make(run, "model.mixer=conv,softmax model.key_width=2", &narrow, &values);
    tap_ok(tap,
           icl_distillation_copy(icl_trainer_model(m->teacher), m->teacher_values, icl_trainer_model(narrow), values,
                                 &error) == ICL_ERROR_INPUT,
           "refused: %s", error.message);
    icl_trainer_destroy(&narrow);
    icl_free(&values);
}

/* Queries of 0 give scores of 0; maps relu(0 x + 1) give products of 6. In both cases o is the mean of all values. */
static void test_uniform(tap_run *tap, icl_reproducing *run, models *m) {
    const icl_model *teacher = icl_trainer_model(m->teacher), *student = icl_trainer_model(m->student);
    const icl_distillation_params params = {m->teacher, student, 0, 8, .01, 1};
    double before = 1, after = 1;

    set(teacher, m->teacher_values, "block.1.mixer.query", 0);
    set(student, m->values, "block.1.mixer.features", 0);
    set(student, m->values, "block.1.mixer.features_bias", 1);
    tap_need(icl_trainer_set_parameters(m->teacher, m->teacher_values, tap_error()));
    tap_need(icl_distillation_run(run, &params, m->values, &before, &after, tap_error()));
    tap_ok(tap, before < 1e-11 && after == before, "equal weights: %.2g is missed", before); /* squares of 1e-6 */
}

/* relu(0 x - 1) is 0: no key has weight, so the whole output is missed. */
static void test_rest(tap_run *tap, icl_reproducing *run, models *m) {
    const icl_model *student = icl_trainer_model(m->student);
    const icl_distillation_params params = {m->teacher, student, 0, 8, .01, 1};
    double before = 0, after = 0;

    set(student, m->values, "block.1.mixer.features", 0);
    set(student, m->values, "block.1.mixer.features_bias", -1);
    tap_need(icl_distillation_run(run, &params, m->values, &before, &after, tap_error()));
    tap_ok(tap, before == 1, "maps of 0: %.9g is missed", before);
}

static void test_training(tap_run *tap, icl_reproducing *run, models *m) {
    const icl_model *student = icl_trainer_model(m->student);
    const icl_distillation_params params = {m->teacher, student, 60, 32, .02, 1};
    double before = 0, after = 1;
    size_t changed = 0;

    memcpy(m->distilled, m->values, icl_model_size(student) * sizeof *m->values);
    tap_need(icl_distillation_run(run, &params, m->distilled, &before, &after, tap_error()));
    tap_ok(tap, after < .7 * before, "%.3g is missed behind 60 steps, %.3g before", after, before);
    for (size_t i = 0; i < icl_model_parameter_count(student); i++) {
        const icl_parameter_info *info = icl_model_parameter(student, i);
        const bool is_map = strstr(info->name, "features") != NULL;
        const bool is_same =
            memcmp(m->values + info->offset, m->distilled + info->offset, info->count * sizeof *m->values) == 0;
        changed += is_map != is_same;
    }
    tap_ok(tap, changed == icl_model_parameter_count(student), "the maps change, and nothing else");
}

int main(void) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, "cpu");
    const icl_reproduce_params params = {.backend = backend, .seed = 1};
    icl_reproducing run = {.params = &params};
    models m = {0}, trained = {0};

    open_models(&run, &m);
    test_copy(&tap, &m);
    test_shapes(&tap, &run, &m);
    open_models(&run, &trained);
    test_training(&tap, &run, &trained);
    test_uniform(&tap, &run, &trained);
    test_rest(&tap, &run, &trained);
    close_models(&m);
    close_models(&trained);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
