/*
 * The recurrence with matrix state, backward.
 *
 * G_t = dL/dS_t holds scale q_t do_t^T and what comes from token t + 1. With p, P, S as forward, e = G^T k, y = G^T w:
 *     dq = scale S do;  dv = beta y;  dw = beta G v;  dk = -beta G p;  dr = -beta P e;  dbeta = y.v - e.p
 *     dP = G - beta r e^T;  d decay_i = sum_j dP_ij P_ij;  G_(t-1) = scale q do^T + F dP
 * Without the delta term e is not there, and k stands for w. A key that is absent is k, and so is its gradient.
 *
 * G. The step back is A^T of truth_recurrence.c, which has the same norm, so errors are carried on as there: element by
 * element without the delta term, as norms of columns with it.
 *
 * S. A device has the states at the ends of each segment of 32 tokens and all p, rounded once. From the one before a
 * segment it goes forward, as in truth_recurrence.c, with p as given or read anew. From the one behind it, it may run
 * back, S_(t-1) = (S_t + beta k p^T - beta w v^T) / F, if it loses no more than e^4 on the way; if not, then from
 * states between, as far as they lose no more. The p that are given do not depend on S, so errors pass through 1 / F
 * alone, element by element, and grow by exp of the sum of the decays. The largest of all these errors counts. A gate
 * that is divided by has an exponential of 3 ulp and a quotient of 2.5: 11 u.
 *
 * Decay. d_t = sum_j dP_ij P_ij may be summed as it stands, or as d_t = d_(t+1) + q dq - k dk - w dw + r dr of that
 * channel (d decay_i is what the token takes out of (G o S)_i summed over j). That starts from sum_j G_ij S_ij at the
 * end of a segment, or of a piece of one that is in pieces. Its bound adds up those of the terms since then. Both
 * bounds are added here. One decay for all channels sums over them, or takes v.dv in the place of w.dw and leaves out k
 * and r, whose terms cancel.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "conformance/cases.h"
#include "conformance/truth_recurrence.h"
#include "core/allocate.h"

enum { FIRST = ICL_RECURRENCE_BACKWARD_INPUTS, SEGMENT = ICL_RECURRENCE_SEGMENT };

/* A sum of products: its value, what may be wrong with it, and the sum of its absolute terms. */
typedef struct sum {
    double value, bound, size;
} sum;

