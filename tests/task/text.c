/* Text: windows of planted files, held-out bytes, n-grams by hand, evaluations that agree, and files that change. The
 * same bits on every device. */
#include <sys/stat.h>
#include <unistd.h>

#include "frame.h"
#include "iclab/file.h"
#include "task/text.h"

#include "../core/scratch.h"

enum { BYTES = 1000, LENGTH = 7, BATCH = 13 };

/* The planted text: random letters, so that eight in a row tell their place, and few, so that three are often seen. */
typedef struct planted {
    scratch_folder scratch;
    char path[512];
    unsigned char bytes[BYTES];
} planted;

static unsigned char byte_at(size_t i) {
    return (unsigned char)(0xc0 + icl_random_word((icl_random_key){SEED, 0, 0}, i) % 8);
}

static void plant(planted *text) {
    scratch_open(&text->scratch);
    for (size_t i = 0; i < BYTES; i++)
        text->bytes[i] = byte_at(i);
    snprintf(text->path, sizeof text->path, "%s", scratch_path(&text->scratch, "text"));
    tap_need(icl_file_write(text->path, text->bytes, BYTES, tap_error()));
}

static const char *settings(const planted *text, const char *more) {
    static char overrides[1024];

    snprintf(overrides, sizeof overrides,
             "task.family=text task.file=%s task.length=%d task.test=0.1 "
             "task.validation=0.1 %s",
             text->path, LENGTH, more);
    return overrides;
}

/* Returns whether sequence `number` is T + 1 bytes of the text from `place` on. */
static bool is_window(const drawn *all, const planted *text, size_t number, size_t place) {
    for (size_t t = 0; t < LENGTH; t++)
        if (all->inputs[number * LENGTH + t] != text->bytes[place + t] ||
            all->targets[number * LENGTH + t] != text->bytes[place + t + 1])
            return false;
    return true;
}

/* Returns the place of a window, of which there is one at most, or BYTES. */
static size_t place_of(const drawn *all, const planted *text, size_t number) {
    size_t place = 0;

    while (place + LENGTH < BYTES && !is_window(all, text, number, place))
        place++;
    return place + LENGTH < BYTES ? place : BYTES;
}

/* ---- Windows ---- */

/* All places from 0 to the last that fits into the 800 bytes for training are drawn, equally often. */
static void check_training(task_test *test) {
    enum { STEPS = 2000, PLACES = 800 - LENGTH };
    static size_t counts[BYTES + 1];
    planted text;
    drawn all = {0};
    bool weighs = true;

    plant(&text);
    memset(counts, 0, sizeof counts);
    open_batch(&all, test->device, ICL_FOR_TRAINING, BATCH, settings(&text, ""));
    for (uint64_t step = 0; step < STEPS; step++) {
        draw_step(&all, SEED, step);
        for (size_t i = 0; i < BATCH; i++)
            counts[place_of(&all, &text, i)]++;
        for (size_t i = 0; i < BATCH * LENGTH; i++)
            weighs = weighs && all.weights[i] == 1;
    }
    size_t beyond = 0, all_places = 0;
    for (size_t place = 0; place <= BYTES; place++)
        *(place < PLACES ? &all_places : &beyond) += counts[place];
    tap_ok(&test->tap, beyond == 0 && all_places == STEPS * BATCH && weighs,
           "%d windows for training are T + 1 bytes of the training part, all scored", STEPS * BATCH);
    tap_ok(&test->tap, counts[0] > 0 && counts[PLACES - 1] > 0 && unevenness(counts, PLACES, STEPS * BATCH, 1) < 5.5,
           "from its first byte to its last, all places equally likely");
    release(&all);
    scratch_close(&text.scratch);
}

/* Counts how often the windows of batches from `first` on score each byte; `mixes` tells that their places are not in
 * order. */
