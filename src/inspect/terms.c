/*
 * What each term of a linear transformer's layers does, in a table and as the formula that the layer amounts to. The
 * roles are those of Vladymyrov et al. 2024 (arXiv 2402.14180), section 5.
 */
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "inspect/inspecting.h"
#include "report/layer_maps.h"

typedef struct section {
    icl_inspecting *run;
    const icl_linear_layers *layers;
    const icl_inspect_effects *effects;
} section;

/* ---- Roles ---- */

static const icl_inspect_effect *effect_of(const section *s, size_t layer, size_t place) {
    return &s->effects->of[layer * ICL_PRUNE_PER_LAYER + place];
}

/* What a term is to the algorithm, in that paper's interpretation (section 5). */
static const char *role_of(icl_linear_term term, double coefficient) {
    switch (term) {
    case ICL_TERM_XX:
        return coefficient < 0 ? "preconditioning: shrinks inputs where they vary most"
                               : "preconditioning, the other way: stretches inputs where they vary most";
    case ICL_TERM_XY:
        return "momentum-like: moves inputs along the last gradient by their residual";
    case ICL_TERM_YX:
        return coefficient < 0 ? "gradient step, downhill" : "gradient step, uphill";
    case ICL_TERM_YY:
    default:
        return coefficient < 0 ? "residual rescaling: shrinks labels, more where they are large"
                               : "residual rescaling: stretches labels, more where they are large";
    }
}

/* Why a term that is there does nothing. */
static const char *idle_reason(const section *s, size_t layer, icl_linear_term term, double coefficient) {
    if (layer + 1 == s->effects->depth && (term == ICL_TERM_XX || term == ICL_TERM_XY) && coefficient != 0)
        return "nothing: no layer reads the inputs after this one";
    if (s->effects->depth == 1 && term == ICL_TERM_YY && coefficient != 0)
        return "nothing: the query's label is 0, and no layer reads the others'";
    return "nothing";
}

/* ---- Writing ---- */

static icl_status report_effect(icl_inspecting *run, size_t layer, const char *what, const icl_inspect_effect *of,
                                const char *note, icl_error *error) {
    static const char *const quantities[ICL_JUDGES] = {"pruned: squared error above the model's",
                                                       "pruned: median of the squared error's rise",
                                                       "pruned: trimmed mean of the squared error's rise"};
    char verdict[ICL_INSPECT_VERDICT];

    icl_inspect_verdict(of, verdict);
    ICL_CHECK(ICL_INSPECT_FOUND(run, error, .layer = layer, .what = what,
                                .quantity = "pruned: predictions move by, relative", .value = of->moved,
                                .note = note ? note : verdict));
    for (int judge = 0; judge < ICL_JUDGES; judge++)
        ICL_CHECK(ICL_INSPECT_FOUND(run, error, .layer = layer, .what = what, .quantity = quantities[judge],
                                    .value = of->costs[judge].value, .standard_error = of->costs[judge].standard_error,
                                    .note = verdict));
    return ICL_OK;
}

/* Of what does nothing the rounding is not shown. */
static const char *moved_text(const icl_inspect_effect *of, char text[ICL_INSPECT_CELL]) {
    return icl_inspect_does_nothing(of) ? "0" : icl_inspect_number(of->moved, text);
}

static const char *cost_text(const icl_inspect_effect *of, icl_inspect_judge judge, char text[ICL_INSPECT_CELL]) {
    const icl_location *cost = &of->costs[judge];
    return icl_inspect_does_nothing(of) ? "0" : icl_inspect_measured(cost->value, cost->standard_error, text);
}

