/*
 * Few-shot rules: the same bits on every device; words of different letters, outputs that some rule of those allowed
 * explains, weights; compositions, letters and maps that are equally likely; reference predictors beside counts over
 * all rules, one by one.
 *
 * Outputs are made here by moving letters about, without the tables of src/task/rules.c.
 */
#include "frame.h"

enum { BATCH = 41, STEPS = 60, ORDERS = 6, FORMS = 4, RULES = ORDERS * FORMS, MOST_WORD = 5, MOST_LETTERS = 8 };

/* In place of task.held_out, for task.compositions = plain: only rule 0 is trained. */
enum { PLAIN = 1 };

/* ---- Rules ---- */

static void swap(unsigned char *word, size_t a, size_t b) {
    const unsigned char letter = word[a];
    word[a] = word[b];
    word[b] = letter;
}

/* Puts the letters of a word in another order. */
static void reorder(size_t order, unsigned char *word, size_t L) {
    const unsigned char first = word[0], last = word[L - 1];

    if (order == 2) { /* left */
        memmove(word, word + 1, L - 1);
        word[L - 1] = first;
    }
    if (order == 3) { /* right */
        memmove(word + 1, word, L - 1);
        word[0] = last;
    }
    for (size_t i = 0; order == 1 && i < L / 2; i++)
        swap(word, i, L - 1 - i);
    if (order == 4)
        swap(word, 0, 1);
    if (order == 5)
        swap(word, L - 2, L - 1);
}

/* Writes the output [2 L] of rule number `rule` for a word; the blank is A. */
static void apply(size_t rule, const unsigned char *map, const float *word, size_t L, size_t A, unsigned char *output) {
    unsigned char turned[MOST_WORD];

    for (size_t i = 0; i < L; i++)
        turned[i] = map[(size_t)word[i]];
    reorder(rule / FORMS, turned, L);
    for (size_t i = 0; i < L; i++) {
        const size_t form = rule % FORMS;
        output[form == 3 ? 2 * i : i] = turned[i];
        output[form == 3 ? 2 * i + 1 : form == 2 ? 2 * L - 1 - i : L + i] = form == 0 ? (unsigned char)A : turned[i];
    }
}

static bool is_trained(size_t rule, size_t held_out) {
    if (held_out == PLAIN)
        return rule == 0;
    return held_out == 0 || (rule / FORMS + rule % FORMS) % held_out != held_out - 1;
}

/* All permutations of up to four letters, in lexicographic order. */
static size_t list_maps(size_t A, unsigned char maps[][MOST_LETTERS]) {
    size_t count = 0;

    for (size_t code = 0; code < 256; code++) {
        unsigned seen = 0;
        for (size_t a = 0; a < A; a++)
            seen |= 1u << (code >> 2 * a & 3);
        if (seen != (1u << A) - 1 || code >> 2 * A)
            continue;
        for (size_t a = 0; a < A; a++)
            maps[count][a] = (unsigned char)(code >> 2 * a & 3);
        count++;
    }
    return count;
}

/* ---- Sequences ---- */

typedef struct rule_law {
    const char *overrides;
    size_t A, L, K;
    bool mapped, evaluation;
    bool is_allowed[RULES];
    size_t of_rule[RULES], of_letter[MOST_LETTERS];
    size_t of_image[MOST_LETTERS][MOST_LETTERS]; /* by the first letter: the image of letter 0 */
} rule_law;

/* Returns symbol j of the output of example k, of which the last sequence's last one is a target alone. */
static size_t shown_at(const drawn *batch, const rule_law *law, size_t number, size_t k, size_t j) {
    return (size_t)batch->targets[number * batch->scored + k * (3 * law->L + 1) + j];
}

/* Reads off the map that makes the rule explain the sequence; returns whether there is one. Letters that no word has
 * keep the image A. */
