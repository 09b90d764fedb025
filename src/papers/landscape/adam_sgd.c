/*
 * Loss curves of Adam and of SGD with momentum (arXiv 2310.01082, section 3): shallow linear transformers show the gap
 * between the two that deep ones are known for, and it grows with depth.
 *
 * Losses are measured on fresh sequences that are the same for all runs. The gap is judged by means without the largest
 * 1 %: with heavy-tailed inputs, or a short context, a few sequences dominate a plain mean, at times by orders of
 * magnitude. Levels are judged by plain means, which the authors' curves show.
 *
 * Linear and softmax attention, and at scale full both optimizers in every setting, have the best of five learning
 * rates, by the trimmed loss of one more seed after 500 steps (full: 2000).
 *
 * Why softmax attention falls behind: a pair (-x, y) tells as much of the target at the query x as the pair (x, -y),
 * and weights of softmax have no sign. Predictions of both kinds are linear in the labels, so that a pair's part is
 * what a prediction gains if its label goes from 0 to 1. Least squares, which is exact here, has it at h, the leverage
 * x^T (sum of x_j x_j^T)^-1 x, for a pair at x, and at -h for one at -x. With softmax every layer adds positive
 * multiples of labels to labels, and the prediction is minus the query's: no part is above 0.
 */
#include <inttypes.h>
#include <math.h>

#include "numeric/matrix.h"
#include "numeric/statistics.h"
#include "papers/landscape/landscape.h"
#include "papers/papers.h"
#include "train/settings.h"

enum { ADAM = ICL_LANDSCAPE_ADAM, SGD = ICL_LANDSCAPE_SGD };
enum { MOST_SEEDS = ICL_LANDSCAPE_SEEDS, EVERY = ICL_LANDSCAPE_EVERY, MOST_POINTS = 41 };

#define TRIMMED_SHARE .01

static const size_t sequences[ICL_SCALES] = {4000, 10000, 100000}; /* on which losses are measured */

/* ---- Cells: at[] is the course, the optimizer, the number of the seed, and the factor of the learning rate ---- */

/* Trainings that differ only in their optimizer and seed; steps 0: the scale has none. */
typedef struct course {
    const char *name, *about;
    size_t setting, layers;
    size_t steps[ICL_SCALES], seeds[ICL_SCALES];
    bool is_softmax;
} course;

static const course courses[] = {
    {"S1", "normal inputs, n = 20", ICL_LANDSCAPE_S1, 3, {250, 1500, 10000}, {2, 6, 6}},
    {"S2", "normal inputs, n = 5", ICL_LANDSCAPE_S2, 3, {0, 1500, 10000}, {0, 6, 6}},
    {"S3", "heavy-tailed inputs, n = 20", ICL_LANDSCAPE_S3, 3, {0, 1500, 10000}, {0, 6, 6}},
    {"sphere", "inputs on the unit sphere, n = 20", ICL_LANDSCAPE_SPHERE, 3, {0, 1500, 10000}, {0, 6, 6}},
    {"depth2", "S1, 2 layers", ICL_LANDSCAPE_S1, 2, {0, 1500, 10000}, {0, 3, 6}},
    {"depth4", "S1, 4 layers", ICL_LANDSCAPE_S1, 4, {0, 1500, 10000}, {0, 3, 6}},
    {"depth6", "S1, 6 layers", ICL_LANDSCAPE_S1, 6, {0, 0, 10000}, {0, 0, 6}},
    {"depth8", "S1, 8 layers", ICL_LANDSCAPE_S1, 8, {0, 0, 10000}, {0, 0, 6}},
    {"softmax", "S1, Adam", ICL_LANDSCAPE_S1, 3, {0, 500, 2000}, {0, 3, 6}},
    {"softmax", "S1, Adam", ICL_LANDSCAPE_S1, 3, {0, 500, 2000}, {0, 3, 6}, .is_softmax = true},
};

/* Places of the courses: by depth, then both kinds of attention, with Adam only; the searches of each setting, for one
 * seed, follow. */
enum { DEPTHS = ICL_LANDSCAPE_SETTINGS, LINEAR = DEPTHS + 4, SOFTMAX, COURSES, SEARCHES = COURSES };

