/*
 * Every pair of settings of [train] in one training, against plain_trainer.h: its parameters, losses, norms and rate.
 * Keys that act outside the steps (starts, polish, init, files and when to stop) are left out.
 *
 * The bound. Both trainers compute in double, u = 2^-53, from the same floats. An element of a step's gradient is a sum
 * of fewer than 2^10 products of fewer than 2^7 factors: its error is at most 2^11 u of the sum of their sizes, which
 * is at most 2^8 times the element unless more than 8 bits cancel. Adam divides it by its own size. So an update, which
 * is at most 2^-8 of the largest parameter, has an error of 2^19 u of itself, and six updates have 2^14 u of that
 * parameter. Losses and norms are returned as floats, with another half unit of 2^-23.
 */
#include "plain_trainer.h"
#include "settings.h"

#include "train/trainer.h"

enum { MOST_STEPS = 6 };

static const double bound = 0x1p-39; /* 2^14 u */

#define OF_LINEAR   1u
#define OF_SEQUENCE 2u
#define OF_BOTH     (OF_LINEAR | OF_SEQUENCE)

static const char *const base =
    " optimizer=adam clip=0 sequence_clip=0 beta1=0.9 beta2=0.99 epsilon=1e-8 weight_decay=0 momentum=0.9 "
    "muon_momentum=0.95 decay_share=0.2"
    " learning_rate=0.001 schedule=constant warmup=0 horizon=0 step_every=1000 step_factor=0.5 growth=0 batch=12 "
    "slices=1"
    " refresh=1 steps=6 seed=1 loop_window=0 loop_curriculum=0 loop_rise=2";

static const char *const own[] = {" task.family=linear-regression task.d=2 task.n=3 task.noise=uniform:0.5 "
                                  "task.covariance=spectrum:0.4,0.2 model.family=linear model.layers=4"
                                  " model.parameterization=diag model.init_std=0.1",
                                  " task.family=linear-regression task.d=2 task.n=3 task.noise=uniform:0.5 "
                                  "task.covariance=spectrum:0.4,0.2 model.family=sequence model.layers=1"
                                  " model.width=2 model.init=0.3 model.mixer=linear model.loops=4 model.norm=none "
                                  "model.feed_forward=none model.output_norm=none"};

/* "saved" is no key: the training is saved after so many steps, and another trainer continues. */
static const struct {
    const char *text;
    unsigned models; /* others refuse it */
} settings[] = {
    {" optimizer=sgd", OF_BOTH},
    {" optimizer=sgd momentum=0", OF_BOTH},
    {" optimizer=sgd momentum=0.5", OF_BOTH},
    {" optimizer=muon", OF_SEQUENCE},
    {" optimizer=muon muon_momentum=0.5", OF_SEQUENCE},
    {" clip=1", OF_BOTH},
    {" clip=0.05", OF_BOTH},
    {" sequence_clip=0.1", OF_LINEAR},
    {" sequence_clip=0.5", OF_LINEAR},
    {" beta1=0", OF_BOTH},
    {" beta1=0.5", OF_BOTH},
    {" beta2=0.5", OF_BOTH},
    {" beta2=0.999", OF_BOTH},
    {" epsilon=0.1", OF_BOTH},
    {" epsilon=1", OF_BOTH},
    {" weight_decay=0.5", OF_BOTH},
    {" weight_decay=4", OF_BOTH},
    {" learning_rate=0.0003", OF_BOTH},
    {" learning_rate=0.003", OF_BOTH},
    {" schedule=cosine", OF_BOTH},
    {" schedule=step", OF_BOTH},
    {" schedule=step step_every=1", OF_BOTH},
    {" schedule=step step_every=2", OF_BOTH},
    {" schedule=step step_every=2 step_factor=0.3", OF_BOTH},
    {" schedule=step step_factor=0.1", OF_BOTH},
    {" schedule=step step_factor=0.9", OF_BOTH},
    {" schedule=warmup-stable-decay", OF_BOTH},
    {" schedule=warmup-stable-decay decay_share=0.7", OF_BOTH},
    {" warmup=2", OF_BOTH},
    {" warmup=5", OF_BOTH},
    {" horizon=4", OF_BOTH},
    {" horizon=9", OF_BOTH},
    {" growth=1", OF_BOTH},
    {" growth=2", OF_BOTH},
    {" batch=6", OF_BOTH},
    {" batch=24", OF_BOTH},
    {" slices=3", OF_BOTH},
    {" slices=4", OF_BOTH},
    {" refresh=2", OF_BOTH},
    {" refresh=4", OF_BOTH},
    {" steps=3", OF_BOTH},
    {" steps=5", OF_BOTH},
    {" seed=2", OF_BOTH},
    {" seed=7", OF_BOTH},
    {" loop_window=1", OF_SEQUENCE},
    {" loop_window=2", OF_SEQUENCE},
    {" loop_window=1 loop_curriculum=1", OF_SEQUENCE},
    {" loop_window=1 loop_curriculum=3", OF_SEQUENCE},
    {" loop_window=1 loop_curriculum=1 loop_rise=1", OF_SEQUENCE},
    {" loop_window=1 loop_curriculum=2 loop_rise=3", OF_SEQUENCE},
    {" saved=1", OF_BOTH},
    {" saved=2", OF_BOTH},
};

