/*
 * Predictions of a table's rows by a model of tables, on an untrained one: they keep what follows from how a table is
 * shown, whatever the parameters are.
 */
#include "iclab/table_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../core/scratch.h"
#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/recipe.h"
#include "iclab/run.h"
#include "iclab/text.h"
#include "iclab/train.h"
#include "recipes.h"
#include "table_run.h"
#include "tap.h"

enum { FEATURES = 3, KNOWN = 14, ASKED = 5, LEVELS = 3 };

static const double levels[LEVELS] = {0.1, 0.5, 0.9};

/* A question, with memory for one feature more. */
typedef struct asked_table {
    double rows[KNOWN * (FEATURES + 1)], targets[KNOWN], queries[ASKED * (FEATURES + 1)];
    double means[ASKED], quantiles[ASKED * LEVELS];
    uint32_t seed;
} asked_table;

static void fill(asked_table *table) {
    for (size_t i = 0; i < KNOWN * FEATURES; i++)
        table->rows[i] = sin(1 + 3.7 * (double)(i * i % 101));
    for (size_t i = 0; i < ASKED * FEATURES; i++)
        table->queries[i] = cos(2 + 1.9 * (double)(i * i % 97));
    for (size_t i = 0; i < KNOWN; i++)
        table->targets[i] = 2 * table->rows[i * FEATURES] - pow(table->rows[i * FEATURES + 1], 2);
}

static icl_status ask(icl_table_model *model, asked_table *table, size_t features, size_t known, size_t asked,
                      icl_error *error) {
    const icl_table_question question = {.features = features,
                                         .known = known,
                                         .asked = asked,
                                         .rows = table->rows,
                                         .targets = table->targets,
                                         .queries = table->queries,
                                         .seed = table->seed};
    const icl_table_answer answer = {LEVELS, levels, table->means, table->quantiles};
    return icl_table_model_predict(model, &question, &answer, error);
}

static asked_table answer(icl_table_model *model, const asked_table *table, size_t features, size_t asked) {
    asked_table result = *table;
    tap_need(ask(model, &result, features, KNOWN, asked, tap_error()));
    return result;
}

/* Returns the largest difference of the first answers from those of `other`, times `factor`, plus `shift`. */
static double difference(const asked_table *ours, const asked_table *other, double factor, double shift, size_t count) {
    double worst = 0;

    for (size_t i = 0; i < count; i++)
        worst = fmax(worst, fabs(ours->means[i] - factor * other->means[i] - shift));
    for (size_t i = 0; i < count * LEVELS; i++)
        worst = fmax(worst, fabs(ours->quantiles[i] - factor * other->quantiles[i] - shift));
    return worst;
}

static void check_invariance(tap_run *tap, icl_table_model *model) {
    /* Logits are sums of some thousand products of numbers of order 1 in floats, which other orders move by 1e-4 of
     * themselves; a tail bucket is 2 wide. */
    const double rounding = 2e-3;
    asked_table table = {{0}}, other;

    fill(&table);
    const asked_table first = answer(model, &table, FEATURES, ASKED);
    const asked_table again = answer(model, &table, FEATURES, ASKED);
    tap_ok(tap, difference(&first, &again, 1, 0, ASKED) == 0, "the same question has the same answer");
    double apart = 0;
    for (size_t i = 1; i < ASKED; i++)
        apart = fmax(apart, fabs(first.means[i] - first.means[0]));
    tap_ok(tap, apart > 20 * rounding, "rows have different answers: %.2g", apart);
    other = table;
    other.seed = 1;
    other = answer(model, &other, FEATURES, ASKED);
    tap_ok(tap, difference(&first, &other, 1, 0, ASKED) > 5 * rounding,
           "another seed has other orders of features: %.2g", difference(&first, &other, 1, 0, ASKED));
    other = table;
    for (size_t i = 0; i < KNOWN; i++) {
        memcpy(other.rows + i * FEATURES, table.rows + (KNOWN - 1 - i) * FEATURES, FEATURES * sizeof *table.rows);
        other.targets[i] = table.targets[KNOWN - 1 - i];
    }
    other = answer(model, &other, FEATURES, ASKED);
    tap_ok(tap, difference(&first, &other, 1, 0, ASKED) < rounding, "the order of known rows changes rounding: %.2g",
           difference(&first, &other, 1, 0, ASKED));
    other = answer(model, &table, FEATURES, 2);
    tap_ok(tap, difference(&first, &other, 1, 0, 2) < rounding, "other asked rows change rounding: %.2g",
           difference(&first, &other, 1, 0, 2));
    other = table;
    for (size_t i = 0; i < KNOWN; i++)
        other.targets[i] = 1000 * table.targets[i] - 7;
    other = answer(model, &other, FEATURES, ASKED);
    tap_ok(tap, difference(&other, &first, 1000, -7, ASKED) < 1000 * rounding, "answers keep the target's units: %.2g",
           difference(&other, &first, 1000, -7, ASKED));
}