enum { RATES = 5, AUTHORS = 2 };

static const double factors[RATES] = {.25, .5, 1, 2, 4}; /* factors of the authors' rate, ascending */
static const size_t search_steps[ICL_SCALES] = {0, 500, 2000};

static const icl_study_cell *add_cell(icl_study *study, size_t place, size_t optimizer, size_t seed, size_t rate) {
    const bool is_search = place >= SEARCHES;
    const course *trained = &courses[is_search ? place - SEARCHES : place];
    const uint32_t number = icl_study_seed(study, is_search ? MOST_SEEDS : seed);
    const icl_landscape_cell cell = {
        .setting = trained->setting,
        .optimizer = (icl_landscape_optimizer)optimizer,
        .layers = trained->layers,
        .steps = is_search ? search_steps[study->scale] : trained->steps[study->scale],
        .rate = factors[rate] * icl_landscape_settings[trained->setting].rates[optimizer],
        .softmax = trained->is_softmax,
    };
    const icl_phrase name = icl_landscape_name(&cell);

    return ICL_ADD_CELL(study, .name = ICL_PHRASE("%s%s", is_search ? "search, " : "", name.text),
                        .group = trained->name, .folder = ICL_PHRASE("%s-seed%" PRIu32, name.text, number),
                        .seed = number, .recipe = "landscape", .is_helper = is_search, .may_diverge = true,
                        .settings = {icl_landscape_changes(&cell).text, ICL_PHRASE("train.snapshot_every=%d", EVERY)},
                        .at = {place, optimizer, seed, rate});
}

static bool is_searched(const icl_study *study, size_t place) {
    return search_steps[study->scale] > 0 && (study->scale == ICL_SCALE_FULL || place >= LINEAR);
}

/* Returns the place of a course's search: that of linear attention is the first setting's, if that has one. */
static size_t search_of(const icl_study *study, size_t place) {
    return SEARCHES + (place == LINEAR && is_searched(study, ICL_LANDSCAPE_S1) ? ICL_LANDSCAPE_S1 : place);
}

/* Adds one optimizer of a course: five searches, and trainings with each of the rates, of which only the best is
 * run. */
static void add_searched(icl_study *study, size_t place, size_t optimizer) {
    const icl_study_cell *searches[RATES];

    for (size_t rate = 0; rate < RATES; rate++) {
        const size_t search = search_of(study, place);
        searches[rate] = icl_landscape_find(study, search, optimizer, 0, rate);
        if (!searches[rate])
            searches[rate] = add_cell(study, search, optimizer, 0, rate);
    }
    for (size_t i = 0; i < RATES * courses[place].seeds[study->scale]; i++) {
        const icl_study_cell *cell = add_cell(study, place, optimizer, i / RATES, i % RATES);
        for (size_t search = 0; search < RATES; search++)
            icl_study_need(study, cell, searches[search]);
    }
}

static void plan(icl_study *study) {
    for (size_t place = 0; place < COURSES; place++)
        for (size_t optimizer = 0; optimizer < (place < LINEAR ? 2 : 1); optimizer++) {
            if (is_searched(study, place))
                add_searched(study, place, optimizer);
            else
                for (size_t seed = 0; seed < courses[place].seeds[study->scale]; seed++)
                    add_cell(study, place, optimizer, seed, AUTHORS);
        }
}

/* Losses after every EVERY steps, plain and trimmed means; a search has only the last trimmed mean. */
enum {
    PLAIN = 0,
    TRIMMED = MOST_POINTS,
    PART_AT_X = TRIMMED + MOST_POINTS, /* of linear and softmax attention: parts of pairs at x and -x over h and -h */
    PART_AT_MINUS_X,
    NUMBERS
};

static size_t last_point(const icl_study_cell *cell) {
    return (size_t)icl_train_keys_read(cell->complete).steps / EVERY;
}

/* Returns the factor of the learning rate with which trainings of a course are judged. */
static size_t best_rate(const icl_study *study, size_t place, size_t optimizer) {
    double least = HUGE_VAL;
    size_t best = AUTHORS;

    for (size_t rate = 0; rate < RATES; rate++) {
        const icl_study_cell *search = icl_landscape_find(study, search_of(study, place), optimizer, 0, rate);
        const size_t last = TRIMMED + search_steps[study->scale] / EVERY;
        if (search && search->numbers[last].value < least) {
            least = search->numbers[last].value;
            best = rate;
        }
    }
    return best;
}

