/* The terms of the layers of a linear transformer: each is pruned separately, its cost is judged, and each layer is
 * written as the formula that its terms make up. The roles of terms are those of Vladymyrov et al. 2024 (arXiv
 * 2402.14180), section 5. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/threads.h"
#include "numeric/matrix.h"
#include "probe/inspection.h"

/* ---- Costs of a pruning ---- */

/* The cost of a pruning is judged three times, because losses of linear transformers have heavy tails: a few of ten
 * thousand sequences may hold nearly all of the mean and of its standard error, so that the mean can neither show what
 * every sequence needs nor what hurts only those few. */

#define TRIMMED_SHARE 0.1

/* Predictions that move by less than this share of their size have not changed: the layers are taken
 * apart in double precision. */
#define UNCHANGED 1e-9

/* Predictions that move by more than their own size show that a term acts, whatever happens to the loss. */
#define LARGE_MOVE 1.0

void icl_inspect_judge_differences(double *differences, size_t count, icl_inspect_effect *effect) {
    effect->costs[ICL_JUDGE_MEAN] = icl_locate_mean(differences, count);
    effect->costs[ICL_JUDGE_MEDIAN] = icl_locate_median(differences, count);
    effect->costs[ICL_JUDGE_TRIMMED] = icl_locate_middle_mean(differences, count, TRIMMED_SHARE);
}

/* Returns 1 or -1 if a judge sees the loss rise or fall by more than two standard errors; otherwise 0. */
static int judgement(const icl_inspect_effect *effect, icl_inspect_judge judge) {
    const icl_location *cost = &effect->costs[judge];
    return (cost->low > 0) - (cost->high < 0);
}

/* Returns whether a pruning leaves all predictions as they are; one that makes predictions NaN does not. */
static bool does_nothing(const icl_inspect_effect *effect) {
    return effect->moved <= UNCHANGED;
}

/* Writes the names of the judges that see the loss rise or fall: "mean, median". */
static void name_judges(const icl_inspect_effect *effect, int judged, char text[ICL_INSPECT_CELL]) {
    static const char *const names[ICL_JUDGES] = {"mean", "median", "trimmed mean"};
    size_t used = 0;

    text[0] = '\0';
    for (int judge = 0; judge < ICL_JUDGES; judge++)
        if (judgement(effect, (icl_inspect_judge)judge) == judged)
            used += (size_t)snprintf(text + used, ICL_INSPECT_CELL - used, "%s%s", used > 0 ? ", " : "", names[judge]);
}

const char *icl_inspect_verdict(const icl_inspect_effect *effect, char text[ICL_INSPECT_VERDICT]) {
    char needing[ICL_INSPECT_CELL], better[ICL_INSPECT_CELL];

    name_judges(effect, 1, needing);
    name_judges(effect, -1, better);
    if (does_nothing(effect))
        snprintf(text, ICL_INSPECT_VERDICT, "nothing");
    else if (!isfinite(effect->costs[ICL_JUDGE_MEAN].value))
        snprintf(text, ICL_INSPECT_VERDICT, "predictions are not finite without it");
    else if (needing[0] && better[0])
        snprintf(text, ICL_INSPECT_VERDICT, "the loss needs it (%s), and is lower without it (%s)", needing, better);
    else if (needing[0])
        snprintf(text, ICL_INSPECT_VERDICT, "the loss needs it (%s)", needing);
    else if (better[0])
        snprintf(text, ICL_INSPECT_VERDICT, "the loss is lower without it (%s)", better);
    else if (effect->moved > LARGE_MOVE)
        snprintf(text, ICL_INSPECT_VERDICT, "predictions move far, in too few sequences to measure the loss");
    else
        snprintf(text, ICL_INSPECT_VERDICT, "no measurable loss (mean, median, trimmed mean)");
    return text;
}

icl_status icl_inspect_add_role(const char *name, const icl_inspect_effect *effect, icl_text *text, icl_error *error) {
    static const char *const losses[ICL_JUDGES] = {"loss", "median loss", "trimmed mean of the loss"};
    const char *before = text->length > 0 ? ", " : "";
    char verdict[ICL_INSPECT_VERDICT];

    if (!isfinite(effect->costs[ICL_JUDGE_MEAN].value))
        return icl_text_print(text, error, "%s%s (predictions are not finite without it)", before, name);
    for (int judge = 0; judge < ICL_JUDGES; judge++)
        if (judgement(effect, (icl_inspect_judge)judge) != 0)
            return icl_text_print(text, error, "%s%s (%s %+.3g without it)", before, name, losses[judge],
                                  effect->costs[judge].value);
    return icl_text_print(text, error, "%s%s (%s)", before, name, icl_inspect_verdict(effect, verdict));
}

