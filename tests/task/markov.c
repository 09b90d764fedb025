/* Markov chains in context: the same bits on every device; sequences by definition; reference predictors against sums
 * over chains, paths of hidden states and trees of contexts, written as the definitions say. */
#include "../core/scratch.h"
#include "frame.h"
#include "iclab/file.h"
#include "iclab/text.h"
#include "task/parts.h"

enum { BATCH = 19, MOST_SYMBOLS = 8, MOST_LENGTH = 40 };

/* Sums of at most a thousand terms, each rounded a few times. */
static const double ROUNDING = 1e-11;

/* ---- Batches ---- */

static const char *const worlds[] = {
    "task.family=markov",
    "task.family=markov task.symbols=4 task.order=2 task.alpha=0.3",
    "task.family=markov task.symbols=8 task.order=3 task.length=20", /* rows are drawn where they are needed */
    "task.family=markov task.pool=5 task.length=30",
    "task.family=markov task.pool=5 task.fresh_functions=true",
    "task.family=markov task.states=3 task.symbols=2",
    "task.family=markov task.states=2 task.symbols=5 task.pool=4",
};
enum { WORLDS = sizeof worlds / sizeof *worlds };

static size_t count_different_for_evaluation(task_test *test, const char *overrides) {
    drawn ours = {0}, theirs = {0};

    draw(&ours, test->device, BATCH, "%s", overrides);
    draw(&theirs, test->cpu, BATCH, "%s", overrides);
    const size_t different = count_different(&ours, &theirs) + (ours.sizes[SOURCE] == 0);
    release(&ours);
    release(&theirs);
    return different;
}

/* Returns symbol t of a sequence, from 0. The last one is a target alone. */
static size_t symbol_at(const drawn *all, size_t s, size_t t) {
    return t < all->length ? (size_t)all->inputs[s * all->length + t]
                           : (size_t)all->targets[s * all->scored + all->scored - 1];
}

/* Returns the last m symbols up to position t as a number. */
static size_t context_at(const drawn *all, size_t s, size_t t, size_t order) {
    size_t context = 0;
    for (size_t i = t + 1 - order; i <= t; i++)
        context = context * all->task->shape.symbols + symbol_at(all, s, i);
    return context;
}

static const float *source_at(const drawn *all, size_t s, size_t scored) {
    return all->source + (s * all->scored + scored) * all->task->shape.outputs;
}

/* Returns whether targets are the next symbols, sources are probabilities, and equal contexts have equal rows. */
static bool follows_definition(const drawn *all, size_t s, void *law) {
    const icl_markov *state = all->task->state;
    const size_t k = all->task->shape.symbols, first = all->task->shape.first_scored;

    (void)law;
    for (size_t i = 0; i < all->scored; i++) {
        const float *row = source_at(all, s, i);
        double sum = 0;
        for (size_t a = 0; a < k; a++)
            sum += (double)row[a];
        if (fabs(sum - 1) > 1e-6 || (size_t)all->targets[s * all->scored + i] != symbol_at(all, s, first + i + 1))
            return false;
        for (size_t j = 0; j < i && state->law.states == 0; j++)
            if (context_at(all, s, first + i, state->law.order) == context_at(all, s, first + j, state->law.order) &&
                memcmp(row, source_at(all, s, j), k * sizeof *row) != 0)
                return false;
    }
    return true;
}

/* Returns the number of contexts at which a short sequence, whose rows are drawn where they are needed, has another row
 * than a long one, whose chain is drawn as a whole. *compared: of how many. */
static size_t count_other_rows(icl_backend *backend, size_t *compared) {
    drawn few = {0}, many = {0};
    size_t other = 0;

    draw(&few, backend, BATCH, "task.family=markov task.symbols=3 task.order=3 task.length=20");
    draw(&many, backend, BATCH, "task.family=markov task.symbols=3 task.order=3 task.length=200");
    *compared = 0;
    for (size_t s = 0; s < BATCH; s++)
        for (size_t i = 0; i < few.scored; i++)
            for (size_t j = 0; j < many.scored; j++)
                if (context_at(&few, s, i + 2, 3) == context_at(&many, s, j + 2, 3)) {
                    ++*compared;
                    other += memcmp(source_at(&few, s, i), source_at(&many, s, j), 3 * sizeof(float)) != 0;
                }
    release(&few);
    release(&many);
    return other;
}