static bool leaves_out(const icl_study *study, const icl_study_cell *cell) {
    return cell->at[0] < SEARCHES && cell->at[3] != best_rate(study, cell->at[0], cell->at[1]);
}

/* ---- The part of a pair at the query, or opposite to it ---- */

enum { PART_SEQUENCES = 1000, D = ICL_LANDSCAPE_DIMENSION, WIDTH = D + 1 };

/* Returns x^T (sum of x_j x_j^T)^-1 x of the query x; tokens [n + 1][WIDTH]. */
static double leverage_of(const float *tokens, size_t n) {
    double moments[D * D] = {0}, eigenvalues[D], vectors[D * D], work[3 * D], leverage = 0;

    for (size_t j = 0; j < n; j++)
        for (size_t k = 0; k < D * D; k++)
            moments[k] += (double)tokens[j * WIDTH + k / D] * (double)tokens[j * WIDTH + k % D];
    if (!icl_symmetric_eigen(D, moments, eigenvalues, vectors, work))
        return (double)NAN;
    for (size_t e = 0; e < D; e++) {
        double along = 0;
        for (size_t i = 0; i < D; i++)
            along += vectors[e * D + i] * (double)tokens[n * WIDTH + i];
        leverage += along * along / eigenvalues[e];
    }
    return leverage;
}

/* Predicts with the first pair of every sequence at `sign` times the query, and with this label. */
static icl_status predict_with(icl_trainer *trainer, const icl_batch *batch, float *tokens, float sign, float label,
                               float *predictions, icl_error *error) {
    const size_t n = icl_task_context(icl_trainer_task(trainer));

    for (size_t s = 0; s < batch->size; s++) {
        float *sequence = tokens + s * (n + 1) * WIDTH;
        for (size_t i = 0; i < D; i++)
            sequence[i] = sign * sequence[n * WIDTH + i];
        sequence[D] = label;
    }
    ICL_CHECK(icl_tensor_write(batch->inputs, tokens, error));
    return icl_trainer_predict(trainer, batch, predictions, error);
}

/* Measures the part of the pair over that of least squares: the slope of the line through 0 over all sequences. */
static icl_status measure_part(const icl_study *study, icl_trainer *trainer, float sign, double *part,
                               icl_error *error) {
    const icl_task *task = icl_trainer_task(trainer);
    const size_t n = icl_task_context(task);
    float *tokens = NULL, *predictions = NULL;
    double products = 0, squares = 0;
    icl_batch batch;

    ICL_CHECK(icl_study_batch(study, task, PART_SEQUENCES, 0, 0, &batch, error));
    ICL_CHECK(icl_study_read(study, batch.inputs, &tokens, error));
    ICL_CHECK(icl_study_room(study, (size_t)2 * PART_SEQUENCES, sizeof *predictions, &predictions, error));
    for (int label = 0; label < 2; label++)
        ICL_CHECK(
            predict_with(trainer, &batch, tokens, sign, (float)label, predictions + label * PART_SEQUENCES, error));
    for (size_t s = 0; s < PART_SEQUENCES; s++) {
        const double least_squares = (double)sign * leverage_of(tokens + s * (n + 1) * WIDTH, n);
        products += least_squares * ((double)predictions[PART_SEQUENCES + s] - (double)predictions[s]);
        squares += least_squares * least_squares;
    }
    *part = products / squares;
    return ICL_OK;
}

/* ---- Measuring ---- */

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const size_t last = last_point(cell);
    icl_landscape_view view = {0};
    double *losses = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_landscape_view_open(study, trained, sequences[study->scale], &view, error));
    const size_t count = icl_objective_sequences(view.objective);
    ICL_TRY(icl_study_room(study, count, sizeof *losses, &losses, error));
    for (size_t point = cell->at[0] < SEARCHES ? 0 : last; point <= last; point++) {
        ICL_TRY(icl_landscape_view_go(study, cell, point * EVERY, &view, error));
        ICL_TRY(icl_objective_losses(view.objective, view.at, losses, error));
        numbers[PLAIN + point].value = icl_mean(losses, count);
        numbers[TRIMMED + point].value = icl_trimmed_mean(losses, count, TRIMMED_SHARE);
    }
    if (cell->at[0] == LINEAR || cell->at[0] == SOFTMAX) {
        ICL_TRY(measure_part(study, trained, 1, &numbers[PART_AT_X].value, error));
        ICL_TRY(measure_part(study, trained, -1, &numbers[PART_AT_MINUS_X].value, error));
    }
