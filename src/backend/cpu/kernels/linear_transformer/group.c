/*
 * Groups of LANE_COUNT sequences: loading them into lanes, norms, clipping, and the sum of their gradients, lane by
 * lane; the lanes are added at the end of a slice. Without clipping, gradients are added up as they are computed.
 * Clipping needs each sequence's whole gradient first, so a group's gradients are then stored separately.
 */
#include <math.h>
#include <string.h>

#include "arithmetic/lane_transpose.h"
#include "backend/cpu/kernels/linear_transformer/linear.h"
#include "backend/cpu/kernels/parts.h"

typedef struct slice {
    const linear_plan *plan;
    linear_group group;
    lane *gradient;          /* [used], of one group */
    lane *sums;              /* [used] */
    lane *parameterizations; /* what the form asks for */
} slice;

static slice describe(const linear_plan *plan, lane_memory *memory) {
    const size_t size = plan->size, used = plan->has_gradient ? plan->used : 0;
    slice part = {.plan = plan, .group = {.plan = plan}};
    size_t parameterizations;

    part.group.gram = take_lanes(memory, size * size);
    if (plan->tokens.elements) {
        part.group.tokens = take_lanes(memory, (plan->context + 1) * size);
        part.group.query = part.group.tokens ? part.group.tokens + plan->context * size : NULL;
    } else {
        part.group.query = take_lanes(memory, size);
    }
    part.gradient = take_lanes(memory, used);
    part.sums = take_lanes(memory, used);
    if (plan->parameterization == ICL_LINEAR_SPARSE)
        parameterizations = KERNEL(linear_sparse_lanes)(plan);
    else if (plan->parameterization == ICL_LINEAR_DIAG || plan->parameterization == ICL_LINEAR_GDPP)
        parameterizations = KERNEL(linear_diagonal_lanes)(plan);
    else
        parameterizations = KERNEL(linear_dense_lanes)(plan);
    part.parameterizations = take_lanes(memory, parameterizations);
    return part;
}

size_t KERNEL(linear_workspace)(const linear_plan *plan) {
    lane_memory counted = {0};
    describe(plan, &counted);
    return counted.used * sizeof(lane);
}

/* ---- Loading ---- */

/* Loads one element of each of the group's sequences; lanes without a sequence get zeros. */
static void load_lanes(lane *to, const linear_group *group, const HOST(linear_operand) * from, size_t row,
                       size_t column) {
    const real *elements =
        from->elements + group->first * from->stride[0] + row * from->stride[1] + column * from->stride[2];
    real *lanes = lane_elements(to);
    for (size_t i = 0; i < LANE_COUNT; i++)
        lanes[i] = i < group->count ? elements[i * from->stride[0]] : 0;
}

/* Loads all elements of the sequences, a square at a time; the last square may overlap the one before. Returns false if
 * the elements of a sequence are not adjacent, or are too few. */
static bool load_packed(lane *to, const linear_group *group, const HOST(linear_operand) * from, size_t rows,
                        lane factor) {
#ifdef LANE_TRANSPOSE
    const size_t size = group->plan->size, all = rows * size;
    const real *elements = from->elements + group->first * from->stride[0];

    if (group->count < LANE_COUNT || from->stride[2] != 1 || (rows > 1 && from->stride[1] != size) || all < LANE_COUNT)
        return false;
    for (size_t i = 0; i + LANE_COUNT <= all; i += LANE_COUNT)
        transpose_lanes(to + i, elements + i, from->stride[0], factor);
    if (all % LANE_COUNT != 0)
        transpose_lanes(to + all - LANE_COUNT, elements + all - LANE_COUNT, from->stride[0], factor);
    return true;
#else
    (void)to, (void)group, (void)from, (void)rows, (void)factor;
    return false;
#endif
}

static void load_rows(lane *to, const linear_group *group, const HOST(linear_operand) * from, size_t rows,
                      real factor) {
    const size_t size = group->plan->size;
    if (load_packed(to, group, from, rows, lane_set(factor)))
        return;
    for (size_t row = 0; row < rows; row++)
        for (size_t column = 0; column < size; column++)
            load_lanes(to + row * size + column, group, from, row, column);
    lanes_scale(to, lane_set(factor), to, rows * size);
}

static void load(const linear_group *group) {
    const linear_plan *plan = group->plan;
    const size_t size = plan->size;

    if (plan->tokens.elements) {
        load_rows(group->tokens, group, &plan->tokens, plan->context + 1, 1);
        form_gram(plan, group->tokens, group->gram);
        return;
    }
    load_rows(group->query, group, &plan->query, 1, 1);
    load_rows(group->gram, group, &plan->gram, size, plan->factor);
}

