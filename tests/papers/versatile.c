/*
 * The construction for quadratic targets against the predictor that it is, sequence by sequence; and the cosine of
 * predictions and targets against its definition.
 */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "numeric/statistics.h"
#include "papers/measures.h"
#include "papers/versatile/versatile.h"
#include "run/evaluation.h"
#include "tap.h"

enum { SEED = 3, COUNT = 200 };

typedef struct built {
    icl_recipe *recipe;
    icl_trainer *trainer;
    float *parameters, *zeros;
    icl_sequences drawn;
    double *steps; /* [a chunk]: of the predictor `step` */
} built;

static icl_status predict_step(built *all, icl_error *error) {
    const icl_task *task = icl_trainer_task(all->trainer);
    const icl_reference_predictor *at = task->family->references(task);
    const icl_shown_sequences shown = {task, all->drawn.chunk, all->drawn.inputs, &all->drawn.batch};

    while (at->name && strcmp(at->name, "step") != 0)
        at++;
    return at->name ? at->predict(at, &shown, all->steps, error)
                    : icl_fail(error, ICL_ERROR_INPUT, "no predictor step");
}

static icl_status build(icl_reproducing *run, built *all, icl_error *error) {
    const icl_quadratic_step step = icl_quadratic_best_step(ICL_STEP_D, ICL_STEP_N, 0);
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_recipe("quadratic", &all->recipe, error));
    ICL_TRY(icl_trainer_create(run->params->backend, all->recipe, &all->trainer, error));
    const icl_model *model = icl_trainer_model(all->trainer);
    ICL_TRY(icl_allocate(icl_model_size(model), sizeof(float), "parameters", &all->parameters, error));
    ICL_TRY(icl_allocate(icl_model_size(model), sizeof(float), "parameters", &all->zeros, error));
    if (!icl_versatile_construct_step(model, &step, SEED, all->parameters)) {
        status = icl_fail(error, ICL_ERROR_INPUT, "no room for the construction");
        goto done;
    }
    ICL_TRY(icl_trainer_set_parameters(all->trainer, all->parameters, error));
    ICL_TRY(icl_sequences_create(run->params->backend, icl_trainer_task(all->trainer), SEED, &all->drawn, error));
    ICL_TRY(icl_allocate(all->drawn.chunk, sizeof(double), "predictions", &all->steps, error));
    ICL_TRY(icl_sequences_sample(&all->drawn, 0, error));
    ICL_TRY(icl_sequences_refer(&all->drawn, NULL, all->drawn.chunk, NULL, error));
    ICL_TRY(icl_sequences_predict(&all->drawn, all->trainer, error));
    ICL_TRY(predict_step(all, error));
done:
    return status;
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

/* The losses are those of a model that predicts 0 and of the construction, sequence by sequence. */
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

/* Fewer sequences than a chunk has. */
static void check_cosine(tap_run *tap, icl_reproducing *run, built *all) {
    const float *const vectors[] = {all->zeros, all->parameters};
    icl_paired_loss losses[2];
    double sums[3] = {0}, scatter = 0;
    icl_error error = {0};

    for (size_t i = 0; i < COUNT; i++) {
        const double y = (double)all->drawn.targets[i], prediction = (double)all->drawn.model[i];
        sums[0] += y * prediction / COUNT;
        sums[1] += y * y / COUNT;
        sums[2] += prediction * prediction / COUNT;
    }
    for (size_t i = 0; i < COUNT; i++)
        scatter += pow((double)all->drawn.targets[i] * (double)all->drawn.model[i] - sums[0], 2) / (COUNT - 1);
    const double size = sqrt(sums[1] * sums[2]), cosine = sums[0] / size, its_error = sqrt(scatter / COUNT) / size;
    if (!tap_status(tap, icl_reproduce_losses(run, all->trainer, COUNT, 2, vectors, losses, &error), &error, "losses"))
        return;
    tap_ok(tap, fabs(losses[1].cosine - cosine) < 1e-9 && fabs(losses[1].cosine_se - its_error) < 1e-9,
           "their cosine with targets is %.4f +- %.4f, expected %.4f +- %.4f", losses[1].cosine, losses[1].cosine_se,
           cosine, its_error);
    tap_ok(tap, losses[0].cosine == 0 && losses[0].cosine_se == 0 && losses[0].excess == 0,
           "a model that predicts 0 has none");
    check_excess(tap, all, losses);
}

int main(void) {
    tap_run tap = {0};
    icl_error error = {0};
    icl_backend *backend = NULL;
    built all = {0};

    if (tap_status(&tap, icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &backend, &error), &error, "the cpu")) {
        const icl_reproduce_params params = {.backend = backend, .seed = SEED};
        icl_reproducing run = {.params = &params};
        if (tap_status(&tap, build(&run, &all, &error), &error, "a construction")) {
            check_construction(&tap, &all);
            check_cosine(&tap, &run, &all);
        }
    }
    icl_sequences_release(&all.drawn);
    icl_free(&all.parameters);
    icl_free(&all.zeros);
    icl_free(&all.steps);
    icl_trainer_destroy(&all.trainer);
    icl_recipe_destroy(&all.recipe);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
