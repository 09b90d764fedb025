/*
 * Predictors through the public interface: names, gradient descent against its own layers, optimality of the Bayes
 * predictor, threads, and data that are not finite.
 */
#include "iclab/baseline.h"

#include "sequences.h"

/* ---- Names ---- */

static void check_names(tap_run *tap) {
    static const struct {
        const char *names, *expected;
    } bad[] = {
        {"bayse", "\"bayes\""},
        {"oracle,olss", "\"ols\""},
        {"gd", "gd:K"},
        {"gd:", "gd:K"},
        {"gd:0", "1 to"},
        {"gd:17", "1 to"},
        {"gd:-1", "gd:K"},
        {"gd:2x", "gd:K"},
        {"gd++", "gd++:K"},
        {"ols:3", "no number"},
        {"ols,ols", "twice"},
        {"ols,,adarr", "not known"},
        {"", "not known"},
        {"ols,", "not known"},
        {"g d:1", "not known"},
        {"gd+:1", "not known"},
        {"adar:3", "\"adar:3\" is not known (nearest: \"adarr\")"},
        {"gd+++:3", "\"gd+++:3\" is not known (nearest: \"gd++\")"},
        {"gd:99999999999999999999", "1 to"},
    };
    icl_task *task = NULL;
    icl_predictors *predictors = NULL;
    icl_error error = {0};

    tap_status(tap, make_task("task.d=2 task.n=3", &task, &error), &error, "a task");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const icl_status status = icl_predictors_create(task, NULL, bad[i].names, 10, 1, &predictors, &error);
        tap_note("%s", error.message);
        tap_ok(tap, status == ICL_ERROR_INPUT && !predictors && strstr(error.message, bad[i].expected),
               "\"%s\" is refused", bad[i].names);
    }
    tap_ok(tap, icl_predictors_create(task, NULL, "tunedrr", 0, 1, &predictors, &error) == ICL_ERROR_INPUT,
           "nothing to fit on is refused: %s", error.message);
    if (tap_status(tap, icl_predictors_create(task, NULL, " oracle , gd++:2,tunedrr", 100, 1, &predictors, &error),
                   &error, "blanks are allowed")) {
        tap_ok(tap,
               icl_predictors_count(predictors) == 3 && strcmp(icl_predictors_name(predictors, 0), "oracle") == 0 &&
                   strcmp(icl_predictors_name(predictors, 1), "gd++:2") == 0,
               "names in order");
        tap_ok(tap,
               icl_predictors_constants(predictors, 0)[0] == '\0' &&
                   strstr(icl_predictors_constants(predictors, 1), "input steps") &&
                   strstr(icl_predictors_constants(predictors, 2), "cap"),
               "constants as text: %s; %s", icl_predictors_constants(predictors, 1),
               icl_predictors_constants(predictors, 2));
    }
    icl_predictors_destroy(&predictors);
    icl_task_destroy(&task);
}

/* A task without a prior has none of these predictors. */
static void check_prior(tap_run *tap) {
    icl_task *task = NULL;
    icl_predictors *predictors = NULL;
    icl_error error = {0};

    if (tap_status(tap, make_task("task.family=functions", &task, &error), &error, "a task of functions"))
        tap_ok(tap,
               icl_predictors_create(task, NULL, "oracle", 10, 1, &predictors, &error) == ICL_ERROR_INPUT &&
                   !predictors && strstr(error.message, "expected none for functions"),
               "no prior: %s", error.message);
    icl_task_destroy(&task);
}

/* ---- Gradient descent against its layers ---- */

enum { MOST_TOKENS = 32, MOST_DIMENSION = 8 };

