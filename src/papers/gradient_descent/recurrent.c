/*
 * One layer applied again and again: von Oswald et al. 2022, "Transformers learn in-context by gradient descent" (arXiv
 * 2212.07677), section 4. Two applications are trained; in the form of GD++ their two numbers are its rate and gamma, x
 * <- (I - gamma X^T X) x, whose fitted values the paper lists for four lengths of the context. Then the layer is
 * applied up to fifty times, every change to a token multiplied by .75.
 */
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "core/print.h"
#include "papers/gradient_descent/gradient_descent.h"
#include "papers/losses.h"
#include "papers/papers.h"

enum { D = ICL_GD_DIMENSION, WIDTH = D + 1, SIZE = 2 * WIDTH * WIDTH, DEPTHS = 12 };

#define DAMPING 0.75

typedef struct recurrent_cell {
    const char *name, *parameterization;
    size_t n, batch; /* of a step; longer contexts need fewer sequences */
    double half_loss, gamma;
    icl_evidence of_gamma;
    bool is_repeated;
    icl_scale first;
} recurrent_cell;

static const recurrent_cell cells[] = {
    {"gd-n10", "sparse", 10, 2048, .1570, 0, ICL_EVIDENCE_NONE, false, ICL_SCALE_SHORT},
    {"gd++-n10", "gd++", 10, 2048, .1109, .179, ICL_READ, true, ICL_SCALE_CI},
    {"full-n10", "full", 10, 2048, .1109, 0, ICL_EVIDENCE_NONE, true, ICL_SCALE_SHORT},
    {"gd++-n25", "gd++", 25, 1024, 0, .099, ICL_READ, false, ICL_SCALE_SHORT},
    {"gd++-n50", "gd++", 50, 512, 0, .056, ICL_READ, false, ICL_SCALE_SHORT},
    {"gd++-n100", "gd++", 100, 512, 0, .029, ICL_READ, false, ICL_SCALE_SHORT},
};
enum { CELLS = sizeof cells / sizeof *cells };

static const struct {
    size_t steps, batch, sequences; /* batch: at most */
    double loss_tolerance, gamma_tolerance;
} budgets[ICL_SCALES] = {{800, 512, 40000, .05, .1}, {2000, 2048, 200000, .02, .05}, {20000, 2048, 400000, .02, .05}};

/* ---- Training ---- */

/* GD++ with somewhat more than the best single step's rate, and P and Q of like size; what training then finds is
 * elsewhere, but from here it finds it for every n. From the recipe's start long contexts end in
 * a minimum where inputs grow. */
static void start_plus(const recurrent_cell *cell, float values[3]) {
    const double rate = 1.5 * icl_gd_best_step(.5, D, cell->n).rate, q = sqrt(rate * (double)cell->n);

    values[0] = (float)(-.2 * q);
    values[1] = (float)-q;
    values[2] = (float)q;
}

static icl_status train(icl_reproducing *run, const recurrent_cell *cell, icl_recipe **recipe, icl_trainer **trainer,
                        icl_error *error) {
    const size_t most = budgets[run->params->scale].batch;
    const bool is_plus = cell->parameterization[0] == 'g';
    float start[3];

    ICL_CHECK(icl_reproduce_recipe("gd", recipe, error));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "model.layers=2"));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "model.tied=true"));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "model.parameterization=%s", cell->parameterization));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "task.n=%zu", cell->n));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "train.batch=%zu", cell->batch < most ? cell->batch : most));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "train.steps=%zu", budgets[run->params->scale].steps));
    start_plus(cell, start);
    return icl_reproduce_cell(run, cell->name, *recipe, is_plus ? start : NULL, trainer, error);
}

/* ---- Judging ---- */

static icl_status judge_loss(icl_reproducing *run, const recurrent_cell *cell, icl_trainer *trainer,
                             const float *values, icl_error *error) {
    const float *const vectors[] = {values};
    icl_paired_loss loss;

    ICL_CHECK(icl_reproduce_losses(run, trainer, budgets[run->params->scale].sequences, 1, vectors, &loss, error));
    return ICL_FOUND(run, error, .what = cell->name, .quantity = "half squared error", .ours = .5 * loss.mse,
                     .standard_error = .5 * loss.se, .target = cell->half_loss,
                     .tolerance = budgets[run->params->scale].loss_tolerance * cell->half_loss + loss.se,
                     .evidence = ICL_COMPUTED, .source = "minimised directly");
}

