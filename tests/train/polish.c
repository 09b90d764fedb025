/* train.polish reaches the exact optimum of gradient descent (icl_descent_optimum) from a poor start, never raises the
 * held-out loss, has the same bits for any number of threads, and reports how far it is from the optimum. */
#include "core/allocate.h"
#include "fixture.h"
#include "train/multistart.h"
#include "train/objective.h"

enum { D = 5, N = 20, LAYERS = 2, SIZE = LAYERS * D * D };

/* The two layers A are steps of gradient descent, and start near A = 0. The budget of steps only sets the number of
 * sequences: none is taken. */
static const char *const sparse[] = {"task.d=5",
                                     "task.n=20",
                                     "task.noise=fixed:0",
                                     "task.sampler=gram",
                                     "model.layers=2",
                                     "model.parameterization=sparse",
                                     "model.init_std=0.01",
                                     "train.steps=1024",
                                     "train.batch=1024",
                                     NULL};

typedef struct polished {
    float before[SIZE], after[SIZE];
    icl_polish_result result;
} polished;

/* Polishes from `factor` times `from`, or times the initial parameters if that is NULL. */
static icl_status polish_sparse(const char *device, float factor, const float *from, polished *p, icl_error *error) {
    icl_backend *backend = NULL;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = device}, &backend, error));
    ICL_TRY(make_trainer(backend, sparse, &trainer, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, p->before, error));
    for (size_t i = 0; i < SIZE; i++)
        p->before[i] = factor * (from ? from[i] : p->before[i]);
    ICL_TRY(icl_trainer_set_parameters(trainer, p->before, error));
    ICL_TRY(icl_trainer_polish(trainer, NULL, &p->result, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, p->after, error));
done:
    icl_trainer_destroy(&trainer);
    icl_backend_close(&backend);
    return status;
}

/* Returns the loss of the steps that the layers represent: A = -a I + an error from the sampling of sequences. */
static double exact_loss(const icl_descent_problem *problem, const float *values) {
    double lengths[LAYERS] = {0}, loss = (double)NAN;

    for (size_t l = 0; l < LAYERS; l++)
        for (size_t i = 0; i < D; i++)
            lengths[l] -= (double)values[l * D * D + i * (D + 1)] / D;
    return icl_descent_loss(problem, lengths, &loss, NULL) == ICL_OK ? loss : (double)NAN;
}

static void test_optimum(tap_run *tap, polished *p) {
    const icl_descent_problem problem = {.dimension = D, .context = N, .steps = LAYERS};
    double optimum = (double)NAN;
    icl_error error = {0};

    if (!tap_status(tap, polish_sparse("cpu:threads=1", 1, NULL, p, &error), &error, "two sparse layers are polished"))
        return;
    (void)icl_descent_optimum(&problem, NULL, &optimum, &error);
    const double before = exact_loss(&problem, p->before), after = exact_loss(&problem, p->after);
    tap_ok(tap, before > 4 * optimum && after > optimum && after < 1.002 * optimum,
           "from a loss of %.4f to %.5f, at most .2 %% above the exact optimum %.5f", before, after, optimum);
    tap_ok(tap, p->result.is_taken && fabs(1 - p->result.gain - after / before) < .05 * after / before,
           "the gain on held-out sequences, %.4f +- %.4f, is the exact one, %.4f", p->result.gain, p->result.gain_se,
           1 - after / before);
    tap_ok(tap, p->result.gradient < 3 * p->result.gradient_se && fabs(p->result.below) < .01,
           "the gradient there, %.2g, is within three times what sampling adds, %.2g; the fixed set ends %.2g lower",
           p->result.gradient, p->result.gradient_se, p->result.below);
}

/* From the optimum itself there is nothing to gain, and no iterate that only fits its sample is taken. From steps a
 * fifth too long, it returns there. */
