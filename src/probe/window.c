#include "probe/window.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/threads.h"
#include "iclab/tensor.h"
#include "model/model.h"
#include "numeric/matrix.h"
#include "numeric/statistics.h"
#include "probe/inspection.h"
#include "task/laws.h"
#include "task/parts.h"

/* The most sequences of a batch; independent of the total, so that a larger set begins with the smaller one. */
#define MOST_IN_A_BATCH 1024

/* ---- Sequences ---- */

static icl_status allocate_set(icl_window_set *set, icl_error *error) {
    const size_t tokens = (set->context + 1) * (set->dimension + 1), count = set->count;

    ICL_CHECK(icl_allocate(count, tokens * sizeof *set->tokens, "sequences", &set->tokens, error));
    ICL_CHECK(icl_allocate(count, sizeof *set->targets, "targets", &set->targets, error));
    ICL_CHECK(icl_allocate(count, set->context * sizeof *set->scores, "scores", &set->scores, error));
    ICL_CHECK(icl_allocate(count, sizeof *set->losses, "losses", &set->losses, error));
    ICL_CHECK(icl_allocate(count, sizeof *set->spreads, "sums of squares", &set->spreads, error));
    ICL_CHECK(icl_allocate(count, sizeof *set->reach, "distances", &set->reach, error));
    return icl_allocate(count, sizeof *set->others, "losses", &set->others, error);
}

static icl_status draw_batches(icl_backend *backend, const icl_task *task, icl_task_purpose purpose, uint32_t seed,
                               icl_window_set *set, icl_error *error) {
    const size_t size = (set->context + 1) * (set->dimension + 1), most = icl_task_piece(task, MOST_IN_A_BATCH);
    float *tokens = NULL, *targets = NULL;
    icl_batch batch = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_batch_create(task, backend, purpose, most, &batch, error));
    ICL_TRY(icl_allocate(most, size * sizeof *tokens, "tokens of a batch", &tokens, error));
    ICL_TRY(icl_allocate(most, sizeof *targets, "targets of a batch", &targets, error));
    for (size_t first = 0; first < set->count; first += most) {
        const size_t taken = set->count - first < most ? set->count - first : most;
        ICL_TRY(icl_task_sample(task, backend, purpose, seed, first / most, &batch, error));
        ICL_TRY(icl_tensor_read(batch.inputs, tokens, error));
        ICL_TRY(icl_tensor_read(batch.targets, targets, error));
        memcpy(set->tokens + first * size, tokens, taken * size * sizeof *tokens);
        memcpy(set->targets + first, targets, taken * sizeof *targets);
    }
done:
    icl_batch_release(&batch);
    icl_free(&tokens);
    icl_free(&targets);
    return status;
}

icl_status icl_window_draw(icl_backend *backend, const icl_recipe *recipe, icl_task_purpose purpose, uint32_t seed,
                           size_t count, icl_window_set *set, icl_error *error) {
    icl_recipe *noiseless = NULL;
    icl_task *task = NULL;
    icl_noise noise;
    icl_status status = ICL_OK;

    *set = (icl_window_set){.count = count};
    ICL_TRY(icl_noise_read(recipe, &noise, error));
    set->mean_square_noise = noise.mean_square;
    ICL_TRY(icl_recipe_clone(recipe, &noiseless, error));
    ICL_TRY(icl_recipe_set_text(noiseless, "task", "noise", "fixed:0", error));
    ICL_TRY(icl_task_create(noiseless, &task, error));
    set->context = icl_task_context(task);
    set->dimension = icl_task_dimension(task);
    ICL_TRY(allocate_set(set, error));
    ICL_TRY(draw_batches(backend, task, purpose, seed, set, error));
done:
    icl_task_destroy(&task);
    icl_recipe_destroy(&noiseless);
    return status;
}

void icl_window_release(icl_window_set *set) {
    icl_free(&set->tokens);
    icl_free(&set->targets);
    icl_free(&set->scores);
    icl_free(&set->losses);
    icl_free(&set->spreads);
    icl_free(&set->reach);
    icl_free(&set->others);
}

/* ---- Losses ---- */

/* A pass over the sequences. */
typedef struct loss_pass {
    const icl_window_set *set;
    const double *M; /* NULL: the identity */
    double w;
    bool softmax, distances; /* distances: sum_i beta_i ||x_i - x_q||^2 is computed, too */
} loss_pass;

static const float *token(const icl_window_set *set, size_t sequence, size_t index) {
    return set->tokens + (sequence * (set->context + 1) + index) * (set->dimension + 1);
}