/* ---- Prunings ---- */

/* Each part of a linear transformer's layers (a term is one of the four blocks of a layer's change,
 * probe/linear_layers.h) is removed separately, and the loss is compared sequence by sequence, so that the standard
 * error contains only what the two models do not share. */

static icl_linear_ablation pruning_of(size_t index, size_t depth) {
    static const unsigned terms[ICL_PRUNE_PER_MODEL] = {0, 1U << ICL_TERM_XY | 1U << ICL_TERM_YY,
                                                        1U << ICL_TERM_XX | 1U << ICL_TERM_XY | 1U << ICL_TERM_YY};
    const size_t layer = index / ICL_PRUNE_PER_LAYER, place = index % ICL_PRUNE_PER_LAYER;

    if (layer >= depth)
        return (icl_linear_ablation){ICL_EVERY_LAYER, terms[index - depth * ICL_PRUNE_PER_LAYER], true};
    if (place == ICL_PRUNE_BEYOND_SCALARS)
        return (icl_linear_ablation){layer, 0, true};
    return (icl_linear_ablation){layer, place == ICL_PRUNE_LAYER ? ICL_EVERY_TERM : 1U << place, false};
}

/* The private memory of a thread. */
typedef struct worker {
    icl_linear_layers *layers;
    double *weights; /* [depth][d] */
} worker;

typedef struct measuring {
    icl_inspection *run;
    icl_inspect_sample *sample;
    size_t depth, prunings, threads;
    worker *workers;     /* [threads] */
    double *predictions; /* [prunings][count] */
    double *whole;       /* [count] */
    double *changes;     /* [count][depth][ICL_LINEAR_TERMS] */
    double *momentum;    /* [count][depth] */
    double *values;      /* [count] */
    icl_inspect_effects *into;
} measuring;

static void measure_sequence(const measuring *m, size_t sequence, size_t thread) {
    const size_t d = m->run->d, count = m->sample->count, last = (m->depth - 1) * d;
    const float *tokens = m->sample->tokens + sequence * (m->run->n + 1) * (d + 1);
    const float *query = icl_inspect_query(m->run, m->sample, sequence);
    icl_linear_layers *layers = m->workers[thread].layers;
    double *weights = m->workers[thread].weights;

    icl_linear_layers_changes(layers, tokens, m->changes + sequence * m->depth * ICL_LINEAR_TERMS);
    icl_linear_layers_momentum(layers, tokens, m->momentum + sequence * m->depth);
    icl_linear_layers_weights(layers, tokens, NULL, weights);
    m->whole[sequence] = icl_inspect_product(weights + last, query, d);
    for (size_t i = 0; i < d; i++)
        m->sample->weights[sequence * d + i] = weights[last + i];
    for (size_t i = 0; i < m->prunings; i++) {
        const icl_linear_ablation pruning = pruning_of(i, m->depth);
        icl_linear_layers_weights(layers, tokens, &pruning, weights);
        m->predictions[i * count + sequence] = icl_inspect_product(weights + last, query, d);
    }
}

static double square(double value) {
    return value * value;
}

static void summarize_whole(measuring *m) {
    const icl_inspect_sample *sample = m->sample;
    icl_inspect_effect loss; /* as a rise from 0 */
    double size = 0, residual = 0;

    for (size_t i = 0; i < sample->count; i++) {
        m->values[i] = square(m->whole[i] - (double)sample->targets[i]);
        size += square(m->whole[i]);
        residual += square(m->whole[i] - sample->predictions[i]);
    }
    icl_inspect_judge_differences(m->values, sample->count, &loss);
    memcpy(m->into->losses, loss.costs, sizeof loss.costs);
    m->into->size = sqrt(size / (double)sample->count);
    m->into->residual = sqrt(residual / (double)sample->count);
}

