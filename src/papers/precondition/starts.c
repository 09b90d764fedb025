/*
 * Where random starts end: Ahn, Cheng, Daneshmand, Sra 2023, "Transformers learn to implement preconditioned gradient
 * descent for in-context learning" (arXiv 2306.00297), whose trainings always recovered the preconditioner. L-BFGS on a
 * fixed batch tells minima from slow trainings.
 *
 * One layer with all entries of P and Q free (theorem 1): the part of its prediction that is odd in w is -w^T S M x,
 * with the sums S over the context and M = p_y Q_xx + p_x q^T, where (p_x, p_y) is P's last row and q the label's row
 * of Q. Theorem 1's minimum has M = p_y Q_xx. With unequal variances there is another one: p_x q^T makes the step along
 * the direction of the largest variance, and p_y Q_xx holds small steps along the others, since both together add a
 * prediction that is even in w, p_x^T S Q_xx x + p_y w^T S w q^T x. It is no saddle that a longer training leaves: the
 * Hessian has no negative eigenvalue there, and the point comes back after its entries are disturbed.
 *
 * Three layers of form (11), as coefficients A = -a I, B = b I on inputs of covariance I: there are several minima,
 * with different steps. Few contexts carry the expected loss there, so that starts are compared on one batch, and by
 * the mean of fresh losses without the largest thousandth.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "iclab/random.h"
#include "numeric/matrix.h"
#include "numeric/statistics.h"
#include "papers/papers.h"
#include "probe/curvature.h"

enum { D = 5, WIDTH = D + 1, BLOCK = WIDTH * WIDTH, SIZE = 2 * BLOCK, LAYERS = 3, COEFFICIENTS = 3 * LAYERS };
enum { MOST_STARTS = 48, LISTED = 4, JUDGED_BASINS = 2 };

typedef struct starts_cell {
    const char *name, *settings;
    size_t n;
    bool is_deep; /* three layers, otherwise one */
    icl_scale first;
    double share; /* of starts that end at the minimum; 0: not judged */
} starts_cell;

#define FREE "model.parameterization=full task.covariance="

static const starts_cell cells[] = {
    {"identity-n10", FREE "identity", 10, false, ICL_SCALE_CI, 1},
    {"identity-n20", FREE "identity", 20, false, ICL_SCALE_SHORT, 1},
    {"paper-n20", FREE "spectrum:1,1,0.25,0.0625,1", 20, false, ICL_SCALE_SHORT, 0},
    {"geometric-n10", FREE "spectrum:4,2,1,0.5,0.25", 10, false, ICL_SCALE_CI, 0},
    {"geometric-n20", FREE "spectrum:4,2,1,0.5,0.25", 20, false, ICL_SCALE_SHORT, 0},
    {"three-layers", "model.parameterization=gd++ model.layers=3", 20, true, ICL_SCALE_CI, 0},
};

static const struct {
    size_t starts, sequences, deep_starts, deep_sequences, fresh;
} budgets[ICL_SCALES] = {{12, 4096, 8, 4096, 8192}, {36, 20000, 32, 20000, 100000}, {48, 20000, 48, 100000, 400000}};

static void plan(icl_study *study) {
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        if (study->scale >= cells[i].first)
            ICL_ADD_CELL(study, .name = cells[i].name, .data = &cells[i], .is_untrained = true,
                         .recipe = cells[i].is_deep ? "precondition-depth" : "precondition-theory",
                         .settings = {cells[i].settings, ICL_PHRASE("task.n=%zu", cells[i].n)});
}

/* ---- Starts ---- */

/* Evaluation takes its sequences from the first numbers. */
#define TRAINING_BATCH ((uint64_t)1 << 30)

#define START_STREAM 0x70730000u
#define START_STD    0.1
#define ITERATIONS   500
#define SAME         1.02 /* the largest ratio of losses at one minimum */

static icl_random_key key_of(const icl_study *study, size_t start) {
    return (icl_random_key){.seed = study->run->params->seed, .stream = START_STREAM, .step = start};
}

static void add_noise(icl_random_key key, double std, size_t size, double *at) {
    for (size_t i = 0; i < size; i++)
        at[i] += std * (double)icl_normal_from_word(icl_random_word(key, i));
}

/* Draws coefficients of three layers of gd++: (p_x, p_y) and q of each, w_yx = p_y q = -a and w_xx = p_x q = -a b. The
 * logarithms of a, from .2 to 10, and of |a b|, from .03 to 3, are uniform; a sign of b is as likely as the other. */