static icl_status write_effect(icl_inspecting *run, size_t layer, const char *what, const char *coefficient,
                               const char *moves, const icl_inspect_effect *of, const char *role, icl_error *error) {
    char number[ICL_INSPECT_CELL], moved[ICL_INSPECT_CELL], costs[ICL_JUDGES][ICL_INSPECT_CELL];
    char verdict[ICL_INSPECT_VERDICT], both[2 * ICL_INSPECT_VERDICT];
    const char *const cells[] = {number,
                                 what,
                                 coefficient,
                                 moves,
                                 moved_text(of, moved),
                                 cost_text(of, ICL_JUDGE_MEAN, costs[0]),
                                 cost_text(of, ICL_JUDGE_MEDIAN, costs[1]),
                                 cost_text(of, ICL_JUDGE_TRIMMED, costs[2]),
                                 both};

    icl_inspect_verdict(of, verdict);
    if (role[0] && !icl_inspect_does_nothing(of))
        snprintf(both, sizeof both, "%s: %s", role, verdict);
    else
        snprintf(both, sizeof both, "%s", role[0] ? role : verdict);
    snprintf(number, sizeof number, "%zu", layer + 1);
    return icl_inspect_table_row(run, ICL_TONE_PLAIN, cells, error);
}

static icl_status write_layer(const section *s, size_t layer, icl_error *error) {
    static const char *const more[] = {"all of the layer", "all but the four numbers"};
    double terms[ICL_LINEAR_TERMS];
    char coefficient[ICL_INSPECT_CELL], moves[ICL_INSPECT_CELL];

    icl_linear_layers_terms(s->layers, layer, terms);
    for (int term = 0; term < ICL_LINEAR_TERMS; term++) {
        const icl_linear_term is = (icl_linear_term)term;
        const double change = s->effects->typical[layer * ICL_LINEAR_TERMS + (size_t)term];
        const icl_inspect_effect *of = effect_of(s, layer, (size_t)term);
        const char *role =
            icl_inspect_does_nothing(of) ? idle_reason(s, layer, is, terms[term]) : role_of(is, terms[term]);
        ICL_CHECK(ICL_INSPECT_FOUND(s->run, error, .layer = layer + 1, .what = icl_linear_term_name(is),
                                    .quantity = "median change of the context, relative", .value = change));
        ICL_CHECK(report_effect(s->run, layer + 1, icl_linear_term_name(is), of, role, error));
        ICL_CHECK(write_effect(s->run, layer, icl_linear_term_name(is), icl_inspect_number(terms[term], coefficient),
                               icl_inspect_number(change, moves), of, role, error));
    }
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        const icl_inspect_effect *of = effect_of(s, layer, ICL_PRUNE_LAYER + i);
        ICL_CHECK(report_effect(s->run, layer + 1, more[i], of, NULL, error));
        ICL_CHECK(write_effect(s->run, layer, more[i], "", "", of, "", error));
    }
    return ICL_OK;
}

static icl_status write_table(const section *s, icl_error *error) {
    static const icl_report_column columns[] = {{"layer", true},
                                                {"pruned", false},
                                                {"n times coefficient", true},
                                                {"moves the context by", true},
                                                {"pruned: predictions move by", true},
                                                {"pruned: loss rises by", true},
                                                {"its median", true},
                                                {"trimmed mean", true},
                                                {"what it does, and the verdict", false}};

    ICL_CHECK(icl_inspect_table_begin(s->run, columns, sizeof columns / sizeof *columns, error));
    for (size_t layer = 0; layer < s->effects->depth; layer++)
        ICL_CHECK(write_layer(s, layer, error));
    return icl_inspect_table_end(s->run, error);
}

/* ---- The model as a whole ---- */

static icl_status write_whole(const section *s, icl_error *error) {
    static const char *const names[ICL_PRUNE_PER_MODEL] = {"the four numbers of every layer alone",
                                                           "of these w_xx and w_yx: GD++ with its own constants",
                                                           "of these w_yx: gradient descent with its own steps"};
    static const icl_report_column columns[] = {{"pruned to", false},    {"predictions move by", true},
                                                {"loss rises by", true}, {"its median", true},
                                                {"trimmed mean", true},  {"verdict", false}};
    const icl_inspect_effects *effects = s->effects;

    ICL_CHECK(icl_inspect_table_begin(s->run, columns, sizeof columns / sizeof *columns, error));
    for (size_t i = 0; i < ICL_PRUNE_PER_MODEL; i++) {
        const icl_inspect_effect *of = &effects->of[effects->depth * ICL_PRUNE_PER_LAYER + i];
        char moved[ICL_INSPECT_CELL], costs[ICL_JUDGES][ICL_INSPECT_CELL], verdict[ICL_INSPECT_VERDICT];
        const char *const cells[] = {names[i],
                                     moved_text(of, moved),
                                     cost_text(of, ICL_JUDGE_MEAN, costs[0]),
                                     cost_text(of, ICL_JUDGE_MEDIAN, costs[1]),
                                     cost_text(of, ICL_JUDGE_TRIMMED, costs[2]),
                                     icl_inspect_verdict(of, verdict)};
        ICL_CHECK(report_effect(s->run, 0, names[i], of, NULL, error));
        ICL_CHECK(icl_inspect_table_row(s->run, ICL_TONE_PLAIN, cells, error));
    }
    return icl_inspect_table_end(s->run, error);
}