/* Runs all layers of GD++ on the tokens themselves; returns minus the query's last label. */
static double run_layers(const float *tokens, size_t n, size_t d, size_t steps, const double *label_steps,
                         const double *input_steps) {
    double x[MOST_TOKENS][MOST_DIMENSION], y[MOST_TOKENS];

    for (size_t i = 0; i <= n; i++) {
        for (size_t k = 0; k < d; k++)
            x[i][k] = (double)tokens[i * (d + 1) + k];
        y[i] = (double)tokens[i * (d + 1) + d];
    }
    for (size_t l = 0; l < steps; l++) {
        double gram[MOST_DIMENSION][MOST_DIMENSION] = {{0}}, moment[MOST_DIMENSION] = {0};
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < d; j++) {
                moment[j] += x[i][j] * y[i];
                for (size_t k = 0; k < d; k++)
                    gram[j][k] += x[i][j] * x[i][k];
            }
        for (size_t i = 0; i <= n; i++) {
            double moved[MOST_DIMENSION];
            for (size_t j = 0; j < d; j++) {
                y[i] -= label_steps[l] * moment[j] * x[i][j];
                moved[j] = x[i][j];
                for (size_t k = 0; k < d; k++)
                    moved[j] -= input_steps[l] * gram[j][k] * x[i][k];
            }
            memcpy(x[i], moved, sizeof moved);
        }
    }
    return -y[n];
}

/* Reads up to `capacity` numbers from "steps a, b; input steps c", after a word. */
static void read_numbers(const char *text, size_t capacity, double *numbers) {
    char *end;
    for (size_t i = 0; i < capacity; i++) {
        text += strcspn(text, "-0123456789.");
        numbers[i] = strtod(text, &end);
        text = end;
    }
}

static void check_layers(tap_run *tap, const char *overrides, const char *name, size_t steps, bool inputs_move) {
    icl_task *task = NULL;
    icl_predictors *predictors = NULL;
    icl_error error = {0};
    sequences all = {0};
    double predictions[64], label_steps[8] = {0}, input_steps[8] = {0}, worst = 0;

    if (tap_status(tap, make_task(overrides, &task, &error), &error, overrides) &&
        tap_status(tap, icl_predictors_create(task, NULL, name, 500, 1, &predictors, &error), &error, name) &&
        tap_status(tap, sequences_draw(task, 64, 1, 0, &all, &error), &error, "draw") &&
        tap_status(tap, icl_predictors_run(predictors, 64, all.tokens, all.noise, predictions, &error), &error,
                   "run")) {
        const char *text = icl_predictors_constants(predictors, 0), *semicolon = strchr(text, ';');
        read_numbers(text, steps, label_steps);
        if (inputs_move && steps > 1 && semicolon)
            read_numbers(semicolon, steps - 1, input_steps);
        for (size_t s = 0; s < 64; s++) {
            const double expected =
                run_layers(all.tokens + s * (all.n + 1) * (all.d + 1), all.n, all.d, steps, label_steps, input_steps);
            worst = fmax(worst, fabs(predictions[s] - expected) / (1 + fabs(expected)));
        }
        /* The text has six digits, and each step multiplies their rounding. */
        tap_ok(tap, worst < 2e-4, "%s is its layers (%.1e): %s", name, worst, text);
    }
    sequences_release(&all);
    icl_predictors_destroy(&predictors);
    icl_task_destroy(&task);
}

/* ---- Optimality ---- */

/*
 * bayes is the conditional mean of the target given data without sigma, so that for every estimate p without sigma
 *     E[(bayes - target) (p - bayes)] = 0   and   E[(p - oracle)^2] >= E[(bayes - oracle)^2];
 * the same holds for the oracle among all estimates that know sigma.
 */
