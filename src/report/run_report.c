/* The report of a run: where it comes from, its curves, its final table, and passages of text. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/file.h"
#include "iclab/loss.h"
#include "iclab/recipe.h"
#include "iclab/run_report.h"
#include "iclab/task.h"
#include "iclab/text.h"
#include "numeric/statistics.h"
#include "report/curves.h"
#include "report/report.h"
#include "run/evaluation.h"
#include "run/metrics.h"
#include "run/writer.h"
#include "train/trainer.h"

/* ---- Passages ---- */

/* A window on the host. */
typedef struct window {
    icl_batch batch;                           /* of one sequence */
    float *inputs, *targets, *weights, *model; /* [T], [T], [T], [T, 256] */
    double *outputs;                           /* [256] */
} window;

static void window_release(window *w) {
    icl_batch_release(&w->batch);
    icl_free(&w->inputs);
    icl_free(&w->targets);
    icl_free(&w->weights);
    icl_free(&w->model);
    icl_free(&w->outputs);
}

static icl_status window_create(icl_trainer *trainer, window *w, icl_error *error) {
    const icl_task *task = icl_trainer_task(trainer);
    const icl_task_shape *shape = icl_task_get_shape(task);

    ICL_CHECK(icl_batch_create(task, trainer->backend, ICL_FOR_EVALUATION, 1, &w->batch, error));
    ICL_CHECK(icl_allocate(shape->positions, sizeof *w->inputs, "a window", &w->inputs, error));
    ICL_CHECK(icl_allocate(shape->positions, sizeof *w->targets, "a window", &w->targets, error));
    ICL_CHECK(icl_allocate(shape->positions, sizeof *w->weights, "a window", &w->weights, error));
    ICL_CHECK(icl_allocate(shape->outputs, sizeof *w->outputs, "outputs", &w->outputs, error));
    return icl_allocate(shape->positions, shape->outputs * sizeof *w->model, "predictions", &w->model, error);
}

/* Draws and predicts window `number`; *state goes on from window to window where the task carries it. */
static icl_status predict(icl_trainer *trainer, size_t number, icl_decoder **state, window *w, icl_error *error) {
    const icl_task *task = icl_trainer_task(trainer);

    ICL_CHECK(icl_task_sample(task, trainer->backend, ICL_FOR_EVALUATION, 0, number, &w->batch, error));
    ICL_CHECK(icl_tensor_read(w->batch.inputs, w->inputs, error));
    ICL_CHECK(icl_tensor_read(w->batch.targets, w->targets, error));
    ICL_CHECK(icl_tensor_read(w->batch.weights, w->weights, error));
    return icl_task_get_text(task)->carries ? icl_trainer_decode_on(trainer, &w->batch, state, w->model, error)
                                            : icl_trainer_predict(trainer, &w->batch, w->model, error);
}

static void keep(const icl_task_shape *shape, const window *w, char *bytes, double *bits) {
    bytes[0] = (char)(unsigned char)w->inputs[0]; /* A float above 127 has no value of type char. */
    bits[0] = (double)NAN;
    for (size_t t = 0; t < shape->positions; t++) {
        const double target = (double)w->targets[t];
        for (size_t k = 0; k < shape->outputs; k++)
            w->outputs[k] = (double)w->model[t * shape->outputs + k];
        bytes[t + 1] = (char)(unsigned char)target;
        bits[t + 1] =
            w->weights[t] > 0 ? icl_loss_of(shape->loss, shape->outputs, w->outputs, &target) / log(2) : (double)NAN;
    }
}