done:
    icl_landscape_view_close(&view);
    return status;
}

/* ---- Numbers of courses ---- */

static const icl_study_cell *find(const icl_study *study, size_t place, size_t optimizer, size_t seed) {
    return icl_landscape_find(study, place, optimizer, seed, best_rate(study, place, optimizer));
}

static bool is_wanted(const icl_study *study, size_t place) {
    const icl_study_cell *cell = find(study, place, ADAM, 0);
    return cell && cell->is_wanted;
}

/* Computes log(loss of Adam / loss of SGD) after the last step for each seed; returns the number of seeds. If Adam
 * diverged the value is infinite, the worst result for it; seeds in which only SGD diverged are left out. */
static size_t log_gaps(const icl_study *study, size_t place, double gaps[MOST_SEEDS]) {
    const icl_study_cell *adam, *sgd;
    size_t count = 0;

    for (size_t seed = 0; (adam = find(study, place, ADAM, seed)) && (sgd = find(study, place, SGD, seed)); seed++) {
        const size_t last = TRIMMED + last_point(adam);
        if (isnan(adam->numbers[last].value))
            gaps[count++] = (double)INFINITY;
        else if (!isnan(sgd->numbers[last].value))
            gaps[count++] = log(adam->numbers[last].value / sgd->numbers[last].value);
    }
    return count;
}

/* Returns the mean over seeds of a number. */
static icl_number mean_of(const icl_study *study, size_t place, size_t optimizer, size_t number) {
    double values[MOST_SEEDS] = {0};
    const icl_study_cell *cell;
    size_t seeds = 0;

    while ((cell = find(study, place, optimizer, seeds)) != NULL)
        values[seeds++] = cell->numbers[number].value;
    return (icl_number){icl_mean(values, seeds), icl_standard_error(values, seeds)};
}

/* ---- Judging ---- */

static void show_rate(icl_study *study, size_t place, size_t optimizer) {
    const double authors = icl_landscape_settings[courses[place].setting].rates[optimizer];
    const size_t best = best_rate(study, place, optimizer);
    const char *name = place == LINEAR ? "linear" : courses[place].name;

    ICL_JUDGE(study, .what = ICL_PHRASE("%s, %s", name, icl_landscape_optimizers[optimizer]),
              .quantity = "best learning rate of five", .ours = factors[best] * authors,
              .note = ICL_PHRASE("authors' code: %.3g%s", authors,
                                 best == 0 || best == RATES - 1 ? "; at an end of the five" : ""));
}

static void judge_gap(icl_study *study, size_t place) {
    const size_t last = last_point(find(study, place, ADAM, 0));
    double gaps[MOST_SEEDS] = {0};
    const size_t count = log_gaps(study, place, gaps);

    ICL_JUDGE(study, .what = ICL_PHRASE("%s, iteration %zu", courses[place].name, last * EVERY),
              .quantity = "log of the loss of Adam / of SGD", .ours = count > 0 ? icl_mean(gaps, count) : (double)NAN,
              .standard_error = icl_standard_error(gaps, count), .target = 0, .criterion = ICL_AT_MOST,
              .evidence = place < DEPTHS ? ICL_STATED : ICL_EVIDENCE_NONE, .source = "Adam ends below SGD",
              .note = ICL_PHRASE("%zu seeds from %" PRIu32 "; Adam %.3g, SGD %.3g; plain means %.3g, %.3g", count,
                                 study->run->params->seed, mean_of(study, place, ADAM, TRIMMED + last).value,
                                 mean_of(study, place, SGD, TRIMMED + last).value,
                                 mean_of(study, place, ADAM, PLAIN + last).value,
                                 mean_of(study, place, SGD, PLAIN + last).value));
}