static bool count_scored(drawn *all, const planted *text, uint64_t first, uint64_t windows, size_t *scored,
                         bool *mixes) {
    size_t before = 0;

    *mixes = false;
    memset(scored, 0, BYTES * sizeof *scored);
    for (uint64_t step = 0; step * all->count < windows; step++) {
        draw_step(all, SEED, first + step);
        for (size_t i = 0; i < all->count && step * all->count + i < windows; i++) {
            const size_t place = place_of(all, text, i);
            if (place == BYTES)
                return false;
            *mixes = *mixes || place < before;
            before = place;
            for (size_t t = 0; t < LENGTH; t++)
                scored[place + t + 1] += all->weights[i * LENGTH + t] == 1;
        }
    }
    return true;
}

/* Held-out bytes from `begin` to before `end` are scored once each, and no others. */
static void check_held_out(task_test *test, const char *more, uint64_t first, size_t begin, size_t end) {
    size_t scored[BYTES], wrong = 0;
    planted text;
    drawn all = {0};
    bool mixes;

    plant(&text);
    open_batch(&all, test->device, ICL_FOR_EVALUATION, 3, settings(&text, more));
    const icl_task_text *facts = icl_task_get_text(all.task);
    const uint64_t windows = first > 0 ? facts->watched : facts->evaluated;
    const bool found = count_scored(&all, &text, first, windows, scored, &mixes);
    for (size_t i = 0; i < BYTES; i++)
        wrong += scored[i] != (i >= begin && i < end);
    tap_ok(&test->tap, found && wrong == 0 && mixes,
           "%s: %d windows score bytes %zu to %zu once each, and no others, in an even order", more, (int)windows,
           begin, end);
    release(&all);
    scratch_close(&text.scratch);
}

static void check_held_out_parts(task_test *test) {
    check_held_out(test, "", 0, 900, 1000);
    check_held_out(test, "task.evaluation=stride:7", 0, 900, 1000);
    check_held_out(test, "task.evaluation=stride:3", 0, 900, 1000);
    check_held_out(test, "task.evaluation=stride:1", 0, 900, 1000);
    check_held_out(test, "", ICL_FIRST_WATCHED_STEP, 800, 900);
    check_held_out(test, "task.validation=0", ICL_FIRST_WATCHED_STEP, LENGTH + 1, 900);
}

/* Windows that carry the state are in order; the last one ends behind the file, with weights of 0. */
static void check_carried(task_test *test) {
    planted text;
    drawn all = {0};
    bool right = true;

    plant(&text);
    open_batch(&all, test->device, ICL_FOR_EVALUATION, 1, settings(&text, "task.evaluation=carried"));
    const uint64_t windows = icl_task_get_text(all.task)->evaluated;
    for (uint64_t j = 0; j < windows; j++) {
        draw_step(&all, SEED, j);
        for (size_t t = 0; t < LENGTH; t++) {
            const size_t at = 900 - 1 + (size_t)j * LENGTH + t;
            right = right && all.weights[t] == (at + 1 < BYTES) && all.inputs[t] == (at < BYTES ? text.bytes[at] : 0);
            right = right && (at + 1 >= BYTES || all.targets[t] == text.bytes[at + 1]);
        }
    }
    tap_ok(&test->tap, right && windows == 15, "carried: 15 windows in order, of 100 bytes");
    release(&all);
    scratch_close(&text.scratch);
}

static void check_same_bits(task_test *test) {
    planted text;

    plant(&text);
    check_bits(test, settings(&text, ""), BATCH, 5);
    check_bits(test, settings(&text, "task.evaluation=stride:3"), BATCH, 2);
    scratch_close(&text.scratch);
}

/* ---- N-grams ---- */

static void feed(icl_ngrams *counts, const char *text) {
    for (; *text; text++)
        tap_need(icl_ngrams_add(counts, (unsigned char)*text, tap_error()));
}