static void check_batches(task_test *test) {
    size_t compared;

    for (size_t i = 0; i < WORLDS; i++) {
        check_bits(test, worlds[i], BATCH, 4);
        const size_t different = count_different_for_evaluation(test, worlds[i]);
        const size_t wrong =
            count_wrong(test->device, ICL_FOR_EVALUATION, BATCH, 3, worlds[i], follows_definition, NULL);
        tap_ok(&test->tap, different == 0 && wrong == 0,
               "%s: %zu numbers differ for evaluation, %zu sequences differ from the definition", worlds[i], different,
               wrong);
    }
    const size_t other = count_other_rows(test->device, &compared);
    tap_ok(&test->tap, other == 0 && compared > 1000, "%zu of %zu rows depend on when they are drawn", other, compared);
}

/* ---- Predictors by their definitions ---- */

/* The symbols of a sequence so far. */
typedef struct history {
    size_t symbols[MOST_LENGTH + 1], length, k;
} history;

static history read_history(const drawn *all, size_t s, size_t length) {
    history seen = {.length = length, .k = all->task->shape.symbols};
    for (size_t t = 0; t < length; t++)
        seen.symbols[t] = symbol_at(all, s, t);
    return seen;
}

/* Returns whether the `depth` symbols before place t are those before place u. */
static bool is_same_context(const history *seen, size_t t, size_t u, size_t depth) {
    return t >= depth && u >= depth &&
           memcmp(seen->symbols + t - depth, seen->symbols + u - depth, depth * sizeof *seen->symbols) == 0;
}

/* (n_s(x) + added) / (n_s + k added) behind the last `depth` symbols, by comparing all places. */
static double gram_by_definition(const history *seen, size_t depth, double added, size_t symbol) {
    double right = added, all = (double)seen->k * added;

    if (seen->length < depth)
        return 1 / (double)seen->k;
    for (size_t t = 0; t < seen->length; t++)
        if (is_same_context(seen, t, seen->length, depth)) {
            right += seen->symbols[t] == symbol;
            all++;
        }
    return right / all;
}

/* log P_w of the symbols whose context ends with that of place `at` to this depth: lgamma in place of products of
 * estimates, and all children that occur, each found at its first place. */
static double weigh_tree(const history *seen, size_t at, size_t depth, size_t most, double alpha) {
    double counts[MOST_SYMBOLS] = {0}, total = 0, children = 0;

    for (size_t t = 0; t < seen->length; t++) {
        if (!is_same_context(seen, t, at, depth))
            continue;
        bool is_first = true;
        counts[seen->symbols[t]]++;
        total++;
        for (size_t u = 0; u < t; u++)
            is_first = is_first && !is_same_context(seen, u, t, depth + 1);
        if (depth < most && t == depth) /* the symbol before the sequence */
            children -= log((double)seen->k);
        else if (depth < most && is_first)
            children += weigh_tree(seen, t, depth + 1, most, alpha);
    }
    double leaf = lgamma((double)seen->k * alpha) - lgamma((double)seen->k * alpha + total);
    for (size_t a = 0; a < seen->k; a++)
        leaf += lgamma(counts[a] + alpha) - lgamma(alpha);
    if (depth == most)
        return leaf;
    const double larger = fmax(leaf, children);
    return larger + log(.5 * exp(leaf - larger) + .5 * exp(children - larger));
}

static double tree_by_definition(const history *seen, size_t depth, double alpha, size_t symbol) {
    history longer = *seen;
    longer.symbols[longer.length++] = symbol;
    return exp(weigh_tree(&longer, 0, 0, depth, alpha) - weigh_tree(seen, 0, 0, depth, alpha));
}

/* Returns P(symbols) under a chain: a product of its probabilities, or a sum of such over all paths of states. */
static double likelihood(const icl_chain_law *law, const double *chain, const history *seen) {
    const size_t k = law->symbols, states = law->states;
    double sum = 0;
    size_t paths = 1;

    for (size_t t = 0; t < seen->length && states > 0; t++)
        paths *= states;
    for (size_t path = 0; path < paths; path++) {
        double product = 1;
        size_t before = 0;
        for (size_t t = 0, rest = path; t<seen->length; t++, rest /= states> 0 ? states : 1) {
            const size_t z = states > 0 ? rest % states : 0;
            if (states > 0)
                product *= (t == 0 ? 1 / (double)states : chain[before * states + z]) *
                           chain[states * states + z * k + seen->symbols[t]];
            else if (t >= law->order)
                product *= chain[before * k + seen->symbols[t]];
            before = states > 0 ? z : (before * k + seen->symbols[t]) % law->contexts;
        }
        sum += product;
    }
    return sum;
}

