/* Tests that every field of a landscape's cell arrives in its recipe, and that cells that differ in one have different
 * names; how spikes are found and told apart; how far layers reach in a context whose covariance is known; and the
 * largest eigenvalue of a preconditioned Hessian against the whole Hessian. */
#include <math.h>
#include <string.h>

#include "iclab/recipe.h"
#include "iclab/status.h"
#include "numeric/matrix.h"
#include "papers/landscape/landscape.h"
#include "probe/curvature.h"
#include "tap.h"

/* ---- Cells ---- */

static const icl_landscape_cell usual = {.layers = 3, .steps = 500};

/* The usual cell, and others that differ from it in one field, each with a key of its recipe and the expected value. */
static const struct {
    icl_landscape_cell cell;
    const char *key, *value;
} cells[] = {
    {{.setting = ICL_LANDSCAPE_S1, .layers = 3, .steps = 500}, "inputs", "normal"},
    {{.setting = ICL_LANDSCAPE_S2, .layers = 3, .steps = 500}, "n", "5"},
    {{.setting = ICL_LANDSCAPE_S3, .layers = 3, .steps = 500}, "inputs", "gamma:0.1,10"},
    {{.setting = ICL_LANDSCAPE_SPHERE, .layers = 3, .steps = 500}, "clip", "0.1"},
    {{.optimizer = ICL_LANDSCAPE_SGD, .layers = 3, .steps = 500}, "optimizer", "sgd"},
    {{.layers = 4, .steps = 500}, "layers", "4"},
    {{.layers = 3, .steps = 750}, "steps", "750"},
    {{.layers = 3, .steps = 500, .rate = 0.5}, "learning_rate", "0.5"},
    {{.layers = 3, .steps = 500, .softmax = true}, "scale", "softmax"},
};
enum { CELLS = sizeof cells / sizeof *cells };

static void check_recipe(tap_run *tap, size_t i) {
    icl_recipe *recipe = NULL;
    icl_error error = {0};
    char *text = NULL, line[64];

    snprintf(line, sizeof line, "\n%s = %s\n", cells[i].key, cells[i].value);
    if (tap_status(tap, icl_reproduce_recipe("landscape", &recipe, &error), &error, "the recipe") &&
        tap_status(tap, icl_reproduce_override_all(recipe, icl_landscape_changes(&cells[i].cell).text, &error), &error,
                   cells[i].key) &&
        tap_status(tap, icl_recipe_write(recipe, &text, &error), &error, "as text"))
        tap_ok(tap, strstr(text, line) != NULL, "%s = %s", cells[i].key, cells[i].value);
    icl_text_free(&text);
    icl_recipe_destroy(&recipe);
}

static void check_names(tap_run *tap) {
    icl_landscape_cell own_rate = usual;
    icl_phrase names[CELLS];
    bool distinct = true;

    for (size_t i = 0; i < CELLS; i++) {
        names[i] = icl_landscape_name(&cells[i].cell);
        for (size_t j = 0; j < i; j++)
            distinct = distinct && strcmp(names[i].text, names[j].text) != 0;
    }
    tap_ok(tap, distinct, "every cell has a name of its own");
    own_rate.rate = icl_landscape_settings[usual.setting].rates[usual.optimizer];
    tap_ok(tap, strcmp(names[0].text, icl_landscape_name(&own_rate).text) == 0,
           "the setting's own rate needs no mention (%s)", names[0].text);
}

/* ---- Spikes ---- */

enum { LOSSES = 400, NOT_YET = 50, ALMOST = 150, SPIKE = 200, NOTHING = 250, RISE = 300 };

/* Losses of 1, but for single ones, and of 20 from RISE on. They are usual once half of the 100 before are 20: a median
 * of 10.5. What was no number 50 steps before RISE counts among the largest, so that this comes one step sooner. */
