/*
 * The ridge systems of a recurrence. For every batch, head and token, the system
 *
 *     x_t = (H_t + diag(ridge))^-1 q_t,   H_t = exp(decay_t) H_(t-1) + beta_t k_t k_t^T
 *
 * is solved by conjugate gradients (Hestenes, Stiefel 1952) for all tokens at once. The products H_t p_t for all t are
 * the recurrence itself, with p as queries and k as keys and values, so that no H_t is ever stored. As in MesaNet (von
 * Oswald and others 2025), the solver starts from x = q / diag(H + ridge) and takes a fixed number of steps. Right-hand
 * sides are scaled to length 1, so that the bound TINY does not affect small gradients.
 *
 * The gradients are those of the solution, not of the steps: with A = H + diag(ridge) and y = A^-1 dx by the same
 * solver,
 *
 *     dq = y,   dA = -y x^T,   d ridge = -y * x,
 *
 * and dA reaches k, beta and decay as it would through A x at fixed x, by the recurrence's backward pass with -y as the
 * gradient of its outputs. So the gradients are as exact as the solution.
 */
#include "iclab/ops_recurrence.h"
#include "tape/record.h"

/* Smaller numbers count as 0, so that 0 / 0 is 0 and not NaN. */
#define TINY 1e-37

enum { Q, K, RIDGE, FIRST_OPTIONAL };

/* The work space of one solution: vectors [B, H, T, m] and numbers [B, H, T, 1]. */
typedef struct solver {
    icl_backend *backend;
    icl_recurrence_inputs with; /* q is set by each product */
    icl_tensor ridge, tiny, ones;
    icl_tensor right, residual, direction, product, work; /* vectors */
    icl_tensor length, square, next_square, factor;       /* numbers */
} solver;

static icl_tensor optional(const icl_tape *tape, const icl_node *node, int place) {
    return place > 0 ? icl_node_input(tape, node, place) : (icl_tensor){0};
}

static icl_recurrence_inputs inputs_of(const icl_tape *tape, const icl_node *node) {
    const icl_tensor k = icl_node_input(tape, node, K);
    return (icl_recurrence_inputs){.k = k,
                                   .v = k,
                                   .beta = optional(tape, node, node->params.ridge_solve.beta),
                                   .decay = optional(tape, node, node->params.ridge_solve.decay),
                                   .state = optional(tape, node, node->params.ridge_solve.state)};
}

static icl_status solver_open(solver *s, const icl_tape *tape, const icl_node *node, const size_t shape[4],
                              icl_error *error) {
    const size_t numbers[] = {shape[0], shape[1], shape[2], 1}, one[] = {1, 1, 1, 1};
    icl_tensor *const vectors[] = {&s->right, &s->residual, &s->direction, &s->product, &s->work};
    icl_tensor *const scalars[] = {&s->length, &s->square, &s->next_square, &s->factor};
    icl_tensor *const constants[] = {&s->tiny, &s->ones};

    *s = (solver){.backend = tape->backend, .with = inputs_of(tape, node), .ridge = icl_node_input(tape, node, RIDGE)};
    for (int i = 0; i < 5; i++)
        ICL_CHECK(icl_tensor_create(tape->backend, 4, shape, vectors[i], error));
    for (int i = 0; i < 4; i++)
        ICL_CHECK(icl_tensor_create(tape->backend, 4, numbers, scalars[i], error));
    for (int i = 0; i < 2; i++)
        ICL_CHECK(icl_tensor_create(tape->backend, 4, one, constants[i], error));
    ICL_CHECK(icl_fill(tape->backend, s->tiny, TINY, error));
    return icl_fill(tape->backend, s->ones, 1.0, error);
}

static void solver_close(solver *s) {
    enum { ALL = 11 };
    icl_tensor *const all[ALL] = {&s->right,  &s->residual,    &s->direction, &s->product, &s->work, &s->length,
                                  &s->square, &s->next_square, &s->factor,    &s->tiny,    &s->ones};
    for (int i = 0; i < ALL; i++)
        icl_tensor_release(all[i]);
}

