/* Reads the output of an inspection of a sequence model back by heading and name: every number stands under its own
 * heading in inspect.csv, inspect.md and report.html, and in the pictures. */
#include "iclab/evaluate.h"
#include "probe/activations.h"
#include "probe/linearity.h"
#include "probe/states.h"
#include "shown.h"

enum { T = 7, WATCHED = 16, WIDTH = 8, STREAM = 32 * WIDTH / T + 1, LAYERS = 3, HEADS = 2 };

/* The layers have gates and write strengths; gates of each channel; and attention. */
static const char *const settings[] = {"task.family=state",
                                       "task.rule=parity",
                                       "task.shortest=6",
                                       "task.longest=6",
                                       "model.family=sequence",
                                       "model.layers=3",
                                       "model.heads=2",
                                       "model.mixer=gated-delta,gla,softmax",
                                       "model.width=8",
                                       "model.key_width=2",
                                       "train.batch=1",
                                       "eval.every=0",
                                       "eval.predictors=uniform",
                                       "eval.seed=53",
                                       "model.feed_forward=none",
                                       "model.write_strength=2",
                                       NULL};
static const char *const nothing[] = {NULL};

/* The sequences that an inspection watches. */
typedef struct watched {
    icl_tensor parameters;
    icl_batch few, many;
} watched;

static icl_status draw(fixture *f, watched *sequences, icl_error *error) {
    const icl_task *task = icl_trainer_task(f->trainer);
    const size_t size = icl_model_size(icl_trainer_model(f->trainer)), counts[] = {WATCHED, STREAM};
    icl_batch *const batches[] = {&sequences->few, &sequences->many};

    ICL_CHECK(icl_tensor_create(f->backend, 1, &size, &sequences->parameters, error));
    ICL_CHECK(icl_tensor_write(sequences->parameters, f->values, error));
    for (size_t i = 0; i < 2; i++) {
        ICL_CHECK(icl_batch_create(task, f->backend, ICL_FOR_EVALUATION, counts[i], batches[i], error));
        ICL_CHECK(icl_task_sample(task, f->backend, ICL_FOR_EVALUATION, 53, 0, batches[i], error));
    }
    return ICL_OK;
}

/* ---- States ---- */

