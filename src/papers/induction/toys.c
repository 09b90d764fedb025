/*
 * Two toys of how circuits of several parts are learned: three vectors must all be right before any of them helps.
 *
 * Clamping (Singh et al. 2024, "What needs to go right for an induction head?", arXiv 2404.07129): p_a x p_b x p_c
 * learns t_a x t_b x t_c, all of 20 standard normal numbers, by gradient descent with step 1, with nothing, c, or b and
 * c clamped to the truth. The time is that until the loss is a tenth of that of the prediction 0.
 *
 * Transience (Singh et al. 2025, arXiv 2503.05631): two mechanisms with the parts b and c in common, of which either
 * does the work, while a and d compete,
 *
 *     (L_abc + .1) L_dbc + .1 * 1/2 mean (p_a x p_d)^2,
 *
 * a, b and c of 20 numbers and d of 160, step 1. The short one, abc, is learned first and lost again.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "numeric/parallel.h"
#include "numeric/statistics.h"
#include "papers/curves.h"
#include "papers/induction/products.h"
#include "papers/papers.h"

enum { A, B, C, D }; /* the vectors */

static const size_t abc[] = {A, B, C}, dbc[] = {D, B, C};

/* Seeds of each toy. */
static const struct { size_t clamping, transience; } seeds[ICL_SCALES] = {{100, 10}, {200, 20}, {2000, 200}};

static void step(icl_products *products, icl_product_vectors gradient) {
    for (size_t v = 0; v < products->count; v++)
        for (size_t i = 0; i < products->length[v]; i++)
            products->fitted[v][i] -= gradient[v][i];
}

/* ---- Clamping ---- */

enum { CLAMPING_STEPS = 1000, PUBLISHED_SEEDS = 200, MOST_QUANTILES = 3 };

/* What a kind of clamping came to in 200 seeds of another program: the share of seeds that were done after so many
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

/* The times of all seeds, one for each of `count`: CLAMPING_STEPS + 1 for never. */
typedef struct clamping_times {
    const clamping *kind;
    uint32_t first_seed;
    size_t count;
    double *times;
} clamping_times;

static icl_products draw_clamped(const clamping_times *all, size_t seed) {
    icl_products products = {3, {20, 20, 20}, {{0}}, {{0}}};

    icl_products_draw(&products, all->first_seed + (uint32_t)seed);
    for (size_t v = C + 1 - all->kind->clamped; v <= C; v++)
        memcpy(products.fitted[v], products.truth[v], sizeof products.fitted[v]);
    return products;
}

static void measure_time(void *context, size_t index, size_t thread) {
    const clamping_times *all = context;
    icl_products products = draw_clamped(all, index);
    size_t done = 0;

    (void)thread;
    const double goal = .1 * icl_product_start(&products, abc);
    for (; done <= CLAMPING_STEPS && icl_product_loss(&products, abc) > goal; done++) {
        icl_product_vectors gradient = {{0}};
        icl_product_add_gradient(&products, abc, 1, gradient);
        for (size_t v = C + 1 - all->kind->clamped; v <= C; v++)
            memset(gradient[v], 0, sizeof gradient[v]);
        step(&products, gradient);
    }
    all->times[index] = (double)done;
}

static double share_within(const clamping_times *all, double iterations) {
    size_t within = 0;
    for (size_t i = 0; i < all->count; i++)
        within += all->times[i] <= iterations;
    return (double)within / (double)all->count;
}

/* The least time within which a share of the seeds was done; times are ascending. */
static double quantile(const clamping_times *all, double share) {
    const double place = ceil(share * (double)all->count) - 1;
    return all->times[(size_t)fmin(fmax(place, 0), (double)all->count - 1)];
}

/* The published time v is a sample quantile itself. If both samples are of one distribution, the share of ours within
 * v scatters about its share s with the variance s (1 - s) (1 / ours + 1 / theirs), whatever the distribution is. */
static icl_status judge_quantiles(icl_reproducing *run, const clamping_times *all, icl_error *error) {
    for (size_t i = 0; i < MOST_QUANTILES && all->kind->published[i].share > 0; i++) {
        const double share = all->kind->published[i].share;
        const size_t iterations = all->kind->published[i].iterations;
        const double variance = share * (1 - share), own = variance / (double)all->count;
        const double spread = 3 * sqrt(own);
        char quantity[96], note[128];

        snprintf(quantity, sizeof quantity, "share of seeds done within %zu iterations", iterations);
        snprintf(note, sizeof note, "of %zu; that share of ours took %g, within three standard errors %g to %g",
                 all->count, quantile(all, share), quantile(all, share - spread), quantile(all, share + spread));
        ICL_CHECK(ICL_FOUND(run, error, .what = all->kind->label, .quantity = quantity,
                            .ours = share_within(all, (double)iterations), .standard_error = sqrt(own), .target = share,
                            .tolerance = 3 * sqrt(own + variance / PUBLISHED_SEEDS), .evidence = ICL_COMPUTED,
                            .source = "200 seeds of another program", .note = note));
    }
    return ICL_OK;
}

