/*
 * How an induction head comes about: Singh et al. 2024, "What needs to go right for an induction head?" (arXiv
 * 2404.07129), at a size for a CPU. Two layers of attention alone see two pairs of an item and its label and a query
 * that is one of the items; labels are drawn anew in each sequence, so that nothing but the context tells them. Items
 * are vectors where the paper has features of Omniglot.
 *
 * The loss falls from log 5 to a plateau at log 2, a guess between the two labels of the context, and drops from there.
 * What the two layers look at (heads.h) is measured of the models that a run keeps on the way.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/evaluate.h"
#include "papers/curves.h"
#include "papers/induction/heads.h"
#include "papers/papers.h"
#include "papers/seeds.h"

enum { MOST_MOMENTS = 512 };

static const struct {
    size_t steps, every, seeds;
    double dropped; /* loss over log 2 */
    const char *overrides;
} budgets[ICL_SCALES] = {
    {2500, 50, 1, .25, ""},
    {5000, 50, 5, .1, ""},
    {31250, 125, 5, .1, "train.learning_rate=0.00001 task.item_size=512"}, /* the paper's 10^6 sequences */
};

/* The weight on the right label, less that on the wrong one, from which on a head counts as one of induction: several
 * heads share the work. */
#define FORMED 0.2

/* ---- One seed ---- */

/* What is measured behind so many steps. */
typedef struct moment {
    double step, loss, previous, induction;
} moment;

typedef struct followed {
    icl_recipe *recipe;
    icl_trainer *trainer;
    icl_evaluator *evaluator;
    icl_heads heads;
    moment moments[MOST_MOMENTS];
    size_t count;
} followed;

static void followed_release(followed *f) {
    icl_heads_release(&f->heads);
    icl_evaluator_destroy(&f->evaluator);
    icl_trainer_destroy(&f->trainer);
    icl_recipe_destroy(&f->recipe);
}

/* The models along the way are kept, so that what they do is measured behind the training, whoever did that. */
static icl_status train(icl_reproducing *run, uint32_t seed, followed *f, icl_error *error) {
    const size_t steps = budgets[run->params->scale].steps, every = budgets[run->params->scale].every;
    char overrides[160];
    const icl_seeded_cell cell = {
        .name = "induction", .recipe = "induction", .overrides = overrides, .steps = steps, .seed = seed};

    snprintf(overrides, sizeof overrides, "task.class_seed=%" PRIu32 " train.snapshot_every=%zu %s", seed, every,
             budgets[run->params->scale].overrides);
    ICL_CHECK(icl_reproduce_train_seed(run, &cell, &f->recipe, &f->trainer, error));
    ICL_CHECK(icl_evaluator_create(run->params->backend, icl_trainer_task(f->trainer), ICL_HEADS_SEQUENCES, seed,
                                   &f->evaluator, error));
    ICL_CHECK(icl_heads_open(run, f->trainer, seed, &f->heads, error));
    for (size_t step = 0; step <= steps; step += every) {
        moment *now = &f->moments[f->count++];
        ICL_CHECK(icl_reproduce_poll(run, error));
        ICL_CHECK(icl_reproduce_go_to_step(run, &cell, step, f->trainer, error));
        now->step = (double)step;
        ICL_CHECK(icl_evaluator_loss(f->evaluator, f->trainer, &now->loss, error));
        ICL_CHECK(icl_heads_measure(run, &f->heads, f->trainer, &now->previous, &now->induction, error));
    }
    return ICL_OK;
}

/* ---- What a seed shows ---- */

/* The level of the longest stretch of moments whose losses lie within BAND of each other, after the start and before
 * the drop, which is over at half of log 2. */
#define BAND 0.15

static double plateau(const followed *f, double *length) {
    const double start = f->moments[0].loss;
    size_t longest = 0;
    double level = (double)NAN;

    for (size_t first = 0; first < f->count; first++) {
        double least = f->moments[first].loss, largest = least;
        size_t last = first;
        if (least > .9 * start || least < .5 * log(2))
            continue;
        while (last + 1 < f->count) {
            const double next = f->moments[last + 1].loss;
            if (next < .5 * log(2) || fmax(largest, next) - fmin(least, next) > BAND)
                break;
            least = fmin(least, next);
            largest = fmax(largest, next);
            last++;
        }
        if (last - first > longest) {
            longest = last - first;
            level = .5 * (least + largest);
        }
    }
    *length = longest > 0 ? f->moments[longest].step - f->moments[0].step : 0;
    return level;
}

/* The first step with a loss below; NaN for never. */
static double step_below(const followed *f, double loss) {
    for (size_t i = 0; i < f->count; i++)
        if (f->moments[i].loss < loss)
            return f->moments[i].step;
    return (double)NAN;
}

static double value_of(const moment *at, bool induction) {
    return induction ? at->induction : at->previous;
}

/* The first step at which a pattern stands RISE above the least it was before; NaN for never. It tells when a pattern
 * sets in, and not how long it goes on to grow: that of layer 1 does so long after the drop. */
#define RISE 0.1

static double step_of_onset(const followed *f, bool induction) {
    double least = value_of(&f->moments[0], induction);

    for (size_t i = 0; i < f->count; i++) {
        const double value = value_of(&f->moments[i], induction);
        least = fmin(least, value);
        if (value > least + RISE)
            return f->moments[i].step;
    }
    return (double)NAN;
}