static int ascending(const void *a, const void *b) {
    const double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

static double quantile(const double *sorted, size_t count, double share) {
    const double at = share * (double)(count - 1), rest = at - floor(at);
    const size_t below = (size_t)at, above = below + 1 < count ? below + 1 : below;
    return (1 - rest) * sorted[below] + rest * sorted[above];
}

typedef struct mean_error {
    double mean, error;
} mean_error;

static mean_error mean_of(const double *values, size_t count) {
    double sum = 0, squares = 0;

    for (size_t i = 0; i < count; i++)
        sum += values[i] / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += (values[i] - sum) * (values[i] - sum);
    return (mean_error){sum, sqrt(squares / (double)(count - 1) / (double)count)};
}

/* Numbers that sum up a head's states, computed anew. */
typedef struct state_numbers {
    mean_error gate, strength, written, negative, effective, numeric, norm;
    double quantiles[3], least, largest;
} state_numbers;

static state_numbers sum_up(const icl_state_trace *trace, size_t head) {
    enum { MOST = WATCHED * T * 8 };
    static double gates[MOST], strength[MOST], written[MOST], negative[MOST], ranks[3][WATCHED];
    state_numbers sums = {.least = HUGE_VAL, .largest = -HUGE_VAL};
    size_t gate = 0, write = 0;

    for (size_t b = 0; b < WATCHED; b++) {
        const size_t first = (b * HEADS + head) * T;
        for (size_t i = 0; i < T * trace->writes * trace->channels; i++)
            gates[gate++] = trace->gates[first * trace->writes * trace->channels + i];
        for (size_t i = 0; i < T * trace->writes; i++, write++) {
            const icl_state_write *done = &trace->of[first * trace->writes + i];
            strength[write] = done->strength;
            written[write] = done->written;
            negative[write] = done->least < -0x1p-20;
            sums.least = fmin(sums.least, done->least);
            sums.largest = fmax(sums.largest, done->largest);
        }
        ranks[0][b] = trace->ranks[first + T - 1].effective;
        ranks[1][b] = trace->ranks[first + T - 1].numeric;
        ranks[2][b] = trace->ranks[first + T - 1].norm;
    }
    sums.gate = mean_of(gates, gate);
    sums.strength = mean_of(strength, write);
    sums.written = mean_of(written, write);
    sums.negative = mean_of(negative, write);
    sums.effective = mean_of(ranks[0], WATCHED);
    sums.numeric = mean_of(ranks[1], WATCHED);
    sums.norm = mean_of(ranks[2], WATCHED);
    qsort(gates, gate, sizeof *gates, ascending);
    for (size_t i = 0; i < 3; i++)
        sums.quantiles[i] = quantile(gates, gate, i == 0 ? .1 : i == 1 ? .5 : .9);
    return sums;
}

static void check_state(tap_run *tap, const shown_documents *read, const icl_state_trace *trace, size_t head,
                        const shown_table *writes, const shown_table *states) {
    const state_numbers sums = sum_up(trace, head);
    const double strength = trace->has_beta ? sums.strength.mean : (double)NAN;
    const size_t layer = trace->layer + 1;
    char what[32], row[64], text[32];

    snprintf(what, sizeof what, "head %zu", head + 1);
    snprintf(row, sizeof row, "%zu, %s|%s", layer, trace->mixer, what);
    shown_found(tap, read, layer, what, "gate: mean", sums.gate.mean, 0);
    shown_found(tap, read, layer, what, "gate: 10 % quantile", sums.quantiles[0], 0);
    shown_found(tap, read, layer, what, "gate: median", sums.quantiles[1], 0);
    shown_found(tap, read, layer, what, "gate: 90 % quantile", sums.quantiles[2], 0);
    if (trace->has_beta)
        shown_found(tap, read, layer, what, "write strength: mean", strength, 0);
    shown_found(tap, read, layer, what, "written: mean norm", sums.written.mean, 0);
    shown_found(tap, read, layer, what, "eigenvalue: least", sums.least, 0);
    shown_found(tap, read, layer, what, "eigenvalue: largest", sums.largest, 0);
    shown_found(tap, read, layer, what, "share of writes with a negative eigenvalue", sums.negative.mean, 0);
    shown_found(tap, read, layer, what, "effective rank at the end", sums.effective.mean, sums.effective.error);
    shown_found(tap, read, layer, what, "numeric rank at the end", sums.numeric.mean, sums.numeric.error);
    shown_found(tap, read, layer, what, "norm of the state at the end", sums.norm.mean, sums.norm.error);
    shown_is_measured(tap, writes, row, "gate, mean", sums.gate.mean, 0);
    shown_is_measured(tap, writes, row, "10 %", sums.quantiles[0], 0);
    shown_is_measured(tap, writes, row, "median", sums.quantiles[1], 0);
    shown_is_measured(tap, writes, row, "90 %", sums.quantiles[2], 0);
    shown_is_measured(tap, writes, row, "write strength", strength, 0);
    shown_is_measured(tap, writes, row, "written", sums.written.mean, 0);
    shown_is_measured(tap, states, row, "least eigenvalue", sums.least, 0);
    shown_is_measured(tap, states, row, "largest", sums.largest, 0);
    snprintf(text, sizeof text, "%.3g %%", 100 * sums.negative.mean);
    shown_is(tap, states, row, "below 0", text);
    shown_is_measured(tap, states, row, "effective rank", sums.effective.mean, sums.effective.error);
    shown_is_measured(tap, states, row, "numeric rank", sums.numeric.mean, sums.numeric.error);
    shown_is(tap, states, row, "at most", "2");
}

/* Checks a row of a map, for each token of the first sequence. NaN: the map has no such row. */
static void check_map(tap_run *tap, const fixture *f, const char *name, const char *row, const double values[T]) {
    shown_figure *figure = shown_figure_read(f->out.folder, name);
    const shown_map *map = shown_map_of(figure, "the first sequence");
    bool same = figure && strcmp(figure->x_label, "token, from the first position on") == 0;

    for (size_t t = 0; t < T; t++)
        same = same && shown_same(shown_at(map, row, t), values[t]);
    tap_ok(tap, same, "the map of %s: %s", name, row);
    shown_figure_free(&figure);
}

/* The first two layers write once for each token. */
static void check_state_pictures(tap_run *tap, const fixture *f, const icl_state_trace *trace, size_t head) {
    double forgotten[T], strength[T], written[T], least[T];
    shown_figure *ranks = shown_figure_read(f->out.folder, "ranks");
    char row[64];

    snprintf(row, sizeof row, "layer %zu, head %zu", trace->layer + 1, head + 1);
    for (size_t t = 0; t < T; t++) {
        const icl_state_write *done = &trace->of[head * T + t];
        const double *gates = trace->gates + (head * T + t) * trace->channels;
        double effective = 0;
        forgotten[t] = 1 - mean_of(gates, trace->channels).mean;
        strength[t] = trace->has_beta ? done->strength : (double)NAN;
        written[t] = trace->has_beta ? (double)NAN : done->written;
        least[t] = trace->is_delta ? done->least : (double)NAN;
        for (size_t b = 0; b < WATCHED; b++)
            effective += trace->ranks[(b * HEADS + head) * T + t].effective / WATCHED;
        tap_ok(tap, fabs(shown_y(ranks, row, (double)t) / effective - 1) < 1e-12, "the rank of %s at %zu", row, t);
    }
    shown_axes_are(tap, ranks, "position", "effective rank");
    check_map(tap, f, "gates", row, forgotten);
    check_map(tap, f, "strengths", row, strength);
    check_map(tap, f, "written", row, written);
    check_map(tap, f, "eigenvalues", row, least);
    shown_figure_free(&ranks);
}

static icl_status check_states(tap_run *tap, const fixture *f, const shown_documents *read, const watched *watch,
                               icl_error *error) {
    static const char section[] = "States: gates, writes, transitions, ranks";
    shown_table writes = shown_section(tap, read, section, "gate, mean");
    shown_table states = shown_section(tap, read, section, "least eigenvalue");
    icl_state_traces all = {0};
    icl_status status = icl_state_traces_measure(icl_trainer_model(f->trainer), f->backend, watch->parameters,
                                                 watch->few.inputs, &all, error);

    tap_ok(tap, all.count == 2 && writes.rows == 1 + 2 * HEADS && states.rows == writes.rows, "two layers with states");
    for (size_t i = 0; i < all.count; i++)
        for (size_t head = 0; head < HEADS; head++) {
            check_state(tap, read, &all.traces[i], head, &writes, &states);
            check_state_pictures(tap, f, &all.traces[i], head);
        }
    icl_state_traces_release(&all);
    shown_table_release(&writes);
    shown_table_release(&states);
    return status;
}

/* ---- Attention ---- */

static void check_head(tap_run *tap, const shown_documents *read, const icl_attention_map *map, size_t head,
                       const shown_table *table) {
    const double queries = (double)(map->sequences * map->queries);
    double entropy = 0, largest = 0, itself = 0, before = 0, distance = 0;
    char what[32], row[64];

    for (size_t b = 0; b < map->sequences; b++)
        for (size_t i = 0; i < map->queries; i++) {
            const size_t at = map->keys - map->queries + i;
            double most = 0;
            for (size_t j = 0; j <= at; j++) {
                const double weight = icl_attention_weight(map, b, head, i, j);
                entropy -= weight > 0 ? weight * log(weight) / queries : 0;
                distance += weight * (double)(at - j) / queries;
                most = fmax(most, weight);
            }
            largest += most / queries;
            itself += icl_attention_weight(map, b, head, i, at) / queries;
            before += at > 0 ? icl_attention_weight(map, b, head, i, at - 1) / queries : 0;
        }
    const struct {
        const char *heading, *quantity;
        double value;
    } numbers[] = {{"keys in effect", "attention: effective number of keys", exp(entropy)},
                   {"largest weight", "attention: largest weight", largest},
                   {"on itself", "attention: weight of its own position", itself},
                   {"on the one before", "attention: weight of the position before", before},
                   {"distance", "attention: mean distance in positions", distance}};
    snprintf(what, sizeof what, "head %zu", head + 1);
    snprintf(row, sizeof row, "%zu, softmax|%s", map->layer + 1, what);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        shown_found(tap, read, map->layer + 1, what, numbers[i].quantity, numbers[i].value, 0);
        shown_is_measured(tap, table, row, numbers[i].heading, numbers[i].value, 0);
    }
}