/* scores_i = x_i^T M x_q. */
static void score_sequence(void *context, size_t sequence, size_t thread) {
    const loss_pass *pass = context;
    const icl_window_set *set = pass->set;
    const size_t n = set->context, d = set->dimension;
    const float *query = token(set, sequence, n);
    double *scores = set->scores + sequence * n;

    (void)thread;
    memset(scores, 0, n * sizeof *scores);
    for (size_t a = 0; a < d; a++) {
        double mapped = pass->M ? 0 : (double)query[a];
        for (size_t b = 0; pass->M && b < d; b++)
            mapped += pass->M[a * d + b] * (double)query[b];
        for (size_t i = 0; i < n; i++)
            scores[i] += (double)token(set, sequence, i)[a] * mapped;
    }
}

/* ||x_i - x_q||^2 */
static double square_distance(const icl_window_set *set, size_t sequence, size_t i) {
    const float *key = token(set, sequence, i), *query = token(set, sequence, set->context);
    double sum = 0;
    for (size_t a = 0; a < set->dimension; a++)
        sum += ((double)key[a] - (double)query[a]) * ((double)key[a] - (double)query[a]);
    return sum;
}

/* Computes the loss and the sums of one sequence. Its weights are exp(w (score - largest)) over their sum, or scores
 * over n. */
static void weigh_sequence(void *context, size_t sequence, size_t thread) {
    const loss_pass *pass = context;
    const icl_window_set *set = pass->set;
    const size_t n = set->context, d = set->dimension;
    const double *scores = set->scores + sequence * n;
    double largest = scores[0], total = 0, sum = 0, squares = 0, distance = 0;

    (void)thread;
    for (size_t i = 1; i < n; i++)
        largest = scores[i] > largest ? scores[i] : largest;
    for (size_t i = 0; i < n; i++) {
        const double weight = pass->softmax ? exp(pass->w * (scores[i] - largest)) : scores[i];
        total += weight;
        sum += weight * (double)token(set, sequence, i)[d];
        squares += weight * weight;
        if (pass->distances)
            distance += weight * square_distance(set, sequence, i);
    }
    const double scale = pass->softmax ? 1 / total : 1 / (double)n;
    const double miss = scale * sum - (double)set->targets[sequence];
    set->spreads[sequence] = scale * scale * squares;
    set->losses[sequence] = miss * miss + set->mean_square_noise * set->spreads[sequence];
    set->reach[sequence] = scale * distance;
}

static double loss_at(const loss_pass *pass) {
    icl_parallel_for(pass->set->count, icl_parallel_threads(), weigh_sequence, (void *)pass);
    return icl_mean(pass->set->losses, pass->set->count);
}

icl_window_quality icl_window_measure(const icl_window_set *set, const double *M, bool softmax) {
    loss_pass pass = {.set = set, .M = M, .w = 1, .softmax = softmax, .distances = softmax};
    icl_window_quality quality;
    double squares = 0;

    icl_parallel_for(set->count, icl_parallel_threads(), score_sequence, &pass);
    quality.loss = loss_at(&pass);
    for (size_t i = 0; i < set->count; i++)
        squares += (set->losses[i] - quality.loss) * (set->losses[i] - quality.loss);
    quality.standard_error = sqrt(squares / (double)(set->count - 1) / (double)set->count);
    quality.neighbours = 1 / icl_mean(set->spreads, set->count);
    quality.reach = softmax ? sqrt(icl_mean(set->reach, set->count)) : (double)NAN;
    return quality;
}

icl_window_ratio icl_window_compare(const icl_window_set *set, const double *M, bool softmax, const double *other,
                                    bool other_softmax) {
    icl_window_ratio found = {.to = icl_window_measure(set, other, other_softmax)};
    double squares = 0;

    memcpy(set->others, set->losses, set->count * sizeof *set->others);
    found.of = icl_window_measure(set, M, softmax);
    found.ratio = found.of.loss / found.to.loss;
    for (size_t i = 0; i < set->count; i++) {
        const double rest = set->losses[i] - found.ratio * set->others[i]; /* its mean is 0 */
        squares += rest * rest;
    }
    found.standard_error = sqrt(squares / (double)(set->count - 1) / (double)set->count) / found.to.loss;
    return found;
}

/* ---- The best width ---- */

#define COARSEST       1.0e-2 /* the grid of the bracket: COARSEST, then GRID_FACTOR times more each time */
#define GRID_FACTOR    4.0
#define GRID_SIZE      9
#define SEARCH_PRECISE 5e-3 /* precision of log w */

static double loss_at_log(loss_pass *pass, double log_w) {
    pass->w = exp(log_w);
    return loss_at(pass);
}