static icl_status write_loss(const section *s, icl_error *error) {
    static const char *const quantities[ICL_JUDGES] = {"squared error", "median squared error",
                                                       "trimmed mean of the squared error"};
    const icl_inspect_effects *effects = s->effects;
    char losses[ICL_JUDGES][ICL_INSPECT_CELL];

    for (int judge = 0; judge < ICL_JUDGES; judge++) {
        const icl_location *loss = &effects->losses[judge];
        icl_inspect_measured(loss->value, loss->standard_error, losses[judge]);
        ICL_CHECK(ICL_INSPECT_FOUND(s->run, error, .what = "model", .quantity = quantities[judge], .value = loss->value,
                                    .standard_error = loss->standard_error));
    }
    ICL_CHECK(ICL_INSPECT_FOUND(s->run, error, .what = "model",
                                .quantity = "device's predictions against the layers taken apart, relative",
                                .value = effects->size > 0 ? effects->residual / effects->size : 0));
    ICL_CHECK(icl_inspect_paragraph(
        s->run, error,
        "The model's squared error is %s, its median %s, its trimmed mean %s. Each part is taken away alone: how far "
        "predictions move, as a share of their size (root mean squares), and what the squared error rises by on the "
        "same sequences, with one standard error of that difference. The median change of the context is that of the "
        "x or y that a term adds to, over their own size. Taken apart in double precision, the layers predict what the "
        "device does to %.1g of its size.",
        losses[ICL_JUDGE_MEAN], losses[ICL_JUDGE_MEDIAN], losses[ICL_JUDGE_TRIMMED],
        effects->size > 0 ? effects->residual / effects->size : 0));
    return icl_inspect_paragraph(
        s->run, error,
        "A verdict rests on the paired differences, pruned less whole on one sequence, summed up in three ways, and "
        "names those that lie more than two standard errors from 0: the mean, which a few sequences of a heavy tail "
        "can decide or drown; the median; and the trimmed mean, without the tenth of the sequences at either end.");
}

/* Rows are layers, columns the parts that are taken away. */
static icl_status draw_effects(const section *s, icl_error *error) {
    static const char *const parts[ICL_PRUNE_PER_LAYER] = {"w_xx", "w_xy", "w_yx", "w_yy", "layer", "rest"};
    const size_t depth = s->effects->depth;
    double *moved = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(depth, ICL_PRUNE_PER_LAYER * sizeof *moved, "picture of prunings", &moved, error));
    for (size_t i = 0; i < depth * ICL_PRUNE_PER_LAYER; i++)
        moved[i] = icl_ablation_power(s->effects->of[i].moved);
    const icl_heat_map map = {.label = "",
                              .rows = depth,
                              .columns = ICL_PRUNE_PER_LAYER,
                              .values = moved,
                              .row_names = depth <= ICL_NUMBERED_LAYERS ? icl_layer_numbers : NULL,
                              .column_names = parts};
    ICL_TRY(ICL_INSPECT_HEAT_MAPS(s->run, error, .name = "prunings",
                                  .title = "How far predictions move without a part, over their size",
                                  .row_label = "layer", .column_label = "taken away",
                                  .value_label = "power of ten, 3 at most", .count = 1, .maps = &map));
done:
    icl_free(&moved);
    return status;
}

