/*
 * The results of trainings with the default keys, on settings for which nothing was tuned: drawn by a seed, forms of
 * linear transformers, tied or not, up to four layers, d of 3 to 12, n of d/2 to 10 d, with and without noise. Each is
 * compared with the best of several runs with other seeds, each as long as the run itself, without starts or polish.
 *
 *     polish_settings [FIRST [COUNT [RUNS]]]
 *
 * Without arguments one small setting is compared with one run, for continuous integration. All forty: 0 40 10, which
 * takes an hour and a half of processor time.
 */
#include <time.h>

#include "fixture.h"
#include "train/multistart.h"
#include "train/objective.h"

#define SEED          20261123u
#define COMPARED      131072
#define COMPARE_BATCH ((uint64_t)1 << 44)
#define WITHIN        1.02
#define MOST_SECONDS  60

enum { MOST_OVERRIDES = 16, TEXT = 64 };

typedef struct setting {
    char texts[MOST_OVERRIDES][TEXT];
    const char *overrides[MOST_OVERRIDES];
    size_t count;
} setting;

ICL_PRINTF(2, 3) static void add(setting *s, const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(s->texts[s->count], TEXT, format, arguments);
    va_end(arguments);
    s->overrides[s->count] = s->texts[s->count];
    s->overrides[++s->count] = NULL;
}

/* ---- Settings ---- */

/* Returns a whole number from low to high, the index-th number of a setting. */
static size_t draw(size_t number, size_t index, size_t low, size_t high) {
    const icl_random_key key = {.seed = SEED, .step = number};
    return low + (size_t)((uint64_t)icl_random_word(key, index) * (high - low + 1) >> 32);
}

static void add_noise(setting *s, size_t number) {
    const double sigma = .05 * (double)draw(number, 6, 1, 40);

    switch (draw(number, 5, 0, 3)) {
    case 0:
        add(s, "task.noise=fixed:0");
        break;
    case 1:
        add(s, "task.noise=fixed:%g", sigma);
        break;
    case 2:
        add(s, "task.noise=uniform:%g", 2 * sigma);
        break;
    default:
        add(s, "task.noise=choice:%g,%g", sigma, 3 * sigma);
    }
}

static void draw_setting(size_t number, setting *s) {
    static const char *const forms[] = {"full", "diag", "gd++", "sparse", "sparse-b"};
    const size_t d = draw(number, 2, 3, 12), n = draw(number, 3, (d + 1) / 2, 10 * d);

    *s = (setting){.count = 0};
    add(s, "model.parameterization=%s", forms[draw(number, 0, 0, 4)]);
    add(s, "model.layers=%zu", draw(number, 1, 1, 4));
    add(s, "task.d=%zu", d);
    add(s, "task.n=%zu", n);
    add(s, "model.tied=%s", draw(number, 4, 0, 1) ? "true" : "false");
    add_noise(s, number);
    add(s, "task.sampler=gram");
}

/* ---- Runs ---- */

