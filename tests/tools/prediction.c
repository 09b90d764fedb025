/* Tests what iclab predict says of a model beside regressions, and that its files hold each predictor under its own
 * name. */
#include "prediction.h"

#include <math.h>

#include "../core/scratch.h"
#include "captured.h"
#include "shown_figure.h"
#include "tap.h"

enum { ROWS = 4, FRESH = 2, COLUMNS = 2 };

static double table_values[ROWS * COLUMNS] = {0.5, 10, 1.5, 20, 2.5, 30, 3.5, 40};
static size_t table_lines[ROWS] = {2, 3, 4, 5}, rows[ROWS] = {0, 1, 2, 3}, lines[FRESH] = {7, 9}, numbers[] = {1, 2};
static char feature[] = "x", target[] = "y", name[] = "data.csv";
static char *names[COLUMNS] = {feature, target};
static const icl_table table = {.name = name,
                                .separator = ',',
                                .has_header = true,
                                .rows = ROWS,
                                .columns = COLUMNS,
                                .values = table_values,
                                .lines = table_lines,
                                .names = names,
                                .numbers = numbers};

/* Predictor i predicts 100 i + r for row r of the table, and 1000 i + r for new row r. */
static double heldout[ROWS * ICL_PREDICTORS], squares[ROWS * ICL_PREDICTORS], predictions[FRESH * ICL_PREDICTORS];
static double means[COLUMNS] = {2, 25}, deviations[COLUMNS] = {1, 11};

static icl_predict_outcome make_outcome(void) {
    icl_predict_outcome outcome = {.features = 1,
                                   .dimension = 3,
                                   .trained_context = 8,
                                   .labelled = ROWS,
                                   .folds = 2,
                                   .repeats = 1,
                                   .context = 4,
                                   .prompts = 1,
                                   .label_scale = 1,
                                   .rows = rows,
                                   .heldout = heldout,
                                   .squares = squares,
                                   .predicted = FRESH,
                                   .lines = lines,
                                   .predictions = predictions};

    outcome.standardization.means = means;
    outcome.standardization.deviations = deviations;
    for (size_t i = 0; i < ICL_TABLE_PREDICTORS; i++) {
        for (size_t row = 0; row < ROWS; row++)
            heldout[row * ICL_PREDICTORS + i] = (double)(100 * i + row);
        for (size_t row = 0; row < FRESH; row++)
            predictions[row * ICL_PREDICTORS + i] = (double)(1000 * i + row);
        outcome.scores[i] = (icl_predict_score){.mse = 1, .se = 0.1, .r_squared = 0.5};
    }
    return outcome;
}

static const char *print(const icl_predict_outcome *outcome) {
    static char text[8192];
    const prediction_print of = {.outcome = outcome, .table = &table, .seed = 1};
    captured to = capture_begin(stdout);

    (void)print_prediction(&of, NULL);
    capture_end(&to, text, sizeof text);
    return text;
}

