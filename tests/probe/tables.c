/* Reads the output of an inspection of a linear transformer back by heading and name: every number stands under its own
 * heading in inspect.csv, inspect.md and report.html, and in the pictures. */
#include "baseline/predictors.h"
#include "probe/descent.h"
#include "probe/linear_layers.h"
#include "shown.h"

enum { D = 3, LAYERS = 2, HEADS = 2 };

static const char *const linear[] = {"task.d=3",
                                     "task.n=8",
                                     "task.noise=fixed:1",
                                     "task.covariance=spectrum:1,2,4",
                                     "model.layers=2",
                                     "model.heads=2",
                                     "model.parameterization=full",
                                     "train.batch=1",
                                     "train.growth=0",
                                     "train.seed=59",
                                     "eval.every=0",
                                     "eval.seed=53",
                                     NULL};
static const char *const nothing[] = {NULL};

/* ---- Weights ---- */

typedef struct layer_number {
    const char *heading, *what, *quantity; /* heading: NULL: only in inspect.csv */
    double value;
} layer_number;

enum { LAYER_NUMBERS = 14 };

static void measure_layer(const icl_inspection *run, const icl_linear_layers *layers, size_t layer,
                          layer_number numbers[LAYER_NUMBERS]) {
    static const char diagonal[] = "diagonal: w_xx, w_xy, w_yx, w_yy", coefficient[] = "n times the coefficient",
                      distance[] = "distance from the pattern", step[] = "A of the gradient step";
    const icl_linear_patterns patterns = icl_linear_layers_patterns(layers, layer);
    double terms[ICL_LINEAR_TERMS], matrices[2 * D * D];
    const icl_inspect_step A = icl_inspect_measure_step(run, layers, layer, matrices);

    icl_linear_layers_terms(layers, layer, terms);
    const layer_number all[LAYER_NUMBERS] = {
        {"n w_xx", "w_xx", coefficient, terms[ICL_TERM_XX]},
        {"n w_xy", "w_xy", coefficient, terms[ICL_TERM_XY]},
        {"n w_yx", "w_yx", coefficient, terms[ICL_TERM_YX]},
        {"n w_yy", "w_yy", coefficient, terms[ICL_TERM_YY]},
        {"explained", diagonal, "share of the squared entries that they explain",
         1 - patterns.diagonal * patterns.diagonal},
        {"diagonal", diagonal, distance, patterns.diagonal},
        {"GD++", "GD++: w_xx, w_yx", distance, patterns.gdpp},
        {"GD", "gradient descent: w_yx", distance, patterns.descent},
        {"sparse", "sparse: P = [0 0; 0 1], Q = [A 0; 0 0]", distance, patterns.sparse},
        {"sparse-b", "sparse-b: P = [B 0; 0 1], Q = [A 0; 0 0]", distance, patterns.sparse_b},
        {"Dist(A, I)", step, "Dist(A, I)", A.distance},
        {"Dist(R^T A R, I)", step, "Dist(R^T A R, I)", A.whitened},
        {NULL, step, "n times the nearest multiple of I", A.multiple},
        {NULL, step, "n times the nearest multiple of I of R^T A R", A.whitened_multiple},
    };
    memcpy(numbers, all, sizeof all);
}

static void check_layer(tap_run *tap, const shown_documents *read, const shown_table *table, size_t layer,
                        const icl_inspection *run, const icl_linear_layers *layers) {
    layer_number numbers[LAYER_NUMBERS];
    char row[16];

    snprintf(row, sizeof row, "%zu", layer);
    measure_layer(run, layers, layer - 1, numbers);
    for (size_t i = 0; i < LAYER_NUMBERS; i++) {
        shown_found(tap, read, layer, numbers[i].what, numbers[i].quantity, numbers[i].value, 0);
        if (numbers[i].heading)
            shown_is_measured(tap, table, row, numbers[i].heading, numbers[i].value, 0);
    }
}

