/*
 * The recurrence with matrix state against its chunk form, and the identities between its special cases: on "ref" to
 * 1e-12, elsewhere within the bounds of conformance. argv: device.
 */
#include <math.h>

#include "core/allocate.h"
#include "recurrence_chunk.h"
#include "recurrence_problem.h"

enum { BETA = 1 << ICL_RECURRENCE_BETA, DECAY = 1 << ICL_RECURRENCE_DECAY, STATE = 1 << ICL_RECURRENCE_STATE };

/* The objects that one check holds. */
typedef struct check {
    tap_run *tap;
    icl_backend *backend;
    problem p;
    answer got, exact;
} check;

static void clear(check *test) {
    problem_clear(&test->p);
    answer_clear(&test->got);
    answer_clear(&test->exact);
}

/* Fills a problem and solves it, on the device and exactly. */
static icl_status begin(check *test, problem p, unsigned with, double strength, icl_error *error) {
    test->p = p;
    ICL_CHECK(problem_fill(&test->p, with, strength, 5, error));
    ICL_CHECK(problem_solve(test->backend, &test->p, &test->got, error));
    return problem_truth(test->backend, &test->p, &test->exact, error);
}

/* Sets retention's factor, one for each head: 1 - 2^(-5 - h). */
static void set_retention(problem *p) {
    for (size_t i = 0; i < problem_count(p, ICL_RECURRENCE_DECAY); i++) {
        const size_t head = i / p->tokens;
        p->values[ICL_RECURRENCE_DECAY][i] = (double)(float)log1p(-exp2(-5 - (double)head));
    }
}

/* ---- The chunk form ---- */

typedef struct model {
    const char *name;
    bool delta;
    unsigned with;
    bool has_vector_gates;
    double strength; /* of the decays */
    size_t chunk;
    chunk_exponents exponents;
    bool is_retention;
} model;

static const model models[] = {
    {"linear attention, chunks of 16", false, STATE, false, 0, 16, CHUNK_DIFFERENCES},
    {"linear attention, chunks of 64", false, STATE, false, 0, 64, CHUNK_DIFFERENCES},
    {"retention", false, STATE | DECAY, false, 1, 32, CHUNK_DIFFERENCES, true},
    {"gla", false, STATE | DECAY, true, 1, 32, CHUNK_DIFFERENCES},
    {"gla by factors", false, STATE | DECAY, true, 1, 16, CHUNK_FACTORED},
    {"gla by factors, strong gates", false, STATE | DECAY, true, 40, 16, CHUNK_FACTORED},
    {"mamba2", false, STATE | DECAY | BETA, false, 1, 32, CHUNK_DIFFERENCES},
    {"mamba2, strong gates", false, STATE | DECAY | BETA, false, 40, 64, CHUNK_DIFFERENCES},
    {"delta rule, chunks of 16", true, STATE | BETA, false, 0, 16, CHUNK_DIFFERENCES},
    {"delta rule, chunks of 64", true, STATE | BETA, false, 0, 64, CHUNK_DIFFERENCES},
    {"gated delta rule", true, STATE | BETA | DECAY, false, 1, 32, CHUNK_DIFFERENCES},
    {"gated delta rule, strong gates", true, STATE | BETA | DECAY, false, 40, 32, CHUNK_DIFFERENCES},
    {"delta rule with vector gates", true, STATE | BETA | DECAY, true, 1, 32, CHUNK_DIFFERENCES},
};

/* Computes the chunk form of every head. */
static void solve_in_chunks(const problem *p, const model *is, answer *a, chunk_work *work) {
    const size_t rows = p->tokens, square = p->m * p->n;
    double *const *x = p->values;

    for (size_t h = 0; h < p->batch * p->heads; h++) {
        const chunk_head head = {
            .tokens = rows,
            .m = p->m,
            .n = p->n,
            .chunk = is->chunk,
            .delta = p->params.delta,
            .scale = p->params.scale,
            .exponents = is->exponents,
            .q = x[ICL_RECURRENCE_Q] + h * rows * p->m,
            .k = x[ICL_RECURRENCE_K] + h * rows * p->m,
            .v = x[ICL_RECURRENCE_V] + h * rows * p->n,
            .beta = x[ICL_RECURRENCE_BETA] ? x[ICL_RECURRENCE_BETA] + h * rows : NULL,
            .decay = x[ICL_RECURRENCE_DECAY] ? x[ICL_RECURRENCE_DECAY] + h * rows * p->decay_width : NULL,
            .decay_width = p->decay_width,
        };
        for (size_t e = 0; e < square; e++)
            a->final[h * square + e] = x[ICL_RECURRENCE_STATE] ? x[ICL_RECURRENCE_STATE][h * square + e] : 0;
        chunk_forward(&head, a->final + h * square, a->out + h * rows * p->n, work);
    }
}