static icl_status check_attention(tap_run *tap, const fixture *f, const shown_documents *read, const watched *watch,
                                  icl_error *error) {
    shown_table table = shown_section(tap, read, "Attention: where softmax layers look", NULL);
    shown_figure *figure = shown_figure_read(f->out.folder, "attention");
    icl_attention_maps all = {0};
    icl_status status = icl_attention_maps_measure(icl_trainer_model(f->trainer), f->backend, watch->parameters,
                                                   watch->few.inputs, &all, error);

    tap_ok(tap, all.count == 1 && table.rows == 1 + HEADS, "one layer of attention");
    shown_axes_are(tap, figure, "key, from the first position on", "query, the last one below");
    for (size_t head = 0; head < HEADS && all.count == 1; head++) {
        const icl_attention_map *map = &all.maps[0];
        char label[64];
        check_head(tap, read, map, head, &table);
        snprintf(label, sizeof label, "layer %d, head %zu", LAYERS, head + 1);
        tap_ok(tap,
               shown_matrix_is(figure, label, map->queries, map->keys, map->weights + head * map->queries * map->keys),
               "the map of %s", label);
    }
    icl_attention_maps_release(&all);
    shown_figure_free(&figure);
    shown_table_release(&table);
    return status;
}

/* ---- Linearity ---- */