/* Says whether the map of P or Q is the model's own matrix, up to the scale that P and Q may exchange. */
static bool is_parameter(const fixture *f, const shown_figure *figure, const char *label, const char *parameter) {
    const icl_model *model = icl_trainer_model(f->trainer);
    const shown_map *map = shown_map_of(figure, label);
    const float *values = NULL;
    double product = 0, own = 0, drawn = 0;

    for (size_t i = 0; i < icl_model_parameter_count(model); i++)
        if (strcmp(icl_model_parameter(model, i)->name, parameter) == 0)
            values = f->values + icl_model_parameter(model, i)->offset;
    for (size_t i = 0; map && values && i < (D + 1) * (D + 1); i++) {
        const double value = strtod(map->values.cells[i / (D + 1) * SHOWN_COLUMNS + i % (D + 1)], NULL);
        product += value * (double)values[i];
        own += (double)values[i] * (double)values[i];
        drawn += value * value;
    }
    return fabs(product) > (1 - 1e-6) * sqrt(own * drawn) && own > 0;
}

static void check_weights(tap_run *tap, const fixture *f, const shown_documents *read, const icl_inspection *run,
                          const icl_linear_layers *layers) {
    static const char *const parts[] = {"P", "Q"};
    shown_table table = shown_section(tap, read, "Weights", "n w_xx");
    shown_figure *figure = shown_figure_read(f->out.folder, "weights");

    for (size_t layer = 1; layer <= LAYERS; layer++) {
        check_layer(tap, read, &table, layer, run, layers);
        for (size_t head = 1; head <= HEADS; head++)
            for (int part = 0; part < 2; part++) {
                char label[64], parameter[64];
                snprintf(label, sizeof label, "%s, layer %zu, head %zu", parts[part], layer, head);
                snprintf(parameter, sizeof parameter, "layer.%zu.head.%zu.%s", layer - 1, head - 1, parts[part]);
                tap_ok(tap, is_parameter(f, figure, label, parameter), "the map of %s is %s", label, parameter);
            }
    }
    shown_figure_free(&figure);
    shown_table_release(&table);
}

/* ---- Terms ---- */

static void check_effect(tap_run *tap, const shown_documents *read, const shown_table *table, const char *row,
                         const char *moved, const char *rises, size_t layer, const char *what,
                         const icl_inspect_effect *effect) {
    static const char *const quantities[ICL_JUDGES] = {"pruned: squared error above the model's",
                                                       "pruned: median of the squared error's rise",
                                                       "pruned: trimmed mean of the squared error's rise"};
    const char *const headings[ICL_JUDGES] = {rises, "its median", "trimmed mean"};

    shown_found(tap, read, layer, what, "pruned: predictions move by, relative", effect->moved, 0);
    shown_is_measured(tap, table, row, moved, effect->moved, 0);
    for (size_t judge = 0; judge < ICL_JUDGES; judge++) {
        const icl_location *cost = &effect->costs[judge];
        shown_found(tap, read, layer, what, quantities[judge], cost->value, cost->standard_error);
        shown_is_measured(tap, table, row, headings[judge], cost->value, cost->standard_error);
    }
}