/* out = a . b for each token. */
static icl_status dot(const solver *s, icl_tensor out, icl_tensor a, icl_tensor b, icl_error *error) {
    ICL_CHECK(icl_binary(s->backend, ICL_MULTIPLY, s->work, a, b, error));
    return icl_reduce(s->backend, ICL_SUM, 1U << 3, out, s->work, error);
}

/* out = a / b for each token, and 0 if both are 0. Changes b. */
static icl_status divide(const solver *s, icl_tensor out, icl_tensor a, icl_tensor b, icl_error *error) {
    ICL_CHECK(icl_binary(s->backend, ICL_MAXIMUM, b, b, s->tiny, error));
    return icl_binary(s->backend, ICL_DIVIDE, out, a, b, error);
}

/* out += sign * factor * direction. */
static icl_status add_multiple(const solver *s, icl_tensor out, double sign, icl_tensor direction, icl_error *error) {
    ICL_CHECK(icl_binary(s->backend, ICL_MULTIPLY, s->work, direction, s->factor, error));
    return icl_scale_add(s->backend, out, 1.0, out, sign, s->work, error);
}

/* product = (H + ridge) p. */
static icl_status multiply(solver *s, icl_tensor p, icl_error *error) {
    const icl_recurrence_params params = {.scale = 1.0};

    s->with.q = p;
    ICL_CHECK(icl_recurrence_forward(s->backend, &params, s->product, (icl_tensor){0}, NULL, &s->with, error));
    ICL_CHECK(icl_binary(s->backend, ICL_MULTIPLY, s->work, p, s->ridge, error));
    return icl_binary(s->backend, ICL_ADD, s->product, s->product, s->work, error);
}

/* work = diag(H + ridge): a recurrence over the squares of the keys, with a state of one row. */
static icl_status find_diagonal(const solver *s, icl_error *error) {
    const icl_recurrence_params params = {.scale = 1.0};
    icl_recurrence_inputs with = s->with;

    ICL_CHECK(icl_binary(s->backend, ICL_MULTIPLY, s->direction, s->with.k, s->with.k, error));
    with.q = with.k = s->ones;
    with.v = s->direction;
    if (with.state.buffer) {
        with.state.shape[2] = 1;
        with.state.stride[3] += with.state.stride[2];
    }
    ICL_CHECK(icl_recurrence_forward(s->backend, &params, s->work, (icl_tensor){0}, NULL, &with, error));
    return icl_binary(s->backend, ICL_ADD, s->work, s->work, s->ridge, error);
}

/* Computes b / |b|, the starting x, and its residual, which is the first direction. */
static icl_status begin(solver *s, icl_tensor x, icl_tensor b, icl_error *error) {
    ICL_CHECK(icl_reduce(s->backend, ICL_NORM, 1U << 3, s->length, b, error));
    ICL_CHECK(icl_binary(s->backend, ICL_MAXIMUM, s->length, s->length, s->tiny, error));
    ICL_CHECK(icl_binary(s->backend, ICL_DIVIDE, s->right, b, s->length, error));
    ICL_CHECK(find_diagonal(s, error));
    ICL_CHECK(icl_binary(s->backend, ICL_DIVIDE, x, s->right, s->work, error));
    ICL_CHECK(multiply(s, x, error));
    ICL_CHECK(icl_binary(s->backend, ICL_SUBTRACT, s->residual, s->right, s->product, error));
    ICL_CHECK(icl_copy(s->backend, s->direction, s->residual, error));
    return dot(s, s->square, s->residual, s->residual, error);
}