/* One head on its way back. */
typedef struct pass {
    icl_truth_head head;
    icl_truth_matrix state; /* while it runs forward */
    icl_truth_matrix g;
    bool has_read_key, has_write_key;
    bool shared;             /* one decay for all channels */
    bool in_pieces;          /* a segment that cannot be run back from its end */
    double given;            /* what rounds the states and the reads that the op is given */
    double *states, *sizes;  /* [T + 1][m][n] */
    double *p;               /* [T][n] */
    double *p_bound;         /* [n]: scratch */
    double *d_out, *d_final; /* [T][n], [m][n] */
    double *errors;          /* [33][m][n]: of the states of a segment */
    double *largest;         /* the same, of a device that may run the states back */
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

static void run_forward(pass *x) {
    const size_t tokens = x->head.tokens, count = x->head.m * x->head.n;

    for (size_t i = 0; i < count; i++) {
        x->state.value[i] = x->head.state[i];
        x->state.size[i] = fabs(x->head.state[i]);
        x->state.error[i] = 0;
    }
    memset(x->state.norm, 0, x->head.n * sizeof(double));
    for (size_t t = 0;; t++) {
        memcpy(x->states + t * count, x->state.value, count * sizeof(double));
        for (size_t i = 0; i < count; i++)
            x->sizes[t * count + i] = x->state.size[i];
        if (t == tokens)
            return;
        icl_truth_advance(&x->head, t, &x->state, x->p + t * x->head.n, x->p_bound);
    }
}

/* What a step adds to the error of element (i, j), whichever way it goes. */
static double step_error(const pass *x, size_t t, size_t i, size_t j) {
    const icl_truth_head *head = &x->head;
    const double few = icl_gamma(8, head->unit), beta = head->beta[t];
    const double written = fabs(beta * head->w[t * head->m + i] * head->v[t * head->n + j]);
    const double erased = head->delta ? fabs(beta * head->k[t * head->m + i] * x->p[t * head->n + j]) : 0;
    return few * (written + erased) + x->given * erased + 4 * head->flushed * (1 + fabs(head->v[t * head->n + j]));
}

/* A device that goes forward may take p as given or read it anew: what is wrong with column j goes through A or F. */
static void forward_column(pass *x, size_t start, size_t end, size_t j) {
    icl_truth_head *head = &x->head;
    const size_t m = head->m, n = head->n, count = m * n;
    const double kept = icl_gamma(head->has_decay ? 10 : 3, head->unit), few = icl_gamma(8, head->unit);
    const double dot = icl_gamma((double)m + (head->has_decay ? 16 : 6), head->unit);
    double norm = 0;

    for (size_t i = 0; i < m; i++)
        norm = hypot(norm, x->errors[i * n + j]);
    for (size_t t = start; t < end; t++) {
        double reads = 0, size = 0, gate = 0, step = 0;
        for (size_t i = 0; i < m; i++) {
            const double read = head->gate[t * m + i] * head->r[t * m + i];
            reads = hypot(reads, read);
            size += fabs(read) * (x->sizes[t * count + i * n + j] + norm);
            gate = fmax(gate, head->gate[t * m + i]);
        }
        const double local = dot * size + head->flushed * (double)m, p = fabs(x->p[t * n + j]);
        x->p_errors[(t - start) * n + j] = fmax(x->given * p, reads * norm + local);
        for (size_t i = 0; i < m; i++) {
            const double key = fabs(head->beta[t] * head->k[t * m + i]);
            const double own = kept * head->gate[t * m + i] * (x->sizes[t * count + i * n + j] + norm) +
                               step_error(x, t, i, j) + key * (local + few * x->p_errors[(t - start) * n + j]);
            step = hypot(step, own);
        }
        norm = fmax(icl_truth_growth(head, t), gate) * norm + step;
        for (size_t i = 0; i < m; i++)
            x->errors[(t - start + 1) * count + i * n + j] = norm;
    }
}

/* errors[t - start] of the states from `start` to `end`, of a device that computes them forward. */
static void find_forward_errors(pass *x, size_t start, size_t end) {
    const icl_truth_head *head = &x->head;
    const size_t m = head->m, n = head->n, count = m * n;
    const double kept = icl_gamma(head->has_decay ? 10 : 3, head->unit);

    for (size_t e = 0; e < count; e++)
        x->errors[e] = x->given * x->sizes[start * count + e];
    for (size_t j = 0; j < n && head->delta; j++)
        forward_column(x, start, end, j);
    for (size_t t = start; t < end && !head->delta; t++)
        for (size_t e = 0; e < count; e++) {
            const double *before = x->errors + (t - start) * count;
            const double size = x->sizes[t * count + e] + before[e];
            x->errors[(t - start + 1) * count + e] =
                head->gate[t * m + e / n] * (before[e] + kept * size) + step_error(x, t, e / n, e % n);
        }
}

/* The first token that a device may run the state before `end` back to, losing e^4 or less. */
static size_t find_reach(const icl_truth_head *head, size_t start, size_t end) {
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

/* back [m][n]: the error of the state before token t, from that of the state behind it. */
static void step_back(pass *x, size_t t) {
    const icl_truth_head *head = &x->head;
    const size_t m = head->m, n = head->n, count = m * n;
    const double divided = icl_gamma(14, head->unit), kept = icl_gamma(3, head->unit);

    for (size_t e = 0; e < count; e++) {
        const double after = x->sizes[(t + 1) * count + e] + x->back[e], gate = head->gate[t * m + e / n];
        const double error = x->back[e] + kept * after + step_error(x, t, e / n, e % n);
        x->back[e] = (1 + divided) * error / gate + divided * x->sizes[t * count + e];
    }
}

/* The larger of the errors of going forward and of running back: from the end, or where that loses too much, from any
 * state between. */
static void find_state_errors(pass *x, size_t start, size_t end) {
    const icl_truth_head *head = &x->head;
    const size_t count = head->m * head->n;

    x->in_pieces = find_reach(head, start, end) > start;
    find_forward_errors(x, start, end);
    memcpy(x->largest, x->errors, (end - start + 1) * count * sizeof(double));
    for (size_t from = end; from > start && (from == end || x->in_pieces); from--) {
        const size_t reach = find_reach(head, start, from);
        for (size_t e = 0; e < count; e++)
            x->back[e] = from == end ? x->given * x->sizes[end * count + e] : x->errors[(from - start) * count + e];
        for (size_t t = from + 1; t-- > reach;) {
            double *largest = x->largest + (t - start) * count;
            if (t < from)
                step_back(x, t);
            for (size_t e = 0; e < count; e++)
                largest[e] = fmax(largest[e], x->back[e]);
        }
    }
}

/* ---- G ---- */

/* With the delta term: carries the norms of the errors on, and takes up what the step itself was off by. */
static void settle(const icl_truth_head *head, icl_truth_matrix *g, size_t j, double growth, double squares) {
    if (!head->delta)
        return;
    g->norm[j] = growth * g->norm[j] + sqrt(squares);
    for (size_t i = 0; i < head->m; i++) {
        g->error[i * head->n + j] = g->norm[j];
        g->size[i * head->n + j] += sqrt(squares);
    }
}

/* G += scale q do^T */
static void add_output(pass *x, size_t t) {
    const icl_truth_head *head = &x->head;
    const size_t m = head->m, n = head->n;

    for (size_t j = 0; j < n; j++) {
        double squares = 0;
        for (size_t i = 0; i < m; i++) {
            const size_t e = i * n + j;
            const double term = head->scale * head->q[t * m + i] * x->d_out[t * n + j];
            const double local =
                icl_gamma(5, head->unit) * fabs(term) + icl_gamma(2, head->unit) * x->g.size[e] + 4 * head->flushed;
            x->g.value[e] += term;
            x->g.size[e] += fabs(term);
            x->g.error[e] += local;
            squares += local * local;
        }
        settle(head, &x->g, j, 1, squares);
    }
}

/* sum_i x_i G_ij for every j. */
static void contract(const pass *x, const double *row, sum *sums) {
    const icl_truth_head *head = &x->head;
    const double roundings = icl_gamma((double)head->m + 6, head->unit);

    for (size_t j = 0; j < head->n; j++) {
        sums[j] = (sum){0};
        for (size_t i = 0; i < head->m; i++)
            add(&sums[j], row[i], x->g.value[i * head->n + j], 0, x->g.size[i * head->n + j]);
        sums[j].bound =
            icl_truth_through(head, &x->g, row, j) + roundings * sums[j].size + head->flushed * (double)head->m;
    }
}

/* One column of G <- F (G - beta r e^T). With the delta term, size is what the new G is the sum of, from before the
 * token's output: so two tokens may be taken at once. */
static void go_back_column(pass *x, size_t t, size_t j, double growth) {
    const icl_truth_head *head = &x->head;
    const size_t m = head->m, n = head->n;
    const double kept = icl_gamma(head->has_decay ? 11 : 4, head->unit), before = growth * x->g.norm[j];
    const double off = icl_gamma((double)m + 6, head->unit) * x->e[j].size,
                 e_size = fabs(x->e[j].value) + x->e[j].bound;
    double squares = 0;

    for (size_t i = 0; i < m; i++) {
        double *value = &x->g.value[i * n + j], *size = &x->g.size[i * n + j], *error = &x->g.error[i * n + j];
        const double gate = head->gate[t * m + i], read = head->delta ? head->beta[t] * head->r[t * m + i] : 0;
        const double local =
            gate * (kept * (*size + fabs(read) * e_size) + fabs(read) * off) + 4 * head->flushed * (1 + *size);
        const double output = head->scale * head->q[t * m + i] * x->d_out[t * n + j];
        *size = gate * (head->delta ? fabs(*value - output) + fabs(output) + fabs(read) * e_size : *size);
        *value = gate * (*value - read * x->e[j].value);
        *error = gate * *error + local;
        squares += local * local;
    }
    settle(head, &x->g, j, growth, squares);
    for (size_t i = 0; i < m && head->delta; i++)
        x->g.size[i * n + j] += before;
}

static void go_back(pass *x, size_t t) {
    const double growth = icl_truth_growth(&x->head, t);
    for (size_t j = 0; j < x->head.n; j++)
        go_back_column(x, t, j, growth);
}

/* ---- Gradients of one token ---- */

/* One channel's gradients. */
typedef struct channel {
    sum q, k, r, w, decay;
} channel;

static void differentiate_channel(pass *x, size_t t, size_t i, const double *errors, channel *d) {
    const icl_truth_head *head = &x->head;
    const size_t n = head->n, count = head->m * n;
    const double unit = head->unit, beta = head->beta[t], gate = head->gate[t * head->m + i];
    const double sums = icl_gamma((double)(head->delta ? 3 * n : n) + 8, unit),
                 kept = icl_gamma(head->has_decay ? 10 : 3, unit);

    *d = (channel){0};
    for (size_t j = 0; j < n; j++) {
        const size_t e = i * n + j, at = t * count + e;
        const double g = x->g.value[e], g_size = x->g.size[e], g_error = x->g.error[e];
        const double after = x->sizes[at + count] + errors[count + e], before = x->sizes[at] + errors[e];
        const double p_size = gate * before, p_error = gate * (errors[e] + kept * before);
        const double value = gate * x->states[at], read = beta * head->r[t * head->m + i];
        const sum *u = &x->e[j];

        add(&d->q, head->scale * x->d_out[t * n + j], x->states[at + count], errors[count + e] + sums * after, after);
        add(&d->w, beta * head->v[t * n + j], g, g_error + sums * g_size, g_size);
        add(&d->decay, 1, g * value, g_error * p_size + g_size * (p_error + sums * p_size), g_size * p_size);
        if (!head->delta)
            continue;
        add(&d->k, -beta * x->p[t * n + j], g, g_error + sums * g_size, g_size);
        d->k.bound += fabs(beta) * x->p_errors[t % SEGMENT * n + j] * g_size;
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

/* The running sum of a channel's decay takes up a token. */
static void carry_decay(const pass *x, size_t t, size_t i, const channel *d) {
    const icl_truth_head *head = &x->head;
    const double *const factors[] = {head->q, head->k, head->r, head->w};
    const sum *const terms[] = {&d->q, &d->k, &d->r, &d->w};
    const double roundings = icl_gamma((double)(head->m + head->n) + 8, head->unit);
    sum *running = &x->decay[i];

    for (int f = 0; f < 4; f++) {
        const double factor = fabs(factors[f][t * head->m + i]);
        running->bound += factor * (terms[f]->bound + roundings * terms[f]->size);
        running->size += factor * terms[f]->size;
    }
    running->bound += icl_gamma(6, head->unit) * running->size;
}

/* Writes the gradients by the keys and the decay. `row`: of the token among those of all heads. */
static void write_channels(icl_truth *truth, pass *x, size_t t, size_t row, const double *errors) {
    const icl_truth_head *head = &x->head;
    const size_t m = head->m;
    sum all = {0};

    for (size_t i = 0; i < m; i++) {
        const size_t at = row * m + i;
        channel d;
        differentiate_channel(x, t, i, errors, &d);
        carry_decay(x, t, i, &d);
        const double flushed = head->flushed * (double)head->n;
        put(truth, ICL_RECURRENCE_Q, at, d.q.value, d.q.bound + flushed);
        put(truth, ICL_RECURRENCE_K, at,
            d.k.value + (x->has_read_key ? 0 : d.r.value) + (x->has_write_key ? 0 : d.w.value),
            d.k.bound + (x->has_read_key ? 0 : d.r.bound) + (x->has_write_key ? 0 : d.w.bound) + flushed);
        put(truth, ICL_RECURRENCE_READ_KEY, at, d.r.value, d.r.bound + flushed);
        put(truth, ICL_RECURRENCE_WRITE_KEY, at, d.w.value, d.w.bound + flushed);
        if (!x->shared)
            put(truth, ICL_RECURRENCE_DECAY, at, d.decay.value, d.decay.bound + x->decay[i].bound + flushed);
        all.value += d.decay.value;
        all.bound += d.decay.bound + x->decay[i].bound + flushed +
                     icl_gamma((double)(m * head->n) + 2, head->unit) * d.decay.size;
    }
    if (x->shared)
        put(truth, ICL_RECURRENCE_DECAY, row, all.value, all.bound);
}

static void write_values(icl_truth *truth, const pass *x, size_t t, size_t row) {
    const icl_truth_head *head = &x->head;
    const size_t n = head->n;
    const double roundings = icl_gamma(2 * (double)n + 8, head->unit), beta = head->beta[t];
    sum strength = {0};

    for (size_t j = 0; j < n; j++) {
        const sum *y = &x->y[j], *e = &x->e[j];
        add(&strength, head->v[t * n + j], y->value, y->bound + roundings * y->size, y->size);
        if (head->delta) {
            strength.bound += x->p_errors[t % SEGMENT * n + j] * e->size;
            add(&strength, -x->p[t * n + j], e->value, e->bound + roundings * e->size, e->size);
        }
        put(truth, ICL_RECURRENCE_V, row * n + j, beta * y->value,
            fabs(beta) * (y->bound + icl_gamma(3, head->unit) * y->size) + head->flushed);
    }
    put(truth, ICL_RECURRENCE_BETA, row, strength.value, strength.bound + head->flushed * (double)n);
}

/* The running sums of the decay start from sum_j G_ij S_ij. */
static void start_decay(pass *x, size_t end, const double *errors) {
    const size_t m = x->head.m, n = x->head.n, count = m * n;
    const double roundings = icl_gamma((double)(x->shared ? m * n : n) + 4, x->head.unit);

    for (size_t i = 0; i < m; i++) {
        sum start = {0};
        for (size_t e = i * n; e < (i + 1) * n; e++) {
            const double size = x->sizes[end * count + e] + errors[e];
            add(&start, 1, 0, x->g.error[e] * size + x->g.size[e] * (errors[e] + roundings * size),
                x->g.size[e] * size);
        }
        x->decay[i].bound = fmax(x->decay[i].bound, start.bound);
        x->decay[i].size = fmax(x->decay[i].size, start.size);
    }
}

/* ---- The op ---- */

static icl_status create(pass *x, const icl_truth *truth, icl_error *error) {
    *x = (pass){.given = fmax(truth->unit, (double)FLT_EPSILON / 2)};
    ICL_CHECK(icl_truth_head_create(&x->head, truth, FIRST, error));
    ICL_CHECK(icl_truth_matrix_create(&x->state, &x->head, error));
    ICL_CHECK(icl_truth_matrix_create(&x->g, &x->head, error));
    const size_t tokens = x->head.tokens, m = x->head.m, n = x->head.n, count = m * n;
    const struct {
        double **to;
        size_t count;
    } arrays[] = {{&x->states, (tokens + 1) * count},
                  {&x->sizes, (tokens + 1) * count},
                  {&x->p, tokens * n},
                  {&x->p_bound, n},
                  {&x->d_out, tokens * n},
                  {&x->d_final, count},
                  {&x->back, count},
                  {&x->errors, (SEGMENT + 1) * count},
                  {&x->largest, (SEGMENT + 1) * count},
                  {&x->p_errors, SEGMENT * n}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        ICL_CHECK(icl_allocate(arrays[i].count, sizeof(double), "recurrence truth", arrays[i].to, error));
    ICL_CHECK(icl_allocate(n, sizeof(sum), "recurrence truth", &x->y, error));
    ICL_CHECK(icl_allocate(n, sizeof(sum), "recurrence truth", &x->e, error));
    return icl_allocate(m, sizeof(sum), "recurrence truth", &x->decay, error);
}

static void destroy(pass *x) {
    double **const arrays[] = {&x->states,  &x->sizes, &x->p,      &x->p_bound, &x->d_out,
                               &x->d_final, &x->back,  &x->errors, &x->largest, &x->p_errors};
    icl_truth_head_destroy(&x->head);
    icl_truth_matrix_destroy(&x->state);
    icl_truth_matrix_destroy(&x->g);
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        icl_free(arrays[i]);
    icl_free(&x->y);
    icl_free(&x->e);
    icl_free(&x->decay);
}

static void run_segment(icl_truth *truth, pass *x, size_t head, size_t start, size_t end) {
    const size_t count = x->head.m * x->head.n;

    find_state_errors(x, start, end);
    for (size_t i = 0; i < x->head.m; i++)
        x->decay[i] = (sum){0};
    for (size_t t = end; t-- > start;) {
        const size_t row = head * x->head.tokens + t;
        if (t + 1 == end || x->in_pieces)
            start_decay(x, t + 1, x->largest + (t + 1 - start) * count);
        add_output(x, t);
        contract(x, x->head.w + t * x->head.m, x->y);
        contract(x, x->head.k + t * x->head.m, x->e);
        write_values(truth, x, t, row);
        write_channels(truth, x, t, row, x->largest + (t - start) * count);
        go_back(x, t);
    }
}

static void run_back(icl_truth *truth, pass *x, size_t head) {
    const size_t count = x->head.m * x->head.n, tokens = x->head.tokens;

    for (size_t e = 0; e < count; e++) {
        x->g.value[e] = x->d_final[e];
        x->g.size[e] = fabs(x->d_final[e]);
        x->g.error[e] = 0;
    }
    memset(x->g.norm, 0, x->head.n * sizeof(double));
    for (size_t end = tokens; end > 0; end = (end - 1) / SEGMENT * SEGMENT)
        run_segment(truth, x, head, (end - 1) / SEGMENT * SEGMENT, end);
    for (size_t e = 0; e < count; e++)
        put(truth, ICL_RECURRENCE_STATE, head * count + e, x->g.value[e], x->g.error[e]);
}

icl_status icl_truth_recurrence_backward(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t *shape = c->shape[ICL_RECURRENCE_BACKWARD_D_OUT];
    const double *d_final = truth->operand[ICL_RECURRENCE_BACKWARD_D_FINAL];
    icl_status status = ICL_OK;
    pass x;

    ICL_TRY(create(&x, truth, error));
    const size_t count = x.head.m * x.head.n, rows = x.head.tokens * x.head.n;
    x.has_read_key = !x.head.delta || c->rank[FIRST + ICL_RECURRENCE_READ_KEY] >= 0;
    x.has_write_key = c->rank[FIRST + ICL_RECURRENCE_WRITE_KEY] >= 0;
    x.shared = c->rank[ICL_RECURRENCE_DECAY] >= 0 && c->shape[ICL_RECURRENCE_DECAY][3] < x.head.m;
    for (size_t head = 0; head < shape[0] * shape[1]; head++) {
        icl_truth_head_load(&x.head, truth, FIRST, head / shape[1], head % shape[1]);
        memcpy(x.d_out, truth->operand[ICL_RECURRENCE_BACKWARD_D_OUT] + head * rows, rows * sizeof(double));
        for (size_t e = 0; e < count; e++)
            x.d_final[e] = d_final ? d_final[head * count + e] : 0;
        run_forward(&x);
        run_back(truth, &x, head);
    }
    if (c->values == ICL_VALUES_INTEGERS && !x.head.delta && !x.head.has_decay)
        for (int operand = 0; operand < ICL_RECURRENCE_INPUTS; operand++)
            for (size_t i = 0; i < icl_case_count(c, operand); i++)
                truth->bound[operand][i] = 0;
done:
    destroy(&x);
    return status;
}