/* The table has only the terms that do something: the last layer's terms of x do nothing. */
static void check_parts(tap_run *tap, const shown_documents *read, const icl_linear_layers *layers,
                        const icl_inspect_effects *effects) {
    static const char *const parts[ICL_PRUNE_PER_LAYER] = {
        "w_xx", "w_xy", "w_yx", "w_yy", "all of the layer", "all but the four numbers"};
    shown_table table = shown_section(tap, read, "What each term does", "pruned");

    for (size_t layer = 1; layer <= LAYERS; layer++)
        for (size_t part = layer == LAYERS ? ICL_TERM_YX : 0; part < ICL_PRUNE_PER_LAYER; part++) {
            double terms[ICL_LINEAR_TERMS];
            char row[64];
            snprintf(row, sizeof row, "%zu|%s", layer, parts[part]);
            check_effect(tap, read, &table, row, "pruned: predictions move by", "pruned: loss rises by", layer,
                         parts[part], &effects->of[(layer - 1) * ICL_PRUNE_PER_LAYER + part]);
            if (part >= ICL_LINEAR_TERMS)
                continue;
            const double change = effects->typical[(layer - 1) * ICL_LINEAR_TERMS + part];
            icl_linear_layers_terms(layers, layer - 1, terms);
            shown_is_measured(tap, &table, row, "n times coefficient", terms[part], 0);
            shown_is_measured(tap, &table, row, "moves the context by", change, 0);
            shown_found(tap, read, layer, parts[part], "median change of the context, relative", change, 0);
        }
    shown_table_release(&table);
}

/* The summary says in words how much the loss rises in simpler models with the same weights. */
static void check_details(tap_run *tap, const fixture *f, const icl_inspect_effects *effects) {
    static const char *const names[ICL_PRUNE_PER_MODEL] = {
        "the four numbers of every layer", "GD++ with its own constants", "gradient descent with its own steps"};

    for (size_t i = 0; i < ICL_PRUNE_PER_MODEL; i++) {
        const icl_location *rise = &effects->of[LAYERS * ICL_PRUNE_PER_LAYER + i].costs[ICL_JUDGE_MEAN];
        char words[256];
        snprintf(words, sizeof words, " Pruned to %s, its squared error of %.4g rises by %.4g +- %.2g", names[i],
                 effects->losses[ICL_JUDGE_MEAN].value, rise->value, rise->standard_error);
        tap_ok(tap, strstr(f->summary, words) != NULL, "%s", words);
    }
}

static void check_whole(tap_run *tap, const shown_documents *read, const icl_inspect_effects *effects) {
    static const char *const names[ICL_PRUNE_PER_MODEL] = {"the four numbers of every layer alone",
                                                           "of these w_xx and w_yx: GD++ with its own constants",
                                                           "of these w_yx: gradient descent with its own steps"};
    static const char *const losses[ICL_JUDGES] = {"squared error", "median squared error",
                                                   "trimmed mean of the squared error"};
    shown_table table = shown_section(tap, read, "What each term does", "pruned to");
    char sentence[256], text[3][64];

    for (size_t i = 0; i < ICL_PRUNE_PER_MODEL; i++)
        check_effect(tap, read, &table, names[i], "predictions move by", "loss rises by", 0, names[i],
                     &effects->of[LAYERS * ICL_PRUNE_PER_LAYER + i]);
    for (size_t judge = 0; judge < ICL_JUDGES; judge++) {
        const icl_location *loss = &effects->losses[judge];
        shown_found(tap, read, 0, "model", losses[judge], loss->value, loss->standard_error);
        snprintf(text[judge], sizeof text[judge], "%.4g +- %.2g", loss->value, loss->standard_error);
    }
    shown_found(tap, read, 0, "model", "device's predictions against the layers taken apart, relative",
                effects->residual / effects->size, 0);
    snprintf(sentence, sizeof sentence, "The model's squared error is %s, its median %s, its trimmed mean %s.", text[0],
             text[1], text[2]);
    tap_ok(tap, strstr(read->markdown, sentence) && strstr(read->html, "its trimmed mean"), "%s", sentence);
    shown_table_release(&table);
}

