/* What stands between a caller and a backend: views, validation, overlap, host transfers, and the fallback. */
#include <math.h>
#include <stdint.h>

#include "backend/contract.h"
#include "tap.h"

static bool refused(icl_status status, const icl_error *error, const char *expected) {
    const bool good = status == ICL_ERROR_INPUT && strstr(error->message, expected) && !strchr(error->message, '\n');
    if (!good)
        tap_note("status %s, message \"%s\", expected \"%s\"", icl_status_name(status), error->message, expected);
    return good;
}

static void test_views(tap_run *tap, icl_backend *backend) {
    icl_tensor t = {0};
    icl_error error = {0};
    float values[2 * 3 * 4], got[2 * 3 * 4];
    bool right = true;

    for (int i = 0; i < 24; i++)
        values[i] = (float)i;
    if (!tap_status(tap, icl_tensor_create(backend, 3, (const size_t[]){2, 3, 4}, &t, &error), &error, "create") ||
        !tap_status(tap, icl_tensor_write(t, values, &error), &error, "write"))
        return;

    const icl_tensor swapped = icl_tensor_swap_axes(icl_tensor_slice(t, 2, 1, 2), 0, 2); /* [2, 3, 2] */
    tap_status(tap, icl_tensor_read(swapped, got, &error), &error, "read a strided view");
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 3; b++)
            for (int c = 0; c < 2; c++)
                right = right && got[(a * 3 + b) * 2 + c] == values[(c * 3 + b) * 4 + 1 + a];
    tap_ok(tap, right, "slice and swap_axes address the right elements");
    tap_ok(tap, icl_tensor_is_contiguous(&t) && !icl_tensor_is_contiguous(&swapped), "contiguity is known");

    tap_status(tap,
               icl_tensor_write(icl_tensor_slice(t, 1, 1, 1), (const float[]){-1, -2, -3, -4, -5, -6, -7, -8}, &error),
               &error, "write a strided view");
    tap_status(tap, icl_tensor_read(icl_tensor_reshape(t, 1, (const size_t[]){24}), got, &error), &error,
               "read it all");
    for (int i = 0; i < 24; i++) {
        const int written = i / 12 * 4 + i % 4 + 1;
        right = right && got[i] == (i / 4 % 3 == 1 ? -(float)written : values[i]);
    }
    tap_ok(tap, right, "only the view's elements changed");

    double wide[24];
    tap_status(tap, icl_tensor_read_double(t, wide, &error), &error, "read as double");
    for (int i = 0; i < 24; i++)
        right = right && wide[i] == (double)got[i];
    tap_ok(tap, right, "both element types read the same numbers");
    icl_tensor_release(&t);
    tap_ok(tap, t.buffer == NULL, "release clears the tensor");
}

static void test_refusals(tap_run *tap, icl_backend *backend) {
    icl_tensor t = {0}, other = {0}, none = {0};
    icl_error error = {0};

    if (!tap_status(tap, icl_tensor_create(backend, 2, (const size_t[]){4, 6}, &t, &error), &error, "create") ||
        !tap_status(tap, icl_tensor_create(backend, 2, (const size_t[]){4, 5}, &other, &error), &error, "create"))
        return;
    const icl_tensor left = icl_tensor_slice(t, 1, 0, 3), right = icl_tensor_slice(t, 1, 3, 3);
    const icl_tensor middle = icl_tensor_slice(t, 1, 2, 3);

    tap_ok(tap, refused(icl_copy(backend, t, none, &error), &error, "no tensor"), "a missing operand is refused");
    tap_ok(tap, refused(icl_copy(backend, t, other, &error), &error, "[4, 5] does not broadcast to [4, 6]"),
           "shapes that do not broadcast are refused by name");
    tap_ok(tap,
           refused(icl_fill(backend, icl_tensor_broadcast(icl_tensor_slice(t, 1, 0, 1), 1, 2), 0, &error), &error,
                   "repeats"),
           "an output that repeats elements is refused");
    tap_ok(tap, icl_copy(backend, left, right, &error) == ICL_OK, "interleaved slices of one tensor do not overlap");
    tap_ok(tap, refused(icl_copy(backend, left, middle, &error), &error, "overlaps"), "overlapping slices are refused");
    tap_ok(tap, icl_unary(backend, ICL_NEGATE, left, left, &error) == ICL_OK, "elementwise in place is allowed");
    tap_ok(tap, refused(icl_reduce(backend, ICL_SUM, 4, other, t, &error), &error, "past rank 2"),
           "an axis past the rank is refused");
    tap_ok(tap, refused(icl_reduce(backend, ICL_SUM, 1, other, t, &error), &error, "expected [1, 6]"),
           "a wrong output shape is refused");
    tap_ok(tap, refused(icl_matmul(backend, other, 1, t, t, 0, &error), &error, "do not fit"),
           "a product that does not fit is refused");
    tap_ok(tap, refused(icl_unary(backend, (icl_unary_kind)99, t, t, &error), &error, "unknown kind"),
           "an unknown kind is refused");
    icl_tensor beyond = t;
    beyond.shape[0] = 5;
    tap_ok(tap, refused(icl_fill(backend, beyond, 0, &error), &error, "reaches past"),
           "a view past its buffer is refused");

    icl_tensor huge = {0};
    tap_ok(tap,
           icl_tensor_create(backend, 2, (const size_t[]){SIZE_MAX / 2, 4}, &huge, &error) == ICL_ERROR_MEMORY &&
               strstr(error.message, "overflow"),
           "sizes that overflow are refused");
    tap_ok(tap, icl_tensor_create(backend, 2, (const size_t[]){(size_t)1 << 40, 64}, &huge, &error) == ICL_ERROR_MEMORY,
           "more memory than the device has is refused: %s", error.message);
    icl_tensor_release(&t);
    icl_tensor_release(&other);
}