static void check_chunks(tap_run *tap, icl_backend *backend, const model *is) {
    const problem p = {{is->delta, 0.25}, 2, 2, 77, 16, 9, is->has_vector_gates ? 16 : 1, {NULL}};
    check x = {tap, backend, {{0}}, {0}, {0}};
    answer chunks = {0};
    chunk_work *work = NULL;
    icl_error error = {0};
    char what[96];
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *work, "chunks", &work, &error));
    x.p = p;
    ICL_TRY(problem_fill(&x.p, is->with, is->strength, 5, &error));
    if (is->is_retention)
        set_retention(&x.p);
    ICL_TRY(problem_solve(backend, &x.p, &x.got, &error));
    ICL_TRY(problem_truth(backend, &x.p, &x.exact, &error));
    ICL_TRY(icl_allocate(problem_outs(&p), sizeof(double), "chunks", &chunks.out, &error));
    ICL_TRY(icl_allocate(problem_finals(&p), sizeof(double), "chunks", &chunks.final, &error));
    solve_in_chunks(&x.p, is, &chunks, work);
    snprintf(what, sizeof what, "%s: outputs", is->name);
    check_close(tap, backend, what, problem_outs(&p), x.got.out, chunks.out, x.exact.out_bound, NULL);
    snprintf(what, sizeof what, "%s: the last state", is->name);
    check_close(tap, backend, what, problem_finals(&p), x.got.final, chunks.final, x.exact.final_bound, NULL);
done:
    if (status != ICL_OK)
        tap_status(tap, status, &error, is->name);
    icl_free(&work);
    answer_clear(&chunks);
    clear(&x);
}

/* Retention is also (Q K^T o D) V, D_ts = g^(t - s) (Y. Sun et al., "Retentive network", 2023). */
static icl_status check_retention(check *test, icl_error *error) {
    const problem p = {{false, 0.25}, 1, 2, 77, 16, 9, 1, {NULL}};
    double *parallel = NULL;
    icl_status status = ICL_OK;

    test->p = p;
    ICL_TRY(problem_fill(&test->p, DECAY, 1, 5, error));
    set_retention(&test->p);
    ICL_TRY(problem_solve(test->backend, &test->p, &test->got, error));
    ICL_TRY(problem_truth(test->backend, &test->p, &test->exact, error));
    ICL_TRY(icl_allocate(problem_outs(&p), sizeof(double), "parallel form", &parallel, error));
    for (size_t i = 0; i < problem_outs(&p); i++) {
        const size_t row = i / p.n, head = row / p.tokens, first = head * p.tokens;
        const double *q = test->p.values[ICL_RECURRENCE_Q] + row * p.m;
        const double g = exp(test->p.values[ICL_RECURRENCE_DECAY][first]);
        parallel[i] = 0;
        for (size_t s = first; s <= row; s++) {
            double score = 0;
            for (size_t c = 0; c < p.m; c++)
                score += q[c] * test->p.values[ICL_RECURRENCE_K][s * p.m + c];
            parallel[i] +=
                0.25 * pow(g, (double)(row - s)) * score * test->p.values[ICL_RECURRENCE_V][s * p.n + i % p.n];
        }
    }
    check_close(test->tap, test->backend, "retention is (Q K^T o D) V", problem_outs(&p), test->got.out, parallel,
                test->exact.out_bound, NULL);
done:
    icl_free(&parallel);
    return status;
}

/* ---- Special cases of each other ---- */