static void test_stationary(tap_run *tap, const polished *first) {
    polished again = {{0}}, twice = {{0}};
    icl_error error = {0};

    if (!tap_status(tap, polish_sparse("cpu:threads=1", 1, first->after, &again, &error), &error, "a second polish"))
        return;
    tap_ok(tap, fabs(again.result.gain) < .001 && again.result.loss <= 1.0001 * first->result.loss,
           "it gains %.2g of the loss", again.result.gain);
    if (!tap_status(tap, polish_sparse("cpu:threads=1", 1.2F, first->after, &twice, &error), &error,
                    "a polish from steps a fifth too long"))
        return;
    tap_ok(tap,
           twice.result.is_taken && twice.result.gain > .02 && fabs(twice.result.loss / first->result.loss - 1) < .002,
           "it takes %.3g off and comes back to the same loss: %.5f, %.5f", twice.result.gain, twice.result.loss,
           first->result.loss);
}

/* ---- The same by hand ---- */

/* Looks at every fifth iteration, and ends at the first that gained at most a millionth of the loss. */
static icl_status look(void *user, const double *at, double loss, size_t iterations, bool *ends, icl_error *error) {
    double *last = user;

    (void)at;
    (void)error;
    if (iterations % 5 == 0) {
        *ends = *last - loss <= 1e-6 * loss;
        *last = loss;
    }
    return ICL_OK;
}

/* Descends from the same start on the same sequences, in units of each layer's root mean square. */
static icl_status descend(icl_trainer *trainer, const polished *p, icl_minimised *found, icl_error *error) {
    const icl_objective_params of = {.task = icl_trainer_task(trainer),
                                     .model = icl_trainer_model(trainer),
                                     .purpose = ICL_FOR_TRAINING,
                                     .sequences = p->result.sequences};
    double at[SIZE], scale[SIZE], last = HUGE_VAL;
    const icl_minimise_params params = {
        .history = 50, .iterations = 150, .scale = scale, .observe = look, .user = &last};
    icl_objective *objective = NULL;
    icl_status status = ICL_OK;

    for (size_t layer = 0; layer < LAYERS; layer++) {
        double square = 0;
        for (size_t i = layer * D * D; i < (layer + 1) * D * D; i++)
            square += (double)p->before[i] * (double)p->before[i];
        for (size_t i = layer * D * D; i < (layer + 1) * D * D; i++) {
            scale[i] = sqrt(square) / sqrt((double)(D * D)); /* in the polish's order: another rounding, another path */
            at[i] = (double)p->before[i];
        }
    }
    ICL_TRY(icl_objective_create(&of, &objective, error));
    ICL_TRY(icl_objective_draw(objective, 1, (uint64_t)1 << 41, error));
    ICL_TRY(icl_objective_minimise(objective, &params, at, found, error));
done:
    icl_objective_destroy(&objective);
    return status;
}

/* Measures the held-out sequences' losses before and after: the gain is 1 - the ratio of their means, its error the
 * standard error of the mean of each sequence's difference, over the mean before. */
static icl_status measure_gain(icl_trainer *trainer, const polished *p, double *gained, double *se, icl_error *error) {
    const size_t count = p->result.sequences;
    const icl_objective_params of = {.task = icl_trainer_task(trainer),
                                     .model = icl_trainer_model(trainer),
                                     .purpose = ICL_FOR_TRAINING,
                                     .sequences = count};
    icl_objective *held = NULL;
    double at[2][SIZE], *losses[2] = {NULL}, means[2] = {0}, squares = 0;
    icl_status status = ICL_OK;

    for (size_t i = 0; i < SIZE; i++) {
        at[0][i] = (double)p->before[i];
        at[1][i] = (double)p->after[i];
    }
    ICL_TRY(icl_objective_create(&of, &held, error));
    ICL_TRY(icl_objective_draw(held, 1, (uint64_t)1 << 42, error));
    for (size_t k = 0; k < 2; k++) {
        ICL_TRY(icl_allocate(count, sizeof(double), "losses", &losses[k], error));
        ICL_TRY(icl_objective_losses(held, at[k], losses[k], error));
        for (size_t i = 0; i < count; i++)
            means[k] += losses[k][i] / (double)count;
    }
    for (size_t i = 0; i < count; i++)
        squares += pow(losses[1][i] - losses[0][i] - (means[1] - means[0]), 2);
    *gained = 1 - means[1] / means[0];
    *se = sqrt(squares) / (double)count / means[0];
done:
    icl_free(&losses[0]);
    icl_free(&losses[1]);
    icl_objective_destroy(&held);
    return status;
}