static void check_finding(tap_run *tap) {
    double losses[LOSSES], medians[LOSSES];
    size_t steps[LOSSES];

    for (size_t t = 0; t < LOSSES; t++)
        losses[t] = t < RISE ? 1 : 20;
    losses[NOT_YET] = 1000;
    losses[ALMOST] = 10;
    losses[SPIKE] = 10.01;
    losses[NOTHING] = (double)NAN;
    const size_t count = icl_landscape_find_spikes(losses, LOSSES, 10, medians, steps);
    tap_ok(tap, count == 51 && steps[0] == SPIKE && steps[1] == NOTHING && steps[2] == RISE && steps[50] == RISE + 48,
           "spikes are above 10 times the median, or no number (%zu)", count);
    tap_ok(tap,
           isnan(medians[ICL_SPIKE_MEMORY - 1]) && medians[ICL_SPIKE_MEMORY] == 1 && medians[RISE + 49] == 10.5 &&
               medians[RISE + 52] == 20,
           "the median of the 100 losses before, which the first 100 lack (%g)", medians[RISE + 49]);
    tap_ok(tap, icl_landscape_find_spikes(losses, SPIKE + 1, 10.1, medians, steps) == 0, "the factor is the caller's");
}

static void check_kinds(tap_run *tap) {
    static const struct {
        double batch_elsewhere, others_here;
        icl_spike_kind kind;
        const char *what;
    } rows[] = {
        {11, 1, ICL_SPIKE_OF_BATCH, "a batch that is hard elsewhere, too"},
        {1, 11, ICL_SPIKE_OF_PARAMETERS, "parameters that fail on another batch"},
        {11, 11, ICL_SPIKE_OF_BOTH, "both"},
        {10, 10, ICL_SPIKE_OF_NEITHER, "neither, at the threshold"},
        {(double)NAN, 1, ICL_SPIKE_OF_BATCH, "a batch without a finite loss"},
        {1, (double)INFINITY, ICL_SPIKE_OF_PARAMETERS, "parameters without a finite loss"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        tap_ok(tap, icl_landscape_spike_kind(rows[i].batch_elsewhere, rows[i].others_here) == rows[i].kind, "%s",
               rows[i].what);
}

/* ---- Models of the recipe ---- */

enum { D = ICL_LANDSCAPE_DIMENSION, WIDTH = D + 1, MOST = 4 * D * D, SEQUENCES = 200 };

typedef struct subject {
    icl_task *task;
    icl_model *model;
    icl_objective *objective;
    float values[MOST];
    double at[MOST];
} subject;

static void subject_release(subject *tested) {
    icl_objective_destroy(&tested->objective);
    icl_model_destroy(&tested->model);
    icl_task_destroy(&tested->task);
}

/* Creates the recipe's model with other settings, and its loss, at initial parameters. */
static icl_status subject_create(const char *settings, subject *tested, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    *tested = (subject){0};
    ICL_TRY(icl_reproduce_recipe("landscape", &recipe, error));
    ICL_TRY(icl_reproduce_override_all(recipe, settings, error));
    ICL_TRY(icl_task_create(recipe, &tested->task, error));
    ICL_TRY(icl_model_create(recipe, *icl_task_get_shape(tested->task), &tested->model, error));
    const icl_objective_params params = {
        .task = tested->task, .model = tested->model, .purpose = ICL_FOR_TRAINING, .sequences = SEQUENCES};
    ICL_TRY(icl_objective_create(&params, &tested->objective, error));
    ICL_TRY(icl_objective_draw(tested->objective, 3, 1, error));
    icl_model_initialize(tested->model, 3, tested->values);
    for (size_t i = 0; i < icl_model_size(tested->model); i++)
        tested->at[i] = (double)tested->values[i];
done:
    icl_recipe_destroy(&recipe);
    return status;
}

static void write_matrix(subject *tested, const char *name, const double matrix[D * D]) {
    for (size_t i = 0; i < icl_model_parameter_count(tested->model); i++) {
        const icl_parameter_info *info = icl_model_parameter(tested->model, i);
        if (strcmp(info->name, name) == 0)
            for (size_t k = 0; k < D * D; k++)
                tested->values[info->offset + k] = (float)matrix[k];
    }
}

/* ---- How far layers reach ---- */

/* Gives the five inputs sqrt(5) c_i e_i, so that S = diag(c^2). */
static void write_axes(const double c[D], float tokens[WIDTH * WIDTH]) {
    memset(tokens, 0, WIDTH * WIDTH * sizeof *tokens);
    for (size_t i = 0; i < D; i++)
        tokens[i * WIDTH + i] = (float)(sqrt(5) * c[i]);
}

static void expect_reach(tap_run *tap, const subject *tested, const float *tokens, double expected, const char *what) {
    double reach = 0;
    icl_error error = {0};

    tap_status(tap, icl_landscape_reach(tested->model, tested->values, tokens, D, &reach, &error), &error, what);
    tap_ok(tap, fabs(reach - expected) < 1e-5 * expected, "%s (%g)", what, reach);
}

static void check_reach(tap_run *tap) {
    const double c[D] = {.5, 1, 1.5, 2, 2.5}, even[D] = {2, 2, 2, 2, 2};
    double first[D * D] = {0}, second[D * D] = {0}, mover[D * D] = {0}, expected = 0;
    float tokens[WIDTH * WIDTH];
    icl_error error = {0};
    subject tested;

    if (!tap_status(tap, subject_create("task.n=5 model.layers=2", &tested, &error), &error, "two layers")) {
        subject_release(&tested);
        return;
    }
    for (size_t i = 0; i < D; i++) {
        first[i * WIDTH] = -.3;
        second[i * WIDTH] = -.5;
        mover[i * WIDTH] = .4;
    }
    write_axes(c, tokens);
    write_matrix(&tested, "layer.0.head.0.A", first);
    write_matrix(&tested, "layer.0.head.0.B", second);
    write_matrix(&tested, "layer.1.head.0.A", second);
    /* The first layer reaches .3 (2.5)^2 = 1.875. The second one sees S (1 + .15 S)^2. */
    expect_reach(tap, &tested, tokens, .5 * 6.25 * pow(1 + .5 * .3 * 6.25, 2), "a layer sees what the first one left");
    write_matrix(&tested, "layer.0.head.0.B", mover);
    for (size_t i = 0; i < D; i++)
        expected = fmax(expected, .5 * c[i] * c[i] * pow(1 - .4 * .3 * c[i] * c[i], 2));
    expect_reach(tap, &tested, tokens, fmax(expected, .3 * 6.25), "or the first one reaches farthest");
    first[0 * D + 1] = 5;
    first[1 * D + 0] = -5;
    write_matrix(&tested, "layer.0.head.0.B", (double[D * D]){0});
    write_matrix(&tested, "layer.0.head.0.A", first);
    write_matrix(&tested, "layer.1.head.0.A", (double[D * D]){0});
    expect_reach(tap, &tested, tokens, .3 * 6.25, "a part that turns does not count");
    first[1 * D + 0] = 5;
    write_matrix(&tested, "layer.0.head.0.A", first);
    write_axes(even, tokens);
    expect_reach(tap, &tested, tokens, 4 * 5.3, "-A has the eigenvalue .3 + 5");
    subject_release(&tested);
}

/* A = diag(-.1, -.3, 0, 0, 0) and B with the entry 2 at (0, 1): M = I + B S A has m = 2 S_11 (-.3) there, in no other
 * order of the three, and M S M^T the block (S_00 + m^2 S_11, m S_11; m S_11, S_11). */
static void check_order(tap_run *tap) {
    const double c[D] = {1, 2, .1, .1, .1}, m = 2 * 4 * -.3, trace = 1 + m * m * 4 + 4;
    const double first[D * D] = {[0] = -.1, [WIDTH] = -.3}, mover[D * D] = {[1] = 2};
    double second[D * D] = {0};
    float tokens[WIDTH * WIDTH];
    icl_error error = {0};
    subject tested;

    if (tap_status(tap, subject_create("task.n=5 model.layers=2", &tested, &error), &error, "two layers")) {
        for (size_t i = 0; i < D; i++)
            second[i * WIDTH] = -.5;
        write_axes(c, tokens);
        write_matrix(&tested, "layer.0.head.0.A", first);
        write_matrix(&tested, "layer.0.head.0.B", mover);
        write_matrix(&tested, "layer.1.head.0.A", second);
        /* The determinant is S_00 S_11 = 4. */
        expect_reach(tap, &tested, tokens, .5 * (trace + sqrt(trace * trace - 4 * 4)) / 2, "inputs move by B S A");
    }
    subject_release(&tested);
}

/* ---- Sharpness ---- */

/* Returns the largest eigenvalue of W^(1/2) H W^(1/2), and their least one. */
static double largest_of_whole(const subject *tested, const double *weights, double *least) {
    static double hessian[MOST * MOST], vectors[MOST * MOST];
    double eigenvalues[MOST], work[3 * MOST];
    const size_t size = icl_model_size(tested->model);
    icl_error error = {0};

    if (icl_hessian(tested->objective, tested->at, hessian, &error) != ICL_OK)
        return (double)NAN;
    for (size_t k = 0; k < size * size; k++)
        hessian[k] *= sqrt(weights[k / size] * weights[k % size]);
    if (!icl_symmetric_eigen(size, hessian, eigenvalues, vectors, work))
        return (double)NAN;
    *least = eigenvalues[0];
    return eigenvalues[size - 1];
}

/* A lower bound, by at most `gap`. is_saddle: the Hessian has an eigenvalue below minus the largest. */
static void check_sharpness(tap_run *tap, const char *settings, double gap, bool is_saddle) {
    double weights[MOST], largest = 0, least = 0;
    icl_error error = {0};
    subject tested;

    if (tap_status(tap, subject_create(settings, &tested, &error), &error, settings)) {
        for (size_t i = 0; i < icl_model_size(tested.model); i++)
            weights[i] = (1 + (double)(i % 3)) * (is_saddle ? 1 : .01);
        const double exact = largest_of_whole(&tested, weights, &least);
        tap_status(tap, icl_landscape_sharpness(tested.objective, tested.at, weights, &largest, &error), &error,
                   "sharpness");
        tap_ok(tap, largest < exact * (1 + 1e-6) && largest > exact * (1 - gap),
               "%s: the largest eigenvalue (%.6g, %.6g; least %.3g)", settings, largest, exact, least);
        tap_ok(tap, !is_saddle || least < -exact / 2, "and the least is %g", least);
    }
    subject_release(&tested);
}

/* ---- Pictures ---- */

enum { PIXELS = 64, ROW = PIXELS + 1, LINES = 4 };

/* Writes LINES lines of PIXELS numbers, the first of each `first`, and digits 0, 1, 2, ..., of which the last ends the
 * text. */
static void write_lines(char *text, size_t size, const char *first) {
    int length = 0;

    for (int line = 0; line < LINES; line++) {
        for (int i = 0; i < PIXELS; i++)
            length += snprintf(text + length, size - (size_t)length, "%s,", i == 0 ? first : "8");
        length += snprintf(text + length, size - (size_t)length, "%d%s", line, line + 1 < LINES ? "\r\n" : "");
    }
}

static void check_pictures(tap_run *tap) {
    static const char *const refused[] = {"17", "-1", "x", "", "1,1"};
    char text[LINES * 4 * ROW];
    float rows[(LINES + 1) * ROW];
    size_t count = 0;
    icl_error error = {0};

    write_lines(text, sizeof text, "16");
    tap_status(tap, icl_digits_parse(text, LINES, rows, &count, &error), &error, "pictures");
    tap_ok(tap, count == LINES && rows[ROW] == 1 && rows[ROW + 1] == 0 && rows[3 * ROW + PIXELS] == 3,
           "numbers from -1 to 1, and a digit");
    tap_ok(tap, icl_digits_parse(text, LINES - 1, rows, &count, &error) == ICL_ERROR_INPUT, "too many: %s",
           error.message);
    tap_ok(tap, icl_digits_parse("", LINES, rows, &count, &error) == ICL_ERROR_INPUT, "none: %s", error.message);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        write_lines(text, sizeof text, refused[i]);
        tap_ok(tap, icl_digits_parse(text, LINES, rows, &count, &error) == ICL_ERROR_INPUT, "'%s': %s", refused[i],
               error.message);
    }
}

int main(void) {
    tap_run tap = {0};

    for (size_t i = 0; i < CELLS; i++)
        check_recipe(&tap, i);
    check_names(&tap);
    check_finding(&tap);
    check_kinds(&tap);
    check_reach(&tap);
    check_order(&tap);
    check_sharpness(&tap, "model.layers=1 model.parameterization=sparse", 1e-4, false);
    check_sharpness(&tap, "model.layers=2", .01, false);
    check_pictures(&tap);
    return tap_done(&tap);
}
