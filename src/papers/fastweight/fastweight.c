#include "papers/fastweight/fastweight.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/file.h"
#include "run/metrics.h"

enum { SEQUENCES = 20 }; /* the authors evaluate on 20 sequences */

/* Their runs end at a loss of .001, after more than 10 evaluations without a new best, one each 100 steps, or here. */
static const size_t most_steps[ICL_SCALES] = {600, 10000, 100000};

/* One memory of one size. */
typedef struct trained {
    icl_evaluated losses;
    icl_fastweight_loss last; /* of the last parameters */
    uint64_t steps;
} trained;

static size_t size_at(size_t place) {
    return ICL_FASTWEIGHT_STEP * (place + 1);
}

/* ---- Training ---- */

/* The measure of a training, made when it is first asked for: its sequences take long to draw, and a training that is
 * left to another worker needs none. */
typedef struct measuring {
    icl_reproducing *run;
    const icl_recipe *recipe;
    size_t keys;
    icl_fastweight_measure *made;
} measuring;

static icl_status measure(measuring *with, icl_trainer *trainer, icl_fastweight_loss *loss, icl_error *error) {
    if (!with->made)
        ICL_CHECK(icl_fastweight_measure_create(with->run, with->recipe, with->keys, SEQUENCES, &with->made, error));
    return icl_fastweight_measure_of(with->made, trainer, loss, error);
}

static icl_status measure_loss(void *user, icl_trainer *trainer, double *value, icl_error *error) {
    icl_fastweight_loss loss;

    ICL_CHECK(measure(user, trainer, &loss, error));
    *value = loss.mean;
    return ICL_OK;
}

static size_t steps_of(const icl_fastweight_curve *curve, icl_scale scale) {
    return scale == ICL_SCALE_SHORT && curve->short_steps > 0 ? curve->short_steps : most_steps[scale];
}

static size_t patience_of(const icl_fastweight_curve *curve, icl_scale scale) {
    return scale == ICL_SCALE_SHORT && curve->short_patience > 0 ? curve->short_patience : 10;
}

static icl_status make_recipe(const icl_reproducing *run, const icl_fastweight_figure *figure,
                              const icl_fastweight_curve *curve, size_t keys, icl_recipe **recipe, icl_error *error) {
    icl_recipe *made = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_recipe("fastweight", &made, error));
    ICL_TRY(icl_reproduce_override(made, error, "task.keys=%zu", keys));
    ICL_TRY(icl_reproduce_override(made, error, "task.writes=%zu", figure->repeated ? 2 * keys : keys));
    ICL_TRY(icl_reproduce_override(made, error, "task.draws=%s", figure->repeated ? "repeated" : "distinct"));
    ICL_TRY(icl_reproduce_override(made, error, "model.rule=%s", curve->rule));
    ICL_TRY(icl_reproduce_override(made, error, "model.feature_map=%s", curve->feature_map));
    if (curve->overrides)
        ICL_TRY(icl_reproduce_override_all(made, curve->overrides, error));
    ICL_TRY(icl_reproduce_override(made, error, "eval.every=100"));
    ICL_TRY(icl_reproduce_override(made, error, "train.stop_at=0.001"));
    ICL_TRY(icl_reproduce_override(made, error, "train.stop_after=%zu", patience_of(curve, run->params->scale)));
    ICL_TRY(icl_reproduce_override(made, error, "train.steps=%zu", steps_of(curve, run->params->scale)));
    ICL_TRY(icl_reproduce_override(made, error, "train.seed=%" PRIu32, run->params->seed));
    *recipe = made;
    made = NULL;
done:
    icl_recipe_destroy(&made);
    return status;
}

static icl_status read_losses(const icl_reproducing *run, const char *cell, icl_evaluated *losses, icl_error *error) {
    icl_metrics metrics = {0};
    char *folder = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_path_join(run->params->folder, cell, &folder, error));
    ICL_TRY(icl_metrics_read(folder, &metrics, error));
    *losses = metrics.all;
done:
    icl_metrics_release(&metrics);
    icl_free(&folder);
    return status;
}

static icl_status train(icl_reproducing *run, const icl_fastweight_figure *figure, const icl_fastweight_curve *curve,
                        size_t keys, const char *cell, trained *out, icl_error *error) {
    measuring with = {.run = run, .keys = keys};
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make_recipe(run, figure, curve, keys, &recipe, error));
    with.recipe = recipe;
    ICL_TRY(
        icl_reproduce_train_measured(run, cell, recipe, &(icl_session_measure){measure_loss, &with}, &trainer, error));
    ICL_TRY(measure(&with, trainer, &out->last, error));
    ICL_TRY(read_losses(run, cell, &out->losses, error));
    out->steps = icl_trainer_progress(trainer).step;
done:
    icl_fastweight_measure_destroy(&with.made);
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

/* ---- Judging ---- */

/* What no memory of this kind goes below in expectation; 0: no such limit is known. */
static double floor_of(const icl_fastweight_figure *figure, const icl_fastweight_curve *curve, size_t keys) {
    if (figure->repeated)
        return strcmp(curve->rule, "sum") == 0 ? icl_fastweight_mean_floor(keys) : 0;
    return icl_fastweight_rank_floor(curve->features, keys);
}

