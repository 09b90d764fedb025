#include "papers/state/trained.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/print.h"
#include "papers/curves.h"
#include "papers/losses.h"

enum { TWICE = 1 }; /* the place of twice the training length among the lengths */

/* ---- Recipes ---- */

static icl_status describe(const char *name, const icl_state_kind *kind, uint32_t seed, icl_recipe **recipe,
                           icl_error *error) {
    icl_recipe *made = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_recipe(name, &made, error));
    ICL_TRY(icl_reproduce_override_all(made, kind->overrides, error));
    ICL_TRY(icl_reproduce_override(made, error, "train.seed=%" PRIu32, seed));
    ICL_TRY(icl_reproduce_override(made, error, "eval.seed=%" PRIu32, seed));
    *recipe = made;
    made = NULL;
done:
    icl_recipe_destroy(&made);
    return status;
}

/* ---- Evaluation ---- */

/* The share of right answers on words of these lengths. */
static icl_status measure(icl_reproducing *run, icl_trainer *trained, const icl_recipe *recipe, size_t shortest,
                          size_t longest, size_t sequences, double *accuracy, icl_error *error) {
    char overrides[192];

    snprintf(overrides, sizeof overrides,
             "task.shortest=%zu task.longest=%zu task.labels=last eval.sequences=%zu eval.predictors=", shortest,
             longest, sequences);
    return icl_reproduce_accuracy_as(run, trained, recipe, overrides, accuracy, error);
}

/* ---- Training ---- */

/* What a kind's seeds came to, and the curves of all kinds. */
typedef struct outcome {
    icl_curves *curves;
    double at_twice[ICL_STATE_MOST_SEEDS];
    double best; /* of all seeds, on words of all lengths; where something is published */
} outcome;

static size_t last_length(const icl_state_kind *kind) {
    size_t i = 0;
    while (i + 1 < ICL_STATE_MOST_LENGTHS && kind->lengths[i + 1] > 0)
        i++;
    return kind->lengths[i];
}

static icl_status train_seed(icl_reproducing *run, const char *name, const icl_state_kind *kind, size_t number,
                             outcome *to, icl_error *error) {
    const uint32_t seed = icl_reproduce_seed(run, number);
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    char folder[128];
    double accuracy = 0;
    icl_status status = ICL_OK;

    snprintf(folder, sizeof folder, "runs/%s-seed%" PRIu32, kind->cell, seed);
    ICL_TRY(describe(name, kind, seed, &recipe, error));
    ICL_TRY(icl_reproduce_train(run, folder, recipe, &trainer, error));
    for (size_t i = 0; i < ICL_STATE_MOST_LENGTHS && kind->lengths[i] > 0; i++) {
        ICL_TRY(measure(run, trainer, recipe, kind->lengths[i], kind->lengths[i], kind->sequences, &accuracy, error));
        ICL_TRY(icl_curves_add(to->curves, kind->label, ICL_SERIES_OURS, (double)kind->lengths[i], accuracy, error));
        if (i == TWICE)
            to->at_twice[number] = accuracy;
    }
    if (kind->published)
        ICL_TRY(measure(run, trainer, recipe, kind->lengths[0], last_length(kind), kind->sequences, &accuracy, error));
    to->best = fmax(to->best, accuracy);
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

static double count_above(const icl_state_kind *kind, const outcome *of, double accuracy) {
    double count = 0;
    for (size_t i = 0; i < kind->seeds; i++)
        count += of->at_twice[i] >= accuracy;
    return count;
}

static icl_status judge(icl_reproducing *run, const icl_state_training *training, const icl_state_kind *kind,
                        const outcome *of, icl_error *error) {
    const double accuracy = kind->learns ? training->right : training->above_chance;
    const size_t most = kind->seeds / 2 + 1;
    char quantity[96], note[160];
    size_t used = 0;

    icl_print(quantity, sizeof quantity, "of %zu seed%s, right on %.3g %% at %zu %s", kind->seeds,
              kind->seeds == 1 ? "" : "s", 100 * accuracy, kind->lengths[TWICE], training->tokens);
    for (size_t i = 0; i < kind->seeds && used < sizeof note; i++)
        used += (size_t)icl_print(note + used, sizeof note - used, "%s%.4g", i > 0 ? ", " : "", of->at_twice[i]);
    if (kind->learns)
        return ICL_FOUND(run, error, .what = kind->label, .quantity = quantity, .ours = count_above(kind, of, accuracy),
                         .target = (double)most, .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED,
                         .source = training->can, .note = note);
    return ICL_FOUND(run, error, .what = kind->label, .quantity = quantity, .ours = count_above(kind, of, accuracy),
                     .target = 0, .criterion = ICL_AT_MOST, .evidence = ICL_READ, .source = training->cannot,
                     .note = note);
}

static icl_status show_published(icl_reproducing *run, const icl_state_training *training, const icl_state_kind *kind,
                                 const outcome *of, icl_error *error) {
    char quantity[96];

    snprintf(quantity, sizeof quantity, "best scaled accuracy at %zu to %zu %s", kind->lengths[0], last_length(kind),
             training->tokens);
    return ICL_FOUND(run, error, .what = kind->label, .quantity = quantity,
                     .ours = (of->best - training->chance) / (1 - training->chance), .target = *kind->published,
                     .evidence = ICL_RECALLED, .source = "their table of parity");
}

/* The line of chance under the kind's lengths. */
static icl_status add_chance(icl_curves *curves, const icl_state_kind *kind, double chance, icl_error *error) {
    for (size_t i = 0; i < ICL_STATE_MOST_LENGTHS && kind->lengths[i] > 0; i++) {
        const double x = (double)kind->lengths[i];
        if (icl_curves_at(curves, "chance", x).seeds == 0)
            ICL_CHECK(icl_curves_add(curves, "chance", ICL_SERIES_REFERENCE, x, chance, error));
    }
    return ICL_OK;
}

icl_status icl_state_judge_training(icl_reproducing *run, const icl_state_training *training, icl_error *error) {
    icl_curves curves = {.figure = {.name = "accuracy-by-length",
                                    .title = training->title,
                                    .x_label = training->tokens,
                                    .y_label = "share of right answers",
                                    .log_x = true}};
    icl_status status = ICL_OK;

    for (size_t i = 0; i < training->count; i++) {
        const icl_state_kind *kind = &training->kinds[i];
        outcome of = {.curves = &curves};
        if ((kind->scales >> run->params->scale & 1) == 0 || !icl_reproduce_wants(run, kind->cell))
            continue;
        for (size_t seed = 0; seed < kind->seeds; seed++)
            ICL_TRY(icl_reproduce_next(run, train_seed(run, training->recipe, kind, seed, &of, error)));
        ICL_TRY(judge(run, training, kind, &of, error));
        if (kind->published)
            ICL_TRY(show_published(run, training, kind, &of, error));
        ICL_TRY(add_chance(&curves, kind, training->chance, error));
        ICL_TRY(icl_curves_draw(run, &curves, error));
    }
done:
    icl_curves_release(&curves);
    return status;
}