static bool explains(const drawn *batch, const rule_law *law, size_t number, size_t rule, unsigned char *map) {
    static const unsigned char same[MOST_LETTERS + 1] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    const float *in = batch->inputs + number * batch->length;
    unsigned images = 0;

    memset(map, (int)law->A, MOST_LETTERS);
    for (size_t k = 0; k <= law->K; k++) {
        unsigned char source[2 * MOST_WORD];
        apply(rule, same, in + k * (3 * law->L + 1), law->L, law->A, source);
        for (size_t j = 0; j < 2 * law->L; j++) {
            const size_t symbol = shown_at(batch, law, number, k, j);
            if (source[j] == law->A || symbol == law->A) {
                if (source[j] != symbol)
                    return false;
                continue;
            }
            const bool is_new = map[source[j]] == law->A;
            if (is_new ? (images >> symbol & 1) == 1 : map[source[j]] != symbol)
                return false;
            map[source[j]] = (unsigned char)symbol;
            images |= 1u << symbol;
        }
    }
    return true;
}

/* Checks what is not the rule: letters, arrows, outputs that are inputs, too, and weights. */
static bool is_well_formed(const drawn *batch, rule_law *law, size_t number) {
    const size_t L = law->L, period = 3 * L + 1, asked = law->evaluation ? 1 : law->K + 1;
    const float *in = batch->inputs + number * batch->length, *weights = batch->weights + number * batch->scored;

    for (size_t k = 0; k <= law->K; k++) {
        unsigned seen = 0;
        for (size_t i = 0; i < L; i++) {
            const size_t letter = (size_t)in[k * period + i];
            if (letter >= law->A || seen >> letter & 1)
                return false;
            seen |= 1u << letter;
            law->of_letter[letter]++;
        }
        if (in[k * period + L] != (float)(law->A + 1))
            return false;
        for (size_t j = 0; k * period + L + 1 + j < batch->length && j < 2 * L; j++)
            if (in[k * period + L + 1 + j] != (float)shown_at(batch, law, number, k, j))
                return false;
    }
    for (size_t s = 0; s < batch->scored; s++) {
        const bool counts = s % period < 2 * L && s / period + asked > law->K;
        if (weights[s] != (counts ? (float)((double)batch->scored / (double)(2 * L * asked)) : 0))
            return false;
    }
    return true;
}

static bool check_sequence(const drawn *batch, size_t number, void *counts) {
    rule_law *law = counts;
    unsigned char map[MOST_LETTERS];
    size_t rules = 0;

    if (!is_well_formed(batch, law, number))
        return false;
    for (size_t rule = 0; rule < RULES; rule++) {
        bool fits = law->is_allowed[rule] && explains(batch, law, number, rule, map);
        for (size_t a = 0; a < law->A && !law->mapped; a++)
            fits = fits && (map[a] == a || map[a] == law->A);
        if (fits && rules == 0 && map[0] < law->A)
            law->of_image[(size_t)batch->inputs[number * batch->length]][map[0]]++;
        rules += fits;
        law->of_rule[rule] += fits;
    }
    return law->mapped ? rules >= 1 : rules == 1;
}

static void check_definition(task_test *test, rule_law *law, size_t held_out, bool trained, bool held) {
    const icl_task_purpose purpose = law->evaluation ? ICL_FOR_EVALUATION : ICL_FOR_TRAINING;
    size_t counts[RULES], rules = 0, sum = 0;

    for (size_t rule = 0; rule < RULES; rule++)
        law->is_allowed[rule] = is_trained(rule, held_out) ? trained : held;
    const size_t wrong = count_wrong(test->device, purpose, BATCH, STEPS, law->overrides, check_sequence, law);
    tap_ok(&test->tap, wrong == 0, "%s: %d sequences follow rules", law->overrides, STEPS * BATCH);
    for (size_t rule = 0; rule < RULES; rule++) {
        sum += law->of_rule[rule];
        if (law->is_allowed[rule])
            counts[rules++] = law->of_rule[rule];
    }
    /* There are some 100 counts in all, each 5.5 deviations away with a probability below 4e-8 if nearly normal. */
    const double rule = law->mapped ? 0 : unevenness(counts, rules, sum, 1);
    const double letter = unevenness(law->of_letter, law->A, (size_t)STEPS * BATCH * (law->K + 1), law->L);
    tap_ok(&test->tap, rule < 5.5 && letter < 5.5,
           "%zu rules and %zu letters are equally likely (%.2g, %.2g deviations)", rules, law->A, rule, letter);
}