static void draw_layers(icl_random_key key, double *at) {
    for (size_t l = 0; l < LAYERS; l++) {
        double u[3];
        for (size_t i = 0; i < 3; i++)
            u[i] = ((double)icl_random_word(key, 3 * l + i) + .5) * 0x1p-32;
        const double q = sqrt(.2 * pow(50, u[0])), change = .03 * pow(100, u[1]);
        at[3 * l] = (u[2] < .5 ? -change : change) / q;
        at[3 * l + 1] = -q;
        at[3 * l + 2] = q;
    }
}

typedef struct end {
    double loss, at[SIZE];
} end;

static icl_status finish(const icl_study *study, icl_objective *objective, end *to, icl_error *error) {
    const icl_minimise_params params = {.history = 50, .iterations = ITERATIONS};
    icl_minimised result;

    ICL_CHECK(icl_reproduce_poll(study->run, error));
    ICL_CHECK(icl_objective_minimise(objective, &params, to->at, &result, error));
    to->loss = result.loss;
    return ICL_OK;
}

static icl_status open_batch(const icl_study *study, icl_trainer *fresh, size_t sequences, uint64_t number,
                             icl_objective **objective, icl_error *error) {
    const icl_objective_params params = {.task = icl_trainer_task(fresh),
                                         .model = icl_trainer_model(fresh),
                                         .purpose = ICL_FOR_EVALUATION,
                                         .sequences = sequences};

    ICL_CHECK(icl_objective_create(&params, objective, error));
    return icl_objective_draw(*objective, study->run->params->seed, number, error);
}

/* ---- One layer ---- */

enum { KICKS = 3 };

/* Root mean squares of what is added to all entries of an end, relative to that of its entries. */
static const double kicks[KICKS] = {.03, .1, .3};

/* The starts that do not end at the minimum: their number, the mean ratio of their loss to the minimum's, the means
 * of |p_x| |q| over theorem 1's step along the largest variance and of ||p_y Q_xx|| over the minimum's, the least
 * eigenvalue of the Hessian over the largest, and the share that comes back after each kick. */
enum {
    STARTS = 0,
    SHARE,
    MINIMUM, /* its loss on the batch */
    OTHERS,
    RATIO,
    RANK_ONE,
    REST,
    EIGENVALUE,
    BACK,
    ONE_LAYER = BACK + KICKS,
    /* Three layers: losses of the basins on the batch, shares of starts, and trimmed losses of fresh sequences; steps
     * and scales of the minimum beside the printed weights. */
    LOSSES = 0,
    SHARES = LOSSES + LISTED,
    TRIMMED = SHARES + LISTED,
    STEPS = TRIMMED + LISTED,
    SCALES = STEPS + LAYERS,
    BASINS = SCALES + LAYERS - 1,
    /* The minimum beside the printed weights: its basin, from 1, or 0 if no start ended there, its loss, and the
     * largest relative change of a weight. */
    NEAREST,
    PRINTED_LOSS,
    DIFFERENCE,
    NUMBERS
};

typedef struct parts {
    double rank_one;   /* |p_x| |q| */
    double square;     /* ||p_y Q_xx|| */
    double least_step; /* the least singular value of M */
} parts;

static icl_status parts_of(const double *at, parts *found, icl_error *error) {
    const double *p = at + D * WIDTH, *q = at + BLOCK, *label = q + D * WIDTH;
    double matrix[D * D], values[D], p_square = 0, label_square = 0, square = 0;

    for (size_t i = 0; i < D; i++) {
        p_square += p[i] * p[i];
        label_square += label[i] * label[i];
        for (size_t j = 0; j < D; j++) {
            const double entry = p[D] * q[i * WIDTH + j];
            square += entry * entry;
            matrix[i * D + j] = entry + p[i] * label[j];
        }
    }
    ICL_CHECK(icl_singular_values(matrix, D, D, values, error));
    *found = (parts){sqrt(p_square * label_square), sqrt(square), values[D - 1]};
    return ICL_OK;
}

static icl_status least_eigenvalue(const icl_study *study, icl_objective *objective, const double *at, double *least,
                                   icl_error *error) {
    double values[SIZE], work[3 * SIZE], *hessian = NULL, *vectors = NULL;

    ICL_CHECK(icl_study_room(study, SIZE * SIZE, sizeof *hessian, &hessian, error));
    ICL_CHECK(icl_study_room(study, SIZE * SIZE, sizeof *vectors, &vectors, error));
    ICL_CHECK(icl_hessian(objective, at, hessian, error));
    *least = icl_symmetric_eigen(SIZE, hessian, values, vectors, work) ? values[0] / values[SIZE - 1] : (double)NAN;
    return ICL_OK;
}