static void summarize_pruning(measuring *m, size_t index) {
    const size_t count = m->sample->count;
    const double *predictions = m->predictions + index * count;
    double moved = 0;

    for (size_t i = 0; i < count; i++) {
        const double target = (double)m->sample->targets[i];
        m->values[i] = square(predictions[i] - target) - square(m->whole[i] - target);
        moved += square(predictions[i] - m->whole[i]);
    }
    m->into->of[index].moved = m->into->size > 0 ? sqrt(moved / (double)count) / m->into->size : 0;
    icl_inspect_judge_differences(m->values, count, &m->into->of[index]);
}

static void summarize_changes(measuring *m) {
    const size_t stride = m->depth * ICL_LINEAR_TERMS;

    for (size_t place = 0; place < stride; place++) {
        for (size_t i = 0; i < m->sample->count; i++)
            m->values[i] = m->changes[i * stride + place];
        m->into->typical[place] = icl_median(m->values, m->sample->count);
    }
}

/* Momentum goes along a layer's step if it and the next layer's w_yx over this one's have one sign. */
static void summarize_momentum(measuring *m) {
    double terms[2][ICL_LINEAR_TERMS];

    for (size_t layer = 0; layer + 1 < m->depth; layer++) {
        size_t along = 0;
        icl_linear_layers_terms(m->workers[0].layers, layer, terms[0]);
        icl_linear_layers_terms(m->workers[0].layers, layer + 1, terms[1]);
        const double direction = terms[0][ICL_TERM_YX] * terms[1][ICL_TERM_YX];
        for (size_t i = 0; i < m->sample->count; i++)
            along += m->momentum[i * m->depth + layer] * direction > 0;
        m->into->along[layer] = (double)along / (double)m->sample->count;
    }
}

static icl_status allocate_pruning(measuring *m, icl_error *error) {
    const icl_inspection *run = m->run;
    const size_t count = m->sample->count, stride = m->depth * ICL_LINEAR_TERMS;

    ICL_CHECK(icl_allocate(icl_parallel_threads(), sizeof *m->workers, "threads", &m->workers, error));
    m->threads = icl_parallel_threads();
    for (size_t i = 0; i < m->threads; i++) {
        worker *own = &m->workers[i];
        ICL_CHECK(icl_linear_layers_create(run->model, run->d, run->n, run->values, &own->layers, error));
        ICL_CHECK(icl_allocate(m->depth, run->d * sizeof(double), "weights", &own->weights, error));
    }
    ICL_CHECK(icl_allocate(count, run->d * sizeof(double), "implied weights", &m->sample->weights, error));
    ICL_CHECK(
        icl_allocate(count, m->prunings * sizeof(double), "predictions of pruned models", &m->predictions, error));
    ICL_CHECK(icl_allocate(count, sizeof(double), "predictions", &m->whole, error));
    ICL_CHECK(icl_allocate(count, stride * sizeof(double), "changes", &m->changes, error));
    ICL_CHECK(icl_allocate(count, m->depth * sizeof(double), "momentum", &m->momentum, error));
    ICL_CHECK(icl_allocate(count, sizeof(double), "losses", &m->values, error));
    ICL_CHECK(icl_allocate(m->prunings, sizeof *m->into->of, "effects", &m->into->of, error));
    ICL_CHECK(icl_allocate(m->depth, sizeof(double), "momentum by layer", &m->into->along, error));
    return icl_allocate(stride, sizeof(double), "typical changes", &m->into->typical, error);
}

static void release_pruning(measuring *m) {
    for (size_t i = 0; i < m->threads; i++) {
        icl_linear_layers_destroy(&m->workers[i].layers);
        icl_free(&m->workers[i].weights);
    }
    icl_free(&m->workers);
    icl_free(&m->predictions);
    icl_free(&m->whole);
    icl_free(&m->changes);
    icl_free(&m->momentum);
    icl_free(&m->values);
}

/* Sequences at a time, so few that Ctrl-C is answered within a second or so. */
enum { PIECE = 256 };

typedef struct piece {
    const measuring *m;
    size_t first;
} piece;

static void measure_one(void *context, size_t index, size_t thread) {
    const piece *p = context;
    measure_sequence(p->m, p->first + index, thread);
}

