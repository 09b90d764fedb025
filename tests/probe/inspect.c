/* Tests the inspection of models whose weights implement a known algorithm: it is named, with its constants, and every
 * part has the role and the cost that follow from the construction. */
#include <math.h>

#include "fixture.h"
#include "papers/checked.h"
#include "probe/inspection.h"
#include "run/evaluation.h"

enum { D = 3, N = 8, WIDTH = D + 1 };

/* The formula of a layer. */
static const char *formula_of(const fixture *f, size_t layer) {
    const found *result = find(f, layer, "formula", "");
    return result ? result->quantity : "(not found)";
}

static icl_status open_small(fixture *f, const char *const *overrides, icl_error *error) {
    static const char *const base[] = {"task.d=3", "task.n=8", "train.batch=1", "train.growth=0", "eval.every=0", NULL};
    return open_fixture(f, base, overrides, error);
}

static void note_formulas(const fixture *f, size_t layers) {
    for (size_t layer = 1; layer <= layers; layer++)
        tap_note("layer %zu: %s (%s)", layer, formula_of(f, layer), note_of(f, layer, "formula", ""));
}

/* ---- Gradient descent ---- */

static void test_descent(tap_run *tap) {
    static const char *const overrides[] = {"model.layers=1", "model.parameterization=full", "task.noise=uniform:1",
                                            NULL};
    const double rate = .0625;
    fixture f = {0};
    icl_error error = {0};

    if (tap_status(tap, open_small(&f, overrides, &error), &error, "a full layer")) {
        icl_gd_construct(icl_trainer_model(f.trainer), &(icl_descent){1, &rate, NULL}, D, N, f.values);
        if (tap_status(tap, inspect(&f, &error), &error, "inspected")) {
            note_formulas(&f, 1);
            tap_ok(tap, strstr(f.summary, "is, to rounding, 1 step of gradient descent (steps 0.0625)") != NULL,
                   "a constructed step is named with its size");
            tap_ok(tap, strcmp(formula_of(&f, 1), "y <- y - 0.0625 <a, x>") == 0, "and is its formula");
            tap_ok(tap, fabs(value_of(&f, 1, "w_yx", "n times the coefficient") + N * rate) < 1e-6, "n w_yx");
            tap_ok(tap, value_of(&f, 1, "gradient descent: w_yx", "distance") < 1e-6, "its distance from the pattern");
            tap_ok(tap, value_of(&f, 0, "gd:1", "cosine") > 1 - 1e-9, "the cosine of sensitivities is 1");
            tap_ok(tap, value_of(&f, 1, "w_yy", "predictions move") == 0, "the other terms do nothing");
            tap_ok(tap, value_of(&f, 1, "w_yx", "predictions move") == 1, "without the step it predicts nothing");
            tap_ok(tap, f.steps_back == 0 && f.doing[0] != '\0', "each part's progress goes on, from 0 to 1");
        }
    }
    close_fixture(&f);
}

/* Tests as many steps as inspect has constants for, and one more, for which it looks for an algorithm of fewer
 * steps. */
static void test_many_steps(tap_run *tap, size_t steps) {
    char layers[32], named[48];
    const char *const overrides[] = {layers, "model.parameterization=gd++", "task.noise=uniform:1", NULL};
    double rates[ICL_INSPECT_MOST_STEPS + 1];
    fixture f = {0};
    icl_error error = {0};

    snprintf(layers, sizeof layers, "model.layers=%zu", steps);
    snprintf(named, sizeof named, "%zu steps of gradient descent", steps);
    for (size_t i = 0; i < steps; i++)
        rates[i] = .01;
    if (tap_status(tap, open_small(&f, overrides, &error), &error, layers)) {
        icl_gd_construct(icl_trainer_model(f.trainer), &(icl_descent){steps, rates, NULL}, D, N, f.values);
        if (tap_status(tap, inspect_by(&f, 100, &error), &error, "inspected"))
            tap_ok(tap, (strstr(f.summary, named) != NULL) == (steps <= ICL_INSPECT_MOST_STEPS),
                   "the model's own steps, up to %d, are known", ICL_INSPECT_MOST_STEPS);
    }
    close_fixture(&f);
}