/* A constant feature is no feature; a missing cell is the mean of its column. */
static void check_features(tap_run *tap, icl_table_model *model) {
    asked_table table = {{0}}, other = {{0}};
    double mean = 0;

    fill(&table);
    const asked_table first = answer(model, &table, FEATURES, ASKED);
    memcpy(other.targets, table.targets, sizeof table.targets);
    for (size_t i = 0; i < KNOWN; i++)
        for (size_t j = 0; j <= FEATURES; j++)
            other.rows[i * (FEATURES + 1) + j] = j < FEATURES ? table.rows[i * FEATURES + j] : 4.2;
    for (size_t i = 0; i < ASKED; i++)
        for (size_t j = 0; j <= FEATURES; j++)
            other.queries[i * (FEATURES + 1) + j] = j < FEATURES ? table.queries[i * FEATURES + j] : (double)i;
    other = answer(model, &other, FEATURES + 1, ASKED);
    tap_ok(tap, difference(&first, &other, 1, 0, ASKED) == 0, "a constant feature has no effect: %.2g",
           difference(&first, &other, 1, 0, ASKED));
    for (size_t i = 0; i < KNOWN; i++)
        mean += table.rows[i * FEATURES + 1] / KNOWN;
    other = table;
    for (size_t i = 0; i < ASKED; i++) {
        table.queries[i * FEATURES + 1] = mean;
        other.queries[i * FEATURES + 1] = (double)NAN;
    }
    const asked_table filled = answer(model, &table, FEATURES, ASKED), holes = answer(model, &other, FEATURES, ASKED);
    tap_ok(tap, difference(&filled, &holes, 1, 0, ASKED) < 1e-6 && difference(&first, &holes, 1, 0, ASKED) > 1e-3,
           "a missing cell is the mean of its column: %.2g", difference(&filled, &holes, 1, 0, ASKED));
    for (size_t i = 0; i < KNOWN; i++)
        table.targets[i] = 5;
    other = answer(model, &table, FEATURES, ASKED);
    tap_ok(tap, other.means[0] == 5 && other.quantiles[2] == 5, "a constant target is predicted: %g", other.means[0]);
}

static bool is_refused(icl_table_model *model, asked_table *table, size_t features, size_t known, const char *part) {
    icl_error error = {0};
    const icl_status status = ask(model, table, features, known, 1, &error);

    if (status != ICL_ERROR_INPUT || !strstr(error.message, part))
        printf("# %s\n", status == ICL_OK ? "it is answered" : error.message);
    return status == ICL_ERROR_INPUT && strstr(error.message, part);
}