icl_status icl_inspect_prune(icl_inspection *run, icl_inspect_sample *sample, icl_inspect_effects *effects,
                             icl_error *error) {
    const size_t depth = icl_model_layers(run->model);
    measuring m = {.run = run,
                   .sample = sample,
                   .depth = depth,
                   .prunings = depth * ICL_PRUNE_PER_LAYER + ICL_PRUNE_PER_MODEL,
                   .into = effects};
    icl_status status = ICL_OK;

    *effects = (icl_inspect_effects){.depth = depth};
    ICL_TRY(allocate_pruning(&m, error));
    for (size_t first = 0; first < sample->count; first += PIECE) {
        const size_t left = sample->count - first;
        piece p = {&m, first};
        ICL_TRY(icl_inspect_poll(run, error));
        icl_inspect_progress(run, "pruning", (double)first / (double)sample->count);
        icl_parallel_for(left < PIECE ? left : PIECE, m.threads, measure_one, &p);
    }
    summarize_whole(&m);
    for (size_t i = 0; i < m.prunings; i++)
        summarize_pruning(&m, i);
    summarize_changes(&m);
    summarize_momentum(&m);
done:
    release_pruning(&m);
    return status;
}

void icl_inspect_effects_release(icl_inspect_effects *effects) {
    icl_free(&effects->of);
    icl_free(&effects->typical);
    icl_free(&effects->along);
}

/* ---- Gradient steps of layers ---- */

/* R^T A R costs d^4, so it is left out for more inputs. */
enum { MOST_INPUTS_IN_BASIS = 64 };

icl_inspect_step icl_inspect_measure_step(const icl_inspection *run, const icl_linear_layers *layers, size_t layer,
                                          double *matrices) {
    const icl_task_prior *prior = icl_task_get_prior(run->task);
    const double *root = prior ? prior->covariance_root : NULL;
    double *step = matrices, *whitened = matrices + run->d * run->d;
    icl_inspect_step measured = {.whitened_multiple = (double)NAN, .whitened = (double)NAN};

    icl_linear_layers_step(layers, layer, step);
    measured.multiple = icl_matrix_multiple(step, run->d);
    measured.distance = icl_matrix_distance(step, run->d);
    if (root && run->d <= MOST_INPUTS_IN_BASIS) {
        icl_matrix_in_basis(root, step, run->d, whitened);
        measured.whitened_multiple = icl_matrix_multiple(whitened, run->d);
        measured.whitened = icl_matrix_distance(whitened, run->d);
    }
    return measured;
}

/* ---- Formulas ---- */

/* A gradient step's A is called a multiple of Sigma^-1 if its distance from that is less than this share of its
 * distance from a multiple of I. */
#define CLEARLY_NEARER 0.5

typedef struct layer_view {
    double terms[ICL_LINEAR_TERMS];    /* for raw sums: the coefficients over n */
    const icl_inspect_effect *effects; /* [ICL_PRUNE_PER_LAYER] */
    double along;                      /* as in icl_inspect_effects */
    icl_inspect_step step;
    bool is_preconditioned; /* A is nearly a multiple of Sigma^-1 */
} layer_view;

static bool acts(const layer_view *view, icl_linear_term term) {
    return !does_nothing(&view->effects[term]);
}

static icl_status add_term(icl_text *text, double coefficient, const char *symbol, icl_error *error) {
    return icl_text_print(text, error, " %c %.4g %s", coefficient < 0 ? '-' : '+', fabs(coefficient), symbol);
}

/* Writes "y <- y - 0.0228 <a, x>; x <- x - 0.0163 S x". */
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

/* Sort key: the rise of the loss when the term is removed. A NaN or infinite rise sorts first. */
static double weight_of(const icl_inspect_effect *effect) {
    const double cost = effect->costs[ICL_JUDGE_MEAN].value;
    return isfinite(cost) ? cost : HUGE_VAL;
}

/* A sign that nearly all sequences have. */
#define NEARLY_ALL .9

/* Returns the name of w_xy's role: momentum only where it goes along the layer's step in nearly all sequences. */
static const char *name_momentum(double along) {
    return along >= NEARLY_ALL       ? "momentum-like term"
           : along <= 1 - NEARLY_ALL ? "reverse-momentum term"
                                     : "adaptive step of either sign";
}

