/*
 * The recurrence with matrix state: the forward pass, and below it the backward pass.
 *
 * One step is S' = A S + beta w v^T with A = (I - beta k r^T) F, F = diag(exp(decay)), and A = F without the delta
 * term. The device has S + E, and errs by D in computing the step from that, so E' = A E + D exactly: A carries earlier
 * errors on, and D is in proportion to the numbers that the step multiplies. With g = 7 for the gate's exponential (3
 * ulp) and product, 0 without decay:
 *
 * Sum: F is diagonal, so E' = F E + D holds element by element. D <= gamma(g + 3) F M + gamma(8) |beta k v^T|, where M
 * is the same recurrence over absolute values: M bounds every partial sum, so tokens may be taken together in blocks.
 * Gates may be moved from S to the tokens, in products over several of them that are divided by later.
 *
 * Delta: M would grow while S shrinks, because A subtracts. D is in proportion to |S| + |E| instead, and the errors of
 * a column of S, which never meet those of another, pass through A in the 2-norm: e' = |A| e + |d|, with
 *     d_i <= gamma(g + 3) F |S| + |beta k_i| (gamma(m + g + 9) sum |r F| N + gamma(8) |p|) + gamma(8) |beta w_i v_j|.
 * N is the sum of the absolute terms of S: F N + |beta k p^T| + |beta w v^T| of the token before, and |S| at the start
 * of a chunk of CHUNK tokens. So a chunk may be read at once: its i-th token by r^T F S, with F of all its tokens, plus
 * r^T F k times what each earlier token adds along k. That is a sum of m products and of two more for each earlier
 * token, through as many gates: 2 i more roundings, or (g + 2) i with decay. The state after a chunk is such a sum as
 * well; a term has 2 + g more roundings for each token that it passes, and each of these tokens has D for it. |I - beta
 * k r^T| is known: it is the identity outside the plane of k and r, and in that plane its singular values a >= b have a
 * b = |1 - x| and a^2 + b^2 = 2 - 2 x + beta^2 |k|^2 |r|^2, x = beta k.r. So it is 1 if r = k and 0 <= beta |k|^2 <= 2,
 * and nothing grows except by rounding; |1 - beta |k|^2| if a key is so long that the recurrence itself runs away along
 * it; and a little above 1 if r is not k, because such a step may stretch its argument. |F| is the largest gate: above
 * 1 if a decay is positive.
 *
 * An inner product with S of m terms has gamma(m + 4) of its absolute terms in addition to the error from E: sum |x| E,
 * or |x| e. Numbers below the smallest normal one may be flushed to 0.
 */
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

/* The inputs of one head, without broadcasting; defaults replace those that are absent. */
typedef struct truth_head {
    size_t tokens, m, n;
    bool delta, has_decay, from_rows;
    size_t chunk; /* tokens that a device may take at once, in sums over everything they write */
    double scale, unit;
    double flushed;        /* the largest number that a device of this precision may flush to 0 */
    double *q, *k, *r, *w; /* [T][m]; from the other side q [T][n], but d_out [T][m] backward */
    double *v;             /* [T][n] */
    double *beta;          /* [T] */
    double *decay, *gate;  /* [T][m]; gate = exp(decay) */
    double *state;         /* [m][n] */
    double *gated, *local; /* [m], [n]: scratch */
} truth_head;

/* A state, or the gradient with respect to one, with the error that it may have by now. */
typedef struct truth_matrix {
    double *value, *size, *error; /* [m][n]; size: rounding errors are in proportion to it */
    double *norm;                 /* [n] with the delta term: a column's error in the 2-norm, which error repeats */
} truth_matrix;

