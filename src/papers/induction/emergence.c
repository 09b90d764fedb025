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

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/evaluate.h"
#include "papers/curves.h"
#include "papers/induction/heads.h"
#include "papers/induction/moments.h"
#include "papers/papers.h"
#include "papers/seeds.h"

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

typedef struct followed {
    icl_seeded made;
    icl_evaluator *evaluator;
    icl_heads heads;
    icl_moments seen;
} followed;

static void followed_release(followed *f) {
    icl_heads_release(&f->heads);
    icl_evaluator_destroy(&f->evaluator);
    icl_seeded_release(&f->made);
}

/* The models along the way are kept, so that what they do is measured behind the training, whoever did that. */
static icl_status train(icl_reproducing *run, uint32_t seed, followed *f, icl_error *error) {
    const size_t steps = budgets[run->params->scale].steps, every = budgets[run->params->scale].every;
    char own[96];
    const icl_seeded_cell cell = {.name = "induction",
                                  .recipe = "induction",
                                  .overrides = {own, budgets[run->params->scale].overrides},
                                  .steps = steps,
                                  .seed = seed};

    snprintf(own, sizeof own, "task.class_seed=%" PRIu32 " train.snapshot_every=%zu", seed, every);
    ICL_CHECK(icl_reproduce_train_seed(run, &cell, &f->made, error));
    ICL_CHECK(icl_evaluator_create(run->params->backend, icl_trainer_task(f->made.trainer), ICL_HEADS_SEQUENCES, seed,
                                   &f->evaluator, error));
    ICL_CHECK(icl_heads_open(run, f->made.trainer, seed, &f->heads, error));
    for (size_t step = 0; step <= steps; step += every) {
        icl_moment *now = &f->seen.all[f->seen.count++];
        ICL_CHECK(icl_reproduce_poll(run, error));
        ICL_CHECK(icl_reproduce_go_to_step(run, &cell, step, f->made.trainer, error));
        now->step = (double)step;
        ICL_CHECK(icl_evaluator_loss(f->evaluator, f->made.trainer, &now->loss, error));
        ICL_CHECK(icl_heads_measure(run, &f->heads, f->made.trainer, &now->previous, &now->induction, error));
    }
    return ICL_OK;
}

/* ---- What a seed shows ---- */

/* What all seeds came to, and their curves. */
typedef struct outcome {
    icl_curves losses, patterns;
    size_t seeds, learned, ordered;
} outcome;

static icl_status judge_seed(icl_reproducing *run, uint32_t seed, const followed *f, outcome *to, icl_error *error) {
    const icl_moment *last = &f->seen.all[f->seen.count - 1];
    const double previous = icl_moments_onset(&f->seen, false), induction = icl_moments_onset(&f->seen, true);
    const double half = icl_moments_below(&f->seen, .5 * log(2)), tenth = icl_moments_below(&f->seen, .1 * log(2));
    double length, level = icl_moments_plateau(&f->seen, &length);
    char what[32], note[192];

    snprintf(what, sizeof what, "seed %" PRIu32, seed);
    icl_print(note, sizeof note,
              "for %g of %g steps within %g; half of log 2 at step %g, a tenth at %g; %.2g at the end", length,
              last->step, ICL_MOMENTS_BAND, half, tenth, last->loss);
    ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "loss of the plateau", .ours = level, .target = log(2),
                        .tolerance = .15, .evidence = ICL_READ, .source = "figure: .73 of log 2 = .693", .note = note));
    icl_print(note, sizeof note, "layer 1 sets in at step %g (%.2f at the end), layer 2 at %g (%.2f)", previous,
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

    icl_print(quantity, sizeof quantity, "of %zu seed%s, loss below %g log 2", of->seeds, plural,
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
    for (size_t i = 0; i < f->seen.count; i++) {
        const icl_moment *at = &f->seen.all[i];
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
            ICL_TRY(icl_reproduce_next(run, reproduce_seed(run, icl_reproduce_seed(run, i), &of, error)));
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
