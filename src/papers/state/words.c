/*
 * Words of permutations by products of reflections: Grazzi et al. 2024 (arXiv 2411.12537), Siems et al. 2025,
 * "DeltaProduct: Improving State-Tracking in Linear RNNs via Householder Products" (arXiv 2502.10297).
 *
 * By hand: S is a vector of n numbers, the things on n places; the start symbol writes (1, …, n). A swap of the places
 * i and j is the reflection S <- (I - 2 k k^T) S with k = (e_i - e_j) / sqrt 2: one write with beta = 2 and v = 0. A
 * permutation with c cycles is a product of n - c swaps, so n - 1 writes a token are enough for any.
 *
 * By training: words of all elements of S3. Those that take three points around are no single reflection, so that one
 * write a token is not enough; words of swaps of neighbours need no more. With strengths in (0, 1) no write reflects.
 * With one head of key width 16 training finds the sign of the permutation alone; four heads of width 8 find the rest.
 */
#include <math.h>
#include <stdint.h>

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

#define ONE_WRITE "model.delta_steps=1 "
#define UP_TO_1   "model.write_strength=1 "
#define FEW       "task.longest=8 train.batch=64 train.steps=200 train.warmup=20 "
#define LONG                                                                                                           \
    "task.longest=128 model.width=128 model.heads=8 model.key_width=16 train.learning_rate=0.001 train.steps=20000 "

enum { BOTH = ICL_AT_SHORT | ICL_AT_FULL };

static const icl_state_kind kinds[] = {
    {ICL_AT_CI, "2-writes", "S3, 2 writes in (0, 2)", FEW, true, 1, 1024, {8, 16}},
    {ICL_AT_CI, "1-write", "S3, 1 write in (0, 2)", FEW ONE_WRITE, false, 1, 1024, {8, 16}},
    {BOTH, "2-writes", "S3, 2 writes in (0, 2)", "", true, 3, 4096, {20, 40, 100}},
    {BOTH, "1-write", "S3, 1 write in (0, 2)", ONE_WRITE, false, 3, 4096, {20, 40, 100}},
    {BOTH, "up-to-1", "S3, 2 writes in (0, 1)", UP_TO_1, false, 3, 4096, {20, 40, 100}},
    {BOTH, "swaps", "swaps of S3, 1 write in (0, 2)", ONE_WRITE "task.tokens=generators", true, 3, 4096, {20, 40, 100}},
    {ICL_AT_FULL, "a5", "A5, 2 writes in (0, 2)", LONG "task.rule=a5", true, 3, 8192, {128, 256, 512}},
    {ICL_AT_FULL,
     "s5",
     "S5, 4 writes in (0, 2)",
     LONG "task.rule=s5 model.delta_steps=4",
     true,
     3,
     8192,
     {128, 256, 512}},
};

static icl_status reproduce(icl_reproducing *run, icl_error *error) {
    const icl_state_training training = {
        .recipe = "state-words",
        .title = "Words of permutations by one layer: right answers by the length of the word",
        .tokens = "permutations",
        .right = .99,
        .above_chance = .5,
        .chance = 1 / 6.0, /* of S3 */
        .can = "a write for each reflection",
        .cannot = "rotations need 2 reflections; [0, 1] has none",
        .count = sizeof kinds / sizeof *kinds,
        .kinds = kinds,
    };

    if (icl_reproduce_wants(run, "hand") && icl_reproduce_judges(run)) {
        ICL_CHECK(judge_by_hand(run, "s3", 3, false, error));
        ICL_CHECK(judge_by_hand(run, "a5", 5, true, error));
        ICL_CHECK(judge_by_hand(run, "s5", 5, false, error));
    }
    return icl_state_judge_training(run, &training, error);
}

const icl_reproduction icl_state_words = {
    .name = "state-words",
    .source = "arXiv 2411.12537, 2502.10297",
    .about = "permutation words by products of reflections: by hand at length 10,000, and trained on S3",
    .cost = {"3 s", "3 min", "30 h"},
    .is_shared = true,
    .run = reproduce,
};
