#include "predict/splits.h"

#include <stdlib.h>

#include "core/allocate.h"
#include "iclab/random.h"

typedef struct sort_key {
    uint32_t word;
    size_t index, item;
} sort_key;

static int compare_keys(const void *a, const void *b) {
    const sort_key *x = a, *y = b;
    if (x->word != y->word)
        return x->word < y->word ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

icl_status icl_shuffle(uint32_t seed, uint32_t stream, uint64_t step, size_t count, size_t *items, icl_error *error) {
    const icl_random_key key = {seed, stream, step};
    sort_key *keys = NULL;

    ICL_CHECK(icl_allocate(count, sizeof *keys, "random order", &keys, error));
    for (size_t i = 0; i < count; i++)
        keys[i] = (sort_key){icl_random_word(key, i), i, items[i]};
    qsort(keys, count, sizeof *keys, compare_keys);
    for (size_t i = 0; i < count; i++)
        items[i] = keys[i].item;
    icl_free(&keys);
    return ICL_OK;
}

void icl_fold_range(size_t count, size_t folds, size_t fold, size_t *first, size_t *end) {
    *first = count * fold / folds;
    *end = count * (fold + 1) / folds;
}