static icl_status check_linearity(tap_run *tap, const fixture *f, const shown_documents *read, const watched *watch,
                                  icl_error *error) {
    shown_table table = shown_section(tap, read, "How linear the layers are", NULL);
    icl_residual_stream stream = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_residual_stream_read(icl_trainer_model(f->trainer), f->backend, watch->parameters, watch->many.inputs,
                                     &stream, error));
    for (size_t layer = 1; layer <= LAYERS; layer++) {
        const float *y = icl_residual_stream_stage(&stream, layer);
        icl_linearity linearity;
        double anisotropy;
        char row[16];
        snprintf(row, sizeof row, "%zu", layer);
        ICL_TRY(icl_linearity_measure(stream.tokens, stream.width, icl_residual_stream_stage(&stream, layer - 1), y,
                                      &linearity, error));
        ICL_TRY(icl_anisotropy(stream.tokens, stream.width, y, &anisotropy, error));
        shown_found(tap, read, layer, "residual stream", "linearity", linearity.score, 0);
        shown_found(tap, read, layer, "residual stream", "linearity of what it adds", linearity.update_score, 0);
        shown_found(tap, read, layer, "residual stream", "rank of what it reads", (double)linearity.rank, 0);
        shown_found(tap, read, layer, "residual stream", "anisotropy behind it", anisotropy, 0);
        shown_is_measured(tap, &table, row, "linearity", linearity.score, 0);
        shown_is_measured(tap, &table, row, "of what it adds", linearity.update_score, 0);
        shown_is_measured(tap, &table, row, "rank of what it reads", (double)linearity.rank, 0);
        shown_is_measured(tap, &table, row, "anisotropy behind it", anisotropy, 0);
    }