/* Where a log lies on its floor, ours must, too; elsewhere a lower loss is as good. Logs are means over 20 sequences
 * and over splits of keys of unequal size: where chance has put one below its floor, the floor is the target. */
static icl_status judge(icl_reproducing *run, const icl_fastweight_figure *figure, const icl_fastweight_curve *curve,
                        size_t keys, double log, const trained *is, icl_error *error) {
    const double floor = floor_of(figure, curve, keys), target = log > 0 ? fmax(log, floor) : 0;
    char what[ICL_FASTWEIGHT_NAME], note[192];

    snprintf(what, sizeof what, "%s, S %zu", curve->name, keys);
    icl_print(note, sizeof note, "after %" PRIu64 " steps %.4g", is->steps, is->losses.last);
    if (curve->differs || target > log)
        icl_print(note + strlen(note), sizeof note - strlen(note), "; their log %.3g: %s", log,
                  curve->differs ? curve->differs : "below the floor");
    ICL_CHECK(ICL_FOUND(
        run, error, .what = what, .quantity = "least half squared error", .ours = is->losses.least, .target = target,
        .standard_error = is->last.standard_error, .tolerance = fmax(.1 * target, .002),
        .criterion = target <= 1.1 * floor ? ICL_WITHIN : ICL_AT_MOST,
        .evidence = log > 0 && !curve->differs ? ICL_READ : ICL_EVIDENCE_NONE, .source = figure->source, .note = note));
    if (floor == 0 || figure->repeated)
        return ICL_OK;
    /* Rounding moves a loss of order 1 by less. */
    return ICL_FOUND(run, error, .what = what, .quantity = "half squared error at the end", .ours = is->last.mean,
                     .target = floor, .tolerance = 1e-5, .criterion = ICL_AT_LEAST, .evidence = ICL_COMPUTED,
                     .source = "rank of what a memory returns, (1 - D / S) / 2");
}

/* A run that diverged has no loss. */
static icl_status reproduce_cell(icl_reproducing *run, const icl_fastweight_figure *figure,
                                 const icl_fastweight_curve *curve, size_t place, icl_curves *curves,
                                 icl_error *error) {
    const size_t keys = size_at(place);
    char cell[ICL_FASTWEIGHT_NAME];
    trained is = {0};

    snprintf(cell, sizeof cell, "%s-%s-S%zu", curve->rule, curve->feature_map, keys);
    for (char *sign = cell; *sign; sign++)
        if (*sign == ':' || *sign == '+')
            *sign = '-';
    if (!icl_reproduce_wants(run, cell))
        return ICL_OK;
    const icl_status status = train(run, figure, curve, keys, cell, &is, error);
    if (status != ICL_OK && status != ICL_ERROR_DIVERGED)
        return status;
    if (status == ICL_ERROR_DIVERGED)
        is = (trained){.losses = icl_evaluated_none, .last = {.mean = (double)NAN}};
    ICL_CHECK(judge(run, figure, curve, keys, curve->logs[place], &is, error));
    return icl_curves_add(curves, curve->name, ICL_SERIES_OURS, (double)keys, is.losses.least, error);
}

/* ---- The figure ---- */

/* What is known of a curve beside ours: the logs, and the limit of rank, one for all curves of as many features. */
static icl_status add_known(const icl_fastweight_curve *curve, size_t places, icl_curves *curves, icl_error *error) {
    char log[ICL_CURVE_LABEL], rank[ICL_CURVE_LABEL];

    snprintf(log, sizeof log, "%s, their log", curve->name);
    snprintf(rank, sizeof rank, "rank of %zu features", curve->features);
    for (size_t i = 0; i < places; i++) {
        const double S = (double)size_at(i);
        if (curve->logs[i] > 0)
            ICL_CHECK(icl_curves_add(curves, log, ICL_SERIES_PUBLISHED, S, curve->logs[i], error));
        if (curve->features > 0 && curve->features < size_at(places - 1))
            ICL_CHECK(icl_curves_add(curves, rank, ICL_SERIES_REFERENCE, S,
                                     icl_fastweight_rank_floor(curve->features, size_at(i)), error));
    }
    return ICL_OK;
}

icl_status icl_fastweight_reproduce(icl_reproducing *run, const icl_fastweight_figure *figure, icl_curves *curves,
                                    icl_error *error) {
    static const unsigned sizes[ICL_SCALES] = {1, 1 + 4 + 16, ~0U}; /* S = 20; 20, 60, 100; all */
    const size_t places = figure->most / ICL_FASTWEIGHT_STEP;

    curves->figure = (icl_figure){.name = figure->name,
                                  .title = figure->title,
                                  .x_label = "keys S",
                                  .y_label = "least half squared error",
                                  .log_y = true,
                                  .least_y = 1e-4};
    for (size_t i = 0; i < figure->count; i++) {
        const icl_fastweight_curve *curve = &figure->curves[i];
        if (run->params->scale < curve->first)
            continue;
        for (size_t place = 0; place < places; place++)
            if (sizes[run->params->scale] >> place & 1)
                ICL_CHECK(icl_reproduce_next(run, reproduce_cell(run, figure, curve, place, curves, error)));
        ICL_CHECK(add_known(curve, places, curves, error)); /* behind ours, whose colour and mark a log takes */
    }
    /* Where nothing was chosen an old picture stands. */
    return run->findings > 0 ? icl_curves_draw(run, curves, error) : ICL_OK;
}