enum { SETTINGS = sizeof settings / sizeof *settings };

/* ---- A training by the library ---- */

typedef struct training {
    double before[MOST_NUMBERS], after[MOST_NUMBERS], rate;
    double losses[MOST_STEPS], norms[MOST_STEPS];
    size_t count; /* number of steps */
} training;

static icl_status set_all(icl_recipe *recipe, const char *section, const char *text, icl_error *error) {
    char assignment[96];
    icl_status status = ICL_OK;

    for (text++; status == ICL_OK && *text; text += strcspn(text, " "), text += *text == ' ') {
        if (strncmp(text, "saved=", 6) == 0)
            continue;
        snprintf(assignment, sizeof assignment, "%s%.*s", section, (int)strcspn(text, " "), text);
        status = icl_recipe_override(recipe, assignment, error);
    }
    return status;
}

static icl_status create(icl_backend *backend, const plain_trainer *plain, icl_trainer **trainer, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(&recipe, error));
    ICL_TRY(set_all(recipe, "", own[!plain->is_linear], error));
    ICL_TRY(set_all(recipe, "train.", plain->settings, error));
    ICL_TRY(icl_trainer_create(backend, recipe, trainer, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

static icl_status read_parameters(icl_trainer *trainer, double *values, icl_error *error) {
    icl_training_state state = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_training_state_create(trainer, &state, error));
    ICL_TRY(icl_trainer_read_state(trainer, &state, error));
    memcpy(values, state.vectors[0], state.size * sizeof *values);
done:
    icl_training_state_clear(&state);
    return status;
}

static icl_status run(icl_trainer *trainer, size_t steps, training *out, icl_error *error) {
    size_t count;

    ICL_CHECK(icl_trainer_run(trainer, steps, error));
    const float *losses = icl_trainer_losses(trainer, &count), *norms = icl_trainer_gradient_norms(trainer, &count);
    for (size_t i = 0; i < count && out->count < MOST_STEPS; i++, out->count++) {
        out->losses[out->count] = (double)losses[i];
        out->norms[out->count] = (double)norms[i];
    }
    return ICL_OK;
}

static icl_status train(icl_backend *backend, const plain_trainer *plain, icl_trainer **trainer, training *out,
                        icl_error *error) {
    char path[64];
    icl_status status = ICL_OK;

    *out = (training){0};
    snprintf(path, sizeof path, "test-pairs-%ld.safetensors", (long)getpid());
    ICL_TRY(create(backend, plain, trainer, error));
    ICL_TRY(read_parameters(*trainer, out->before, error));
    if (plain_value(plain, "saved")) {
        ICL_TRY(run(*trainer, plain_count(plain, "saved"), out, error));
        ICL_TRY(icl_trainer_save(*trainer, path, error));
        icl_trainer_destroy(trainer);
        ICL_TRY(create(backend, plain, trainer, error));
        ICL_TRY(icl_trainer_restore(*trainer, path, error));
    }
    ICL_TRY(run(*trainer, 1000, out, error));
    ICL_TRY(read_parameters(*trainer, out->after, error));
    out->rate = icl_trainer_progress(*trainer).learning_rate;
done:
    (void)remove(path);
    return status;
}

/* ---- The same by plain loops ---- */

/* Draws the sequences of a step: slice s of S of batch t is batch t S + s of the task. */
static icl_status draw(icl_backend *backend, const plain_trainer *t, const icl_task *task, plain_sequence *out,
                       icl_error *error) {
    const size_t slices = plain_count(t, "slices"), size = plain_count(t, "batch") / slices;
    double tokens[MOST_SEQUENCES * T * (D + 1)], targets[MOST_SEQUENCES];
    icl_batch batch = {{0}};
    icl_status status = ICL_OK;

    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_TRAINING, size, &batch, error));
    for (size_t s = 0; s < slices; s++) {
        const uint64_t number_of_slice = t->step / plain_count(t, "refresh") * slices + s;
        ICL_TRY(icl_task_sample(task, backend, ICL_FOR_TRAINING, (uint32_t)plain_count(t, "seed"), number_of_slice,
                                &batch, error));
        ICL_TRY(icl_tensor_read_double(batch.inputs, tokens, error));
        ICL_TRY(icl_tensor_read_double(batch.targets, targets, error));
        for (size_t b = 0; b < size; b++) {
            memcpy(out[s * size + b].tokens, tokens + b * T * (D + 1), sizeof out->tokens);
            out[s * size + b].target = targets[b];
        }
    }
