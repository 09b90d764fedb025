/* Tests the paper on versatile transformers: the construction for quadratic targets against its equivalent predictor,
 * sequence by sequence; the cosine of predictions and targets against its definition; and the start of deep models
 * without noise. */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "numeric/statistics.h"
#include "papers/measures.h"
#include "papers/versatile/versatile.h"
#include "recipes.h"
#include "run/evaluation.h"
#include "train/objective.h"

enum { SEED = 3, COUNT = 200 };

typedef struct built {
    icl_recipe *recipe;
    icl_trainer *trainer;
    float *parameters, *zeros;
    icl_sequences drawn;
    double *steps; /* [chunk]: predictions of the predictor `step` */
} built;

static void predict_step(built *all) {
    const icl_task *task = icl_trainer_task(all->trainer);
    const icl_reference_predictor *at = task->family->references(task);
    const icl_shown_sequences shown = {task, all->drawn.chunk, all->drawn.inputs, &all->drawn.batch};

    while (at->name && strcmp(at->name, "step") != 0)
        at++;
    tap_need(at->name ? at->predict(at, &shown, all->steps, tap_error())
                      : icl_fail(tap_error(), ICL_ERROR_INPUT, "the task has no predictor step"));
}

static void build(icl_reproducing *run, built *all) {
    const icl_quadratic_step step = icl_quadratic_best_step(ICL_STEP_D, ICL_STEP_N, 0);

    tap_need(icl_reproduce_recipe("quadratic", &all->recipe, tap_error()));
    tap_need(icl_trainer_create(run->params->backend, all->recipe, &all->trainer, tap_error()));
    const icl_model *model = icl_trainer_model(all->trainer);
    tap_need(icl_allocate(icl_model_size(model), sizeof(float), "parameters", &all->parameters, tap_error()));
    tap_need(icl_allocate(icl_model_size(model), sizeof(float), "parameters", &all->zeros, tap_error()));
    if (!icl_versatile_construct_step(model, &step, SEED, all->parameters))
        tap_need(icl_fail(tap_error(), ICL_ERROR_INPUT, "there is no room for the construction"));
    tap_need(icl_trainer_set_parameters(all->trainer, all->parameters, tap_error()));
    tap_need(
        icl_sequences_create(run->params->backend, icl_trainer_task(all->trainer), SEED, &all->drawn, tap_error()));
    tap_need(icl_allocate(all->drawn.chunk, sizeof(double), "predictions", &all->steps, tap_error()));
    tap_need(icl_sequences_sample(&all->drawn, 0, tap_error()));
    tap_need(icl_sequences_refer(&all->drawn, NULL, all->drawn.chunk, NULL, tap_error()));
    tap_need(icl_sequences_predict(&all->drawn, all->trainer, tap_error()));
    predict_step(all);
}

static void check_construction(tap_run *tap, const built *all) {
    double worst = 0, size = 0;

    for (size_t i = 0; i < all->drawn.chunk; i++) {
        worst = fmax(worst, fabs((double)all->drawn.model[i] - all->steps[i]) / (1 + fabs(all->steps[i])));
        size = fmax(size, fabs(all->steps[i]));
    }
    tap_ok(tap, worst < 1e-5 && size > 1, "a model by hand is the best step (%.2g; predictions up to %.2g)", worst,
           size);
}

/* Compares the losses of a model that predicts 0 and of the construction with their definitions, sequence by
 * sequence. */
static void check_excess(tap_run *tap, const built *all, const icl_paired_loss losses[2]) {
    double values[3][COUNT];

    for (size_t i = 0; i < COUNT; i++) {
        const double y = (double)all->drawn.targets[i], miss = (double)all->drawn.model[i] - y;
        values[0][i] = y * y;
        values[1][i] = miss * miss;
        values[2][i] = miss * miss - y * y;
    }
    const double seen[3][2] = {
        {losses[0].mse, losses[0].se}, {losses[1].mse, losses[1].se}, {losses[1].excess, losses[1].excess_se}};
    static const char *const names[] = {"0 misses", "the construction misses", "more than 0"};
    for (size_t i = 0; i < 3; i++) {
        const double mean = icl_mean(values[i], COUNT), se = icl_standard_error(values[i], COUNT);
        tap_ok(tap, fabs(seen[i][0] - mean) < 1e-12 * fabs(mean) && fabs(seen[i][1] - se) < 1e-9 * se,
               "%s by %.6g +- %.6g", names[i], seen[i][0], seen[i][1]);
    }
}