/* After "abracadabra": order 0 has n = 11, t = 5, a 5 times; after a come b, c, d, b: n = 4, t = 3; after "ra" comes c:
 * n = 1, t = 1. */
static void check_ngrams(task_test *test) {
    const double a0 = (5 + 5 / 256.0) / 16, b0 = (2 + 5 / 256.0) / 16, b1 = (2 + 3 * b0) / 7, c0 = (1 + 5 / 256.0) / 16,
                 c1 = (1 + 3 * c0) / 7, c2 = (1 + c1) / 2;
    const unsigned char context[] = "xra", unknown[] = "qq";
    double p[ICL_BYTES], sum = 0;
    icl_ngrams *counts = NULL;

    tap_need(icl_ngrams_create(2, ICL_MOST_STRINGS, &counts, tap_error()));
    icl_ngrams_predict(counts, context, 3, 2, p);
    tap_ok(&test->tap, p['a'] == 1.0 / 256 && p[0] == 1.0 / 256, "counts of nothing: 1 / 256 each");
    feed(counts, "abracadabra");
    icl_ngrams_predict(counts, context, 3, 0, p);
    const bool order_0 = fabs(p['a'] - a0) < 1e-15 && fabs(p['z'] - 5 / 256.0 / 16) < 1e-15;
    icl_ngrams_predict(counts, context, 3, 1, p);
    const bool order_1 = fabs(p['b'] - b1) < 1e-15 && fabs(p['c'] - c1) < 1e-15;
    icl_ngrams_predict(counts, context, 3, 2, p);
    for (size_t s = 0; s < ICL_BYTES; s++)
        sum += p[s];
    tap_ok(&test->tap, order_0 && order_1 && fabs(p['c'] - c2) < 1e-15 && fabs(sum - 1) < 1e-14,
           "abracadabra by hand: orders 0, 1 and 2 (after ra: %g)", p['c']);
    icl_ngrams_predict(counts, unknown, 2, 2, p);
    tap_ok(&test->tap, fabs(p['a'] - a0) < 1e-15, "a context that was never seen: the order below");
    /* a b r c d, and of two and three: ab br ra ac ca ad da, abr bra rac aca cad ada dab */
    tap_ok(&test->tap, counts->counted == 11 && counts->strings == 19, "19 strings");
    icl_ngrams_clear(counts);
    icl_ngrams_predict(counts, context, 3, 2, p);
    tap_ok(&test->tap, p['a'] == 1.0 / 256 && counts->strings == 0, "cleared");
    icl_ngrams_destroy(&counts);
}

/* With room for eight strings three bytes of "abra" are counted (a, b, ab, r, br, abr): the fourth might need three. */
static void check_room(task_test *test) {
    icl_ngrams *counts = NULL;

    tap_need(icl_ngrams_create(2, 8, &counts, tap_error()));
    feed(counts, "abra");
    tap_ok(&test->tap, counts->counted == 3 && counts->strings == 6,
           "no room: the first 3 bytes are counted, %d strings", (int)counts->strings);
    icl_ngrams_destroy(&counts);
}

/* ---- Trees of contexts ---- */

/* A decision of a text: the bits of its byte before it, behind a 1, its own, and where the byte stands. */
typedef struct decision {
    unsigned bits, bit;
    size_t at;
} decision;

/* Returns log P_e of zeros and ones in any order: Gamma(a + 1/2) Gamma(b + 1/2) / (pi Gamma(a + b + 1)). */
static double log_of_leaf(double zeros, double ones) {
    return lgamma(zeros + 0.5) + lgamma(ones + 0.5) - log(acos(-1)) - lgamma(zeros + ones + 1);
}

