/* One recipe on two devices. The data have the same bits, so that only rounding differs: over the first 100 steps every
 * loss agrees with the double-precision oracle's to 1e-5. */
#include <math.h>

#include "core/allocate.h"
#include "iclab/recipe.h"
#include "iclab/train.h"
#include "tap.h"

#define STEPS 100

static const char *const recipes[] = {
    "[task]\nd = 10\nn = 20\nnoise = choice:1,3\n[model]\nlayers = 2\nparameterization = diag\nscale = mean\n"
    "initialization = descent\n[train]\nbatch = 256\nsteps = 100\nlearning_rate = 0.003\nclip = 1\nseed = "
    "3\n",
    "[task]\nd = 5\nn = 20\nnoise = fixed:0\ncovariance = spectrum:1,1,0.5,0.25,1\nrotate = true\nweights = "
    "inverse-covariance\n"
    "[model]\nlayers = 3\nparameterization = sparse-b\nscale = mean\ninit_std = 0.05\n"
    "[train]\nbatch = 256\nsteps = 100\noptimizer = sgd\nmomentum = 0.9\nlearning_rate = 0.01\nclip = "
    "1\nseed = 4\n",
};

static icl_status train(icl_backend *backend, const char *text, float losses[STEPS], icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    size_t count = 0;
    icl_status status = icl_recipe_create_complete(&recipe, error);

    if (status == ICL_OK)
        status = icl_recipe_parse(recipe, text, "agreement", error);
    if (status == ICL_OK)
        status = icl_trainer_create(backend, recipe, &trainer, error);
    if (status == ICL_OK)
        status = icl_trainer_run(trainer, STEPS, error);
    if (status == ICL_OK) {
        const float *seen = icl_trainer_losses(trainer, &count);
        memcpy(losses, seen, (count < STEPS ? count : STEPS) * sizeof *losses);
    }
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_error error = {0};
    icl_backend *device = argc > 1 ? tap_open_device(&tap, argv[1]) : NULL, *reference = NULL;

    if (device && tap_status(&tap, icl_backend_open(&(icl_backend_params){.spec = "ref"}, &reference, &error), &error,
                             "open the reference"))
        for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
            float losses[STEPS] = {0}, truth[STEPS] = {0};
            double worst = 0;
            tap_status(&tap, train(device, recipes[r], losses, &error), &error, "train on the device");
            tap_status(&tap, train(reference, recipes[r], truth, &error), &error, "train on the reference");
            for (int i = 0; i < STEPS; i++)
                worst = fmax(worst, fabs((double)losses[i] - (double)truth[i]) / (double)truth[i]);
            tap_ok(&tap, truth[0] > 0 && truth[STEPS - 1] < truth[0] && worst <= 1e-5,
                   "recipe %zu: 100 losses (%.4f to %.4f) within 1e-5 of the reference: %.2g", r + 1, (double)truth[0],
                   (double)truth[STEPS - 1], worst);
        }
    icl_backend_close(&device);
    icl_backend_close(&reference);
    return tap_done(&tap);
}