static icl_status head_create(truth_head *head, const icl_truth *truth, int first, icl_error *error) {
    const icl_case *c = truth->c;
    const bool is_forward = first == INPUTS;
    const bool from_rows = c->params.recurrence.params.from_rows;
    const size_t tokens = c->shape[is_forward ? OUT : ICL_RECURRENCE_BACKWARD_D_OUT][2],
                 m = c->shape[first + ICL_RECURRENCE_K][3], n = c->shape[first + ICL_RECURRENCE_V][3];
    double **const rows[] = {&head->k, &head->r, &head->w, &head->decay, &head->gate};

    *head = (truth_head){
        .tokens = tokens,
        .m = m,
        .n = n,
        .delta = c->params.recurrence.params.delta,
        .from_rows = from_rows,
        .chunk = (is_forward || from_rows) && m > 1 ? CHUNK : 1,
        .has_decay = c->rank[first + ICL_RECURRENCE_DECAY] >= 0,
        .scale = icl_device_rounded(truth, c->params.recurrence.params.scale),
        .unit = truth->unit,
        .flushed = truth->unit < (double)FLT_EPSILON / 4 ? DBL_MIN : (double)FLT_MIN,
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ICL_CHECK(icl_allocate(tokens * m, sizeof(double), "recurrence truth", rows[i], error));
    ICL_CHECK(icl_allocate(tokens * (m > n ? m : n), sizeof(double), "recurrence truth", &head->q, error));
    ICL_CHECK(icl_allocate(tokens * n, sizeof(double), "recurrence truth", &head->v, error));
    ICL_CHECK(icl_allocate(tokens, sizeof(double), "recurrence truth", &head->beta, error));
    ICL_CHECK(icl_allocate(m * n, sizeof(double), "recurrence truth", &head->state, error));
    ICL_CHECK(icl_allocate(m, sizeof(double), "recurrence truth", &head->gated, error));
    return icl_allocate(n, sizeof(double), "recurrence truth", &head->local, error);
}

static void head_destroy(truth_head *head) {
    double **const all[] = {&head->q, &head->k,    &head->r,     &head->w,     &head->decay, &head->gate,
                            &head->v, &head->beta, &head->state, &head->gated, &head->local};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        icl_free(all[i]);
}

/* Loads the rows [T][width] of one operand, which may repeat along any axis; `otherwise` if it is absent. */
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

/* Reads one head's inputs; `first` is the operand q. */
static void head_load(truth_head *head, const icl_truth *truth, int first, size_t batch, size_t h) {
    const size_t tokens = head->tokens, m = head->m, n = head->n;
    double *const keys[] = {head->r, head->w};

    load_rows(truth, first + ICL_RECURRENCE_Q, batch, h, tokens, head->from_rows ? n : m, 0, head->q);
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

static icl_status matrix_create(truth_matrix *matrix, const truth_head *head, icl_error *error) {
    const size_t count = head->m * head->n;
    *matrix = (truth_matrix){0};
    ICL_CHECK(icl_allocate(count, sizeof(double), "recurrence truth", &matrix->value, error));
    ICL_CHECK(icl_allocate(count, sizeof(double), "recurrence truth", &matrix->size, error));
    ICL_CHECK(icl_allocate(count, sizeof(double), "recurrence truth", &matrix->error, error));
    return icl_allocate(head->n, sizeof(double), "recurrence truth", &matrix->norm, error);
}

static void matrix_destroy(truth_matrix *matrix) {
    icl_free(&matrix->value);
    icl_free(&matrix->size);
    icl_free(&matrix->error);
    icl_free(&matrix->norm);
}

/* Returns the largest |(I - beta k r^T) diag(gate) x| of all |x| = 1 at a token. */
static double largest_growth(const truth_head *head, size_t t) {
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

/* Returns the error that sum_i x_i X_ij takes over from X. */
static double carried_error(const truth_head *head, const truth_matrix *matrix, const double *x, size_t j) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < head->m; i++) {
        sum += fabs(x[i]) * matrix->error[i * head->n + j];
        squares += x[i] * x[i];
    }
    return head->delta ? sqrt(squares) * matrix->norm[j] : sum;
}

/* p = r^T F S. head->local is the part of its bound that is not carried on from S. */
static void read_state(truth_head *head, size_t t, const truth_matrix *state, double *p, double *p_bound) {
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
        p_bound[j] = carried_error(head, state, head->gated, j) + head->local[j];
    }
}

/* Advances one column of the state; p and its bound are used with the delta term. */
static void advance_column(truth_head *head, size_t t, size_t j, double growth, truth_matrix *state, double p,
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

/* S <- the state after token t. With the delta term it also sets p [n] and its bound. */
static void advance(truth_head *head, size_t t, truth_matrix *state, double *p, double *p_bound) {
    const double growth = largest_growth(head, t);

    if (head->delta)
        read_state(head, t, state, p, p_bound);
    for (size_t j = 0; j < head->n; j++)
        advance_column(head, t, j, growth, state, head->delta ? p[j] : 0, head->delta ? p_bound[j] : 0);
}

/* ---- The op ---- */

/* Copies a state and its bounds into an output if that is wanted. */
static void write_state(icl_truth *truth, int operand, size_t position, const truth_matrix *state, size_t count) {
    if (!truth->operand[operand])
        return;
    memcpy(truth->operand[operand] + position, state->value, count * sizeof(double));
    memcpy(truth->bound[operand] + position, state->error, count * sizeof(double));
}

/* Writes scale S^T q_t to row `position` of an output. */
static void write_out(icl_truth *truth, int operand, const truth_head *head, size_t t, const truth_matrix *state,
                      size_t position) {
    const size_t m = head->m, n = head->n;
    const double *q = head->q + t * m, roundings = icl_gamma((double)m + 4, head->unit), scale = fabs(head->scale);

    for (size_t j = 0; j < n; j++) {
        double sum = 0, size = 0;
        for (size_t i = 0; i < m; i++) {
            sum += q[i] * state->value[i * n + j];
            size += fabs(q[i]) * state->size[i * n + j];
        }
        truth->operand[operand][position + j] = head->scale * sum;
        truth->bound[operand][position + j] =
            scale * (carried_error(head, state, q, j) + roundings * size + head->flushed * (double)m);
    }
}

static void run_head(icl_truth *truth, truth_head *head, size_t number, truth_matrix *state, double *p,
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
        advance(head, t, state, p, p_bound);
        if (!head->from_rows)
            write_out(truth, OUT, head, t, state, row);
        if (truth->operand[READS]) {
            memcpy(truth->operand[READS] + row, p, n * sizeof(double));
            memcpy(truth->bound[READS] + row, p_bound, n * sizeof(double));
        }
    }
    write_state(truth, FINAL, number * count, state, count);
}

static icl_status write_rows(icl_truth *truth, icl_error *error);