static void check_terms(tap_run *tap, const fixture *f, const shown_documents *read, const icl_linear_layers *layers,
                        const icl_inspect_effects *effects) {
    static const char *const parts[ICL_PRUNE_PER_LAYER] = {"w_xx", "w_xy", "w_yx", "w_yy", "layer", "rest"};
    shown_figure *figure = shown_figure_read(f->out.folder, "prunings");

    check_parts(tap, read, layers, effects);
    check_whole(tap, read, effects);
    check_details(tap, f, effects);
    shown_axes_are(tap, figure, "taken away", "layer");
    tap_ok(tap, figure && strcmp(figure->value_label, "power of ten, 3 at most") == 0, "what its colours are");
    for (size_t i = 0; i < LAYERS * (size_t)ICL_PRUNE_PER_LAYER; i++) {
        char layer[16];
        snprintf(layer, sizeof layer, "%zu", i / ICL_PRUNE_PER_LAYER + 1);
        tap_ok(tap,
               shown_value(figure, "", layer, parts[i % ICL_PRUNE_PER_LAYER]) ==
                   icl_ablation_power(effects->of[i].moved),
               "the map of layer %s without %s", layer, parts[i % ICL_PRUNE_PER_LAYER]);
    }
    shown_figure_free(&figure);
}

/* Checks a layer's formula and its words, which inspect.csv has too. */
static void check_formulas(tap_run *tap, const fixture *f, const shown_documents *read) {
    shown_table table = shown_section(tap, read, "The algorithm, layer by layer", "formula");

    for (size_t layer = 1; layer <= LAYERS; layer++) {
        const found *formula = find(f, layer, "formula", "");
        char row[16];
        snprintf(row, sizeof row, "%zu", layer);
        shown_is(tap, &table, row, "formula", formula ? formula->quantity : "");
        const char *words = shown_cell(&table, row, "in words");
        tap_ok(tap, formula && words && strncmp(words, formula->note, sizeof formula->note - 1) == 0,
               "the words of layer %s", row);
    }
    shown_table_release(&table);
}

/* ---- Algorithms ---- */

typedef struct algorithm {
    double distance[SEQUENCES], error[SEQUENCES], weights[SEQUENCES * D];
} algorithm;

/* Compares a predictor without constants with the model, whose implied weights are [SEQUENCES][D]. */
static icl_status measure(const icl_inspection *run, const icl_inspect_sample *sample, const char *name,
                          const double *model, algorithm *measured, icl_error *error) {
    icl_predictors *predictors = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_predictors_imitate(
        run->task, NULL, name,
        &(icl_imitation){.count = sample->count, .tokens = sample->tokens, .predictions = sample->predictions},
        &predictors, error));
    ICL_TRY(icl_predictors_weights(predictors, sample->count, sample->tokens, sample->noise, measured->weights, error));
    for (size_t i = 0; i < sample->count; i++) {
        const float *query = icl_inspect_query(run, sample, i);
        const double prediction = icl_inspect_product(measured->weights + i * D, query, D);
        const double miss = prediction - icl_inspect_product(model + i * D, query, D);
        measured->distance[i] = miss * miss;
        measured->error[i] = (prediction - (double)sample->targets[i]) * (prediction - (double)sample->targets[i]);
    }
done:
    icl_predictors_destroy(&predictors);
    return status;
}

static void check_algorithm(tap_run *tap, const shown_documents *read, const icl_inspection *run,
                            const icl_inspect_sample *sample, const char *name, const char *words) {
    algorithm *measured = calloc(1, sizeof *measured);
    shown_table table = shown_section(tap, read, "The nearest classical algorithm", "algorithm");
    icl_error error = {0};
    double size = 0;

    if (tap_status(tap, measure(run, sample, name, sample->weights, measured, &error), &error, name)) {
        const double distance = icl_mean(measured->distance, SEQUENCES), loss = icl_mean(measured->error, SEQUENCES);
        const double spread = icl_standard_error(measured->distance, SEQUENCES);
        const double loss_spread = icl_standard_error(measured->error, SEQUENCES);
        for (size_t i = 0; i < SEQUENCES; i++)
            size +=
                pow(icl_inspect_product(sample->weights + i * D, icl_inspect_query(run, sample, i), D), 2) / SEQUENCES;
        const double cosine =
            icl_align(D, run->n, SEQUENCES, sample->tokens, sample->weights, measured->weights).cosine;
        shown_found(tap, read, 0, name, "mean squared distance to the model's predictions", distance, spread);
        shown_found(tap, read, 0, name, "share of the predictions' mean square", distance / size, spread / size);
        shown_found(tap, read, 0, name, "cosine of sensitivities", cosine, 0);
        shown_found(tap, read, 0, name, "its own squared error", loss, loss_spread);
        shown_is_measured(tap, &table, words, "distance to the model", distance, spread);
        shown_is_measured(tap, &table, words, "share", distance / size, 0);
        shown_is_measured(tap, &table, words, "cosine of sensitivities", cosine, 0);
        shown_is_measured(tap, &table, words, "its own loss", loss, loss_spread);
    }
    shown_table_release(&table);
    free(measured);
}