/* A backend without an op: the host runs it on mapped memory, it is counted, and the result is the host's. */
static icl_tensor vector(icl_tensor whole, size_t length) {
    return icl_tensor_slice(whole, 0, 0, length);
}

/* Operands of an op, filled with one value. */
static void create_all(tap_run *tap, icl_backend *backend, int count, const int *ranks,
                       const size_t (*shapes)[ICL_MAX_RANK], double value, icl_tensor *operands) {
    icl_error error = {0};

    for (int i = 0; i < count; i++) {
        if (icl_tensor_create(backend, ranks[i], shapes[i], &operands[i], &error) != ICL_OK)
            tap_ok(tap, false, "operands: %s", error.message);
        if (operands[i].buffer)
            (void)icl_fill(backend, operands[i], value, NULL);
    }
}

/* Operands of the ops that train: whole[i] is a vector of eight elements. */
static void test_training_refusals(tap_run *tap, icl_backend *backend) {
    const icl_update_params adam = {.adam = {.step = 1}, .fraction = 0.5}, no_step = {.fraction = 0.5};
    const icl_update_params no_fraction = {.adam = {.step = 1}};
    const icl_tensor none = {0};
    icl_tensor whole[10] = {{0}};
    icl_error error = {0};
    const size_t length = 8;

    for (int i = 0; i < 10; i++)
        if (icl_tensor_create(backend, 1, &length, &whole[i], &error) != ICL_OK)
            tap_ok(tap, false, "eight elements: %s", error.message);
    const icl_tensor *states = &whole[1], three = vector(whole[3], 3), one = vector(whole[4], 1);
#define UPDATE(params, measures, threshold, losses, norms)                                                             \
    icl_update_step(backend, &(params), whole[0], states, measures, threshold, whole[5], losses, norms, none, &error)
    tap_ok(tap, UPDATE(adam, three, one, whole[7], whole[8]) == ICL_OK, "a whole step runs");
    tap_ok(tap, UPDATE(adam, three, none, whole[7], none) == ICL_OK, "and one without a threshold");
    tap_ok(tap, refused(UPDATE(no_step, three, one, whole[7], whole[8]), &error, "step 0"), "Adam's step 0 is refused");
    tap_ok(tap, refused(UPDATE(no_fraction, three, one, whole[7], whole[8]), &error, "fraction 0"),
           "a threshold that nothing exceeds is refused");
    tap_ok(tap, refused(UPDATE(adam, one, one, whole[7], whole[8]), &error, "measures"),
           "room for one of three measures is refused");
    tap_ok(tap, refused(UPDATE(adam, three, one, whole[7], whole[0]), &error, "overlap"),
           "norms that lie in the parameters are refused");
    tap_ok(tap, refused(UPDATE(adam, three, one, vector(whole[7], 7), whole[8]), &error, "norms"),
           "more norms than losses are refused");
    tap_ok(tap, refused(UPDATE(adam, three, one, whole[7], none), &error, "norms"),
           "a threshold without norms is refused");
#define DECAYS(mask)                                                                                                   \
    icl_update_step(backend, &adam, whole[0], states, three, none, whole[5], whole[7], none, mask, &error)
    tap_ok(tap, DECAYS(whole[9]) == ICL_OK, "a mask of decay runs");
    tap_ok(tap, refused(DECAYS(vector(whole[9], 7)), &error, "decays has shape [7]"), "a shorter mask is refused");
    tap_ok(tap, refused(DECAYS(whole[0]), &error, "overlap"), "parameters as their own mask are refused");
#undef DECAYS
#undef UPDATE
    tap_ok(tap, refused(icl_track_threshold(backend, 0, one, three, whole[8], &error), &error, "fraction 0"),
           "a fraction of 0 is refused");
    tap_ok(tap, refused(icl_track_threshold(backend, 0.5, one, three, whole[8], &error), &error, "dropped"),
           "three counts are refused");
    tap_ok(tap, icl_track_threshold(backend, 0.5, one, vector(three, 1), vector(whole[8], 0), &error) == ICL_OK,
           "no norms are no error");
    for (int i = 0; i < 10; i++)
        icl_tensor_release(&whole[i]);
}

