/*
 * gram_sample has no freedom at all. The truth takes one sequence at a time, by the formulas of ops.h, with L and F as
 * square arrays.
 */
#include <stdio.h>

#include "conformance/cases.h"
#include "core/allocate.h"
#include "iclab/status.h"

/* ---- The exact result ---- */

enum { GRAM = 0, QUERY, TARGETS, WEIGHTS, NOISE, CHI, ROOTS };

/* One sequence's working matrices: L and F [extent][extent], unused beyond the trapezoid. */
typedef struct sequence {
    size_t d, extent, columns;
    bool rooted;
    float *factor, *image; /* L and F */
    float sigma;
} sequence;

/* Returns a_0 b_0 + a_1 b_1 + …, summed from left to right. */
static float dot(const float *a, size_t a_step, const float *b, size_t b_step, size_t count) {
    float total = 0;
    for (size_t k = 0; k < count; k++) {
        const float term = icl_strict_product(a[k * a_step], b[k * b_step]);
        total = k == 0 ? term : icl_strict_sum(total, term);
    }
    return total;
}

static float chi(const double *row, float z) {
    const int piece = (int)icl_strict_sum(z, (float)ICL_CHI_PIECES * 0.5F);
    const float t = icl_strict_sum(z, -((float)piece - (float)(ICL_CHI_PIECES - 1) / 2));
    const double *coefficient = row + (size_t)piece * ICL_CHI_TERMS;
    float value = (float)coefficient[ICL_CHI_TERMS - 1];
    for (int term = ICL_CHI_TERMS - 2; term >= 0; term--)
        value = icl_strict_sum(icl_strict_product(value, t), (float)coefficient[term]);
    return value;
}

/* Draws L and sigma; returns the number of words before g_t. */
static size_t draw(const icl_truth *truth, size_t s, sequence *tokens, float *normals) {
    const icl_gram_params *p = &truth->c->params.gram;
    size_t entries = 0, words;
    uint64_t first;

    for (size_t i = 0; i < tokens->extent; i++)
        entries += i < tokens->columns ? i + 1 : tokens->columns;
    words = entries + 2 * tokens->d + 1;
    first = (uint64_t)s * ((words + 3) / 4 * 4);
    for (size_t e = 0; e < words; e++)
        normals[e] = icl_normal_from_word(icl_random_word(p->key, first + e));
    icl_random_params level = p->noise_level;
    level.key = p->key;
    level.first_index = first;
    tokens->sigma = icl_random_value(&level, words - 1);
    for (size_t i = 0, e = 0; i < tokens->extent; i++)
        for (size_t j = 0; j <= i && j < tokens->columns; j++, e++)
            tokens->factor[i * tokens->extent + j] =
                i == j ? chi(truth->operand[CHI] + i * (size_t)(ICL_CHI_PIECES * ICL_CHI_TERMS), normals[e])
                       : normals[e];
    return entries;
}

/* F from L, with w. */
static void image_of(const float *roots, const float *w, sequence *tokens) {
    const size_t extent = tokens->extent, d = tokens->d;
    float *last = tokens->image + d * extent;

    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < tokens->columns && j < d; j++)
            tokens->image[i * extent + j] =
                tokens->rooted ? dot(roots + i * d + j, 1, tokens->factor + j * extent + j, extent, d - j)
                               : tokens->factor[i * extent + j];
    for (size_t j = 0; j < tokens->columns; j++) {
        const size_t top = tokens->rooted ? 0 : j;
        const float noise = icl_strict_product(tokens->sigma, tokens->factor[d * extent + j]);
        last[j] =
            j == d ? noise : icl_strict_sum(dot(w + top, 1, tokens->image + top * extent + j, extent, d - top), noise);
    }
}

static size_t terms(const sequence *tokens, size_t a, size_t b) {
    const size_t shorter = a < b ? a : b;
    if (tokens->rooted)
        return shorter < tokens->d && tokens->d < tokens->columns ? tokens->d : tokens->columns;
    return shorter + 1 < tokens->columns ? shorter + 1 : tokens->columns;
}

static void write_sequence(icl_truth *truth, size_t s, const float *roots, sequence *tokens, float *normals) {
    const size_t d = tokens->d, extent = tokens->extent, entries = draw(truth, s, tokens, normals);
    const float *g = normals + entries, *h = g + d;
    float *query = normals + entries + 2 * d + 1, *w = query + d;

    for (size_t i = 0; i < d; i++) {
        query[i] = tokens->rooted ? dot(roots + i * d, 1, g, 1, d) : g[i];
        w[i] = tokens->rooted ? dot(roots + (d + i) * d, 1, h, 1, d) : h[i];
        truth->operand[QUERY][s * extent + i] = (double)query[i];
        truth->operand[WEIGHTS][s * d + i] = (double)w[i];
    }
    truth->operand[QUERY][s * extent + d] = 0;
    truth->operand[NOISE][s] = (double)tokens->sigma;
    truth->operand[TARGETS][s] = (double)dot(w, 1, query, 1, d);
    image_of(roots, w, tokens);
    for (size_t a = 0; a < extent; a++)
        for (size_t b = 0; b < extent; b++)
            truth->operand[GRAM][(s * extent + a) * extent + b] =
                (double)dot(tokens->image + a * extent, 1, tokens->image + b * extent, 1, terms(tokens, a, b));
}