/* Returns log P_w of a node of d bytes by the definition: the list holds its decisions. */
static double log_of_tree(const unsigned char *text, size_t depth, size_t d, const decision *list, size_t count) {
    double counts[2] = {0}, below = 0;

    for (size_t i = 0; i < count; i++)
        counts[list[i].bit]++;
    const double leaf = log_of_leaf(counts[0], counts[1]);
    if (d == depth)
        return leaf;
    for (unsigned byte = 0; byte < ICL_BYTES; byte++) {
        decision child[400];
        size_t own = 0;
        for (size_t i = 0; i < count; i++)
            if (list[i].at > d && text[list[i].at - 1 - d] == byte)
                child[own++] = list[i];
        below += own > 0 ? log_of_tree(text, depth, d + 1, child, own) : 0;
    }
    for (size_t i = 0; i < count; i++)
        below += list[i].at <= d ? log(0.5) : 0; /* the context reaches before the beginning */
    return log(0.5) + leaf + log1p(exp(below - leaf));
}

/* Returns the bits of a whole text by the definition. */
static double bits_by_definition(const unsigned char *text, size_t count, size_t depth) {
    double sum = 0;

    for (unsigned bits = 1; bits < ICL_BYTES; bits++) {
        decision list[400];
        size_t own = 0;
        for (size_t i = 0; i < count; i++)
            for (int shift = 7; shift >= 0; shift--)
                if ((0x100U | text[i]) >> (shift + 1) == bits)
                    list[own++] = (decision){bits, text[i] >> shift & 1, i};
        sum -= own > 0 ? log_of_tree(text, depth, 0, list, own) / log(2) : 0;
    }
    return sum;
}

/* Returns the bits of a text, byte by byte; *sum becomes the furthest that probabilities add up to from 1. */
static double bits_by_trees(const unsigned char *text, size_t count, size_t depth, size_t most, double *sum,
                            size_t *contexts) {
    icl_byte_trees *trees = NULL;
    double p[ICL_BYTES], bits = 0;

    *sum = 0;
    tap_need(icl_trees.create(depth, most, &trees, tap_error()));
    for (int again = 0; again < 2; again++) { /* the second time after clearing */
        bits = 0;
        icl_trees.clear(trees);
        for (size_t i = 0; i < count; i++) {
            double all = 0;
            icl_trees.predict(trees, text, i, p);
            for (size_t s = 0; s < ICL_BYTES; s++)
                all += p[s];
            *sum = fmax(*sum, fabs(all - 1));
            bits -= log2(p[text[i]]);
            tap_need(icl_trees.add(trees, text, i, text[i], tap_error()));
        }
    }
    *contexts = trees->contexts;
    icl_trees.destroy(&trees);
    return bits;
}

static void check_trees(task_test *test) {
    enum { COUNT = 300 };
    unsigned char text[COUNT];
    size_t contexts, all;
    double sum;

    for (size_t i = 0; i < COUNT; i++)
        text[i] = i % 3 == 0 ? 0xff : byte_at(i);
    for (size_t depth = 0; depth <= 3; depth++) {
        const double expected = bits_by_definition(text, COUNT, depth);
        const double seen = bits_by_trees(text, COUNT, depth, ICL_MOST_CONTEXTS, &sum, &all);
        tap_ok(&test->tap, fabs(seen - expected) < 1e-9 * expected && sum < 1e-12,
               "trees of depth %zu: %.6f bits of %d bytes, by the definition %.6f; sums of 1 to %.1g", depth, seen,
               COUNT, expected, sum);
    }
    /* 2,000 contexts and more make room for others several times; 300 are full after the first bytes. */
    const double bits = bits_by_trees(text, COUNT, 3, 300, &sum, &contexts);
    tap_ok(&test->tap, all > 2000 && contexts == 299 && sum < 1e-12 && isfinite(bits),
           "room for 300: %zu contexts in place of %zu", contexts, all);
}

/* ---- Predictors ---- */

