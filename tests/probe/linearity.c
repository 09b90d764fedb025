/* Tests linearity scores: 1 for affine maps, the law of independent numbers, invariances, the projection by another
 * method (Gram-Schmidt), and the relation between both forms. */
#include "probe/linearity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "iclab/random.h"
#include "iclab/status.h"
#include "tap.h"

enum { TOKENS = 200, WIDTH = 7, TIMES = 200 };

typedef struct rows {
    float at[TOKENS][WIDTH];
} rows;

static void fill(rows *lines, uint32_t stream) {
    for (size_t i = 0; i < (size_t)TOKENS * WIDTH; i++)
        lines->at[i / WIDTH][i % WIDTH] =
            icl_normal_from_word(icl_random_word((icl_random_key){.seed = 11, .stream = stream}, i));
}

/* y = shift + factor * x M */
static rows mapped(const rows *lines, const double m[WIDTH][WIDTH], double factor, double shift) {
    rows y;
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t j = 0; j < WIDTH; j++) {
            double sum = 0;
            for (size_t i = 0; i < WIDTH; i++)
                sum += (double)lines->at[t][i] * m[i][j];
            y.at[t][j] = (float)(factor * sum + shift * (double)(j + 1));
        }
    return y;
}

/* Returns a product of reflections I - 2 v v^T / v^T v. */
static void orthogonal(double m[WIDTH][WIDTH]) {
    for (size_t i = 0; i < WIDTH; i++)
        for (size_t j = 0; j < WIDTH; j++)
            m[i][j] = i == j;
    for (size_t k = 0; k < 3; k++) {
        double v[WIDTH], square = 0;
        for (size_t i = 0; i < WIDTH; i++) {
            v[i] = cos((double)(k * WIDTH + i));
            square += v[i] * v[i];
        }
        for (size_t i = 0; i < WIDTH; i++) {
            double product = 0;
            for (size_t j = 0; j < WIDTH; j++)
                product += m[i][j] * v[j];
            for (size_t j = 0; j < WIDTH; j++)
                m[i][j] -= 2 * product * v[j] / square;
        }
    }
}

static icl_linearity measure(tap_run *tap, const rows *lines, const rows *y) {
    icl_linearity linearity = {.score = -1};
    icl_error error = {0};

    if (icl_linearity_measure(TOKENS, WIDTH, &lines->at[0][0], &y->at[0][0], &linearity, &error) != ICL_OK)
        tap_ok(tap, false, "%s", error.message);
    return linearity;
}

/* Floats are rounded by a relative 2^-24, so a score of 1 is off by less than its square times the count of numbers. */
static bool is_one(double score) {
    return fabs(score - 1) < 1e-13;
}

static void test_maps(tap_run *tap) {
    double turn[WIDTH][WIDTH], m[WIDTH][WIDTH];
    rows x;

    fill(&x, 1);
    const icl_linearity same = measure(tap, &x, &x);
    tap_ok(tap, same.score == 1 && isnan(same.update_score) && same.rank == WIDTH, "the identity: %.17g, nothing added",
           same.score);
    orthogonal(turn);
    rows y = mapped(&x, turn, 1, 0);
    const icl_linearity turned = measure(tap, &x, &y);
    tap_ok(tap, is_one(turned.score) && is_one(turned.update_score), "an orthogonal map: %.15g, its update %.15g",
           turned.score, turned.update_score);
    for (size_t i = 0; i < WIDTH * WIDTH; i++)
        m[i / WIDTH][i % WIDTH] = sin((double)(i * i));
    y = mapped(&x, m, 3, .5);
    tap_ok(tap, is_one(measure(tap, &x, &y).score), "an affine map: %.15g", measure(tap, &x, &y).score);
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t i = 0; i < WIDTH; i++)
            y.at[t][i] = x.at[t][i] * x.at[t][i];
    const double square = measure(tap, &x, &y).score;
    tap_ok(tap, square > 0 && square < .3, "squares are no linear map: %.3f", square);
}

/* Scores of independent numbers follow a beta law: their mean and variance over TIMES draws agree with it within
 * standard errors. */