/* Disturbs an end and minimises again: *comes_back[k] is 1 if it ends at the same loss. */
static icl_status kick(const icl_study *study, icl_objective *objective, size_t number, const end *from,
                       double comes_back[KICKS], icl_error *error) {
    double square = 0;

    for (size_t i = 0; i < SIZE; i++)
        square += from->at[i] * from->at[i] / SIZE;
    for (size_t k = 0; k < KICKS; k++) {
        end again = *from;
        add_noise(key_of(study, MOST_STARTS * (k + 1) + number), kicks[k] * sqrt(square), SIZE, again.at);
        ICL_CHECK(finish(study, objective, &again, error));
        comes_back[k] = fabs(again.loss - from->loss) <= (SAME - 1) * from->loss;
    }
    return ICL_OK;
}

static icl_status look_at_other(const icl_study *study, icl_objective *objective, size_t number, const parts *minimum,
                                const end *other, icl_number *numbers, icl_error *error) {
    double least = 0, comes_back[KICKS];
    parts own;

    ICL_CHECK(parts_of(other->at, &own, error));
    ICL_CHECK(least_eigenvalue(study, objective, other->at, &least, error));
    ICL_CHECK(kick(study, objective, number, other, comes_back, error));
    numbers[OTHERS].value++;
    numbers[RATIO].value += other->loss / numbers[MINIMUM].value;
    numbers[RANK_ONE].value += own.rank_one / minimum->least_step;
    numbers[REST].value += own.square / minimum->square;
    numbers[EIGENVALUE].value = fmin(numbers[EIGENVALUE].value, least);
    for (size_t k = 0; k < KICKS; k++)
        numbers[BACK + k].value += comes_back[k];
    return ICL_OK;
}

/* The start of precondition-theory: a short step of gradient descent. It ends at theorem 1's minimum, as that study
 * holds. */
static void write_descent(double *at) {
    memset(at, 0, SIZE * sizeof *at);
    at[D * WIDTH + D] = .3;
    for (size_t i = 0; i < D; i++)
        at[BLOCK + i * (WIDTH + 1)] = -.3;
}

static icl_status measure_one(const icl_study *study, icl_trainer *fresh, icl_number *numbers, icl_error *error) {
    const size_t starts = budgets[study->scale].starts;
    icl_objective *objective = NULL;
    end one = {.loss = 0};
    parts minimum;
    size_t there = 0;
    icl_status status = ICL_OK;

    for (size_t i = 0; i < ONE_LAYER; i++)
        numbers[i].value = 0;
    ICL_TRY(open_batch(study, fresh, budgets[study->scale].sequences, TRAINING_BATCH, &objective, error));
    write_descent(one.at);
    ICL_TRY(finish(study, objective, &one, error));
    ICL_TRY(parts_of(one.at, &minimum, error));
    numbers[MINIMUM].value = one.loss;
    for (size_t i = 0; i < starts; i++) {
        memset(one.at, 0, sizeof one.at);
        add_noise(key_of(study, i), START_STD, SIZE, one.at);
        ICL_TRY(finish(study, objective, &one, error));
        if (one.loss <= SAME * numbers[MINIMUM].value)
            there++;
        else
            ICL_TRY(look_at_other(study, objective, i, &minimum, &one, numbers, error));
    }
    const double share = (double)there / (double)starts, others = numbers[OTHERS].value;
    numbers[STARTS].value = (double)starts;
    numbers[SHARE] = (icl_number){share, sqrt(share * (1 - share) / (double)starts)};
    for (size_t i = RATIO; i <= REST; i++)
        numbers[i].value /= others; /* NaN if there are none */
    for (size_t k = 0; k < KICKS; k++)
        numbers[BACK + k].value /= others;
done:
    icl_objective_destroy(&objective);
    return status;
}

/* ---- Three layers ---- */

static int compare_ends(const void *a, const void *b) {
    const end *x = a, *y = b;
    return (x->loss > y->loss) - (x->loss < y->loss);
}