/* Returns the bits that a predictor spends on the scored bytes of all windows. */
static double bits_of(const planted *text, icl_backend *backend, const char *more, size_t batch, const char *name) {
    drawn all = {0};
    double sum = 0;

    open_batch(&all, backend, ICL_FOR_EVALUATION, batch, settings(text, more));
    const uint64_t windows = icl_task_get_text(all.task)->evaluated;
    for (uint64_t step = 0; step * batch < windows; step++) {
        draw_step(&all, SEED, step);
        predict(&all, name);
        for (size_t i = 0; i < batch && step * batch + i < windows; i++)
            for (size_t at = i * LENGTH; at < (i + 1) * LENGTH; at++)
                sum += all.weights[at] == 0 ? 0 : -log2(exp(all.outputs[at * 256 + (size_t)all.targets[at]]));
    }
    release(&all);
    return sum;
}

/* Returns how many bytes before byte i its window shows, if windows of T score T. */
static size_t shown_before(size_t i) {
    const size_t next = 900 + ((i - 900) / LENGTH + 1) * LENGTH, end = next < BYTES ? next : BYTES;
    return i - (end - LENGTH - 1);
}

/* The bytes before byte i that a predictor sees, at most `order` of them: those of its window, those from the one
 * before the last 100 on, or all. */
typedef enum sight { IN_WINDOWS = 0, CARRIED, ALL } sight;

static size_t seen_before(size_t i, size_t order, sight what) {
    const size_t there = what == IN_WINDOWS ? shown_before(i) : what == CARRIED ? i - 899 : i;
    return there < order ? there : order;
}

/* The bits of n-grams of the first `training` bytes on the last 100. */
static double counted_bits(const planted *text, size_t training, size_t order, sight what) {
    icl_ngrams *counts = NULL;
    double p[ICL_BYTES], sum = 0;

    tap_need(icl_ngrams_create(order, ICL_MOST_STRINGS, &counts, tap_error()));
    for (size_t i = 0; i < training; i++)
        tap_need(icl_ngrams_add(counts, text->bytes[i], tap_error()));
    for (size_t i = 900; i < BYTES; i++) {
        const size_t before = seen_before(i, order, what);
        icl_ngrams_predict(counts, text->bytes + i - before, before, order, p);
        sum -= log2(p[text->bytes[i]]);
    }
    icl_ngrams_destroy(&counts);
    return sum;
}

/* The bits of n-grams on the last 100 bytes that count the byte before these, and each of these after it was
 * predicted. */
static double learned_bits(const planted *text, size_t order) {
    icl_ngrams *counts = NULL;
    double p[ICL_BYTES], sum = 0;

    tap_need(icl_ngrams_create(order, ICL_MOST_STRINGS, &counts, tap_error()));
    for (size_t i = 900; i < BYTES; i++) {
        tap_need(icl_ngrams_add(counts, text->bytes[i - 1], tap_error()));
        icl_ngrams_predict(counts, text->bytes + 899, i - 899, order, p);
        sum -= log2(p[text->bytes[i]]);
    }
    icl_ngrams_destroy(&counts);
    return sum;
}

/* The bits of trees on the last 100 bytes, which learn as the n-grams above do: from all of them, or in windows of T
 * that score T. */
static double weighted_bits(const planted *text, bool is_carried) {
    icl_byte_trees *trees = NULL;
    double p[ICL_BYTES], sum = 0;

    tap_need(icl_trees.create(ICL_MOST_ORDER, ICL_MOST_CONTEXTS, &trees, tap_error()));
    for (size_t i = 900; i < BYTES; i++) {
        const size_t first = is_carried ? 899 : i - shown_before(i);
        icl_trees.clear(trees);
        for (size_t at = first; at < i; at++)
            tap_need(icl_trees.add(trees, text->bytes + first, at - first, text->bytes[at], tap_error()));
        icl_trees.predict(trees, text->bytes + first, i - first, p);
        sum -= log2(p[text->bytes[i]]);
    }
    icl_trees.destroy(&trees);
    return sum;
}