static double seconds_now(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

/* Measures the losses of the common sequences. */
static icl_status measure(icl_backend *backend, icl_trainer *trainer, double *losses, icl_error *error) {
    const icl_model *model = icl_trainer_model(trainer);
    const icl_objective_params of = {.task = icl_trainer_task(trainer),
                                     .model = model,
                                     .purpose = ICL_FOR_TRAINING,
                                     .sequences = COMPARED,
                                     .beside = backend};
    float values[MAX_PARAMETERS];
    double at[MAX_PARAMETERS];
    icl_objective *objective = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_objective_create(&of, &objective, error));
    ICL_TRY(icl_objective_draw(objective, SEED, COMPARE_BATCH, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
    for (size_t i = 0; i < icl_model_size(model); i++)
        at[i] = (double)values[i];
    ICL_TRY(icl_objective_losses(objective, at, losses, error));
done:
    icl_objective_destroy(&objective);
    return status;
}

/* Measures half of the adjusted loss, as in tables. */
static icl_status adjusted_of(icl_backend *backend, icl_trainer *trainer, double *adjusted, icl_error *error) {
    icl_evaluator *evaluator = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_evaluator_create(backend, icl_trainer_task(trainer), COMPARED / 2, SEED, &evaluator, error));
    ICL_TRY(icl_evaluator_loss(evaluator, trainer, adjusted, error));
done:
    icl_evaluator_destroy(&evaluator);
    return status;
}

/* Trains as a session with the default keys does, without its files. */
static icl_status train_by_default(icl_trainer *trainer, icl_polish_result *polished, icl_error *error) {
    if (icl_starts_count(trainer) > 1)
        ICL_CHECK(icl_trainer_choose_start(trainer, &(icl_starts_watch){0}, error));
    ICL_CHECK(icl_trainer_run(trainer, SIZE_MAX, error));
    return icl_polish_is_wanted(trainer) ? icl_trainer_polish(trainer, NULL, polished, error) : ICL_OK;
}

typedef struct outcome {
    double losses[COMPARED], loss, adjusted, seconds;
    icl_polish_result polished;
} outcome;

/* seed 0: the default keys; others: a run with another seed. */
static icl_status run(icl_backend *backend, const setting *s, size_t seed, outcome *out, icl_error *error) {
    const double begin = seconds_now();
    icl_trainer *trainer = NULL;
    setting with = *s;
    icl_status status = ICL_OK;

    for (size_t i = 0; i < s->count; i++)
        with.overrides[i] = with.texts[i];
    if (seed > 0)
        add(&with, "train.seed=%zu", 100 + seed);
    ICL_TRY(make_trainer(backend, with.overrides, &trainer, error));
    ICL_TRY(seed == 0 ? train_by_default(trainer, &out->polished, error) : icl_trainer_run(trainer, SIZE_MAX, error));
    out->seconds = seconds_now() - begin;
    ICL_TRY(measure(backend, trainer, out->losses, error));
    ICL_TRY(adjusted_of(backend, trainer, &out->adjusted, error));
    out->loss = 0;
    for (size_t i = 0; i < COMPARED; i++)
        out->loss += out->losses[i] / COMPARED;
done:
    icl_trainer_destroy(&trainer);
    return status;
}

/* Returns the standard error of the mean difference on the same sequences. */
static double paired_error(const outcome *a, const outcome *b) {
    double squares = 0;

    for (size_t i = 0; i < COMPARED; i++) {
        const double residual = a->losses[i] - b->losses[i] - (a->loss - b->loss);
        squares += residual * residual;
    }
    return sqrt(squares) / COMPARED;
}

/* ---- Verdicts ---- */

static void describe(const setting *s, char text[256]) {
    text[0] = '\0';
    for (size_t i = 0; i + 1 < s->count; i++)
        snprintf(text + strlen(text), 256 - strlen(text), "%s%s", i > 0 ? " " : "", strchr(s->texts[i], '.') + 1);
}

static icl_status judge(tap_run *tap, icl_backend *backend, size_t number, size_t runs, outcome *three[3],
                        icl_error *error) {
    outcome *ours = three[0], *best = three[1], *other = three[2];
    char text[256];
    setting s;

    draw_setting(number, &s);
    describe(&s, text);
    ICL_CHECK(run(backend, &s, 0, ours, error));
    best->loss = HUGE_VAL;
    for (size_t seed = 1; seed <= runs; seed++) {
        const icl_status status = run(backend, &s, seed, other, error);
        if (status == ICL_ERROR_DIVERGED)
            continue;
        ICL_CHECK(status);
        tap_note("  run %zu: loss %.5g adjusted %.5g in %.0f s", seed, other->loss, other->adjusted, other->seconds);
        if (other->loss < best->loss) {
            outcome *swapped = best;
            best = other;
            other = swapped;
        }
    }
    const double ratio = ours->loss / best->loss;
    tap_ok(
        tap, ratio <= WITHIN && ours->seconds < MOST_SECONDS,
        "setting %zu, %s: loss %.5g, %.4f +- %.4f of the best of %zu runs; adjusted %.5g, %.4f; polish %.2g +- %.2g%s"
        " in %llu; gradient %.2g (%.2g), below %.2g; %.0f s",
        number, text, ours->loss, ratio, paired_error(ours, best) / best->loss, runs, ours->adjusted,
        ours->adjusted / best->adjusted, ours->polished.gain, ours->polished.gain_se,
        ours->polished.is_taken ? "" : " not taken", (unsigned long long)ours->polished.iterations,
        ours->polished.gradient, ours->polished.gradient_se, ours->polished.below, ours->seconds);
    return ICL_OK;
}

int main(int count, char **arguments) {
    const size_t first = count > 1 ? strtoul(arguments[1], NULL, 10) : 1;
    const size_t settings = count > 2 ? strtoul(arguments[2], NULL, 10) : 1;
    const size_t runs = count > 3 ? strtoul(arguments[3], NULL, 10) : 1;
    icl_backend *backend = NULL;
    outcome *three[3] = {NULL};
    icl_error error = {0};
    tap_run tap = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, &error));
    for (int i = 0; i < 3; i++)
        ICL_TRY(icl_allocate(1, sizeof *three[i], "outcome", &three[i], &error));
    for (size_t number = first; number < first + settings; number++)
        ICL_TRY(judge(&tap, backend, number, runs, three, &error));
done:
    tap_status(&tap, status, &error, "the settings run");
    for (int i = 0; i < 3; i++)
        icl_free(&three[i]);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
