/* Tests affine maps by least squares: a map that is known, the normal equations, columns that repeat or do not vary,
 * and what is refused. */
#include "probe/linearity.h"

#include <math.h>
#include <string.h>

#include "iclab/random.h"
#include "iclab/status.h"
#include "tap.h"

enum { ROWS = 150, INPUTS = 6, OUTPUTS = 3 };

static float noise(uint32_t stream, size_t index) {
    return icl_normal_from_word(icl_random_word((icl_random_key){.seed = 5, .stream = stream}, index));
}

/* Rows x of normal numbers about 3, and rows y without any relation to them. */
typedef struct rows {
    float x[ROWS][INPUTS], y[ROWS][OUTPUTS];
} rows;

static void fill(rows *lines) {
    for (size_t t = 0; t < ROWS; t++) {
        for (size_t i = 0; i < INPUTS; i++)
            lines->x[t][i] = 3 + noise(1, t * INPUTS + i);
        for (size_t j = 0; j < OUTPUTS; j++)
            lines->y[t][j] = noise(2, t * OUTPUTS + j);
    }
}

/* As fmax, but NaN stays: a map that is no number fails. */
static double worse(double worst, double value) {
    return isnan(worst) || value <= worst ? worst : value;
}

typedef struct affine_map {
    double at[INPUTS + 1][OUTPUTS];
} affine_map;

static affine_map fit(tap_run *tap, const rows *lines, size_t count) {
    affine_map map;
    icl_error error = {0};

    memset(&map, 0, sizeof map);
    if (icl_affine_fit(count, INPUTS, OUTPUTS, &lines->x[0][0], &lines->y[0][0], &map.at[0][0], &error) != ICL_OK)
        tap_ok(tap, false, "%s", error.message);
    return map;
}

static double residual(const affine_map *map, const rows *lines, size_t t, size_t j) {
    double y[OUTPUTS];
    icl_affine_apply(&map->at[0][0], INPUTS, OUTPUTS, lines->x[t], y);
    return (double)lines->y[t][j] - y[j];
}

/* The least sum of squares is at most that of the map itself, which is the rounding of y to floats. */
static void test_known_map(tap_run *tap) {
    rows lines;
    double left = 0, rounding = 0, farthest = 0;

    fill(&lines);
    for (size_t t = 0; t < ROWS; t++)
        for (size_t j = 0; j < OUTPUTS; j++) {
            double y = (double)j - 1;
            for (size_t i = 0; i < INPUTS; i++)
                y += (double)lines.x[t][i] * sin((double)(i * OUTPUTS + j));
            lines.y[t][j] = (float)y;
            rounding += pow(y - (double)lines.y[t][j], 2);
        }
    const affine_map map = fit(tap, &lines, ROWS);
    for (size_t t = 0; t < ROWS; t++)
        for (size_t j = 0; j < OUTPUTS; j++)
            left += pow(residual(&map, &lines, t, j), 2);
    tap_ok(tap, left <= rounding * (1 + 1e-6), "squares of residuals: %.3e, of rounding %.3e", left, rounding);
    for (size_t i = 0; i <= INPUTS; i++)
        for (size_t j = 0; j < OUTPUTS; j++)
            farthest =
                worse(farthest, fabs(map.at[i][j] - (i < INPUTS ? sin((double)(i * OUTPUTS + j)) : (double)j - 1)));
    /* The least singular value of the centred rows is above 5, and the shift adds up six entries times means of 3. */
    tap_ok(tap, farthest <= 20 * sqrt(rounding), "entries of the map to %.2e", farthest);
}

/* Residuals have the mean 0 and are orthogonal to every column of x. */
static void test_normal_equations(tap_run *tap) {
    rows lines;
    double worst = 0;

    fill(&lines);
    const affine_map map = fit(tap, &lines, ROWS);
    for (size_t i = 0; i <= INPUTS; i++)
        for (size_t j = 0; j < OUTPUTS; j++) {
            double product = 0;
            for (size_t t = 0; t < ROWS; t++)
                product += residual(&map, &lines, t, j) * (i < INPUTS ? (double)lines.x[t][i] : 1);
            worst = worse(worst, fabs(product));
        }
    tap_ok(tap, worst < 1e-9, "the largest product of residuals and a column: %.1e", worst);
}

/* Two equal columns share the coefficient that one of them would have, which is the map of least norm; a column that
 * does not vary has none. */
static void test_columns(tap_run *tap) {
    rows lines, fewer;
    double apart = 0, uneven = 0, idle = 0;

    fill(&lines);
    for (size_t t = 0; t < ROWS; t++) {
        lines.x[t][4] = lines.x[t][0];
        lines.x[t][5] = 7.25F;
    }
    fewer = lines;
    for (size_t t = 0; t < ROWS; t++)
        fewer.x[t][4] = 0;
    const affine_map shared = fit(tap, &lines, ROWS), alone = fit(tap, &fewer, ROWS);
    for (size_t j = 0; j < OUTPUTS; j++) {
        uneven = worse(uneven, fabs(shared.at[0][j] - shared.at[4][j]));
        idle = worse(idle, fabs(shared.at[5][j]));
        for (size_t t = 0; t < ROWS; t++)
            apart = worse(apart, fabs(residual(&shared, &lines, t, j) - residual(&alone, &fewer, t, j)));
    }
    tap_ok(tap, uneven < 1e-12 && idle == 0, "equal columns share to %.1e, an idle one gets %g", uneven, idle);
    tap_ok(tap, apart < 1e-12, "and predict what one of them does, to %.1e", apart);
    const affine_map single = fit(tap, &lines, 1);
    tap_ok(tap, single.at[0][0] == 0 && single.at[INPUTS][0] == (double)lines.y[0][0], "one row is its own mean");
}

static void test_refusals(tap_run *tap) {
    const float two[] = {1, 2, 3, 5}, infinite[] = {1, HUGE_VALF, 3, 5};
    icl_error error = {0};
    double map[4];

    tap_ok(tap, icl_affine_fit(0, 1, 1, two, two, map, &error) == ICL_ERROR_INPUT, "no rows: %s", error.message);
    tap_ok(tap, icl_affine_fit(4, 0, 1, two, two, map, &error) == ICL_ERROR_INPUT, "no inputs: %s", error.message);
    tap_ok(tap, icl_affine_fit(4, 1, 0, two, two, map, &error) == ICL_ERROR_INPUT, "no outputs: %s", error.message);
    tap_ok(tap,
           icl_affine_fit(4, 1, 1, infinite, two, map, &error) == ICL_ERROR_INPUT &&
               icl_affine_fit(4, 1, 1, two, infinite, map, &error) == ICL_ERROR_INPUT,
           "infinity: %s", error.message);
}

int main(void) {
    tap_run tap = {0};

    test_known_map(&tap);
    test_normal_equations(&tap);
    test_columns(&tap);
    test_refusals(&tap);
    return tap_done(&tap);
}