/* Returns the data of the next group; nothing if there is none, or if sequences are not adjacent in memory. */
static data_ahead find_ahead(const linear_group *group, size_t last) {
    const linear_plan *plan = group->plan;
    const HOST(linear_operand) *from = plan->tokens.elements ? &plan->tokens : &plan->gram;
    const size_t rows = plan->tokens.elements ? plan->context + 1 : plan->size, length = rows * plan->size;
    const size_t begin = group->first + LANE_COUNT, left = begin < last ? last - begin : 0;
    const real *first = from->elements + (left > 0 ? begin * length : 0);

    if (left == 0 || from->stride[0] != length)
        return (data_ahead){NULL, NULL};
    return (data_ahead){(const char *)first, (const char *)(first + (left < LANE_COUNT ? left : LANE_COUNT) * length)};
}

/* ---- Forms ---- */

static void run_form(const slice *part) {
    if (part->plan->parameterization == ICL_LINEAR_SPARSE)
        KERNEL(linear_sparse)(&part->group, part->parameterizations);
    else if (part->plan->parameterization == ICL_LINEAR_DIAG || part->plan->parameterization == ICL_LINEAR_GDPP)
        KERNEL(linear_diagonal)(&part->group, part->parameterizations);
    else
        KERNEL(linear_dense)(&part->group, part->parameterizations);
}

/* ---- Gradients ---- */

/* Visits a range of parameters whose gradients the form has written; the others are zero. */
typedef void range_function(void *context, size_t first, size_t count);

static void each_range(const linear_plan *plan, range_function *visit, void *context) {
    const bool is_dense = plan->parameterization == ICL_LINEAR_FULL || plan->parameterization == ICL_LINEAR_SPARSE_B;
    const size_t square = plan->block * plan->block, last = (plan->depth - 1) * plan->heads * 2 * square;

    if (!is_dense) {
        visit(context, 0, plan->used);
        return;
    }
    visit(context, 0, last);
    for (size_t h = 0; h < plan->heads; h++) {
        const size_t p = last + h * 2 * square;
        if (plan->parameterization == ICL_LINEAR_FULL) /* of the last layer's P only the last row matters */
            visit(context, p + square - plan->size, plan->size);
        visit(context, p + square, square);
    }
}

/* One pass over the gradients of a group: it adds up their squares, or computes sums += share * gradient. */
typedef struct pass {
    const lane *gradient;
    lane *sums;
    lane share;
    lane scale;   /* the factor of the numbers that are squared */
    lane squares; /* the sum */
} pass;

static void add_squares(void *context, size_t first, size_t count) {
    pass *sweep = context;
    const lane *gradient = sweep->gradient + first, scale = sweep->scale;
    lane squares[4];
    size_t i = 0;

    UNROLL for (size_t j = 0; j < 4; j++) squares[j] = lane_set(0);
    for (; i + 4 <= count; i += 4) {
        UNROLL for (size_t j = 0; j < 4; j++) {
            const lane scaled = lane_multiply(scale, gradient[i + j]);
            squares[j] = lane_fma(scaled, scaled, squares[j]);
        }
    }
    for (; i < count; i++) {
        const lane scaled = lane_multiply(scale, gradient[i]);
        squares[0] = lane_fma(scaled, scaled, squares[0]);
    }
    sweep->squares =
        lane_add(sweep->squares, lane_add(lane_add(squares[0], squares[1]), lane_add(squares[2], squares[3])));
}

static void add_clipped(void *context, size_t first, size_t count) {
    const pass *sweep = context;
    for (size_t i = first; i < first + count; i++)
        sweep->sums[i] = lane_fma(sweep->share, sweep->gradient[i], sweep->sums[i]);
}

/* If a sum of squares is above MANY or below FEW, it is computed again from the numbers times SHRINK or GROW. */
#if ICL_CPU_DOUBLE
#define SHRINK 0x1p-540
#define GROW   0x1p500
#define MANY   1e250
#define FEW    1e-250
#else
#define SHRINK 0x1p-80F
#define GROW   0x1p70F
#define MANY   1e30F
#define FEW    1e-25F
#endif

static bool is_out_of_range(real squares, bool large) {
    return large ? !(squares <= MANY) : squares < FEW;
}

/* Computes the group's gradients again by themselves, if they were added to those of others. */
static void isolate(slice *part) {
    lane squares = lane_set(0);

    if (!part->group.tallies)
        return;
    part->group.tallies = false;
    part->group.gradient = part->gradient;
    part->group.squares = &squares;
    run_form(part);
    part->group.squares = NULL;
}

