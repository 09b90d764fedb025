/* Tests the scores of three sequences whose means, standard errors and paired differences are known by hand, with and
 * without weights of positions. All targets are 0, so that losses are squares of predictions. */
#include "run/evaluation.h"

#include <math.h>

#include "tap.h"

enum { MODEL, ORACLE, BAYES, COLUMNS, SEQUENCES = 3, MOST_SCORED = 3 };

typedef struct expected {
    const char *name;
    double seen, number;
} expected;

static void check_all(tap_run *tap, const expected *numbers, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const double seen = numbers[i].seen, number = numbers[i].number;
        tap_ok(tap, isnan(number) ? isnan(seen) : fabs(seen - number) <= 1e-14 * (1 + fabs(number)), "%s: %.17g",
               numbers[i].name, seen);
    }
}

/* The model's losses are (1, 9), (4, 0), (16, 4), with the means 5, 2, 10; the oracle's have the means 1, 2, 2. The
 * model's squared distances from the oracle have the means 2, 4, 4, and from Bayes 2, 2, 4; those of Bayes from the
 * oracle are 0, 2, 0. */
static void test_plain(tap_run *tap) {
    static const double predicted[COLUMNS][SEQUENCES * 2] = {
        {1, 3, 2, 0, 4, 2}, {1, 1, 0, 2, 2, 0}, {1, 1, 2, 2, 2, 0}};
    static const float targets[SEQUENCES * 2] = {0};
    icl_tally tally = {.shape = {.positions = 5, .inputs = 1, .outputs = 1, .first_scored = 3, .scored = 2},
                       .sequences = SEQUENCES,
                       .columns = COLUMNS,
                       .oracle = ORACLE,
                       .bayes = BAYES};
    icl_position_score at[COLUMNS][2];
    icl_score of[COLUMNS];
    icl_error error = {0};

    if (!tap_status(tap, icl_tally_create(&tally, false, &error), &error, "a table"))
        return;
    for (size_t column = 0; column < COLUMNS; column++) { /* the last sequence is a chunk of its own */
        icl_tally_add(&tally, column, 0, 2, predicted[column], targets);
        icl_tally_add(&tally, column, 2, 1, predicted[column] + 4, targets);
    }
    for (size_t column = 0; column < COLUMNS; column++)
        icl_tally_score(&tally, column, at[column], &of[column]);
    const icl_score *model = &of[MODEL], *oracle = &of[ORACLE], *bayes = &of[BAYES];
    const expected numbers[] = {
        {"the model's mean loss", model->mse, 17. / 3},
        {"its standard error", model->se, 7. / 3},
        {"adjusted", model->adjusted, 10. / 3},
        {"its standard error", model->adjusted_se, 2. / 3},
        {"half of it", model->half_adjusted, 5. / 3},
        {"its standard error", model->half_adjusted_se, 1. / 3},
        {"the median distance", model->adjusted_median, 4},
        {"the trimmed mean of so few", model->adjusted_trimmed, 10. / 3},
        {"half above Bayes", model->half_above_bayes, 4. / 3},
        {"the model less itself", model->minus_model, (double)NAN},
        {"half of the model less itself", model->half_minus_model, (double)NAN},
        {"the oracle less the model", oracle->minus_model, -4},
        {"its standard error, paired", oracle->minus_model_se, 4 / sqrt(3)},
        {"the oracle's half less the model's", oracle->half_minus_model, -5. / 3},
        {"its standard error, paired", oracle->half_minus_model_se, 1. / 3},
        {"the oracle above Bayes", oracle->half_above_bayes, (double)NAN},
        {"Bayes' half less the model's", bayes->half_minus_model, -4. / 3},
        {"its standard error, paired", bayes->half_minus_model_se, 1. / 3},
        {"Bayes above itself", bayes->half_above_bayes, 0},
        {"Bayes, adjusted", bayes->adjusted, 2. / 3},
        {"positions", (double)model->position_count, 2},
        {"the first", (double)at[MODEL][0].position, 3},
        {"its loss", at[MODEL][0].loss, 7},
        {"its standard error", at[MODEL][0].se, sqrt(21)},
        {"the second's", at[MODEL][1].loss, 13. / 3},
        {"the oracle less the model at the first", at[ORACLE][0].minus_model, -16. / 3},
        {"its standard error, paired", at[ORACLE][0].minus_model_se, 4 * sqrt(7) / 3},
    };
    check_all(tap, numbers, sizeof numbers / sizeof *numbers);
    icl_tally_release(&tally);
}