static void test_gdpp(tap_run *tap) {
    static const char *const overrides[] = {"model.layers=2", "model.parameterization=full", "task.noise=uniform:1",
                                            NULL};
    const double rates[] = {.05, .09}, inputs[] = {.03, .04};
    fixture f = {0};
    icl_error error = {0};

    if (tap_status(tap, open_small(&f, overrides, &error), &error, "two full layers")) {
        icl_gd_construct(icl_trainer_model(f.trainer), &(icl_descent){2, rates, inputs}, D, N, f.values);
        if (tap_status(tap, inspect(&f, &error), &error, "inspected")) {
            note_formulas(&f, 2);
            tap_ok(tap,
                   strstr(f.summary, "is, to rounding, 2 steps of GD++ (steps 0.05, 0.09; input steps 0.03)") != NULL,
                   "two constructed steps of GD++ are named with their constants");
            tap_ok(tap, strcmp(formula_of(&f, 1), "y <- y - 0.05 <a, x>; x <- x - 0.03 S x") == 0, "the first layer");
            tap_ok(tap, strcmp(formula_of(&f, 2), "y <- y - 0.09 <a, x>") == 0, "the last, whose x is never read");
            tap_ok(tap, strstr(note_of(&f, 2, "w_xx", "predictions move"), "no layer reads") != NULL, "and why");
            tap_ok(tap, strstr(note_of(&f, 1, "w_xx", "predictions move"), "preconditioning: shrinks") != NULL,
                   "w_xx preconditions");
        }
    }
    close_fixture(&f);
}

/* ---- Layers that do something else, or nothing ---- */

/* The first layer has only w_yy, the second only w_yx (theorem 5.2 of arXiv 2402.14180): y <- y - .002 l y, then a
 * step. */
static void test_rescaling(tap_run *tap) {
    static const char *const overrides[] = {"model.layers=2", "model.parameterization=diag", "task.noise=choice:1,3",
                                            "model.scale=raw", NULL};
    static const float made[] = {0, -.002F, 0, 1, 0, -.08F, 1, 0}; /* P and Q as (x, y), layer by layer */
    fixture f = {0};
    icl_error error = {0};

    if (tap_status(tap, open_small(&f, overrides, &error), &error, "two diagonal layers")) {
        memcpy(f.values, made, sizeof made);
        if (tap_status(tap, inspect(&f, &error), &error, "inspected")) {
            note_formulas(&f, 2);
            tap_ok(tap, strcmp(formula_of(&f, 1), "y <- y - 0.002 l y") == 0, "a planted rescaling");
            tap_ok(tap, strcmp(formula_of(&f, 2), "y <- y - 0.08 <a, x>") == 0, "and a step");
            tap_ok(tap, strstr(note_of(&f, 1, "w_yy", "predictions move"), "rescaling: shrinks labels") != NULL,
                   "w_yy is said to shrink labels");
            tap_ok(tap,
                   value_of(&f, 1, "w_yy", "above the model's") >
                       2 * find(&f, 1, "w_yy", "above the model's")->standard_error,
                   "and to be needed: the loss rises by %.3f", value_of(&f, 1, "w_yy", "above the model's"));
            tap_ok(tap, strstr(f.summary, "to rounding") == NULL, "no classical algorithm is the same");
        }
    }
    close_fixture(&f);
}

/* Small steps keep the residuals' direction, so that w_xy of the first layer has the sign of its momentum if both
 * layers step the same way. A large step turns about half of the residuals round. */
static void test_momentum(tap_run *tap) {
    static const char *const overrides[] = {"model.layers=2", "model.parameterization=diag", "task.noise=fixed:1",
                                            "model.scale=raw", NULL};
    static const struct {
        float p_x, steps[2];
        const char *role, *words;
    } cases[] = {{.01F, {-.02F, -.08F}, "momentum-like: ", "momentum-like term ("},
                 {-.01F, {-.02F, -.08F}, "reverse momentum: ", "reverse-momentum term ("},
                 {.01F, {-.02F, .08F}, "reverse momentum: ", "reverse-momentum term ("},
                 {.01F, {-.2F, -.08F}, "adaptive step: ", "adaptive step of either sign ("}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const float made[] = {cases[i].p_x, cases[i].steps[0], 1, .1F, 0, cases[i].steps[1], 1, 0};
        fixture f = {0};
        icl_error error = {0};
        if (tap_status(tap, open_small(&f, overrides, &error), &error, "two diagonal layers")) {
            memcpy(f.values, made, sizeof made);
            if (tap_status(tap, inspect(&f, &error), &error, "inspected")) {
                const char *role = note_of(&f, 1, "w_xy", "predictions move");
                tap_ok(tap, strstr(role, cases[i].role) == role, "momentum along the step in %.2g of sequences: %s",
                       value_of(&f, 1, "w_xy", "share of sequences"), role);
                tap_ok(tap, strstr(note_of(&f, 1, "formula", ""), cases[i].words) != NULL, "in words: %s",
                       note_of(&f, 1, "formula", ""));
            }
        }
        close_fixture(&f);
    }
}

