/*
 * The recurrence with matrix state, forward.
 *
 * One step is S' = A S + beta w v^T with A = (I - beta k r^T) F, F = diag(exp(decay)), and A = F without the delta
 * term. The device has S + E, and errs by D in computing the step from that, so E' = A E + D exactly: what was wrong is
 * carried on by A, and D is in proportion to what the step multiplies. With g = 7 for the gate's exponential (3 ulp)
 * and product, 0 without decay:
 *
 * Sum: F is diagonal, so E' = F E + D holds element by element. D <= gamma(g + 3) F M + gamma(8) |beta k v^T|, where M
 * is the same recurrence over absolute values: M bounds every partial sum, so tokens may be taken together in blocks.
 * Gates may be moved from S to the tokens, in products over several of them that are divided by later.
 *
 * Delta: M would grow where S shrinks, for A subtracts. D is in proportion to |S| + |E| instead, and the errors of a
 * column of S, which never meet those of another, pass through A in the 2-norm: e' = |A| e + |d|, with
 *     d_i <= gamma(g + 3) F |S| + |beta k_i| (gamma(m + g + 9) sum |r F| N + gamma(8) |p|) + gamma(8) |beta w_i v_j|.
 * N is what S is the sum of, F N + |beta k p^T| + |beta w v^T| of the token before, and |S| at the start of a chunk of
 * CHUNK tokens: so a chunk may be read at once, its i-th token by r^T F S, with F of all its tokens, and r^T F k times
 * what each token before adds along k. That is a sum of m products and of two more for each token before, through as
 * many gates: 2 i, with decay (g + 2) i, roundings more. The state behind a chunk is such a sum as well; a term has
 * 2 + g more roundings for each token that it passes, and each of these tokens has D for it.
 * |I - beta k r^T| is known: it is the identity off the plane of k and r, and on it its singular values a >= b have
 * a b = |1 - x| and a^2 + b^2 = 2 - 2 x + beta^2 |k|^2 |r|^2, x = beta k.r. So it is 1 where r = k and 0 <= beta |k|^2
 * <= 2, and nothing grows but by rounding; |1 - beta |k|^2| where a key is so long that the recurrence itself runs away
 * along it; and a little above 1 where r is not k, for such a step may stretch what it is given. |F| is the largest
 * gate: above 1 where a decay is positive.
 *
 * An inner product with S of m terms has gamma(m + 4) of its absolute terms beside what comes through E: sum |x| E, or
 * |x| e. Numbers below the smallest normal one may be flushed to 0.
 */
#include "conformance/truth_recurrence.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "conformance/cases.h"
#include "core/allocate.h"

enum {
    OUT = ICL_RECURRENCE_OUT,
    FINAL = ICL_RECURRENCE_FINAL,
    READS = ICL_RECURRENCE_READS,
    STATES = ICL_RECURRENCE_STATES,
    INPUTS = ICL_RECURRENCE_FORWARD_INPUTS
};

#define CHUNK 16

/* ---- One head ---- */