static void check_predictors(task_test *test) {
    planted text;

    plant(&text);
    const double uniform = bits_of(&text, test->device, "", 4, "uniform");
    const double bytes = bits_of(&text, test->device, "", 4, "bytes");
    tap_ok(&test->tap, fabs(uniform - 800) < 1e-9, "uniform: 8 bits a byte");
    tap_ok(&test->tap, fabs(bytes - counted_bits(&text, 800, 0, ALL)) < 1e-9, "bytes: their counts in 800 bytes");
    const double stride = bits_of(&text, test->device, "task.evaluation=stride:4 task.validation=0", 4, "ngram:3");
    const double carried = bits_of(&text, test->device, "task.evaluation=carried task.validation=0", 1, "ngram:3");
    const double windows = bits_of(&text, test->device, "task.validation=0", 4, "ngram:3");
    tap_ok(&test->tap, fabs(stride - counted_bits(&text, 900, 3, ALL)) < 1e-9,
           "ngram:3 with a stride of 4 has its context at every byte");
    tap_ok(&test->tap, fabs(carried - counted_bits(&text, 900, 3, CARRIED)) < 1e-9,
           "and where the state is carried, from the third byte on");
    tap_ok(&test->tap, fabs(windows - counted_bits(&text, 900, 3, IN_WINDOWS)) < 1e-9 && fabs(windows - stride) > 1,
           "and less of it where each window begins anew: %g bits in place of %g", windows, stride);
    const double learned = bits_of(&text, test->device, "task.evaluation=carried", 1, "context:2");
    tap_ok(&test->tap, fabs(learned - learned_bits(&text, 2)) < 1e-9,
           "context:2, carried, learns from all bytes before");
    tap_ok(&test->tap, bits_of(&text, test->device, "", 4, "context:2") > learned, "and in windows from fewer");
    const double carried_trees = bits_of(&text, test->device, "task.evaluation=carried", 1, "ctw");
    const double trees = bits_of(&text, test->device, "", 4, "ctw");
    tap_ok(&test->tap,
           fabs(carried_trees - weighted_bits(&text, true)) < 1e-9 &&
               fabs(trees - weighted_bits(&text, false)) < 1e-9 && trees > carried_trees,
           "ctw learns from the same bytes: %g bits carried, %g in windows", carried_trees, trees);
    scratch_close(&text.scratch);
}

/* ---- Files ---- */

static void expect_refusal(task_test *test, const char *overrides, const char *message) {
    icl_task *task = NULL;
    icl_error error = {0};
    const icl_status status = make_task(overrides, &task, &error);

    tap_ok(&test->tap, status != ICL_OK && strstr(error.message, message), "%s: %s", message, error.message);
    icl_task_destroy(&task);
}

/* Writes a file of `count` bytes into the scratch folder. */
static void write_file(planted *text, const char *name, const void *bytes, size_t count) {
    tap_need(icl_file_write(scratch_path(&text->scratch, name), bytes, count, tap_error()));
}