/* Searches by golden section: the loss has one minimum between low and high. */
static double golden_section(loss_pass *pass, double low, double high) {
    const double ratio = 0.6180339887498949;
    double left = high - ratio * (high - low), right = low + ratio * (high - low);
    double at_left = loss_at_log(pass, left), at_right = loss_at_log(pass, right);

    while (high - low > SEARCH_PRECISE)
        if (at_left < at_right) {
            high = right;
            right = left;
            at_right = at_left;
            left = high - ratio * (high - low);
            at_left = loss_at_log(pass, left);
        } else {
            low = left;
            left = right;
            at_left = at_right;
            right = low + ratio * (high - low);
            at_right = loss_at_log(pass, right);
        }
    return exp(0.5 * (low + high));
}

double icl_window_search(const icl_window_set *set, const double *shape) {
    loss_pass pass = {.set = set, .M = shape, .softmax = true};
    double best = log(COARSEST), least = HUGE_VAL;

    icl_parallel_for(set->count, icl_parallel_threads(), score_sequence, &pass);
    for (int i = 0; i < GRID_SIZE; i++) {
        const double at = log(COARSEST) + i * log(GRID_FACTOR), loss = loss_at_log(&pass, at);
        if (loss < least) {
            least = loss;
            best = at;
        }
    }
    return golden_section(&pass, best - log(GRID_FACTOR), best + log(GRID_FACTOR));
}

/* ---- Inspections of a window ---- */

/* Attention over labels (src/model/softmax.c), which has one matrix M: its comparison with w I, its window, and the
 * best window of a fixed shape (Collins et al. 2024, arXiv 2402.11639). */

enum { SEQUENCES = 8192, FIT_SEQUENCES = 2048 };

/* Dist(M, I) up to which M is called a multiple of I, and up to which it is nearly one. */
#define ROUNDING 1e-6
#define NEARLY   0.2

typedef struct window {
    icl_inspection *run;
    bool is_softmax;
    double *M, *of_identity; /* [d][d], and w I */
    double multiple, distance, smallest, largest;
    double rho;  /* of the subspace on which targets depend; NaN if there is none */
    double best; /* w of the best window w I; for linear attention of the multiple of I nearest to M */
    icl_window_ratio ratio;
} window;

/* ---- Measuring ---- */

static icl_status measure_matrix(window *view, icl_error *error) {
    const icl_inspection *run = view->run;
    const icl_subspace subspace = icl_task_subspace(run->task);

    ICL_CHECK(icl_allocate(run->d * run->d, sizeof(double), "M", &view->M, error));
    ICL_CHECK(icl_allocate(run->d * run->d, sizeof(double), "w I", &view->of_identity, error));
    ICL_CHECK(icl_matrix_of_model(run->model, run->values, "M", run->d, run->d, view->M, error));
    view->multiple = icl_matrix_multiple(view->M, run->d);
    view->distance = icl_matrix_distance(view->M, run->d);
    view->rho = (double)NAN;
    ICL_CHECK(icl_singular_extremes(view->M, run->d, run->d, &view->smallest, &view->largest, error));
    if (subspace.directions > 0)
        ICL_CHECK(icl_subspace_alignment(view->M, subspace.rotation, run->d, subspace.directions, &view->rho, error));
    return ICL_OK;
}

static icl_status measure_window(window *view, icl_error *error) {
    const icl_inspection *run = view->run;
    const size_t asked = run->params->sequences;
    icl_window_set measured = {0}, fitting = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_window_draw(run->params->backend, run->recipe, ICL_FOR_EVALUATION, run->seed,
                            asked > 0 ? asked : SEQUENCES, &measured, error));
    ICL_TRY(
        icl_window_draw(run->params->backend, run->recipe, ICL_FOR_FITTING, run->seed, FIT_SEQUENCES, &fitting, error));
    view->best = view->is_softmax ? icl_window_search(&fitting, NULL) : view->multiple;
    for (size_t i = 0; i < run->d; i++)
        view->of_identity[i * run->d + i] = view->best;
    view->ratio = icl_window_compare(&measured, view->M, view->is_softmax, view->of_identity, view->is_softmax);
done:
    icl_window_release(&measured);
    icl_window_release(&fitting);
    return status;
}

/* ---- Writing ---- */