static void check_answers(check *test, const char *what, const answer *got, const answer *expected,
                          const answer *other) {
    char text[128];
    snprintf(text, sizeof text, "%s: outputs", what);
    check_close(test->tap, test->backend, text, problem_outs(&test->p), got->out, expected->out, test->exact.out_bound,
                other ? other->out_bound : NULL);
    snprintf(text, sizeof text, "%s: the last state", what);
    check_close(test->tap, test->backend, text, problem_finals(&test->p), got->final, expected->final,
                test->exact.final_bound, other ? other->final_bound : NULL);
}

/* Equal gates for all channels act as one gate. */
static icl_status check_equal_gates(check *test, bool delta, const char *what, icl_error *error) {
    problem vector = {{0}};
    answer got = {0}, exact = {0};
    icl_status status = ICL_OK;

    ICL_TRY(begin(test, (problem){{delta, 1}, 2, 2, 70, 16, 9, 1, {NULL}}, DECAY | BETA, 1, error));
    ICL_TRY(problem_part(&test->p, 0, test->p.tokens, NULL, &vector, error));
    icl_free(&vector.values[ICL_RECURRENCE_DECAY]);
    vector.decay_width = vector.m;
    ICL_TRY(problem_add(&vector, ICL_RECURRENCE_DECAY, error));
    for (size_t i = 0; i < problem_count(&vector, ICL_RECURRENCE_DECAY); i++)
        vector.values[ICL_RECURRENCE_DECAY][i] = test->p.values[ICL_RECURRENCE_DECAY][i / vector.m];
    ICL_TRY(problem_solve(test->backend, &vector, &got, error));
    ICL_TRY(problem_truth(test->backend, &vector, &exact, error));
    check_answers(test, what, &got, &test->got, &exact);
done:
    problem_clear(&vector);
    answer_clear(&got);
    answer_clear(&exact);
    return status;
}

/* Gates of 1 act as no gates. */
static icl_status check_open_gates(check *test, bool delta, size_t width, const char *what, icl_error *error) {
    problem gated = {{0}};
    answer got = {0}, exact = {0};
    icl_status status = ICL_OK;

    ICL_TRY(begin(test, (problem){{delta, 1}, 2, 2, 70, 16, 9, width, {NULL}}, BETA, 1, error));
    ICL_TRY(problem_part(&test->p, 0, test->p.tokens, NULL, &gated, error));
    ICL_TRY(problem_add(&gated, ICL_RECURRENCE_DECAY, error));
    ICL_TRY(problem_solve(test->backend, &gated, &got, error));
    ICL_TRY(problem_truth(test->backend, &gated, &exact, error));
    check_answers(test, what, &got, &test->got, &exact);
done:
    problem_clear(&gated);
    answer_clear(&got);
    answer_clear(&exact);
    return status;
}

/* Momentum (heavy ball): m_t = b m_(t-1) + k v^T, S += m_t, from 0. By token t each k v^T of token s has weight 1 + b +
 * … + b^(t-s) = (1 - b b^(t-s)) / (1 - b), so that S = (sum - b decayed sum) / (1 - b). */
static icl_status check_momentum(check *test, double log_factor, icl_error *error) {
    const double b = exp(log_factor);
    problem decayed = {{0}};
    answer fading = {0}, exact = {0};
    double *momentum = NULL, *state;
    icl_status status = ICL_OK;
    char what[64];

    ICL_TRY(begin(test, (problem){{false, 1}, 1, 1, 70, 16, 9, 1, {NULL}}, 0, 1, error));
    ICL_TRY(problem_part(&test->p, 0, test->p.tokens, NULL, &decayed, error));
    ICL_TRY(problem_add(&decayed, ICL_RECURRENCE_DECAY, error));
    for (size_t t = 0; t < test->p.tokens; t++)
        decayed.values[ICL_RECURRENCE_DECAY][t] = log_factor;
    ICL_TRY(problem_solve(test->backend, &decayed, &fading, error));
    ICL_TRY(problem_truth(test->backend, &decayed, &exact, error));
    const size_t square = problem_finals(&test->p), n = test->p.n;
    ICL_TRY(icl_allocate(2 * square, sizeof *momentum, "momentum", &momentum, error));
    state = momentum + square;
    memset(momentum, 0, 2 * square * sizeof *momentum);
    for (size_t t = 0; t < test->p.tokens; t++)
        for (size_t e = 0; e < square; e++) {
            const double key = test->p.values[ICL_RECURRENCE_K][t * test->p.m + e / n];
            momentum[e] = b * momentum[e] + key * test->p.values[ICL_RECURRENCE_V][t * n + e % n];
            state[e] += momentum[e];
        }
    for (size_t e = 0; e < square; e++) {
        test->got.final[e] = (test->got.final[e] - b * fading.final[e]) / (1 - b);
        test->exact.final_bound[e] = (test->exact.final_bound[e] + b * exact.final_bound[e]) / (1 - b);
    }
    snprintf(what, sizeof what, "momentum of %.3g is the sum less the decayed sum", b);
    check_close(test->tap, test->backend, what, square, test->got.final, state, test->exact.final_bound, NULL);
done:
    problem_clear(&decayed);
    answer_clear(&fading);
    answer_clear(&exact);
    icl_free(&momentum);
    return status;
}