/* Writes the roles of the terms that act, the costliest first. */
static icl_status write_words(const layer_view *view, icl_text *text, icl_error *error) {
    const char *const names[ICL_LINEAR_TERMS] = {"preconditioning", name_momentum(view->along), "gradient step",
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
    if (!does_nothing(rest))
        ICL_CHECK(icl_inspect_add_role("entries beyond the four numbers", rest, text, error));
    if (text->length == 0)
        ICL_CHECK(icl_text_print(text, error, "this layer does nothing"));
    return ICL_OK;
}

static icl_status write_formula_of_layer(icl_inspection *run, size_t layer, const layer_view *view, icl_error *error) {
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

/* Writes each layer as a formula of the terms that do something. */
static icl_status write_formulas(icl_inspection *run, const icl_linear_layers *layers,
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
                           .along = effects->along[layer],
                           .step = icl_inspect_measure_step(run, layers, layer, matrices)};
        icl_linear_layers_terms(layers, layer, view.terms);
        for (int term = 0; term < ICL_LINEAR_TERMS; term++)
            view.terms[term] /= (double)run->n;
        view.is_preconditioned = view.step.whitened < CLEARLY_NEARER * view.step.distance;
        ICL_TRY(write_formula_of_layer(run, layer, &view, error));
    }
    ICL_TRY(icl_inspect_table_end(run, error));
done:
    icl_free(&matrices);
    return status;
}

/* ---- Terms ---- */

typedef struct section {
    icl_inspection *run;
    const icl_linear_layers *layers;
    const icl_inspect_effects *effects;
} section;

static const icl_inspect_effect *effect_of(const section *s, size_t layer, size_t place) {
    return &s->effects->of[layer * ICL_PRUNE_PER_LAYER + place];
}

/* Returns the role of a term in that paper's interpretation (section 5); of w_xy as it was measured. */
static const char *role_of(icl_linear_term term, double coefficient, double along) {
    switch (term) {
    case ICL_TERM_XX:
        return coefficient < 0 ? "preconditioning: shrinks inputs where they vary most"
                               : "preconditioning, the other way: stretches inputs where they vary most";
    case ICL_TERM_XY:
        return along >= NEARLY_ALL       ? "momentum-like: the next step goes along this one again"
               : along <= 1 - NEARLY_ALL ? "reverse momentum: the next step takes a part of this one back"
                                         : "adaptive step: the next one goes along this one or against it";
    case ICL_TERM_YX:
        return coefficient < 0 ? "gradient step, downhill" : "gradient step, uphill";
    case ICL_TERM_YY:
    default:
        return coefficient < 0 ? "residual rescaling: shrinks labels, more where they are large"
                               : "residual rescaling: stretches labels, more where they are large";
    }
}

/* Explains why a term that is not 0 does nothing. */
static const char *idle_reason(const section *s, size_t layer, icl_linear_term term, double coefficient) {
    if (layer + 1 == s->effects->depth && (term == ICL_TERM_XX || term == ICL_TERM_XY) && coefficient != 0)
        return "nothing: no layer reads the inputs after this one";
    if (s->effects->depth == 1 && term == ICL_TERM_YY && coefficient != 0)
        return "nothing: the query's label is 0, and no layer reads the others'";
    return "nothing";
}

static icl_status report_effect(icl_inspection *run, size_t layer, const char *what, const icl_inspect_effect *effect,
                                const char *note, icl_error *error) {
    static const char *const quantities[ICL_JUDGES] = {"pruned: squared error above the model's",
                                                       "pruned: median of the squared error's rise",
                                                       "pruned: trimmed mean of the squared error's rise"};
    char verdict[ICL_INSPECT_VERDICT];

    icl_inspect_verdict(effect, verdict);
    ICL_CHECK(ICL_INSPECT_FOUND(run, error, .layer = layer, .what = what,
                                .quantity = "pruned: predictions move by, relative", .value = effect->moved,
                                .note = note ? note : verdict));
    for (int judge = 0; judge < ICL_JUDGES; judge++)
        ICL_CHECK(ICL_INSPECT_FOUND(run, error, .layer = layer, .what = what, .quantity = quantities[judge],
                                    .value = effect->costs[judge].value,
                                    .standard_error = effect->costs[judge].standard_error, .note = verdict));
    return ICL_OK;
}

/* Shows 0 instead of rounding noise for terms without effect. */
static const char *moved_text(const icl_inspect_effect *effect, char text[ICL_INSPECT_CELL]) {
    return does_nothing(effect) ? "0" : icl_inspect_number(effect->moved, text);
}