/* What the lead says of the layers: which do nothing, and what simpler models of the same weights lose. */
static icl_status write_details(const section *s, icl_error *error) {
    static const char *const names[ICL_PRUNE_PER_MODEL] = {
        "the four numbers of every layer", "GD++ with its own constants", "gradient descent with its own steps"};
    const icl_inspect_effects *effects = s->effects;
    icl_text *details = &s->run->details;

    for (size_t layer = 0; layer < effects->depth; layer++)
        if (icl_inspect_does_nothing(effect_of(s, layer, ICL_PRUNE_LAYER)))
            ICL_CHECK(icl_text_print(details, error, " Layer %zu does nothing.", layer + 1));
    for (size_t i = 0; i < ICL_PRUNE_PER_MODEL; i++) {
        const icl_inspect_effect *of = &effects->of[effects->depth * ICL_PRUNE_PER_LAYER + i];
        const bool is_last = i + 1 == ICL_PRUNE_PER_MODEL;
        char cost[ICL_INSPECT_CELL], loss[ICL_INSPECT_CELL];
        /* Of models that are one, the simplest. */
        if (icl_inspect_does_nothing(of) ||
            (!is_last && of->costs[ICL_JUDGE_MEAN].value == of[1].costs[ICL_JUDGE_MEAN].value))
            continue;
        ICL_CHECK(icl_text_print(details, error, " Pruned to %s, its squared error of %s rises by %s", names[i],
                                 icl_inspect_number(effects->losses[ICL_JUDGE_MEAN].value, loss),
                                 cost_text(of, ICL_JUDGE_MEAN, cost)));
        if (icl_inspect_judged(of, ICL_JUDGE_MEAN) == 0)
            ICL_CHECK(icl_text_print(details, error, ", its median by %s", cost_text(of, ICL_JUDGE_MEDIAN, cost)));
        ICL_CHECK(icl_text_print(details, error, "."));
    }
    return ICL_OK;
}

/* One step of each layer that does something. */
static icl_status find_descent(const section *s, icl_inspect_descent *descent, icl_error *error) {
    const double n = (double)s->run->n;
    double *matrices = NULL;
    icl_status status = ICL_OK;

    *descent = (icl_inspect_descent){.is_known = true};
    ICL_TRY(icl_allocate(2 * s->run->d * s->run->d, sizeof *matrices, "matrix of a step", &matrices, error));
    for (size_t layer = 0; layer < s->effects->depth; layer++) {
        const size_t at = descent->steps;
        double terms[ICL_LINEAR_TERMS];
        if (icl_inspect_does_nothing(effect_of(s, layer, ICL_PRUNE_LAYER)))
            continue;
        descent->steps++;
        if (at == ICL_INSPECT_MOST_STEPS)
            descent->is_known = false;
        if (!descent->is_known)
            continue;
        const icl_inspect_step step = icl_inspect_measure_step(s->run, s->layers, layer, matrices);
        /* In white inputs the block of x of both Q's terms changes by the same factor. */
        const double whitening =
            isnan(step.whitened) || step.multiple == 0 ? 1 : step.whitened_multiple / step.multiple;
        icl_linear_layers_terms(s->layers, layer, terms);
        descent->rates[at] = -terms[ICL_TERM_YX] / n;
        descent->inputs[at] = -terms[ICL_TERM_XX] / n;
        descent->white_rates[at] = descent->rates[at] * whitening;
        descent->white_inputs[at] = descent->inputs[at] * whitening;
    }
done:
    icl_free(&matrices);
    return status;
}

icl_status icl_inspect_terms(icl_inspecting *run, const icl_linear_layers *layers, icl_inspect_sample *sample,
                             icl_inspect_descent *descent, icl_error *error) {
    icl_inspect_effects effects = {0};
    const section s = {run, layers, &effects};
    icl_status status = ICL_OK;

    ICL_TRY(icl_inspect_prune(run, sample, &effects, error));
    ICL_TRY(find_descent(&s, descent, error));
    ICL_TRY(icl_inspect_section(run, "What each term does", error));
    ICL_TRY(write_loss(&s, error));
    ICL_TRY(write_table(&s, error));
    ICL_TRY(draw_effects(&s, error));
    ICL_TRY(write_whole(&s, error));
    ICL_TRY(write_details(&s, error));
    ICL_TRY(icl_inspect_formulas(run, layers, &effects, error));
done:
    icl_inspect_effects_release(&effects);
    return status;
}
