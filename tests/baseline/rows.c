/*
 * The reference predictors for d = 10, n = 20 against independently computed values (a double-precision simulation) and
 * against closed forms. argument: the number of sequences.
 */
#include "measure.h"

enum { COLUMNS = 10, FIT_SEQUENCES = 5000, D = 10, N = 20 };

static const char *const predictor_names = "oracle,ols,constrr,adarr,tunedrr,gd:1";

enum { ORACLE = 0, OLS, CONSTRR, ADARR, TUNEDRR, GD, PREDICTORS };

typedef struct value {
    double value, unit; /* the noted value, and what its last digit is worth */
    bool coarse;        /* the minimum was not reached */
} value;

typedef struct noise_column {
    const char *noise;
    value values[PREDICTORS]; /* full MSE of the oracle; half the adjusted loss of the others */
} noise_column;

static const noise_column columns[COLUMNS] = {
    {"fixed:0", {{0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {1.7734, 1e-4}}},
    {"uniform:1", {{.3231, 1e-4}, {.0231, 1e-4}, {.0087, 1e-4}, {.0027, 1e-4}, {.0020, 1e-4, true}, {1.644, 1e-3}}},
    {"uniform:2", {{1.0173, 1e-4}, {.2364, 1e-4}, {.0634, 1e-4}, {.0163, 1e-4}, {.0109, 1e-4}, {1.3963, 1e-4}}},
    {"uniform:3", {{1.7681, 1e-4}, {.7815, 1e-4}, {.1565, 1e-4}, {.0346, 1e-4}, {.0242, 1e-4}, {1.177, 1e-3}}},
    {"uniform:4", {{2.4837, 1e-4}, {1.720, 1e-3}, {.2594, 1e-4}, {.0528, 1e-4}, {.0375, 1e-4}, {1.0045, 1e-4}}},
    {"uniform:5", {{3.126, 1e-3}, {3.04, 1e-2}, {.3601, 1e-4}, {.0684, 1e-4}, {.0490, 1e-4}, {.8972, 1e-4}}},
    {"uniform:6", {{3.691, 1e-3}, {4.86, 1e-2}, {.4522, 1e-4}, {.0832, 1e-4}, {.0591, 1e-4}, {.8302, 1e-4}}},
    {"uniform:7", {{4.170, 1e-3}, {6.98, 1e-2}, {.5327, 1e-4}, {.0952, 1e-4}, {.0689, 1e-4}, {.8011, 1e-4}}},
    {"choice:1,3", {{2.4417, 1e-4}, {1.55, 1e-2}, {.2200, 1e-4}, {.0502, 1e-4}, {.0214, 1e-4}, {.9994, 1e-4}}},
    {"choice:1,3,5", {{3.6839, 1e-4}, {4.65, 1e-2}, {.4273, 1e-4}, {.0832, 1e-4}, {.0555, 1e-4}, {.8179, 1e-4}}},
};

/* Without noise every ridge is exact: only the rounding of the labels is left. */
static void check_noise_free(tap_run *tap, const sample_mean *distance) {
    for (size_t p = OLS; p <= TUNEDRR; p++)
        tap_ok(tap, sample_mean_value(&distance[p]) < 1e-10, "without noise predictor %zu is the oracle (%.1e)", p,
               sample_mean_value(&distance[p]));
    tap_ok(tap, sample_mean_value(&distance[ORACLE]) == 0, "without noise the oracle has no error");
}

static void check_row(tap_run *tap, const noise_column *column, const icl_predictors *predictors, size_t p,
                      const loss_means *means) {
    const sample_mean *theirs = p == ORACLE ? &means->distance[p] : &means->difference[p];
    const double noted = column->values[p].value;
    char what[64];

    snprintf(what, sizeof what, "%s %s", column->noise, icl_predictors_name(predictors, p));
    /* A coarse value is only an upper bound: its constants came from a grid, and (1.21, .74) cost .00165 on fresh
     * sequences. */
    check_bounds(tap, what, &means->distance[p], sample_mean_deviation(theirs), column->values[p].coarse ? 0 : noted,
                 noted, column->values[p].unit);
}

static void check_column(tap_run *tap, const noise_column *column, size_t count) {
    loss_means means;
    icl_predictors *predictors = NULL;
    icl_task *task = NULL;
    char overrides[128];

    snprintf(overrides, sizeof overrides, "task.d=%d task.n=%d task.noise=%s", D, N, column->noise);
    if (measure_task(tap, overrides, predictor_names, FIT_SEQUENCES, count, &task, &predictors, &means)) {
        const double s = icl_task_get_prior(task)->mean_square_noise;
        tap_note("tunedrr: %s; gd:1: %s", icl_predictors_constants(predictors, TUNEDRR),
                 icl_predictors_constants(predictors, GD));
        if (s == 0) {
            check_noise_free(tap, means.distance);
        } else {
            for (size_t p = ORACLE; p < GD; p++)
                check_row(tap, column, predictors, p, &means);
            /* The error is E[sigma^2] E[tr (X^T X)^-1], the latter of an inverse Wishart matrix. */
            check_closed_form(tap, "ols", &means.full[OLS], s * D / (N - D - 1));
        }
        check_row(tap, column, predictors, GD, &means);
        /* The best step is 1 / (n + d + 1 + s). */
        check_closed_form(tap, "gd:1", &means.full[GD], D * (D + 1 + s) / (N + D + 1 + s));
    }
    icl_predictors_destroy(&predictors);
    icl_task_destroy(&task);
}

int main(int count, char **arguments) {
    const long sequences_wanted = count > 1 ? strtol(arguments[1], NULL, 10) : 40000;
    tap_run tap = {0};

    for (size_t i = 0; i < COLUMNS; i++)
        check_column(&tap, &columns[i], (size_t)sequences_wanted);
    return tap_done(&tap);
}