static const char *cost_text(const icl_inspect_effect *effect, icl_inspect_judge judge, char text[ICL_INSPECT_CELL]) {
    const icl_location *cost = &effect->costs[judge];
    return does_nothing(effect) ? "0" : icl_inspect_measured(cost->value, cost->standard_error, text);
}

static icl_status write_effect(icl_inspection *run, size_t layer, const char *what, const char *coefficient,
                               const char *moves, const icl_inspect_effect *effect, const char *role,
                               icl_error *error) {
    char number[ICL_INSPECT_CELL], moved[ICL_INSPECT_CELL], costs[ICL_JUDGES][ICL_INSPECT_CELL];
    char verdict[ICL_INSPECT_VERDICT], both[2 * ICL_INSPECT_VERDICT];
    const char *const cells[] = {number,
                                 what,
                                 coefficient,
                                 moves,
                                 moved_text(effect, moved),
                                 cost_text(effect, ICL_JUDGE_MEAN, costs[0]),
                                 cost_text(effect, ICL_JUDGE_MEDIAN, costs[1]),
                                 cost_text(effect, ICL_JUDGE_TRIMMED, costs[2]),
                                 both};

    icl_inspect_verdict(effect, verdict);
    if (role[0] && !does_nothing(effect))
        snprintf(both, sizeof both, "%s: %s", role, verdict);
    else
        snprintf(both, sizeof both, "%s", role[0] ? role : verdict);
    snprintf(number, sizeof number, "%zu", layer + 1);
    return icl_inspect_table_row(run, ICL_TONE_PLAIN, cells, error);
}

static icl_status write_terms_of_layer(const section *s, size_t layer, icl_error *error) {
    static const char *const more[] = {"all of the layer", "all but the four numbers"};
    double terms[ICL_LINEAR_TERMS];
    char coefficient[ICL_INSPECT_CELL], moves[ICL_INSPECT_CELL];

    icl_linear_layers_terms(s->layers, layer, terms);
    for (int term = 0; term < ICL_LINEAR_TERMS; term++) {
        const icl_linear_term which = (icl_linear_term)term;
        const double change = s->effects->typical[layer * ICL_LINEAR_TERMS + (size_t)term];
        const icl_inspect_effect *effect = effect_of(s, layer, (size_t)term);
        const char *role = does_nothing(effect) ? idle_reason(s, layer, which, terms[term])
                                                : role_of(which, terms[term], s->effects->along[layer]);
        ICL_CHECK(ICL_INSPECT_FOUND(s->run, error, .layer = layer + 1, .what = icl_linear_term_name(which),
                                    .quantity = "median change of the context, relative", .value = change));
        if (which == ICL_TERM_XY && !does_nothing(effect))
            ICL_CHECK(ICL_INSPECT_FOUND(s->run, error, .layer = layer + 1, .what = icl_linear_term_name(which),
                                        .quantity = "share of sequences with momentum along the step",
                                        .value = s->effects->along[layer]));
        ICL_CHECK(report_effect(s->run, layer + 1, icl_linear_term_name(which), effect, role, error));
        ICL_CHECK(write_effect(s->run, layer, icl_linear_term_name(which), icl_inspect_number(terms[term], coefficient),
                               icl_inspect_number(change, moves), effect, role, error));
    }
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        const icl_inspect_effect *effect = effect_of(s, layer, ICL_PRUNE_LAYER + i);
        ICL_CHECK(report_effect(s->run, layer + 1, more[i], effect, NULL, error));
        ICL_CHECK(write_effect(s->run, layer, more[i], "", "", effect, "", error));
    }
    return ICL_OK;
}

static icl_status write_terms(const section *s, icl_error *error) {
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
        ICL_CHECK(write_terms_of_layer(s, layer, error));
    return icl_inspect_table_end(s->run, error);
}

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
        const icl_inspect_effect *effect = &effects->of[effects->depth * ICL_PRUNE_PER_LAYER + i];
        char moved[ICL_INSPECT_CELL], costs[ICL_JUDGES][ICL_INSPECT_CELL], verdict[ICL_INSPECT_VERDICT];
        const char *const cells[] = {names[i],
                                     moved_text(effect, moved),
                                     cost_text(effect, ICL_JUDGE_MEAN, costs[0]),
                                     cost_text(effect, ICL_JUDGE_MEDIAN, costs[1]),
                                     cost_text(effect, ICL_JUDGE_TRIMMED, costs[2]),
                                     icl_inspect_verdict(effect, verdict)};
        ICL_CHECK(report_effect(s->run, 0, names[i], effect, NULL, error));
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