static icl_status truth_gram_sample(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t extent = c->shape[GRAM][1], square = extent * extent;
    const size_t n = (size_t)c->params.gram.context;
    sequence x = {.d = extent - 1, .extent = extent, .columns = n < extent ? n : extent, .rooted = c->rank[ROOTS] >= 0};
    icl_status status = ICL_OK;
    float *memory = NULL;

    ICL_TRY(icl_allocate(5 * square + 4 * extent + 8, sizeof *memory, "conformance truth", &memory, error));
    x.factor = memory;
    x.image = memory + square;
    float *roots = memory + 2 * square, *normals = roots + 2 * square;
    for (size_t i = 0; i < icl_case_count(c, ROOTS); i++)
        roots[i] = (float)truth->operand[ROOTS][i];
    for (size_t s = 0; s < c->shape[GRAM][0]; s++)
        write_sequence(truth, s, roots, &x, normals);
    for (int i = GRAM; i <= NOISE; i++)
        for (size_t k = 0; k < icl_case_count(c, i); k++)
            truth->bound[i][k] = 0;
done:
    icl_free(&memory);
    return status;
}

/* ---- Cases ---- */

/* Adds contexts shorter and longer than d + 1, and batches that do not fill the lanes, each with roots and without. */
static void cases(icl_case_list *list) {
    static const struct {
        size_t batch, d, n;
    } sizes[] = {{1, 1, 1}, {37, 2, 9},    {5, 3, 0},    {17, 5, 3},     {9, 4, 4},
                 {9, 4, 5}, {18, 4, 1000}, {33, 10, 10}, {130, 20, 1000}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int roots = 0; roots < 2; roots++) {
            const size_t batch = sizes[s].batch, d = sizes[s].d, n = sizes[s].n;
            const icl_random_params uniform = {.distribution = ICL_UNIFORM, .low = 0.25F, .high = 5};
            const icl_random_params choice = {.distribution = ICL_CHOICE, .choice_count = 3, .choices = {1, 3, 5}};
            icl_case c = {
                .op = ICL_OP_gram_sample,
                .params = {
                    .gram = {.key = {7, 3, UINT64_C(1) << 33}, .context = n, .noise_level = s % 2 ? choice : uniform}}};
            char what[64];
            icl_case_set_shape(&c, 0, 3, batch, d + 1, d + 1, 0);
            icl_case_set_shape(&c, 1, 2, batch, d + 1, 0, 0);
            icl_case_set_shape(&c, 2, 1, batch, 0, 0, 0);
            icl_case_set_shape(&c, 3, 2, batch, d, 0, 0);
            icl_case_set_shape(&c, 4, 1, batch, 0, 0, 0);
            icl_case_set_shape(&c, 5, 3, n < d + 1 ? n : d + 1, ICL_CHI_PIECES, ICL_CHI_TERMS, 0);
            icl_case_set_shape(&c, 6, roots ? 3 : -1, 2, d, d, 0);
            snprintf(what, sizeof what, "gram_sample %s%s", n > d ? "long" : "short", roots ? " rooted" : "");
            icl_cases_add(list, c, what);
        }
}

ICL_CASE_CALL(gram_sample, icl_gram_sample(on, &c->params.gram, t[0], t[1], t[2], t[3], t[4], t[5], t[6], error))

static icl_status fill(const icl_case *c, icl_backend *backend, const icl_tensor *operands, icl_error *error) {
    (void)c;
    return icl_fill(backend, operands[5], 0.5, error);
}

static const icl_timed_shape timed[] = {
    {"gram_sample d 20 n 20 (2048)",
     {.gram = {.key = {.seed = 1}, .context = 20, .noise_level = {.distribution = ICL_UNIFORM, .high = 1}}},
     {ICL_SEQUENCES, ICL_AXES2(ICL_BATCH, 21), ICL_AXIS(ICL_BATCH), ICL_AXES2(ICL_BATCH, 20), ICL_AXIS(ICL_BATCH),
      ICL_AXES3(20, ICL_CHI_PIECES, ICL_CHI_TERMS), ICL_ABSENT}},
};

const icl_described_op icl_described_gram_sample =
    ICL_DESCRIBED(timed, .call = call_gram_sample, .truth = truth_gram_sample, .cases = cases, .fill = fill);