/* Computes A p and a = r . r / (p . A p), then  x += a p,  r -= a A p,  p = r + p (r . r now) / (r . r before). */
static icl_status iterate(solver *s, icl_tensor x, icl_error *error) {
    ICL_CHECK(multiply(s, s->direction, error));
    ICL_CHECK(dot(s, s->factor, s->direction, s->product, error));
    ICL_CHECK(divide(s, s->factor, s->square, s->factor, error));
    ICL_CHECK(add_multiple(s, x, 1.0, s->direction, error));
    ICL_CHECK(add_multiple(s, s->residual, -1.0, s->product, error));
    ICL_CHECK(dot(s, s->next_square, s->residual, s->residual, error));
    ICL_CHECK(divide(s, s->factor, s->next_square, s->square, error));
    ICL_CHECK(icl_copy(s->backend, s->square, s->next_square, error));
    ICL_CHECK(icl_binary(s->backend, ICL_MULTIPLY, s->work, s->direction, s->factor, error));
    return icl_binary(s->backend, ICL_ADD, s->direction, s->residual, s->work, error);
}

/* x = (H + ridge)^-1 b. */
static icl_status solve(solver *s, size_t iterations, icl_tensor x, icl_tensor b, icl_error *error) {
    ICL_CHECK(begin(s, x, b, error));
    for (size_t i = 0; i < iterations; i++)
        ICL_CHECK(iterate(s, x, error));
    return icl_binary(s->backend, ICL_MULTIPLY, x, x, s->length, error);
}

/* ---- On the tape ---- */

static icl_status forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_tensor q = icl_node_input(tape, node, Q), k = icl_node_input(tape, node, K);
    const icl_tensor decay = optional(tape, node, node->params.ridge_solve.decay);
    solver s = {0};
    icl_status status = ICL_OK;

    if (q.rank != 4 || !icl_same_shape(&k, 4, q.shape) || (decay.buffer && decay.shape[decay.rank - 1] != 1))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "tape: ridge_solve over q of rank %d and k of rank %d, expected [B, H, T, m] of both, and a "
                        "decay of one number a token",
                        q.rank, k.rank);
    ICL_TRY(icl_tape_output(tape, node, 4, q.shape, error));
    ICL_TRY(solver_open(&s, tape, node, q.shape, error));
    ICL_TRY(solve(&s, node->params.ridge_solve.iterations, node->value, q, error));
done:
    solver_close(&s);
    return status;
}

/* The wanted ones of dk, d beta, d decay and d state, computed from -y as the gradient of H x. */
typedef struct gradients {
    icl_tensor key, value, beta, decay, state;
    icl_tensor out, final;
    icl_recurrence_saved saved;
} gradients;

static void gradients_release(gradients *d) {
    enum { ALL = 8 };
    icl_tensor *const all[ALL] = {&d->key,   &d->value, &d->beta,  &d->decay,
                                  &d->state, &d->out,   &d->final, &d->saved.states};
    for (int i = 0; i < ALL; i++)
        icl_tensor_release(all[i]);
}

static icl_status make(const icl_tape *tape, const icl_node *node, int place, size_t rows, size_t columns,
                       icl_tensor *tensor, icl_error *error) {
    const size_t shape[] = {node->value.shape[0], node->value.shape[1], rows, columns};

    if (place == 0 || (place > 0 && !icl_gradient_wanted(tape, node->inputs[place])))
        return ICL_OK;
    return icl_tensor_create(tape->backend, 4, shape, tensor, error);
}

static icl_status make_gradients(const icl_tape *tape, const icl_node *node, gradients *d, icl_error *error) {
    const size_t tokens = node->value.shape[2], m = node->value.shape[3];
    const size_t segments = (tokens + ICL_RECURRENCE_SEGMENT - 1) / ICL_RECURRENCE_SEGMENT;

    ICL_CHECK(make(tape, node, K, tokens, m, &d->key, error));
    ICL_CHECK(make(tape, node, K, tokens, m, &d->value, error));
    ICL_CHECK(make(tape, node, node->params.ridge_solve.beta, tokens, 1, &d->beta, error));
    ICL_CHECK(make(tape, node, node->params.ridge_solve.decay, tokens, 1, &d->decay, error));
    ICL_CHECK(make(tape, node, node->params.ridge_solve.state, m, m, &d->state, error));
    ICL_CHECK(make(tape, node, -1, tokens, m, &d->out, error));
    ICL_CHECK(make(tape, node, -1, m, m, &d->final, error));
    return make(tape, node, -1, segments * m, m, &d->saved.states, error);
}