/* Applies a token's two delta steps at once: map = (I - b2 k2 k2^T) (I - b1 k1 k1^T), and S [m][n] <- gate map S + what
 * the first step wrote, less what the second takes of it, + what the second writes. */
static void apply_two_steps(const problem *p, size_t t, double *map, double *state, double *next) {
    const size_t m = p->m, n = p->n;
    const double *k1 = p->values[ICL_RECURRENCE_K] + t * m, *k2 = k1 + m;
    const double *v1 = p->values[ICL_RECURRENCE_V] + t * n, *v2 = v1 + n;
    const double b1 = p->values[ICL_RECURRENCE_BETA][t], b2 = p->values[ICL_RECURRENCE_BETA][t + 1];
    const double gate = exp(p->values[ICL_RECURRENCE_DECAY][t]);
    double both = 0;

    for (size_t i = 0; i < m; i++)
        both += k1[i] * k2[i];
    for (size_t e = 0; e < m * m; e++) {
        const size_t i = e / m, j = e % m;
        map[e] = (double)(i == j) - b1 * k1[i] * k1[j] - b2 * k2[i] * k2[j] + b1 * b2 * both * k2[i] * k1[j];
    }
    for (size_t e = 0; e < m * n; e++) {
        const size_t i = e / n, j = e % n;
        next[e] = b1 * (k1[i] - b2 * both * k2[i]) * v1[j] + b2 * k2[i] * v2[j];
        for (size_t l = 0; l < m; l++)
            next[e] += gate * map[i * m + l] * state[l * n + j];
    }
    memcpy(state, next, m * n * sizeof *state);
}

/* DeltaProduct: each token is two delta steps with their own k, v and beta; the decay belongs to the first, the
 * output to the last (J. Siems et al., "DeltaProduct", 2025). The expectation multiplies the matrices of a token's
 * two steps. */
static icl_status check_delta_product(check *test, icl_error *error) {
    const problem p = {{true, 1}, 1, 1, 66, 8, 5, 1, {NULL}};
    const size_t m = p.m, n = p.n;
    double *work = NULL;
    icl_status status = ICL_OK;

    test->p = p;
    ICL_TRY(problem_fill(&test->p, BETA | DECAY, 1, 5, error));
    for (size_t t = 1; t < p.tokens; t += 2)
        test->p.values[ICL_RECURRENCE_DECAY][t] = 0;
    ICL_TRY(problem_solve(test->backend, &test->p, &test->got, error));
    ICL_TRY(problem_truth(test->backend, &test->p, &test->exact, error));
    ICL_TRY(icl_allocate(m * m + 2 * m * n + problem_outs(&p), sizeof *work, "delta product", &work, error));
    double *map = work, *state = map + m * m, *next = state + m * n, *out = next + m * n;
    memset(state, 0, m * n * sizeof *state);
    memcpy(out, test->got.out, problem_outs(&p) * sizeof *out); /* outputs of the first steps are not compared */
    for (size_t t = 0; t < p.tokens; t += 2) {
        apply_two_steps(&test->p, t, map, state, next);
        for (size_t j = 0; j < n; j++) {
            out[(t + 1) * n + j] = 0;
            for (size_t i = 0; i < m; i++)
                out[(t + 1) * n + j] += test->p.values[ICL_RECURRENCE_Q][(t + 1) * m + i] * state[i * n + j];
        }
    }
    const answer product = {.out = out, .final = state};
    check_answers(test, "two delta steps a token are their product", &test->got, &product, NULL);
done:
    icl_free(&work);
    return status;
}

