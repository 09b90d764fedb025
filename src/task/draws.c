#include "task/draws.h"

#include <assert.h>
#include <math.h>

#include "core/allocate.h"

icl_status icl_lots_create(size_t count, size_t draws, icl_lots *lots, icl_error *error) {
    *lots = (icl_lots){.count = count};
    ICL_CHECK(icl_allocate(count, sizeof *lots->order, "draws", &lots->order, error));
    ICL_CHECK(icl_allocate(draws, sizeof *lots->swapped, "draws", &lots->swapped, error));
    for (size_t i = 0; i < count; i++)
        lots->order[i] = (uint32_t)i;
    return ICL_OK;
}

void icl_lots_destroy(icl_lots *lots) {
    icl_free(&lots->order);
    icl_free(&lots->swapped);
    icl_free(&lots->weights);
}

icl_status icl_lots_weigh(icl_lots *lots, double exponent, icl_error *error) {
    const double unit = 0x1p32, largest = exponent > 0 ? (double)lots->count : 1;

    if (!lots->weights)
        ICL_CHECK(icl_allocate(lots->count, sizeof *lots->weights, "weights of draws", &lots->weights, error));
    lots->total = 0;
    for (size_t i = 0; i < lots->count; i++) {
        lots->weights[i] = fmax(1, nearbyint(unit * pow((double)(i + 1) / largest, exponent)));
        lots->total += lots->weights[i];
    }
    return ICL_OK;
}

static void draw_equal(icl_lots *lots, icl_random_key key, uint64_t first_word, size_t draws, uint32_t *drawn) {
    uint32_t *order = lots->order;

    for (size_t j = 0; j < draws; j++) {
        const size_t place = j + icl_draw_below(key, first_word + j, lots->count - j);
        drawn[j] = order[place];
        order[place] = order[j];
        order[j] = drawn[j];
        lots->swapped[j] = (uint32_t)place;
    }
    for (size_t j = draws; j-- > 0;) {
        const uint32_t own = order[j];
        order[j] = order[lots->swapped[j]];
        order[lots->swapped[j]] = own;
    }
}

/* Those that are drawn have negative weights meanwhile. */
static void draw_weighted(icl_lots *lots, icl_random_key key, uint64_t first_word, size_t draws, uint32_t *drawn) {
    double left = lots->total;

    for (size_t j = 0; j < draws; j++) {
        const double share = (double)icl_random_word(key, first_word + j) * 0x1p-32 * left;
        double sum = 0;
        size_t i = 0;
        while ((sum += fmax(0, lots->weights[i])) <= share || lots->weights[i] < 0)
            i++;
        drawn[j] = (uint32_t)i;
        left -= lots->weights[i];
        lots->weights[i] = -lots->weights[i];
    }
    for (size_t j = 0; j < draws; j++)
        lots->weights[drawn[j]] = -lots->weights[drawn[j]];
}

void icl_lots_draw(icl_lots *lots, icl_random_key key, uint64_t first_word, size_t draws, uint32_t *drawn) {
    assert(draws <= lots->count);
    if (lots->weights)
        draw_weighted(lots, key, first_word, draws, drawn);
    else
        draw_equal(lots, key, first_word, draws, drawn);
}