static void test_idle_layer(tap_run *tap) {
    static const char *const overrides[] = {"model.layers=2", "model.parameterization=full", NULL};
    const double rates[] = {.05, 0};
    fixture f = {0};
    icl_error error = {0};

    if (tap_status(tap, open_small(&f, overrides, &error), &error, "two full layers")) {
        icl_gd_construct(icl_trainer_model(f.trainer), &(icl_descent){2, rates, NULL}, D, N, f.values);
        if (tap_status(tap, inspect(&f, &error), &error, "inspected")) {
            note_formulas(&f, 2);
            tap_ok(tap, strcmp(note_of(&f, 2, "formula", ""), "this layer does nothing") == 0,
                   "a layer of zeros is said to do nothing");
            tap_ok(tap, value_of(&f, 2, "all of the layer", "predictions move") == 0, "predictions do not need it");
            tap_ok(tap, strstr(f.summary, "is, to rounding, 1 step of gradient descent (steps 0.05)") != NULL,
                   "the rest is one step");
        }
    }
    close_fixture(&f);
}

/* Q's block of x is -a Sigma^-1, with weights w ~ N(0, Sigma^-1): a preconditioned step (theorem 3 of arXiv
 * 2306.00297). */
static void test_preconditioned(tap_run *tap) {
    static const char *const overrides[] = {"model.layers=1",
                                            "model.parameterization=sparse",
                                            "task.noise=fixed:0",
                                            "task.covariance=spectrum:1,2,4",
                                            "task.weights=inverse-covariance",
                                            "model.scale=raw",
                                            NULL};
    static const float inverse[] = {1, .5F, .25F};
    fixture f = {0};
    icl_error error = {0};

    if (tap_status(tap, open_small(&f, overrides, &error), &error, "a sparse layer")) {
        for (size_t i = 0; i < (size_t)D * D; i++)
            f.values[i] = i % (D + 1) == 0 ? -.0625F * inverse[i / D] : 0;
        if (tap_status(tap, inspect(&f, &error), &error, "inspected")) {
            note_formulas(&f, 1);
            tap_ok(tap,
                   strstr(f.summary, "is, to rounding, 1 step of gradient descent preconditioned") != NULL &&
                       strstr(f.summary, "(steps 0.0625)") != NULL,
                   "a preconditioned step is named with its size");
            tap_ok(tap, strcmp(formula_of(&f, 1), "y <- y - 0.0625 <a, Sigma^-1 x>") == 0, "and is its formula");
            tap_ok(tap, value_of(&f, 1, "A of the gradient step", "Dist(R^T A R, I)") < 1e-6,
                   "in white inputs A is a multiple of I");
            /* A = a diag(1, 1/2, 1/4): mean 7/12, and sum of squares 21/16. */
            tap_ok(tap,
                   fabs(value_of(&f, 1, "A of the gradient step", "Dist(A, I)") -
                        sqrt(1 - 3 * (7.0 / 12) * (7.0 / 12) / (21.0 / 16))) < 1e-6,
                   "and as they are it is not");
            tap_ok(tap, value_of(&f, 1, "sparse: P = [0 0; 0 1], Q = [A 0; 0 0]", "distance") < 1e-6,
                   "the layer is of the sparse pattern");
        }
    }
    close_fixture(&f);
}

/* ---- The cost of pruning, computed directly ---- */

static double squared_error(const icl_sequences *drawn, size_t i) {
    const double miss = (double)drawn->model[i] - (double)drawn->targets[i];
    return miss * miss;
}

/* Computes the rise of the mean squared error when w_xx of the first layer is removed (p_x = 0), on the inspection's
 * sequences. */
