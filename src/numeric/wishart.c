/*
 * The moments follow from each other by integration by parts over the normal entries of X (Stein's identity). With
 * U = S - I, and for any further factors tr U^m_i,
 *     E tr U^(k+1) prod_i tr U^m_i = 1/n E [ k (tr U^k + tr U^(k-1)) prod_i tr U^m_i
 *                                    + sum_(j<k) (tr U^(j+1) + tr U^j) tr U^(k-1-j) prod_i tr U^m_i
 *                                    + sum_i 2 m_i (tr U^(k+m_i) + tr U^(k+m_i-1)) prod_(h != i) tr U^m_h ].
 * The powers on the right have a lower sum, and no term is negative, so nothing cancels, however near S is to I.
 * Moments of S itself would lose all digits of its difference from I if n is far above d.
 */
#include "numeric/wishart.h"

#include <lapacke.h>
#include <math.h>
#include <stdint.h>

#include "core/allocate.h"

enum { MOST = ICL_WISHART_MOST_POWER, MOST_NODES = (MOST + 1) / 2, SLOTS = 4096 };

/* The expectations that are known. A product of traces is stored as how often each power occurs in it, packed into one
 * number. There are 1,597 partitions of 0 .. 17. */
typedef struct expectations {
    double d, n;
    uint64_t unit[MOST + 1]; /* the code of one factor tr U^m; 0 for m = 0, which is d */
    unsigned bits[MOST + 1];
    struct slot {
        uint64_t product;
        double value;
        bool is_known;
    } * slots; /* [SLOTS] */
} expectations;

static unsigned bits_for(size_t most) {
    unsigned bits = 0;
    while (most >> bits)
        bits++;
    return bits;
}

static void lay_out(expectations *known) {
    unsigned offset = 0;

    known->unit[0] = 0;
    for (size_t power = 1; power <= MOST; power++) {
        known->unit[power] = (uint64_t)1 << offset;
        known->bits[power] = bits_for(MOST / power);
        offset += known->bits[power];
    }
}

static size_t times(const expectations *known, uint64_t product, size_t power) {
    return (size_t)(product / known->unit[power]) & (((size_t)1 << known->bits[power]) - 1);
}

static struct slot *slot_of(const expectations *known, uint64_t product) {
    size_t at = (size_t)((product * 0x9e3779b97f4a7c15u) >> 52) % SLOTS;
    while (known->slots[at].is_known && known->slots[at].product != product)
        at = (at + 1) % SLOTS;
    return &known->slots[at];
}

static double expect(expectations *all, uint64_t product);

/* Returns the expectation of (tr U^(a+1) + tr U^a) times the rest. */
static double expect_pair(expectations *known, uint64_t rest, size_t a) {
    return expect(known, rest + known->unit[a + 1]) +
           (a > 0 ? expect(known, rest + known->unit[a]) : known->d * expect(known, rest));
}

static double expect_new(expectations *known, uint64_t product) {
    size_t largest = MOST;
    double sum = 0;

    while (times(known, product, largest) == 0)
        largest--;
    const uint64_t rest = product - known->unit[largest];
    const size_t k = largest - 1;
    if (k > 0)
        sum += (double)k * expect_pair(known, rest, k - 1);
    for (size_t j = 0; j < k; j++) {
        const size_t other = k - 1 - j;
        sum += (other > 0 ? 1 : known->d) * expect_pair(known, rest + known->unit[other], j);
    }
    for (size_t m = 1; m <= largest; m++)
        if (times(known, rest, m) > 0)
            sum += (double)(2 * m * times(known, rest, m)) * expect_pair(known, rest - known->unit[m], k + m - 1);
    return sum / known->n;
}

static double expect(expectations *known, uint64_t product) {
    if (product == 0)
        return 1;
    if (!slot_of(known, product)->is_known) {
        const double value = expect_new(known, product);
        *slot_of(known, product) = (struct slot){product, value, true};
    }
    return slot_of(known, product)->value;
}

