/*
 * Toy models of how circuits of several parts are learned: vectors a, b, c and d learn outer products (induction.h) by
 * gradient descent with step 1, and three vectors must all be right before any of them helps.
 *
 * Clamping (Singh et al. 2024, "What needs to go right for an induction head?", arXiv 2404.07129): p_a x p_b x p_c
 * learns t_a x t_b x t_c, all of 20 standard normal numbers, with nothing, c, or b and c clamped to the truth. The time
 * is the number of iterations until the loss is a tenth of that of the prediction 0.
 *
 * Transience (Singh et al. 2025, arXiv 2503.05631): two mechanisms share the parts b and c; either can do the work,
 * while a and d compete,
 *
 *     (L_abc + .1) L_dbc + .1 * 1/2 mean (p_a x p_d)^2,
 *
 * a, b and c of 20 numbers and d of 160. The short one, abc, is learned first and lost again.
 */
#include <math.h>
#include <string.h>

#include "core/threads.h"
#include "iclab/random.h"
#include "numeric/statistics.h"
#include "papers/induction/induction.h"
#include "papers/papers.h"

enum { A = 0, B, C, D };

static const size_t abc[] = {A, B, C}, dbc[] = {D, B, C};

enum { MOST_CLAMPED = 2000, MOST_TRANSIENT = 200, PUBLISHED_SEEDS = 200, MOST_QUANTILES = 3 };
enum { CLAMPING_STEPS = 1000, TRANSIENCE_STEPS = 16000, POINTS = 40 };

#define REST 0.1 /* the loss that dbc can still reduce once abc is right, and the weight of the competition */
#define BACK 0.2 /* the loss of abc above which it counts as lost */

/* Seeds of each toy. */
static const struct {
    size_t clamping, transience;
} seeds[ICL_SCALES] = {{100, 10}, {200, 20}, {MOST_CLAMPED, MOST_TRANSIENT}};

/* A kind of clamping, and the results of another program with 200 seeds: the shares that were done by these
 * iterations. */
typedef struct clamping {
    const char *label;
    size_t clamped; /* how many of c, b */
    struct {
        double share;
        size_t iterations;
    } published[MOST_QUANTILES];
} clamping;

static const clamping clampings[] = {
    {"nothing clamped", 0, {{.1, 147}, {.5, 410}, {157. / PUBLISHED_SEEDS, CLAMPING_STEPS}}},
    {"c clamped", 1, {{.1, 50}, {.5, 93}, {.9, 219}}},
    {"b and c clamped", 2, {{0}}},
};

static void plan(icl_study *study) {
    for (size_t i = 0; i < sizeof clampings / sizeof *clampings; i++)
        ICL_ADD_CELL(study, .name = clampings[i].label, .group = "clamping", .data = &clampings[i]);
    ICL_ADD_CELL(study, .name = "two mechanisms", .group = "transience");
}

/* ---- Outer products ---- */

/* The upper bits are reserved for the papers. */
#define PRODUCTS_STREAM 0x70610000u

static double dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

void icl_products_draw(icl_products *products, uint32_t seed) {
    for (size_t v = 0; v < products->count; v++)
        for (size_t i = 0; i < products->length[v]; i++) {
            const uint64_t index = v * ICL_PRODUCT_LENGTH + i;
            const icl_random_key truth = {seed, PRODUCTS_STREAM, 0}, fitted = {seed, PRODUCTS_STREAM, 1};
            products->truth[v][i] = (double)icl_normal_from_word(icl_random_word(truth, index));
            products->fitted[v][i] = (double)icl_normal_from_word(icl_random_word(fitted, index));
        }
}

static double square_of(const icl_products *products, size_t vector) {
    return dot(products->fitted[vector], products->fitted[vector], products->length[vector]);
}

/* Returns the products over the three factors except `without` (3: no exception) of |p|^2, <p, t>, |t|^2 and d. */
typedef struct contraction {
    double fitted, mixed, truth, entries;
} contraction;

static contraction contract(const icl_products *products, const size_t factors[3], size_t without) {
    contraction of = {1, 1, 1, 1};

    for (size_t i = 0; i < 3; i++) {
        const double *p = products->fitted[factors[i]], *t = products->truth[factors[i]];
        const size_t length = products->length[factors[i]];
        of.entries *= (double)length;
        if (i == without)
            continue;
        of.fitted *= dot(p, p, length);
        of.mixed *= dot(p, t, length);
        of.truth *= dot(t, t, length);
    }
    return of;
}