icl_status icl_truth_recurrence_forward(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    truth_head head = {0};
    truth_matrix state = {0};
    double *p = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(head_create(&head, truth, INPUTS, error));
    ICL_TRY(matrix_create(&state, &head, error));
    ICL_TRY(icl_allocate(2 * head.n, sizeof *p, "recurrence truth", &p, error));
    for (size_t i = 0; i < c->shape[OUT][0] * c->shape[OUT][1]; i++) {
        head_load(&head, truth, INPUTS, i / c->shape[OUT][1], i % c->shape[OUT][1]);
        run_head(truth, &head, i, &state, p, p + head.n);
    }
    if (head.from_rows)
        ICL_TRY(write_rows(truth, error));
    /* Sums of whole numbers are exact, because they stay small. */
    if (c->values == ICL_VALUES_INTEGERS && !head.delta && !head.has_decay)
        for (int operand = 0; operand < INPUTS; operand++)
            for (size_t i = 0; i < icl_case_count(c, operand); i++)
                truth->bound[operand][i] = 0;
done:
    icl_free(&p);
    matrix_destroy(&state);
    head_destroy(&head);
    return status;
}

icl_status icl_truth_recurrence_results(const icl_case *c, int wanted, float *const *operands, icl_error *error) {
    icl_case forward = {.op = ICL_OP_recurrence_forward, .params = c->params};
    icl_truth truth = {.c = &forward, .unit = DBL_EPSILON / 2};
    icl_status status = ICL_OK;

    for (int i = 0; i < INPUTS + ICL_RECURRENCE_INPUTS; i++) {
        /* The outputs are d_out in place of out, then final, reads and states; the inputs follow all of these. */
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

/* ---- Backward ---- */

/*
 * The recurrence with matrix state, backward.
 *
 * G_t = dL/dS_t is the sum of scale q_t do_t^T and the part from token t + 1. With p, P, S as in the forward pass, e =
 * G^T k, y = G^T w:
 *     dq = scale S do;  dv = beta y;  dw = beta G v;  dk = -beta G p;  dr = -beta P e;  dbeta = y.v - e.p
 *     dP = G - beta r e^T;  d decay_i = sum_j dP_ij P_ij;  G_(t-1) = scale q do^T + F dP
 * Without the delta term there is no e, and k takes the place of w. A key that is absent equals k, and its gradient is
 * added to that of k.
 *
 * G. The step back is A^T of the forward pass, which has the same norm, so errors are carried on in the same way:
 * element by element without the delta term, as norms of columns with it.
 *
 * S. A device has the states at the ends of each segment of 32 tokens and all p, rounded once. From the state before a
 * segment it goes forward, as in the forward pass, with p as given or read anew. From the state after it, it may run
 * back, S_(t-1) = (S_t + beta k p^T - beta w v^T) / F, if it loses no more than e^4 on the way; otherwise it runs back
 * from states between, as far as they lose no more. The given p do not depend on S, so errors pass only through 1 / F,
 * element by element, and grow by exp of the sum of the decays. The largest of all these errors counts. A gate that is
 * a divisor has an exponential of 3 ulp and a quotient of 2.5: 11 u.
 *
 * Decay. d_t = sum_j dP_ij P_ij may be summed in this form, or as d_t = d_(t+1) + q dq - k dk - w dw + r dr of that
 * channel (d decay_i is what the token takes out of (G o S)_i summed over j). The latter starts from sum_j G_ij S_ij at
 * the end of a segment, or of a piece of one that is run back in pieces, and its bound adds up those of the terms since
 * then. The two bounds are added here. One decay for all channels sums over them, or takes v.dv in the place of w.dw
 * and leaves out k and r, whose terms cancel.
 *
 * The other side, o = scale S q. G is the sum of scale do q^T, so all of the above holds with do in the place of q, and
 * q in that of do; and dq = scale S^T do has the errors of a forward pass with do as its query. The forward pass
 * starts each segment from a state, and takes p, with the errors of its own usual forward pass, and goes forward as
 * above; o = scale S q then has the errors of dq above.
 */

enum { FIRST = ICL_RECURRENCE_BACKWARD_INPUTS, SEGMENT = ICL_RECURRENCE_SEGMENT };

/* A sum of products: its value, its error bound, and the sum of its absolute terms. */
typedef struct sum {
    double value, bound, size;
} sum;

/* The backward pass of one head. */
typedef struct pass {
    truth_head head;
    truth_matrix state; /* while it runs forward */
    truth_matrix g;
    bool has_read_key, has_write_key;
    bool shared;             /* one decay for all channels */
    bool in_pieces;          /* a segment that cannot be run back from its end */
    double given;            /* relative rounding of the states and the reads that the op is given; 0: its own */
    double *states, *sizes;  /* [T + 1][m][n] */
    double *known;           /* [T + 1][m][n]: errors of the states that it starts from */
    double *p, *p_known;     /* [T][n]: and the errors that they come with */
    double *p_bound;         /* [n]: scratch */
    double *d_out, *d_final; /* [T][n], [m][n] */
    double *errors;          /* [33][m][n]: errors of the states of a segment */
    double *largest;         /* as above, of a device that may run the states back */
    double *p_errors;        /* [32][n]: of its p */
    double *back;            /* [m][n] */
    sum *y, *e;              /* [n] */
    sum *decay;              /* [m]: value, bound and size of the running sums */
} pass;

static void add(sum *s, double factor, double value, double error, double size) {
    s->value += factor * value;
    s->bound += fabs(factor) * error;
    s->size += fabs(factor) * size;
}

/* ---- States and their errors ---- */

/* `number`: of the head. Backward and from the other side, it also writes the gradient of q. */
static void run_forward(icl_truth *truth, pass *sweep, size_t number) {
    const size_t tokens = sweep->head.tokens, n = sweep->head.n, count = sweep->head.m * n;
    const bool writes = sweep->head.from_rows && sweep->given > 0 && truth->operand[ICL_RECURRENCE_Q];

    for (size_t i = 0; i < count; i++) {
        sweep->state.value[i] = sweep->head.state[i];
        sweep->state.size[i] = fabs(sweep->head.state[i]);
        sweep->state.error[i] = 0;
    }
    memset(sweep->state.norm, 0, sweep->head.n * sizeof(double));
    for (size_t t = 0;; t++) {
        memcpy(sweep->states + t * count, sweep->state.value, count * sizeof(double));
        for (size_t i = 0; i < count; i++) {
            sweep->sizes[t * count + i] = sweep->state.size[i];
            sweep->known[t * count + i] =
                sweep->given > 0 ? sweep->given * sweep->state.size[i] : sweep->state.error[i];
        }
        if (t == tokens)
            return;
        advance(&sweep->head, t, &sweep->state, sweep->p + t * n, sweep->p_bound);
        for (size_t j = 0; j < n; j++)
            sweep->p_known[t * n + j] = sweep->given > 0 ? sweep->given * fabs(sweep->p[t * n + j]) : sweep->p_bound[j];
        if (writes)
            write_out(truth, ICL_RECURRENCE_Q, &sweep->head, t, &sweep->state, (number * tokens + t) * n);
    }
}

/* Returns what a step adds to the error of element (i, j), in either direction. */
static double step_error(const pass *sweep, size_t t, size_t i, size_t j) {
    const truth_head *head = &sweep->head;
    const double few = icl_gamma(8, head->unit), beta = head->beta[t];
    const double written = fabs(beta * head->w[t * head->m + i] * head->v[t * head->n + j]);
    const double key = head->delta ? fabs(beta * head->k[t * head->m + i]) : 0;
    const double erased = key * fabs(sweep->p[t * head->n + j]), carried = key * sweep->p_known[t * head->n + j];
    return few * (written + erased + carried) + carried + 4 * head->flushed * (1 + fabs(head->v[t * head->n + j]));
}

/* Finds the errors of column j. A device that goes forward may take p as given or read it anew, so the column's error
 * passes through A or F. */
static void forward_column(pass *sweep, size_t start, size_t end, size_t j) {
    truth_head *head = &sweep->head;
    const size_t m = head->m, n = head->n, count = m * n;
    const double kept = icl_gamma(head->has_decay ? 10 : 3, head->unit), few = icl_gamma(8, head->unit);
    const double dot = icl_gamma((double)m + (head->has_decay ? 16 : 6), head->unit);
    double norm = 0;

    for (size_t i = 0; i < m; i++)
        norm = hypot(norm, sweep->errors[i * n + j]);
    for (size_t t = start; t < end; t++) {
        double reads = 0, size = 0, gate = 0, step = 0;
        for (size_t i = 0; i < m; i++) {
            const double read = head->gate[t * m + i] * head->r[t * m + i];
            reads = hypot(reads, read);
            size += fabs(read) * (sweep->sizes[t * count + i * n + j] + norm);
            gate = fmax(gate, head->gate[t * m + i]);
        }
        const double local = dot * size + head->flushed * (double)m;
        sweep->p_errors[(t - start) * n + j] = fmax(sweep->p_known[t * n + j], reads * norm + local);
        for (size_t i = 0; i < m; i++) {
            const double key = fabs(head->beta[t] * head->k[t * m + i]);
            const double own = kept * head->gate[t * m + i] * (sweep->sizes[t * count + i * n + j] + norm) +
                               step_error(sweep, t, i, j) + key * (local + few * sweep->p_errors[(t - start) * n + j]);
            step = hypot(step, own);
        }
        norm = fmax(largest_growth(head, t), gate) * norm + step;
        for (size_t i = 0; i < m; i++)
            sweep->errors[(t - start + 1) * count + i * n + j] = norm;
    }
}

/* Sets errors [t - start] of the states from `start` to `end`, for a device that computes them forward. */
static void find_forward_errors(pass *sweep, size_t start, size_t end) {
    const truth_head *head = &sweep->head;
    const size_t m = head->m, n = head->n, count = m * n;
    const double kept = icl_gamma(head->has_decay ? 10 : 3, head->unit);

    for (size_t e = 0; e < count; e++)
        sweep->errors[e] = sweep->known[start * count + e];
    for (size_t j = 0; j < n && head->delta; j++)
        forward_column(sweep, start, end, j);
    for (size_t t = start; t < end && !head->delta; t++)
        for (size_t e = 0; e < count; e++) {
            const double *before = sweep->errors + (t - start) * count;
            const double size = sweep->sizes[t * count + e] + before[e];
            sweep->errors[(t - start + 1) * count + e] =
                head->gate[t * m + e / n] * (before[e] + kept * size) + step_error(sweep, t, e / n, e % n);
        }
}

/* Returns the first token to which a device may run the state before `end` back, losing e^4 or less. */
static size_t find_reach(const truth_head *head, size_t start, size_t end) {
    size_t first = start;
    for (size_t i = 0; i < head->m; i++) {
        double lost = 0;
        for (size_t t = end; t-- > first;) {
            lost -= head->decay[t * head->m + i];
            if (!(lost <= 4.0001))
                first = t + 1;
        }
    }
    return first;
}

/* Steps back [m][n] to the error of the state before token t, from that of the state after it. */
static void step_back(pass *sweep, size_t t) {
    const truth_head *head = &sweep->head;
    const size_t m = head->m, n = head->n, count = m * n;
    const double divided = icl_gamma(14, head->unit), kept = icl_gamma(3, head->unit);

    for (size_t e = 0; e < count; e++) {
        const double after = sweep->sizes[(t + 1) * count + e] + sweep->back[e], gate = head->gate[t * m + e / n];
        const double error = sweep->back[e] + kept * after + step_error(sweep, t, e / n, e % n);
        sweep->back[e] = (1 + divided) * error / gate + divided * sweep->sizes[t * count + e];
    }
}

/* Finds the larger of the errors of going forward and of running back, from the end or, if that loses too much, from
 * any state between. */
static void find_state_errors(pass *sweep, size_t start, size_t end) {
    const truth_head *head = &sweep->head;
    const size_t count = head->m * head->n;

    sweep->in_pieces = find_reach(head, start, end) > start;
    find_forward_errors(sweep, start, end);
    memcpy(sweep->largest, sweep->errors, (end - start + 1) * count * sizeof(double));
    for (size_t from = end; from > start && (from == end || sweep->in_pieces); from--) {
        const size_t reach = find_reach(head, start, from);
        for (size_t e = 0; e < count; e++)
            sweep->back[e] = from == end ? sweep->known[end * count + e] : sweep->errors[(from - start) * count + e];
        for (size_t t = from + 1; t-- > reach;) {
            double *largest = sweep->largest + (t - start) * count;
            if (t < from)
                step_back(sweep, t);
            for (size_t e = 0; e < count; e++)
                largest[e] = fmax(largest[e], sweep->back[e]);
        }
    }
}

/* ---- G ---- */

/* With the delta term, carries the norms of the errors on, and adds the errors of the step itself. */
static void settle(const truth_head *head, truth_matrix *g, size_t j, double growth, double squares) {
    if (!head->delta)
        return;
    g->norm[j] = growth * g->norm[j] + sqrt(squares);
    for (size_t i = 0; i < head->m; i++) {
        g->error[i * head->n + j] = g->norm[j];
        g->size[i * head->n + j] += sqrt(squares);
    }
}

/* G += scale q do^T */
static void add_output(pass *sweep, size_t t) {
    const truth_head *head = &sweep->head;
    const size_t m = head->m, n = head->n;

    for (size_t j = 0; j < n; j++) {
        double squares = 0;
        for (size_t i = 0; i < m; i++) {
            const size_t e = i * n + j;
            const double term = head->scale * head->q[t * m + i] * sweep->d_out[t * n + j];
            const double local =
                icl_gamma(5, head->unit) * fabs(term) + icl_gamma(2, head->unit) * sweep->g.size[e] + 4 * head->flushed;
            sweep->g.value[e] += term;
            sweep->g.size[e] += fabs(term);
            sweep->g.error[e] += local;
            squares += local * local;
        }
        settle(head, &sweep->g, j, 1, squares);
    }
}

/* Computes sum_i x_i G_ij for every j. */
static void contract(const pass *sweep, const double *row, sum *sums) {
    const truth_head *head = &sweep->head;
    const double roundings = icl_gamma((double)head->m + 6, head->unit);

    for (size_t j = 0; j < head->n; j++) {
        sums[j] = (sum){0};
        for (size_t i = 0; i < head->m; i++)
            add(&sums[j], row[i], sweep->g.value[i * head->n + j], 0, sweep->g.size[i * head->n + j]);
        sums[j].bound =
            carried_error(head, &sweep->g, row, j) + roundings * sums[j].size + head->flushed * (double)head->m;
    }
}

/* Computes one column of G <- F (G - beta r e^T). With the delta term, size sums the terms of the new G, from before
 * the token's output: so two tokens may be taken at once. */
static void go_back_column(pass *sweep, size_t t, size_t j, double growth) {
    const truth_head *head = &sweep->head;
    const size_t m = head->m, n = head->n;
    const double kept = icl_gamma(head->has_decay ? 11 : 4, head->unit), before = growth * sweep->g.norm[j];
    const double off = icl_gamma((double)m + 6, head->unit) * sweep->e[j].size,
                 e_size = fabs(sweep->e[j].value) + sweep->e[j].bound;
    double squares = 0;

    for (size_t i = 0; i < m; i++) {
        double *value = &sweep->g.value[i * n + j], *size = &sweep->g.size[i * n + j],
               *error = &sweep->g.error[i * n + j];
        const double gate = head->gate[t * m + i], read = head->delta ? head->beta[t] * head->r[t * m + i] : 0;
        const double local =
            gate * (kept * (*size + fabs(read) * e_size) + fabs(read) * off) + 4 * head->flushed * (1 + *size);
        const double output = head->scale * head->q[t * m + i] * sweep->d_out[t * n + j];
        *size = gate * (head->delta ? fabs(*value - output) + fabs(output) + fabs(read) * e_size : *size);
        *value = gate * (*value - read * sweep->e[j].value);
        *error = gate * *error + local;
        squares += local * local;
    }
    settle(head, &sweep->g, j, growth, squares);
    for (size_t i = 0; i < m && head->delta; i++)
        sweep->g.size[i * n + j] += before;
}

static void go_back(pass *sweep, size_t t) {
    const double growth = largest_growth(&sweep->head, t);
    for (size_t j = 0; j < sweep->head.n; j++)
        go_back_column(sweep, t, j, growth);
}

/* ---- Gradients of one token ---- */

/* One channel's gradients. */
typedef struct channel {
    sum q, k, r, w, decay;
} channel;

static void differentiate_channel(pass *sweep, size_t t, size_t i, const double *errors, channel *d) {
    const truth_head *head = &sweep->head;
    const size_t n = head->n, count = head->m * n;
    const double unit = head->unit, beta = head->beta[t], gate = head->gate[t * head->m + i];
    const double sums = icl_gamma((double)(head->delta ? 3 * n : n) + 8, unit),
                 kept = icl_gamma(head->has_decay ? 10 : 3, unit);

    *d = (channel){0};
    for (size_t j = 0; j < n; j++) {
        const size_t e = i * n + j, at = t * count + e;
        const double g = sweep->g.value[e], g_size = sweep->g.size[e], g_error = sweep->g.error[e];
        const double after = sweep->sizes[at + count] + errors[count + e], before = sweep->sizes[at] + errors[e];
        const double p_size = gate * before, p_error = gate * (errors[e] + kept * before);
        const double value = gate * sweep->states[at], read = beta * head->r[t * head->m + i];
        const sum *u = &sweep->e[j];

        add(&d->q, head->scale * sweep->d_out[t * n + j], sweep->states[at + count], errors[count + e] + sums * after,
            after);
        add(&d->w, beta * head->v[t * n + j], g, g_error + sums * g_size, g_size);
        add(&d->decay, 1, g * value, g_error * p_size + g_size * (p_error + sums * p_size), g_size * p_size);
        if (!head->delta)
            continue;
        add(&d->k, -beta * sweep->p[t * n + j], g, g_error + sums * g_size, g_size);
        d->k.bound += fabs(beta) * sweep->p_errors[t % SEGMENT * n + j] * g_size;
        add(&d->r, -beta, u->value * value, u->bound * p_size + u->size * (p_error + sums * p_size), u->size * p_size);
        add(&d->decay, -read, u->value * value, u->bound * p_size + u->size * (p_error + sums * p_size),
            u->size * p_size);
    }
}

static void put(icl_truth *truth, int operand, size_t position, double value, double bound) {
    if (!truth->operand[operand])
        return;
    truth->operand[operand][position] = value;
    truth->bound[operand][position] = bound;
}

/* Adds a token to the running sum of a channel's decay. */
static void carry_decay(const pass *sweep, size_t t, size_t i, const channel *d) {
    const truth_head *head = &sweep->head;
    const double *const factors[] = {head->q, head->k, head->r, head->w};
    const sum *const terms[] = {&d->q, &d->k, &d->r, &d->w};
    const double roundings = icl_gamma((double)(head->m + head->n) + 8, head->unit);
    sum *running = &sweep->decay[i];

    for (int f = 0; f < 4; f++) {
        const double factor = fabs(factors[f][t * head->m + i]);
        running->bound += factor * (terms[f]->bound + roundings * terms[f]->size);
        running->size += factor * terms[f]->size;
    }
    running->bound += icl_gamma(6, head->unit) * running->size;
}

/* Writes the gradients with respect to the keys and the decay. `row`: the token's, among those of all heads. */
static void write_channels(icl_truth *truth, pass *sweep, size_t t, size_t row, const double *errors) {
    const truth_head *head = &sweep->head;
    const size_t m = head->m;
    sum all = {0};

    for (size_t i = 0; i < m; i++) {
        const size_t at = row * m + i;
        channel d;
        differentiate_channel(sweep, t, i, errors, &d);
        carry_decay(sweep, t, i, &d);
        const double flushed = head->flushed * (double)head->n;
        if (!head->from_rows)
            put(truth, ICL_RECURRENCE_Q, at, d.q.value, d.q.bound + flushed);
        put(truth, ICL_RECURRENCE_K, at,
            d.k.value + (sweep->has_read_key ? 0 : d.r.value) + (sweep->has_write_key ? 0 : d.w.value),
            d.k.bound + (sweep->has_read_key ? 0 : d.r.bound) + (sweep->has_write_key ? 0 : d.w.bound) + flushed);
        put(truth, ICL_RECURRENCE_READ_KEY, at, d.r.value, d.r.bound + flushed);
        put(truth, ICL_RECURRENCE_WRITE_KEY, at, d.w.value, d.w.bound + flushed);
        if (!sweep->shared)
            put(truth, ICL_RECURRENCE_DECAY, at, d.decay.value, d.decay.bound + sweep->decay[i].bound + flushed);
        all.value += d.decay.value;
        all.bound += d.decay.bound + sweep->decay[i].bound + flushed +
                     icl_gamma((double)(m * head->n) + 2, head->unit) * d.decay.size;
    }
    if (sweep->shared)
        put(truth, ICL_RECURRENCE_DECAY, row, all.value, all.bound);
}

static void write_values(icl_truth *truth, const pass *sweep, size_t t, size_t row) {
    const truth_head *head = &sweep->head;
    const size_t n = head->n;
    const double roundings = icl_gamma(2 * (double)n + 8, head->unit), beta = head->beta[t];
    sum strength = {0};

    for (size_t j = 0; j < n; j++) {
        const sum *y = &sweep->y[j], *e = &sweep->e[j];
        add(&strength, head->v[t * n + j], y->value, y->bound + roundings * y->size, y->size);
        if (head->delta) {
            strength.bound += sweep->p_errors[t % SEGMENT * n + j] * e->size;
            add(&strength, -sweep->p[t * n + j], e->value, e->bound + roundings * e->size, e->size);
        }
        put(truth, ICL_RECURRENCE_V, row * n + j, beta * y->value,
            fabs(beta) * (y->bound + icl_gamma(3, head->unit) * y->size) + head->flushed);
    }
    put(truth, ICL_RECURRENCE_BETA, row, strength.value, strength.bound + head->flushed * (double)n);
}

/* Starts the running sums of the decay from sum_j G_ij S_ij. */
static void start_decay(pass *sweep, size_t end, const double *errors) {
    const size_t m = sweep->head.m, n = sweep->head.n, count = m * n;
    const double roundings = icl_gamma((double)(sweep->shared ? m * n : n) + 4, sweep->head.unit);

    for (size_t i = 0; i < m; i++) {
        sum start = {0};
        for (size_t e = i * n; e < (i + 1) * n; e++) {
            const double size = sweep->sizes[end * count + e] + errors[e];
            add(&start, 1, 0, sweep->g.error[e] * size + sweep->g.size[e] * (errors[e] + roundings * size),
                sweep->g.size[e] * size);
        }
        sweep->decay[i].bound = fmax(sweep->decay[i].bound, start.bound);
        sweep->decay[i].size = fmax(sweep->decay[i].size, start.size);
    }
}

/* ---- The op ---- */

static icl_status create(pass *sweep, const icl_truth *truth, int first, icl_error *error) {
    *sweep = (pass){.given = first == INPUTS ? 0 : fmax(truth->unit, (double)FLT_EPSILON / 2)};
    ICL_CHECK(head_create(&sweep->head, truth, first, error));
    ICL_CHECK(matrix_create(&sweep->state, &sweep->head, error));
    ICL_CHECK(matrix_create(&sweep->g, &sweep->head, error));
    const size_t tokens = sweep->head.tokens, m = sweep->head.m, n = sweep->head.n, count = m * n;
    const struct {
        double **to;
        size_t count;
    } arrays[] = {{&sweep->states, (tokens + 1) * count},
                  {&sweep->sizes, (tokens + 1) * count},
                  {&sweep->known, (tokens + 1) * count},
                  {&sweep->p, tokens * n},
                  {&sweep->p_known, tokens * n},
                  {&sweep->p_bound, n},
                  {&sweep->d_out, tokens * n},
                  {&sweep->d_final, count},
                  {&sweep->back, count},
                  {&sweep->errors, (SEGMENT + 1) * count},
                  {&sweep->largest, (SEGMENT + 1) * count},
                  {&sweep->p_errors, SEGMENT * n}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        ICL_CHECK(icl_allocate(arrays[i].count, sizeof(double), "recurrence truth", arrays[i].to, error));
    ICL_CHECK(icl_allocate(n, sizeof(sum), "recurrence truth", &sweep->y, error));
    ICL_CHECK(icl_allocate(n, sizeof(sum), "recurrence truth", &sweep->e, error));
    return icl_allocate(m, sizeof(sum), "recurrence truth", &sweep->decay, error);
}

static void destroy(pass *sweep) {
    double **const arrays[] = {&sweep->states,  &sweep->sizes,   &sweep->known,   &sweep->p,
                               &sweep->p_known, &sweep->p_bound, &sweep->d_out,   &sweep->d_final,
                               &sweep->back,    &sweep->errors,  &sweep->largest, &sweep->p_errors};
    head_destroy(&sweep->head);
    matrix_destroy(&sweep->state);
    matrix_destroy(&sweep->g);
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        icl_free(arrays[i]);
    icl_free(&sweep->y);
    icl_free(&sweep->e);
    icl_free(&sweep->decay);
}

static void run_segment(icl_truth *truth, pass *sweep, size_t head, size_t start, size_t end) {
    const size_t count = sweep->head.m * sweep->head.n;

    find_state_errors(sweep, start, end);
    for (size_t i = 0; i < sweep->head.m; i++)
        sweep->decay[i] = (sum){0};
    for (size_t t = end; t-- > start;) {
        const size_t row = head * sweep->head.tokens + t;
        if (t + 1 == end || sweep->in_pieces)
            start_decay(sweep, t + 1, sweep->largest + (t + 1 - start) * count);
        add_output(sweep, t);
        contract(sweep, sweep->head.w + t * sweep->head.m, sweep->y);
        contract(sweep, sweep->head.k + t * sweep->head.m, sweep->e);
        write_values(truth, sweep, t, row);
        write_channels(truth, sweep, t, row, sweep->largest + (t - start) * count);
        go_back(sweep, t);
    }
}

static void run_back(icl_truth *truth, pass *sweep, size_t head) {
    const size_t count = sweep->head.m * sweep->head.n, tokens = sweep->head.tokens;

    for (size_t e = 0; e < count; e++) {
        sweep->g.value[e] = sweep->d_final[e];
        sweep->g.size[e] = fabs(sweep->d_final[e]);
        sweep->g.error[e] = 0;
    }
    memset(sweep->g.norm, 0, sweep->head.n * sizeof(double));
    for (size_t end = tokens; end > 0; end = (end - 1) / SEGMENT * SEGMENT)
        run_segment(truth, sweep, head, (end - 1) / SEGMENT * SEGMENT, end);
    for (size_t e = 0; e < count; e++)
        put(truth, ICL_RECURRENCE_STATE, head * count + e, sweep->g.value[e], sweep->g.error[e]);
}

/* Writes o_t = scale S_t q_t of one head. */
static void write_rows_of(icl_truth *truth, pass *sweep, size_t number) {
    const truth_head *head = &sweep->head;
    const size_t tokens = head->tokens, m = head->m, n = head->n, count = m * n;
    const double sums = icl_gamma((double)(head->delta ? 3 * n : n) + 8, head->unit);

    for (size_t start = 0; start < tokens; start += SEGMENT) {
        const size_t end = start + SEGMENT < tokens ? start + SEGMENT : tokens;
        find_forward_errors(sweep, start, end);
        for (size_t row = start * m; row < end * m; row++) {
            const size_t t = row / m, first = row % m * n;
            const double *errors = sweep->errors + (t + 1 - start) * count + first;
            sum o = {0};
            for (size_t j = 0; j < n; j++) {
                const double size = sweep->sizes[(t + 1) * count + first + j] + errors[j];
                add(&o, head->scale * head->q[t * n + j], sweep->states[(t + 1) * count + first + j],
                    errors[j] + sums * size, size);
            }
            put(truth, OUT, number * tokens * m + row, o.value, o.bound + head->flushed * (double)n);
        }
    }
}

static icl_status write_rows(icl_truth *truth, icl_error *error) {
    const size_t *shape = truth->c->shape[OUT];
    icl_status status = ICL_OK;
    pass sweep;

    ICL_TRY(create(&sweep, truth, INPUTS, error));
    for (size_t head = 0; head < shape[0] * shape[1]; head++) {
        head_load(&sweep.head, truth, INPUTS, head / shape[1], head % shape[1]);
        run_forward(truth, &sweep, head);
        write_rows_of(truth, &sweep, head);
    }
done:
    destroy(&sweep);
    return status;
}

icl_status icl_truth_recurrence_backward(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t *shape = c->shape[ICL_RECURRENCE_BACKWARD_D_OUT];
    const double *d_final = truth->operand[ICL_RECURRENCE_BACKWARD_D_FINAL];
    icl_status status = ICL_OK;
    pass sweep;

    ICL_TRY(create(&sweep, truth, FIRST, error));
    const size_t count = sweep.head.m * sweep.head.n, outs = sweep.head.tokens * shape[3];
    sweep.has_read_key = !sweep.head.delta || c->rank[FIRST + ICL_RECURRENCE_READ_KEY] >= 0;
    sweep.has_write_key = c->rank[FIRST + ICL_RECURRENCE_WRITE_KEY] >= 0;
    sweep.shared = c->rank[ICL_RECURRENCE_DECAY] >= 0 && c->shape[ICL_RECURRENCE_DECAY][3] < sweep.head.m;
    for (size_t head = 0; head < shape[0] * shape[1]; head++) {
        head_load(&sweep.head, truth, FIRST, head / shape[1], head % shape[1]);
        if (sweep.head.from_rows)
            memcpy(sweep.d_out, sweep.head.q, sweep.head.tokens * sweep.head.n * sizeof(double));
        memcpy(sweep.head.from_rows ? sweep.head.q : sweep.d_out,
               truth->operand[ICL_RECURRENCE_BACKWARD_D_OUT] + head * outs, outs * sizeof(double));
        for (size_t e = 0; e < count; e++)
            sweep.d_final[e] = d_final ? d_final[head * count + e] : 0;
        run_forward(truth, &sweep, head);
        run_back(truth, &sweep, head);
    }
    if (c->values == ICL_VALUES_INTEGERS && !sweep.head.delta && !sweep.head.has_decay)
        for (int operand = 0; operand < ICL_RECURRENCE_INPUTS; operand++)
            for (size_t i = 0; i < icl_case_count(c, operand); i++)
                truth->bound[operand][i] = 0;
done:
    destroy(&sweep);
    return status;
}