/* Gathers the ends, ascending, into basins, and measures the best end of the first ones on fresh sequences. */
static icl_status gather(const icl_study *study, icl_objective *fresh, const end *ends, size_t count,
                         icl_number *numbers, icl_error *error) {
    const size_t sequences = icl_objective_sequences(fresh);
    size_t basins = 0, first = 0;
    double *losses = NULL;

    ICL_CHECK(icl_study_room(study, sequences, sizeof *losses, &losses, error));
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && ends[i].loss <= SAME * ends[first].loss) {
            if (basins <= LISTED)
                numbers[SHARES + basins - 1].value += 1 / (double)count;
            continue;
        }
        first = i;
        if (++basins > LISTED)
            continue;
        ICL_CHECK(icl_objective_losses(fresh, ends[i].at, losses, error));
        numbers[LOSSES + basins - 1].value = ends[i].loss;
        numbers[SHARES + basins - 1].value = 1 / (double)count;
        numbers[TRIMMED + basins - 1].value = icl_trimmed_mean(losses, sequences, .001);
    }
    numbers[BASINS].value = (double)basins;
    return ICL_OK;
}

/* A_l = -a_l Sigma^-1 and B_l = b_l I, as section 5.1 prints them. */
static const double printed_steps[LAYERS] = {.38, 2.40, 9.55}, printed_scales[LAYERS - 1] = {.90, .565};

/* Minimises from the printed weights; says how far that moves them, and in which of the starts' basins they end. */
static icl_status go_from_printed(const icl_study *study, icl_objective *batch, const end *ends, size_t count,
                                  icl_number *numbers, icl_error *error) {
    end printed = {.loss = 0};
    double largest = 0;
    size_t basin = 0, first = 0;

    for (size_t l = 0; l < LAYERS; l++) {
        const double q = sqrt(printed_steps[l]);
        printed.at[3 * l] = l + 1 < LAYERS ? -printed_scales[l] * q : 0;
        printed.at[3 * l + 1] = -q;
        printed.at[3 * l + 2] = q;
    }
    ICL_CHECK(finish(study, batch, &printed, error));
    for (size_t l = 0; l < LAYERS; l++) {
        const double *at = printed.at + 3 * l;
        numbers[STEPS + l].value = -at[1] * at[2];
        largest = fmax(largest, fabs(numbers[STEPS + l].value / printed_steps[l] - 1));
        if (l + 1 == LAYERS)
            break;
        numbers[SCALES + l].value = at[0] / at[1];
        largest = fmax(largest, fabs(numbers[SCALES + l].value / printed_scales[l] - 1));
    }
    numbers[DIFFERENCE].value = largest;
    numbers[PRINTED_LOSS].value = printed.loss;
    numbers[NEAREST].value = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || ends[i].loss > SAME * ends[first].loss) {
            first = i;
            basin++;
        }
        if (fabs(ends[i].loss - printed.loss) <= (SAME - 1) * printed.loss)
            numbers[NEAREST].value = (double)basin;
    }
    return ICL_OK;
}

static icl_status measure_three(const icl_study *study, icl_trainer *trainer, icl_number *numbers, icl_error *error) {
    const size_t starts = budgets[study->scale].deep_starts;
    icl_objective *batch = NULL, *fresh = NULL;
    end *ends = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_room(study, starts, sizeof *ends, &ends, error));
    ICL_TRY(open_batch(study, trainer, budgets[study->scale].deep_sequences, TRAINING_BATCH, &batch, error));
    ICL_TRY(open_batch(study, trainer, budgets[study->scale].fresh, 0, &fresh, error));
    for (size_t i = 0; i < starts; i++) {
        draw_layers(key_of(study, i), ends[i].at);
        ICL_TRY(finish(study, batch, &ends[i], error));
    }
    qsort(ends, starts, sizeof *ends, compare_ends);
    ICL_TRY(gather(study, fresh, ends, starts, numbers, error));
    ICL_TRY(go_from_printed(study, batch, ends, starts, numbers, error));
done:
    icl_objective_destroy(&batch);
    icl_objective_destroy(&fresh);
    return status;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *fresh, icl_number *numbers,
                          icl_error *error) {
    const starts_cell *data = cell->data;

    return data->is_deep ? measure_three(study, fresh, numbers, error) : measure_one(study, fresh, numbers, error);
}

/* ---- Judging ---- */

/* A Hessian by differences of gradients has zeros, along (g P, Q / g), to about 1e-9 of its largest eigenvalue. */
#define ROUNDING 1e-7