/* Tests the verdict on four references with these differences from the model, each with a standard error of 1. */
static void test_verdict(tap_run *tap) {
    static const struct {
        double minus_model[ICL_REFERENCE_LAST_VALUE]; /* mean, ols, ridge, adarr */
        const char *sentence;
    } cases[] = {
        {{3, -3, 0, 0}, "the model is better than mean; worse than ols; not clearly different from ridge, adarr\n"},
        {{-3, 3, 3, -3}, "the model is better than ols, ridge; worse than mean, adarr\n"},
        {{2, -2, 2, -2}, "the model is not clearly different from mean, ols, ridge, adarr\n"},
        {{2.001, -2.001, 2, -2},
         "the model is better than mean; worse than ols; not clearly different from ridge, "
         "adarr\n"},
        {{9, 9, 9, 9}, "the model is better than mean, ols, ridge, adarr\n"},
        {{-9, -9, -9, -9}, "the model is worse than mean, ols, ridge, adarr\n"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        icl_predict_outcome outcome = make_outcome();
        for (size_t k = 0; k < ICL_REFERENCE_LAST_VALUE; k++) {
            outcome.scores[1 + k].minus_model = cases[i].minus_model[k];
            outcome.scores[1 + k].minus_model_se = 1;
        }
        const char *text = strstr(print(&outcome), "\nthe model is ");
        tap_ok(tap, text && strncmp(text + 1, cases[i].sentence, strlen(cases[i].sentence)) == 0, "%.*s",
               text ? (int)strcspn(text + 1, "\n") : 0, text ? text + 1 : "");
    }
}

/* Advice is given only if it is due: for more than twice the rows of training, and for predictions that are not
 * finite. */
static void test_advice(tap_run *tap) {
    icl_predict_outcome outcome = make_outcome();

    outcome.context = 2 * outcome.trained_context;
    tap_ok(tap, !strstr(print(&outcome), "would trust so many more"), "twice the rows of training: nothing is said");
    outcome.context++;
    tap_ok(tap, strstr(print(&outcome), "one trained with task.n = 17 would trust so many more") != NULL,
           "one more: how to train for them");
    tap_ok(tap, !strstr(print(&outcome), "not finite"), "all predictions are finite");
    outcome.not_finite = 1;
    tap_ok(tap, strstr(print(&outcome), "1 of the model's predictions are not finite") != NULL, "or one is not");
}

/* A component that is left out is named by its columns, unless one of these is constant or rows are too few. */
static void test_left_out(tap_run *tap, icl_predict_outcome *outcome, const icl_table *wide) {
    icl_standardization *z = &outcome->standardization;
    icl_text notes = {0};
    icl_error error = {0};

    z->eigenvalues[0] = 0;
    z->rank = 1;
    tap_ok(tap,
           icl_predict_notes(outcome, wide, &notes, &error) == ICL_OK && notes.bytes &&
               strcmp(notes.bytes, "columns cm, inch nearly determine each other: what they differ by is left out of "
                                   "what is learned\n") == 0,
           "a component that is left out: %s", notes.bytes ? notes.bytes : "");
    icl_text_release(&notes);
    z->rows = 2;
    tap_ok(tap, icl_predict_notes(outcome, wide, &notes, &error) == ICL_OK && notes.length == 0,
           "with as many columns as rows nothing is said");
    z->rows = 3;
    z->deviations[1] = 0;
    tap_ok(tap,
           icl_predict_notes(outcome, wide, &notes, &error) == ICL_OK && notes.bytes &&
               strncmp(notes.bytes, "column inch is left out", 23) == 0 && !strstr(notes.bytes, "determine"),
           "one that is constant");
    icl_text_release(&notes);
}

static void test_warnings(tap_run *tap) {
    static double eigenvalues[] = {1e-6, 1}, vectors[] = {.8, -.6, .6, .8}, two_deviations[] = {1, 1, 11};
    static char first[] = "cm", second[] = "inch";
    char *two_names[] = {first, second, target};
    icl_predict_outcome outcome = make_outcome();
    icl_predict_score *mean = &outcome.scores[1];
    icl_table wide = table;
    icl_text notes = {0};
    icl_error error = {0};

    tap_ok(tap, icl_predict_notes(&outcome, &table, &notes, &error) == ICL_OK && notes.length == 0, "nothing to say");
    *mean = (icl_predict_score){.minus_model = -2, .minus_model_se = 1};
    outcome.scores[0].r_squared = -.5;
    tap_ok(tap, !strstr(print(&outcome), "above that of the mean"), "worse than the mean, not clearly");
    mean->minus_model = -2.001;
    tap_ok(tap, strstr(print(&outcome), "above that of the mean of the labels (r_squared -0.5)") != NULL, "or clearly");
    predictions[0] = -20; /* labels from 10 to 40 */
    predictions[ICL_PREDICTORS] = 70;
    tap_ok(tap, !strstr(print(&outcome), "far outside"), "as far outside the labels as these span");
    predictions[0] = -20.001;
    tap_ok(tap, strstr(print(&outcome), "1 of the model's 2 predictions for new rows lie far outside") != NULL,
           "farther");
    predictions[ICL_PREDICTORS] = (double)NAN;
    tap_ok(tap, strstr(print(&outcome), "1 of the model's 2 predictions for new rows lie far outside") != NULL,
           "one that is no number is another matter");
    outcome = make_outcome();
    wide.names = two_names;
    outcome.standardization = (icl_standardization){.features = 2,
                                                    .rows = 3,
                                                    .rank = 2,
                                                    .means = means,
                                                    .deviations = two_deviations,
                                                    .eigenvalues = eigenvalues,
                                                    .eigenvectors = vectors};
    tap_ok(tap, icl_predict_notes(&outcome, &wide, &notes, &error) == ICL_OK && notes.length == 0,
           "columns that share all but a millionth of their variance");
    eigenvalues[0] = .99e-6;
    tap_ok(tap,
           icl_predict_notes(&outcome, &wide, &notes, &error) == ICL_OK &&
               strncmp(notes.bytes, "columns cm, inch nearly determine each other", 44) == 0,
           "or more: %s", notes.bytes ? notes.bytes : "");
    icl_text_release(&notes);
    test_left_out(tap, &outcome, &wide);
}

/* ---- Files ---- */

static void read_file(scratch_folder *scratch, const char *file, char *text, size_t size) {
    FILE *stream = fopen(scratch_path(scratch, file), "rb");

    text[stream ? fread(text, 1, size - 1, stream) : 0] = '\0';
    if (stream)
        fclose(stream);
}

/* The picture shows predictions of the model and of ols over the true values, and the line of equality. */
static void test_picture(tap_run *tap, scratch_folder *scratch) {
    shown_figure *figure = shown_figure_read(scratch->folder, "predicted");

    shown_axes_are(tap, figure, "y, as it is", "y, predicted from other rows");
    for (size_t row = 0; row < ROWS; row++) {
        const double truth = table_values[row * COLUMNS + 1];
        tap_ok(tap,
               shown_y(figure, "model", truth) == heldout[row * ICL_PREDICTORS] &&
                   shown_y(figure, "ols", truth) == heldout[row * ICL_PREDICTORS + 2],
               "the picture's points at %g", truth);
    }
    tap_ok(tap, shown_y(figure, "equal", 10) == 10 && shown_y(figure, "equal", 40) == 40, "and its line of equality");
    shown_figure_free(&figure);
}

static void test_files(tap_run *tap, scratch_folder *scratch) {
    const icl_predict_outcome outcome = make_outcome();
    const prediction_print of = {.outcome = &outcome, .table = &table, .seed = 1};
    const icl_capabilities device = {.spec = "cpu", .name = "a processor"};
    char text[4096];
    bool is_undrawn = false;
    icl_error error = {0};

    tap_status(tap, write_prediction(&of, scratch->folder, "run", &device, &is_undrawn, &error), &error, "files");
    tap_ok(tap, is_undrawn, "without gnuplot nothing is drawn, and the caller knows");
    read_file(scratch, "heldout.csv", text, sizeof text);
    tap_ok(tap,
           strcmp(text, "line,target,model,mean,ols,ridge,adarr\n2,10,0,100,200,300,400\n3,20,1,101,201,301,401\n"
                        "4,30,2,102,202,302,402\n5,40,3,103,203,303,403\n") == 0,
           "heldout.csv: every predictor in its column");
    read_file(scratch, "predictions.csv", text, sizeof text);
    tap_ok(tap,
           strcmp(text, "line,model,mean,ols,ridge,adarr\n7,0,1000,2000,3000,4000\n9,1,1001,2001,3001,4001\n") == 0,
           "predictions.csv, too");
    test_picture(tap, scratch);
}

int main(void) {
    tap_run tap = {0};
    scratch_folder scratch;

    (void)setenv("PATH", "/nowhere", 1); /* no gnuplot */
    scratch_open(&scratch);
    test_verdict(&tap);
    test_advice(&tap);
    test_warnings(&tap);
    test_files(&tap, &scratch);
    scratch_close(&scratch);
    return tap_done(&tap);
}
