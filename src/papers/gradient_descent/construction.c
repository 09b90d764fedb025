/*
 * The constructions of von Oswald et al. 2022, "Transformers learn in-context by gradient descent" (arXiv 2212.07677),
 * proposition 1 and appendix: a layer of linear self-attention with W_K^T W_Q = diag(I, 0) and P = diag(0, -rate) is
 * one step of gradient descent, and with P = diag(-input I, -rate) one of GD++. Their predictions against the
 * algorithms themselves, which are computed in double precision without attention, and the loss of one
 * step against its closed form.
 */
#include <float.h>

#include "core/allocate.h"
#include "core/print.h"
#include "papers/gradient_descent/gradient_descent.h"
#include "papers/losses.h"
#include "papers/papers.h"

enum { D = ICL_GD_DIMENSION, N = ICL_GD_CONTEXT, WIDTH = D + 1, MOST_STEPS = 16, SEQUENCES = 2048 };

/* Steps of a length that is stable for nearly every context; the same for all layers. */
#define RATE   0.3
#define INPUTS 0.1

static const struct construction {
    const char *name, *parameterization, *tied;
    size_t steps;
    bool plus;
} constructions[] = {
    {"full-1-step", "full", "false", 1, false},        {"full-2-steps", "full", "false", 2, false},
    {"full-16-steps", "full", "false", 16, false},     {"sparse-16-steps", "sparse", "false", 16, false},
    {"tied-16-steps", "full", "true", 16, false},      {"full-2-steps-gd++", "full", "false", 2, true},
    {"full-16-steps-gd++", "full", "false", 16, true}, {"tied-16-steps-gd++", "gd++", "true", 16, true},
};

/* Made, not trained. */
static icl_status create_model(const struct construction *c, icl_reproducing *run, const icl_descent *descent,
                               icl_trainer **trainer, icl_error *error) {
    icl_recipe *recipe = NULL;
    float *values = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_recipe("gd", &recipe, error));
    ICL_TRY(icl_reproduce_override(recipe, error, "model.layers=%zu", c->steps));
    ICL_TRY(icl_reproduce_override(recipe, error, "model.parameterization=%s", c->parameterization));
    ICL_TRY(icl_reproduce_override(recipe, error, "model.tied=%s", c->tied));
    ICL_TRY(icl_trainer_create(run->params->backend, recipe, trainer, error));
    const icl_model *model = icl_trainer_model(*trainer);
    ICL_TRY(icl_allocate(icl_model_size(model), sizeof *values, "parameters", &values, error));
    icl_gd_construct(model, descent, D, N, values);
    ICL_TRY(icl_trainer_set_parameters(*trainer, values, error));
done:
    icl_free(&values);
    icl_recipe_destroy(&recipe);
    return status;
}

/* What rounding may make of K stable steps, relative and in root mean square: a step sums n products of d products and
 * rounds the parameters, which are floats on any device, and magnifies no earlier error. */
static double rounding(const icl_backend *backend, size_t steps) {
    const bool is_double = icl_backend_capabilities(backend)->element_size == sizeof(double);
    return (double)steps * (is_double ? 3 : N + D + 8) * (double)FLT_EPSILON;
}

static icl_status reproduce_construction(icl_reproducing *run, const struct construction *c, icl_error *error) {
    icl_trainer *trainer = NULL;
    double rates[MOST_STEPS], inputs[MOST_STEPS];
    icl_alignment is;
    char note[96];
    icl_status status = ICL_OK;

    for (size_t i = 0; i < c->steps; i++) {
        rates[i] = RATE;
        inputs[i] = INPUTS;
    }
    const icl_descent descent = {c->steps, rates, c->plus ? inputs : NULL};
    ICL_TRY(create_model(c, run, &descent, &trainer, error));
    ICL_TRY(icl_gd_align(run, trainer, &descent, SEQUENCES, &is, error));
    icl_print(note, sizeof note, "1 - cosine of sensitivities %.1e, their distance %.1e", 1 - is.cosine,
              is.sensitivities);
    ICL_TRY(ICL_FOUND(run, error, .what = c->name, .quantity = "difference of predictions, relative",
                      .ours = is.predictions / is.mean_prediction,
                      .tolerance = rounding(run->params->backend, c->steps), .criterion = ICL_AT_MOST,
                      .evidence = ICL_READ, .source = "proposition 1", .note = note));
done:
    icl_trainer_destroy(&trainer);
    return status;
}

/* The loss of the best step, which the paper finds by a search over rates. */
static icl_status reproduce_loss(icl_reproducing *run, icl_error *error) {
    const struct construction one = {"best-step", "full", "false", 1, false};
    const size_t sequences = run->params->scale == ICL_SCALE_CI ? 50000 : 400000;
    const icl_gd_step best = icl_gd_best_step(.5, D, N);
    float values[2 * WIDTH * WIDTH];
    const float *const vectors[] = {values};
    icl_trainer *trainer = NULL;
    icl_paired_loss loss;
    char note[64];
    icl_status status = ICL_OK;

    ICL_TRY(create_model(&one, run, &(icl_descent){1, &best.rate, NULL}, &trainer, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
    ICL_TRY(icl_reproduce_losses(run, trainer, sequences, 1, vectors, &loss, error));
    icl_print(note, sizeof note, "rate %.4f for raw sums, %.3f / n", best.rate, best.rate * N);
    ICL_TRY(ICL_FOUND(run, error, .what = one.name, .quantity = "half squared error", .ours = .5 * loss.mse,
                      .standard_error = .5 * loss.se, .target = best.half_loss, .tolerance = 2 * loss.se,
                      .evidence = ICL_COMPUTED, .source = "closed form", .note = note));
done:
    icl_trainer_destroy(&trainer);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    for (size_t i = 0; i < sizeof constructions / sizeof *constructions; i++)
        if (icl_reproduce_wants(run, constructions[i].name))
            ICL_CHECK(reproduce_construction(run, &constructions[i], error));
    if (icl_reproduce_wants(run, "best-step"))
        ICL_CHECK(reproduce_loss(run, error));
    return ICL_OK;
}

const icl_reproduction icl_gd_construction = {
    .name = "gd-construction",
    .source = "arXiv 2212.07677, proposition 1",
    .about = "weights that make layers steps of gradient descent and GD++, against the algorithms",
    .cost = {"1 s", "2 s", NULL},
    .run = reproduce,
};
