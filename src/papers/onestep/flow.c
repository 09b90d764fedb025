#include "papers/onestep/flow.h"

#include <math.h>

enum { D = ICL_LAYER_D };

static double trace(const double *eigenvalues) {
    double sum = 0;
    for (size_t i = 0; i < D; i++)
        sum += eigenvalues[i];
    return sum;
}

/* G_i. */
static double gamma_of(const double *eigenvalues, size_t i, double n) {
    return (1 + 1 / n) * eigenvalues[i] + trace(eigenvalues) / n;
}

void icl_flow_fixed(const double *eigenvalues, double n, icl_flow_moments *moments) {
    for (size_t i = 0; i < D; i++) {
        moments->p[i] = eigenvalues[i] * eigenvalues[i];
        for (size_t j = 0; j < D; j++)
            moments->m[i][j] = eigenvalues[i] * gamma_of(eigenvalues, i, n) * eigenvalues[j];
    }
}

/* E[l^k] = k!. E[l_i l_j sum_k l_k] is 6 + 2 (D - 1) for i = j, and 2 + 2 + (D - 2) otherwise. */
void icl_flow_exponential(double n, icl_flow_moments *moments) {
    for (size_t i = 0; i < D; i++) {
        moments->p[i] = 2;
        for (size_t j = 0; j < D; j++)
            moments->m[i][j] =
                i == j ? (1 + 1 / n) * 6 + (6 + 2.0 * (D - 1)) / n : (1 + 1 / n) * 2 + (4 + (D - 2.0)) / n;
    }
}

double icl_flow_balance(const icl_flow *at) {
    double square = 0;
    for (size_t i = 0; i < (size_t)D * D; i++)
        square += at->w[i] * at->w[i];
    return at->u * at->u - square;
}

/* *out = from + dt times the flow's velocity at `at`. */
static void move(const icl_flow_moments *moments, const icl_flow *from, const icl_flow *at, double dt, icl_flow *out) {
    icl_flow velocity = {.u = 0};

    for (size_t k = 0; k < (size_t)D * D; k++) {
        const double m = moments->m[k / D][k % D], p = k / D == k % D ? moments->p[k / D] : 0;
        velocity.u += p * at->w[k] - at->u * m * at->w[k] * at->w[k];
        velocity.w[k] = at->u * p - at->u * at->u * m * at->w[k];
    }
    out->u = from->u + dt * velocity.u;
    for (size_t k = 0; k < (size_t)D * D; k++)
        out->w[k] = from->w[k] + dt * velocity.w[k];
}

void icl_flow_advance(const icl_flow_moments *moments, double dt, icl_flow *at) {
    icl_flow a, b, c, d;

    move(moments, at, at, dt / 2, &a);
    move(moments, at, &a, dt / 2, &b);
    move(moments, at, &b, dt, &c);
    move(moments, at, &c, dt, &d);
    /* The four velocities by how far they moved: 2 (a - at), 2 (b - at), c - at, d - at. */
    at->u += (2 * (a.u - at->u) + 4 * (b.u - at->u) + 2 * (c.u - at->u) + (d.u - at->u)) / 6;
    for (size_t k = 0; k < (size_t)D * D; k++)
        at->w[k] +=
            (2 * (a.w[k] - at->w[k]) + 4 * (b.w[k] - at->w[k]) + 2 * (c.w[k] - at->w[k]) + (d.w[k] - at->w[k])) / 6;
}

void icl_flow_limit(const icl_flow_moments *moments, icl_flow *limit) {
    double square = 0;

    *limit = (icl_flow){.u = 0};
    for (size_t i = 0; i < D; i++) {
        limit->w[i * (D + 1)] = moments->p[i] / moments->m[i][i];
        square += limit->w[i * (D + 1)] * limit->w[i * (D + 1)];
    }
    limit->u = pow(square, .25);
    for (size_t i = 0; i < D; i++)
        limit->w[i * (D + 1)] /= limit->u;
}

/* ---- Losses ---- */

double icl_prompt_length_loss(const double *eigenvalues, double n, double m) {
    const double total = trace(eigenvalues);
    double variance = 0, bias = 0;

    for (size_t i = 0; i < D; i++) {
        const double l = eigenvalues[i], g = gamma_of(eigenvalues, i, n), beside = l + total;
        variance += l * beside * l / (g * g);
        bias += l * beside * beside / (g * g);
    }
    return variance / m + bias / (n * n);
}

/* The prediction is c^3 q times that of the prompt as it was, u w^T S W x, and the target c q times. */
double icl_covariate_shift_loss(const double *eigenvalues, double n, double m, double c, double q) {
    double loss = 0;

    for (size_t i = 0; i < D; i++) {
        const double l = eigenvalues[i], a = c * c / gamma_of(eigenvalues, i, n);
        loss += c * c * q * q * l * (a * a * l * gamma_of(eigenvalues, i, m) - 2 * a * l + 1);
    }
    return loss;
}

/* The loss is quadratic in a = u W: E[tr(Lambda)] - sum p_i^2 / m_ii. */
double icl_exponential_loss(double n) {
    icl_flow_moments moments;
    double loss = 0;

    icl_flow_exponential(n, &moments);
    for (size_t i = 0; i < D; i++)
        loss += 1 - moments.p[i] * moments.p[i] / moments.m[i][i];
    return loss;
}