/* Whatever a sequence's first letter is, the image of letter 0 is any letter. */
static void check_images(task_test *test, const rule_law *law) {
    double worst = 0;

    for (size_t first = 0; first < law->A; first++) {
        size_t sum = 0;
        for (size_t image = 0; image < law->A; image++)
            sum += law->of_image[first][image];
        worst = fmax(worst, sum > 100 ? unevenness(law->of_image[first], law->A, sum, 1) : (double)INFINITY);
    }
    tap_ok(&test->tap, worst < 5.5, "maps do not follow from words (%.2g deviations)", worst);
}

/* ---- Maps ---- */

enum { MAPS = 24 /* of four letters */ };

/* Lists the maps of sequences whose words have all four letters and whose rule is number 0; returns how many there are.
 * Eight examples rule out that another order with another map explains a sequence, up to chance below 1e-6. */
static size_t list_drawn(task_test *test, const char *overrides, unsigned char found[][MOST_LETTERS], size_t *counts) {
    const rule_law law = {.A = 4, .L = 4, .K = 8};
    drawn all = {0};
    size_t used = 0;

    draw(&all, test->device, 8000, "task.family=rules task.alphabet=4 task.word=4 task.shots=8 task.mapping=letters %s",
         overrides);
    memset(counts, 0, MAPS * sizeof *counts);
    for (size_t i = 0; i < all.count; i++) {
        unsigned char map[MOST_LETTERS];
        size_t at = 0;
        if (!explains(&all, &law, i, 0, map))
            continue;
        while (at < used && memcmp(found[at], map, MOST_LETTERS) != 0)
            at++;
        if (at == used && used < MAPS)
            memcpy(found[used++], map, MOST_LETTERS);
        counts[at < MAPS ? at : 0]++;
    }
    release(&all);
    return used;
}

static void check_maps(task_test *test) {
    static const struct {
        const char *overrides;
        size_t maps;
    } rows[] = {
        {"task.pool=3 task.pool_seed=2", 3}, {"task.pool=3 task.fresh_functions=true", MAPS}, {"task.pool=0", MAPS}};
    unsigned char found[MAPS][MOST_LETTERS], others[MAPS][MOST_LETTERS];
    size_t counts[MAPS];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const size_t maps = list_drawn(test, rows[i].overrides, found, counts);
        size_t sum = 0;
        for (size_t m = 0; m < maps; m++)
            sum += counts[m];
        const double map = unevenness(counts, maps, sum, 1);
        tap_ok(&test->tap, maps == rows[i].maps && sum > 300 && map < 5.5,
               "%s: %zu maps, equally likely (%.2g deviations of %zu)", rows[i].overrides, maps, map, sum);
    }
    const size_t first = list_drawn(test, "task.pool=3 task.pool_seed=2", found, counts);
    const size_t second = list_drawn(test, "task.pool=3 task.pool_seed=3", others, counts);
    size_t shared = 0;
    for (size_t i = 0; i < first * second; i++)
        shared += memcmp(found[i / second], others[i % second], MOST_LETTERS) == 0;
    tap_ok(&test->tap, first == 3 && shared < 3, "another seed has other maps (%zu of 3 shared)", shared);
}

/* ---- Reference predictors ---- */

/* All rules that a predictor holds possible, each with its map, and which of them agree with what was shown. */
typedef struct possible {
    unsigned char maps[MAPS][MOST_LETTERS];
    size_t count; /* maps */
    bool is_possible[RULES];
    bool agrees[RULES][MAPS];
} possible;

/* Counts the symbols [A + 1] that the rules that agree show next. */
static void count_symbols(const possible *all, const float *word, size_t L, size_t A, size_t j, size_t *counts) {
    memset(counts, 0, (A + 1) * sizeof *counts);
    for (size_t i = 0; i < RULES * all->count; i++) {
        unsigned char output[2 * MOST_WORD];
        apply(i / all->count, all->maps[i % all->count], word, L, A, output);
        counts[output[j]] += all->agrees[i / all->count][i % all->count];
    }
}

