/* Each layer of a linear transformer as a formula and in words, of the terms that do something. */
#include <math.h>

#include "core/allocate.h"
#include "inspect/inspecting.h"

/* A gradient step's A is called a multiple of Sigma^-1 where it lies so much nearer to that than to one of I. */
#define CLEARLY_NEARER 0.5

typedef struct layer_view {
    double terms[ICL_LINEAR_TERMS];    /* for sums as they are: the coefficients over n */
    const icl_inspect_effect *effects; /* [ICL_PRUNE_PER_LAYER] */
    icl_inspect_step step;
    bool is_preconditioned; /* A is nearly a multiple of Sigma^-1 */
} layer_view;

static bool acts(const layer_view *view, icl_linear_term term) {
    return !icl_inspect_does_nothing(&view->effects[term]);
}

static icl_status add_term(icl_text *text, double coefficient, const char *symbol, icl_error *error) {
    return icl_text_print(text, error, " %c %.4g %s", coefficient < 0 ? '-' : '+', fabs(coefficient), symbol);
}

/* "y <- y - 0.0228 <a, x>; x <- x - 0.0163 S x" */
static icl_status write_formula(const layer_view *view, size_t n, icl_text *text, icl_error *error) {
    const bool moves_y = acts(view, ICL_TERM_YX) || acts(view, ICL_TERM_YY);
    const bool moves_x = acts(view, ICL_TERM_XX) || acts(view, ICL_TERM_XY);

    if (!moves_y && !moves_x)
        ICL_CHECK(icl_text_print(text, error, "nothing changes"));
    if (moves_y)
        ICL_CHECK(icl_text_print(text, error, "y <- y"));
    if (acts(view, ICL_TERM_YX) && view->is_preconditioned)
        ICL_CHECK(add_term(text, view->step.whitened_multiple / (double)n, "<a, Sigma^-1 x>", error));
    else if (acts(view, ICL_TERM_YX))
        ICL_CHECK(add_term(text, view->terms[ICL_TERM_YX], "<a, x>", error));
    if (acts(view, ICL_TERM_YY))
        ICL_CHECK(add_term(text, view->terms[ICL_TERM_YY], "l y", error));
    if (moves_x)
        ICL_CHECK(icl_text_print(text, error, "%sx <- x", moves_y ? "; " : ""));
    if (acts(view, ICL_TERM_XX))
        ICL_CHECK(add_term(text, view->terms[ICL_TERM_XX], "S x", error));
    if (acts(view, ICL_TERM_XY))
        ICL_CHECK(add_term(text, view->terms[ICL_TERM_XY], "y a", error));
    return ICL_OK;
}

/* NaN and infinity, what cannot be done without, first. */
static double weight_of(const icl_inspect_effect *effect) {
    const double cost = effect->costs[ICL_JUDGE_MEAN].value;
    return isfinite(cost) ? cost : HUGE_VAL;
}

/* The roles of the terms that act, the dearest first. */
static icl_status write_words(const layer_view *view, icl_text *text, icl_error *error) {
    static const char *const names[ICL_LINEAR_TERMS] = {"preconditioning", "momentum-like term", "gradient step",
                                                        "residual rescaling"};
    const icl_inspect_effect *rest = &view->effects[ICL_PRUNE_BEYOND_SCALARS];
    bool written[ICL_LINEAR_TERMS] = {false};

    for (int i = 0; i < ICL_LINEAR_TERMS; i++) {
        int dearest = -1;
        for (int term = 0; term < ICL_LINEAR_TERMS; term++)
            if (!written[term] && acts(view, (icl_linear_term)term) &&
                (dearest < 0 || weight_of(&view->effects[term]) > weight_of(&view->effects[dearest])))
                dearest = term;
        if (dearest < 0)
            break;
        written[dearest] = true;
        ICL_CHECK(icl_inspect_add_role(
            dearest == ICL_TERM_YX && view->is_preconditioned ? "preconditioned gradient step" : names[dearest],
            &view->effects[dearest], text, error));
    }
    if (!icl_inspect_does_nothing(rest))
        ICL_CHECK(icl_inspect_add_role("entries beyond the four numbers", rest, text, error));
    if (text->length == 0)
        ICL_CHECK(icl_text_print(text, error, "this layer does nothing"));
    return ICL_OK;
}

static icl_status write_layer(icl_inspecting *run, size_t layer, const layer_view *view, icl_error *error) {
    char number[ICL_INSPECT_CELL];
    icl_text formula = {0}, words = {0};
    icl_status status = ICL_OK;

    ICL_TRY(write_formula(view, run->n, &formula, error));
    ICL_TRY(write_words(view, &words, error));
    const char *const cells[] = {icl_inspect_number((double)(layer + 1), number), formula.bytes, words.bytes};
    ICL_TRY(icl_inspect_table_row(run, ICL_TONE_PLAIN, cells, error));
    ICL_TRY(ICL_INSPECT_FOUND(run, error, .layer = layer + 1, .what = "formula", .quantity = formula.bytes,
                              .value = (double)NAN, .note = words.bytes));
done:
    icl_text_release(&formula);
    icl_text_release(&words);
    return status;
}

icl_status icl_inspect_formulas(icl_inspecting *run, const icl_linear_layers *layers,
                                const icl_inspect_effects *effects, icl_error *error) {
    static const icl_report_column columns[] = {{"layer", true}, {"formula", false}, {"in words", false}};
    double *matrices = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_inspect_section(run, "The algorithm, layer by layer", error));
    ICL_TRY(icl_inspect_paragraph(run, error,
                                  "For every token (x, y), context and query alike, with sums over the "
                                  "context as they are before the layer: S = sum x_j x_j^T, a = sum y_j "
                                  "x_j, l = sum y_j^2. The query starts with y = 0 and ends with minus its "
                                  "prediction. Terms that do nothing are left out; of a layer that is not "
                                  "diagonal the formula has its four numbers."));
    ICL_TRY(icl_allocate(2 * run->d * run->d, sizeof *matrices, "matrix of a step", &matrices, error));
    ICL_TRY(icl_inspect_table_begin(run, columns, sizeof columns / sizeof *columns, error));
    for (size_t layer = 0; layer < effects->depth; layer++) {
        layer_view view = {.effects = effects->of + layer * ICL_PRUNE_PER_LAYER,
                           .step = icl_inspect_measure_step(run, layers, layer, matrices)};
        icl_linear_layers_terms(layers, layer, view.terms);
        for (int term = 0; term < ICL_LINEAR_TERMS; term++)
            view.terms[term] /= (double)run->n;
        view.is_preconditioned = view.step.whitened < CLEARLY_NEARER * view.step.distance;
        ICL_TRY(write_layer(run, layer, &view, error));
    }
    ICL_TRY(icl_inspect_table_end(run, error));
done:
    icl_free(&matrices);
    return status;
}