done:
    icl_residual_stream_release(&stream);
    shown_table_release(&table);
    return status;
}

/* ---- Losses ---- */

static void check_predictor(tap_run *tap, const shown_documents *read, const icl_score *score, const shown_table *table,
                            const shown_figure *figure) {
    const size_t last = score->position_count - 1, shown[] = {0, last / 2, last};
    char text[64];

    shown_found(tap, read, 0, score->predictor, "cross-entropy", score->mse, score->se);
    shown_found(tap, read, 0, score->predictor, "accuracy", score->accuracy, 0);
    shown_is_measured(tap, table, score->predictor, "cross-entropy", score->mse, score->se);
    shown_is_measured(tap, table, score->predictor, "accuracy", score->accuracy, 0);
    for (size_t i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "at position %zu", score->positions[shown[i]].position);
        shown_is_measured(tap, table, score->predictor, text, score->positions[shown[i]].loss, 0);
    }
    for (size_t i = 0; i <= last; i++) {
        const icl_position_score *at = &score->positions[i];
        snprintf(text, sizeof text, "cross-entropy at position %zu", at->position);
        shown_found(tap, read, 0, score->predictor, text, at->loss, at->se);
        snprintf(text, sizeof text, "accuracy at position %zu", at->position);
        shown_found(tap, read, 0, score->predictor, text, at->accuracy, 0);
        tap_ok(tap, shown_y(figure, score->predictor, (double)at->position) == at->loss, "the curve of %s at %zu",
               score->predictor, at->position);
    }
}

/* Checks the model's loss, and that of the best of the others. */
static void check_summary(tap_run *tap, const fixture *f, const icl_evaluation *evaluation) {
    const icl_score *model = &evaluation->scores[0], *best = &evaluation->scores[1];
    char words[256];

    for (size_t i = 2; i < evaluation->count; i++)
        best = evaluation->scores[i].mse < best->mse ? &evaluation->scores[i] : best;
    snprintf(words, sizeof words,
             "Its cross-entropy is %.4g (accuracy %.4g); that of the best reference predictor, %s, is %.4g.",
             model->mse, model->accuracy, best->predictor, best->mse);
    const size_t length = strlen(f->summary), end = strlen(words);
    tap_ok(tap, length > end && strcmp(f->summary + length - end, words) == 0, "the summary ends: %s", words);
}

static icl_status check_losses(tap_run *tap, fixture *f, const shown_documents *read, icl_error *error) {
    shown_table table = shown_section(tap, read, "Losses beside the reference predictors", NULL);
    shown_figure *figure = shown_figure_read(f->out.folder, "positions");
    icl_evaluation *evaluation = NULL;
    char count[64];
    icl_status status;

    snprintf(count, sizeof count, "eval.sequences=%d", SEQUENCES);
    ICL_TRY(icl_recipe_override(f->recipe, count, error));
    ICL_TRY(icl_recipe_override(f->recipe, "eval.predictors=all", error));
    ICL_TRY(icl_evaluate(f->backend, f->trainer, f->recipe, &evaluation, error));
    tap_ok(tap, evaluation->count > 2 && table.rows == 1 + evaluation->count, "%zu predictors", evaluation->count);
    shown_axes_are(tap, figure, "position", "cross-entropy");
    for (size_t i = 0; i < evaluation->count; i++)
        check_predictor(tap, read, &evaluation->scores[i], &table, figure);
    check_summary(tap, f, evaluation);
done:
    icl_evaluation_destroy(&evaluation);
    shown_figure_free(&figure);
    shown_table_release(&table);
    return status;
}