static double pool_by_definition(const icl_markov *state, const history *seen, size_t symbol) {
    history longer = *seen;
    double with = 0, without = 0;

    longer.symbols[longer.length++] = symbol;
    for (size_t i = 0; i < state->pool; i++) {
        with += likelihood(&state->law, state->chains + i * state->law.size, &longer);
        without += likelihood(&state->law, state->chains + i * state->law.size, seen);
    }
    return with / without;
}

/* ---- Comparisons ---- */

static double by_definition(const icl_markov *state, const char *name, const history *seen, size_t symbol) {
    const double added = strchr(name, '+') ? 1 : state->alpha;

    if (strcmp(name, "bayes") == 0 && state->pool > 0)
        return pool_by_definition(state, seen, symbol);
    if (strcmp(name, "bayes") == 0)
        return gram_by_definition(seen, state->law.order, added, symbol);
    if (strcmp(name, "ctw") == 0)
        return tree_by_definition(seen, state->law.order > 3 ? state->law.order : 3, added, symbol);
    if (strcmp(name, "uniform") == 0)
        return 1 / (double)seen->k;
    return gram_by_definition(seen, name[0] == 'u' ? 0 : name[0] == 'b' ? 1 : 2, added, symbol);
}

/* Returns the largest distance of a predictor's probabilities from the definition. */
static double distance(drawn *all, const char *name) {
    const size_t k = all->task->shape.outputs;
    double worst = 0;

    predict(all, name);
    for (size_t s = 0; s < all->count; s++)
        for (size_t i = 0; i < all->scored; i++) {
            const history seen = read_history(all, s, all->task->shape.first_scored + i + 1);
            const double *logits = all->outputs + (s * all->scored + i) * k;
            double sum = 0;
            for (size_t a = 0; a < k; a++)
                sum += exp(logits[a]);
            for (size_t a = 0; a < k; a++)
                worst = fmax(worst, fabs(exp(logits[a]) / sum - by_definition(all->task->state, name, &seen, a)));
        }
    return worst;
}

typedef struct listed {
    const char *overrides, *names[10];
} listed;

static const listed lists[] = {
    {"task.family=markov task.length=24", {"source", "bayes", "unigram", "bigram", "trigram", "ctw", "uniform"}},
    {"task.family=markov task.symbols=2 task.order=4 task.length=40 task.alpha=0.5",
     {"source", "bayes", "unigram", "bigram", "trigram", "unigram+1", "bigram+1", "trigram+1", "ctw", "uniform"}},
    {"task.family=markov task.order=2 task.length=24 task.pool=7",
     {"source", "bayes", "unigram", "bigram", "trigram", "ctw", "uniform"}},
    {"task.family=markov task.states=2 task.length=9", {"source", "unigram", "bigram", "trigram", "ctw", "uniform"}},
    {"task.family=markov task.states=3 task.symbols=2 task.length=7 task.pool=3",
     {"source", "bayes", "unigram", "bigram", "trigram", "ctw", "uniform"}},
};

static void check_predictors(task_test *test) {
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        drawn all = {0};
        size_t count = 0;

        draw(&all, test->device, BATCH, "%s", lists[i].overrides);
        while (count < 10 && lists[i].names[count])
            count++;
        tap_ok(&test->tap, has_predictors(&all, lists[i].names, count), "%s: its %zu predictors", lists[i].overrides,
               count);
        for (size_t n = 1; n < count; n++) {
            const double away = distance(&all, lists[i].names[n]);
            tap_ok(&test->tap, away < ROUNDING, "%s: %s is %.2g from its definition", lists[i].overrides,
                   lists[i].names[n], away);
        }
        release(&all);
    }
}

/* With one chain in the pool its posterior is the source; logits of rounded probabilities. */
static void check_source(task_test *test) {
    static const char *const one[] = {"task.family=markov task.pool=1 task.order=2",
                                      "task.family=markov task.pool=1 task.states=4"};
    for (size_t i = 0; i < 2; i++) {
        drawn all = {0};
        double worst = 0;

        draw(&all, test->device, BATCH, "%s", one[i]);
        predict(&all, "bayes");
        double *bayes = take_outputs(&all);
        predict(&all, "source");
        for (size_t j = 0; j < all.count * all.scored * all.task->shape.outputs; j++)
            worst = fmax(worst, fabs(all.outputs[j] - bayes[j]));
        tap_ok(&test->tap, worst < 0x1p-23, "%s: the source is the posterior over one chain (%.2g)", one[i], worst);
        icl_free(&bayes);
        release(&all);
    }
}

