/*
 * A block that is applied b times, beside b blocks: Yang, Lee, Nowak, Papailiopoulos 2024, "Looped Transformers are
 * Better at Learning Learning Algorithms" (arXiv 2311.12424), figure 2, on linear functions without noise.
 *
 * Every loop adds the embedded prompt and ends in the norm before the readout, and the loss is that of the last T
 * loops: what is left is a fixed point, where more loops than were trained stay. Beside it stand models that lack the
 * loss of several loops, the prompt in all loops but the first, or all of these and the norm, too: they leave. (With
 * d = 1, at scale ci, the first of them does not, and is left out.) All have the same data; errors by examples have the
 * closed form 1 - k / d of least squares, and at scale full the rows that the authors' program printed.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "papers/curves.h"
#include "papers/function_classes/garg.h"
#include "papers/losses.h"
#include "papers/papers.h"

#define PRINTED_SOURCE "Leiay/looped_transformer, saved results"

/* Loops that are tried, in loops as trained: from one on, up to four times as many. */
enum { MOST_TRIED = 32, TIMES = 4 };

/* A model stays where its error behind more loops is at most so many times that behind those it was trained with. */
static const double STAYS = 1.5;

typedef struct setting {
    size_t d, n, loops, layers; /* b, and blocks of the untied model */
    const char *overrides;      /* of all models */
    const char *looped;         /* of those with loops */
    const char *window;         /* T, and how loops rise */
    size_t steps, sequences;
} setting;

static const setting settings[ICL_SCALES] = {
    {1, 4, 6, 6, "task.d=1 task.n=4 model.width=16 train.learning_rate=0.01 train.warmup=30 train.batch=32",
     "model.loops=6", "train.loop_window=4 train.loop_curriculum=60 train.loop_rise=1", 300, 2048},
    {3, 7, 12, 12, "task.d=3 task.n=7 model.width=32 train.learning_rate=0.003 train.warmup=300", "model.loops=12",
     "train.loop_window=8 train.loop_curriculum=200 train.loop_rise=1", 3000, 10000},
    {20, 40, 20, 12, ICL_GARG_FULL "task.n=40 task.curriculum=5000 task.curriculum_d=5", "model.loops=20",
     "train.loop_window=15 train.loop_curriculum=500", 500000, 10000},
};

typedef enum model_kind { LOOPED = 0, UNTIED, LAST_LOOP, NO_INJECTION, BARE, MODELS } model_kind;

static const struct {
    const char *name, *what;
} models[MODELS] = {{"looped", "looped"},
                    {"untied", "untied"},
                    {"last-loop", "looped, the loss of the last loop alone"},
                    {"no-injection", "looped, the prompt in the first loop alone"},
                    {"bare", "looped, none of the three"}};

/* What came of a model. */
typedef struct result {
    bool is_there;
    size_t parameters, in_blocks;
    double errors[ICL_GARG_POINTS], standard_errors[ICL_GARG_POINTS]; /* over d, behind k pairs */
    double late[MOST_TRIED];                                          /* behind each number of loops tried */
    double without_prompt; /* behind loops as trained, but the prompt in the first one alone */
} result;

typedef struct looping {
    icl_reproducing *run;
    const setting *is;
    size_t tried[MOST_TRIED], tried_count;
    result results[MODELS];
    icl_curves by_examples, by_loops;
} looping;

/* One by one as far as they were trained, then in halves of that. */
static void choose_loops(looping *all) {
    const size_t b = all->is->loops;

    for (size_t i = 1; i < b && all->tried_count + 2 * TIMES < MOST_TRIED; i++)
        all->tried[all->tried_count++] = i;
    for (size_t half = 2; half <= 2 * TIMES; half++)
        all->tried[all->tried_count++] = half * b / 2;
}

/* ---- One model ---- */

static void name_overrides(const setting *is, model_kind kind, char *text, size_t size) {
    if (kind == UNTIED)
        snprintf(text, size, "model.layers=%zu", is->layers);
    else if (kind == BARE)
        snprintf(text, size, "model.layers=1 %s model.injection=false", is->looped);
    else
        snprintf(text, size, "model.layers=1 model.loop_norm=true %s %s %s", is->looped,
                 kind == LAST_LOOP ? "" : is->window, kind == NO_INJECTION ? "model.injection=false" : "");
}

static void count_parameters(const icl_model *model, result *of) {
    of->parameters = icl_model_size(model);
    for (size_t i = 0; i < icl_model_parameter_count(model); i++)
        if (strncmp(icl_model_parameter(model, i)->name, "block.", 6) == 0)
            of->in_blocks += icl_model_parameter(model, i)->count;
}