static icl_status read_windows(icl_trainer *trainer, size_t bytes, icl_passages *passages, icl_error *error) {
    const icl_task *task = icl_trainer_task(trainer);
    const icl_task_shape *shape = icl_task_get_shape(task);
    const size_t asked = bytes / shape->positions;
    icl_decoder *state = NULL;
    window w = {0};
    icl_status status = ICL_OK;

    passages->count = icl_sequences_available(task, asked > 0 ? asked : 1);
    passages->length = shape->positions + 1;
    ICL_TRY(icl_allocate(passages->count, passages->length, "passages", &passages->bytes, error));
    ICL_TRY(
        icl_allocate(passages->count, passages->length * sizeof *passages->bits, "their bits", &passages->bits, error));
    ICL_TRY(window_create(trainer, &w, error));
    for (size_t i = 0; i < passages->count; i++) {
        ICL_TRY(predict(trainer, i, &state, &w, error));
        keep(shape, &w, passages->bytes + i * passages->length, passages->bits + i * passages->length);
    }
done:
    icl_decoder_destroy(&state);
    window_release(&w);
    return status;
}

static icl_status write_text(icl_trainer *trainer, size_t count, char *bytes, icl_error *error) {
    icl_writer writer = {
        .sampler = {.temperature = 1, .top_p = 1, .keeps_utf8 = icl_task_get_text(icl_trainer_task(trainer))->is_utf8}};
    icl_status status = ICL_OK;

    ICL_TRY(
        icl_writer_open(icl_trainer_model(trainer), trainer->backend, icl_trainer_evaluated(trainer), &writer, error));
    for (const char *prompt = ICL_FIRST_PROMPT; *prompt; prompt++) {
        ICL_TRY(icl_writer_show(&writer, (unsigned char)*prompt, error));
        icl_sampler_take(&writer.sampler, (unsigned char)*prompt);
    }
    for (size_t i = 0; i < count; i++) {
        unsigned char byte;
        ICL_TRY(icl_writer_draw(&writer, ICL_WRITER_SEED, i, count, &byte, error));
        ICL_TRY(icl_writer_show(&writer, byte, error));
        bytes[i] = (char)byte;
    }
done:
    icl_writer_close(&writer);
    return status;
}

icl_status icl_passages_read(icl_trainer *trainer, size_t bytes, size_t count, icl_passages *passages,
                             icl_error *error) {
    ICL_CHECK(read_windows(trainer, bytes, passages, error));
    if (!icl_model_can(icl_trainer_model(trainer), ICL_MODEL_DECODES))
        return ICL_OK;
    ICL_CHECK(icl_allocate(count, 1, "new text", &passages->written, error));
    return write_text(trainer, count, passages->written, error);
}

#define LOSS_FIGURE     "loss"
#define ADJUSTED_FIGURE "adjusted"

/* ---- Pictures ---- */

static const icl_score *find_score(const icl_evaluation *evaluation, const char *predictor) {
    for (size_t i = 0; i < evaluation->count; i++)
        if (strcmp(evaluation->scores[i].predictor, predictor) == 0)
            return &evaluation->scores[i];
    return NULL;
}

/* Adds a predictor as a level line beside a training curve; adds nothing if its loss cannot be drawn. */
static icl_status add_level(icl_curves *curves, const icl_metrics *metrics, const char *predictor, double value,
                            icl_error *error) {
    if (!isfinite(value) || value <= 0)
        return ICL_OK;
    ICL_CHECK(icl_curves_begin(curves, ICL_SERIES_REFERENCE, error, "%s, at the end", predictor));
    ICL_CHECK(icl_curves_point(curves, metrics->steps[0], value, error));
    return icl_curves_point(curves, metrics->steps[metrics->count - 1], value, error);
}

static icl_status draw(const icl_drawing *drawing, icl_curves *curves, icl_error *error) {
    curves->figure.log_y = icl_curves_span_a_decade(curves);
    ICL_CHECK(icl_curves_fill(curves, error));
    return icl_figure_write(drawing, &curves->figure, error);
}

static const char *unit_of(const icl_evaluation *evaluation) {
    const icl_loss_kind kind = evaluation->scores[0].loss_kind;
    return kind == ICL_LOSS_SQUARED_ERROR ? "squared error (squares of y's unit)" : icl_loss_name(kind);
}