static void test_gram_refusals(tap_run *tap, icl_backend *backend) {
    const icl_gram_params params = {.context = 9, .noise_level = {.distribution = ICL_UNIFORM, .high = 1}};
    const icl_gram_params normal = {.context = 9, .noise_level = {.distribution = ICL_NORMAL}};
    const icl_gram_params no_choice = {.context = 9, .noise_level = {.distribution = ICL_CHOICE}};
    static const size_t shapes[7][ICL_MAX_RANK] = {
        {4, 3, 3}, {4, 3}, {4}, {4, 2}, {4}, {3, ICL_CHI_PIECES, ICL_CHI_TERMS}, {2, 2, 2}};
    static const int ranks[7] = {3, 2, 1, 2, 1, 3, 3};
    const icl_tensor none = {0};
    icl_tensor t[7] = {{0}};
    icl_error error = {0};

    create_all(tap, backend, 7, ranks, shapes, 0.5, t);
#define SAMPLE(params, query, weights, chi, roots)                                                                     \
    icl_gram_sample(backend, &(params), t[0], query, t[2], weights, t[4], chi, roots, &error)
    tap_ok(tap, SAMPLE(params, t[1], t[3], t[5], t[6]) == ICL_OK, "Gram matrices are drawn");
    tap_ok(tap, SAMPLE(params, t[1], t[3], t[5], none) == ICL_OK, "also without roots");
    tap_ok(tap, refused(SAMPLE(normal, t[1], t[3], t[5], none), &error, "distribution 1"),
           "a normal noise level is refused");
    tap_ok(tap, refused(SAMPLE(no_choice, t[1], t[3], t[5], none), &error, "0 choices"),
           "a choice of nothing is refused");
    tap_ok(tap, refused(SAMPLE(params, t[3], t[3], t[5], none), &error, "query"), "a query without label is refused");
    tap_ok(tap, refused(SAMPLE(params, t[1], t[3], icl_tensor_slice(t[5], 0, 0, 2), none), &error, "[3 or more"),
           "a table with a row too few is refused");
    tap_ok(tap, refused(SAMPLE(params, t[1], t[3], t[5], t[0]), &error, "roots"), "roots of another shape are refused");
    const icl_tensor whole = t[0];
    t[0] = icl_tensor_slice(icl_tensor_slice(whole, 1, 0, 1), 2, 0, 1);
    tap_ok(tap, refused(SAMPLE(params, icl_tensor_slice(t[1], 1, 0, 1), t[3], t[5], none), &error, "with d > 0"),
           "a matrix of labels alone is refused");
    t[0] = whole;
#undef SAMPLE
    for (int i = 0; i < 7; i++)
        icl_tensor_release(&t[i]);
}