icl_status icl_truth_head_create(icl_truth_head *head, const icl_truth *truth, int first, icl_error *error) {
    const icl_case *c = truth->c;
    const bool is_forward = first == INPUTS;
    const size_t *out = c->shape[is_forward ? OUT : ICL_RECURRENCE_BACKWARD_D_OUT],
                 *keys = c->shape[first + ICL_RECURRENCE_K];
    const size_t tokens = out[2], m = keys[3], n = out[3];
    double **const rows[] = {&head->q, &head->k, &head->r, &head->w, &head->decay, &head->gate};

    *head = (icl_truth_head){
        .tokens = tokens,
        .m = m,
        .n = n,
        .delta = c->params.recurrence.params.delta,
        .chunk = is_forward && m > 1 ? CHUNK : 1,
        .has_decay = c->rank[first + ICL_RECURRENCE_DECAY] >= 0,
        .scale = icl_device_rounded(truth, c->params.recurrence.params.scale),
        .unit = truth->unit,
        .flushed = truth->unit < (double)FLT_EPSILON / 4 ? DBL_MIN : (double)FLT_MIN,
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ICL_CHECK(icl_allocate(tokens * m, sizeof(double), "recurrence truth", rows[i], error));
    ICL_CHECK(icl_allocate(tokens * n, sizeof(double), "recurrence truth", &head->v, error));
    ICL_CHECK(icl_allocate(tokens, sizeof(double), "recurrence truth", &head->beta, error));
    ICL_CHECK(icl_allocate(m * n, sizeof(double), "recurrence truth", &head->state, error));
    ICL_CHECK(icl_allocate(m, sizeof(double), "recurrence truth", &head->gated, error));
    return icl_allocate(n, sizeof(double), "recurrence truth", &head->local, error);
}

void icl_truth_head_destroy(icl_truth_head *head) {
    double **const all[] = {&head->q, &head->k,    &head->r,     &head->w,     &head->decay, &head->gate,
                            &head->v, &head->beta, &head->state, &head->gated, &head->local};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        icl_free(all[i]);
}

/* Rows [T][width] of one operand, which may repeat along any axis; `otherwise` where it is absent. */
static void load_rows(const icl_truth *truth, int operand, size_t batch, size_t h, size_t tokens, size_t width,
                      double otherwise, double *rows) {
    const size_t *shape = truth->c->shape[operand];
    for (size_t i = 0; i < tokens * width; i++) {
        const size_t t = i / width, column = i % width;
        if (truth->c->rank[operand] < 0) {
            rows[i] = otherwise;
            continue;
        }
        const size_t head = (shape[0] == 1 ? 0 : batch) * shape[1] + (shape[1] == 1 ? 0 : h);
        const size_t row = head * shape[2] + (shape[2] == 1 ? 0 : t);
        rows[i] = truth->operand[operand][row * shape[3] + (shape[3] == 1 ? 0 : column)];
    }
}

void icl_truth_head_load(icl_truth_head *head, const icl_truth *truth, int first, size_t batch, size_t h) {
    const size_t tokens = head->tokens, m = head->m, n = head->n;
    double *const keys[] = {head->r, head->w};

    load_rows(truth, first + ICL_RECURRENCE_Q, batch, h, tokens, m, 0, head->q);
    load_rows(truth, first + ICL_RECURRENCE_K, batch, h, tokens, m, 0, head->k);
    load_rows(truth, first + ICL_RECURRENCE_V, batch, h, tokens, n, 0, head->v);
    load_rows(truth, first + ICL_RECURRENCE_BETA, batch, h, tokens, 1, 1, head->beta);
    load_rows(truth, first + ICL_RECURRENCE_DECAY, batch, h, tokens, m, 0, head->decay);
    load_rows(truth, first + ICL_RECURRENCE_STATE, batch, h, m, n, 0, head->state);
    for (int i = 0; i < 2; i++)
        if (truth->c->rank[first + ICL_RECURRENCE_READ_KEY + i] >= 0)
            load_rows(truth, first + ICL_RECURRENCE_READ_KEY + i, batch, h, tokens, m, 0, keys[i]);
        else
            memcpy(keys[i], head->k, tokens * m * sizeof(double));
    for (size_t i = 0; i < tokens * m; i++)
        head->gate[i] = exp(head->decay[i]);
}

icl_status icl_truth_matrix_create(icl_truth_matrix *matrix, const icl_truth_head *head, icl_error *error) {
    const size_t count = head->m * head->n;
    *matrix = (icl_truth_matrix){0};
    ICL_CHECK(icl_allocate(count, sizeof(double), "recurrence truth", &matrix->value, error));
    ICL_CHECK(icl_allocate(count, sizeof(double), "recurrence truth", &matrix->size, error));
    ICL_CHECK(icl_allocate(count, sizeof(double), "recurrence truth", &matrix->error, error));
    return icl_allocate(head->n, sizeof(double), "recurrence truth", &matrix->norm, error);
}

void icl_truth_matrix_destroy(icl_truth_matrix *matrix) {
    icl_free(&matrix->value);
    icl_free(&matrix->size);
    icl_free(&matrix->error);
    icl_free(&matrix->norm);
}

double icl_truth_growth(const icl_truth_head *head, size_t t) {
    const size_t m = head->m;
    const double *k = head->k + t * m, *r = head->r + t * m, beta = head->beta[t];
    double keys = 0, reads = 0, both = 0, gate = 0;

    for (size_t i = 0; i < m; i++) {
        keys += k[i] * k[i];
        reads += r[i] * r[i];
        both += k[i] * r[i];
        gate = fmax(gate, head->gate[t * m + i]);
    }
    if (!head->delta)
        return gate;
    const double product = fabs(1 - beta * both), squares = 2 - 2 * beta * both + beta * beta * keys * reads;
    const double largest = (sqrt(squares + 2 * product) + sqrt(fmax(0, squares - 2 * product))) / 2;
    return gate * (m == 1 ? product : fmax(1, largest)) * (1 + 8 * DBL_EPSILON);
}

double icl_truth_through(const icl_truth_head *head, const icl_truth_matrix *matrix, const double *x, size_t j) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < head->m; i++) {
        sum += fabs(x[i]) * matrix->error[i * head->n + j];
        squares += x[i] * x[i];
    }
    return head->delta ? sqrt(squares) * matrix->norm[j] : sum;
}