/* Starts from layers of very different sizes, which units for each layer make equal. Another scale takes another number
 * of iterations. */
static void test_by_hand(tap_run *tap, icl_backend *backend, const polished *first) {
    icl_trainer *trainer = NULL;
    polished p = {{0}};
    icl_minimised found = {0};
    float start[SIZE];
    double gained = 0, se = 0;
    icl_error error = {0};

    for (size_t i = 0; i < SIZE; i++)
        start[i] = first->before[i] * (i < D * D ? 1.0F : 1e-3F);
    icl_status status = polish_sparse("cpu:threads=1", 1, start, &p, &error);
    if (status == ICL_OK)
        status = make_trainer(backend, sparse, &trainer, &error);
    if (status == ICL_OK)
        status = descend(trainer, &p, &found, &error);
    if (status == ICL_OK)
        status = measure_gain(trainer, &p, &gained, &se, &error);
    if (tap_status(tap, status, &error, "L-BFGS by hand")) {
        tap_ok(tap, p.result.iterations == found.iterations,
               "a polish from unequal layers takes the iterations that it takes by hand: %d, %d",
               (int)p.result.iterations, (int)found.iterations);
        /* Parameters are rounded to floats before they are measured here. */
        tap_ok(tap, fabs(p.result.gain - gained) < 1e-5 * gained && fabs(p.result.gain_se - se) < 1e-5 * se,
               "and gains what they give by hand: %.6g +- %.6g, %.6g +- %.6g", p.result.gain, p.result.gain_se, gained,
               se);
    }
    icl_trainer_destroy(&trainer);
}

static void test_stop(tap_run *tap, icl_backend *backend) {
    static const volatile sig_atomic_t stop = 1;
    float before[SIZE], after[SIZE] = {0};
    icl_trainer *trainer = NULL;
    icl_polish_result result = {0};
    icl_error error = {0};
    icl_status status = make_trainer(backend, sparse, &trainer, &error), stopped = ICL_OK;

    if (status == ICL_OK)
        status = icl_trainer_get_parameters(trainer, before, &error);
    if (status == ICL_OK) {
        stopped = icl_trainer_polish(trainer, &stop, &result, &error);
        status = icl_trainer_get_parameters(trainer, after, NULL);
    }
    tap_ok(tap,
           status == ICL_OK && stopped == ICL_ERROR_INTERRUPTED && memcmp(before, after, sizeof after) == 0 &&
               icl_trainer_polished(trainer).sequences == 0,
           "a polish that is stopped changes nothing: %s", error.message);
    icl_trainer_destroy(&trainer);
}

/* Labelled pairs without noise have losses with so heavy a tail that few sequences decide the minimum of a set. One
 * polish follows another, each on its own sets: parameters that fit one set only are not taken. */