static void test_noise(tap_run *tap) {
    const double n = TOKENS - 1, r = WIDTH, q = WIDTH, expected = r / n;
    const double variance = 2 * r * (n - r) / (n * n * (q * n + 2));
    double sum = 0, squares = 0;
    rows x, y;

    for (uint32_t i = 0; i < TIMES; i++) {
        fill(&x, 100 + 2 * i);
        fill(&y, 101 + 2 * i);
        const double score = measure(tap, &x, &y).score;
        sum += score;
        squares += (score - expected) * (score - expected);
    }
    tap_ok(tap, fabs(sum / TIMES - expected) < 4 * sqrt(variance / TIMES),
           "noise: %.5f on average, expected %.5f +- %.5f", sum / TIMES, expected, sqrt(variance / TIMES));
    tap_ok(tap, fabs(squares / TIMES / variance - 1) < 4 * sqrt(2.0 / TIMES), "its variance is %.3f of the law's",
           squares / TIMES / variance);
}

static void test_invariances(tap_run *tap) {
    static const double one[WIDTH][WIDTH] = {
        {1}, {0, 1}, {0, 0, 1}, {0, 0, 0, 1}, {0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 0, 1}};
    double turn[WIDTH][WIDTH];
    rows x, y;

    fill(&x, 3);
    fill(&y, 4);
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t i = 0; i < WIDTH; i++)
            y.at[t][i] += x.at[t][i] * x.at[t][(i + 1) % WIDTH] + x.at[t][i];
    orthogonal(turn);
    const icl_linearity plain = measure(tap, &x, &y);
    const rows moved_x = mapped(&x, one, 8, 2), moved_y = mapped(&y, one, .25, -1), turned_x = mapped(&x, turn, 1, 0),
               turned_y = mapped(&y, turn, 1, 0);
    tap_ok(tap,
           fabs(measure(tap, &moved_x, &moved_y).score - plain.score) < 1e-6 &&
               fabs(measure(tap, &turned_x, &turned_y).score - plain.score) < 1e-6 && plain.score > .1 &&
               plain.score < .9,
           "shifts, scales and turns leave %.4f", plain.score);

    /* The squares of the centred norms relate the two forms. */
    double of_y = 0, of_update = 0;
    for (size_t i = 0; i < WIDTH; i++) {
        double mean_y = 0, mean_x = 0;
        for (size_t t = 0; t < TOKENS; t++) {
            mean_x += (double)x.at[t][i] / TOKENS;
            mean_y += (double)y.at[t][i] / TOKENS;
        }
        for (size_t t = 0; t < TOKENS; t++) {
            const double b = (double)y.at[t][i] - mean_y, a = (double)x.at[t][i] - mean_x;
            of_y += b * b;
            of_update += (b - a) * (b - a);
        }
    }
    tap_ok(tap, fabs((1 - plain.update_score) * of_update - (1 - plain.score) * of_y) < 1e-9 * of_y,
           "both forms have one residual: %.4f and %.4f", plain.score, plain.update_score);
}

/* Returns the share of Y in the span of X's centred columns, by modified Gram-Schmidt, done twice. Overwrites both. */
static double project_by_columns(rows *lines, rows *y, size_t columns) {
    static double q[WIDTH][TOKENS], z[WIDTH][TOKENS];
    double explained = 0, all = 0;

    for (size_t i = 0; i < WIDTH; i++) {
        double mean_x = 0, mean_y = 0;
        for (size_t t = 0; t < TOKENS; t++) {
            mean_x += (double)lines->at[t][i] / TOKENS;
            mean_y += (double)y->at[t][i] / TOKENS;
        }
        for (size_t t = 0; t < TOKENS; t++) {
            q[i][t] = (double)lines->at[t][i] - mean_x;
            z[i][t] = (double)y->at[t][i] - mean_y;
            all += z[i][t] * z[i][t];
        }
    }
    for (size_t i = 0; i < columns; i++) {
        double square = 0;
        for (size_t k = 0; k < 2 * i; k++) {
            double product = 0;
            for (size_t t = 0; t < TOKENS; t++)
                product += q[i][t] * q[k % i][t];
            for (size_t t = 0; t < TOKENS; t++)
                q[i][t] -= product * q[k % i][t];
        }
        for (size_t t = 0; t < TOKENS; t++)
            square += q[i][t] * q[i][t];
        for (size_t t = 0; t < TOKENS; t++)
            q[i][t] /= sqrt(square);
        for (size_t j = 0; j < WIDTH; j++) {
            double product = 0;
            for (size_t t = 0; t < TOKENS; t++)
                product += q[i][t] * z[j][t];
            explained += product * product;
        }
    }
    return explained / all;
}