/* Judges levels that can be read off the loss curves in the authors' notebook, and levels that no model can go
 * below. */
static const struct {
    size_t setting, optimizer, iteration; /* 0: the last */
    double target, tolerance;             /* tolerance: of log10 */
    icl_criterion criterion;
    icl_evidence evidence;
    const char *source;
} levels[] = {
    {ICL_LANDSCAPE_S1, ADAM, 1000, 1.6e-3, .4, ICL_WITHIN, ICL_READ, "authors' notebook"},
    {ICL_LANDSCAPE_S1, SGD, 1500, 2.5e-2, .3, ICL_WITHIN, ICL_READ, "authors' notebook"},
    {ICL_LANDSCAPE_S1, SGD, 10000, 8e-3, .4, ICL_WITHIN, ICL_READ, "authors' notebook"},
    {ICL_LANDSCAPE_S1, ADAM, 0, 6.70e-4, .04, ICL_AT_LEAST, ICL_COMPUTED, "least loss of three layers"},
    {ICL_LANDSCAPE_S2, ADAM, 0, .657, .02, ICL_AT_LEAST, ICL_COMPUTED, "least loss of three layers"},
};

static void judge_levels(icl_study *study, size_t setting) {
    const size_t last = last_point(find(study, setting, ADAM, 0));

    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        const size_t point = levels[i].iteration > 0 ? levels[i].iteration / EVERY : last;
        if (levels[i].setting != setting || point > last)
            continue;
        const icl_number loss = mean_of(study, setting, levels[i].optimizer, PLAIN + point);
        ICL_JUDGE(study,
                  .what = ICL_PHRASE("%s, %s, iteration %zu", courses[setting].name,
                                     icl_landscape_optimizers[levels[i].optimizer], point * EVERY),
                  .quantity = "log10 of the loss", .ours = log10(loss.value),
                  .standard_error = loss.standard_error / loss.value / log(10), .target = log10(levels[i].target),
                  .tolerance = levels[i].tolerance, .criterion = levels[i].criterion, .evidence = levels[i].evidence,
                  .source = levels[i].source);
    }
}

/* Judges each depth's gap against that of the depth before: not smaller by more than two standard errors. */
static void judge_depth(icl_study *study, size_t place) {
    double gaps[2][MOST_SEEDS] = {{0}};
    const size_t counts[2] = {log_gaps(study, place - 1, gaps[0]), log_gaps(study, place, gaps[1])};
    const double deviation = hypot(icl_standard_error(gaps[0], counts[0]), icl_standard_error(gaps[1], counts[1]));

    ICL_JUDGE(study, .what = ICL_PHRASE("%zu layers against %zu", courses[place].layers, courses[place - 1].layers),
              .quantity = "change of the log of the loss of Adam / of SGD",
              .ours = icl_mean(gaps[1], counts[1]) - icl_mean(gaps[0], counts[0]), .standard_error = deviation,
              .target = 0, .tolerance = 2 * deviation, .criterion = ICL_AT_MOST,
              .evidence = place == DEPTHS + 1 ? ICL_STATED : ICL_EVIDENCE_NONE, .source = "the gap grows with depth",
              .note = "tolerance: two standard errors");
}

/* Compares softmax attention with linear attention in setting 1, both with Adam: losses, and what pairs at x and -x
 * tell. */