/* Inspects a model of these settings, whose parameters are all different. */
static icl_status open_inspected(fixture *f, const char *const *overrides, watched *watch, shown_documents *read,
                                 icl_error *error) {
    ICL_CHECK(open_fixture(f, settings, overrides, error));
    set_parameters(f, .5F, 0, WIDTH);
    ICL_CHECK(inspect(f, error));
    ICL_CHECK(draw(f, watch, error));
    *read = shown_documents_read(f);
    return ICL_OK;
}

static void close_inspected(fixture *f, watched *watch, shown_documents *read) {
    shown_documents_release(read);
    icl_tensor_release(&watch->parameters);
    icl_batch_release(&watch->few);
    icl_batch_release(&watch->many);
    close_fixture(f);
}

static void test_layers(tap_run *tap) {
    watched with = {0};
    shown_documents read = {0};
    fixture f = {0};
    icl_error error = {0};
    icl_status status;

    ICL_TRY(open_inspected(&f, nothing, &with, &read, &error));
    shown_report_is(tap, &f, &read);
    ICL_TRY(check_states(tap, &f, &read, &with, &error));
    ICL_TRY(check_attention(tap, &f, &read, &with, &error));
    ICL_TRY(check_linearity(tap, &f, &read, &with, &error));
    ICL_TRY(check_losses(tap, &f, &read, &error));
done:
    tap_status(tap, status, &error, "three layers, inspected");
    close_inspected(&f, &with, &read);
}

/* Tests a layer that runs twice, with two writes of each token: each of them has a row of its own. */
static void test_loops(tap_run *tap) {
    static const char *const looped[] = {"model.layers=1", "model.loops=2", "model.mixer=delta-product", NULL};
    enum { LOOPS = 2, WRITES = 2 };
    watched with = {0};
    shown_documents read = {0};
    icl_state_traces all = {0};
    icl_residual_stream stream = {0};
    fixture f = {0};
    icl_error error = {0};
    icl_status status;

    ICL_TRY(open_inspected(&f, looped, &with, &read, &error));
    const icl_model *model = icl_trainer_model(f.trainer);
    ICL_TRY(icl_state_traces_measure(model, f.backend, with.parameters, with.few.inputs, &all, &error));
    ICL_TRY(icl_residual_stream_read(model, f.backend, with.parameters, with.many.inputs, &stream, &error));
    tap_ok(tap, all.count == LOOPS && all.traces[0].writes == WRITES, "two loops of two writes");
    shown_table table = shown_section(tap, &read, "How linear the layers are", NULL);
    for (size_t loop = 0; loop < all.count; loop++) {
        char row[64], what[32];
        icl_linearity linearity;
        for (size_t i = 0; i < (size_t)HEADS * WRITES; i++) {
            double strength[T];
            for (size_t t = 0; t < T; t++)
                strength[t] = all.traces[loop].of[(i / WRITES * T + t) * WRITES + i % WRITES].strength;
            snprintf(row, sizeof row, "layer 1, loop %zu, head %zu, write %zu", loop + 1, i / WRITES + 1,
                     i % WRITES + 1);
            check_map(tap, &f, "strengths", row, strength);
        }
        ICL_TRY(icl_linearity_measure(stream.tokens, stream.width, icl_residual_stream_stage(&stream, loop),
                                      icl_residual_stream_stage(&stream, loop + 1), &linearity, &error));
        snprintf(row, sizeof row, "1, loop %zu", loop + 1);
        snprintf(what, sizeof what, "loop %zu", loop + 1);
        shown_found(tap, &read, 1, what, "linearity", linearity.score, 0);
        shown_is_measured(tap, &table, row, "linearity", linearity.score, 0);
    }
    shown_table_release(&table);
done:
    tap_status(tap, status, &error, "a layer that runs twice, inspected");
    icl_state_traces_release(&all);
    icl_residual_stream_release(&stream);
    close_inspected(&f, &with, &read);
}

int main(void) {
    tap_run tap = {0};

    test_layers(&tap);
    test_loops(&tap);
    return tap_done(&tap);
}