/* Losses (1, 9), (4, 0), (16, 4) with weights (1, 0), (2, 2), (0, 3), and a third position of no weight: 21 / 8, whose
 * residuals by sequence are 1 - r, 8 - 4 r and 12 - 3 r, over a mean weight of 8 / 3. A reference without a loss at
 * the first position leaves 12 / 8: less the model, -9 / 8. */
static void test_weights(tap_run *tap) {
    static const double predicted[SEQUENCES * MOST_SCORED] = {1, 3, HUGE_VAL, 2, 0, 5, 4, 2, 6},
                                              reference[SEQUENCES * MOST_SCORED] = {0, 3, 1, 0, 0, 1, 0, 2, 1};
    static const float weights[SEQUENCES * MOST_SCORED] = {1, 0, 0, 2, 2, 0, 0, 3, 0},
                                           targets[SEQUENCES * MOST_SCORED] = {0};
    const double ratio = 21. / 8, rest[SEQUENCES] = {1 - ratio, 8 - 4 * ratio, 12 - 3 * ratio};
    const double less = -9. / 8, apart[SEQUENCES] = {-1 - less, -8 - 4 * less, -3 * less};
    icl_tally tally = {.shape = {.positions = 3, .inputs = 1, .outputs = 1, .scored = MOST_SCORED},
                       .sequences = SEQUENCES,
                       .columns = 2};
    icl_position_score at[2][MOST_SCORED];
    icl_score of[2];
    icl_error error = {0};
    double square = 0, squares_apart = 0;

    if (!tap_status(tap, icl_tally_create(&tally, true, &error), &error, "a table with weights"))
        return;
    icl_tally_weigh(&tally, 0, SEQUENCES, weights);
    icl_tally_add(&tally, 0, 0, SEQUENCES, predicted, targets);
    icl_tally_add(&tally, 1, 0, SEQUENCES, reference, targets);
    for (size_t column = 0; column < 2; column++)
        icl_tally_score(&tally, column, at[column], &of[column]);
    for (size_t i = 0; i < SEQUENCES; i++) {
        square += rest[i] * rest[i] / (SEQUENCES - 1) / SEQUENCES;
        squares_apart += apart[i] * apart[i] / (SEQUENCES - 1) / SEQUENCES;
    }
    const expected numbers[] = {
        {"the weighted mean", of[0].mse, ratio},
        {"its standard error, of a ratio", of[0].se, sqrt(square) / (8. / 3)},
        {"a reference less the model, weighted", of[1].minus_model, less},
        {"its standard error, paired", of[1].minus_model_se, sqrt(squares_apart) / (8. / 3)},
        {"positions that count", (double)of[0].position_count, 2},
        {"the mean of the first", at[0][0].loss, 3},
        /* Residuals 1 - 3, 2 (4 - 3), 0: a variance of 4, over a mean weight of 1. */
        {"its standard error", at[0][0].se, sqrt(4. / 3)},
        {"the mean of the second", at[0][1].loss, 12. / 5},
        {"adjusted, without an oracle", of[0].adjusted, (double)NAN},
    };
    check_all(tap, numbers, sizeof numbers / sizeof *numbers);
    icl_tally_release(&tally);
}

int main(void) {
    tap_run tap = {0};

    test_plain(&tap);
    test_weights(&tap);
    return tap_done(&tap);
}