/* With b and c clamped the loss is quadratic in a, and a step multiplies it by (1 - |t_b|^2 |t_c|^2 / n)^2: the time is
 * known beforehand. Returns how many seeds took it; times are in the order of the seeds. */
static size_t count_as_predicted(const clamping_times *all) {
    size_t count = 0;

    for (size_t i = 0; i < all->count; i++) {
        const icl_products start = draw_clamped(all, i);
        const double factor = 1 - icl_product_square(&start, B) * icl_product_square(&start, C) / (20. * 20 * 20);
        const double left = .1 * icl_product_start(&start, abc) / icl_product_loss(&start, abc);
        const double time = ceil(log(left) / (2 * log(fabs(factor))));
        count += all->times[i] == fmin(fmax(time, 0), CLAMPING_STEPS + 1);
    }
    return count;
}

static icl_status judge_prediction(icl_reproducing *run, const clamping_times *all, icl_error *error) {
    return ICL_FOUND(run, error, .what = all->kind->label, .quantity = "share of seeds whose time is the predicted one",
                     .ours = (double)count_as_predicted(all) / (double)all->count, .target = 1,
                     .evidence = ICL_COMPUTED, .source = "closed form of a quadratic loss");
}

static icl_status add_clamping_curves(icl_curves *curves, const clamping_times *all, icl_error *error) {
    char label[ICL_CURVE_LABEL];

    for (size_t iterations = 20; iterations <= CLAMPING_STEPS; iterations += 20)
        for (size_t i = 0; i < all->count; i++)
            ICL_CHECK(icl_curves_add(curves, all->kind->label, ICL_SERIES_LINE, (double)iterations,
                                     all->times[i] <= (double)iterations, error));
    snprintf(label, sizeof label, "%s, 200 seeds of another program", all->kind->label);
    for (size_t i = 0; i < MOST_QUANTILES && all->kind->published[i].share > 0; i++)
        ICL_CHECK(icl_curves_add(curves, label, ICL_SERIES_PUBLISHED, (double)all->kind->published[i].iterations,
                                 all->kind->published[i].share, error));
    return ICL_OK;
}

static icl_status reproduce_clamping(icl_reproducing *run, icl_error *error) {
    icl_curves curves = {.figure = {.name = "clamping",
                                    .title = "Seeds whose loss is below a tenth of its start",
                                    .x_label = "iterations",
                                    .y_label = "share of seeds",
                                    .log_x = true}};
    clamping_times all = {.first_seed = run->params->seed, .count = seeds[run->params->scale].clamping};
    double slower = 0;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(all.count, sizeof *all.times, "times", &all.times, error));
    for (size_t i = 0; i < sizeof clampings / sizeof *clampings; i++) {
        all.kind = &clampings[i];
        icl_parallel_for(all.count, icl_parallel_threads(), measure_time, &all);
        if (all.kind->clamped == 2)
            ICL_TRY(judge_prediction(run, &all, error));
        icl_sort_ascending(all.times, all.count);
        ICL_TRY(judge_quantiles(run, &all, error));
        ICL_TRY(add_clamping_curves(&curves, &all, error));
        if (all.kind->clamped == 2)
            ICL_TRY(ICL_FOUND(run, error, .what = all.kind->label, .quantity = "median iterations",
                              .ours = quantile(&all, .5), .target = slower, .criterion = ICL_AT_MOST,
                              .evidence = ICL_COMPUTED, .source = "faster still than with c alone"));
        slower = quantile(&all, .5);
    }
    ICL_TRY(icl_curves_draw(run, &curves, error));
done:
    icl_free(&all.times);
    icl_curves_release(&curves);
    return status;
}

/* ---- Transience ---- */

enum { TRANSIENCE_STEPS = 16000, POINTS = 40 };

#define REST 0.1 /* the loss that remains to learn by dbc once abc is right, and the weight of the competition */
#define BACK 0.2 /* the loss of abc above which it counts as lost */

typedef struct transience {
    double time[2];           /* of abc and dbc until a tenth of the start; infinite for never */
    double end[2];            /* loss / loss at the start, behind the last step */
    double losses[2][POINTS]; /* likewise, at the places */
} transience;

typedef struct transiences {
    uint32_t first_seed;
    transience *seeds;
} transiences;

/* Iterations at which losses are kept, evenly by their logarithm. */
static size_t place(size_t point) {
    return (size_t)lround(pow(TRANSIENCE_STEPS, (double)(point + 1) / POINTS));
}