static icl_status write_numbers(const window *view, icl_error *error) {
    static const icl_report_column columns[] = {{"number", false}, {"value", true}};
    const icl_window_quality *quality = &view->ratio.of, *to = &view->ratio.to;
    const struct {
        const char *what, *quantity;
        double value, standard_error;
    } rows[] = {
        {"M", "w = tr(M) / d, the multiple of I nearest to it", view->multiple, 0},
        {"M", "Dist(M, I), the norm of M - w I over that of M", view->distance, 0},
        {"M", "spectral norm", view->largest, 0},
        {"M", "smallest singular value", view->smallest, 0},
        {"M", "rho(M, B): what it sees beside the subspace, over what it sees of it", view->rho, 0},
        {"window", "squared error", quality->loss, quality->standard_error},
        {"window", "labels that are averaged over, 1 / mean sum beta^2",
         view->is_softmax ? quality->neighbours : (double)NAN, 0},
        {"window", "radius", quality->reach, 0},
        {"w I", view->is_softmax ? "w of the best window" : "w", view->best, 0},
        {"w I", "squared error", to->loss, to->standard_error},
        {"window", "squared error over that of w I", view->ratio.ratio, view->ratio.standard_error},
    };

    ICL_CHECK(icl_inspect_table_begin(view->run, columns, 2, error));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char value[ICL_INSPECT_CELL], name[160];
        const char *const cells[] = {name, icl_inspect_measured(rows[i].value, rows[i].standard_error, value)};
        if (isnan(rows[i].value))
            continue;
        snprintf(name, sizeof name, "%s: %s", rows[i].what, rows[i].quantity);
        ICL_CHECK(icl_inspect_table_row(view->run, ICL_TONE_PLAIN, cells, error));
        ICL_CHECK(ICL_INSPECT_FOUND(view->run, error, .what = rows[i].what, .quantity = rows[i].quantity,
                                    .value = rows[i].value, .standard_error = rows[i].standard_error));
    }
    return icl_inspect_table_end(view->run, error);
}

/* Describes M in comparison with a multiple of the identity. */
static icl_status describe_matrix(const window *view, icl_error *error) {
    icl_text *lead = &view->run->lead;

    if (view->distance <= ROUNDING)
        ICL_CHECK(icl_text_print(lead, error, " M is %.4g I.", view->multiple));
    else if (view->distance <= NEARLY)
        ICL_CHECK(
            icl_text_print(lead, error, " M is %.4g I but for %.2g of its norm.", view->multiple, view->distance));
    else
        ICL_CHECK(icl_text_print(lead, error, " M is no multiple of I: it is %.2g of its norm away from %.4g I.",
                                 view->distance, view->multiple));
    if (!isnan(view->rho))
        ICL_CHECK(icl_text_print(lead, error,
                                 " Outside the subspace that targets depend on it sees %.2g times as much as inside.",
                                 view->rho));
    return ICL_OK;
}

static icl_status conclude(const window *view, icl_error *error) {
    const double n = (double)view->run->n;
    icl_text *lead = &view->run->lead;

    if (view->is_softmax)
        ICL_CHECK(icl_text_print(lead, error,
                                 "The model averages the context's labels with weights exp(x_i^T M x_q) over "
                                 "their sum, a Nadaraya-Watson estimate. Its window is worth %.3g of the %.0f "
                                 "labels and has radius %.3g.",
                                 view->ratio.of.neighbours, n, view->ratio.of.reach));
    else
        ICL_CHECK(icl_text_print(lead, error,
                                 "The model is one step of gradient descent from 0 on the context's squared errors, "
                                 "preconditioned with M, of size %.4g for raw sums.",
                                 view->multiple / n));
    ICL_CHECK(describe_matrix(view, error));
    return icl_text_print(lead, error, " Its squared error is %.4g +- %.2g times that of %s w I, w = %.4g.",
                          view->ratio.ratio, view->ratio.standard_error,
                          view->is_softmax ? "the best window" : "M =", view->best);
}

icl_status icl_inspect_window(icl_inspection *run, icl_error *error) {
    /* model.attention = softmax | linear. */
    window view = {.run = run,
                   .is_softmax = icl_recipe_choice(run->recipe, "model", "attention") == ICL_ATTENTION_SOFTMAX};
    icl_status status = ICL_OK;

    ICL_TRY(measure_matrix(&view, error));
    ICL_TRY(measure_window(&view, error));
    const icl_heat_map map = {.label = "M", .rows = run->d, .columns = run->d, .values = view.M};
    ICL_TRY(icl_inspect_section(run, "Weights and window", error));
    ICL_TRY(ICL_INSPECT_HEAT_MAPS(run, error, .name = "weights", .title = "M of the scores x_i^T M x_q", .count = 1,
                                  .maps = &map));
    ICL_TRY(icl_inspect_paragraph(run, error,
                                  "The prediction is sum_i beta_i y_i, %s. Squared errors are averaged over "
                                  "the labels' noise, in closed form.",
                                  view.is_softmax ? "beta = softmax of the scores x_i^T M x_q"
                                                  : "beta_i = x_i^T M x_q / n"));
    ICL_TRY(write_numbers(&view, error));
    ICL_TRY(conclude(&view, error));
done:
    icl_free(&view.M);
    icl_free(&view.of_identity);
    return status;
}