done:
    icl_batch_release(&batch);
    return status;
}

/* Returns the library's error, in units of the bound; losses and norms are floats there. */
static double difference(double seen, double expected, double size, double allowed) {
    return isfinite(seen) && isfinite(expected) ? fabs(seen - expected) / (allowed * size) : HUGE_VAL;
}

static icl_status compare(icl_backend *backend, plain_trainer *t, const icl_trainer *trainer, const training *seen,
                          double *worst, icl_error *error) {
    plain_sequence batch[MOST_SEQUENCES];
    double largest = 0;

    plain_find(t, icl_trainer_model(trainer));
    memcpy(t->parameters, seen->before, sizeof t->parameters);
    for (size_t i = 0; i < plain_count(t, "steps"); i++) {
        ICL_CHECK(draw(backend, t, icl_trainer_task(trainer), batch, error));
        plain_step(t, batch);
        *worst = fmax(*worst, difference(seen->losses[i], t->loss, t->loss, bound + 0x1p-24));
        *worst = fmax(*worst, difference(seen->norms[i], t->norm, t->norm, bound + 0x1p-24));
    }
    *worst = fmax(*worst, difference(seen->rate, t->rate, plain_number(t, "learning_rate"), 0x1p-50));
    for (size_t i = 0; i < t->size; i++)
        largest = fmax(largest, fabs(t->parameters[i]));
    for (size_t i = 0; i < t->size; i++)
        *worst = fmax(*worst, difference(seen->after[i], t->parameters[i], largest, bound));
    if (seen->count != plain_count(t, "steps"))
        *worst = HUGE_VAL;
    return ICL_OK;
}

/* ---- Pairs ---- */

/* Keys that are refused, unless they have their default, if `reader` is not `word`. */
static const struct {
    const char *key, *standard, *reader, *word, *other; /* other: a word that reads it, too */
} read_by[] = {
    {"beta1", "0.9", "optimizer", "adam", "adam"},
    {"beta2", "0.99", "optimizer", "adam", "muon"},
    {"epsilon", "1e-8", "optimizer", "adam", "muon"},
    {"weight_decay", "0", "optimizer", "adam", "muon"},
    {"muon_momentum", "0.95", "optimizer", "muon", "muon"},
    {"momentum", "0.9", "optimizer", "sgd", "sgd"},
    {"step_every", "1000", "schedule", "step", "step"},
    {"step_factor", "0.5", "schedule", "step", "step"},
    {"decay_share", "0.2", "schedule", "warmup-stable-decay", "warmup-stable-decay"},
};