/* The constants of the nearest algorithm are in the table, in the note of each of its numbers, and in the summary. */
static void check_constants(tap_run *tap, const fixture *f, const shown_documents *read, const shown_table *table,
                            const char *words) {
    const found *nearest = find(f, 0, "nearest algorithm", "");
    const char *constants = shown_cell(table, words, "fitted constants");
    char row[128], text[1024];

    snprintf(row, sizeof row, "0|%s|its own squared error", nearest ? nearest->quantity : "");
    snprintf(text, sizeof text, "%s (%s): predictions", words, constants ? constants : "");
    tap_ok(tap, constants && constants[0] && strstr(f->summary, text), "%s", text);
    shown_is(tap, &read->numbers, row, "note", constants ? constants : "");
}

/* Checks the picture of the model's predictions over those of the nearest algorithm. */
static void check_nearest(tap_run *tap, const fixture *f, const shown_documents *read, const icl_inspection *run,
                          const icl_inspect_sample *sample) {
    shown_table table = shown_section(tap, read, "The nearest classical algorithm", "algorithm");
    shown_figure *figure = shown_figure_read(f->out.folder, "nearest");
    const shown_series *points = shown_curve(figure, "model"), *equal = shown_curve(figure, "equal");
    double worst = 0, apart = 0, distance = 0, size = 0;
    char words[128];

    shown_is(tap, &table, figure ? figure->x_label : "", "(tone)", "strong");
    check_constants(tap, f, read, &table, figure ? figure->x_label : "");
    tap_ok(tap, figure && strcmp(figure->y_label, "model") == 0 && points->count > 100, "points of the model");
    for (size_t i = 0; i < points->count; i++) {
        const double own = icl_inspect_product(sample->weights + i * D, icl_inspect_query(run, sample, i), D);
        worst = fmax(worst, fabs(points->y[i] - own));
        apart = fmax(apart, fabs(points->x[i] - own));
        distance += pow(points->x[i] - own, 2);
        size += own * own;
    }
    snprintf(words, sizeof words, ": predictions differ by %.2g of their size (root mean squares).",
             sqrt(distance / size));
    tap_ok(tap, points->count == SEQUENCES && strstr(f->summary, words), "%s", words);
    tap_ok(tap, fabs(shown_number(&read->numbers, "0|nearest algorithm", "value") * size / distance - 1) < 1e-12,
           "inspect.csv has the share of the mean square");
    tap_ok(tap, worst < 1e-12 && apart > 1e-3, "stand as high as it predicts: %g, and elsewhere along x: %g", worst,
           apart);
    tap_ok(tap, equal->count == 2 && equal->x[0] == equal->y[0] && equal->x[1] == equal->y[1], "a line of equality");
    shown_figure_free(&figure);
    shown_table_release(&table);
}

/* ---- The document ---- */

