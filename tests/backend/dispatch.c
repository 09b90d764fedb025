/* The layer between a caller and a backend: views, validation, overlap, host transfers, and the fallback. */
#include <math.h>
#include <stdint.h>

#include "backend/contract.h"
#include "iclab/ops_gram.h"
#include "iclab/ops_linear_transformer.h"
#include "iclab/ops_sequence.h"
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

/* Refusals that the table of ops does not imply; op_table.c tests those that it does. */
static void test_refusals(tap_run *tap, icl_backend *backend) {
    icl_tensor t = {0}, other = {0}, none = {0};
    icl_error error = {0};

    if (!tap_status(tap, icl_tensor_create(backend, 2, (const size_t[]){4, 6}, &t, &error), &error, "create") ||
        !tap_status(tap, icl_tensor_create(backend, 2, (const size_t[]){4, 5}, &other, &error), &error, "create"))
        return;
    tap_ok(tap, refused(icl_copy(backend, t, none, &error), &error, "copy: the input is no tensor"),
           "a missing operand is refused by name");
    tap_ok(tap, refused(icl_copy(backend, t, other, &error), &error, "[4, 5] does not broadcast to [4, 6]"),
           "shapes that do not broadcast are refused by name");
    tap_ok(tap,
           refused(icl_matmul(backend, other, 1, t, t, 0, &error), &error, "b [4, 6] does not broadcast to [6, 5]"),
           "and a product that does not fit");
    tap_ok(tap, refused(icl_reduce(backend, ICL_SUM, 4, other, t, &error), &error, "past rank 2"),
           "an axis past the rank is refused");
    tap_ok(tap, refused(icl_reduce(backend, ICL_SUM, 1, other, t, &error), &error, "expected [1, 6]"),
           "a wrong output shape is refused");
    tap_ok(tap, refused(icl_unary(backend, (icl_unary_kind)ICL_UNARY_COUNT, t, t, &error), &error, "unknown kind"),
           "an unknown kind is refused");

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

/* Creates the operands of an op, filled with one value. */
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

/* Refusals of the ops that train. */
static void test_training_refusals(tap_run *tap, icl_backend *backend) {
    enum { COUNT = 9 };
    const icl_update_params adam = {.adam = {.step = 1}, .fraction = 0.5}, no_step = {.fraction = 0.5};
    const icl_update_params no_fraction = {.adam = {.step = 1}}, unknown = {.kind = ICL_UPDATE_COUNT};
    const icl_update_params negative = {.adam = {.step = 1}, .clip = -1},
                            no_clip = {.kind = ICL_UPDATE_SGD, .clip = (double)NAN};
    static const size_t shapes[COUNT][ICL_MAX_RANK] = {{8}, {8}, {8}, {3}, {1}, {8}, {8}, {8}, {1}};
    static const int ranks[COUNT] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    const icl_tensor none = {0};
    icl_tensor t[COUNT] = {{0}};
    icl_error error = {0};

    create_all(tap, backend, COUNT, ranks, shapes, 0, t);
#define UPDATE(params, gradient, losses, norms)                                                                        \
    icl_update_step(backend, &(params), t[0], &t[1], t[3], t[4], gradient, losses, norms, none, &error)
    tap_ok(tap, UPDATE(adam, t[5], t[6], t[7]) == ICL_OK, "a whole step runs");
    tap_ok(tap, refused(UPDATE(no_step, t[5], t[6], t[7]), &error, "step 0"), "Adam's step 0 is refused");
    tap_ok(tap, refused(UPDATE(unknown, t[5], t[6], t[7]), &error, "unknown kind"), "an unknown optimizer, too");
    tap_ok(tap, refused(UPDATE(negative, t[5], t[6], t[7]), &error, "clip -1"), "and a negative bound of the norm");
    tap_ok(tap, refused(UPDATE(no_clip, t[5], t[6], t[7]), &error, "clip "), "and one that is NaN");
    tap_ok(tap, refused(UPDATE(no_fraction, t[5], t[6], t[7]), &error, "fraction 0"),
           "a threshold that nothing exceeds is refused");
    tap_ok(tap, refused(UPDATE(adam, t[5], t[6], none), &error, "norms is no tensor"),
           "a threshold without norms is refused");
    const icl_tensor empty = icl_tensor_slice(t[6], 0, 0, 0);
    tap_ok(tap, refused(UPDATE(adam, t[5], empty, empty), &error, "8 parameters and 0 losses"),
           "no losses are refused");
#undef UPDATE
    tap_ok(tap, refused(icl_track_threshold(backend, 0, t[4], t[8], t[7], &error), &error, "fraction 0"),
           "a fraction of 0 is refused");
    tap_ok(tap, refused(icl_track_threshold(backend, 1.5, t[4], t[8], t[7], &error), &error, "fraction 1.5"),
           "and one above 1");
    tap_ok(tap, icl_track_threshold(backend, 1, t[4], t[8], t[7], &error) == ICL_OK, "all norms may exceed it");
    tap_ok(tap, refused(icl_track_threshold(backend, 0.5, t[4], t[3], t[7], &error), &error, "dropped has shape [3]"),
           "three counts are refused");
    tap_ok(tap, icl_track_threshold(backend, 0.5, t[4], t[8], empty, &error) == ICL_OK, "no norms are no error");
    for (int i = 0; i < COUNT; i++)
        icl_tensor_release(&t[i]);
}

static void test_gram_refusals(tap_run *tap, icl_backend *backend) {
    const icl_gram_params params = {.context = 9, .noise_level = {.distribution = ICL_UNIFORM, .high = 1}};
    const icl_gram_params normal = {.context = 9, .noise_level = {.distribution = ICL_NORMAL}};
    const icl_gram_params no_choice = {.context = 9, .noise_level = {.distribution = ICL_CHOICE}};
    static const size_t shapes[6][ICL_MAX_RANK] = {{4, 3, 3}, {4, 3}, {4},
                                                   {4, 2},    {4},    {3, ICL_CHI_PIECES, ICL_CHI_TERMS}};
    static const int ranks[6] = {3, 2, 1, 2, 1, 3};
    icl_tensor t[6] = {{0}};
    icl_error error = {0};

    create_all(tap, backend, 6, ranks, shapes, 0.5, t);
    const icl_tensor labels = icl_tensor_slice(icl_tensor_slice(t[0], 1, 0, 1), 2, 0, 1);
#define SAMPLE(params, gram, chi)                                                                                      \
    icl_gram_sample(backend, &(params), gram, t[1], t[2], t[3], t[4], chi, (icl_tensor){0}, &error)
    tap_ok(tap, SAMPLE(params, t[0], t[5]) == ICL_OK, "Gram matrices are drawn");
    tap_ok(tap, refused(SAMPLE(normal, t[0], t[5]), &error, "distribution 1"), "a normal noise level is refused");
    tap_ok(tap, refused(SAMPLE(no_choice, t[0], t[5]), &error, "0 choices"), "a choice of nothing is refused");
    tap_ok(tap, refused(SAMPLE(params, t[0], icl_tensor_slice(t[5], 0, 0, 2)), &error, "[3 or more"),
           "a table with a row too few is refused");
    tap_ok(tap, refused(SAMPLE(params, labels, t[5]), &error, "with d > 0"), "a matrix of labels alone is refused");
#undef SAMPLE
    for (int i = 0; i < 6; i++)
        icl_tensor_release(&t[i]);
}

/* Refusals of params of attention, and of operands that are absent. */
static void test_attention_refusals(tap_run *tap, icl_backend *backend) {
    enum { OUT, SUM, Q, K, V, COUNT };
    static const int ranks[COUNT] = {4, 4, 4, 4, 4};
    static const size_t shapes[COUNT][ICL_MAX_RANK] = {
        {2, 6, 3, 4}, {2, 6, 3, 1}, {2, 6, 3, 5}, {2, 6, 7, 5}, {2, 6, 7, 4}};
    const icl_attention_params softmax = {.kind = ICL_ATTENTION_SOFTMAX, .mask = ICL_MASK_CAUSAL, .scale = 1};
    const icl_attention_params unknown[] = {{(icl_attention_kind)(ICL_ATTENTION_SOFTMAX + 1), ICL_MASK_CAUSAL, 1, 0},
                                            {ICL_ATTENTION_SOFTMAX, (icl_attention_mask)(ICL_MASK_CAUSAL + 1), 1, 0}};
    const icl_attention_params windows[] = {{ICL_ATTENTION_LINEAR, ICL_MASK_CAUSAL, 1, 2},
                                            {ICL_ATTENTION_SOFTMAX, ICL_MASK_NONE, 1, 2},
                                            {ICL_ATTENTION_SOFTMAX, ICL_MASK_QUERY_EXCLUDED, 1, 2}};
    const icl_tensor none = {0};
    icl_tensor t[COUNT] = {{0}};
    icl_error error = {0};

    create_all(tap, backend, COUNT, ranks, shapes, 0.5, t);
#define FORWARD(params, sum, k) icl_attention_forward(backend, &(params), t[OUT], sum, t[Q], k, t[V], &error)
    tap_ok(tap, refused(FORWARD(unknown[0], t[SUM], t[K]), &error, "unknown kind 2"), "an unknown kind is refused");
    tap_ok(tap, refused(FORWARD(unknown[1], t[SUM], t[K]), &error, "unknown mask 3"), "an unknown mask is refused");
    for (int i = 0; i < 3; i++)
        tap_ok(tap, refused(FORWARD(windows[i], t[SUM], t[K]), &error, "a window of 2 keys"),
               "a window of kind %d and mask %d is refused", (int)windows[i].kind, (int)windows[i].mask);
    tap_ok(tap, refused(FORWARD(softmax, t[SUM], none), &error, "k is no tensor"), "absent keys are refused by name");
    tap_ok(tap, refused(FORWARD(softmax, none, t[K]), &error, "log_sum_exp is no tensor"),
           "softmax without its sums is refused");
#undef FORWARD
    for (int i = 0; i < COUNT; i++)
        icl_tensor_release(&t[i]);
}

/* Refusals of heads that share keys: the number of heads must be a multiple of the number of those that hold keys. */
static void test_head_refusals(tap_run *tap, icl_backend *backend) {
    enum { OUT, SUM, Q, K, V, D_Q, D_K, D_V, COUNT };
    static const int ranks[COUNT] = {4, 4, 4, 4, 4, 4, 4, 4};
    static const size_t shapes[COUNT][ICL_MAX_RANK] = {{2, 6, 3, 4}, {2, 6, 3, 1}, {2, 6, 3, 5}, {2, 6, 7, 5},
                                                       {2, 6, 7, 4}, {2, 6, 3, 5}, {2, 6, 7, 5}, {2, 6, 7, 4}};
    const icl_attention_params softmax = {.kind = ICL_ATTENTION_SOFTMAX, .mask = ICL_MASK_CAUSAL, .scale = 1};
    icl_tensor t[COUNT] = {{0}};
    icl_error error = {0};

    create_all(tap, backend, COUNT, ranks, shapes, 0.5, t);
#define GROUPS(i, n)       icl_tensor_slice(t[i], 1, 0, n)
#define FORWARD(sum, k, v) icl_attention_forward(backend, &softmax, t[OUT], sum, t[Q], k, v, &error)
#define BACKWARD(groups)                                                                                               \
    icl_attention_backward(backend, &softmax, t[D_Q], GROUPS(D_K, groups), GROUPS(D_V, groups), t[OUT], t[OUT],        \
                           t[SUM], t[Q], GROUPS(K, groups), GROUPS(V, groups), &error)
    for (size_t groups = 1; groups <= 6; groups++) {
        const icl_status status = FORWARD(t[SUM], GROUPS(K, groups), GROUPS(V, groups));
        if (6 % groups == 0)
            tap_ok(tap, status == ICL_OK, "6 heads read %zu groups", groups);
        else
            tap_ok(tap, refused(status, &error, "a multiple of"), "6 heads of %zu groups are refused", groups);
    }
    tap_ok(tap, refused(FORWARD(t[SUM], GROUPS(K, 0), GROUPS(V, 0)), &error, "a multiple of"),
           "heads without groups are refused");
    tap_ok(tap, refused(FORWARD(t[SUM], GROUPS(K, 3), GROUPS(V, 1)), &error, "as many"),
           "fewer heads of values than of keys are refused");
    tap_ok(tap,
           refused(FORWARD(t[SUM], icl_tensor_reshape(t[K], 3, (const size_t[]){12, 7, 5}), t[V]), &error,
                   "k has rank 3, expected q's 4"),
           "keys without heads are refused");
    tap_ok(tap,
           refused(icl_attention_forward(backend, &softmax, t[OUT], t[SUM], GROUPS(Q, 1), GROUPS(K, 1), GROUPS(V, 1),
                                         &error),
                   &error, "out has 6 heads and q 1, expected as many"),
           "one head of queries for six is refused");
    tap_ok(tap, BACKWARD(6) == ICL_OK && BACKWARD(3) == ICL_OK, "gradients of 6 and 3 heads of keys");
    tap_ok(tap, refused(BACKWARD(4), &error, "a multiple of"), "gradients of 6 heads that share 4 are refused");
#undef BACKWARD
#undef FORWARD
#undef GROUPS
    for (int i = 0; i < COUNT; i++)
        icl_tensor_release(&t[i]);
}

/* Refusals of whole linear transformers: their params, and the two ways to give sequences. */
static void test_linear_refusals(tap_run *tap, icl_backend *backend) {
    enum { PREDICTIONS, PARAMETERS, TOKENS, GRAM, QUERY, COUNT };
    static const size_t shapes[COUNT][ICL_MAX_RANK] = {{4}, {4}, {4, 3, 3}, {4, 3, 3}, {4, 3}};
    static const int ranks[COUNT] = {1, 1, 3, 3, 2};
    static const struct {
        icl_linear_transformer_params params;
        const char *words;
    } rows[] = {
        {{ICL_PARAMETERIZATION_COUNT, 1, 0, 0, 1, ICL_SPACE_AUTO}, "unknown parameterization 5"},
        {{ICL_LINEAR_DIAG, 0, 0, 0, 1, ICL_SPACE_AUTO}, "no layers"},
        {{ICL_LINEAR_DIAG, 1, 2, 0, 1, ICL_SPACE_AUTO}, "depth 2 of 1 layers"},
        {{ICL_LINEAR_DIAG, 1, 0, 0, (double)INFINITY, ICL_SPACE_AUTO}, "factor inf"},
        {{ICL_LINEAR_DIAG, 1, 0, 0, 1, (icl_linear_space)(ICL_SPACE_TOKENS + 1)}, "unknown space 3"},
        {{ICL_LINEAR_DIAG, SIZE_MAX, 0, 0, 1, ICL_SPACE_AUTO}, "overflow the address space"},
    };
    const icl_linear_transformer_params diagonal = {ICL_LINEAR_DIAG, 1, 0, 0, 1, ICL_SPACE_AUTO};
    const icl_tensor none = {0};
    icl_tensor t[COUNT] = {{0}};
    icl_error error = {0};

    create_all(tap, backend, COUNT, ranks, shapes, 0.5, t);
#define PREDICT(params, tokens, gram, query)                                                                           \
    icl_linear_transformer_predict(backend, &(params), t[PREDICTIONS], t[PARAMETERS], tokens, gram, query, &error)
    tap_ok(tap,
           PREDICT(diagonal, t[TOKENS], none, none) == ICL_OK && PREDICT(diagonal, none, t[GRAM], t[QUERY]) == ICL_OK,
           "tokens, or Gram matrices and queries");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        tap_ok(tap, refused(PREDICT(rows[i].params, t[TOKENS], none, none), &error, rows[i].words), "refused: %s",
               rows[i].words);
    for (unsigned given = 0; given < 8; given++)
        if (given != 1 && given != 6)
            tap_ok(tap,
                   refused(PREDICT(diagonal, given & 1 ? t[TOKENS] : none, given & 2 ? t[GRAM] : none,
                                   given & 4 ? t[QUERY] : none),
                           &error, "expected either tokens, or gram and query"),
                   "sequences given by operands 0x%x are refused", given);
    tap_ok(tap, refused(PREDICT(diagonal, icl_tensor_slice(t[TOKENS], 1, 0, 0), none, none), &error, "[B, n + 1, D]"),
           "tokens without a query are refused");
    tap_ok(tap, refused(PREDICT(diagonal, icl_tensor_slice(t[TOKENS], 2, 0, 1), none, none), &error, "1 coordinates"),
           "and tokens of labels alone");
#undef PREDICT
    for (int i = 0; i < COUNT; i++)
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
                {ICL_DISTRIBUTION_COUNT, 1, "unknown distribution"}};
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

/* Refusals of the ops of sequence models: rows [4, 6] and others. */
static void test_sequence_refusals(tap_run *tap, icl_backend *backend) {
    enum { ROWS, IN, LOSSES, CLASSES, NORMALS, ODD, ANGLES, PARTS, COUNT };
    static const size_t shapes[COUNT][ICL_MAX_RANK] = {{4, 6}, {4, 6}, {4, 1},    {4, 1},
                                                       {4, 1}, {4, 3}, {4, 1, 2}, {3, 6}};
    static const int ranks[COUNT] = {2, 2, 2, 2, 2, 2, 3, 2};
    const icl_normalize_params unknown = {ICL_NORM_COUNT, 0}, negative = {0, -1};
    const icl_tensor none = {0};
    icl_tensor t[COUNT] = {{0}};
    icl_error error = {0};

    create_all(tap, backend, COUNT, ranks, shapes, 1, t);
    tap_ok(tap, refused(icl_normalize(backend, &unknown, t[ROWS], t[IN], none, none, &error), &error, "unknown kind"),
           "an unknown norm is refused");
    tap_ok(tap, refused(icl_normalize(backend, &negative, t[ROWS], t[IN], none, none, &error), &error, "epsilon -1"),
           "a negative epsilon is refused");
    tap_ok(tap, refused(icl_spherical(backend, t[ROWS], t[IN], t[NORMALS], none, &error), &error, "without a table"),
           "normals without a table are refused");
    tap_ok(tap, refused(icl_rotate(backend, false, t[ODD], t[ODD], t[ANGLES], &error), &error, "even"),
           "rows of odd length are refused");
    const icl_tensor many = icl_tensor_broadcast(icl_tensor_slice(t[ROWS], 1, 0, 1), 1, ICL_MAX_CLASSES + 1);
    tap_ok(tap, refused(icl_cross_entropy(backend, t[LOSSES], many, t[CLASSES], &error), &error, "16777217 classes"),
           "more classes than floats tell apart are refused");
    const icl_tensor long_table = icl_tensor_broadcast(icl_tensor_slice(t[ROWS], 0, 0, 1), 0, ICL_MOST_SYMBOLS + 1);
    const icl_tensor symbols = icl_tensor_reshape(t[LOSSES], 1, (const size_t[]){4});
    tap_ok(tap, refused(icl_look_up(backend, t[IN], long_table, symbols, &error), &error, "16777217 rows"),
           "and a table of more rows");
    tap_ok(tap,
           icl_look_up(backend, t[IN], icl_tensor_slice(long_table, 0, 0, ICL_MOST_SYMBOLS), symbols, &error) == ICL_OK,
           "but not one of 2^24");
    tap_ok(tap,
           icl_convolve_backward(backend, none, none, icl_tensor_reshape(t[ROWS], 3, (const size_t[]){1, 4, 6}),
                                 icl_tensor_reshape(t[IN], 3, (const size_t[]){1, 4, 6}), t[PARTS], &error) == ICL_OK,
           "no gradient may be wanted");
    const icl_tensor parts[] = {t[PARTS], t[PARTS]};
    tap_ok(tap, refused(icl_concatenate(backend, t[ROWS], 0, 1, parts, &error), &error, "expected out's 4"),
           "parts shorter than the whole are refused");
    tap_ok(tap, refused(icl_concatenate(backend, t[ROWS], 0, 2, parts, &error), &error, "longer than out"),
           "and longer ones");
    tap_ok(tap, refused(icl_concatenate(backend, t[ROWS], 2, 1, t, &error), &error, "axis 2"), "an axis too many, too");
    tap_ok(tap, refused(icl_concatenate(backend, t[ROWS], 0, 1, t, &error), &error, "overlaps"),
           "and a part that is the whole itself");
    for (int i = 0; i < COUNT; i++)
        icl_tensor_release(&t[i]);
}

/* A backend lacks an op: the host runs it on mapped memory, the fallback is counted, and the result is the host's. */
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

/* Sums over an empty axis, of "*" (symbols) or of a letter (taps), are 0, and the backend is not called. */
static void test_no_terms(tap_run *tap, icl_backend *backend) {
    enum { ROWS, IN, OUT, COUNT };
    static const size_t shapes[COUNT][ICL_MAX_RANK] = {{3, 2}, {1, 3, 2}, {1, 3, 2}};
    static const int ranks[COUNT] = {2, 3, 3};
    const icl_backend_functions *complete = backend->functions;
    const uint64_t before = icl_backend_get_statistics(backend).fallbacks;
    icl_backend_functions lacking = *complete;
    icl_tensor t[COUNT] = {{0}};
    icl_error error = {0};
    float sums[6], filtered[6];
    bool right = true;

    create_all(tap, backend, COUNT, ranks, shapes, 1, t);
    const icl_tensor no_rows = icl_tensor_slice(icl_tensor_reshape(t[IN], 2, shapes[ROWS]), 0, 0, 0);
    const icl_tensor no_symbols = icl_tensor_slice(icl_tensor_reshape(t[IN], 1, (const size_t[]){6}), 0, 0, 0);
    lacking.ops[ICL_OP_look_up_backward] = lacking.ops[ICL_OP_convolve] = NULL;
    backend->functions = &lacking;
    tap_status(tap, icl_look_up_backward(backend, t[ROWS], no_rows, no_symbols, &error), &error, "no symbols");
    tap_status(tap, icl_convolve(backend, t[OUT], t[IN], no_rows, &error), &error, "no taps");
    backend->functions = complete;
    tap_status(tap, icl_tensor_read(t[ROWS], sums, &error), &error, "read");
    tap_status(tap, icl_tensor_read(t[OUT], filtered, &error), &error, "read");
    for (int i = 0; i < 6; i++)
        right = right && sums[i] == 0 && filtered[i] == 0;
    tap_ok(tap, right, "sums without terms are 0");
    tap_ok(tap, icl_backend_get_statistics(backend).fallbacks == before, "and the backend is not called");
    for (int i = 0; i < COUNT; i++)
        icl_tensor_release(&t[i]);
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

/* Names in errors and in tables. */
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
        test_linear_refusals(&tap, backend);
        test_random_refusals(&tap, backend);
        test_sequence_refusals(&tap, backend);
        test_attention_refusals(&tap, backend);
        test_head_refusals(&tap, backend);
        test_fallback(&tap, backend);
        test_no_terms(&tap, backend);
        test_stop(&tap, backend);
        icl_backend_close(&backend);
        test_specs(&tap);
        test_names(&tap);
    }
    return tap_done(&tap);
}