/* Heads that share keys: what divides, what does not, and shapes beside those that fit. */
static void test_head_refusals(tap_run *tap, icl_backend *backend) {
    enum { OUT, SUM, Q, K, V, D_Q, D_K, D_V, COUNT };
    static const int ranks[COUNT] = {4, 4, 4, 4, 4, 4, 4, 4};
    static const size_t shapes[COUNT][ICL_MAX_RANK] = {{2, 6, 3, 4}, {2, 6, 3, 1}, {2, 6, 3, 5}, {2, 6, 7, 5},
                                                       {2, 6, 7, 4}, {2, 6, 3, 5}, {2, 6, 7, 5}, {2, 6, 7, 4}};
    const icl_attention_params softmax = {ICL_ATTENTION_SOFTMAX, ICL_MASK_CAUSAL, 1};
    icl_tensor t[COUNT] = {{0}};
    icl_error error = {0};

    create_all(tap, backend, COUNT, ranks, shapes, 0.5, t);
#define GROUPS(i, n)            icl_tensor_slice(t[i], 1, 0, n)
#define FORWARD(out, sum, k, v) icl_attention_forward(backend, &softmax, out, sum, t[Q], k, v, &error)
#define BACKWARD(d_q, d_k, k, v)                                                                                       \
    icl_attention_backward(backend, &softmax, d_q, d_k, t[D_V], t[OUT], t[OUT], t[SUM], t[Q], k, v, &error)
    for (size_t groups = 1; groups <= 6; groups++) {
        const icl_status status = FORWARD(t[OUT], t[SUM], GROUPS(K, groups), GROUPS(V, groups));
        if (6 % groups == 0)
            tap_ok(tap, status == ICL_OK, "6 heads read %zu groups", groups);
        else
            tap_ok(tap, refused(status, &error, "a multiple of"), "6 heads of %zu groups are refused", groups);
    }
    tap_ok(tap, refused(FORWARD(t[OUT], t[SUM], GROUPS(K, 0), GROUPS(V, 0)), &error, "a multiple of"),
           "heads without groups are refused");
    tap_ok(tap, refused(FORWARD(t[OUT], t[SUM], GROUPS(K, 3), GROUPS(V, 1)), &error, "as many"),
           "fewer heads of values than of keys are refused");
    tap_ok(tap, refused(FORWARD(GROUPS(OUT, 3), t[SUM], t[K], t[V]), &error, "out has shape"),
           "results of half the heads are refused");
    tap_ok(tap, refused(FORWARD(t[OUT], GROUPS(SUM, 3), t[K], t[V]), &error, "log_sum_exp has shape"),
           "sums of half the heads are refused");
    tap_ok(tap,
           refused(FORWARD(t[OUT], t[SUM], icl_tensor_reshape(t[K], 3, (const size_t[]){12, 7, 5}), t[V]), &error,
                   "ranks of q, k, v are 4, 3, 4"),
           "keys without heads are refused");
    tap_ok(tap, BACKWARD(t[D_Q], t[D_K], t[K], t[V]) == ICL_OK, "gradients of 6 heads of keys");
    tap_ok(tap, refused(BACKWARD(t[D_Q], t[D_K], GROUPS(K, 3), GROUPS(V, 3)), &error, "d_k has shape"),
           "gradients of 6 heads of 3 are refused");
    tap_ok(tap, refused(BACKWARD(t[D_Q], t[D_K], GROUPS(K, 4), GROUPS(V, 4)), &error, "a multiple of"),
           "gradients of 6 heads that share 4 are refused");
    tap_ok(tap, refused(BACKWARD(t[Q], t[D_K], t[K], t[V]), &error, "overlaps"),
           "gradients over the input are refused");
    const icl_tensor d_v = t[D_V];
    t[D_V] = icl_tensor_broadcast(icl_tensor_slice(d_v, 2, 0, 1), 2, 7);
    tap_ok(tap, refused(BACKWARD(t[D_Q], t[D_K], t[K], t[V]), &error, "repeats"),
           "a gradient of values that repeats elements is refused");
    t[D_V] = d_v;
#undef BACKWARD
#undef FORWARD
#undef GROUPS
    for (int i = 0; i < COUNT; i++)
        icl_tensor_release(&t[i]);
}

