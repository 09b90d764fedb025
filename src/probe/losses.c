/* Losses of a model of any family beside the reference predictors, as a whole and by position. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "iclab/evaluate.h"
#include "probe/inspection.h"
#include "run/recipe_keys.h"

/* The most curves that can be told apart. */
#define MOST_PREDICTORS 12

static icl_status report_position(icl_inspection *run, const icl_score *score, const icl_position_score *at,
                                  icl_error *error) {
    char quantity[64];

    snprintf(quantity, sizeof quantity, "%s at position %zu", icl_loss_name(score->loss_kind), at->position);
    ICL_CHECK(ICL_INSPECT_FOUND(run, error, .what = score->predictor, .quantity = quantity, .value = at->loss,
                                .standard_error = at->se));
    if (isnan(at->accuracy))
        return ICL_OK;
    snprintf(quantity, sizeof quantity, "accuracy at position %zu", at->position);
    return ICL_INSPECT_FOUND(run, error, .what = score->predictor, .quantity = quantity, .value = at->accuracy);
}

static icl_status report_losses(icl_inspection *run, const icl_evaluation *evaluation, icl_error *error) {
    for (size_t i = 0; i < evaluation->count; i++) {
        const icl_score *score = &evaluation->scores[i];
        ICL_CHECK(ICL_INSPECT_FOUND(run, error, .what = score->predictor, .quantity = icl_loss_name(score->loss_kind),
                                    .value = score->mse, .standard_error = score->se, .note = score->constants));
        if (!isnan(score->accuracy))
            ICL_CHECK(ICL_INSPECT_FOUND(run, error, .what = score->predictor, .quantity = "accuracy",
                                        .value = score->accuracy));
        for (size_t s = 0; s < score->position_count; s++)
            ICL_CHECK(report_position(run, score, &score->positions[s], error));
    }
    return ICL_OK;
}

static icl_status write_positions(icl_inspection *run, const icl_evaluation *evaluation, icl_error *error) {
    enum { PLACES = 3 };
    const icl_score *first = &evaluation->scores[0];
    const size_t last = first->position_count > 0 ? first->position_count - 1 : 0, places[] = {0, last / 2, last};
    const bool has_accuracy = icl_loss_has_accuracy(first->loss_kind);
    icl_report_column columns[3 + PLACES] = {{"predictor", false}, {icl_loss_name(first->loss_kind), true}};
    char headings[PLACES][32], texts[2 + PLACES][ICL_INSPECT_CELL];
    size_t count = 2;

    if (has_accuracy)
        columns[count++] = (icl_report_column){"accuracy", true};
    for (size_t i = 0; i < PLACES && last >= PLACES; i++) {
        snprintf(headings[i], sizeof headings[i], "at position %zu", first->positions[places[i]].position);
        columns[count++] = (icl_report_column){headings[i], true};
    }
    ICL_CHECK(icl_inspect_table_begin(run, columns, count, error));
    for (size_t i = 0; i < evaluation->count; i++) {
        const icl_score *score = &evaluation->scores[i];
        const char *cells[3 + PLACES] = {score->predictor, icl_inspect_measured(score->mse, score->se, texts[0])};
        size_t filled = 2;
        if (has_accuracy)
            cells[filled++] = icl_inspect_number(score->accuracy, texts[1]);
        for (size_t place = 0; place < PLACES && last >= PLACES; place++)
            cells[filled++] = icl_inspect_number(score->positions[places[place]].loss, texts[2 + place]);
        ICL_CHECK(icl_inspect_table_row(run, i == 0 ? ICL_TONE_STRONG : ICL_TONE_PLAIN, cells, error));
    }
    return icl_inspect_table_end(run, error);
}

static icl_status draw_positions(icl_inspection *run, const icl_evaluation *evaluation, icl_error *error) {
    icl_curves curves = ICL_CURVES(.name = "positions", .title = "Loss by position", .x_label = "position",
                                   .y_label = icl_loss_name(evaluation->scores[0].loss_kind));
    icl_status status = ICL_OK;

    for (size_t i = 0; i < evaluation->count && i < MOST_PREDICTORS; i++) {
        const icl_score *score = &evaluation->scores[i];
        ICL_TRY(
            icl_curves_begin(&curves, i == 0 ? ICL_SERIES_LINE : ICL_SERIES_REFERENCE, error, "%s", score->predictor));
        for (size_t s = 0; s < score->position_count; s++)
            ICL_TRY(icl_curves_point(&curves, (double)score->positions[s].position, score->positions[s].loss, error));
    }
    ICL_TRY(icl_inspect_curves(run, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

static icl_status evaluate_positions(icl_inspection *run, size_t sequences, icl_evaluation **evaluation,
                                     icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_clone(run->recipe, &recipe, error));
    ICL_TRY(icl_recipe_set_count(recipe, ICL_EVAL_KEY(sequences), sequences, error));
    ICL_TRY(icl_recipe_set_text(recipe, ICL_EVAL_KEY(predictors), "all", error));
    ICL_TRY(icl_evaluate(run->params->backend, run->trainer, recipe, evaluation, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

static icl_status conclude_losses(icl_inspection *run, const icl_evaluation *evaluation, icl_error *error) {
    const icl_score *model = &evaluation->scores[0], *best = NULL;

    for (size_t i = 1; i < evaluation->count; i++)
        if (!best || evaluation->scores[i].mse < best->mse)
            best = &evaluation->scores[i];
    ICL_CHECK(icl_text_print(&run->lead, error, " Its %s is %.4g", icl_loss_name(model->loss_kind), model->mse));
    if (!isnan(model->accuracy))
        ICL_CHECK(icl_text_print(&run->lead, error, " (accuracy %.4g)", model->accuracy));
    if (best)
        ICL_CHECK(icl_text_print(&run->lead, error, "; that of the best reference predictor, %s, is %.4g",
                                 best->predictor, best->mse));
    return icl_text_print(&run->lead, error, ".");
}

icl_status icl_inspect_losses(icl_inspection *run, size_t sequences, icl_error *error) {
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    icl_inspect_progress(run, "reference predictors", 0);
    ICL_TRY(evaluate_positions(run, sequences, &evaluation, error));
    ICL_TRY(icl_inspect_section(run, "Losses beside the reference predictors", error));
    ICL_TRY(report_losses(run, evaluation, error));
    ICL_TRY(write_positions(run, evaluation, error));
    if (evaluation->scores[0].position_count > 0)
        ICL_TRY(draw_positions(run, evaluation, error));
    if (evaluation->count == 1)
        ICL_TRY(icl_inspect_paragraph(run, error, "The task has no reference predictors."));
    ICL_TRY(icl_inspect_paragraph(run, error,
                                  "On %" PRIu64
                                  " fresh sequences; +- is one standard error. The loss at a position is the mean of "
                                  "its weight times its loss, where the task weighs positions.",
                                  evaluation->sequences));
    ICL_TRY(conclude_losses(run, evaluation, error));
done:
    icl_evaluation_destroy(&evaluation);
    return status;
}
