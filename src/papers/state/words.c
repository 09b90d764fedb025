/*
 * Words of permutations by products of reflections: Grazzi et al. 2024 (arXiv 2411.12537), Siems et al. 2025,
 * "DeltaProduct: Improving State-Tracking in Linear RNNs via Householder Products" (arXiv 2502.10297).
 *
 * By hand: S is a vector of n numbers, the things on n places; the start symbol writes (1, …, n). A swap of the places
 * i and j is the reflection S <- (I - 2 k k^T) S with k = (e_i - e_j) / sqrt 2: one write with beta = 2 and v = 0. A
 * permutation with c cycles is a product of n - c swaps, so n - 1 writes a token are enough for any.
 *
 * By training: words of all elements of S3, of which those that take three points around are no single reflection.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "papers/papers.h"
#include "papers/state/hand.h"
#include "papers/state/trained.h"
#include "task/permutations.h"

/* ---- By hand ---- */

/* The element that took the things 1 … n, in order, to the places where they are. */
static size_t classify(const icl_hand_layer *layer, const int *state) {
    const icl_permutations *group = layer->settings;
    const size_t points = group->points;

    for (size_t element = 0; element < group->count; element++) {
        bool is_it = true;
        for (size_t i = 0; i < points; i++)
            is_it &= state[group->images[element][i]] == (int)i + 1;
        if (is_it)
            return element;
    }
    return SIZE_MAX;
}

static icl_hand_write start_of(size_t points) {
    icl_hand_write write = {.strength = 1};
    double square = 0;

    for (size_t i = 0; i < points; i++)
        square += (double)((i + 1) * (i + 1));
    write.value = sqrt(square);
    for (size_t i = 0; i < points; i++)
        write.key[i] = (double)(i + 1) / write.value;
    return write;
}

static icl_hand_write swap_of(size_t first, size_t second) {
    icl_hand_write write = {.strength = 2};

    write.key[first] = sqrt(.5);
    write.key[second] = -sqrt(.5);
    return write;
}

/* Each cycle (p_0 p_1 … p_k) as the swaps of p_0 with p_1, then with p_2, and so on. The writes left over stay 0. */
static void write_element(const unsigned char *images, size_t points, icl_hand_write *writes) {
    bool seen[ICL_MOST_POINTS] = {false};
    size_t used = 0;

    for (size_t first = 0; first < points; first++) {
        for (size_t place = images[first]; !seen[first] && place != first; place = images[place]) {
            writes[used++] = swap_of(first, place);
            seen[place] = true;
        }
        seen[first] = true;
    }
}

static icl_status judge_by_hand(icl_reproducing *run, const char *rule, size_t points, bool even, icl_error *error) {
    const icl_permutations group = icl_permutations_list(points, even);
    icl_hand_layer layer = {
        .symbols = group.count + 1, .writes = points - 1, .width = points, .classify = classify, .settings = &group};

    layer.table[0][0] = start_of(points);
    for (size_t element = 0; element < group.count; element++)
        write_element(group.images[element], points, layer.table[element + 1]);
    return icl_hand_judge(run, rule, &layer, 4, 10000, error);
}

/* ---- By training ---- */

/* A kind of words and of models. */
typedef struct kind {
    icl_state_model model;
    bool learns;
    size_t target;         /* seeds that learn at least, or at most */
    icl_state_extent over; /* with twice the training length as second length */
} kind;

enum { KINDS = 5, TWICE = 1 };

#define SMALL "task.longest=8 train.batch=64 train.steps=250 train.warmup=20 "
#define SWAPS "task.tokens=generators train.steps=600 "
#define LENGTHS                                                                                                        \
    {                                                                                                                  \
        3, 4096, {                                                                                                     \
            20, 40, 100                                                                                                \
        }                                                                                                              \
    }
#define FEW_SWAPS SWAPS SMALL

static const kind kinds[ICL_SCALES][KINDS] = {
    {{{"state-words", FEW_SWAPS, "swaps-2", "swaps, 2 writes in (0, 2)"}, true, 1, {1, 1024, {8, 16}}},
     {{"state-words", FEW_SWAPS "model.write_strength=1", "swaps-2-strength1", "swaps, 2 writes in (0, 1)"},
      false,
      0,
      {1, 1024, {8, 16}}}},
    {{{"state-words", SWAPS "model.delta_steps=1", "swaps-1", "swaps, 1 write in (0, 2)"}, true, 2, LENGTHS},
     {{"state-words", SWAPS, "swaps-2", "swaps, 2 writes in (0, 2)"}, true, 2, LENGTHS},
     {{"state-words", SWAPS "model.write_strength=1", "swaps-2-strength1", "swaps, 2 writes in (0, 1)"},
      false,
      0,
      LENGTHS}},
};

static icl_status judge_training(icl_reproducing *run, const kind *tried, const icl_state_accuracies *accuracies,
                                 icl_error *error) {
    const icl_state_extent *over = &tried->over;
    char note[160];

    icl_state_list(over, accuracies, TWICE, note, sizeof note);
    return ICL_FOUND(run, error, .what = tried->model.label,
                     .quantity = "seeds right on 95 % at twice the training length",
                     .ours = (double)icl_state_count(over, accuracies, TWICE, .95), .target = (double)tried->target,
                     .criterion = tried->learns ? ICL_AT_LEAST : ICL_AT_MOST, .evidence = ICL_INFERRED,
                     .source = "products of reflections", .note = note);
}

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    icl_curves curves = {.figure = {.name = "accuracy-by-length",
                                    .title = "Words over S3 by one layer: right answers by the length of the word",
                                    .x_label = "permutations",
                                    .y_label = "share of right answers",
                                    .log_x = true}};
    icl_status status = ICL_OK;

    if (icl_reproduce_wants(run, "hand")) {
        ICL_TRY(judge_by_hand(run, "s3", 3, false, error));
        ICL_TRY(judge_by_hand(run, "a5", 5, true, error));
        ICL_TRY(judge_by_hand(run, "s5", 5, false, error));
    }
    for (size_t i = 0; i < KINDS && kinds[run->params->scale][i].model.recipe; i++) {
        const kind *tried = &kinds[run->params->scale][i];
        icl_state_accuracies accuracies = {{{0}}};
        if (!icl_reproduce_wants(run, tried->model.cell))
            continue;
        ICL_TRY(icl_state_train(run, &tried->model, &tried->over, &curves, &accuracies, error));
        ICL_TRY(judge_training(run, tried, &accuracies, error));
        ICL_TRY(icl_curves_draw(run, &curves, error));
    }
done:
    icl_curves_release(&curves);
    return status;
}

const icl_reproduction icl_state_words = {
    .name = "state-words",
    .source = "arXiv 2411.12537, 2502.10297",
    .about = "permutation words by products of reflections: by hand at length 10,000, and trained on S3",
    .cost = {"6 s", "10 min", "10 h"},
    .run = reproduce,
};
