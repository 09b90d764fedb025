/*
 * Clamping (Singh et al. 2024, "What needs to go right for an induction head?", arXiv 2404.07129): p_a x p_b x p_c
 * learns t_a x t_b x t_c, all of 20 standard normal numbers, with nothing, c, or b and c clamped to the truth. The time
 * is that until the loss is a tenth of that of the prediction 0.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "numeric/parallel.h"
#include "numeric/statistics.h"
#include "papers/curves.h"
#include "papers/induction/toys.h"

static const size_t abc[] = {ICL_TOY_A, ICL_TOY_B, ICL_TOY_C};

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
    const icl_reproducing *run;
    size_t count;
    double *times;
} clamping_times;

static icl_products draw_clamped(const clamping_times *all, size_t seed) {
    icl_products products = {3, {20, 20, 20}, {{0}}, {{0}}};

    icl_products_draw(&products, icl_reproduce_seed(all->run, seed));
    for (size_t v = ICL_TOY_C + 1 - all->kind->clamped; v <= ICL_TOY_C; v++)
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
        for (size_t v = ICL_TOY_C + 1 - all->kind->clamped; v <= ICL_TOY_C; v++)
            memset(gradient[v], 0, sizeof gradient[v]);
        icl_toy_step(&products, gradient);
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
        icl_print(note, sizeof note, "of %zu; that share of ours took %g, within three standard errors %g to %g",
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
        const double factor =
            1 - icl_product_square(&start, ICL_TOY_B) * icl_product_square(&start, ICL_TOY_C) / (20. * 20 * 20);
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

icl_status icl_toys_clamping(icl_reproducing *run, size_t seeds, icl_error *error) {
    icl_curves curves = {.figure = {.name = "clamping",
                                    .title = "Seeds whose loss is below a tenth of its start",
                                    .x_label = "iterations",
                                    .y_label = "share of seeds",
                                    .log_x = true}};
    clamping_times all = {.run = run, .count = seeds};
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