/* Returns the key that the error must name; NULL if the training is possible. */
static const char *refused_key(const plain_trainer *t) {
    const size_t growing = (LAYERS - 2) * plain_growth(t);

    for (size_t i = 0; i < sizeof read_by / sizeof *read_by; i++)
        if (!plain_is(t, read_by[i].reader, read_by[i].word) && !plain_is(t, read_by[i].reader, read_by[i].other) &&
            plain_number(t, read_by[i].key) != strtod(read_by[i].standard, NULL))
            return read_by[i].key;
    if (plain_count(t, "batch") % plain_count(t, "slices") != 0)
        return "slices";
    if (growing > 0 && growing >= plain_count(t, plain_count(t, "horizon") > 0 ? "horizon" : "steps"))
        return "growth";
    if (!t->is_linear && plain_number(t, "sequence_clip") > 0)
        return "sequence_clip";
    if (t->is_linear && plain_is(t, "optimizer", "muon"))
        return "optimizer";
    return t->is_linear && plain_number(t, "loop_window") > 0 ? "loop_window" : NULL;
}

typedef struct tally {
    size_t trained, refused, cut;
    double worst;
} tally;

/* Returns whether the library agrees with the plain loops for two settings. */
static bool check(icl_backend *backend, bool is_linear, size_t a, size_t b, tally *counts) {
    char text[512], name[64];
    plain_trainer plain = {.settings = text, .is_linear = is_linear};
    icl_trainer *trainer = NULL;
    training seen;
    double worst = 0;
    icl_error error = {0};
    bool is_right;

    snprintf(text, sizeof text, "%s%s%s", base, settings[a].text, a == b ? "" : settings[b].text);
    const char *key = refused_key(&plain);
    icl_status status = train(backend, &plain, &trainer, &seen, &error);
    if (key) {
        snprintf(name, sizeof name, "train.%s = ", key);
        is_right = status == ICL_ERROR_INPUT && strstr(error.message, name);
        counts->refused++;
    } else {
        status = status == ICL_OK ? compare(backend, &plain, trainer, &seen, &worst, &error) : status;
        is_right = status == ICL_OK && worst <= 1;
        counts->trained++;
        counts->cut += a == b ? plain.cut : 0;
        counts->worst = fmax(counts->worst, worst);
    }
    if (!is_right)
        tap_note("%s:%s%s: %.2g of the bound%s%s", is_linear ? "linear" : "sequence", settings[a].text,
                 a == b ? "" : settings[b].text, worst, status == ICL_OK ? "" : ", ", error.message);
    icl_trainer_destroy(&trainer);
    return is_right;
}

/* Checks a setting by itself, and with each later one. */
static void check_setting(tap_run *tap, icl_backend *backend, bool is_linear, size_t a) {
    const bool fits = settings[a].models & (is_linear ? OF_LINEAR : OF_SEQUENCE);
    const bool is_clip = strstr(settings[a].text, "sequence_clip") != NULL;
    tally of = {0};
    size_t wrong = 0;

    for (size_t b = a; b < SETTINGS; b++)
        if (!settings_contradict(settings[a].text, settings[b].text))
            wrong += !check(backend, is_linear, a, b, &of);
    tap_ok(tap, wrong == 0 && (of.trained > 0) == fits && (of.cut > 0) == (is_clip && fits),
           "%s,%s: %zu wrong of %zu trained and %zu refused; %.2g of the bound", is_linear ? "linear" : "sequence",
           settings[a].text, wrong, of.trained, of.refused, of.worst);
}

int main(void) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, "ref:threads=1");

    for (size_t i = 0; backend && i < SETTINGS; i++) {
        check_setting(&tap, backend, true, i);
        check_setting(&tap, backend, false, i);
    }
    icl_backend_close(&backend);
    return tap_done(&tap);
}