/* What all seeds came to, and their curves. */
typedef struct outcome {
    icl_curves losses, patterns;
    size_t seeds, learned, ordered;
} outcome;

static icl_status judge_seed(icl_reproducing *run, uint32_t seed, const followed *f, outcome *to, icl_error *error) {
    const moment *last = &f->moments[f->count - 1];
    const double previous = step_of_onset(f, false), induction = step_of_onset(f, true);
    const double half = step_below(f, .5 * log(2)), tenth = step_below(f, .1 * log(2));
    double length, level = plateau(f, &length);
    char what[32], note[192];

    snprintf(what, sizeof what, "seed %" PRIu32, seed);
    snprintf(note, sizeof note,
             "for %g of %g steps within %g; half of log 2 at step %g, a tenth at %g; %.2g at the end", length,
             last->step, BAND, half, tenth, last->loss);
    ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "loss of the plateau", .ours = level, .target = log(2),
                        .tolerance = .15, .evidence = ICL_READ, .source = "figure: .73 of log 2 = .693", .note = note));
    snprintf(note, sizeof note, "layer 1 sets in at step %g (%.2f at the end), layer 2 at %g (%.2f)", previous,
             last->previous, induction, last->induction);
    ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "steps from previous token to induction",
                        .ours = induction - previous, .note = note));
    to->seeds++;
    to->learned += last->loss < budgets[run->params->scale].dropped * log(2);
    to->ordered += previous <= induction && last->induction > FORMED;
    return ICL_OK;
}

static icl_status judge_all(icl_reproducing *run, const outcome *of, icl_error *error) {
    const size_t exceptions = of->seeds / 5;
    const double most = (double)(of->seeds - exceptions);
    const char *plural = of->seeds == 1 ? "" : "s";
    char quantity[64];

    snprintf(quantity, sizeof quantity, "of %zu seed%s, loss below %g log 2", of->seeds, plural,
             budgets[run->params->scale].dropped);
    ICL_CHECK(ICL_FOUND(run, error, .what = "the drop", .quantity = quantity, .ours = (double)of->learned,
                        .target = most, .criterion = ICL_AT_LEAST, .evidence = ICL_READ,
                        .source = "figure: near 0 at 10^6 sequences"));
    snprintf(quantity, sizeof quantity, "of %zu seed%s, induction head, not before layer 1", of->seeds, plural);
    return ICL_FOUND(run, error, .what = "the order", .quantity = quantity, .ours = (double)of->ordered, .target = most,
                     .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED,
                     .source = "layer 2 reads what layer 1 has put beside the label");
}

static icl_status add_curves(uint32_t seed, const followed *f, outcome *to, icl_error *error) {
    char label[ICL_CURVE_LABEL];

    snprintf(label, sizeof label, "seed %" PRIu32, seed);
    for (size_t i = 0; i < f->count; i++) {
        const moment *at = &f->moments[i];
        ICL_CHECK(icl_curves_add(&to->losses, label, ICL_SERIES_LINE, at->step, at->loss, error));
        ICL_CHECK(icl_curves_add(&to->patterns, "layer 1: to the previous token", ICL_SERIES_LINE, at->step,
                                 at->previous, error));
        ICL_CHECK(icl_curves_add(&to->patterns, "layer 2: to the right label less the wrong one", ICL_SERIES_LINE,
                                 at->step, at->induction, error));
        if (to->seeds == 1)
            ICL_CHECK(icl_curves_add(&to->losses, "log 2", ICL_SERIES_REFERENCE, at->step, log(2), error));
    }
    return ICL_OK;
}

static icl_status reproduce_seed(icl_reproducing *run, uint32_t seed, outcome *to, icl_error *error) {
    followed *f = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *f, "training", &f, error));
    ICL_TRY(train(run, seed, f, error));
    ICL_TRY(judge_seed(run, seed, f, to, error));
    ICL_TRY(add_curves(seed, f, to, error));
done:
    if (f)
        followed_release(f);
    icl_free(&f);
    return status;
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    outcome of = {.losses = {.figure = {.name = "loss",
                                        .title = "Two layers of attention: plateau and drop",
                                        .x_label = "steps",
                                        .y_label = "cross-entropy"}},
                  .patterns = {.figure = {.name = "patterns",
                                          .title = "What the layers look at, the head that does it most",
                                          .x_label = "steps",
                                          .y_label = "attention weight"}}};
    icl_status status = ICL_OK;

    for (size_t i = 0; i < budgets[run->params->scale].seeds; i++) {
        char cell[32];
        snprintf(cell, sizeof cell, "seed-%zu", i + 1);
        if (icl_reproduce_wants(run, cell))
            ICL_TRY(icl_reproduce_next(run, reproduce_seed(run, run->params->seed + (uint32_t)i, &of, error)));
    }
    if (of.seeds > 0) {
        ICL_TRY(judge_all(run, &of, error));
        ICL_TRY(icl_curves_draw(run, &of.losses, error));
        ICL_TRY(icl_curves_draw(run, &of.patterns, error));
    }
done:
    icl_curves_release(&of.losses);
    icl_curves_release(&of.patterns);
    return status;
}

const icl_reproduction icl_induction_emergence = {
    .name = "induction-emergence",
    .source = "arXiv 2404.07129",
    .about = "two layers of attention learn to copy a label: the plateau, the drop, and the order of the patterns",
    .cost = {"6 s", "1 min", "30 min"},
    .is_shared = true,
    .run = reproduce,
};
