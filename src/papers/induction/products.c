#include "papers/induction/products.h"

#include "iclab/random.h"

/* The upper bits are the papers' own. */
#define STREAM 0x70610000u

static double dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

void icl_products_draw(icl_products *products, uint32_t seed) {
    for (size_t v = 0; v < products->count; v++)
        for (size_t i = 0; i < products->length[v]; i++) {
            const uint64_t index = v * ICL_PRODUCT_LENGTH + i;
            const icl_random_key truth = {seed, STREAM, 0}, fitted = {seed, STREAM, 1};
            products->truth[v][i] = (double)icl_normal_from_word(icl_random_word(truth, index));
            products->fitted[v][i] = (double)icl_normal_from_word(icl_random_word(fitted, index));
        }
}

double icl_product_square(const icl_products *products, size_t vector) {
    return dot(products->fitted[vector], products->fitted[vector], products->length[vector]);
}

/* Products over the three factors but `without`, 3 for none: of |p|^2, <p, t>, |t|^2 and d. */
typedef struct contraction {
    double fitted, mixed, truth, entries;
} contraction;

static contraction contract(const icl_products *products, const size_t factors[3], size_t without) {
    contraction of = {1, 1, 1, 1};

    for (size_t i = 0; i < 3; i++) {
        const double *p = products->fitted[factors[i]], *t = products->truth[factors[i]];
        const size_t length = products->length[factors[i]];
        of.entries *= (double)length;
        if (i == without)
            continue;
        of.fitted *= dot(p, p, length);
        of.mixed *= dot(p, t, length);
        of.truth *= dot(t, t, length);
    }
    return of;
}

double icl_product_loss(const icl_products *products, const size_t factors[3]) {
    const contraction all = contract(products, factors, 3);
    return (all.fitted - 2 * all.mixed + all.truth) / (2 * all.entries);
}

double icl_product_start(const icl_products *products, const size_t factors[3]) {
    const contraction all = contract(products, factors, 3);
    return all.truth / (2 * all.entries);
}

void icl_product_add_gradient(const icl_products *products, const size_t factors[3], double weight,
                              icl_product_vectors gradient) {
    for (size_t i = 0; i < 3; i++) {
        const size_t v = factors[i];
        const contraction others = contract(products, factors, i);
        for (size_t j = 0; j < products->length[v]; j++)
            gradient[v][j] += weight * (others.fitted * products->fitted[v][j] - others.mixed * products->truth[v][j]) /
                              others.entries;
    }
}
