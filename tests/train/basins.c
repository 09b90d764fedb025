/* Scouts of train.starts: they find the least loss of a grid of coefficients, and other minima, and hand their ends to
 * models of every form. With three steps a start takes none, so that the best one of two is where the scouts ended. */
#include "fixture.h"
#include "train/multistart.h"
#include "train/objective.h"

enum { GRID = 33, SEQUENCES = 2048 };

/* Two applications of one layer on uniform inputs: with long contexts there are minima at which inputs shrink and at
 * which they grow. */
static icl_status make(icl_backend *backend, const char *form, const char *others[2], icl_trainer **trainer,
                       icl_error *error) {
    char parameterization[64];
    const char *const overrides[] = {"task.d=4",
                                     "task.n=20",
                                     "task.noise=fixed:0",
                                     "task.inputs=uniform:0.5",
                                     "model.layers=2",
                                     "model.tied=true",
                                     "model.init_std=0",
                                     "train.steps=3",
                                     "train.batch=64",
                                     "train.warmup=0",
                                     "train.starts=2",
                                     parameterization,
                                     others[0],
                                     others[0] ? others[1] : NULL,
                                     NULL};

    snprintf(parameterization, sizeof parameterization, "model.parameterization=%s", form);
    return make_trainer(backend, overrides, trainer, error);
}

static icl_status open_objective(icl_backend *backend, const icl_trainer *trainer, icl_objective **objective,
                                 icl_error *error) {
    const icl_objective_params params = {.task = icl_trainer_task(trainer),
                                         .model = icl_trainer_model(trainer),
                                         .purpose = ICL_FOR_EVALUATION,
                                         .sequences = SEQUENCES,
                                         .beside = backend};

    ICL_CHECK(icl_objective_create(&params, objective, error));
    return icl_objective_draw(*objective, 7, 0, error);
}