/* p = r^T F S; head->local: the part of its bound that is not carried on from S. */
static void read_state(icl_truth_head *head, size_t t, const icl_truth_matrix *state, double *p, double *p_bound) {
    const size_t m = head->m, n = head->n;
    const double before = (double)(t % head->chunk) * (head->has_decay ? 9 : 2);
    const double roundings = icl_gamma((double)m + (head->has_decay ? 16 : 6) + before, head->unit);

    for (size_t i = 0; i < m; i++)
        head->gated[i] = head->r[t * m + i] * head->gate[t * m + i];
    for (size_t j = 0; j < n; j++) {
        double size = 0;
        p[j] = 0;
        for (size_t i = 0; i < m; i++) {
            p[j] += head->gated[i] * state->value[i * n + j];
            size += fabs(head->gated[i]) * state->size[i * n + j];
        }
        head->local[j] = roundings * size + head->flushed * (double)m;
        p_bound[j] = icl_truth_through(head, state, head->gated, j) + head->local[j];
    }
}

/* One column of the state; p and its bound where the delta term reads. */
static void advance_column(icl_truth_head *head, size_t t, size_t j, double growth, icl_truth_matrix *state, double p,
                           double p_bound) {
    const size_t m = head->m, n = head->n;
    const double unit = head->unit, beta = head->beta[t], v = head->v[t * n + j];
    const double kept = icl_gamma(head->has_decay ? 10 : 3, unit), few = icl_gamma(8, unit);
    double squares = 0;

    for (size_t i = 0; i < m; i++) {
        const double gate = head->gate[t * m + i], key = beta * head->k[t * m + i];
        const double written = beta * head->w[t * m + i] * v;
        double *value = &state->value[i * n + j], *size = &state->size[i * n + j], *error = &state->error[i * n + j];
        const bool starts = head->delta && t % head->chunk == 0;
        const double before = starts ? fabs(*value) + state->norm[j] : *size, taken = head->delta ? key * p : 0;
        double local = kept * gate * before + few * fabs(written) + 4 * head->flushed * (1 + before + fabs(v));
        if (head->delta)
            local += fabs(key) * (head->local[j] + few * (fabs(p) + p_bound));
        *value = gate * *value + written - taken;
        *size = gate * before + fabs(written) + fabs(taken);
        *error = gate * *error + local;
        squares += local * local;
    }
    if (!head->delta)
        return;
    state->norm[j] = growth * state->norm[j] + sqrt(squares);
    for (size_t i = 0; i < m; i++) {
        state->error[i * n + j] = state->norm[j];
        state->size[i * n + j] += state->norm[j];
    }
}

void icl_truth_advance(icl_truth_head *head, size_t t, icl_truth_matrix *state, double *p, double *p_bound) {
    const double growth = icl_truth_growth(head, t);

    if (head->delta)
        read_state(head, t, state, p, p_bound);
    for (size_t j = 0; j < head->n; j++)
        advance_column(head, t, j, growth, state, head->delta ? p[j] : 0, head->delta ? p_bound[j] : 0);
}

/* ---- The op ---- */

/* Copies a state and its bounds into an output, where somebody asks for it. */
static void write_state(icl_truth *truth, int operand, size_t position, const icl_truth_matrix *state, size_t count) {
    if (!truth->operand[operand])
        return;
    memcpy(truth->operand[operand] + position, state->value, count * sizeof(double));
    memcpy(truth->bound[operand] + position, state->error, count * sizeof(double));
}

static void write_out(icl_truth *truth, const icl_truth_head *head, size_t t, const icl_truth_matrix *state,
                      size_t position) {
    const size_t m = head->m, n = head->n;
    const double *q = head->q + t * m, roundings = icl_gamma((double)m + 4, head->unit), scale = fabs(head->scale);

    for (size_t j = 0; j < n; j++) {
        double sum = 0, size = 0;
        for (size_t i = 0; i < m; i++) {
            sum += q[i] * state->value[i * n + j];
            size += fabs(q[i]) * state->size[i * n + j];
        }
        truth->operand[OUT][position + j] = head->scale * sum;
        truth->bound[OUT][position + j] =
            scale * (icl_truth_through(head, state, q, j) + roundings * size + head->flushed * (double)m);
    }
}

