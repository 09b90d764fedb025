/*
 * Fitted gradient descent and GD++: known optima, the closed form of one step, and the filter against the layers
 * themselves. argument: the number of sequences.
 */
#include "measure.h"

enum { FIT_SEQUENCES = 20000 };

typedef struct known_optimum {
    const char *overrides, *names;
    double half[MEASURE_PREDICTORS],
        unit[MEASURE_PREDICTORS]; /* half adjusted loss, and the worth of the last digit */
} known_optimum;

/* The first three were noted as half losses at d = 10, the last as full losses at d = 5. */
static const known_optimum optima[] = {
    {"task.d=10 task.n=20 task.noise=fixed:0",
     "oracle,gd++:1,gd++:2,gd++:3,gd++:4",
     {0, 1.7733, .2588, .00992, 9.94e-5},
     {0, 1e-4, 1e-4, 1e-5, 1e-7}},
    {"task.d=10 task.n=20 task.noise=uniform:1",
     "oracle,gd++:2,gd++:3,gd++:4",
     {0, .223, .0151, .0094},
     {0, 1e-3, 1e-4, 1e-4}},
    {"task.d=10 task.n=20 task.noise=choice:1,3",
     "oracle,gd++:2,gd++:3,gd++:4",
     {0, .2505, .2234, .2232},
     {0, 1e-4, 1e-4, 1e-4}},
    {"task.d=5 task.n=20 task.noise=fixed:0",
     "oracle,gd:1,gd:2,gd:3,gd:4,gd++:2,gd++:3,gd++:4",
     {0, 1.1532 / 2, .3593 / 2, .12925 / 2, .05054 / 2, .05441 / 2, 6.70e-4 / 2, 1.53e-6 / 2},
     {0, 1e-4 / 2, 1e-4 / 2, 1e-5 / 2, 1e-5 / 2, 1e-5 / 2, 1e-6 / 2, 1e-8 / 2}},
};

static void check_optimum(tap_run *tap, const known_optimum *optimum, size_t count) {
    loss_means means;
    icl_predictors *predictors = NULL;
    icl_task *task = NULL;

    if (measure_task(tap, optimum->overrides, optimum->names, FIT_SEQUENCES, count, &task, &predictors,
                     &means))
        for (size_t p = 1; p < icl_predictors_count(predictors); p++) {
            tap_note("%s: %s", icl_predictors_name(predictors, p), icl_predictors_constants(predictors, p));
            check_value(tap, icl_predictors_name(predictors, p), &means.distance[p],
                        sample_mean_deviation(&means.difference[p]), optimum->half[p], optimum->unit[p]);
        }
    icl_predictors_destroy(&predictors);
    icl_task_destroy(&task);
}

int main(int count, char **arguments) {
    const long sequences_wanted = count > 1 ? atol(arguments[1]) : 40000;
    tap_run tap = {0};

    for (size_t i = 0; i < sizeof optima / sizeof *optima; i++)
        check_optimum(&tap, &optima[i], (size_t)sequences_wanted);
    return tap_done(&tap);
}
