/* What each kind of step reads and writes of the team's memory: cl/linear_transformer/linear_steps.h as a table for
 * those who place it. */
#include "backend/opencl/linear_transformer/operands.h"

typedef struct list {
    icl_linear_operand *operands;
    size_t count;
} list;

static icl_linear_operand *put(list *to, cl_uint *place) {
    icl_linear_operand *operand = &to->operands[to->count++];
    *operand = (icl_linear_operand){.place = place};
    return operand;
}

static void read(list *to, cl_uint *place) {
    put(to, place)->is_read = true;
}

/* `count` elements of it. */
static icl_linear_operand *write(list *to, cl_uint *place, cl_uint count) {
    icl_linear_operand *operand = put(to, place);
    operand->written = count;
    return operand;
}

static void put_product(list *to, step *s) {
    const cl_uint from = s->mode & MODE_START;
    if (s->depth > 0) {
        read(to, &s->a);
        read(to, &s->b);
    }
    if (from == START_TWO_SIDED) {
        read(to, &s->start);
        to->operands[to->count - 1].may_be_far = true;
    } else if (from == START_OUTER) {
        read(to, &s->start);
        read(to, &s->extra);
    }
    icl_linear_operand *result = write(to, &s->to, s->rows * s->rows);
    result->is_read = from == START_SELF;
    result->may_be_far = true;
}

static void put_shared_product(list *to, step *s) {
    read(to, &s->b);
    icl_linear_operand *result = write(to, &s->to, s->rows * s->rows);
    result->is_read = (s->mode & MODE_START) == START_SELF;
    result->may_be_far = true;
    if (s->mode & MODE_TWICE)
        write(to, &s->extra, s->rows * s->rows)->may_be_far = true;
}

/* Elementwise, or a product of a few rows. */
static void put_rows(list *to, step *s) {
    if (s->kind != STEP_BROADCAST && s->kind != STEP_LABEL && s->kind != STEP_TAKE)
        read(to, &s->a);
    if (s->kind == STEP_APPLY)
        read(to, &s->b);
    if ((s->kind == STEP_APPLY || s->kind == STEP_APPLY_SHARED || s->kind == STEP_PAIR) && s->mode & START_GIVEN)
        read(to, &s->start);
    write(to, &s->to, s->rows * s->columns);
}

size_t icl_linear_operands_of(step *s, icl_linear_operand operands[ICL_LINEAR_OPERANDS]) {
    list to = {operands, 0};

    switch (s->kind) {
    case STEP_MORE_ROWS:
        break;
    case STEP_SCALE:
        write(&to, &s->to, s->rows * s->columns)->is_read = true;
        break;
    case STEP_MULTIPLY:
        put_product(&to, s);
        break;
    case STEP_MULTIPLY_SHARED:
        put_shared_product(&to, s);
        break;
    case STEP_GRADIENT:
        read(&to, &s->a);
        read(&to, &s->b);
        break;
    case STEP_VALUE:
        read(&to, &s->a);
        read(&to, &s->b);
        read(&to, &s->start);
        break;
    case STEP_COLUMN_DOTS:
        read(&to, &s->a);
        read(&to, &s->b);
        write(&to, &s->to, s->columns);
        break;
    case STEP_ROW_SUMS:
        read(&to, &s->a);
        read(&to, &s->b);
        write(&to, &s->to, 2 * s->rows);
        break;
    case STEP_GRADIENT_ROW:
    case STEP_GRADIENT_PAIR:
    case STEP_GRADIENT_WEIGHTS:
        read(&to, &s->a);
        break;
    default:
        put_rows(&to, s);
        break;
    }
    return to.count;
}