double icl_product_loss(const icl_products *products, const size_t factors[3]) {
    const contraction all = contract(products, factors, 3);
    return (all.fitted - 2 * all.mixed + all.truth) / (2 * all.entries);
}

double icl_product_start(const icl_products *products, const size_t factors[3]) {
    const contraction all = contract(products, factors, 3);
    return all.truth / (2 * all.entries);
}

void icl_product_add_gradient(const icl_products *products, const size_t factors[3], double weight,
                              icl_product_vectors gradient) {
    for (size_t i = 0; i < 3; i++) {
        const size_t v = factors[i];
        const contraction others = contract(products, factors, i);
        for (size_t j = 0; j < products->length[v]; j++)
            gradient[v][j] += weight * (others.fitted * products->fitted[v][j] - others.mixed * products->truth[v][j]) /
                              others.entries;
    }
}

/* ---- Gradient descent ---- */

enum {
    PREDICTED = 0,                /* share of seeds whose time is the predicted one */
    TIMES,                        /* ascending times; CLAMPING_STEPS + 1 for never */
    FIRST = TIMES + MOST_CLAMPED, /* by seed: whether abc is right before dbc; whether it is lost and dbc stays */
    LOST = FIRST + MOST_TRANSIENT,
    LOSSES = LOST + MOST_TRANSIENT, /* loss / loss at the start, [2][POINTS][MOST_TRANSIENT] of abc and dbc */
    NUMBERS = LOSSES + 2 * POINTS * MOST_TRANSIENT
};

/* All seeds of a cell. */
typedef struct simulation {
    const icl_study *study;
    const clamping *kind;
    double *times;       /* of a clamping */
    icl_number *numbers; /* of transience */
} simulation;

static void take_step(icl_products *products, icl_product_vectors gradient) {
    for (size_t v = 0; v < products->count; v++)
        for (size_t i = 0; i < products->length[v]; i++)
            products->fitted[v][i] -= gradient[v][i];
}

static icl_products draw_clamped(const simulation *sim, size_t seed) {
    icl_products products = {3, {20, 20, 20}, {{0}}, {{0}}};

    icl_products_draw(&products, icl_study_seed(sim->study, seed));
    for (size_t v = C + 1 - sim->kind->clamped; v <= C; v++)
        memcpy(products.fitted[v], products.truth[v], sizeof products.fitted[v]);
    return products;
}

static void simulate_clamping(void *context, size_t seed, size_t thread) {
    const simulation *sim = context;
    icl_products products = draw_clamped(sim, seed);
    size_t done = 0;

    (void)thread;
    const double goal = .1 * icl_product_start(&products, abc);
    for (; done <= CLAMPING_STEPS && icl_product_loss(&products, abc) > goal; done++) {
        icl_product_vectors gradient = {{0}};
        icl_product_add_gradient(&products, abc, 1, gradient);
        for (size_t v = C + 1 - sim->kind->clamped; v <= C; v++)
            memset(gradient[v], 0, sizeof gradient[v]);
        take_step(&products, gradient);
    }
    sim->times[seed] = (double)done;
}

/* With b and c clamped the loss is quadratic in a, and a step multiplies it by (1 - |t_b|^2 |t_c|^2 / n)^2, so that the
 * time can be predicted. */
static double predict_time(const simulation *sim, size_t seed) {
    const icl_products start = draw_clamped(sim, seed);
    const double factor = 1 - square_of(&start, B) * square_of(&start, C) / (20. * 20 * 20);
    const double left = .1 * icl_product_start(&start, abc) / icl_product_loss(&start, abc);

    return fmin(fmax(ceil(log(left) / (2 * log(fabs(factor)))), 0), CLAMPING_STEPS + 1);
}

/* Returns the iteration at which losses are kept, evenly spaced in its logarithm. */
static size_t place(size_t point) {
    return (size_t)lround(pow(TRANSIENCE_STEPS, (double)(point + 1) / POINTS));
}

static size_t loss_at(size_t mechanism, size_t point, size_t seed) {
    return LOSSES + (mechanism * POINTS + point) * MOST_TRANSIENT + seed;
}