/* The mean over k = d .. n, where least squares has no error. */
static double late_error(const looping *all, const icl_evaluation *evaluation) {
    const size_t d = all->is->d, n = all->is->n;
    double sum = 0, standard_error;

    for (size_t k = d; k <= n; k++)
        sum += icl_garg_error(icl_reproduce_score(evaluation, "model"), k, (double)d, &standard_error);
    return sum / (double)(n - d + 1);
}

static icl_status add_examples(looping *all, model_kind kind, const icl_evaluation *evaluation, icl_error *error) {
    const double d = (double)all->is->d;
    result *of = &all->results[kind];

    for (size_t k = 0; k <= all->is->n; k++) {
        double own;
        const double squares = icl_garg_error(icl_reproduce_score(evaluation, "least-squares"), k, d, &own);
        of->errors[k] = icl_garg_error(icl_reproduce_score(evaluation, "model"), k, d, &of->standard_errors[k]);
        ICL_CHECK(
            icl_curves_add(&all->by_examples, models[kind].what, ICL_SERIES_LINE, (double)k, of->errors[k], error));
        if (kind == LOOPED)
            ICL_CHECK(
                icl_curves_add(&all->by_examples, "least squares", ICL_SERIES_REFERENCE, (double)k, squares, error));
        if (kind == LOOPED && k < all->is->d)
            ICL_CHECK(icl_curves_add(&all->by_examples, "1 - k / d", ICL_SERIES_PUBLISHED, (double)k, 1 - (double)k / d,
                                     error));
    }
    return ICL_OK;
}

static icl_status evaluate_late(const looping *all, const icl_seeded *made, const char *overrides, double *late,
                                icl_error *error) {
    icl_evaluation *evaluation = NULL;
    char list[160];

    snprintf(list, sizeof list, "%s eval.sequences=%zu eval.predictors=zero", overrides, all->is->sequences / 8);
    ICL_CHECK(icl_reproduce_evaluate_as(all->run, made->trainer, made->recipe, list, &evaluation, error));
    *late = late_error(all, evaluation);
    icl_evaluation_destroy(&evaluation);
    return ICL_OK;
}

static icl_status try_loops(looping *all, model_kind kind, const icl_seeded *made, icl_error *error) {
    result *of = &all->results[kind];

    for (size_t i = 0; i < all->tried_count; i++) {
        char overrides[64];
        snprintf(overrides, sizeof overrides, "model.loops=%zu", all->tried[i]);
        ICL_CHECK(evaluate_late(all, made, overrides, &of->late[i], error));
        ICL_CHECK(icl_curves_add(&all->by_loops, models[kind].what, ICL_SERIES_OURS, (double)all->tried[i], of->late[i],
                                 error));
    }
    return evaluate_late(all, made, "model.injection=false", &of->without_prompt, error);
}

static icl_status run_model(looping *all, model_kind kind, icl_error *error) {
    const setting *is = all->is;
    char own[256];
    const icl_seeded_cell cell = {.name = models[kind].name,
                                  .recipe = "garg",
                                  .overrides = {is->overrides, own, "eval.predictors=least-squares"},
                                  .steps = is->steps,
                                  .seed = all->run->params->seed,
                                  .sequences = is->sequences};
    icl_seeded made = {NULL};
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    name_overrides(is, kind, own, sizeof own);
    ICL_TRY(icl_reproduce_train_seed(all->run, &cell, &made, error));
    count_parameters(icl_trainer_model(made.trainer), &all->results[kind]);
    ICL_TRY(icl_evaluate(all->run->params->backend, made.trainer, made.recipe, &evaluation, error));
    ICL_TRY(add_examples(all, kind, evaluation, error));
    if (kind != UNTIED)
        ICL_TRY(try_loops(all, kind, &made, error));
    all->results[kind].is_there = true;
done:
    icl_evaluation_destroy(&evaluation);
    icl_seeded_release(&made);
    return status;
}

/* ---- Errors by examples ---- */

/* Behind k pairs: beside least squares up to d of them, then as low as the model of garg-curves is to be. */
static icl_status judge_pairs(const looping *all, model_kind kind, size_t k, icl_error *error) {
    const result *of = &all->results[kind];
    const double d = (double)all->is->d, bound = 1 - (double)k / d;
    const bool is_judged = all->run->params->scale == ICL_SCALE_SHORT;
    icl_finding finding = {.quantity = "error / d",
                           .ours = of->errors[k],
                           .standard_error = of->standard_errors[k],
                           .target = bound,
                           .tolerance = .12 * bound + 2 * of->standard_errors[k],
                           .evidence = is_judged ? ICL_COMPUTED : ICL_EVIDENCE_NONE,
                           .source = "least squares, 1 - k / d",
                           .note = "within 12 % and two standard errors"};
    char what[96];

    snprintf(what, sizeof what, "%s, after %zu pairs", models[kind].what, k);
    finding.what = what;
    if (k > all->is->d) {
        finding.target = .13;
        finding.tolerance = 0;
        finding.criterion = ICL_AT_MOST;
        finding.source = "as in garg-curves";
        finding.note = NULL;
    }
    return icl_reproduce_found(all->run, &finding, error);
}