static void judge_softmax(icl_study *study) {
    const size_t last = last_point(find(study, LINEAR, ADAM, 0));
    const icl_number linear = mean_of(study, LINEAR, ADAM, TRIMMED + last);
    const icl_number softmax = mean_of(study, SOFTMAX, ADAM, TRIMMED + last);

    ICL_JUDGE(study, .what = "S1, linear against softmax", .quantity = "log of the ratio of the losses",
              .ours = log(linear.value / softmax.value),
              .standard_error = hypot(linear.standard_error / linear.value, softmax.standard_error / softmax.value),
              .target = 0, .criterion = ICL_AT_MOST, .evidence = ICL_STATED, .source = "linear falls much faster",
              .note = ICL_PHRASE("%zu seeds with Adam, iteration %zu: linear %.3g, softmax %.3g",
                                 courses[LINEAR].seeds[study->scale], last * EVERY, linear.value, softmax.value));
    for (size_t place = LINEAR; place <= SOFTMAX; place++) {
        const bool is_linear = place == LINEAR;
        ICL_JUDGE(study, .what = is_linear ? "linear" : "softmax", .quantity = "part of a pair at x / of least squares",
                  ICL_OURS(mean_of(study, place, ADAM, PART_AT_X)), .target = is_linear ? .8 : 0,
                  .criterion = is_linear ? ICL_AT_LEAST : ICL_AT_MOST,
                  .evidence = is_linear ? ICL_INFERRED : ICL_COMPUTED,
                  .source = is_linear ? "three steps come near least squares" : "minus positive multiples of labels",
                  .note = ICL_PHRASE("of a pair at -x %.4g", mean_of(study, place, ADAM, PART_AT_MINUS_X).value));
    }
    const double difference =
        mean_of(study, LINEAR, ADAM, PART_AT_X).value - mean_of(study, LINEAR, ADAM, PART_AT_MINUS_X).value;
    ICL_JUDGE(study, .what = "linear", .quantity = "part of a pair at x less that of one at -x", .ours = difference,
              .target = 0, .tolerance = 1e-4, .evidence = ICL_COMPUTED,
              .source = "linear attention is odd in the query");
}

/* ---- Figures, and all of it ---- */

static void plot(icl_study *study, icl_curves *curves, const char *label, size_t place, size_t optimizer) {
    const icl_series_style style = curves->curve_count == 0 ? ICL_SERIES_OURS : ICL_SERIES_LINE;
    const icl_study_cell *cell;

    for (size_t seed = 0; (cell = find(study, place, optimizer, seed)) != NULL; seed++)
        for (size_t point = 0; point <= last_point(cell); point++)
            icl_study_plot(study, curves, label, style, (double)(point * EVERY), cell->numbers[TRIMMED + point].value);
}

/* Draws both optimizers; or, for LINEAR, both kinds of attention. */
static void draw(icl_study *study, size_t place) {
    const icl_phrase file = icl_phrase_print("loss-%s", courses[place].name);
    const icl_phrase title = icl_phrase_print("Loss without the largest 1 %%: %s", courses[place].about);
    icl_curves curves = ICL_CURVES(.name = file.text, .title = title.text, .x_label = "iteration",
                                   .y_label = "squared error", .log_y = true);

    plot(study, &curves, place == LINEAR ? "linear attention" : icl_landscape_labels[ADAM], place, ADAM);
    if (place == LINEAR)
        plot(study, &curves, "softmax attention", SOFTMAX, ADAM);
    else
        plot(study, &curves, icl_landscape_labels[SGD], place, SGD);
    icl_study_draw(study, &curves);
}

static void conclude(icl_study *study) {
    for (size_t place = 0; place < SOFTMAX; place++) {
        if (!is_wanted(study, place))
            continue;
        for (size_t optimizer = 0; optimizer < (place < LINEAR ? 2 : 1) && is_searched(study, place); optimizer++)
            show_rate(study, place, optimizer);
        if (place == LINEAR)
            show_rate(study, SOFTMAX, ADAM);
        if (place < LINEAR)
            judge_gap(study, place);
        else
            judge_softmax(study);
        if (place < DEPTHS)
            judge_levels(study, place);
        else if (place > DEPTHS && place < LINEAR && is_wanted(study, place - 1))
            judge_depth(study, place);
        draw(study, place);
    }
}

const icl_reproduction icl_landscape_adam_sgd = ICL_STUDY(
        .name = "landscape-adam-sgd", .source = "arXiv 2310.01082, section 3",
        .about = "loss curves of Adam and SGD with momentum in four settings, and over depth",
        .claim =
            "Adam trains shallow linear transformers to lower losses than SGD with momentum, and the gap grows with "
            "depth.",
        .scope = "A met table means that Adam ends below SGD on these small regressions and that linear "
                 "attention learns faster than softmax; why the gap comes about, other optimizers and "
                 "language were not tested.",
        .cost = {"2 s", "4 min", "1 h"}, .numbers = NUMBERS, .plan = plan, .leaves_out = leaves_out, .measure = measure,
        .conclude = conclude);
