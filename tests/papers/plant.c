/* Tests regulators of small plants against Riccati's equation itself, a closed form, sums of costs, and other
 * controllers. */
#include "papers/checked.h"

#include <math.h>
#include <string.h>

#include "eliminate.h"
#include "iclab/random.h"
#include "tap.h"

enum { N = ICL_PLANT_STATES, M = ICL_PLANT_INPUTS, P = ICL_PLANT_SEEN, PLANTS = 20 };

static double draw(uint64_t number) {
    return (double)icl_normal_from_word(icl_random_word((icl_random_key){.seed = 5, .stream = 1}, number));
}

/* A has a spectral radius of about `size`. */
static void draw_plant(uint64_t number, double size, icl_plant *plant) {
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < P; j++)
            plant->matrix[i * P + j] = draw((number * N + i) * P + j) * (j < N ? size / sqrt(N) : 1 / sqrt(N));
}

/* The loop A - B K, [N][N]. */
static void close_loop(const icl_plant *plant, const double *gain, double *loop) {
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++) {
            loop[i * N + j] = plant->matrix[i * P + j];
            for (size_t k = 0; k < M; k++)
                loop[i * N + j] -= plant->matrix[i * P + N + k] * gain[k * N + j];
        }
}

/* Returns the cost of K as the sum over `steps` steps of |x_t|^2 + |u_t|^2 from each unit vector, without noise. */
static double sum_costs(const icl_plant *plant, const double *gain, size_t steps) {
    double loop[N * N], sum = 0;

    close_loop(plant, gain, loop);
    for (size_t start = 0; start < N; start++) {
        double x[N] = {0}, next[N];
        x[start] = 1;
        for (size_t t = 0; t < steps; t++) {
            for (size_t i = 0; i < N; i++) {
                next[i] = 0;
                sum += x[i] * x[i];
                for (size_t j = 0; j < N; j++)
                    next[i] += loop[i * N + j] * x[j];
            }
            for (size_t k = 0; k < M; k++) {
                double u = 0;
                for (size_t j = 0; j < N; j++)
                    u += gain[k * N + j] * x[j];
                sum += u * u;
            }
            memcpy(x, next, sizeof x);
        }
    }
    return sum;
}

/* Returns the largest entry of V - I - A^T V (A - B K), over that of V, with K by elimination from V. */
static double residual_of(const icl_plant *plant, const icl_regulator *best) {
    const double *V = best->value;
    double gain[M * N], loop[N * N], worst = 0, largest = 0;

    for (size_t j = 0; j < N; j++) {
        double system[M * M], right[M];
        for (size_t a = 0; a < M; a++) {
            right[a] = 0;
            for (size_t i = 0; i < N; i++)
                for (size_t k = 0; k < N; k++)
                    right[a] += plant->matrix[i * P + N + a] * V[i * N + k] * plant->matrix[k * P + j];
            for (size_t b = 0; b < M; b++) {
                system[a * M + b] = a == b;
                for (size_t i = 0; i < N; i++)
                    for (size_t k = 0; k < N; k++)
                        system[a * M + b] += plant->matrix[i * P + N + a] * V[i * N + k] * plant->matrix[k * P + N + b];
            }
        }
        eliminate(M, M, system, right);
        for (size_t a = 0; a < M; a++) {
            gain[a * N + j] = right[a];
            worst = fmax(worst, fabs(right[a] - best->gain[a * N + j]));
        }
    }
    close_loop(plant, gain, loop);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++) {
            double expected = i == j;
            for (size_t k = 0; k < N; k++)
                for (size_t l = 0; l < N; l++)
                    expected += plant->matrix[k * P + i] * V[k * N + l] * loop[l * N + j];
            worst = fmax(worst, fabs(V[i * N + j] - expected));
            largest = fmax(largest, fabs(V[i * N + j]));
        }
    return worst / largest;
}

static double trace_of(const icl_regulator *best) {
    double trace = 0;
    for (size_t i = 0; i < N; i++)
        trace += best->value[i * N + i];
    return trace;
}