static icl_status add_wanted(icl_tape *tape, const icl_node *node, int place, icl_tensor contribution,
                             icl_error *error) {
    return contribution.buffer ? icl_gradient_add(tape, node->inputs[place], 1.0, contribution, error) : ICL_OK;
}

static icl_status state_backward(icl_tape *tape, const icl_node *node, icl_tensor minus_y, icl_error *error) {
    const icl_recurrence_params params = {.scale = 1.0};
    icl_recurrence_inputs with = inputs_of(tape, node);
    gradients d = {0};
    icl_status status = ICL_OK;

    with.q = node->value;
    ICL_TRY(make_gradients(tape, node, &d, error));
    ICL_TRY(icl_recurrence_forward(tape->backend, &params, d.out, d.final, &d.saved, &with, error));
    const icl_recurrence_inputs wanted = {.k = d.key, .v = d.value, .beta = d.beta, .decay = d.decay, .state = d.state};
    ICL_TRY(icl_recurrence_backward(tape->backend, &params, &wanted, minus_y, (icl_tensor){0}, d.final, &d.saved, &with,
                                    error));
    ICL_TRY(add_wanted(tape, node, K, d.key, error));
    ICL_TRY(add_wanted(tape, node, K, d.value, error));
    ICL_TRY(add_wanted(tape, node, node->params.ridge_solve.beta, d.beta, error));
    ICL_TRY(add_wanted(tape, node, node->params.ridge_solve.decay, d.decay, error));
    ICL_TRY(add_wanted(tape, node, node->params.ridge_solve.state, d.state, error));
done:
    gradients_release(&d);
    return status;
}

static icl_status backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    icl_tensor y = {0};
    solver s = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_create(tape->backend, 4, node->value.shape, &y, error));
    ICL_TRY(solver_open(&s, tape, node, node->value.shape, error));
    ICL_TRY(solve(&s, node->params.ridge_solve.iterations, y, gradient, error));
    if (icl_gradient_wanted(tape, node->inputs[Q]))
        ICL_TRY(icl_gradient_add(tape, node->inputs[Q], 1.0, y, error));
    if (icl_gradient_wanted(tape, node->inputs[RIDGE])) {
        ICL_TRY(icl_binary(tape->backend, ICL_MULTIPLY, s.work, y, node->value, error));
        ICL_TRY(icl_gradient_add(tape, node->inputs[RIDGE], -1.0, s.work, error));
    }
    ICL_TRY(icl_scale_add(tape->backend, s.work, -1.0, y, 0.0, (icl_tensor){0}, error));
    ICL_TRY(state_backward(tape, node, s.work, error));
done:
    solver_close(&s);
    icl_tensor_release(&y);
    return status;
}

static const icl_operation ridge_solve_operation = {"ridge_solve", forward, backward, NULL};

static int add_optional(icl_node *node, const icl_variable *variable) {
    if (!variable)
        return 0;
    node->inputs[node->input_count] = *variable;
    return node->input_count++;
}

icl_variable icl_tape_ridge_solve(icl_tape *tape, size_t iterations, const icl_ridge_solve_variables *inputs) {
    icl_node node = {.operation = &ridge_solve_operation,
                     .inputs = {inputs->q, inputs->k, inputs->ridge},
                     .input_count = FIRST_OPTIONAL};

    node.params.ridge_solve.iterations = iterations;
    node.params.ridge_solve.beta = add_optional(&node, inputs->beta);
    node.params.ridge_solve.decay = add_optional(&node, inputs->decay);
    node.params.ridge_solve.state = add_optional(&node, inputs->state);
    return icl_tape_record(tape, &node);
}