/* ---- The same in parts ---- */

/* Solves the problem in calls of `length` tokens, each from the state that the previous one left. */
static icl_status check_parts(check *test, bool delta, unsigned with, size_t length, icl_error *error) {
    const size_t tokens = 70;
    double *state = NULL, *out = NULL;
    problem part = {{0}};
    answer piece = {0};
    icl_status status = ICL_OK;
    char what[96];

    ICL_TRY(begin(test, (problem){{delta, 0.25}, 2, 2, tokens, 16, 9, 16, {NULL}}, with, 1, error));
    ICL_TRY(icl_allocate(problem_finals(&test->p), sizeof *state, "parts", &state, error));
    ICL_TRY(icl_allocate(problem_outs(&test->p), sizeof *out, "parts", &out, error));
    for (size_t first = 0; first < tokens; first += length) {
        const size_t count = tokens - first < length ? tokens - first : length, width = count * test->p.n;
        const double *before = first > 0 ? state : test->p.values[ICL_RECURRENCE_STATE];
        ICL_TRY(problem_part(&test->p, first, count, before, &part, error));
        ICL_TRY(problem_solve(test->backend, &part, &piece, error));
        for (size_t head = 0; head < 4; head++)
            memcpy(out + (head * tokens + first) * test->p.n, piece.out + head * width, width * sizeof *out);
        memcpy(state, piece.final, problem_finals(&test->p) * sizeof *state);
        problem_clear(&part);
        answer_clear(&piece);
    }
    const answer parts = {.out = out, .final = state};
    snprintf(what, sizeof what, "%s: in calls of %zu tokens as in one", delta ? "gated delta rule" : "gla", length);
    check_answers(test, what, &parts, &test->got, &test->exact);
done:
    problem_clear(&part);
    answer_clear(&piece);
    icl_free(&state);
    icl_free(&out);
    return status;
}

/* Reports a check that could not be made, and frees its objects for the next. */
static void finish(check *test, icl_status status, const icl_error *error, const char *what) {
    if (status != ICL_OK)
        tap_status(test->tap, status, error, what);
    clear(test);
    *test = (check){test->tap, test->backend, {{0}}, {0}, {0}};
}

static void check_identities(tap_run *tap, icl_backend *backend) {
    check x = {tap, backend, {{0}}, {0}, {0}};
    icl_error error = {0};

    finish(&x, check_retention(&x, &error), &error, "retention");
    finish(&x, check_equal_gates(&x, false, "gla with equal gates is mamba2", &error), &error, "equal gates");
    finish(&x, check_equal_gates(&x, true, "the same with the delta term", &error), &error, "equal gates");
    finish(&x, check_open_gates(&x, false, 1, "mamba2 with gates of 1 is linear attention", &error), &error, "open");
    finish(&x, check_open_gates(&x, false, 16, "gla with gates of 1 is linear attention", &error), &error, "open");
    finish(&x, check_open_gates(&x, true, 1, "gated delta rule with gates of 1 is delta rule", &error), &error, "open");
    finish(&x, check_momentum(&x, (double)-0.125F, &error), &error, "momentum");
    finish(&x, check_momentum(&x, -(double)INFINITY, &error), &error, "momentum of 0");
    finish(&x, check_delta_product(&x, &error), &error, "delta product");
    for (int delta = 0; delta < 2; delta++) {
        const unsigned with = BETA | DECAY | STATE;
        finish(&x, check_parts(&x, delta, with, 32, &error), &error, "parts");
        finish(&x, check_parts(&x, delta, with, 41, &error), &error, "parts");
        finish(&x, check_parts(&x, delta, with, 1, &error), &error, "parts");
    }
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = argc > 1 ? tap_open_device(&tap, argv[1]) : NULL;

    if (!backend)
        return tap_done(&tap);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        check_chunks(&tap, backend, &models[i]);
    check_identities(&tap, backend);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