/* Riccati's equation, and the least cost as a trace, a closed loop's and a sum; of stable and of unstable plants. */
static void check_equation(tap_run *tap, double size) {
    double residual = 0, apart = 0, from_sum = 0;

    for (uint64_t i = 0; i < PLANTS; i++) {
        icl_plant plant;
        icl_regulator best;
        draw_plant(i, size, &plant);
        if (!tap_ok(tap, icl_plant_regulate(&plant, &best), "plant %u has a controller", (unsigned)i))
            continue;
        const double cost = icl_plant_cost(&plant, best.gain);
        residual = fmax(residual, residual_of(&plant, &best));
        apart = fmax(apart, fabs(cost / trace_of(&best) - 1));
        from_sum = fmax(from_sum, fabs(sum_costs(&plant, best.gain, 4096) / cost - 1));
    }
    tap_ok(tap, residual < 1e-10, "size %g: V solves Riccati's equation, to %.1e", size, residual);
    tap_ok(tap, apart < 1e-10, "its controller costs tr V, to %.1e", apart);
    tap_ok(tap, from_sum < 1e-10, "which is the sum of the costs of 4096 steps, to %.1e", from_sum);
}

/* No change of the gain lowers the cost, and the rise is of second order. */
static void check_least(tap_run *tap) {
    double least = (double)INFINITY, worst = 0;

    for (uint64_t i = 0; i < PLANTS; i++) {
        icl_plant plant;
        icl_regulator best;
        double rises[2];
        draw_plant(i, 1, &plant);
        icl_plant_regulate(&plant, &best);
        for (int twice = 0; twice < 2; twice++) {
            double gain[M * N];
            for (size_t k = 0; k < (size_t)M * N; k++)
                gain[k] = best.gain[k] + (twice ? 2e-3 : 1e-3) * draw(100000 + i * M * N + k);
            rises[twice] = icl_plant_cost(&plant, gain) - trace_of(&best);
            least = fmin(least, rises[twice]);
        }
        worst = fmax(worst, fabs(rises[1] / rises[0] - 4));
    }
    tap_ok(tap, least > 0, "every other controller costs more, by %.1e and above", least);
    tap_ok(tap, worst < .1, "by four times as much where it is twice as far: to %.2g", worst);
}

/* x' = a x + u alone: V = (a^2 + sqrt(a^4 + 4)) / 2 solves V^2 = a^2 V + 1. The other states and the other input do
 * nothing. */
static void check_closed_form(tap_run *tap) {
    static const double factors[] = {0, .5, 1, 3};

    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        const double a = factors[i], V = (a * a + sqrt(pow(a, 4) + 4)) / 2;
        icl_plant plant = {.matrix = {[0] = a, [N] = 1}};
        icl_regulator best;
        const bool is_solved = icl_plant_regulate(&plant, &best);
        tap_ok(tap,
               is_solved && fabs(best.value[0] / V - 1) < 1e-12 && fabs(best.gain[0] - V * a / (1 + V)) < 1e-12 &&
                   fabs(trace_of(&best) - V - (N - 1)) < 1e-12,
               "a = %g: V = %.6g, %.6g in closed form", a, best.value[0], V);
    }
}

static void check_unstable(tap_run *tap) {
    static const double nothing[M * N] = {0};
    icl_plant plant = {.matrix = {[0] = 1.01, [N] = 1}}, adrift = {.matrix = {[0] = 1.01}};
    icl_regulator best;

    tap_ok(tap, isinf(icl_plant_cost(&plant, nothing)), "a loop that is not stable costs infinitely much");
    plant.matrix[0] = .99;
    tap_ok(tap, fabs(icl_plant_cost(&plant, nothing) - 1 / (1 - .99 * .99) - (N - 1)) < 1e-9, "a stable one does not");
    tap_ok(tap, !icl_plant_regulate(&adrift, &best) || isinf(icl_plant_cost(&adrift, best.gain)),
           "no controller of a state that no input moves is taken for a good one");
}

int main(void) {
    tap_run tap = {0};

    check_equation(&tap, .5);
    check_equation(&tap, 1.5);
    check_least(&tap);
    check_closed_form(&tap);
    check_unstable(&tap);
    return tap_done(&tap);
}