static void judge_one(icl_study *study, const icl_study_cell *cell) {
    const starts_cell *data = cell->data;
    const icl_number *numbers = cell->numbers;
    const bool is_always = data->share > 0;

    ICL_JUDGE(study, .quantity = "share of starts at the minimum", ICL_OURS(numbers[SHARE]), .target = is_always,
              .criterion = ICL_AT_LEAST, .evidence = is_always ? ICL_READ : ICL_EVIDENCE_NONE,
              .source = "section 4: always recovered",
              .note = ICL_PHRASE("of %.0f; squared error %.4f", numbers[STARTS].value, numbers[MINIMUM].value));
    if (is_always || !(numbers[OTHERS].value > 0))
        return;
    ICL_JUDGE(study, .quantity = "least eigenvalue at the others, over the largest", ICL_OURS(numbers[EIGENVALUE]),
              .tolerance = ROUNDING, .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED, .source = "a minimum",
              .note = ICL_PHRASE("%.0f others, %.2f times the minimum", numbers[OTHERS].value, numbers[RATIO].value));
    ICL_JUDGE(study, .quantity = "|p_x| |q| at the others, over the minimum's step along the largest variance",
              ICL_OURS(numbers[RANK_ONE]), .target = 1, .tolerance = .2, .evidence = ICL_INFERRED,
              .source = "rank one: one direction",
              .note = ICL_PHRASE("||p_y Q_xx|| %.2f of the minimum's", numbers[REST].value));
    ICL_JUDGE(study, .quantity = "share of the others that come back, disturbed by 3 %", ICL_OURS(numbers[BACK]),
              .target = 1, .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED, .source = "a minimum",
              .note = ICL_PHRASE("by 10 %%: %.2f, by 30 %%: %.2f", numbers[BACK + 1].value, numbers[BACK + 2].value));
}

/* The minimum of a batch scatters about that of others, and trainings stop beside theirs. */
static const double printed_tolerance[ICL_SCALES] = {.2, .1, .1};

static void judge_three(icl_study *study, const icl_study_cell *cell) {
    const icl_number *numbers = cell->numbers;
    icl_phrase all = {.text = ""};

    for (size_t i = 0; i < LISTED && (double)i < numbers[BASINS].value; i++)
        all = icl_phrase_print("%s%s%.3g (%.2f)", all.text, i > 0 ? ", " : "losses and shares of starts ",
                               numbers[LOSSES + i].value, numbers[SHARES + i].value);
    for (size_t i = 0; i < JUDGED_BASINS; i++)
        ICL_JUDGE(study, .quantity = ICL_PHRASE("squared error of basin %zu, on the batch", i + 1),
                  ICL_OURS(numbers[LOSSES + i]), .evidence = ICL_EVIDENCE_NONE,
                  .note = ICL_PHRASE("%.2f of all starts; fresh sequences, without the largest 0.1 %%: %.3g",
                                     numbers[SHARES + i].value, numbers[TRIMMED + i].value));
    ICL_JUDGE(study, .quantity = "basins", ICL_OURS(numbers[BASINS]), .target = JUDGED_BASINS,
              .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED, .source = "several minima", .note = all.text);
    ICL_JUDGE(study, .quantity = "largest change of the printed weights on their way to a minimum, relative",
              ICL_OURS(numbers[DIFFERENCE]), .tolerance = printed_tolerance[study->scale], .criterion = ICL_AT_MOST,
              .evidence = ICL_READ, .source = "section 5.1",
              .note =
                  ICL_PHRASE("a %.3f %.3f %.3f, b %.3f %.3f; squared error %.3g on the batch, %s", numbers[STEPS].value,
                             numbers[STEPS + 1].value, numbers[STEPS + 2].value, numbers[SCALES].value,
                             numbers[SCALES + 1].value, numbers[PRINTED_LOSS].value,
                             numbers[NEAREST].value > 0 ? icl_phrase_print("basin %.0f", numbers[NEAREST].value).text
                                                        : "where no start ended"));
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    const starts_cell *data = cell->data;

    data->is_deep ? judge_three(study, cell) : judge_one(study, cell);
}

const icl_reproduction icl_precondition_starts = ICL_STUDY(
        .name = "precondition-starts", .source = "arXiv 2306.00297, theorem 1 and section 5.1",
        .about = "where random starts end, all entries free: theorem 1's minimum or another, and for how long",
        .claim =
            "Random starts recover theorem 1's preconditioner if all inputs have the same variance; otherwise some "
            "end at another minimum, and three layers of GD++ have several.",
        .scope = "A met table means that all random starts end at the minimum where inputs have equal "
                 "variances, and that the other ends are minima, too; other optimizers than L-BFGS and "
                 "more than three layers were not tested.",
        .cost = {"5 s", "2 min", "5 min"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge);