static void add_gradients(const icl_products *products, const double loss[2], icl_product_vectors gradient) {
    const double entries = (double)(products->length[A] * products->length[D]);
    const double square_a = square_of(products, A), square_d = square_of(products, D);

    icl_product_add_gradient(products, abc, loss[1], gradient);
    icl_product_add_gradient(products, dbc, loss[0] + REST, gradient);
    for (size_t i = 0; i < products->length[A]; i++)
        gradient[A][i] += REST * square_d * products->fitted[A][i] / entries;
    for (size_t i = 0; i < products->length[D]; i++)
        gradient[D][i] += REST * square_a * products->fitted[D][i] / entries;
}

/* Simulates transience. A mechanism's time is the iteration at which its loss falls to a tenth of its start. */
static void simulate_transience(void *context, size_t seed, size_t thread) {
    const simulation *sim = context;
    icl_products products = {4, {20, 20, 20, 160}, {{0}}, {{0}}};
    double start[2], loss[2], time[2] = {(double)INFINITY, (double)INFINITY};

    (void)thread;
    icl_products_draw(&products, icl_study_seed(sim->study, seed));
    start[0] = icl_product_loss(&products, abc);
    start[1] = icl_product_loss(&products, dbc);
    for (size_t done = 0, point = 0;; done++) {
        loss[0] = icl_product_loss(&products, abc);
        loss[1] = icl_product_loss(&products, dbc);
        for (size_t m = 0; m < 2; m++)
            if (loss[m] <= .1 * start[m])
                time[m] = fmin(time[m], (double)done);
        for (; point < POINTS && place(point) == done; point++)
            for (size_t m = 0; m < 2; m++)
                sim->numbers[loss_at(m, point, seed)].value = loss[m] / start[m];
        if (done == TRANSIENCE_STEPS)
            break;
        icl_product_vectors gradient = {{0}};
        add_gradients(&products, loss, gradient);
        take_step(&products, gradient);
    }
    sim->numbers[FIRST + seed].value = time[0] < time[1];
    sim->numbers[LOST + seed].value = loss[0] / start[0] > BACK && loss[1] / start[1] < .01;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    double times[MOST_CLAMPED];
    simulation all = {study, cell->data, times, numbers};
    const size_t count = all.kind ? seeds[study->scale].clamping : seeds[study->scale].transience;
    size_t predicted = 0;

    (void)trained, (void)error;
    icl_parallel_for(count, icl_parallel_threads(), all.kind ? simulate_clamping : simulate_transience, &all);
    if (!all.kind)
        return ICL_OK;
    for (size_t seed = 0; seed < count; seed++)
        predicted += times[seed] == predict_time(&all, seed);
    numbers[PREDICTED].value = (double)predicted / (double)count;
    icl_sort_ascending(times, count);
    for (size_t seed = 0; seed < count; seed++)
        numbers[TIMES + seed].value = times[seed];
    return ICL_OK;
}

/* ---- Judging ---- */

static double share_within(const icl_number *times, size_t count, double iterations) {
    size_t within = 0;
    for (size_t i = 0; i < count; i++)
        within += times[i].value <= iterations;
    return (double)within / (double)count;
}

/* Returns the least time within which a share of the seeds was done. */
static double quantile(const icl_number *times, size_t count, double share) {
    const double place_of_share = ceil(share * (double)count) - 1;
    return times[(size_t)fmin(fmax(place_of_share, 0), (double)count - 1)].value;
}

/* The published time v is itself a sample quantile. If both samples come from one distribution, the share of ours
 * within v scatters about its share s with the variance s (1 - s) (1 / ours + 1 / theirs), whatever the distribution
 * is. */
static void judge_quantiles(icl_study *study, const clamping *kind, const icl_number *times) {
    const size_t count = seeds[study->scale].clamping;

    for (size_t i = 0; i < MOST_QUANTILES && kind->published[i].share > 0; i++) {
        const double share = kind->published[i].share, iterations = (double)kind->published[i].iterations;
        const double variance = share * (1 - share), own = variance / (double)count, spread = 3 * sqrt(own);
        ICL_JUDGE(study, .quantity = ICL_PHRASE("share of seeds done within %g iterations", iterations),
                  .ours = share_within(times, count, iterations), .standard_error = sqrt(own), .target = share,
                  .tolerance = 3 * sqrt(own + variance / PUBLISHED_SEEDS), .evidence = ICL_COMPUTED,
                  .source = "200 seeds of another program",
                  .note = ICL_PHRASE("of %zu; that share of ours took %g, within three standard errors %g to %g", count,
                                     quantile(times, count, share), quantile(times, count, share - spread),
                                     quantile(times, count, share + spread)));
    }
}