static icl_status direct_cost(fixture *f, double *cost, double *standard_error, icl_error *error) {
    icl_sequences drawn = {0};
    double squares = 0, whole[SEQUENCES];
    float pruned[MOST_SIZE];
    icl_status status = ICL_OK;

    memcpy(pruned, f->values, sizeof pruned);
    pruned[0] = 0;
    *cost = 0;
    ICL_TRY(icl_sequences_create(f->backend, icl_trainer_task(f->trainer), 1, &drawn, error));
    ICL_TRY(icl_sequences_sample(&drawn, 0, error));
    ICL_TRY(icl_tensor_read(drawn.batch.targets, drawn.targets, error));
    ICL_TRY(icl_sequences_predict(&drawn, f->trainer, error));
    for (size_t i = 0; i < SEQUENCES; i++)
        whole[i] = squared_error(&drawn, i);
    ICL_TRY(icl_trainer_set_parameters(f->trainer, pruned, error));
    ICL_TRY(icl_sequences_predict(&drawn, f->trainer, error));
    for (size_t i = 0; i < SEQUENCES; i++) {
        const double rise = squared_error(&drawn, i) - whole[i];
        *cost += rise / SEQUENCES;
        squares += rise * rise;
    }
    *standard_error = sqrt((squares / SEQUENCES - *cost * *cost) / (SEQUENCES - 1));
done:
    icl_sequences_release(&drawn);
    return status;
}

static void test_cost(tap_run *tap) {
    static const char *const overrides[] = {"model.layers=2", "model.parameterization=gd++", "model.scale=raw", NULL};
    static const float made[] = {-.02F, -.03F, 1, 0, -.1F, 1}; /* P as (x, y) and Q's x, layer by layer */
    double cost = 0, standard_error = 0;
    fixture f = {0};
    icl_error error = {0};

    if (tap_status(tap, open_small(&f, overrides, &error), &error, "two layers of GD++")) {
        memcpy(f.values, made, sizeof made);
        if (tap_status(tap, inspect(&f, &error), &error, "inspected") &&
            tap_status(tap, direct_cost(&f, &cost, &standard_error, &error), &error, "computed directly")) {
            const found *result = find(&f, 1, "w_xx", "above the model's");
            tap_ok(tap, result && fabs(result->value - cost) < 1e-5 * (1 + fabs(cost)),
                   "the cost of w_xx: %.6f, directly %.6f", result ? result->value : 0, cost);
            tap_ok(tap, result && fabs(result->standard_error / standard_error - 1) < 1e-3,
                   "its standard error: %.6f, directly %.6f", result ? result->standard_error : 0, standard_error);
        }
    }
    close_fixture(&f);
}

/* ---- Verdicts, with heavy tails ---- */

enum { PAIRS = 1000 };

/* Returns the verdict on differences that lie within 1/2 of `middle`, except that the first `wild` of them are
 * `tail`. */
static const char *judge(double middle, size_t wild, double tail, char verdict[ICL_INSPECT_VERDICT]) {
    double differences[PAIRS];
    icl_inspect_effect effect = {.moved = 1};

    for (size_t i = 0; i < PAIRS; i++)
        differences[i] = i < wild ? tail : middle + (double)i / (PAIRS - 1) - 0.5;
    icl_inspect_judge_differences(differences, PAIRS, &effect);
    return icl_inspect_verdict(&effect, verdict);
}

static void test_judges(tap_run *tap) {
    static const struct {
        double middle;
        size_t wild;
        double tail;
        const char *verdict;
    } cases[] = {
        {.2, 0, 0, "the loss needs it (mean, median, trimmed mean)"},
        {-.2, 0, 0, "the loss is lower without it (mean, median, trimmed mean)"},
        {0, 0, 0, "no measurable loss (mean, median, trimmed mean)"},
        {0, 1, 1e12, "no measurable loss (mean, median, trimmed mean)"},
        {.2, 1, 1e12, "the loss needs it (median, trimmed mean)"},
        {.2, 1, -1e12, "the loss needs it (median, trimmed mean)"},
        {-.2, 1, 1e12, "the loss is lower without it (median, trimmed mean)"},
        {0, 20, 1e3, "the loss needs it (mean)"},
        {-.2, 20, 1e3, "the loss needs it (mean), and is lower without it (median, trimmed mean)"},
        {.2, 20, -1e3, "the loss needs it (median, trimmed mean), and is lower without it (mean)"},
        {.2, 20, (double)NAN, "predictions are not finite without it"},
    };
    char verdict[ICL_INSPECT_VERDICT];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        tap_ok(tap, strcmp(judge(cases[i].middle, cases[i].wild, cases[i].tail, verdict), cases[i].verdict) == 0,
               "a rise of %g, and of %g in %zu of %d: %s", cases[i].middle, cases[i].tail, cases[i].wild, PAIRS,
               verdict);
    tap_ok(tap,
           strcmp(icl_inspect_verdict(&(icl_inspect_effect){.moved = 1e6}, verdict),
                  "predictions move far, in too few sequences to measure the loss") == 0,
           "predictions that move a millionfold, with losses that cannot be told apart: %s", verdict);
    tap_ok(tap, strcmp(icl_inspect_verdict(&(icl_inspect_effect){.moved = 0}, verdict), "nothing") == 0,
           "what moves no prediction: %s", verdict);
}