static void rule_out(possible *all, const float *word, size_t L, size_t A, size_t j, size_t symbol) {
    for (size_t i = 0; i < RULES * all->count; i++) {
        unsigned char output[2 * MOST_WORD];
        apply(i / all->count, all->maps[i % all->count], word, L, A, output);
        all->agrees[i / all->count][i % all->count] &= output[j] == symbol;
    }
}

/* Returns whether logits [A + 1] are the counts' shares, or all alike where nothing is possible, up to rounding. */
static bool are_shares(const double *logits, const size_t *counts, size_t A) {
    size_t sum = 0;
    double total = 0;

    for (size_t a = 0; a <= A; a++) {
        sum += counts[a];
        total += exp(logits[a]);
    }
    for (size_t a = 0; a <= A; a++) {
        const double share = sum > 0 ? (double)counts[a] / (double)sum : 1 / (double)(A + 1);
        if (fabs(exp(logits[a]) / total - share) > 1e-12)
            return false;
    }
    return true;
}

static size_t count_wrong_shares(const drawn *batch, const rule_law *law, const possible *prior) {
    const size_t period = 3 * law->L + 1, classes = law->A + 1;
    size_t wrong = 0;

    for (size_t i = 0; i < batch->count; i++) {
        possible all = *prior;
        for (size_t rule = 0; rule < RULES; rule++)
            for (size_t m = 0; m < all.count; m++)
                all.agrees[rule][m] = all.is_possible[rule];
        for (size_t k = 0; k <= law->K; k++)
            for (size_t j = 0; j < 2 * law->L; j++) {
                const float *word = batch->inputs + i * batch->length + k * period;
                size_t counts[MOST_LETTERS + 1];
                count_symbols(&all, word, law->L, law->A, j, counts);
                wrong += !are_shares(batch->outputs + (i * batch->scored + k * period + j) * classes, counts, law->A);
                rule_out(&all, word, law->L, law->A, j, shown_at(batch, law, i, k, j));
            }
    }
    return wrong;
}

/* The last earlier word that has the most letters at their places gives its output; before the first there is none. */
static size_t count_wrong_neighbours(const drawn *batch, const rule_law *law) {
    const size_t period = 3 * law->L + 1, classes = law->A + 1;
    size_t wrong = 0;

    for (size_t at = 0; at < batch->count * (law->K + 1); at++) {
        const size_t i = at / (law->K + 1), k = at % (law->K + 1);
        const float *in = batch->inputs + i * batch->length;
        size_t best = 0, most = 0;
        for (size_t other = 0; other < k; other++) {
            size_t same = 0;
            for (size_t l = 0; l < law->L; l++)
                same += in[other * period + l] == in[k * period + l];
            if (same >= most)
                best = other;
            most = same > most ? same : most;
        }
        for (size_t j = 0; j < 2 * law->L * classes; j++) {
            const size_t position = i * batch->scored + k * period + j / classes;
            const bool is_its = k > 0 && j % classes == shown_at(batch, law, i, best, j / classes);
            wrong += batch->outputs[position * classes + j % classes] != (is_its ? 1 : 0);
        }
    }
    return wrong;
}

/* Asks for the posterior over all rules and over those that are trained, on the sequences of the overrides; `pool`
 * holds the maps of a pool, or is NULL: letters are mapped by any permutation, or kept. */
static void check_posteriors(task_test *test, const rule_law *law, size_t held_out, const possible *pool) {
    static const unsigned char same[MOST_LETTERS] = {0, 1, 2, 3, 4, 5, 6, 7};
    possible any = {.count = 1}, trained;
    drawn all = {0};

    if (law->mapped)
        any.count = list_maps(law->A, any.maps);
    else
        memcpy(any.maps[0], same, sizeof same);
    trained = pool ? *pool : any;
    for (size_t rule = 0; rule < RULES; rule++) {
        any.is_possible[rule] = true;
        trained.is_possible[rule] = is_trained(rule, held_out);
    }
    draw(&all, test->device, BATCH, "%s", law->overrides);
    predict(&all, "any-rule");
    tap_ok(&test->tap, count_wrong_shares(&all, law, &any) == 0, "%s: any-rule", law->overrides);
    predict(&all, "bayes");
    tap_ok(&test->tap, count_wrong_shares(&all, law, &trained) == 0, "%s: bayes", law->overrides);
    predict(&all, "nearest");
    tap_ok(&test->tap, count_wrong_neighbours(&all, law) == 0, "%s: nearest", law->overrides);
    predict(&all, "uniform");
    size_t wrong = 0;
    for (size_t i = 0; i < BATCH * all.scored * (law->A + 1); i++)
        wrong += all.outputs[i] != 0;
    tap_ok(&test->tap, wrong == 0, "%s: uniform", law->overrides);
    release(&all);
}