static bool has_oracle(const icl_evaluation *evaluation) {
    return !isnan(evaluation->scores[0].half_adjusted);
}

/* Finds the upper end of the picture, so that spikes leave room for what was learned: 1.2 times the untrained model's
 * loss, or twice the 95 % quantile of the curve if that is larger. 0 if nothing lies above. */
static icl_status find_top(const icl_metrics *metrics, double *top, icl_error *error) {
    const size_t count = metrics->count;
    icl_status status = ICL_OK;
    double *sorted = NULL, most = 0;
    size_t finite = 0;

    *top = 0;
    ICL_TRY(icl_allocate(count, sizeof *sorted, "losses", &sorted, error));
    for (size_t i = 0; i < count; i++)
        if (isfinite(metrics->median[i])) {
            sorted[finite++] = metrics->median[i];
            most = fmax(most, metrics->high[i]);
        }
    if (finite > 0) {
        const double first = sorted[0];
        icl_sort_ascending(sorted, finite);
        *top = fmax(1.2 * first, 2 * sorted[(finite - 1) * 19 / 20]);
    }
    if (*top >= most)
        *top = 0;
done:
    icl_free(&sorted);
    return status;
}

/* Adds the training loss of each point: its median, and behind it a band of the spread of its rows. */
static icl_status add_losses(icl_curves *curves, const icl_metrics *metrics, icl_error *error) {
    const size_t rows = metrics->rows_a_point;

    if (rows > 1)
        ICL_CHECK(icl_curves_begin(curves, ICL_SERIES_BAND, error,
                                   rows < 10 ? "least to largest of these steps" : "10 %% to 90 %% of these steps"));
    for (size_t i = 0; rows > 1 && i < metrics->count; i++)
        ICL_CHECK(icl_curves_measured(curves, metrics->steps[i], metrics->low[i], metrics->high[i], error));
    if (rows == 1)
        ICL_CHECK(icl_curves_begin(curves, ICL_SERIES_LINE, error, "training loss"));
    else
        ICL_CHECK(icl_curves_begin(curves, ICL_SERIES_LINE, error, "training loss, medians of %zu rows of metrics.csv",
                                   rows));
    for (size_t i = 0; i < metrics->count; i++)
        ICL_CHECK(icl_curves_point(curves, metrics->steps[i], metrics->median[i], error));
    return ICL_OK;
}