/* A role is told by the first judge (mean, median, trimmed mean) that finds a difference. */
static void test_roles(tap_run *tap) {
    static const char *const words[ICL_JUDGES + 1] = {"a step (loss +0.5 without it)",
                                                      "a step (median loss +0.25 without it)",
                                                      "a step (trimmed mean of the loss -0.75 without it)",
                                                      "a step (no measurable loss (mean, median, trimmed mean))"};
    const icl_location costs[ICL_JUDGES] = {{.value = .5, .low = .1, .high = .9},
                                            {.value = .25, .low = .1, .high = .9},
                                            {.value = -.75, .low = -.9, .high = -.1}};
    icl_error error = {0};

    for (int first = 0; first <= ICL_JUDGES; first++) {
        icl_inspect_effect effect = {.moved = .5};
        icl_text text = {0};
        for (int judge = 0; judge < ICL_JUDGES; judge++)
            effect.costs[judge] = judge < first ? (icl_location){.low = -1, .high = 1} : costs[judge];
        const icl_status status = icl_inspect_add_role("a step", &effect, &text, &error);
        tap_ok(tap, status == ICL_OK && strcmp(text.bytes, words[first]) == 0, "in words: %s%s",
               text.bytes ? text.bytes : "", error.message);
        icl_text_release(&text);
    }
}

/* The inputs' squared norm has a heavy tail: a step that is right for most sequences is far too large for a few. These
 * drown the mean or, with a larger step, decide it. A slight turn of the gradient is added, which helps as often as it
 * harms. */
static void test_heavy_tail(tap_run *tap, double rate, const char *verdict) {
    static const char *const overrides[] = {"model.layers=1",  "model.parameterization=full", "task.noise=fixed:0.1",
                                            "model.scale=raw", "task.inputs=gamma:0.3,10",    NULL};
    const float turn = 1e-4F;
    fixture f = {0};
    icl_error error = {0};

    if (tap_status(tap, open_small(&f, overrides, &error), &error, "inputs of a heavy tail")) {
        float *q = f.values + (size_t)WIDTH * WIDTH;
        icl_gd_construct(icl_trainer_model(f.trainer), &(icl_descent){1, &rate, NULL}, D, N, f.values);
        q[1] += turn;
        q[WIDTH] -= turn;
        if (tap_status(tap, inspect(&f, &error), &error, "inspected")) {
            const char *said = note_of(&f, 1, "all of the layer", "above the model's");
            note_formulas(&f, 1);
            tap_ok(tap, strcmp(said, verdict) == 0, "a step of %g, without which the loss rises by %.3g -+ %.2g: %s",
                   rate, value_of(&f, 1, "all of the layer", "above the model's"),
                   find(&f, 1, "all of the layer", "above the model's")->standard_error, said);
            said = note_of(&f, 1, "all but the four numbers", "above the model's");
            tap_ok(tap, strcmp(said, "no measurable loss (mean, median, trimmed mean)") == 0, "the turn: %s", said);
            tap_ok(tap,
                   strstr(note_of(&f, 1, "formula", ""), "gradient step (median loss +") != NULL ||
                       strstr(verdict, "(mean"),
                   "the formula's words name the median where the mean cannot tell");
        }
    }
    close_fixture(&f);
}

/* ---- Attention over labels ---- */

static void test_window(tap_run *tap) {
    static const char *const overrides[] = {"model.family=softmax", "model.layers=1", "task.family=functions",
                                            "task.inputs=sphere", NULL};
    fixture f = {0};
    icl_error error = {0};

    if (tap_status(tap, open_small(&f, overrides, &error), &error, "a window")) {
        for (size_t i = 0; i < (size_t)D * D; i++)
            f.values[i] = i % (D + 1) == 0 ? 4 : 0;
        f.values[0] = 5;
        if (tap_status(tap, inspect(&f, &error), &error, "inspected")) {
            tap_ok(tap, fabs(value_of(&f, 0, "M", "spectral norm") - 5) < 1e-6, "the spectral norm of M");
            tap_ok(tap, fabs(value_of(&f, 0, "M", "multiple of I") - 13.0 / 3) < 1e-6, "the multiple of I in it");
            tap_ok(tap, fabs(value_of(&f, 0, "M", "Dist") - sqrt((57 - 169.0 / 3) / 57)) < 1e-6, "its distance");
            tap_ok(tap, value_of(&f, 0, "window", "labels") > 1 && value_of(&f, 0, "window", "labels") < N,
                   "it averages over %.2f labels", value_of(&f, 0, "window", "labels"));
            tap_ok(tap, strstr(f.summary, "Nadaraya-Watson") != NULL, "it is named");
        }
    }
    close_fixture(&f);
}