static void judge_clamping(icl_study *study, const icl_study_cell *cell) {
    const clamping *kind = cell->data;
    const size_t count = seeds[study->scale].clamping;

    judge_quantiles(study, kind, &cell->numbers[TIMES]);
    if (kind->clamped < 2)
        return;
    const icl_study_cell *slower = icl_study_find(study, "c clamped");
    ICL_JUDGE(study, .quantity = "share of seeds whose time is the predicted one", ICL_OURS(cell->numbers[PREDICTED]),
              .target = 1, .evidence = ICL_COMPUTED, .source = "closed form of a quadratic loss");
    ICL_JUDGE(study, .quantity = "median iterations", .ours = quantile(&cell->numbers[TIMES], count, .5),
              .target = quantile(&slower->numbers[TIMES], count, .5), .criterion = ICL_AT_MOST,
              .evidence = ICL_COMPUTED, .source = "faster still than with c alone");
}

static void judge_share(icl_study *study, const char *quantity, const icl_number *flags, double target) {
    const size_t count = seeds[study->scale].transience;
    const double variance = target * (1 - target);
    double sum = 0;

    for (size_t seed = 0; seed < count; seed++)
        sum += flags[seed].value;
    const double share = sum / (double)count;
    ICL_JUDGE(study, .quantity = quantity, .ours = share, .standard_error = sqrt(share * (1 - share) / (double)count),
              .target = target, .tolerance = 3 * sqrt(variance / (double)count + variance / 20),
              .evidence = ICL_COMPUTED, .source = "20 seeds of another program",
              .note = ICL_PHRASE("%g of %zu seeds", sum, count));
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    if (cell->data) {
        judge_clamping(study, cell);
        return;
    }
    judge_share(study, "share of seeds in which abc comes before dbc", &cell->numbers[FIRST], 19. / 20);
    judge_share(study, "share of seeds in which abc is lost and dbc stays", &cell->numbers[LOST], 17. / 20);
}

/* ---- Figures ---- */

static void draw_clamping(icl_study *study) {
    icl_curves curves = {
        .figure = {"clamping", "Seeds whose loss is below a tenth of its start", "iterations", "share of seeds", true}};

    for (size_t k = 0; k < sizeof clampings / sizeof *clampings; k++) {
        const clamping *kind = &clampings[k];
        const icl_number *times = &icl_study_find(study, kind->label)->numbers[TIMES];
        for (size_t iterations = 20; iterations <= CLAMPING_STEPS; iterations += 20)
            for (size_t i = 0; i < seeds[study->scale].clamping; i++)
                icl_study_plot(study, &curves, kind->label, ICL_SERIES_LINE, (double)iterations,
                               isnan(times[i].value) ? times[i].value : times[i].value <= (double)iterations);
        for (size_t i = 0; i < MOST_QUANTILES && kind->published[i].share > 0; i++)
            icl_study_plot(study, &curves, ICL_PHRASE("%s, 200 seeds of another program", kind->label),
                           ICL_SERIES_PUBLISHED, (double)kind->published[i].iterations, kind->published[i].share);
    }
    icl_study_draw(study, &curves);
}

static void draw_transience(icl_study *study) {
    static const char *const labels[] = {"abc, learned first", "dbc"};
    const icl_number *numbers = icl_study_find(study, "two mechanisms")->numbers;
    icl_curves curves = {
        .figure = {"transience", "Two mechanisms that share parts", "iterations", "loss / loss at the start", true}};

    for (size_t m = 0; m < 2; m++)
        for (size_t point = 0; point < POINTS; point++)
            for (size_t seed = 0; seed < seeds[study->scale].transience; seed++)
                icl_study_plot(study, &curves, labels[m], ICL_SERIES_LINE, (double)place(point),
                               numbers[loss_at(m, point, seed)].value);
    icl_study_draw(study, &curves);
}

static void conclude(icl_study *study) {
    draw_clamping(study);
    draw_transience(study);
}

const icl_reproduction icl_induction_toys = ICL_STUDY(
        .name = "induction-toys", .source = "arXiv 2404.07129 and 2503.05631",
        .about = "outer products learned by outer products: parts that are given, and a mechanism that is lost again",
        .claim =
            "A product of three learned parts is learned sooner where some parts are given, and a mechanism that is "
            "learned first is lost again to one that shares its parts.",
        .scope = "A met table means that vectors learn products as fast as another program's did and lose "
                 "the short mechanism as often; that attention learns by the same law was not tested here.",
        .cost = {"1 s", "2 s", "15 s"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
        .conclude = conclude);