static icl_status draw_loss(const icl_run_report *run, const icl_drawing *drawing, const icl_metrics *metrics,
                            icl_error *error) {
    const icl_score *bayes = find_score(run->evaluation, "bayes");
    icl_curves curves =
        ICL_CURVES(.name = LOSS_FIGURE, .title = "Training", .x_label = "step", .y_label = unit_of(run->evaluation));
    icl_status status = ICL_OK;

    ICL_TRY(find_top(metrics, &curves.figure.most_y, error));
    ICL_TRY(add_losses(&curves, metrics, error));
    ICL_TRY(add_level(&curves, metrics, "the model on fresh sequences", run->evaluation->scores[0].mse, error));
    if (bayes)
        ICL_TRY(add_level(&curves, metrics, "bayes, the floor", bayes->mse, error));
    ICL_TRY(draw(drawing, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

static icl_status add_loss_picture(const icl_run_report *run, icl_report *report, const icl_metrics *metrics,
                                   icl_error *error) {
    icl_text caption = {0};
    icl_status status = ICL_OK;
    double top, most = 0;

    ICL_TRY(find_top(metrics, &top, error));
    for (size_t i = 0; i < metrics->count; i++)
        most = fmax(most, isfinite(metrics->high[i]) ? metrics->high[i] : 0);
    ICL_TRY(icl_text_print(&caption, error, "The training loss: that of the steps' own batches."));
    if (top > 0)
        ICL_TRY(icl_text_print(&caption, error, " Spikes up to %.3g lie above the picture.", most));
    ICL_TRY(icl_text_print(&caption, error, " Data: loss.csv; every step: metrics.csv."));
    ICL_TRY(icl_report_picture(report, run->folder, LOSS_FIGURE, caption.bytes, error));
done:
    icl_text_release(&caption);
    return status;
}

static icl_status draw_adjusted(const icl_run_report *run, const icl_drawing *drawing, const icl_metrics *metrics,
                                icl_error *error) {
    const icl_score *bayes = find_score(run->evaluation, "bayes");
    const icl_score *ridge = find_score(run->evaluation, "constrr");
    const bool is_adjusted = has_oracle(run->evaluation);
    icl_curves curves =
        ICL_CURVES(.name = ADJUSTED_FIGURE,
                   .title = is_adjusted ? "Half of the adjusted loss on the way" : "The loss on the way",
                   .x_label = "step",
                   .y_label = is_adjusted ? "half the squared distance to the oracle (squares of y's unit)"
                                          : unit_of(run->evaluation));
    icl_status status = ICL_OK;

    ICL_TRY(icl_curves_begin(&curves, ICL_SERIES_OURS, error, "the model, on the same few sequences every time"));
    for (size_t i = 0; i < metrics->evaluations; i++)
        ICL_TRY(icl_curves_point(&curves, metrics->evaluated_at[i], metrics->half_adjusted[i], error));
    if (ridge)
        ICL_TRY(add_level(&curves, metrics, "constrr", ridge->half_adjusted, error));
    if (bayes)
        ICL_TRY(add_level(&curves, metrics, "bayes, the floor", bayes->half_adjusted, error));
    ICL_TRY(draw(drawing, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

static icl_status add_pictures(const icl_run_report *run, icl_report *report, icl_error *error) {
    const icl_drawing drawing = {.folder = run->folder, .command = "iclab train", .draw = run->draw, .user = run->user};
    icl_metrics metrics;
    icl_status status = ICL_OK;

    ICL_TRY(icl_metrics_read(run->folder, &metrics, error));
    if (metrics.count > 0) {
        ICL_TRY(icl_report_section(report, "Training", error));
        ICL_TRY(draw_loss(run, &drawing, &metrics, error));
        ICL_TRY(add_loss_picture(run, report, &metrics, error));
    }
    if (metrics.evaluations > 0) {
        ICL_TRY(draw_adjusted(run, &drawing, &metrics, error));
        ICL_TRY(icl_report_picture(report, run->folder, ADJUSTED_FIGURE,
                                   "Evaluations during training, beside what the final table has. Data: "
                                   "adjusted.csv.",
                                   error));
    }
done:
    icl_metrics_release(&metrics);
    return status;
}

/* ---- The evaluation ---- */

/* Reads the numbers of a score under the names of their columns; a column without a number in any row is left out. */
typedef void read_columns(const icl_score *score, icl_metric columns[ICL_SCORE_COLUMNS]);

/* Reads the numbers of a task without an oracle. */
static void read_losses(const icl_score *score, icl_metric columns[ICL_SCORE_COLUMNS]) {
    const icl_metric losses[] = {{"bits_per_byte", score->bits_per_byte},
                                 {"se", score->bits_per_byte_se},
                                 {icl_loss_name(score->loss_kind), score->mse},
                                 {"se", score->se},
                                 {"minus_model", score->minus_model},
                                 {"se", score->minus_model_se},
                                 {"accuracy", score->accuracy}};
    enum { LOSSES = sizeof losses / sizeof *losses };

    for (size_t i = 0; i < ICL_SCORE_COLUMNS; i++)
        columns[i] = i < LOSSES ? losses[i] : (icl_metric){"", (double)NAN};
}

typedef struct score_table {
    read_columns *read;
    bool has_number[ICL_SCORE_COLUMNS], has_constants;
} score_table;

/* Finds the columns that have numbers: a single model has no difference to itself, and a sweep's cell keeps no
 * median. */
static void find_columns(const icl_evaluation *evaluation, score_table *table) {
    icl_metric columns[ICL_SCORE_COLUMNS];

    for (size_t i = 0; i < evaluation->count; i++) {
        table->read(&evaluation->scores[i], columns);
        for (size_t column = 0; column < ICL_SCORE_COLUMNS; column++)
            table->has_number[column] = table->has_number[column] || !isnan(columns[column].value);
        table->has_constants = table->has_constants || evaluation->scores[i].constants[0];
    }
}

static icl_status add_score(icl_report *report, const score_table *table, const icl_score *score, bool is_model,
                            icl_error *error) {
    icl_metric columns[ICL_SCORE_COLUMNS];
    char texts[ICL_SCORE_COLUMNS][16];
    const char *cells[ICL_SCORE_COLUMNS + 2] = {score->predictor};
    size_t count = 1;

    table->read(score, columns);
    for (size_t i = 0; i < ICL_SCORE_COLUMNS; i++)
        if (table->has_number[i])
            cells[count++] = icl_loss_text(columns[i].value, texts[i]);
    cells[count] = score->constants;
    return icl_report_table_row(report, is_model ? ICL_TONE_STRONG : ICL_TONE_PLAIN, cells, error);
}

static icl_status add_scores(const icl_evaluation *evaluation, read_columns *read, icl_report *report,
                             icl_error *error) {
    icl_report_column columns[ICL_SCORE_COLUMNS + 2] = {{"predictor", false}};
    icl_metric shown[ICL_SCORE_COLUMNS];
    score_table table = {.read = read};
    size_t count = 1;

    find_columns(evaluation, &table);
    read(&evaluation->scores[0], shown);
    for (size_t i = 0; i < ICL_SCORE_COLUMNS; i++)
        if (table.has_number[i])
            columns[count++] = (icl_report_column){shown[i].name, true};
    if (table.has_constants)
        columns[count++] = (icl_report_column){"fitted constants", false};
    ICL_CHECK(icl_report_table_begin(report, columns, count, error));
    for (size_t i = 0; i < evaluation->count; i++)
        ICL_CHECK(add_score(report, &table, &evaluation->scores[i], i == 0, error));
    return icl_report_table_end(report, error);
}

static const char legend_of_distances[] =
    "se is one standard error of the mean before it. half_adjusted: half the mean squared distance to the prediction "
    "of the oracle, ridge regression that knows sigma. half_minus_model: that less the model's, sequence by sequence. "
    "half_above_bayes: the same to the best prediction possible without knowing sigma. half_median and half_trimmed "
    "(without the largest 1 %) instead of the mean of half_adjusted show whether a few sequences carry it.";
static const char legend_of_losses[] =
    "minus_model: the mean less the model's, sequence by sequence; se is one standard "
    "error of the number before it.";

static icl_status add_evaluation(const icl_run_report *run, icl_report *report, icl_error *error) {
    const icl_evaluation *evaluation = run->evaluation;
    const bool is_alone = evaluation->count == 1;

    ICL_CHECK(icl_report_section(report, is_alone ? "On fresh sequences" : "Beside the reference predictors", error));
    ICL_CHECK(add_scores(evaluation, has_oracle(evaluation) ? icl_score_columns : read_losses, report, error));
    return icl_report_paragraph(report, has_oracle(evaluation) ? legend_of_distances : legend_of_losses, error);
}

/* ---- Text ---- */

/* The bytes of held-out text that are shown, and those that the model writes. */
enum { PASSAGE_BYTES = 1200, WRITTEN_BYTES = 400 };

/* Adds numbers that have the shades of as many bits. */
static icl_status add_shades(icl_report *report, icl_error *error) {
    static const char shades[] = "bits: 0 1 2 3 4 5 6 7 8 9";
    double bits[sizeof shades - 1];

    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
        bits[i] = shades[i] >= '0' && shades[i] <= '9' ? shades[i] - '0' : (double)NAN;
    return icl_report_passage(report, shades, bits, sizeof bits / sizeof *bits, error);
}

/* Adds the end of each window: what it scores stands there, and nothing behind it is text. */
static icl_status add_windows(const icl_passages *passages, icl_report *report, icl_error *error) {
    for (size_t i = 0; i < passages->count; i++) {
        const double *bits = passages->bits + i * passages->length;
        size_t end = passages->length;
        while (end > 0 && isnan(bits[end - 1]))
            end--;
        const size_t first = end > PASSAGE_BYTES ? end - PASSAGE_BYTES : 0;
        ICL_CHECK(icl_report_passage(report, passages->bytes + i * passages->length + first, bits + first, end - first,
                                     error));
    }
    return ICL_OK;
}

static icl_status add_written(const icl_passages *passages, icl_report *report, icl_error *error) {
    if (!passages->written)
        return ICL_OK;
    ICL_CHECK(icl_report_section(report, "What the model writes", error));
    ICL_CHECK(icl_report_passage(report, passages->written, NULL, WRITTEN_BYTES, error));
    return icl_report_paragraph(report, "Behind a line feed, as iclab generate draws it by default.", error);
}

static icl_status add_text(const icl_run_report *run, icl_report *report, icl_error *error) {
    icl_passages passages = {0};
    icl_status status = ICL_OK;

    if (!run->trainer || !icl_task_get_text(icl_trainer_task(run->trainer)))
        return ICL_OK;
    ICL_TRY(icl_passages_read(run->trainer, PASSAGE_BYTES, WRITTEN_BYTES, &passages, error));
    ICL_TRY(icl_report_section(report, "What held-out bytes cost", error));
    ICL_TRY(icl_report_paragraph(report,
                                 "Windows of the table, each by itself. The shade of a character is the bits that its "
                                 "bytes cost the model, -log2 of its probability; a character has them in its tooltip. "
                                 "Bytes without a shade are only shown to the model.",
                                 error));
    ICL_TRY(add_shades(report, error));
    ICL_TRY(add_windows(&passages, report, error));
    ICL_TRY(add_written(&passages, report, error));
done:
    icl_free(&passages.bytes);
    icl_free(&passages.bits);
    icl_free(&passages.written);
    return status;
}

/* ---- Where it comes from ---- */

static icl_status add_facts(const icl_run_report *run, icl_report *report, icl_error *error) {
    const icl_run_facts *facts = run->facts;
    char seed[16], steps[160], memory[32], took[96];

    snprintf(seed, sizeof seed, "%" PRIu32, facts->seed);
    icl_print(memory, sizeof memory, "%.1f MiB", facts->step_memory / 1048576.0);
    snprintf(steps, sizeof steps, "%" PRIu64 " (%" PRIu64 " skipped; %" PRIu64 " sequences left out)", facts->steps,
             facts->skipped_steps, facts->dropped_sequences);
    icl_print(took, sizeof took, "%.3g s, and %.3g s to its first step", facts->training_seconds,
              facts->startup_seconds);
    const icl_report_fact rows[] = {
        {"command", facts->command_line ? facts->command_line : ""},
        {"recipe", facts->recipe_name},
        {"seed", seed},
        {"steps", steps},
        {"a step holds", facts->step_memory > 0 ? memory : "not measured"},
        {"this command trained for", took},
    };
    return icl_report_provenance(
        report, &(icl_provenance){.facts = rows, .count = sizeof rows / sizeof *rows, .device = facts->device}, error);
}

/* Adds the keys that are not at their defaults, and then all keys. */
static icl_status add_recipe(const icl_run_report *run, icl_report *report, icl_error *error) {
    static const icl_report_column columns[] = {
        {"key", false}, {"value", false}, {"default", false}, {"meaning", false}};
    size_t count;
    const icl_recipe_key *keys = icl_recipe_keys(run->recipe, &count);
    char name[96], *text = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_report_section(report, "Recipe", error));
    ICL_TRY(icl_report_table_begin(report, columns, sizeof columns / sizeof *columns, error));
    for (size_t i = 0; i < count; i++) {
        const char *value = icl_recipe_value(run->recipe, keys[i].section, keys[i].name);
        snprintf(name, sizeof name, "%s.%s", keys[i].section, keys[i].name);
        const char *const cells[] = {name, value, keys[i].default_value, keys[i].help ? keys[i].help : ""};
        if (strcmp(value, keys[i].default_value) != 0)
            ICL_TRY(icl_report_table_row(report, ICL_TONE_PLAIN, cells, error));
    }
    ICL_TRY(icl_report_table_end(report, error));
    ICL_TRY(icl_recipe_write(run->recipe, &text, error));
    ICL_TRY(icl_report_listing(report, "The whole recipe: trains this very run again", text, error));
done:
    icl_free(&text);
    return status;
}

/* ---- The whole ---- */

/* Writes "On 100000 fresh sequences the model's half adjusted loss is 0.0534 ± 0.0003; bayes, the floor, has
 * 0.0502."; of text, "The model takes 2.0534 ± 0.0103 bits per byte: …". */
static icl_status write_lead(const icl_run_report *run, icl_text *lead, icl_error *error) {
    const icl_score *model = &run->evaluation->scores[0], *bayes = find_score(run->evaluation, "bayes");
    const bool is_adjusted = has_oracle(run->evaluation);
    const char *name =
        model->loss_kind == ICL_LOSS_SQUARED_ERROR ? "mean squared error" : icl_loss_name(model->loss_kind);
    char loss[16], spread[16], floor_loss[16];

    if (!isnan(model->bits_per_byte))
        return icl_text_print(lead, error, "The model takes %s \u00b1 %s bits per byte%s%s.",
                              icl_loss_text(model->bits_per_byte, loss), icl_loss_text(model->bits_per_byte_se, spread),
                              *run->evaluation->text ? ": " : "", run->evaluation->text);
    ICL_CHECK(icl_text_print(lead, error, "On %" PRIu64 " fresh sequences the model's %s is %s \u00b1 %s",
                             run->evaluation->sequences, is_adjusted ? "half_adjusted" : name,
                             icl_loss_text(is_adjusted ? model->half_adjusted : model->mse, loss),
                             icl_loss_text(is_adjusted ? model->half_adjusted_se : model->se, spread)));
    if (bayes && is_adjusted)
        ICL_CHECK(icl_text_print(lead, error, "; bayes, the floor for any predictor that is not told sigma, has %s",
                                 icl_loss_text(bayes->half_adjusted, floor_loss)));
    return icl_text_print(lead, error, ".");
}

icl_status icl_run_report_write(const icl_run_report *run, icl_error *error) {
    icl_report *report = NULL;
    icl_text lead = {0}, title = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_report_create(&report, error));
    ICL_TRY(add_evaluation(run, report, error));
    ICL_TRY(add_pictures(run, report, error));
    ICL_TRY(add_text(run, report, error));
    ICL_TRY(add_facts(run, report, error));
    ICL_TRY(add_recipe(run, report, error));
    ICL_TRY(write_lead(run, &lead, error));
    ICL_TRY(icl_text_print(&title, error, "%s, seed %" PRIu32 ", %" PRIu64 " steps",
                           icl_path_name(run->facts->recipe_name), run->facts->seed, run->facts->steps));
    ICL_TRY(icl_report_write(report, title.bytes, lead.bytes, run->folder, error));
done:
    icl_text_release(&title);
    icl_text_release(&lead);
    icl_report_destroy(&report);
    return status;
}
