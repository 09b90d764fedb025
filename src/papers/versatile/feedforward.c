/*
 * What reviewers of Vladymyrov, von Oswald, Sandler, Ge 2024, "Linear Transformers are Versatile In-Context Learners"
 * (arXiv 2402.14180) asked for, on the paper's noisy linear regression: matrices that are diagonal plus low rank, which
 * behave like dense ones, and quadratic feed-forward parts.
 *
 * diag+lowrank has diagonal matrices and is contained in full ones, so that at the optimum its loss is between theirs;
 * a model with quadratic parts contains the one without. The authors' numbers were not at hand: the orders are judged,
 * and the two ends against table 1.
 */
#include <math.h>
#include <string.h>

#include "papers/papers.h"

/* Cutting each sequence's gradient lets few sequences carry the mean (versatile.c): the whole gradient is cut. Diagonal
 * models grow, and what ends beside them does; from noise in all entries they end in a worse optimum, and richer models
 * in a better one. */
#define MATRICES                                                                                                       \
    "task.noise=choice:1,3 model.layers=3 train.sequence_clip=0 train.clip=1 eval.predictors=oracle "                  \
    "model.parameterization="
#define ROUGH    " train.growth=0 model.init_std=0.05"
#define GROWN    " train.growth=1000"
#define LOW_RANK "diag+lowrank model.rank="
#define PARTS                                                                                                          \
    "task.family=linear-regression task.noise=choice:1,3 task.d=5 model.width=16 eval.predictors=constrr,bayes "
#define WITHOUT "model.feed_forward=none"

/* A model, and what contains it at its place in the figure. */
typedef struct variant {
    const char *name, *text, *recipe, *overrides;
    const char *contains; /* why the loss is at most that of the variant before it; NULL: it is the first */
    double published;     /* table 1; 0: none */
    unsigned scales;      /* that have it, a bit for each */
    bool is_alike;        /* the authors say that it behaves like the variant before it */
    bool is_trimmed;      /* compared without the largest 1 % of squared distances */
} variant;

enum { AT_CI = 1u << ICL_SCALE_CI, LATER = 1u << ICL_SCALE_SHORT | 1u << ICL_SCALE_FULL };

static const variant variants[] = {
    {"diag", "diag", "versatile-table1", MATRICES "diag" ROUGH, NULL, 0, AT_CI},
    {"rank-1", "diag + rank 1", "versatile-table1", MATRICES LOW_RANK "1" ROUGH, "diag is rank 0", 0, AT_CI},
    {"diag", "diag", "versatile-table1", MATRICES "diag" GROWN, NULL, .098, LATER},
    {"rank-1", "diag + rank 1", "versatile-table1", MATRICES LOW_RANK "1" GROWN, "diag is rank 0", 0, LATER},
    {"rank-2", "diag + rank 2", "versatile-table1", MATRICES LOW_RANK "2" ROUGH, "rank 1 is among rank 2", 0, LATER},
    {"full", "full", "versatile-table1", MATRICES "full" ROUGH, "reviews: low rank behaves like it", .076, LATER, true},
    {"without", "2 linear layers", "quadratic", PARTS WITHOUT, NULL, 0, AT_CI | LATER},
    {"quadratic", "with quadratic parts", "quadratic", PARTS, "it contains the model without", 0, AT_CI | LATER,
     .is_trimmed = true},
};
enum { VARIANTS = sizeof variants / sizeof *variants, PLACES = 4 };

static const struct {
    size_t matrices, parts; /* steps */
    size_t seeds, sequences;
} budgets[ICL_SCALES] = {{600, 500, 1, 4000}, {6000, 3000, 2, 100000}, {20000, 20000, 3, 100000}};

/* ---- Cells ---- */

static bool is_matrix(const variant *data) {
    return strcmp(data->recipe, "versatile-table1") == 0;
}

static void plan(icl_study *study) {
    for (size_t i = 0; i < VARIANTS; i++) {
        const variant *data = &variants[i];
        const size_t steps = is_matrix(data) ? budgets[study->scale].matrices : budgets[study->scale].parts;
        for (size_t seed = 0; (data->scales >> study->scale & 1) && seed < budgets[study->scale].seeds; seed++)
            ICL_ADD_CELL(
                study, .name = data->name, .recipe = data->recipe, .data = data, .may_diverge = true,
                .seed = icl_study_seed(study, seed),
                .settings = {ICL_PHRASE("train.steps=%zu eval.sequences=%zu", steps, budgets[study->scale].sequences),
                             data->overrides});
    }
}

/* TRIMMED is the loss without the largest 1 % of squared distances, and so is that of ConstRR. */
enum { LOSS = 0, TRIMMED, CONSTRR, BAYES, NUMBERS };

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    icl_evaluation *evaluation = NULL;

    ICL_CHECK(icl_study_evaluate(study, cell, trained, NULL, &evaluation, error));
    const icl_score *scores = evaluation->scores;
    numbers[LOSS] = (icl_number){scores[0].half_adjusted, scores[0].half_adjusted_se};
    numbers[TRIMMED].value = scores[0].adjusted_trimmed / 2;
    if (evaluation->count > 2) {
        numbers[CONSTRR].value = scores[1].adjusted_trimmed / 2;
        numbers[BAYES].value = scores[2].half_adjusted;
    }
    return ICL_OK;
}