/* gamma for raw sums is -p_x q_x / n, the rate -p_y q_x / n. */
static icl_status judge_gamma(icl_reproducing *run, const recurrent_cell *cell, const float values[3],
                              icl_error *error) {
    const double n = (double)cell->n;
    char note[64];

    icl_print(note, sizeof note, "rate %.4f", -(double)values[1] * (double)values[2] / n);
    return ICL_FOUND(run, error, .what = cell->name, .quantity = "gamma",
                     .ours = -(double)values[0] * (double)values[2] / n, .target = cell->gamma,
                     .tolerance = budgets[run->params->scale].gamma_tolerance * cell->gamma, .evidence = cell->of_gamma,
                     .source = "section 4", .note = note);
}

/* ---- Applied again and again ---- */

static const double depths[DEPTHS] = {1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50};

/* Half losses of 1 to 50 applications, as trained and damped: a change is proportional to P, which stands before Q. */
static icl_status judge_repeated(icl_reproducing *run, const recurrent_cell *cell, const icl_recipe *recipe,
                                 const icl_model *model, const float *values, icl_error *error) {
    const size_t of_p = icl_model_parameter(model, 0)->count;
    float damped[SIZE];
    const float *const vectors[] = {values, damped};
    double half[2][DEPTHS];
    char name[48], title[128], note[64];

    for (size_t k = 0; k < icl_model_size(model); k++)
        damped[k] = k < of_p ? (float)(DAMPING * (double)values[k]) : values[k];
    for (size_t i = 0; i < DEPTHS; i++) {
        double both[2];
        char layers[32];
        icl_print(layers, sizeof layers, "model.layers=%.0f", depths[i]);
        ICL_CHECK(icl_gd_half_losses(run, recipe, layers, 8192, vectors, both, error));
        half[0][i] = both[0];
        half[1][i] = both[1];
    }
    icl_print(note, sizeof note, "two applications as trained: %.4f", half[0][1]);
    ICL_CHECK(ICL_FOUND(run, error, .what = cell->name, .quantity = "half squared error of 50 damped applications",
                        .ours = half[1][DEPTHS - 1], .target = half[0][1], .criterion = ICL_AT_MOST,
                        .evidence = ICL_INFERRED, .source = "figure 4: further applications help", .note = note));
    const icl_series series[] = {{"damped by .75", ICL_SERIES_OURS, DEPTHS, depths, half[1], NULL},
                                 {"as trained", ICL_SERIES_LINE, DEPTHS, depths, half[0], NULL}};
    snprintf(name, sizeof name, "applied-again-%s", cell->name);
    snprintf(title, sizeof title, "von Oswald et al., section 4: a layer trained for two applications, %s", cell->name);
    return ICL_DRAW_FIGURE(run, error, .name = name, .title = title, .x_label = "applications",
                           .y_label = "half squared error", .log_x = true, .log_y = true, .count = 2, .series = series);
}

/* ---- Cells ---- */

static icl_status reproduce_cell(icl_reproducing *run, const recurrent_cell *cell, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    float values[SIZE];
    icl_status status = ICL_OK;

    ICL_TRY(train(run, cell, &recipe, &trainer, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
    if (cell->half_loss > 0)
        ICL_TRY(judge_loss(run, cell, trainer, values, error));
    if (cell->of_gamma != ICL_EVIDENCE_NONE)
        ICL_TRY(judge_gamma(run, cell, values, error));
    if (cell->is_repeated)
        ICL_TRY(judge_repeated(run, cell, recipe, icl_trainer_model(trainer), values, error));
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    for (size_t i = 0; i < CELLS; i++)
        if (run->params->scale >= cells[i].first && icl_reproduce_wants(run, cells[i].name))
            ICL_CHECK(icl_reproduce_next(run, reproduce_cell(run, &cells[i], error)));
    return ICL_OK;
}

const icl_reproduction icl_gd_recurrent = {
    .name = "gd-recurrent",
    .source = "arXiv 2212.07677, section 4",
    .about = "one layer trained for two applications: GD++'s gamma, and what fifty applications do",
    .cost = {"2 s", "2 min", "15 min"},
    .is_shared = true,
    .run = reproduce,
};