static void check_lists(task_test *test) {
    planted text;
    icl_task *tasks[3] = {NULL};
    char list[1200];

    plant(&text);
    tap_need(icl_folder_create(scratch_path(&text.scratch, "folder"), tap_error()));
    write_file(&text, "folder/10", text.bytes, 400);
    write_file(&text, "folder/9", text.bytes + 400, 600); /* "10" comes before "9" */
    write_file(&text, "folder/.hidden", text.bytes, 5);
    tap_need(make_task(settings(&text, ""), &tasks[0], tap_error()));
    snprintf(list, sizeof list, "task.family=text task.length=7 task.file=%s/folder", text.scratch.folder);
    tap_need(make_task(list, &tasks[1], tap_error()));
    snprintf(list, sizeof list, "task.family=text task.length=7 task.file=%s/folder/9,%s/folder/10",
             text.scratch.folder, text.scratch.folder);
    tap_need(make_task(list, &tasks[2], tap_error()));
    tap_ok(&test->tap,
           icl_task_get_text(tasks[0])->hash == icl_task_get_text(tasks[1])->hash &&
               icl_task_get_text(tasks[1])->bytes == BYTES && icl_task_get_text(tasks[2])->bytes == BYTES &&
               icl_task_get_text(tasks[0])->hash != icl_task_get_text(tasks[2])->hash,
           "a folder is its files in the order of names, without hidden ones; a list is in its own order");
    tap_ok(&test->tap, !icl_task_get_text(tasks[0])->is_utf8, "bytes that are no UTF-8");
    for (int i = 0; i < 3; i++)
        icl_task_destroy(&tasks[i]);
    tap_need(mkfifo(scratch_path(&text.scratch, "folder/pipe"), 0600) == 0 ? ICL_OK : ICL_ERROR_IO);
    snprintf(list, sizeof list, "task.family=text task.file=%s/folder", text.scratch.folder);
    expect_refusal(test, list, "is no regular file");
    (void)unlink(scratch_path(&text.scratch, "folder/pipe"));
    scratch_close(&text.scratch);
}

static void check_refusals(task_test *test) {
    planted text;

    plant(&text);
    write_file(&text, "empty", "", 0);
    expect_refusal(test, "task.family=text", "expected a file of text");
    expect_refusal(test, "task.family=text task.file=/nowhere/text", "cannot open /nowhere/text");
    expect_refusal(test, "task.family=text task.file=/dev/null", "is no regular file");
    expect_refusal(test, settings(&text, "task.evaluation=stride:8"), "from 1 to task.length = 7");
    expect_refusal(test, settings(&text, "task.evaluation=stride:0"), "from 1 to task.length = 7");
    expect_refusal(test, settings(&text, "task.evaluation=whole"), "windows, carried, or stride:K");
    /* 100 bytes for the test are just enough for windows of 99 + 1. */
    icl_task *task = NULL;
    tap_need(make_task(settings(&text, "task.length=99"), &task, tap_error()));
    icl_task_destroy(&task);
    expect_refusal(test, settings(&text, "task.length=100"), "each needs more than task.length = 100");
    snprintf(text.path, sizeof text.path, "%s", scratch_path(&text.scratch, "empty"));
    expect_refusal(test, settings(&text, ""), "that one is empty");
    scratch_close(&text.scratch);
}

/* Fails with one line when a file is cut, grows, or is gone between two batches. */
static void check_changes(task_test *test) {
    static const char *const what[] = {"cut", "grown", "gone"};
    unsigned char more[BYTES + 1] = {0};

    for (int change = 0; change < 3; change++) {
        planted text;
        drawn all = {0};
        icl_error error = {0};
        plant(&text);
        open_batch(&all, test->device, ICL_FOR_TRAINING, BATCH, settings(&text, ""));
        draw_step(&all, SEED, 0);
        memcpy(more, text.bytes, BYTES);
        tap_need(change == 0   ? (truncate(text.path, 500) == 0 ? ICL_OK : ICL_ERROR_IO)
                 : change == 1 ? icl_file_write(text.path, more, sizeof more, tap_error())
                               : (unlink(text.path) == 0 ? ICL_OK : ICL_ERROR_IO));
        const icl_status status = icl_task_sample(all.task, all.backend, all.purpose, SEED, 1, &all.batch, &error);
        tap_ok(&test->tap,
               status == ICL_ERROR_IO && strstr(error.message, change < 2 ? "changed while" : "cannot open"), "%s: %s",
               what[change], error.message);
        release(&all);
        scratch_close(&text.scratch);
    }
}

int main(int count, char **arguments) {
    static task_check *const checks[] = {check_training, check_held_out_parts, check_carried, check_same_bits,
                                         check_ngrams,   check_room,           check_trees,   check_predictors,
                                         check_lists,    check_refusals,       check_changes};
    return run_checks(count, arguments, checks, sizeof checks / sizeof *checks);
}