static void check_optimality(tap_run *tap, const char *overrides) {
    static const char *const names = "oracle,bayes,ols,constrr,adarr,tunedrr,gd:2,gd++:2";
    enum { COUNT = 10000, PREDICTORS = 8 };
    icl_task *task = NULL;
    icl_predictors *predictors = NULL;
    icl_error error = {0};
    sequences all = {0};
    double *predictions = NULL;

    if (tap_status(tap, make_task(overrides, &task, &error), &error, overrides) &&
        tap_status(tap, icl_predictors_create(task, NULL, names, 500, 1, &predictors, &error), &error, "fit") &&
        tap_status(tap, sequences_draw(task, COUNT, 2, 0, &all, &error), &error, "draw") && all.targets &&
        tap_status(tap, icl_allocate(COUNT * PREDICTORS, sizeof(double), "predictions", &predictions, &error), &error,
                   "predictions") &&
        tap_status(tap, icl_predictors_run(predictors, COUNT, all.tokens, all.noise, predictions, &error), &error,
                   "run"))
        for (size_t p = 1; p < PREDICTORS; p++) {
            sample_mean excess = {0}, against_oracle = {0}, against_bayes = {0};
            for (size_t s = 0; s < COUNT; s++) {
                const double *of = predictions + s * PREDICTORS, target = (double)all.targets[s];
                sample_mean_add(&excess, (of[p] - of[0]) * (of[p] - of[0]) - (of[1] - of[0]) * (of[1] - of[0]));
                sample_mean_add(&against_oracle, (of[0] - target) * (of[p] - of[0]));
                sample_mean_add(&against_bayes, (of[1] - target) * (of[p] - of[1]));
            }
            tap_ok(tap, sample_mean_value(&excess) >= -3 * sample_mean_error(&excess),
                   "%s does not beat bayes (%.4f +- %.4f)", icl_predictors_name(predictors, p),
                   sample_mean_value(&excess), sample_mean_error(&excess));
            tap_ok(tap,
                   fabs(sample_mean_value(&against_oracle)) <= 3.5 * sample_mean_error(&against_oracle) + 1e-9 &&
                       fabs(sample_mean_value(&against_bayes)) <= 3.5 * sample_mean_error(&against_bayes) + 1e-9,
                   "oracle and bayes leave nothing that it could add (%.1e +- %.1e, %.1e +- %.1e)",
                   sample_mean_value(&against_oracle), sample_mean_error(&against_oracle),
                   sample_mean_value(&against_bayes), sample_mean_error(&against_bayes));
        }
    icl_free(&predictions);
    sequences_release(&all);
    icl_predictors_destroy(&predictors);
    icl_task_destroy(&task);
}

/* ---- Threads and bad data ---- */

static bool same_bits(const double *a, const double *b, size_t count) {
    size_t different = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits_a, bits_b;
        memcpy(&bits_a, &a[i], sizeof bits_a);
        memcpy(&bits_b, &b[i], sizeof bits_b);
        different += bits_a != bits_b;
    }
    return different == 0;
}

static void check_threads(tap_run *tap, const char *overrides) {
    enum { COUNT = 500, FITTED = 3 * 512 - 36, PREDICTORS = 4, RUNS = 4 }; /* sums have pieces of 512 */
    static double predictions[RUNS][COUNT * PREDICTORS];
    static const char *const devices[RUNS] = {NULL, "cpu:threads=1", "cpu:threads=5", "ref:threads=2"};
    char constants[RUNS][PREDICTORS][512];
    icl_task *task = NULL;
    icl_error error = {0};
    sequences all = {0};

    tap_status(tap, make_task(overrides, &task, &error), &error, overrides);
    tap_status(tap, sequences_draw(task, COUNT, 1, 0, &all, &error), &error, "draw");
    for (int run = 0; run < RUNS; run++) {
        const char *device = devices[run] ? devices[run] : "one of its own";
        icl_predictors *predictors = NULL;
        icl_backend *backend = NULL;
        if (devices[run])
            tap_status(tap, icl_backend_open(&(icl_backend_params){.spec = devices[run]}, &backend, &error), &error,
                       device);
        if (tap_status(
                tap, icl_predictors_create(task, backend, "bayes,tunedrr,gd:2,gd++:2", FITTED, 1, &predictors, &error),
                &error, "fit") &&
            tap_status(tap, icl_predictors_run(predictors, COUNT, all.tokens, all.noise, predictions[run], &error),
                       &error, "run"))
            for (size_t p = 0; p < PREDICTORS; p++)
                snprintf(constants[run][p], sizeof constants[run][p], "%s", icl_predictors_constants(predictors, p));
        if (backend)
            tap_ok(tap, icl_backend_get_statistics(backend).ops > 0, "%s draws what they are fitted on", device);
        icl_predictors_destroy(&predictors);
        icl_backend_close(&backend);
        for (size_t p = 0; run > 0 && p < PREDICTORS; p++)
            tap_ok(tap, strcmp(constants[run][p], constants[0][p]) == 0, "%s: the same constants", device);
        if (run > 0)
            tap_ok(tap, same_bits(predictions[run], predictions[0], COUNT * PREDICTORS), "%s: the same bits", device);
    }
    sequences_release(&all);
    icl_task_destroy(&task);
}