static icl_status judge_examples(const looping *all, model_kind kind, icl_error *error) {
    const size_t d = all->is->d;

    if (!all->results[kind].is_there)
        return ICL_OK;
    for (size_t k = 0; k < d && k <= 3; k++)
        ICL_CHECK(judge_pairs(all, kind, k, error));
    return judge_pairs(all, kind, d + 1, error);
}

/* d = 20, 41 pairs. */
static const struct {
    size_t pairs;
    double looped, untied;
} printed[] = {{10, .519, .519},   {15, .248, .247},    {19, .0596, .0592},   {20, .0242, .0204},
               {21, .0110, .0077}, {25, .0023, .00135}, {30, .00115, 7.4e-4}, {40, 7.8e-4, 4.8e-4}};

static icl_status judge_printed(const looping *all, model_kind kind, icl_error *error) {
    const result *of = &all->results[kind];

    for (size_t i = 0; of->is_there && i < sizeof printed / sizeof *printed; i++) {
        const size_t k = printed[i].pairs;
        const double target = kind == LOOPED ? printed[i].looped : printed[i].untied;
        char what[64];
        snprintf(what, sizeof what, "%s, d = 20, after %zu pairs", models[kind].what, k);
        ICL_CHECK(ICL_FOUND(all->run, error, .what = what, .quantity = "error / d", .ours = of->errors[k],
                            .standard_error = of->standard_errors[k], .target = target,
                            .tolerance = .1 * target + 3 * of->standard_errors[k], .criterion = ICL_AT_MOST,
                            .evidence = ICL_READ, .source = PRINTED_SOURCE));
    }
    return ICL_OK;
}

/* The largest ratio of the two columns, at 25 pairs. */
static const double MOST_ABOVE_UNTIED = 1.7;

static double mean_from_d(const looping *all, model_kind kind) {
    double sum = 0;
    for (size_t k = all->is->d; k <= all->is->n; k++)
        sum += all->results[kind].errors[k];
    return sum / (double)(all->is->n - all->is->d + 1);
}

/* ---- Errors by loops ---- */

static double late_behind(const looping *all, model_kind kind, size_t loops) {
    for (size_t i = 0; i < all->tried_count; i++)
        if (all->tried[i] == loops)
            return all->results[kind].late[i];
    return (double)NAN;
}

static icl_status judge_ratio(const looping *all, model_kind kind, const char *of, double late, icl_criterion criterion,
                              icl_evidence evidence, icl_error *error) {
    char what[128];

    snprintf(what, sizeof what, "%s: %s beside %zu", models[kind].what, of, all->is->loops);
    return ICL_FOUND(all->run, error, .what = what, .quantity = "error from d pairs on, ratio",
                     .ours = late / late_behind(all, kind, all->is->loops), .target = STAYS, .criterion = criterion,
                     .evidence = evidence, .source = "figure 2: a fixed point");
}

/* The looped model is not there behind one loop, nor without the prompt, and stays behind more loops than were trained;
 * the others leave. */
static icl_status judge_loops(const looping *all, model_kind kind, icl_error *error) {
    static const size_t times[] = {2, TIMES};
    const bool is_looped = kind == LOOPED;
    const icl_evidence of_looped = is_looped ? ICL_INFERRED : ICL_EVIDENCE_NONE;
    char loops[32];

    if (!all->results[kind].is_there)
        return ICL_OK;
    ICL_CHECK(judge_ratio(all, kind, "1 loop", late_behind(all, kind, 1), ICL_AT_LEAST, of_looped, error));
    if (is_looped)
        ICL_CHECK(judge_ratio(all, kind, "no prompt behind the first loop", all->results[kind].without_prompt,
                              ICL_AT_LEAST, of_looped, error));
    for (size_t i = 0; i < 2; i++) {
        const size_t count = times[i] * all->is->loops;
        const bool is_far = !is_looped && times[i] == TIMES;
        snprintf(loops, sizeof loops, "%zu loops", count);
        ICL_CHECK(judge_ratio(all, kind, loops, late_behind(all, kind, count), is_far ? ICL_AT_LEAST : ICL_AT_MOST,
                              is_far ? ICL_INFERRED : of_looped, error));
    }
    return ICL_OK;
}