/* Returns the numbers of a variant's best seed: NaN where none came out, or it is not wanted; NULL where the scale does
 * not have it. */
static const icl_number *best_of(const icl_study *study, const variant *data) {
    const icl_number *best = NULL;

    for (size_t i = 0; i < study->count; i++) {
        const icl_number *numbers = study->cells[i]->numbers;
        if (study->cells[i]->data == data &&
            (!best || isnan(best[LOSS].value) || numbers[LOSS].value < best[LOSS].value))
            best = numbers;
    }
    return best;
}

/* ---- Judging ---- */

/* To 3 %, which is what training leaves open, and two standard errors. Polynomials of the degree that quadratic parts
 * give have means that a few sequences carry: those are compared without them. */
static void judge_order(icl_study *study, const variant *data, const icl_number *best) {
    const variant *before = data - 1;
    const icl_number *others = best_of(study, before);
    const size_t number = data->is_trimmed ? TRIMMED : LOSS;
    const double both = data->is_trimmed ? 0 : hypot(best[LOSS].standard_error, others[LOSS].standard_error);

    if (isnan(others[LOSS].value))
        return;
    ICL_JUDGE(study, .what = ICL_PHRASE("%s less %s", data->text, before->text),
              .quantity = data->is_trimmed ? "trimmed half adj. loss" : "half adjusted loss",
              .ours = best[number].value - others[number].value, .standard_error = both, .target = 0,
              .tolerance = .03 * others[number].value + 2 * both,
              .criterion = data->is_alike ? ICL_WITHIN : ICL_AT_MOST,
              .evidence = data->is_alike ? ICL_READ : ICL_INFERRED, .source = data->contains);
}

/* Nothing is better than the posterior mean. */
static void judge_parts(icl_study *study, const icl_number *best) {
    if (isnan(best[BAYES].value))
        return;
    ICL_JUDGE(study, .what = "with quadratic parts, above Bayes", .quantity = "half adjusted loss",
              .ours = best[LOSS].value - best[BAYES].value, .standard_error = best[LOSS].standard_error, .target = 0,
              .tolerance = 3 * best[LOSS].standard_error, .criterion = ICL_AT_LEAST, .evidence = ICL_COMPUTED,
              .source = "the floor of all predictors");
    ICL_JUDGE(study, .what = "with quadratic parts, less ConstRR", .quantity = "trimmed half adj. loss",
              .ours = best[TRIMMED].value - best[CONSTRR].value);
}

/* A loss is at most what table 1 has. */
static void judge(icl_study *study, const icl_study_cell *cell) {
    const variant *data = cell->data;
    const icl_number *best = best_of(study, data);

    ICL_JUDGE(study, .what = data->text, .quantity = "half adjusted loss", ICL_OURS(best[LOSS]),
              .target = data->published, .tolerance = .05 * data->published + .001, .criterion = ICL_AT_MOST,
              .evidence = data->published > 0 ? ICL_READ : ICL_EVIDENCE_NONE, .source = "table 1",
              .note = ICL_PHRASE("best of %zu", budgets[study->scale].seeds));
    if (data->contains)
        judge_order(study, data, best);
    if (data->is_trimmed)
        judge_parts(study, best);
}

/* The curve of what was trained, and the lines of table 1 beside it. */
static void conclude(icl_study *study) {
    icl_curves curves =
        ICL_CURVES(.name = "loss-by-rank", .title = "Diagonal, low rank and dense matrices: 3 layers, sigma in {1, 3}",
                   .x_label = "0: diag, 1 and 2: the rank added, 3: full", .y_label = "half adjusted loss");
    size_t place = 0;

    for (const variant *data = variants; is_matrix(data); data++) {
        const icl_number *best = best_of(study, data);
        if (!best)
            continue;
        icl_study_plot(study, &curves, "3 layers, sigma in {1, 3}", ICL_SERIES_OURS, (double)place, best[LOSS].value);
        for (size_t i = 0; i < PLACES && data->published > 0; i++)
            icl_study_plot(study, &curves, place == 0 ? "diag, table 1" : "full, table 1", ICL_SERIES_PUBLISHED,
                           (double)i, data->published);
        place++;
    }
    icl_study_draw(study, &curves);
}

const icl_reproduction icl_versatile_feedforward =
    ICL_STUDY(.name = "versatile-feedforward", .source = "arXiv 2402.14180, its reviews",
              .about =
                  "noisy linear regression by diagonal plus low rank matrices, and with quadratic feed-forward parts",
              .claim = "On noisy linear regression, matrices that are diagonal plus low rank behave like dense ones, "
                       "and quadratic "
                       "feed-forward parts do no harm.",
              .cost = {"5 s", "50 s", "6 min"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
              .conclude = conclude);
