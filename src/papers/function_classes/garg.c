#include "papers/function_classes/garg.h"

#include <math.h>

enum { MOST_SERIES = 16 };

/* At ci the model hardly learns: that scale is for the predictors and the way that a curve goes. */
static const icl_garg_setting settings[ICL_SCALES] = {
    {3, 5, "task.d=3 task.n=5 model.layers=1 model.width=16 train.warmup=20", 150, 4096, 1},
    {5, 10, "", 10000, 20000, 1},
    {20, 40, ICL_GARG_FULL "task.n=40", 500000, 10000, 1},
};

const icl_garg_setting *icl_garg_setting_of(const icl_reproducing *run) {
    return &settings[run->params->scale];
}

double icl_garg_error(const icl_score *score, size_t pairs, double unit, double *standard_error) {
    const bool is_there = score && pairs < score->position_count;

    *standard_error = is_there ? score->positions[pairs].se / unit : (double)NAN;
    return is_there ? score->positions[pairs].loss / unit : (double)NAN;
}

icl_status icl_garg_draw(icl_reproducing *run, const char *name, const char *title, const char *ours, double unit,
                         size_t bound_d, const icl_evaluation *evaluation, icl_error *error) {
    double at[ICL_GARG_POINTS], bound[ICL_GARG_POINTS];
    double values[MOST_SERIES][ICL_GARG_POINTS], errors[MOST_SERIES][ICL_GARG_POINTS];
    icl_series series[MOST_SERIES + 1];
    size_t used = 0, points = 0;

    for (size_t i = 0; i < evaluation->count && used < MOST_SERIES; i++) {
        const icl_score *score = &evaluation->scores[i];
        points = score->position_count < ICL_GARG_POINTS ? score->position_count : ICL_GARG_POINTS;
        for (size_t k = 0; k < points; k++)
            values[used][k] = icl_garg_error(score, k, unit, &errors[used][k]);
        series[used] = (icl_series){i == 0 ? ours : score->predictor,
                                    i == 0 ? ICL_SERIES_LINE : ICL_SERIES_REFERENCE,
                                    points,
                                    at,
                                    values[used],
                                    errors[used]};
        used++;
    }
    for (size_t k = 0; k < points; k++) {
        at[k] = (double)k;
        bound[k] = k < bound_d ? 1 - (double)k / (double)bound_d : (double)NAN;
    }
    if (bound_d > 0)
        series[used++] = (icl_series){"1 - k / d", ICL_SERIES_PUBLISHED, points, at, bound, NULL};
    return ICL_DRAW_FIGURE(run, error, .name = name, .title = title, .x_label = "labelled pairs k",
                           .y_label = "squared error / mean square", .log_y = true, .least_y = 1e-4, .count = used,
                           .series = series);
}