/* Also tests X whose last columns are sums of the others, to the 7 digits of floats. */
static void test_projection(tap_run *tap) {
    for (size_t columns = WIDTH; columns > 2; columns -= 3) {
        rows x, y;
        fill(&x, 5);
        fill(&y, 6);
        for (size_t t = 0; t < TOKENS; t++)
            for (size_t i = 0; i < WIDTH; i++) {
                if (i >= columns)
                    x.at[t][i] = .7F * x.at[t][i - columns] + .3F * x.at[t][0];
                y.at[t][i] += x.at[t][i];
            }
        const icl_linearity seen = measure(tap, &x, &y);
        const double expected = project_by_columns(&x, &y, columns);
        tap_ok(tap, seen.rank == columns && fabs(seen.score - expected) < 1e-9, "rank %zu: %.12f, by its columns %.12f",
               seen.rank, seen.score, expected);
    }
}

static void test_anisotropy(tap_run *tap) {
    icl_error error = {0};
    double share = -1;
    rows x;

    /* Two orthogonal directions with squares of lengths 9 and 1, and a shift. */
    memset(&x, 0, sizeof x);
    for (size_t t = 0; t < TOKENS; t++) {
        x.at[t][2] = t % 2 ? 3 : -3;
        x.at[t][5] = t % 4 < 2 ? 8 : 10;
    }
    if (tap_status(tap, icl_anisotropy(TOKENS, WIDTH, &x.at[0][0], &share, &error), &error, "anisotropy"))
        tap_ok(tap, fabs(share - .9) < 1e-12, "of two directions: %.15g", share);
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t i = 0; i < WIDTH; i++)
            x.at[t][i] /= 4096; /* which is exact */
    if (tap_status(tap, icl_anisotropy(TOKENS, WIDTH, &x.at[0][0], &share, &error), &error, "of tiny rows"))
        tap_ok(tap, fabs(share - .9) < 1e-12, "the same: %.15g", share);
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t i = 0; i < WIDTH; i++)
            x.at[t][i] = .1F;
    tap_ok(tap, icl_anisotropy(TOKENS, WIDTH, &x.at[0][0], &share, &error) == ICL_OK && isnan(share),
           "equal rows have none");
    tap_ok(tap, isnan(measure(tap, &x, &x).score), "and no score");
}

static void test_refusals(tap_run *tap) {
    const float two[] = {1, 2, 3, 5}, infinite[] = {1, 2, HUGE_VALF, 5};
    icl_linearity linearity;
    icl_error error = {0};

    tap_ok(tap, icl_linearity_measure(2, 2, two, two, &linearity, &error) == ICL_OK && linearity.rank == 1,
           "2 tokens have rank 1");
    tap_ok(tap, icl_linearity_measure(1, 2, two, two, &linearity, &error) == ICL_ERROR_INPUT, "1 token: %s",
           error.message);
    tap_ok(tap, icl_linearity_measure(2, 0, two, two, &linearity, &error) == ICL_ERROR_INPUT, "no width: %s",
           error.message);
    tap_ok(tap,
           icl_linearity_measure(2, 2, infinite, two, &linearity, &error) == ICL_ERROR_INPUT &&
               icl_linearity_measure(2, 2, two, infinite, &linearity, &error) == ICL_ERROR_INPUT,
           "infinity: %s", error.message);
}

int main(void) {
    tap_run tap = {0};

    test_maps(&tap);
    test_noise(&tap);
    test_invariances(&tap);
    test_projection(&tap);
    test_anisotropy(&tap);
    test_refusals(&tap);
    return tap_done(&tap);
}