/* ---- Chains of a file ---- */

/* Writes all numbers of the pool, a line for each row. */
static icl_status write_pool(const icl_markov *state, const char *path, icl_error *error) {
    icl_text text = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_text_print(&text, error, "# the pool\n"));
    for (size_t i = 0; i < state->pool * state->law.size;) {
        const size_t width =
            i % state->law.size < state->law.states * state->law.states ? state->law.states : state->law.symbols;
        for (size_t a = 0; a < width; a++, i++)
            ICL_TRY(icl_text_print(&text, error, "%.17g%s", state->chains[i], a + 1 < width ? ", " : "\n"));
        ICL_TRY(icl_text_print(&text, error, "\n"));
    }
    ICL_TRY(icl_file_write(path, text.bytes, text.length, error));
done:
    icl_text_release(&text);
    return status;
}

/* A pool that is read from a file has the batches of the pool that was drawn. */
static void check_file(task_test *test) {
    static const char *const pools[] = {"task.family=markov task.pool=5 task.order=2 task.length=30",
                                        "task.family=markov task.pool=4 task.states=2 task.symbols=5"};
    static const char *const files[] = {"task.family=markov task.order=2 task.length=30",
                                        "task.family=markov task.states=2 task.symbols=5"};
    scratch_folder scratch;

    scratch_open(&scratch);
    for (size_t i = 0; i < 2; i++) {
        drawn ours = {0}, theirs = {0};
        const char *path = scratch_path(&scratch, "chains.txt");
        double worst = 0;
        draw(&ours, test->device, BATCH, "%s", pools[i]);
        const icl_markov *pool = ours.task->state;
        tap_need(write_pool(pool, path, tap_error()));
        draw(&theirs, test->device, BATCH, "%s task.chain=%s", files[i], path);
        const icl_markov *read = theirs.task->state;
        for (size_t j = 0; j < pool->pool * pool->law.size && read->pool == pool->pool; j++)
            worst = fmax(worst, fabs(read->chains[j] - pool->chains[j]));
        tap_ok(&test->tap, read->pool == pool->pool && worst < 1e-15 && count_different(&ours, &theirs) == 0,
               "%zu chains of a file are those of the pool (%.2g)", read->pool, worst);
        release(&ours);
        release(&theirs);
    }
    scratch_close(&scratch);
}

static void check_bad_files(task_test *test) {
    static const struct {
        const char *text, *expected;
    } bad[] = {
        {"", "0 numbers: expected 4 for each chain, a row behind each of 2 contexts"},
        {".5 .5\n", "2 numbers: expected 4 for each chain"},
        {"# rows\n\n.5 .5\n.5 .25 .25\n", "line 4: 3 numbers: expected 2"},
        {".5 .5\n.5 .6\n", "line 2: the sum is 1.1: expected 1"},
        {"1.5 -.5\n1 0\n", "line 1: '1.5': expected a probability"},
        {"1 0\nnan 1\n", "line 2: 'nan': expected a probability"},
        {"1 0\n0 a\n", "line 2: 'a': expected a probability"},
    };
    char overrides[1024];
    scratch_folder scratch;

    scratch_open(&scratch);
    const char *path = scratch_path(&scratch, "chains.txt");
    snprintf(overrides, sizeof overrides, "task.family=markov task.symbols=2 task.chain=%s", path);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        icl_task *task = NULL;
        icl_error error = {0};
        tap_need(icl_file_write(path, bad[i].text, strlen(bad[i].text), tap_error()));
        const icl_status status = make_task(overrides, &task, &error);
        tap_ok(&test->tap, status == ICL_ERROR_INPUT && !task && strstr(error.message, bad[i].expected), "refused: %s",
               error.message);
        icl_task_destroy(&task);
    }
    scratch_close(&scratch);
}

static void check_refusal(task_test *test) {
    drawn all = {0};
    icl_error error = {0};

    open_batch(&all, test->device, ICL_FOR_TRAINING, BATCH, "task.family=markov");
    draw_step(&all, SEED, 0);
    tap_ok(&test->tap, ask_predictor(&all, "source", &error) == ICL_ERROR_INPUT && strstr(error.message, "source"),
           "in a batch for training: %s", error.message);
    release(&all);
}

int main(int count, char **arguments) {
    static task_check *const checks[] = {check_batches, check_predictors, check_source,
                                         check_file,    check_bad_files,  check_refusal};
    return run_checks(count, arguments, checks, sizeof checks / sizeof *checks);
}