/* Draws a map: rows are layers, columns the parts that are removed. */
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

/* Adds to the lead which layers do nothing, and what simpler models of the same weights lose. */
static icl_status write_details(const section *s, icl_error *error) {
    static const char *const names[ICL_PRUNE_PER_MODEL] = {
        "the four numbers of every layer", "GD++ with its own constants", "gradient descent with its own steps"};
    const icl_inspect_effects *effects = s->effects;
    icl_text *details = &s->run->details;

    for (size_t layer = 0; layer < effects->depth; layer++)
        if (does_nothing(effect_of(s, layer, ICL_PRUNE_LAYER)))
            ICL_CHECK(icl_text_print(details, error, " Layer %zu does nothing.", layer + 1));
    for (size_t i = 0; i < ICL_PRUNE_PER_MODEL; i++) {
        const icl_inspect_effect *effect = &effects->of[effects->depth * ICL_PRUNE_PER_LAYER + i];
        const bool is_last = i + 1 == ICL_PRUNE_PER_MODEL;
        char cost[ICL_INSPECT_CELL], loss[ICL_INSPECT_CELL];
        /* Models that are equal are named once, as the simplest. */
        if (does_nothing(effect) ||
            (!is_last && effect->costs[ICL_JUDGE_MEAN].value == effect[1].costs[ICL_JUDGE_MEAN].value))
            continue;
        ICL_CHECK(icl_text_print(details, error, " Pruned to %s, its squared error of %s rises by %s", names[i],
                                 icl_inspect_number(effects->losses[ICL_JUDGE_MEAN].value, loss),
                                 cost_text(effect, ICL_JUDGE_MEAN, cost)));
        if (judgement(effect, ICL_JUDGE_MEAN) == 0)
            ICL_CHECK(icl_text_print(details, error, ", its median by %s", cost_text(effect, ICL_JUDGE_MEDIAN, cost)));
        ICL_CHECK(icl_text_print(details, error, "."));
    }
    return ICL_OK;
}

/* Makes one step of each layer that does something. */
static icl_status find_descent(const section *s, icl_inspect_descent *descent, icl_error *error) {
    const double n = (double)s->run->n;
    double *matrices = NULL;
    icl_status status = ICL_OK;

    *descent = (icl_inspect_descent){.is_known = true};
    ICL_TRY(icl_allocate(2 * s->run->d * s->run->d, sizeof *matrices, "matrix of a step", &matrices, error));
    for (size_t layer = 0; layer < s->effects->depth; layer++) {
        const size_t at = descent->steps;
        double terms[ICL_LINEAR_TERMS];
        if (does_nothing(effect_of(s, layer, ICL_PRUNE_LAYER)))
            continue;
        descent->steps++;
        if (at == ICL_INSPECT_MOST_STEPS)
            descent->is_known = false;
        if (!descent->is_known)
            continue;
        const icl_inspect_step step = icl_inspect_measure_step(s->run, s->layers, layer, matrices);
        /* With white inputs, the block of x in Q changes by the same factor for both terms. */
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

icl_status icl_inspect_terms(icl_inspection *run, const icl_linear_layers *layers, icl_inspect_sample *sample,
                             icl_inspect_descent *descent, icl_error *error) {
    icl_inspect_effects effects = {0};
    const section s = {run, layers, &effects};
    icl_status status = ICL_OK;

    ICL_TRY(icl_inspect_prune(run, sample, &effects, error));
    ICL_TRY(find_descent(&s, descent, error));
    ICL_TRY(icl_inspect_section(run, "What each term does", error));
    ICL_TRY(write_loss(&s, error));
    ICL_TRY(write_terms(&s, error));
    ICL_TRY(draw_effects(&s, error));
    ICL_TRY(write_whole(&s, error));
    ICL_TRY(write_details(&s, error));
    ICL_TRY(write_formulas(run, layers, &effects, error));
done:
    icl_inspect_effects_release(&effects);
    return status;
}