static void check_refusals(tap_run *tap, icl_table_model *model) {
    asked_table table = {{0}};

    fill(&table);
    tap_ok(tap, is_refused(model, &table, 5, 4, "5 features: expected 1 to 4"), "more features than columns");
    tap_ok(tap, is_refused(model, &table, 0, 4, "0 features"), "no features");
    tap_ok(tap, is_refused(model, &table, 3, 1, "1 rows with a target: expected 2 to"), "one row");
    tap_ok(tap, is_refused(model, &table, 3, 1025, "1025 rows with a target"), "too many rows");
    table.rows[4] = -HUGE_VAL;
    tap_ok(tap, is_refused(model, &table, 3, 4, "known rows: row 1, feature 1: -inf"), "an infinite feature");
    fill(&table);
    table.targets[2] = (double)NAN;
    tap_ok(tap, is_refused(model, &table, 3, 4, "row 2: the target nan"), "a target that is not a number");
    tap_ok(tap, ask(model, &table, 3, 2, 1, tap_error()) == ICL_OK && isfinite(table.means[0]), "two rows are enough");
}

/* The model that ships is better than the mean of the labels where a line is all there is, and its median lies between
 * its quantiles. */
static void check_shipped(tap_run *tap, icl_backend *device) {
    icl_table_model *model = NULL;
    asked_table table = {{0}};
    char *folder = NULL;
    double error = 0, of_mean = 0, mean = 0;
    size_t disordered = 0;

    tap_need(icl_table_model_locate(&folder, tap_error()));
    tap_need(icl_table_model_load(device, folder, &model, tap_error()));
    fill(&table);
    for (size_t i = 0; i < KNOWN; i++) {
        table.targets[i] = 3 + 2 * table.rows[i * FEATURES] - table.rows[i * FEATURES + 2];
        mean += table.targets[i] / KNOWN;
    }
    const asked_table found = answer(model, &table, FEATURES, ASKED);
    for (size_t i = 0; i < ASKED; i++) {
        const double truth = 3 + 2 * table.queries[i * FEATURES] - table.queries[i * FEATURES + 2];
        error += pow(found.means[i] - truth, 2);
        of_mean += pow(mean - truth, 2);
        for (size_t k = 1; k < LEVELS; k++)
            disordered += !(found.quantiles[i * LEVELS + k] > found.quantiles[i * LEVELS + k - 1]);
    }
    tap_ok(tap, error < 0.1 * of_mean && disordered == 0, "the model that ships finds a line: %.3f of the mean's error",
           error / of_mean);
    icl_table_model_destroy(&model);
    icl_text_free(&folder);
}

int main(int argc, char **argv) {
    static const char settings[] =
        "task.family=tables task.d=4 task.n=10 task.least=4 task.unlabelled=4 task.buckets=12 model.family=sequence "
        "model.layers=2 model.mixer=labelled model.causal=false model.width=16 model.heads=2 model.init=0.3 "
        "train.batch=2";
    tap_run tap = {0};
    icl_backend *device = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu");
    icl_table_model *model = NULL;
    icl_error error = {0};
    scratch_folder scratch;

    if (!device)
        return tap_done(&tap);
    scratch_open(&scratch);
    tap_need(make_table_run(device, settings, scratch_path(&scratch, "tables"), tap_error()));
    tap_need(icl_table_model_load(device, scratch_path(&scratch, "tables"), &model, tap_error()));
    const icl_table_model_limits limits = icl_table_model_get_limits(model);
    tap_ok(&tap, limits.features == 4 && limits.trained_least == 4 && limits.trained_most == 10,
           "limits are the run's");
    check_invariance(&tap, model);
    check_features(&tap, model);
    check_refusals(&tap, model);
    check_shipped(&tap, device);
    icl_table_model_destroy(&model);
    tap_need(make_table_run(device, "task.d=4 task.n=8", scratch_path(&scratch, "other"), tap_error()));
    tap_ok(&tap,
           icl_table_model_load(device, scratch_path(&scratch, "other"), &model, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "expected tables") && !model,
           "a model of another task is refused: %s", error.message);
    scratch_close(&scratch);
    icl_backend_close(&device);
    return tap_done(&tap);
}
