#include "papers/newton/logistic.h"

#include <math.h>
#include <string.h>

#include "iclab/random.h"
#include "numeric/newton_inverse.h"

enum { D = ICL_LOGISTIC_D, N = ICL_LOGISTIC_N, MOST_STEPS = 64 };

#define STREAM 0x6c6f6769u

static double sigmoid(double t) {
    return 1 / (1 + exp(-t));
}

static double product(const double *left, const double *right) {
    double sum = 0;

    for (size_t i = 0; i < D; i++)
        sum += left[i] * right[i];
    return sum;
}

void icl_logistic_draw(uint32_t seed, uint64_t number, icl_logistic *problem) {
    const icl_random_key key = {.seed = seed, .stream = STREAM, .step = number};
    double w[D], longest = 0;
    uint64_t index = 0;

    for (size_t j = 0; j < D; j++)
        w[j] = (double)icl_normal_from_word(icl_random_word(key, index++));
    for (size_t i = 0; i < N; i++) {
        for (size_t j = 0; j < D; j++)
            problem->inputs[i][j] = (double)icl_normal_from_word(icl_random_word(key, index++));
        longest = fmax(longest, sqrt(product(problem->inputs[i], problem->inputs[i])));
        const double uniform = ((double)icl_random_word(key, index++) + .5) / 4294967296.0;
        const double sign = uniform < sigmoid(product(w, problem->inputs[i])) ? 1 : -1;
        for (size_t j = 0; j < D; j++)
            problem->inputs[i][j] *= sign;
    }
    problem->concordance = longest / sqrt(ICL_LOGISTIC_MU);
}

double icl_logistic_loss(const icl_logistic *problem, const double *at) {
    double sum = 0;

    for (size_t i = 0; i < N; i++)
        sum += log1p(exp(-product(problem->inputs[i], at))) / N;
    return sum + ICL_LOGISTIC_MU / 2 * product(at, at);
}

static void differentiate(const icl_logistic *problem, const double *at, double gradient[D], double hessian[D * D]) {
    memset(hessian, 0, D * D * sizeof *hessian);
    for (size_t j = 0; j < D; j++) {
        gradient[j] = ICL_LOGISTIC_MU * at[j];
        hessian[j * (D + 1)] = ICL_LOGISTIC_MU;
    }
    for (size_t i = 0; i < N; i++) {
        const double *const x = problem->inputs[i], left = sigmoid(-product(x, at));
        for (size_t j = 0; j < D; j++) {
            gradient[j] -= left * x[j] / N;
            for (size_t k = 0; k < D; k++)
                hessian[j * D + k] += left * (1 - left) * x[j] * x[k] / N;
        }
    }
}

/* Until the residual is rounding. */
static void invert(const double matrix[D * D], double inverse[D * D]) {
    double work[2 * D * D], residual[D * D], size = 1;

    icl_newton_inverse_start(matrix, D, inverse);
    for (size_t step = 0; step < MOST_STEPS && size > 1e-26; step++) {
        icl_newton_inverse_step(matrix, D, inverse, work);
        icl_newton_inverse_residual(matrix, inverse, D, residual);
        size = 0;
        for (size_t i = 0; i < D * D; i++)
            size += residual[i] * residual[i];
    }
}

icl_logistic_point icl_logistic_step(const icl_logistic *problem, double *at) {
    double gradient[D], hessian[D * D], inverse[D * D], direction[D];

    differentiate(problem, at, gradient, hessian);
    invert(hessian, inverse);
    for (size_t j = 0; j < D; j++)
        direction[j] = product(inverse + j * D, gradient);
    const double decrement = problem->concordance / 2 * sqrt(fmax(product(gradient, direction), 0));
    for (size_t j = 0; j < D; j++)
        at[j] -= direction[j] / (1 + decrement);
    return (icl_logistic_point){decrement, sqrt(product(gradient, gradient))};
}