static void check_bad_data(tap_run *tap) {
    enum { COUNT = 3, PREDICTORS = 5 };
    icl_task *task = NULL;
    icl_predictors *predictors = NULL;
    icl_error error = {0};
    sequences all = {0};
    double clean[COUNT * PREDICTORS], spoiled[COUNT * PREDICTORS];
    bool only_that = true;

    if (tap_status(tap, make_task("task.d=3 task.n=6", &task, &error), &error, "a task") &&
        tap_status(tap, icl_predictors_create(task, NULL, "oracle,bayes,adarr,ols,gd:1", 100, 1, &predictors, &error),
                   &error, "fit") &&
        tap_status(tap, sequences_draw(task, COUNT, 1, 0, &all, &error), &error, "draw") && all.tokens) {
        tap_status(tap, icl_predictors_run(predictors, COUNT, all.tokens, all.noise, clean, &error), &error, "run");
        all.tokens[7 * 4 + 5] = NAN;
        tap_status(tap, icl_predictors_run(predictors, COUNT, all.tokens, all.noise, spoiled, &error), &error, "run");
        for (size_t i = 0; i < COUNT * PREDICTORS; i++)
            only_that = only_that && (i / PREDICTORS == 1 ? isnan(spoiled[i]) : spoiled[i] == clean[i]);
        tap_ok(tap, only_that, "a NaN spoils its own sequence alone");
        tap_status(tap, icl_predictors_run(predictors, 0, all.tokens, all.noise, spoiled, &error), &error,
                   "no sequences");
    }
    sequences_release(&all);
    icl_predictors_destroy(&predictors);
    icl_task_destroy(&task);
}

int main(void) {
    static const char *const coloured =
        "task.d=4 task.n=12 task.noise=choice:1,3 task.covariance=spectrum:1,1,0.25,0.5 "
        "task.rotate=true";
    static const char *const inverse = "task.d=4 task.n=12 task.noise=uniform:1 task.covariance=spectrum:1,1,0.25,0.5 "
                                       "task.rotate=true task.weights=inverse-covariance";
    tap_run tap = {0};

    check_names(&tap);
    check_prior(&tap);
    check_layers(&tap, "task.d=3 task.n=8 task.noise=uniform:1", "gd:1", 1, false);
    check_layers(&tap, "task.d=3 task.n=8 task.noise=uniform:1", "gd:3", 3, false);
    check_layers(&tap, "task.d=3 task.n=8 task.noise=uniform:1", "gd++:3", 3, true);
    check_layers(&tap, coloured, "gd++:2", 2, true);
    check_layers(&tap, inverse, "gd:2", 2, false);
    check_layers(&tap, inverse, "gd++:2", 2, true);
    check_layers(&tap, "task.d=5 task.n=3 task.noise=fixed:1", "gd++:2", 2, true);
    check_optimality(&tap, "task.d=10 task.n=20 task.noise=uniform:5");
    check_optimality(&tap, "task.d=6 task.n=4 task.noise=choice:0.5,2");
    check_optimality(&tap, "task.d=4 task.n=4 task.noise=uniform:2");
    check_optimality(&tap, coloured);
    check_optimality(&tap, inverse);
    check_threads(&tap, "task.d=10 task.n=20 task.noise=uniform:5");
    check_threads(&tap, inverse);
    check_bad_data(&tap);
    return tap_done(&tap);
}