/* Replaces the norms whose sums of squares left the range in which they are exact enough. */
static void measure_again(slice *part, lane squares, bool large, lane *norms) {
    pass again = {.scale = lane_set(large ? SHRINK : GROW), .squares = lane_set(0)};
    bool any = false;

    for (size_t i = 0; i < part->group.count; i++)
        any = any || is_out_of_range(lane_elements(&squares)[i], large);
    if (!any)
        return;
    isolate(part);
    again.gradient = part->group.gradient;
    each_range(part->plan, add_squares, &again);
    for (size_t i = 0; i < LANE_COUNT; i++)
        if (is_out_of_range(lane_elements(&squares)[i], large))
            lane_elements(norms)[i] = REAL_SQRT(lane_elements(&again.squares)[i]) / (large ? SHRINK : GROW);
}

/* Returns the norms of the group's gradients, by lane, from the sums of their squares. */
static lane norms_of(slice *part, lane squares) {
    lane norms = lane_set(0);
    for (size_t i = 0; i < LANE_COUNT; i++)
        lane_elements(&norms)[i] = REAL_SQRT(lane_elements(&squares)[i]);
    measure_again(part, squares, true, &norms);
    measure_again(part, squares, false, &norms);
    return norms;
}

/* Sets the gradient to 0 in a lane without a finite norm. A share of 0 is not enough, because 0 times infinity is
 * NaN. */
static void erase_lane(const linear_group *group, size_t index) {
    for (size_t i = 0; i < group->plan->used; i++)
        lane_elements(group->gradient + i)[index] = 0;
}

static lane shares(const linear_group *group, lane norms) {
    const real threshold = *group->plan->threshold;
    lane result = lane_set(0);
    for (size_t i = 0; i < LANE_COUNT; i++) {
        const real norm = lane_elements(&norms)[i];
        if (i < group->count && isfinite(norm))
            lane_elements(&result)[i] = norm > threshold ? threshold / norm : 1;
        else
            erase_lane(group, i);
    }
    return result;
}

static void finish(slice *part, lane squares) {
    const linear_plan *plan = part->plan;
    const linear_group *group = &part->group;
    real *to = plan->norms.elements + group->first * plan->norms.stride[0];
    lane norms = norms_of(part, squares);

    for (size_t i = 0; i < group->count; i++)
        to[i * plan->norms.stride[0]] = lane_elements(&norms)[i];
    if (!plan->threshold)
        return;
    pass adding = {.gradient = group->gradient, .sums = part->sums, .share = shares(group, norms)};
    each_range(plan, add_clipped, &adding);
}

/* Returns the sum of a vector's lanes, added by halves. */
static real fold_lane(const real *lanes) {
    real half[LANE_COUNT / 2];

    UNROLL for (size_t i = 0; i < LANE_COUNT / 2; i++) half[i] = lanes[i] + lanes[i + LANE_COUNT / 2];
    UNROLL for (size_t width = LANE_COUNT / 4; width > 0; width /= 2) {
        UNROLL for (size_t i = 0; i < width; i++) half[i] += half[i + width];
    }
    return half[0];
}

/* Sets to[i] to the sum of x[i]'s lanes. With shuffles, LANE_COUNT vectors are summed together, in the same order of
 * addition. */
static void fold_lanes(real *to, const lane *x, size_t count) {
    size_t first = 0;

#ifdef LANE_TRANSPOSE
    for (; first + LANE_COUNT <= count; first += LANE_COUNT) {
        const lane sums = fold_square(x + first);
        memcpy(to + first, &sums, sizeof sums);
    }
#endif
    for (; first < count; first++)
        to[first] = fold_lane((const real *)(x + first));
}

typedef struct fold {
    const lane *sums;
    real *to;
} fold;

static void fold_range(void *context, size_t first, size_t count) {
    const fold *sum = context;
    fold_lanes(sum->to + first, sum->sums + first, count);
}

/* Without clipping the first group writes the sums, and the others add to them. */
void KERNEL(linear_slice)(const linear_plan *plan, size_t first, size_t last, void *workspace, real *sum) {
    lane_memory memory = memory_at(workspace);
    slice part = describe(plan, &memory);

    if (plan->threshold)
        lanes_clear(part.sums, plan->used);
    for (part.group.first = first; part.group.first < last; part.group.first += LANE_COUNT) {
        const size_t left = last - part.group.first;
        lane squares = lane_set(0);
        data_ahead ahead = find_ahead(&part.group, last);
        part.group.count = left < LANE_COUNT ? left : LANE_COUNT;
        part.group.tallies = !plan->threshold && part.group.first > first;
        part.group.gradient = plan->threshold ? part.gradient : part.sums;
        part.group.squares = plan->norms.elements ? &squares : NULL;
        part.group.ahead = &ahead;
        load(&part.group);
        run_form(&part);
        if (plan->norms.elements)
            finish(&part, squares);
    }
    if (plan->has_gradient) {
        memset(sum, 0, plan->used * sizeof *sum);
        each_range(plan, fold_range, &(fold){part.sums, sum});
    }
}