static void check_references(task_test *test) {
#define FOUR "task.family=rules task.alphabet=4 task.word=4 task.shots=2 "
    static const char *const names[] = {"uniform", "nearest", "bayes", "any-rule"};
    static const rule_law
        kept = {.overrides = "task.family=rules task.alphabet=5 task.word=4 task.shots=2", .A = 5, .L = 4, .K = 2},
        held = {.overrides = FOUR "task.compositions=held-out task.held_out=2", .A = 4, .L = 4, .K = 2},
        fresh = {.overrides = FOUR "task.word=3 task.mapping=letters", .A = 4, .L = 3, .K = 2, .mapped = true},
        pooled = {.overrides = FOUR "task.mapping=letters task.pool=3 task.pool_seed=2 task.compositions=all",
                  .A = 4,
                  .L = 4,
                  .K = 2,
                  .mapped = true},
        others = {.overrides = FOUR "task.mapping=letters task.pool=3 task.pool_seed=2 task.fresh_functions=true",
                  .A = 4,
                  .L = 4,
                  .K = 2,
                  .mapped = true};
    static const rule_law plain = {.overrides = FOUR "task.mapping=letters task.pool=3 task.pool_seed=2 "
                                                     "task.compositions=plain",
                                   .A = 4,
                                   .L = 4,
                                   .K = 2,
                                   .mapped = true};
#undef FOUR
    size_t counts[MAPS];
    possible pool = {.count = 0};
    drawn all = {0};

    draw(&all, test->device, 1, "%s", kept.overrides);
    tap_ok(&test->tap, has_predictors(&all, names, 4), "four reference predictors");
    release(&all);
    pool.count = list_drawn(test, "task.pool=3 task.pool_seed=2", pool.maps, counts);
    check_posteriors(test, &kept, 3, NULL);
    check_posteriors(test, &held, 2, NULL);
    check_posteriors(test, &fresh, 3, NULL);
    check_posteriors(test, &pooled, 3, &pool);
    check_posteriors(test, &others, 3, &pool);
    check_posteriors(test, &plain, PLAIN, &pool);
}

static void check_all(task_test *test) {
    rule_law laws[] = {
        {.overrides = "task.family=rules", .A = 8, .L = 3, .K = 5},
        {.overrides = "task.family=rules task.held_out=0 task.alphabet=5 task.word=5 task.shots=1",
         .A = 5,
         .L = 5,
         .K = 1},
        {.overrides = "task.family=rules task.mapping=letters task.alphabet=6", .A = 6, .L = 3, .K = 5, .mapped = true},
        {.overrides = "task.family=rules task.compositions=held-out", .A = 8, .L = 3, .K = 5, .evaluation = true},
        {.overrides = "task.family=rules task.compositions=all task.held_out=2 task.mapping=letters task.pool=2",
         .A = 8,
         .L = 3,
         .K = 5,
         .mapped = true,
         .evaluation = true},
        {.overrides = "task.family=rules task.compositions=plain", .A = 8, .L = 3, .K = 5}};

    check_definition(test, &laws[0], 3, true, false);
    check_definition(test, &laws[1], 0, true, true);
    check_definition(test, &laws[2], 3, true, false);
    check_images(test, &laws[2]);
    check_definition(test, &laws[3], 3, false, true);
    check_definition(test, &laws[4], 2, true, true);
    check_definition(test, &laws[5], PLAIN, true, false);
    check_maps(test);
    check_references(test);
    check_bits(test, "task.family=rules task.mapping=letters task.pool=5", BATCH, 5);
}

int main(int count, char **arguments) {
    static task_check *const checks[] = {check_all};
    return run_checks(count, arguments, checks, sizeof checks / sizeof *checks);
}