/* ---- Both ---- */

/* Without embedding and readout, in millions. */
static const double printed_parameters[] = {[LOOPED] = .79, [UNTIED] = 9.48};

static icl_status compare(const looping *all, icl_error *error) {
    const result *looped = &all->results[LOOPED], *untied = &all->results[UNTIED];
    const bool is_full = all->run->params->scale == ICL_SCALE_FULL;
    char note[96];

    if (!looped->is_there || !untied->is_there)
        return ICL_OK;
    snprintf(note, sizeof note, "%zu of %zu; %zu of %zu with embedding and readout", looped->in_blocks,
             untied->in_blocks, looped->parameters, untied->parameters);
    ICL_CHECK(ICL_FOUND(all->run, error, .what = "parameters of blocks, looped beside untied", .quantity = "ratio",
                        .ours = (double)looped->in_blocks / (double)untied->in_blocks,
                        .target = 1 / (double)all->is->layers, .tolerance = 1e-12, .evidence = ICL_COMPUTED,
                        .source = "1 / L", .note = note));
    for (model_kind kind = LOOPED; kind <= UNTIED && is_full; kind++)
        ICL_CHECK(ICL_FOUND(all->run, error, .what = models[kind].what, .quantity = "parameters of blocks, millions",
                            .ours = 1e-6 * (double)all->results[kind].in_blocks, .target = printed_parameters[kind],
                            .tolerance = .01 * printed_parameters[kind], .evidence = ICL_READ,
                            .source = "Leiay/looped_transformer"));
    return ICL_FOUND(all->run, error, .what = "looped beside untied", .quantity = "error from d pairs on, ratio",
                     .ours = mean_from_d(all, LOOPED) / mean_from_d(all, UNTIED), .target = MOST_ABOVE_UNTIED,
                     .criterion = ICL_AT_MOST, .evidence = is_full ? ICL_INFERRED : ICL_EVIDENCE_NONE,
                     .source = "the printed rows: 1.2 to 1.7",
                     .note = is_full ? NULL : "printed, after 500,000 steps: 1.2 to 1.7");
}

static icl_status judge(looping *all, icl_error *error) {
    ICL_CHECK(judge_examples(all, LOOPED, error));
    ICL_CHECK(judge_examples(all, UNTIED, error));
    for (model_kind kind = LOOPED; kind <= UNTIED && all->run->params->scale == ICL_SCALE_FULL; kind++)
        ICL_CHECK(judge_printed(all, kind, error));
    ICL_CHECK(compare(all, error));
    for (model_kind kind = LOOPED; kind < MODELS; kind++)
        if (kind != UNTIED)
            ICL_CHECK(judge_loops(all, kind, error));
    ICL_CHECK(icl_curves_draw(all->run, &all->by_examples, error));
    return icl_curves_draw(all->run, &all->by_loops, error);
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    char title[96];
    looping all = {.run = run,
                   .is = &settings[run->params->scale],
                   .by_examples = {.figure = {.name = "looped-curves-examples",
                                              .title = "A looped block beside untied ones: errors by examples",
                                              .x_label = "labelled pairs k",
                                              .y_label = "squared error / d",
                                              .log_y = true,
                                              .least_y = 1e-4}},
                   .by_loops = {.figure = {.name = "looped-curves-loops",
                                           .title = title,
                                           .x_label = "loops",
                                           .y_label = "squared error / d",
                                           .log_y = true}}};
    icl_status status = ICL_OK;

    snprintf(title, sizeof title, "Errors from d pairs on, by loops at test time: %zu were trained", all.is->loops);
    choose_loops(&all);
    for (model_kind kind = LOOPED; kind < MODELS; kind++)
        if ((kind != LAST_LOOP || run->params->scale != ICL_SCALE_CI) && icl_reproduce_wants(run, models[kind].name))
            ICL_TRY(icl_reproduce_next(run, run_model(&all, kind, error)));
    if (icl_reproduce_judges(run))
        ICL_TRY(judge(&all, error));
done:
    icl_curves_release(&all.by_examples);
    icl_curves_release(&all.by_loops);
    return status;
}

const icl_reproduction icl_looped_curves = {
    .name = "looped-curves",
    .source = "arXiv 2311.12424, figure 2",
    .about = "a block that is looped beside untied ones, by examples and by loops at test time",
    .cost = {"6 s", "4 min", "a month"},
    .is_shared = true,
    .run = reproduce,
};