icl_status icl_wishart_moments(size_t d, size_t n, size_t most, double *moments, icl_error *error) {
    expectations known = {.d = (double)d, .n = (double)n};
    icl_status status;

    lay_out(&known);
    ICL_TRY(icl_allocate(SLOTS, sizeof *known.slots, "Wishart moments", &known.slots, error));
    for (size_t k = 0; k <= most; k++)
        moments[k] = k > 0 ? expect(&known, known.unit[k]) : known.d;
done:
    icl_free(&known.slots);
    return status;
}

/* ---- Gauss's rule ---- */

/* Finds the recurrence p_(k+1) = (t - alpha_k) p_k - beta_k p_(k-1) of the orthogonal polynomials of 2 `count` moments
 * by Chebyshev's algorithm (Gautschi 2004, "Orthogonal Polynomials", section 2.1.7). Returns false if a beta is not
 * above 0. */
static bool recurrence(size_t count, const double *moments, double *alpha, double *beta) {
    double before[2 * MOST_NODES] = {0}, current[2 * MOST_NODES] = {0}, next[2 * MOST_NODES] = {0};

    for (size_t l = 0; l < 2 * count; l++)
        current[l] = moments[l];
    alpha[0] = moments[1] / moments[0];
    beta[0] = moments[0];
    for (size_t k = 1; k < count; k++) {
        for (size_t l = k; l < 2 * count - k; l++)
            next[l] = current[l + 1] - alpha[k - 1] * current[l] - beta[k - 1] * before[l];
        if (!(next[k] > 0))
            return false;
        alpha[k] = next[k + 1] / next[k] - current[k] / current[k - 1];
        beta[k] = next[k] / current[k - 1];
        for (size_t l = k; l < 2 * count - k; l++) {
            before[l] = current[l];
            current[l] = next[l];
        }
    }
    return true;
}

/* Finds nodes and weights: the nodes are the eigenvalues of the Jacobi matrix, the weights its eigenvectors' first
 * entries squared (Golub and Welsch 1969). */
static bool solve(size_t count, double *alpha, const double *beta, double *weights) {
    double beside[MOST_NODES], vectors[MOST_NODES * MOST_NODES], work[2 * MOST_NODES];

    for (size_t k = 1; k < count; k++)
        beside[k - 1] = sqrt(beta[k]);
    if (LAPACKE_dstev_work(LAPACK_COL_MAJOR, 'V', (int)count, alpha, beside, vectors, (int)count, work) != 0)
        return false;
    for (size_t i = 0; i < count; i++)
        weights[i] = beta[0] * vectors[i * count] * vectors[i * count];
    return true;
}

icl_status icl_wishart_rule(icl_wishart_measure measure, size_t d, size_t n, size_t count, double *nodes,
                            double *weights, icl_error *error) {
    const size_t powers = 2 * count - 1 + (measure == ICL_WISHART_WEIGHTED);
    /* The scale of the eigenvalues' distances from 1. */
    const double width = sqrt(((double)d + 1) / (double)n);
    double moments[MOST + 1] = {0}, beta[MOST_NODES] = {0}, scale = 1;

    if (count < 1 || d < 1 || n < 1 || powers > MOST)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "Wishart quadrature: %zu nodes for d = %zu, n = %zu; expected 1 to %d nodes, and d, n of 1 or "
                        "more",
                        count, d, n, (MOST + 1 - (measure == ICL_WISHART_WEIGHTED)) / 2);
    ICL_CHECK(icl_wishart_moments(d, n, powers, moments, error));
    for (size_t k = 0; k < 2 * count; k++) {
        moments[k] = (measure == ICL_WISHART_WEIGHTED ? moments[k] + moments[k + 1] : moments[k]) / scale;
        scale *= width;
    }
    if (!recurrence(count, moments, nodes, beta) || !solve(count, nodes, beta, weights))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "Wishart quadrature: %zu nodes for d = %zu, n = %zu are more than double precision tells apart",
                        count, d, n);
    for (size_t i = 0; i < count; i++)
        nodes[i] = 1 + width * nodes[i];
    return ICL_OK;
}
