/* The shape of a task and of a model's answers: the sizes on which both must agree. */
#ifndef ICLAB_SHAPE_H
#define ICLAB_SHAPE_H

#include "iclab/loss.h"

ICL_C_BEGIN

/* A sequence has T positions. Each holds p coordinates, or one of V symbols. The S positions from first_scored on are
 * scored: a model gives q outputs for each, and the loss compares them with c = icl_loss_target_size(loss, q) target
 * numbers. */
typedef struct icl_task_shape {
    size_t positions;    /* T */
    size_t inputs;       /* p; 0 with symbols */
    size_t symbols;      /* V; 0 with coordinates */
    size_t outputs;      /* q */
    size_t first_scored; /* counted from 0 */
    size_t scored;       /* S */
    icl_loss_kind loss;  /* loss of a scored position */
} icl_task_shape;

/* Returns the shape of in-context regression with n pairs of dimension d: positions (x_1, y_1) … (x_n, y_n), (x_t, 0),
 * of which only the last is scored, by the squared error of one number. */
ICL_API icl_task_shape icl_regression_shape(size_t dimension, size_t context);

/* Returns whether every member is the same. */
ICL_API bool icl_task_shape_equal(const icl_task_shape *a, const icl_task_shape *b);

/* Checks a shape: ICL_ERROR_INPUT unless there is a position, an output, a scored position within the sequence, and
 * either inputs or symbols. The message begins with `whose`. */
ICL_API icl_status icl_task_shape_check(const icl_task_shape *shape, const char *whose, icl_error *error);

/* The bytes of a shape as text, and that text: "21 positions of 11 coordinates, 1 output at 1 position from 20 on by
 * squared error"; for messages. */
#define ICL_TASK_SHAPE_TEXT 160
ICL_API const char *icl_task_shape_text(const icl_task_shape *shape, char text[ICL_TASK_SHAPE_TEXT]);

ICL_C_END

#endif