/* Measures the loss of the trainer's parameters. */
static icl_status measure(icl_backend *backend, icl_trainer *trainer, double *loss, icl_error *error) {
    icl_objective *objective = NULL;
    float values[MAX_PARAMETERS];
    double at[MAX_PARAMETERS];
    icl_status status = ICL_OK;

    ICL_TRY(open_objective(backend, trainer, &objective, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
    for (size_t i = 0; i < icl_model_size(icl_trainer_model(trainer)); i++)
        at[i] = (double)values[i];
    ICL_TRY(icl_objective_gradient(objective, at, loss, NULL, error));
done:
    icl_objective_destroy(&objective);
    return status;
}

/* Measures where the scouts of a form end. */
static icl_status scout(icl_backend *backend, const char *form, const char *others[2], double *loss,
                        icl_basins_seen *seen, icl_error *error) {
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make(backend, form, others, &trainer, error));
    ICL_TRY(icl_trainer_choose_start(trainer, &(icl_starts_watch){0}, error));
    ICL_TRY(measure(backend, trainer, loss, error));
    *seen = icl_trainer_basins(trainer);
done:
    icl_trainer_destroy(&trainer);
    return status;
}

/* Finds the least loss on a grid of w_xx from -16 to 16 and w_yx from -32 to 0: p = (w_xx, w_yx) for q = 1. */
static icl_status search(icl_backend *backend, double *least, icl_error *error) {
    const char *none[2] = {NULL};
    icl_trainer *trainer = NULL;
    icl_objective *objective = NULL;
    icl_status status = ICL_OK;

    *least = HUGE_VAL;
    ICL_TRY(make(backend, "gd++", none, &trainer, error));
    ICL_TRY(open_objective(backend, trainer, &objective, error));
    for (size_t i = 0; i < GRID * GRID; i++) {
        const size_t row = i / GRID, column = i % GRID;
        const double at[3] = {(double)row - 16, -(double)column, 1};
        double loss = 0;
        ICL_TRY(icl_objective_gradient(objective, at, &loss, NULL, error));
        *least = fmin(*least, loss);
    }
done:
    icl_objective_destroy(&objective);
    icl_trainer_destroy(&trainer);
    return status;
}

/* A grid's least loss is at most a little above the minimum, and the scouts' best, which is a minimum of other
 * sequences, lies below it up to the scatter of samples: 5 % is far more than that of 4,096 sequences. */
static icl_status test_best(tap_run *tap, icl_backend *backend, icl_error *error) {
    const char *none[2] = {NULL};
    double least = 0, best = 0;
    icl_basins_seen seen;
    size_t rising = 0;

    ICL_CHECK(search(backend, &least, error));
    ICL_CHECK(scout(backend, "gd++", none, &best, &seen, error));
    tap_ok(tap, best < 1.05 * least, "the best basin's loss is %.5g, that of a grid %.5g", best, least);
    tap_ok(tap, seen.scouts == 16 && seen.count > 1 && seen.count <= ICL_LISTED_BASINS, "%llu scouts see %llu basins",
           (unsigned long long)seen.scouts, (unsigned long long)seen.count);
    for (size_t i = 1; i < seen.count; i++)
        rising += seen.losses[i] > 1.02 * seen.losses[i - 1];
    tap_ok(tap, rising + 1 == seen.count && fabs(seen.losses[0] / best - 1) < .2,
           "their losses rise by more than two percent, from %.5g", seen.losses[0]);
    return ICL_OK;
}

/* The same basin in models of other forms predicts the same: the loss is equal to the rounding of parameters, which are
 * floats, and of which a relative change of 2^-24 moves no loss here by 1e-4 of its value. Forms of a group have the
 * same scouts. */
static icl_status test_forms(tap_run *tap, icl_backend *backend, icl_error *error) {
    static const struct {
        const char *form, *others[2];
        int group;
    } models[] = {{"diag", {NULL}, 0},
                  {"full", {"model.heads=2", NULL}, 0},
                  {"full", {"model.scale=raw", "model.heads=3"}, 0},
                  {"gd++", {"model.scale=raw", NULL}, 1},
                  {"sparse-b", {NULL}, 1}};
    double expected[2] = {0, 0};

    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        double loss = 0, *of_group = &expected[models[i].group];
        const char *others[2] = {models[i].others[0], models[i].others[1]};
        icl_basins_seen seen;
        ICL_CHECK(scout(backend, models[i].form, others, &loss, &seen, error));
        if (*of_group == 0)
            *of_group = loss;
        tap_ok(tap, fabs(loss - *of_group) <= 1e-4 * *of_group && seen.count > 1, "%s %s: loss %.7g, expected %.7g",
               models[i].form, others[0] ? others[0] : "", loss, *of_group);
    }
    return ICL_OK;
}

/* The form (8) has no scouts. */
static icl_status test_sparse(tap_run *tap, icl_backend *backend, icl_error *error) {
    const char *none[2] = {NULL};
    icl_basins_seen seen;
    double loss = 0;

    ICL_CHECK(scout(backend, "sparse", none, &loss, &seen, error));
    tap_ok(tap, seen.scouts == 0 && seen.count == 0, "sparse has no scouts");
    return ICL_OK;
}

static void test_text(tap_run *tap) {
    const icl_basins_seen few = {24, 2, {.5, .75}}, many = {32, 9, {1, 2, 3, 4, 5, 6, 7, 8}};
    icl_error error = {0};
    char *text = NULL;

    if (tap_status(tap, icl_basins_text(&few, 3, &text, &error), &error, "a text"))
        tap_ok(tap, strcmp(text, "starts: 24 scouts ended in 2 basins, of losses 0.5 0.75. Start 3 went on.\n") == 0,
               "two basins: %s", text);
    icl_text_free(&text);
    if (tap_status(tap, icl_basins_text(&many, 1, &text, &error), &error, "a text"))
        tap_ok(tap, strstr(text, "in 9 basins, the least losses 1 2 3 4 5 6 7 8 .... Start 1") != NULL, "nine: %s",
               text);
    icl_text_free(&text);
}

int main(void) {
    icl_backend *backend = NULL;
    icl_error error = {0};
    tap_run tap = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, &error));
    ICL_TRY(test_best(&tap, backend, &error));
    ICL_TRY(test_forms(&tap, backend, &error));
    ICL_TRY(test_sparse(&tap, backend, &error));
    test_text(&tap);
done:
    tap_status(&tap, status, &error, "the scouts run");
    icl_backend_close(&backend);
    return tap_done(&tap);
}
