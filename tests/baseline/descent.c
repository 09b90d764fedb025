/*
 * Fitted gradient descent and GD++ against known optima.
 *
 * Descent's own optimum is known exactly, and one step of GD++ is one of descent. Otherwise a fitted loss on fresh
 * sequences must come down to the loss that others found (high), and cannot fall below a lower bound (low), such as the
 * loss of a richer model. Also, a filter of the eigenvalues only never beats ridge with E[sigma^2], the best of them,
 * and the loss is affine in sigma^2.
 *
 * GD++ amplifies large eigenvalues, and from three steps on without noise a rare sequence decides its mean: only a fit
 * on many sequences is meaningful there. arguments: the number of sequences; "slow" for the fits on many.
 */
#include "iclab/descent_optimum.h"
#include "measure.h"

typedef struct known_optimum {
    bool slow;
    size_t fit_sequences;
    const char *overrides, *names; /* names start with oracle,constrr */
    struct {
        double low, high, unit; /* half the adjusted loss; the value of the last digit */
        size_t steps;           /* not 0: exactly the loss of so many steps of descent */
    } bounds[MEASURE_PREDICTORS - 2];
} known_optimum;

static const known_optimum optima[] = {
    /* Two steps: the DIAG transformer, which contains GD++, has .265 in table 1 of Vladymyrov et al.; .2588, noted
     * elsewhere, is below the mean of 3,000,000 sequences, .2677 +- .0003. */
    {false,
     5000,
     "task.d=10 task.n=20 task.noise=fixed:0",
     "oracle,constrr,gd++:1,gd++:2",
     {{.steps = 1}, {.265, .265, 1e-3}}},
    {false, 5000, "task.d=10 task.n=20 task.noise=uniform:1", "oracle,constrr,gd++:2", {{0, .223, 1e-3}}},
    {false,
     5000,
     "task.d=10 task.n=20 task.noise=choice:1,3",
     "oracle,constrr,gd++:2,gd++:3",
     {{0, .2505, 1e-4}, {0, .2234, 1e-4}}},
    /* The losses noted for GD++ are full ones, hence / 2. */
    {false,
     5000,
     "task.d=5 task.n=20 task.noise=fixed:0",
     "oracle,constrr,gd:1,gd:2,gd:3,gd++:2",
     {{.steps = 1}, {.steps = 2}, {.steps = 3}, {.05441 / 2, .05441 / 2, .5e-5}}},
    {true,
     50000,
     "task.d=5 task.n=20 task.noise=fixed:0",
     "oracle,constrr,gd:4,gd++:3,gd++:4",
     {{.steps = 4}, {6.70e-4 / 2, 6.70e-4 / 2, .5e-6}, {1.53e-6 / 2, 1.53e-6 / 2, .5e-8}}},
    {true, 20000, "task.d=10 task.n=20 task.noise=choice:1,3", "oracle,constrr,gd++:4", {{0, .2232, 1e-4}}},
    {true, 20000, "task.d=10 task.n=20 task.noise=uniform:1", "oracle,constrr,gd++:4", {{0, .0094, 1e-4}}},
    /* In the same table FULL, which contains GD++, has .012, and GD++ itself .019. */
    {true, 100000, "task.d=10 task.n=20 task.noise=fixed:0", "oracle,constrr,gd++:3", {{.012, .019, 1e-3}}},
};

/* Returns half of the least loss that `steps` steps can reach. */
static double least_loss(const icl_task *task, size_t steps) {
    const icl_task_prior *prior = icl_task_get_prior(task);
    const icl_descent_problem problem = {.dimension = prior->dimension,
                                         .context = prior->context,
                                         .steps = steps,
                                         .noise_variance = prior->mean_square_noise};
    double loss = (double)NAN;
    icl_error error;

    return icl_descent_optimum(&problem, NULL, &loss, &error) == ICL_OK ? loss / 2 : (double)NAN;
}

static void check_optimum(tap_run *tap, const known_optimum *optimum, size_t count) {
    loss_means means;
    icl_predictors *predictors = NULL;
    icl_task *task = NULL;

    if (measure_task(tap, optimum->overrides, optimum->names, optimum->fit_sequences, count, &task, &predictors,
                     &means))
        for (size_t p = 2; p < icl_predictors_count(predictors); p++) {
            const double excess = sample_mean_value(&means.excess[p]), error = sample_mean_error(&means.excess[p]);
            const size_t steps = optimum->bounds[p - 2].steps;
            const double exact = steps > 0 ? least_loss(task, steps) : 0;
            tap_note("%s: %s", icl_predictors_name(predictors, p), icl_predictors_constants(predictors, p));
            check_bounds(tap, icl_predictors_name(predictors, p), &means.distance[p],
                         steps > 0 ? 0 : sample_mean_deviation(&means.difference[p]),
                         steps > 0 ? exact : optimum->bounds[p - 2].low,
                         steps > 0 ? exact : optimum->bounds[p - 2].high, optimum->bounds[p - 2].unit);
            tap_ok(tap, excess >= -3 * error, "and does not beat constrr (%.2g above, standard error %.1g)", excess,
                   error);
        }
    icl_predictors_destroy(&predictors);
    icl_task_destroy(&task);
}

int main(int count, char **arguments) {
    const long sequences_wanted = count > 1 ? strtol(arguments[1], NULL, 10) : 40000;
    const bool slow = count > 2 && strcmp(arguments[2], "slow") == 0;
    tap_run tap = {0};

    for (size_t i = 0; i < sizeof optima / sizeof *optima; i++)
        if (slow || !optima[i].slow)
            check_optimum(&tap, &optima[i], (size_t)sequences_wanted);
    return tap_done(&tap);
}