static void test_spherical_refusals(tap_run *tap, icl_backend *backend) {
    static const size_t shapes[4][ICL_MAX_RANK] = {{4, 5, 3}, {4, 5, 1}, {ICL_CHI_PIECES, ICL_CHI_TERMS}, {4, 5, 2}};
    static const int ranks[4] = {3, 3, 2, 3};
    const icl_tensor none = {0};
    icl_tensor t[4] = {{0}};
    icl_error error = {0};

    create_all(tap, backend, 4, ranks, shapes, 0.5, t);
    tap_ok(tap, icl_spherical(backend, t[0], t[0], t[1], t[2], &error) == ICL_OK, "rows go onto spheres");
    tap_ok(tap, icl_spherical(backend, t[0], t[0], none, none, &error) == ICL_OK, "also of radius 1");
    tap_ok(tap, refused(icl_spherical(backend, t[0], t[0], t[1], none, &error), &error, "without a table"),
           "normals without a table are refused");
    tap_ok(tap, refused(icl_spherical(backend, t[0], t[3], none, none, &error), &error, "in has shape"),
           "shorter rows are refused");
    tap_ok(tap, refused(icl_spherical(backend, t[0], t[0], t[3], t[2], &error), &error, "normals"),
           "two normals a row are refused");
    tap_ok(tap,
           refused(icl_spherical(backend, t[0], t[0], t[1], icl_tensor_slice(t[2], 0, 0, 3), &error), &error, "table"),
           "a shorter table is refused");
    tap_ok(tap,
           refused(icl_spherical(backend, t[3], icl_tensor_slice(t[3], 2, 0, 1), none, none, &error), &error,
                   "in has shape"),
           "rows of another length are refused");
    for (int i = 0; i < 4; i++)
        icl_tensor_release(&t[i]);
}

static void test_row_refusals(tap_run *tap, icl_backend *backend) {
    static const size_t shapes[4][ICL_MAX_RANK] = {{5, 3}, {4, 5, 3}, {4, 5}, {4, 3}};
    static const int ranks[4] = {2, 3, 2, 2};
    icl_tensor t[4] = {{0}};
    icl_error error = {0};

    create_all(tap, backend, 4, ranks, shapes, 1, t);
    const icl_tensor half = icl_tensor_slice(t[0], 0, 0, 2), row = icl_tensor_slice(t[1], 0, 0, 1);
    tap_ok(tap, icl_look_up(backend, t[1], t[0], t[2], &error) == ICL_OK, "rows are looked up");
    tap_ok(tap, refused(icl_look_up(backend, t[1], t[0], t[3], &error), &error, "symbols has shape"),
           "symbols of another shape are refused");
    tap_ok(tap, refused(icl_look_up(backend, t[1], t[2], t[2], &error), &error, "table has shape [4, 5], expected"),
           "rows of another length are refused");
    tap_ok(tap, refused(icl_look_up(backend, t[1], icl_tensor_slice(row, 0, 0, 1), t[2], &error), &error, "rank 3"),
           "a table of rank 3 is refused");
    tap_ok(tap, icl_look_up_backward(backend, t[0], t[1], t[2], &error) == ICL_OK, "rows are added up");
    tap_ok(tap, refused(icl_look_up_backward(backend, half, t[1], t[3], &error), &error, "symbols has shape"),
           "symbols of another shape are refused for the gradient, too");
    tap_ok(tap,
           icl_concatenate(backend, t[0], 0, 2, (const icl_tensor[]){t[3], icl_tensor_slice(t[3], 0, 0, 0)}, &error) ==
               ICL_ERROR_INPUT,
           "parts shorter than the whole are refused");
    tap_ok(tap,
           refused(icl_concatenate(backend, t[0], 0, 2, (const icl_tensor[]){t[3], t[3]}, &error), &error,
                   "longer than out"),
           "and longer ones");
    tap_ok(tap, refused(icl_concatenate(backend, t[0], 2, 1, t, &error), &error, "axis 2"), "an axis too many, too");
    tap_ok(tap, refused(icl_concatenate(backend, t[0], 0, 1, t, &error), &error, "overlaps"),
           "and a part that is the whole itself");
    for (int i = 0; i < 4; i++)
        icl_tensor_release(&t[i]);
}