/* Tests the words for M, a diagonal matrix of 4 except its first element, on both sides of the limit .2. */
static void test_words_for_matrix(tap_run *tap) {
    static const char *const overrides[] = {"model.family=softmax", "model.layers=1", "task.family=functions",
                                            "task.inputs=sphere", NULL};
    static const struct {
        float first;
        const char *words;
    } cases[] = {{4, " M is 4 I."},
                 {6, " M is 4.667 I but for 0.2 of its norm."},
                 {6.25, " M is no multiple of I: it is 0.22 of its norm away from 4.75 I."}};

    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        fixture f = {0};
        icl_error error = {0};
        if (tap_status(tap, open_small(&f, overrides, &error), &error, "a window")) {
            for (size_t i = 0; i < (size_t)D * D; i++)
                f.values[i] = i % (D + 1) == 0 ? 4 : 0;
            f.values[0] = cases[c].first;
            if (tap_status(tap, inspect(&f, &error), &error, "inspected"))
                tap_ok(tap, strstr(f.summary, cases[c].words) != NULL, "%s: %s", cases[c].words, f.summary);
        }
        close_fixture(&f);
    }
}

/* As above, without the softmax: a step of gradient descent. */
static void test_linear_attention(tap_run *tap) {
    static const char *const overrides[] = {"model.family=softmax",  "model.attention=linear", "model.layers=1",
                                            "task.family=functions", "task.inputs=sphere",     NULL};
    fixture f = {0};
    icl_error error = {0};

    if (tap_status(tap, open_small(&f, overrides, &error), &error, "linear attention")) {
        for (size_t i = 0; i < (size_t)D * D; i++)
            f.values[i] = i % (D + 1) == 0 ? 2 : 0;
        if (tap_status(tap, inspect(&f, &error), &error, "inspected")) {
            tap_ok(tap,
                   strstr(f.summary, "one step of gradient descent") && strstr(f.summary, "of size 0.25 for raw sums"),
                   "it is a step of 2 / n");
            tap_ok(tap, value_of(&f, 0, "window", "over that of w I") == 1, "and nothing else");
        }
    }
    close_fixture(&f);
}

/* Tests the words for a distance, on both sides of each limit. */
static void test_nearness(tap_run *tap) {
    static const struct {
        double limit;
        const char *up_to, *beyond;
    } changes[] = {{1e-10, "is, to rounding,", "is nearly"},
                   {1e-3, "is nearly", "comes close to"},
                   {.05, "comes close to", "is none of the classical algorithms compared; nearest is"}};

    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const char *up_to = icl_inspect_nearness(changes[i].limit);
        const char *beyond = icl_inspect_nearness(changes[i].limit * (1 + 1e-9));
        tap_ok(tap, strcmp(up_to, changes[i].up_to) == 0 && strcmp(beyond, changes[i].beyond) == 0,
               "up to a share of %g a model %s, beyond it %s", changes[i].limit, up_to, beyond);
    }
}

int main(void) {
    tap_run tap = {0};

    test_descent(&tap);
    test_many_steps(&tap, ICL_INSPECT_MOST_STEPS);
    test_many_steps(&tap, ICL_INSPECT_MOST_STEPS + 1);
    test_gdpp(&tap);
    test_rescaling(&tap);
    test_momentum(&tap);
    test_idle_layer(&tap);
    test_preconditioned(&tap);
    test_cost(&tap);
    test_judges(&tap);
    test_roles(&tap);
    test_heavy_tail(&tap, .01, "the loss needs it (median, trimmed mean)");
    test_heavy_tail(&tap, .02, "the loss needs it (median), and is lower without it (mean, trimmed mean)");
    test_heavy_tail(&tap, .005, "the loss needs it (mean, median, trimmed mean)");
    test_window(&tap);
    test_words_for_matrix(&tap);
    test_linear_attention(&tap);
    test_nearness(&tap);
    return tap_done(&tap);
}
