/*
 * Transience (Singh et al. 2025, arXiv 2503.05631): two mechanisms with the parts b and c in common, of which either
 * does the work, while a and d compete,
 *
 *     (L_abc + .1) L_dbc + .1 * 1/2 mean (p_a x p_d)^2,
 *
 * a, b and c of 20 numbers and d of 160. The short one, abc, is learned first and lost again.
 */
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "numeric/parallel.h"
#include "papers/curves.h"
#include "papers/induction/toys.h"

static const size_t abc[] = {ICL_TOY_A, ICL_TOY_B, ICL_TOY_C}, dbc[] = {ICL_TOY_D, ICL_TOY_B, ICL_TOY_C};

enum { TRANSIENCE_STEPS = 16000, POINTS = 40 };

#define REST 0.1 /* the loss that remains to learn by dbc once abc is right, and the weight of the competition */
#define BACK 0.2 /* the loss of abc above which it counts as lost */

typedef struct transience {
    double time[2];           /* of abc and dbc until a tenth of the start; infinite for never */
    double end[2];            /* loss / loss at the start, behind the last step */
    double losses[2][POINTS]; /* likewise, at the places */
} transience;

typedef struct transiences {
    const icl_reproducing *run;
    transience *seeds;
} transiences;

/* Iterations at which losses are kept, evenly by their logarithm. */
static size_t place(size_t point) {
    return (size_t)lround(pow(TRANSIENCE_STEPS, (double)(point + 1) / POINTS));
}

static void add_gradients(const icl_products *products, const double loss[2], icl_product_vectors gradient) {
    const double entries = (double)(products->length[ICL_TOY_A] * products->length[ICL_TOY_D]);
    const double of_a = icl_product_square(products, ICL_TOY_A), of_d = icl_product_square(products, ICL_TOY_D);

    icl_product_add_gradient(products, abc, loss[1], gradient);
    icl_product_add_gradient(products, dbc, loss[0] + REST, gradient);
    for (size_t i = 0; i < products->length[ICL_TOY_A]; i++)
        gradient[ICL_TOY_A][i] += REST * of_d * products->fitted[ICL_TOY_A][i] / entries;
    for (size_t i = 0; i < products->length[ICL_TOY_D]; i++)
        gradient[ICL_TOY_D][i] += REST * of_a * products->fitted[ICL_TOY_D][i] / entries;
}

static void run_transience(void *context, size_t index, size_t thread) {
    const transiences *all = context;
    transience *to = &all->seeds[index];
    icl_products products = {4, {20, 20, 20, 160}, {{0}}, {{0}}};
    double start[2], loss[2];

    (void)thread;
    icl_products_draw(&products, icl_reproduce_seed(all->run, index));
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
        icl_toy_step(&products, gradient);
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

icl_status icl_toys_transience(icl_reproducing *run, size_t count, icl_error *error) {
    transiences all = {.run = run};
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