static void test_token_refusals(tap_run *tap, icl_backend *backend) {
    static const size_t shapes[5][ICL_MAX_RANK] = {{2, 5, 4}, {2, 5, 4}, {3, 4}, {5, 2, 2}, {2, 5, 3}};
    static const int ranks[5] = {3, 3, 2, 3, 3};
    const icl_tensor none = {0};
    icl_tensor t[5] = {{0}};
    icl_error error = {0};

    create_all(tap, backend, 5, ranks, shapes, 1, t);
    tap_ok(tap, icl_convolve(backend, t[0], t[1], t[2], &error) == ICL_OK, "tokens are filtered");
    tap_ok(tap, refused(icl_convolve(backend, t[0], t[0], t[2], &error), &error, "overlaps"),
           "a filter over its own input is refused");
    tap_ok(tap, refused(icl_convolve(backend, t[4], t[4], t[2], &error), &error, "kernel has shape"),
           "a kernel for other channels is refused");
    tap_ok(tap, icl_convolve_backward(backend, none, none, t[0], t[1], t[2], &error) == ICL_OK,
           "no gradient may be wanted");
    tap_ok(tap, refused(icl_convolve_backward(backend, t[4], none, t[0], t[1], t[2], &error), &error, "d_in"),
           "a gradient of another shape is refused");
    tap_ok(tap, icl_rotate(backend, false, t[0], t[0], t[3], &error) == ICL_OK, "tokens are rotated in place");
    tap_ok(tap, refused(icl_rotate(backend, false, t[4], t[4], t[3], &error), &error, "even"),
           "rows of odd length are refused");
    tap_ok(tap, refused(icl_rotate(backend, false, t[0], t[1], t[4], &error), &error, "angles has shape"),
           "angles of another shape are refused");
    for (int i = 0; i < 5; i++)
        icl_tensor_release(&t[i]);
}

static void test_random_refusals(tap_run *tap, icl_backend *backend) {
    static const struct {
        unsigned distribution;
        uint32_t choices;
        const char *expected; /* NULL: taken */
    } rows[] = {{ICL_CHOICE, 0, "0 choices"},
                {ICL_CHOICE, 1, NULL},
                {ICL_CHOICE, ICL_MAX_CHOICES, NULL},
                {ICL_CHOICE, ICL_MAX_CHOICES + 1, "expected 1.."},
                {ICL_NORMAL, 0, NULL},
                {ICL_CHOICE + 1, 1, "unknown distribution"}};
    icl_tensor t = {0};
    icl_error error = {0};

    if (!tap_status(tap, icl_tensor_create(backend, 1, (const size_t[]){4}, &t, &error), &error, "create"))
        return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const icl_random_params params = {.distribution = (icl_distribution)rows[i].distribution,
                                          .choice_count = rows[i].choices};
        const icl_status status = icl_random_fill(backend, &params, t, &error);
        tap_ok(tap, rows[i].expected ? refused(status, &error, rows[i].expected) : status == ICL_OK,
               "distribution %u with %u choices is %s", rows[i].distribution, rows[i].choices,
               rows[i].expected ? "refused" : "taken");
    }
    icl_tensor_release(&t);
}

/* Rows [4, 5], one number for each [4, 1], and a vector [5]. */
static void test_norm_refusals(tap_run *tap, icl_backend *backend) {
    static const size_t shapes[5][ICL_MAX_RANK] = {{4, 5}, {4, 5}, {4, 1}, {4, 1}, {5}};
    static const int ranks[5] = {2, 2, 2, 2, 1};
    const icl_normalize_params layer = {ICL_NORM_LAYER, 1e-5}, unknown = {ICL_NORM_COUNT, 0}, negative = {0, -1};
    const icl_tensor none = {0};
    icl_tensor t[5] = {{0}};
    icl_error error = {0};

    create_all(tap, backend, 5, ranks, shapes, 1, t);
    tap_ok(tap, icl_normalize(backend, &layer, t[0], t[0], t[4], t[4], &error) == ICL_OK,
           "rows are normalized in place");
    tap_ok(tap, refused(icl_normalize(backend, &unknown, t[0], t[1], none, none, &error), &error, "unknown kind"),
           "an unknown norm is refused");
    tap_ok(tap, refused(icl_normalize(backend, &negative, t[0], t[1], none, none, &error), &error, "epsilon -1"),
           "a negative epsilon is refused");
    tap_ok(tap, refused(icl_normalize(backend, &layer, t[0], t[1], t[2], none, &error), &error, "gain has shape"),
           "a gain for each row is refused");
    tap_ok(tap, refused(icl_normalize(backend, &layer, t[0], t[1], none, t[2], &error), &error, "shift has shape"),
           "a shift for each row is refused");
    tap_ok(tap, refused(icl_normalize(backend, &layer, t[0], t[2], none, none, &error), &error, "in has shape"),
           "shorter rows are refused");
    tap_ok(tap,
           refused(icl_normalize_backward(backend, &layer, t[0], none, none, t[0], t[1], none, &error), &error,
                   "overlaps"),
           "a gradient onto d_out is refused");
    tap_ok(tap, icl_cross_entropy(backend, t[2], t[0], t[3], &error) == ICL_OK, "rows have a cross-entropy");
    tap_ok(tap, refused(icl_cross_entropy(backend, t[2], t[0], t[1], &error), &error, "classes has shape"),
           "a class for each logit is refused");
    tap_ok(tap, refused(icl_cross_entropy(backend, t[2], t[0], t[2], &error), &error, "overlaps"),
           "losses onto classes are refused");
    tap_ok(tap,
           refused(icl_cross_entropy(backend, t[2],
                                     icl_tensor_broadcast(icl_tensor_slice(t[0], 1, 0, 1), 1, ICL_MAX_CLASSES + 1),
                                     t[3], &error),
                   &error, "16777217 classes"),
           "more classes than floats tell apart are refused");
    for (int i = 0; i < 5; i++)
        icl_tensor_release(&t[i]);
}

