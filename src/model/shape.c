#include "iclab/shape.h"

#include <stdio.h>

#include "iclab/status.h"

icl_task_shape icl_regression_shape(size_t dimension, size_t context) {
    return (icl_task_shape){
        .positions = context + 1, .inputs = dimension + 1, .outputs = 1, .first_scored = context, .scored = 1};
}

bool icl_task_shape_equal(const icl_task_shape *a, const icl_task_shape *b) {
    return a->positions == b->positions && a->inputs == b->inputs && a->symbols == b->symbols &&
           a->outputs == b->outputs && a->first_scored == b->first_scored && a->scored == b->scored &&
           a->loss == b->loss;
}

const char *icl_task_shape_text(const icl_task_shape *shape, char text[ICL_TASK_SHAPE_TEXT]) {
    const bool symbols = shape->symbols > 0;
    snprintf(text, ICL_TASK_SHAPE_TEXT, "%zu positions of %s%zu %s, %zu output%s at %zu position%s from %zu on by %s",
             shape->positions, symbols ? "one of " : "", symbols ? shape->symbols : shape->inputs,
             symbols ? "symbols" : "coordinates", shape->outputs, shape->outputs == 1 ? "" : "s", shape->scored,
             shape->scored == 1 ? "" : "s", shape->first_scored, icl_loss_name(shape->loss));
    return text;
}

icl_status icl_task_shape_check(const icl_task_shape *shape, const char *whose, icl_error *error) {
    char text[ICL_TASK_SHAPE_TEXT];

    if (shape->positions > 0 && (shape->inputs > 0) != (shape->symbols > 0) && shape->outputs > 0 &&
        shape->scored > 0 && shape->first_scored < shape->positions &&
        shape->scored <= shape->positions - shape->first_scored && shape->loss < ICL_LOSS_COUNT)
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s: a shape of %s, expected coordinates or symbols, at least 1 position and 1 output, and "
                    "scored positions within the sequence",
                    whose, icl_task_shape_text(shape, text));
}
