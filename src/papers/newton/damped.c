/* Damped Newton steps of logistic regression: the decrement squares, so that digits double with every step. */
#include <math.h>
#include <stdio.h>

#include "core/print.h"
#include "papers/newton/logistic.h"
#include "papers/newton/newton.h"

enum { MOST_STEPS = 60 };

/* Where rounding ends the squaring. */
#define ROUNDING 1e-12

/* The decrements of a problem, and how many until one is below ROUNDING, that one included. */
static size_t follow(const icl_logistic *problem, icl_logistic_point points[MOST_STEPS]) {
    double at[ICL_LOGISTIC_D] = {0};

    for (size_t step = 0; step < MOST_STEPS; step++) {
        points[step] = icl_logistic_step(problem, at);
        if (points[step].decrement < ROUNDING)
            return step + 1;
    }
    return MOST_STEPS;
}

static icl_status judge_one(icl_reproducing *run, icl_error *error) {
    icl_logistic problem;
    icl_logistic_point points[MOST_STEPS];
    double at[MOST_STEPS], decrements[MOST_STEPS], gradients[MOST_STEPS];
    char what[32], note[48];

    icl_logistic_draw(run->params->seed, 0, &problem);
    const size_t count = follow(&problem, points);
    for (size_t step = 0; step < count; step++) {
        at[step] = (double)step;
        decrements[step] = points[step].decrement;
        gradients[step] = points[step].gradient_norm;
        if (step == 0)
            continue;
        snprintf(what, sizeof what, "logistic, step %zu", step);
        icl_print(note, sizeof note, "||gradient|| %.2g", gradients[step]);
        ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "Newton decrement", .ours = decrements[step],
                            .target = 2 * decrements[step - 1] * decrements[step - 1], .tolerance = ROUNDING,
                            .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED,
                            .source = "twice the square of the last one", .note = note));
    }
    const icl_series series[] = {{"Newton decrement", ICL_SERIES_OURS, count, at, decrements, NULL},
                                 {"||gradient||", ICL_SERIES_LINE, count, at, gradients, NULL}};
    return ICL_DRAW_FIGURE(run, error, .name = "newton-logistic",
                           .title = "Logistic regression by damped Newton steps, d = 5, n = 26", .x_label = "steps",
                           .y_label = "decrement, gradient", .log_y = true, .count = 2, .series = series);
}

/* What is worst of many problems: the share of the bound that a step uses, steps in all, and those from .1 on. */
static icl_status judge_many(icl_reproducing *run, size_t problems, icl_error *error) {
    icl_logistic_point points[MOST_STEPS];
    double share = 0, steps = 0, last = 0, bound = 0, decrement = .1;
    icl_logistic problem;
    char what[48], note[64];

    for (size_t i = 0; i < problems; i++) {
        icl_logistic_draw(run->params->seed, i, &problem);
        const size_t count = follow(&problem, points);
        size_t small = 0;
        for (size_t step = 0; step < count; step++) {
            small += points[step].decrement < .1;
            if (step > 0)
                share = fmax(share, fmax(points[step].decrement - ROUNDING, 0) /
                                        (2 * points[step - 1].decrement * points[step - 1].decrement));
        }
        steps = fmax(steps, (double)count);
        last = fmax(last, (double)small);
        if (i % 100 == 0)
            ICL_CHECK(icl_reproduce_poll(run, error));
    }
    while (decrement >= ROUNDING) {
        decrement *= 2 * decrement;
        bound++;
    }
    snprintf(what, sizeof what, "logistic, worst of %zu", problems);
    icl_print(note, sizeof note, "at most %.0f steps in all", steps);
    ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "decrement by twice the last one's square", .ours = share,
                        .target = 1, .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED,
                        .source = "Nesterov, theorem 5.2.2"));
    return ICL_FOUND(run, error, .what = what, .quantity = "steps from .1 to 1e-12", .ours = last, .target = bound + 1,
                     .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED, .source = "log log: 2 delta^2 from .1 on",
                     .note = note);
}

icl_status icl_newton_judge_logistic(icl_reproducing *run, size_t problems, icl_error *error) {
    ICL_CHECK(judge_one(run, error));
    return judge_many(run, problems, error);
}