static void run_head(icl_truth *truth, icl_truth_head *head, size_t number, icl_truth_matrix *state, double *p,
                     double *p_bound) {
    const size_t tokens = head->tokens, m = head->m, n = head->n, count = m * n;
    const size_t segments = (tokens + ICL_RECURRENCE_SEGMENT - 1) / ICL_RECURRENCE_SEGMENT;

    for (size_t i = 0; i < count; i++) {
        state->value[i] = head->state[i];
        state->size[i] = fabs(head->state[i]);
        state->error[i] = 0;
    }
    memset(state->norm, 0, n * sizeof(double));
    for (size_t t = 0; t < tokens; t++) {
        const size_t row = (number * tokens + t) * n;
        if (t % ICL_RECURRENCE_SEGMENT == 0)
            write_state(truth, STATES, (number * segments + t / ICL_RECURRENCE_SEGMENT) * count, state, count);
        icl_truth_advance(head, t, state, p, p_bound);
        write_out(truth, head, t, state, row);
        if (truth->operand[READS]) {
            memcpy(truth->operand[READS] + row, p, n * sizeof(double));
            memcpy(truth->bound[READS] + row, p_bound, n * sizeof(double));
        }
    }
    write_state(truth, FINAL, number * count, state, count);
}

icl_status icl_truth_recurrence_forward(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    icl_truth_head head = {0};
    icl_truth_matrix state = {0};
    double *p = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_truth_head_create(&head, truth, INPUTS, error));
    ICL_TRY(icl_truth_matrix_create(&state, &head, error));
    ICL_TRY(icl_allocate(2 * head.n, sizeof *p, "recurrence truth", &p, error));
    for (size_t i = 0; i < c->shape[OUT][0] * c->shape[OUT][1]; i++) {
        icl_truth_head_load(&head, truth, INPUTS, i / c->shape[OUT][1], i % c->shape[OUT][1]);
        run_head(truth, &head, i, &state, p, p + head.n);
    }
    /* Whole numbers stay whole, and small. */
    if (c->values == ICL_VALUES_INTEGERS && !head.delta && !head.has_decay)
        for (int operand = 0; operand < INPUTS; operand++)
            for (size_t i = 0; i < icl_case_count(c, operand); i++)
                truth->bound[operand][i] = 0;
done:
    icl_free(&p);
    icl_truth_matrix_destroy(&state);
    icl_truth_head_destroy(&head);
    return status;
}

icl_status icl_truth_recurrence_results(const icl_case *c, int wanted, float *const *operands, icl_error *error) {
    icl_case forward = {.op = ICL_OP_recurrence_forward, .params = c->params};
    icl_truth truth = {.c = &forward, .unit = DBL_EPSILON / 2};
    icl_status status = ICL_OK;

    for (int i = 0; i < INPUTS + ICL_RECURRENCE_INPUTS; i++) {
        /* out as d_out, then final, reads and states; the inputs stand behind all of these. */
        const int outputs[] = {ICL_RECURRENCE_BACKWARD_D_OUT, ICL_RECURRENCE_BACKWARD_FINAL,
                               ICL_RECURRENCE_BACKWARD_READS, ICL_RECURRENCE_BACKWARD_STATES};
        const int from = i < INPUTS ? outputs[i] : ICL_RECURRENCE_BACKWARD_INPUTS + i - INPUTS;
        forward.rank[i] = c->rank[from];
        memcpy(forward.shape[i], c->shape[from], sizeof forward.shape[i]);
        if (forward.rank[i] < 0)
            continue;
        const size_t count = icl_case_count(&forward, i);
        ICL_TRY(icl_allocate(count, sizeof(double), "forward results", &truth.operand[i], error));
        if (i < INPUTS)
            ICL_TRY(icl_allocate(count, sizeof(double), "forward results", &truth.bound[i], error));
        for (size_t k = 0; i >= INPUTS && k < count; k++)
            truth.operand[i][k] = (double)operands[from][k];
    }
    ICL_TRY(icl_truth_recurrence_forward(&truth, error));
    const double *results = truth.operand[wanted - ICL_RECURRENCE_BACKWARD_FINAL + FINAL];
    for (size_t k = 0; k < icl_case_count(c, wanted); k++)
        operands[wanted][k] = (float)results[k];
done:
    for (int i = 0; i < INPUTS + ICL_RECURRENCE_INPUTS; i++) {
        icl_free(&truth.operand[i]);
        icl_free(&truth.bound[i]);
    }
    return status;
}