/* Tests the cosine, on fewer sequences than a chunk has. */
static void check_cosine(tap_run *tap, icl_reproducing *run, built *all) {
    const float *const vectors[] = {all->zeros, all->parameters};
    icl_paired_loss losses[2];
    double sums[3] = {0}, scatter = 0;

    for (size_t i = 0; i < COUNT; i++) {
        const double y = (double)all->drawn.targets[i], prediction = (double)all->drawn.model[i];
        sums[0] += y * prediction / COUNT;
        sums[1] += y * y / COUNT;
        sums[2] += prediction * prediction / COUNT;
    }
    for (size_t i = 0; i < COUNT; i++)
        scatter += pow((double)all->drawn.targets[i] * (double)all->drawn.model[i] - sums[0], 2) / (COUNT - 1);
    const double size = sqrt(sums[1] * sums[2]), cosine = sums[0] / size, its_error = sqrt(scatter / COUNT) / size;
    tap_need(icl_reproduce_losses(run, all->trainer, COUNT, 2, vectors, losses, tap_error()));
    tap_ok(tap, fabs(losses[1].cosine - cosine) < 1e-9 && fabs(losses[1].cosine_se - its_error) < 1e-9,
           "their cosine with targets is %.4f +- %.4f, expected %.4f +- %.4f", losses[1].cosine, losses[1].cosine_se,
           cosine, its_error);
    tap_ok(tap, losses[0].cosine == 0 && losses[0].cosine_se == 0 && losses[0].excess == 0,
           "a model that predicts 0 has none");
    check_excess(tap, all, losses);
}

static void check_quadratic(tap_run *tap, icl_backend *backend) {
    const icl_reproduce_params params = {.backend = backend, .seed = SEED};
    icl_reproducing run = {.params = &params};
    built all = {0};

    build(&run, &all);
    check_construction(tap, &all);
    check_cosine(tap, &run, &all);
    icl_sequences_release(&all.drawn);
    icl_free(&all.parameters);
    icl_free(&all.zeros);
    icl_free(&all.steps);
    icl_trainer_destroy(&all.trainer);
    icl_recipe_destroy(&all.recipe);
}

/* ---- The start of table 1's deep models ---- */

/* Returns the loss of a model that starts at intervals, on a task without noise. */
static double start_at_intervals(const char *kind, size_t layers) {
    icl_objective_params params = {.purpose = ICL_FOR_TRAINING, .sequences = 4096};
    icl_recipe *recipe = NULL;
    icl_objective *objective = NULL;
    icl_model *model = NULL;
    icl_task *task = NULL;
    float *values = NULL;
    double *at = NULL, loss = 0;
    char overrides[256];

    snprintf(overrides, sizeof overrides,
             "task.d=10 task.n=20 task.noise=fixed:0 task.sampler=gram model.scale=mean model.parameterization=%s "
             "model.layers=%zu",
             kind, layers);
    tap_need(make_recipe("", overrides, &recipe, tap_error()));
    tap_need(icl_task_create(recipe, &task, tap_error()));
    tap_need(icl_model_create(recipe, *icl_task_get_shape(task), &model, tap_error()));
    tap_need(icl_allocate(icl_model_size(model), sizeof *values, "values", &values, tap_error()));
    tap_need(icl_allocate(icl_model_size(model), sizeof *at, "values", &at, tap_error()));
    icl_versatile_start_at_intervals(model, values);
    for (size_t i = 0; i < icl_model_size(model); i++)
        at[i] = (double)values[i];
    params.task = task;
    params.model = model;
    tap_need(icl_objective_create(&params, &objective, tap_error()));
    tap_need(icl_objective_draw(objective, 1, 0, tap_error()));
    tap_need(icl_objective_gradient(objective, at, &loss, NULL, tap_error()));
    icl_objective_destroy(&objective);
    icl_model_destroy(&model);
    icl_task_destroy(&task);
    icl_recipe_destroy(&recipe);
    icl_free(&values);
    icl_free(&at);
    return loss;
}

/* Three kinds of model start as the same polynomial, which is nearly the solution. */
static void check_start(tap_run *tap) {
    static const struct {
        size_t layers;
        double most; /* a = b = (27 / 4)^l / high would leave 3e-3, 4e-4 and 6e-5 */
    } cells[] = {{5, 1e-4}, {6, 2e-9}, {7, 2e-12}};

    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        const double first = start_at_intervals(icl_versatile_parameterizations[0], cells[i].layers);
        for (size_t kind = 0; kind < ICL_VERSATILE_PARAMETERIZATIONS; kind++) {
            const char *name = icl_versatile_parameterizations[kind];
            const double loss = start_at_intervals(name, cells[i].layers);
            tap_ok(tap, loss > 0 && loss <= cells[i].most && fabs(loss / first - 1) < 1e-6,
                   "%zu layers of %s: %.4g, at most %.1g, as the first kind's", cells[i].layers, name, loss,
                   cells[i].most);
        }
    }
}

int main(void) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, "cpu");

    check_quadratic(&tap, backend);
    check_start(&tap);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