static void add_gradients(const icl_products *products, const double loss[2], icl_product_vectors gradient) {
    const double entries = (double)(products->length[A] * products->length[D]);
    const double of_a = icl_product_square(products, A), of_d = icl_product_square(products, D);

    icl_product_add_gradient(products, abc, loss[1], gradient);
    icl_product_add_gradient(products, dbc, loss[0] + REST, gradient);
    for (size_t i = 0; i < products->length[A]; i++)
        gradient[A][i] += REST * of_d * products->fitted[A][i] / entries;
    for (size_t i = 0; i < products->length[D]; i++)
        gradient[D][i] += REST * of_a * products->fitted[D][i] / entries;
}

static void run_transience(void *context, size_t index, size_t thread) {
    const transiences *all = context;
    transience *to = &all->seeds[index];
    icl_products products = {4, {20, 20, 20, 160}, {{0}}, {{0}}};
    double start[2], loss[2];

    (void)thread;
    icl_products_draw(&products, all->first_seed + (uint32_t)index);
    start[0] = icl_product_loss(&products, abc);
    start[1] = icl_product_loss(&products, dbc);
    to->time[0] = to->time[1] = (double)INFINITY;
    for (size_t done = 0, point = 0;; done++) {
        loss[0] = icl_product_loss(&products, abc);
        loss[1] = icl_product_loss(&products, dbc);
        for (size_t m = 0; m < 2; m++)
            if (loss[m] <= .1 * start[m])
                to->time[m] = fmin(to->time[m], (double)done);
        for (; point < POINTS && place(point) == done; point++)
            for (size_t m = 0; m < 2; m++)
                to->losses[m][point] = loss[m] / start[m];
        if (done == TRANSIENCE_STEPS)
            break;
        icl_product_vectors gradient = {{0}};
        add_gradients(&products, loss, gradient);
        step(&products, gradient);
    }
    for (size_t m = 0; m < 2; m++)
        to->end[m] = loss[m] / start[m];
}

static icl_status draw_transience(icl_reproducing *run, const transiences *all, size_t count, icl_error *error) {
    static const char *const labels[] = {"abc, learned first", "dbc"};
    icl_curves curves = {.figure = {.name = "transience",
                                    .title = "Two mechanisms that share parts",
                                    .x_label = "iterations",
                                    .y_label = "loss / loss at the start",
                                    .log_x = true}};
    icl_status status = ICL_OK;

    for (size_t m = 0; m < 2; m++)
        for (size_t point = 0; point < POINTS; point++)
            for (size_t i = 0; i < count; i++)
                ICL_TRY(icl_curves_add(&curves, labels[m], ICL_SERIES_LINE, (double)place(point),
                                       all->seeds[i].losses[m][point], error));
    ICL_TRY(icl_curves_draw(run, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

static icl_status judge_count(icl_reproducing *run, const char *quantity, size_t ours, size_t count, double target,
                              icl_error *error) {
    const double share = (double)ours / (double)count, variance = target * (1 - target);
    char note[64];

    snprintf(note, sizeof note, "%zu of %zu seeds", ours, count);
    return ICL_FOUND(run, error, .what = "two mechanisms", .quantity = quantity, .ours = share,
                     .standard_error = sqrt(share * (1 - share) / (double)count), .target = target,
                     .tolerance = 3 * sqrt(variance / (double)count + variance / 20), .evidence = ICL_COMPUTED,
                     .source = "20 seeds of another program", .note = note);
}

static icl_status reproduce_transience(icl_reproducing *run, icl_error *error) {
    const size_t count = seeds[run->params->scale].transience;
    transiences all = {.first_seed = run->params->seed};
    size_t first = 0, lost = 0;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(count, sizeof *all.seeds, "seeds", &all.seeds, error));
    icl_parallel_for(count, icl_parallel_threads(), run_transience, &all);
    for (size_t i = 0; i < count; i++) {
        first += all.seeds[i].time[0] < all.seeds[i].time[1];
        lost += all.seeds[i].end[0] > BACK && all.seeds[i].end[1] < .01;
    }
    ICL_TRY(judge_count(run, "share of seeds in which abc comes before dbc", first, count, 19. / 20, error));
    ICL_TRY(judge_count(run, "share of seeds in which abc is lost and dbc stays", lost, count, 17. / 20, error));
    ICL_TRY(draw_transience(run, &all, count, error));
done:
    icl_free(&all.seeds);
    return status;
}

/* ---- The reproduction ---- */

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    if (icl_reproduce_wants(run, "clamping"))
        ICL_CHECK(reproduce_clamping(run, error));
    if (icl_reproduce_wants(run, "transience"))
        ICL_CHECK(reproduce_transience(run, error));
    return ICL_OK;
}

const icl_reproduction icl_induction_toys = {
    .name = "induction-toys",
    .source = "arXiv 2404.07129 and 2503.05631",
    .about = "outer products learned by outer products: parts that are given, and a mechanism that is lost again",
    .cost = {"1 s", "2 s", "15 s"},
    .run = reproduce,
};