static icl_status polish_tail(icl_backend *backend, size_t number, float *values, icl_polish_result *result,
                              icl_error *error) {
    char seed[32];
    const char *const settings[] = {"task.d=3",
                                    "task.n=9",
                                    "task.noise=fixed:0",
                                    "task.sampler=gram",
                                    "model.layers=3",
                                    "model.parameterization=sparse-b",
                                    "train.steps=300",
                                    "train.batch=256",
                                    "train.warmup=50",
                                    seed,
                                    NULL};
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    snprintf(seed, sizeof seed, "train.seed=%zu", number);
    ICL_TRY(make_trainer(backend, settings, &trainer, error));
    if (number == 1)
        ICL_TRY(icl_trainer_run(trainer, SIZE_MAX, error));
    else
        ICL_TRY(icl_trainer_set_parameters(trainer, values, error));
    ICL_TRY(icl_trainer_polish(trainer, NULL, result, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
done:
    icl_trainer_destroy(&trainer);
    return status;
}

enum { MOST_TAILS = 8 };

static void test_tail(tap_run *tap, icl_backend *backend) {
    float before[MAX_PARAMETERS] = {0}, values[MAX_PARAMETERS] = {0};
    size_t taken = 0, left = 0;
    icl_error error = {0};

    /* Which polish is the first to be refused depends on rounding, and so on the machine. */
    for (size_t number = 1; number <= MOST_TAILS && (taken == 0 || left == 0); number++) {
        icl_polish_result result = {0};
        memcpy(before, values, sizeof before);
        if (!tap_status(tap, polish_tail(backend, number, values, &result, &error), &error, "a heavy tail"))
            return;
        const bool changes = memcmp(before, values, sizeof before) != 0;
        tap_ok(tap, result.is_taken == (result.gain > result.gain_se) && (number == 1 || changes == result.is_taken),
               "a set's loss, still %.3g lower, and that of others, lowered by %.3g +- %.2g: %s", result.below,
               result.gain, result.gain_se, result.is_taken ? "taken" : "left");
        taken += result.is_taken;
        left += !result.is_taken && result.below > .01;
    }
    tap_ok(tap, taken > 0 && left > 0, "%zu are taken, %zu left although their own set's loss falls by 1 %% or more",
           taken, left);
}

static void test_threads(tap_run *tap, const polished *first) {
    polished more = {{0}};
    icl_error error = {0};

    if (tap_status(tap, polish_sparse("cpu:threads=3", 1, NULL, &more, &error), &error, "with three threads"))
        tap_ok(tap, memcmp(first->after, more.after, sizeof more.after) == 0, "the parameters have the same bits");
}

/* ---- Whether there is one ---- */

typedef struct wanted {
    const char *overrides[6], *what;
    bool polish;
    size_t starts;
} wanted;

static const wanted wants[] = {
    {{"task.sampler=gram"}, "a linear transformer with the default budget", true, 4},
    {{"model.layers=2"}, "one that is trained on tokens", true, 4},
    {{"train.steps=100"}, "a budget of a hundred steps", false, 1},
    {{"train.steps=100", "train.polish=on", "train.starts=3"}, "and what it asks for", true, 3},
    {{"train.polish=off", "train.starts=1"}, "what it does not ask for", false, 1},
    {{"train.growth=100"}, "layers that come one by one", true, 1},
    {{"task.d=40"}, "thousands of parameters", false, 1},
    {{"model.family=softmax", "model.layers=1"}, "softmax attention", false, 1},
    {{"model.space=composed"}, "small ops", false, 1},
};

static void test_wanted(tap_run *tap, icl_backend *backend) {
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        icl_trainer *trainer = NULL;
        icl_error error = {0};
        if (!tap_status(tap, make_trainer(backend, wants[i].overrides, &trainer, &error), &error, wants[i].what))
            continue;
        tap_ok(tap, icl_polish_is_wanted(trainer) == wants[i].polish && icl_starts_count(trainer) == wants[i].starts,
               "%s: %zu starts, polish %s", wants[i].what, wants[i].starts, wants[i].polish ? "on" : "off");
        icl_trainer_destroy(&trainer);
    }
}

static void test_refused(tap_run *tap, icl_backend *backend) {
    static const char *const refused[][5] = {
        {"train.polish=on", "model.family=softmax", "model.layers=1", NULL, "auto or off"},
        {"train.polish=on", "model.space=composed", NULL, NULL, "auto or off"},
        {"train.starts=2", "train.growth=10", NULL, NULL, "train.growth"},
        {"train.starts=2", "train.init=a.safetensors", NULL, NULL, "train.init"}};

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        icl_trainer *trainer = NULL;
        icl_error error = {0};
        const icl_status status = make_trainer(backend, refused[i], &trainer, &error);
        tap_ok(tap, status == ICL_ERROR_INPUT && strstr(error.message, refused[i][4]), "refused: %s", error.message);
        icl_trainer_destroy(&trainer);
    }
}

int main(void) {
    icl_backend *backend = NULL;
    icl_error error = {0};
    polished first = {{0}};
    tap_run tap = {0};

    test_optimum(&tap, &first);
    test_stationary(&tap, &first);
    test_threads(&tap, &first);
    if (tap_status(&tap, icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, &error), &error,
                   "cpu opens")) {
        test_by_hand(&tap, backend, &first);
        test_stop(&tap, backend);
        test_tail(&tap, backend);
        test_wanted(&tap, backend);
        test_refused(&tap, backend);
    }
    icl_backend_close(&backend);
    return tap_done(&tap);
}