static void check_document(tap_run *tap, const fixture *f, const shown_documents *read) {
    const icl_capabilities *device = icl_backend_capabilities(f->backend);
    shown_table facts = shown_facts(read->html);
    char text[SHOWN_CELL], line[512];

    shown_report_is(tap, f, read);
    shown_is(tap, &facts, "run", "value", f->run.folder);
    shown_is(tap, &facts, "seed of the evaluation sequences", "value", "53");
    snprintf(line, sizeof line, "Device %s (%s), evaluation sequences of seed 53.", device->spec, device->name);
    tap_ok(tap, strstr(read->markdown, line) != NULL, "%s", line);
    snprintf(line, sizeof line, "# What %s computes\n\n%s\n", f->run.folder, f->summary);
    tap_ok(tap, strncmp(read->markdown, line, strlen(line)) == 0, "a title and the result");
    tap_ok(tap, strcmp(shown_element(read->html, "<p class=\"lead\">", text), f->summary) == 0, "%s", text);
    shown_table_release(&facts);
}

/* Tests a row in bold, in which an empty cell stays empty. */
static void test_row(tap_run *tap) {
    static const icl_report_column columns[] = {{"number", true}, {"empty", false}, {"words", false}};
    icl_inspection run = {0};
    icl_error error = {0};
    icl_status status;

    ICL_TRY(icl_report_create(&run.report, &error));
    ICL_TRY(icl_inspect_table_begin(&run, columns, 3, &error));
    ICL_TRY(icl_inspect_table_row(&run, ICL_TONE_STRONG, (const char *const[]){"1.5", "", "a b"}, &error));
    ICL_TRY(icl_inspect_table_row(&run, ICL_TONE_PLAIN, (const char *const[]){"2.5", "", "c"}, &error));
    ICL_TRY(icl_inspect_table_end(&run, &error));
    tap_ok(tap,
           strcmp(run.markdown.bytes, "| number | empty | words |\n| ---: | --- | --- |\n| **1.5** |  | **a b** |\n"
                                      "| 2.5 |  | c |\n\n") == 0,
           "a table in Markdown");
done:
    tap_status(tap, status, &error, "a table");
    icl_report_destroy(&run.report);
    icl_text_release(&run.markdown);
}

static void test_linear(tap_run *tap) {
    icl_inspect_params params = {0};
    icl_inspect_sample sample = {0};
    icl_inspect_effects effects = {0};
    icl_linear_layers *layers = NULL;
    shown_documents read = {0};
    fixture f = {0};
    icl_error error = {0};
    icl_status status;

    ICL_TRY(open_fixture(&f, linear, nothing, &error));
    set_parameters(&f, .05F, -.1F, D + 1);
    ICL_TRY(inspect(&f, &error));
    params.backend = f.backend;
    icl_inspection run = shown_truth(&f, &params);
    ICL_TRY(icl_linear_layers_create(run.model, run.d, run.n, f.values, &layers, &error));
    ICL_TRY(icl_inspect_draw(&run, ICL_INSPECT_MEASURE, SEQUENCES, &sample, &error));
    ICL_TRY(icl_inspect_prune(&run, &sample, &effects, &error));
    read = shown_documents_read(&f);
    check_weights(tap, &f, &read, &run, layers);
    check_terms(tap, &f, &read, layers, &effects);
    check_formulas(tap, &f, &read);
    check_algorithm(tap, &read, &run, &sample, "ols", "least squares");
    check_algorithm(tap, &read, &run, &sample, "bayes", "the Bayes-optimal predictor");
    check_nearest(tap, &f, &read, &run, &sample);
    check_document(tap, &f, &read);
done:
    tap_status(tap, status, &error, "two layers of two heads, inspected");
    shown_documents_release(&read);
    icl_inspect_effects_release(&effects);
    icl_inspect_sample_release(&sample);
    icl_linear_layers_destroy(&layers);
    close_fixture(&f);
}

int main(void) {
    tap_run tap = {0};

    test_row(&tap);
    test_linear(&tap);
    return tap_done(&tap);
}