/* Each operand beside d_in [4, 5], replaced by one number for each row, [4, 1]. */
static void test_norm_gradient_refusals(tap_run *tap, icl_backend *backend) {
    enum { COUNT = 6 };
    static const char *const expected[COUNT] = {NULL,
                                                ": d_gain has shape [4, 1]",
                                                ": d_shift has shape [4, 1]",
                                                ": d_out has shape [4, 1]",
                                                ": in has shape [4, 1]",
                                                ": gain has shape [4, 1]"};
    static const size_t shapes[COUNT + 1][ICL_MAX_RANK] = {{4, 5}, {5}, {5}, {4, 5}, {4, 5}, {5}, {4, 1}};
    static const int ranks[COUNT + 1] = {2, 1, 1, 2, 2, 1, 2};
    const icl_normalize_params layer = {ICL_NORM_LAYER, 1e-5};
    icl_tensor t[COUNT + 1] = {{0}};
    icl_error error = {0};

    create_all(tap, backend, COUNT + 1, ranks, shapes, 1, t);
    for (int i = 0; i < COUNT; i++) {
        icl_tensor u[COUNT];
        memcpy(u, t, sizeof u);
        if (expected[i])
            u[i] = t[COUNT];
        const icl_status status = icl_normalize_backward(backend, &layer, u[0], u[1], u[2], u[3], u[4], u[5], &error);
        tap_ok(tap, expected[i] ? refused(status, &error, expected[i]) : status == ICL_OK, "a norm's gradients: %s",
               expected[i] ? error.message : "all operands fit");
    }
    for (int i = 0; i <= COUNT; i++)
        icl_tensor_release(&t[i]);
}

static void test_fallback(tap_run *tap, icl_backend *backend) {
    const icl_backend_functions *complete = backend->functions;
    icl_backend_functions lacking = *complete;
    icl_error error = {0};
    icl_tensor t = {0};
    float got[6];
    bool right = true;

    lacking.ops[ICL_OP_unary] = NULL;
    backend->functions = &lacking;
    tap_status(tap, icl_tensor_create(backend, 1, (const size_t[]){6}, &t, &error), &error, "create");
    tap_status(tap, icl_tensor_write(t, (const float[]){1, 2, 3, 4, 5, 6}, &error), &error, "write");
    const icl_tensor tail = icl_tensor_slice(t, 0, 3, 3);
    tap_status(tap, icl_unary(backend, ICL_NEGATE, tail, tail, &error), &error, "an op that the backend lacks");
    tap_status(tap, icl_tensor_read(t, got, &error), &error, "read");
    for (int i = 0; i < 6; i++)
        right = right && got[i] == (i < 3 ? (float)(i + 1) : -(float)(i + 1));
    tap_ok(tap, right, "ran on the host, on the device's memory");
    tap_ok(tap, icl_backend_get_statistics(backend).fallbacks == 1, "and was counted");
    backend->functions = complete;
    icl_tensor_release(&t);
}

static icl_status fill_part(void *context, icl_backend *worker, size_t number, size_t part, icl_error *error) {
    (void)number;
    (void)part;
    return icl_fill(worker, *(icl_tensor *)context, 3, error);
}

/* A flag ends the ops of a backend and of its workers, and nothing else. */
static void test_stop(tap_run *tap, icl_backend *backend) {
    volatile sig_atomic_t stop = 0;
    icl_tensor t = {0};
    icl_error error = {0};
    float value = 0;

    tap_status(tap, icl_tensor_create(backend, 0, NULL, &t, &error), &error, "a number");
    icl_backend_stop_on(backend, &stop);
    tap_status(tap, icl_fill(backend, t, 1, &error), &error, "a flag that is not set");
    stop = 1;
    tap_ok(tap, icl_fill(backend, t, 2, &error) == ICL_ERROR_INTERRUPTED && strstr(error.message, "asked to stop"),
           "an op behind a flag that is set: %s", error.message);
    tap_ok(tap, icl_backend_share(backend, 1, fill_part, &t, &error) == ICL_ERROR_INTERRUPTED, "an op of a worker");
    tap_status(tap, icl_tensor_read(t, &value, &error), &error, "what is there can be read");
    tap_ok(tap, value == 1.0F, "and is what it was: %g", (double)value);
    icl_backend_stop_on(backend, NULL);
    tap_status(tap, icl_backend_share(backend, 1, fill_part, &t, &error), &error, "without a flag they go on");
    tap_status(tap, icl_tensor_read(t, &value, &error), &error, "as");
    tap_ok(tap, value == 3.0F, "%g shows", (double)value);
    icl_tensor_release(&t);
}

static void test_specs(tap_run *tap) {
    static const char *const malformed[] = {"cpu:",
                                            "cpu:threads=",
                                            "cpu:threads=0",
                                            "cpu:threads=x",
                                            "cpu:threads=1:threads=1",
                                            "cpu:threads=2isa=base",
                                            "cpu:isa=",
                                            "cpu:isa=avx",
                                            "cpu:isa=base:",
                                            "cpu:isa=base:isa=base",
                                            "cpu:isa=base,threads=2",
                                            "gpu",
                                            "opencl:",
                                            "cpux"};
    icl_error error = {0};
    icl_backend *backend = NULL;

    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++)
        tap_ok(tap,
               icl_backend_open(&(icl_backend_params){.spec = malformed[i]}, &backend, &error) == ICL_ERROR_INPUT &&
                   !backend,
               "device \"%s\" is refused", malformed[i]);
    tap_ok(tap,
           icl_backend_open(&(icl_backend_params){.spec = "opencl:no-such-device"}, &backend, &error) ==
               ICL_ERROR_DEVICE,
           "an unknown device is a device error: %s", error.message);
    tap_status(tap, icl_backend_open(NULL, &backend, &error), &error, "auto always opens something");
    icl_backend_close(&backend);
    tap_ok(tap, backend == NULL, "close clears the handle");
}

/* Words of errors and of tables. */
static void test_names(tap_run *tap) {
    tap_ok(tap, strcmp(icl_unary_name(ICL_NEGATE), "negate") == 0 && strcmp(icl_unary_name(ICL_GELU), "gelu") == 0,
           "unary kinds have names");
    tap_ok(tap,
           strcmp(icl_binary_name(ICL_ADD), "add") == 0 && strcmp(icl_binary_name(ICL_GELU_SLOPE), "gelu_slope") == 0,
           "and binary ones");
    tap_ok(tap, strcmp(icl_reduce_name(ICL_SUM), "sum") == 0 && strcmp(icl_reduce_name(ICL_NORM), "norm") == 0,
           "and reductions");
    tap_ok(tap,
           strcmp(icl_unary_name((icl_unary_kind)ICL_UNARY_COUNT), "unknown") == 0 &&
               strcmp(icl_binary_name((icl_binary_kind)ICL_BINARY_COUNT), "unknown") == 0 &&
               strcmp(icl_reduce_name((icl_reduce_kind)ICL_REDUCE_COUNT), "unknown") == 0,
           "and no others");
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = argc > 1 ? tap_open_device(&tap, argv[1]) : NULL;

    if (backend) {
        test_views(&tap, backend);
        test_refusals(&tap, backend);
        test_training_refusals(&tap, backend);
        test_gram_refusals(&tap, backend);
        test_spherical_refusals(&tap, backend);
        test_random_refusals(&tap, backend);
        test_norm_refusals(&tap, backend);
        test_norm_gradient_refusals(&tap, backend);
        test_row_refusals(&tap, backend);
        test_token_refusals(&tap, backend);
        test_head_refusals(&tap, backend);
        test_fallback(&tap, backend);
        test_stop(&tap, backend);
        icl_backend_close(&backend);
        test_specs(&tap);
        test_names(&tap);
    }
    return tap_done(&tap);
}
