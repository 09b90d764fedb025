/* Markov chains in context have their laws: rows by their moments, symbols by the rows, the chains of a pool; and
 * losses of predictors agree with figures computed elsewhere and with a simulation that shares no code with the
 * library: own random numbers, gamma draws by rejection, dense tables of counts. */
#include "frame.h"
#include "task/parts.h"

enum { SEQUENCES = 4096, MOST_NUMBERS = 64 };

/* The most that a mean may be off, in standard errors; of losses as the figures of others. */
static const double CLOSE = 3;

/* ---- Rows ---- */

/* Dirichlet(alpha, …): E p = 1 / k, E p^2 = (alpha + 1) / (k (k alpha + 1)), E p_0 p_1 = alpha / (k (k alpha + 1)). */
static void check_rows(tap_run *tap, icl_backend *cpu, double alpha, size_t k) {
    enum { CHAINS = 20000 };
    const double scale = 1 / ((double)k * ((double)k * alpha + 1));
    statistic mean = {0}, square = {0}, product = {0};
    drawn all = {0};

    draw(&all, cpu, 1, "task.family=markov task.symbols=%zu task.alpha=%g task.pool=%d", k, alpha, (int)CHAINS);
    const icl_markov *state = all.task->state;
    for (size_t i = 0; i < CHAINS; i++) {
        const double *row = state->chains + (i * k + i % k) * k;
        add(&mean, row[0]);
        add(&square, row[k - 1] * row[k - 1]);
        add(&product, row[0] * row[1]);
    }
    release(&all);
    const double off[] = {deviation(&mean, 1 / (double)k), deviation(&square, (alpha + 1) * scale),
                          deviation(&product, alpha * scale)};
    tap_ok(tap, off[0] < BOUND && off[1] < BOUND && off[2] < BOUND,
           "alpha %g, k %zu: moments of rows are right (%.1f, %.1f, %.1f standard errors)", alpha, k, off[0], off[1],
           off[2]);
}

/* ---- Symbols ---- */

/* Given the symbols before, E 1{x = a} = p_a: so means of (1{x = a} - p_a) g are 0 for any g that the past decides. */
static void check_symbols(tap_run *tap, icl_backend *cpu, const char *overrides) {
    drawn all = {0};
    statistic plain = {0}, weighted = {0};
    size_t first[MOST_NUMBERS] = {0};

    draw(&all, cpu, SEQUENCES, "%s", overrides);
    const size_t k = all.task->shape.symbols;
    const bool is_hidden = strstr(overrides, "states") != NULL;
    for (size_t s = 0; s < all.count; s++) {
        double sums[2] = {0};
        for (size_t i = 0; i < all.scored; i++) {
            const float *p = all.source + (s * all.scored + i) * k;
            for (size_t a = 0; a < k; a++) {
                const double surprise = ((size_t)all.targets[s * all.scored + i] == a) - (double)p[a];
                sums[0] += a == 0 ? surprise : 0;
                sums[1] += surprise * (double)p[a];
            }
        }
        add(&plain, sums[0]);
        add(&weighted, sums[1]);
        first[(size_t)all.inputs[s * all.length]]++;
    }
    const double off[] = {deviation(&plain, 0), deviation(&weighted, 0),
                          is_hidden ? 0 : unevenness(first, k, all.count, 1)};
    tap_ok(tap, off[0] < BOUND && off[1] < BOUND && off[2] < BOUND,
           "%s: symbols follow the source, and the first of visible chains is uniform (%.1f, %.1f, %.1f)", overrides,
           off[0], off[1], off[2]);
    release(&all);
}

/* Returns how often sequences have each chain of the pool, by their first row; in `counts`, [pool + 1], last: none. */
static void count_chains(const drawn *all, size_t *counts) {
    const icl_markov *state = all->task->state;
    const size_t k = state->law.symbols;

    for (size_t s = 0; s < all->count; s++) {
        const size_t context = (size_t)all->inputs[s * all->length];
        size_t found = 0;
        while (found < state->pool && fabs(state->chains[found * state->law.size + context * k] -
                                           (double)all->source[s * all->scored * k]) > 1e-7)
            found++;
        counts[found]++;
    }
}

static void check_pool(tap_run *tap, icl_backend *cpu) {
    drawn all = {0}, other = {0};
    size_t counts[6] = {0}, fresh[6] = {0};

    draw(&all, cpu, SEQUENCES, "task.family=markov task.pool=5 task.length=4");
    count_chains(&all, counts);
    draw(&other, cpu, SEQUENCES, "task.family=markov task.pool=5 task.length=4 task.fresh_functions=true");
    count_chains(&other, fresh);
    const double uneven = unevenness(counts, 5, SEQUENCES, 1);
    tap_ok(tap, uneven < BOUND && counts[5] == 0, "the chains of a pool are equally likely (%.1f)", uneven);
    tap_ok(tap, fresh[5] == SEQUENCES, "fresh chains are none of the pool: %zu of %d", fresh[5], SEQUENCES);
    release(&all);
    release(&other);
}

/* ---- Losses ---- */

static statistic measure(drawn *all, const char *name) {
    const size_t k = all->task->shape.outputs;
    statistic seen = {0};

    predict(all, name);
    for (size_t s = 0; s < all->count; s++) {
        double sum = 0;
        for (size_t i = 0; i < all->scored; i++) {
            const size_t at = s * all->scored + i;
            const double class = (double)all->targets[at];
            sum += icl_loss_of(ICL_LOSS_CROSS_ENTROPY, k, all->outputs + at * k, &class);
        }
        add(&seen, sum / (double)all->scored);
    }
    return seen;
}

/* Means over positions by a program apart from this one, with alpha = 1, to a Monte Carlo error of .002. */
static void check_floors(tap_run *tap, icl_backend *cpu) {
    static const char *const names[] = {"source", "bayes", "unigram", "uniform"};
    static const struct {
        size_t symbols, length;
        double losses[4];
    } floors[] = {{2, 100, {.482, .512, .583, .693}},
                  {3, 100, {.820, .887, 1.009, 1.099}},
                  {8, 200, {1.717, 1.891, 2.068, 2.079}}};

    for (size_t f = 0; f < 3; f++) {
        drawn all = {0};
        draw(&all, cpu, SEQUENCES, "task.family=markov task.symbols=%zu task.length=%zu", floors[f].symbols,
             floors[f].length);
        for (size_t i = 0; i < 4; i++) {
            const statistic seen = measure(&all, names[i]);
            const double mean = seen.sum / seen.count, own = i < 3 ? standard_error(&seen) : 0;
            const double error = hypot(own, .002);
            tap_ok(tap, fabs(mean - floors[f].losses[i]) < CLOSE * error,
                   "k %zu, T %zu: %s %.4f +- %.4f, expected %.3f", floors[f].symbols, floors[f].length, names[i], mean,
                   error, floors[f].losses[i]);
        }
        release(&all);
    }
}

/* ---- A simulation ---- */

static uint64_t next_word(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double next_uniform(uint64_t *state) {
    return ((double)(next_word(state) >> 11) + .5) * 0x1p-53;
}

/* Marsaglia and Tsang 2000, for shapes below 1 with the factor u^(1 / shape). */
static double next_gamma(uint64_t *state, double shape) {
    const double d = (shape < 1 ? shape + 1 : shape) - 1. / 3, c = 1 / sqrt(9 * d);
    const double factor = shape < 1 ? pow(next_uniform(state), 1 / shape) : 1;

    for (;;) {
        const double u = next_uniform(state), angle = next_uniform(state);
        const double normal = sqrt(-2 * log(u)) * cos(6.28318530717958648 * angle), v = pow(1 + c * normal, 3);
        if (v > 0 && log(next_uniform(state)) < normal * normal / 2 + d - d * v + d * log(v))
            return factor * d * v;
    }
}

static size_t next_choice(uint64_t *state, const double *row, size_t count) {
    const double share = next_uniform(state);
    double sum = row[0];
    size_t chosen = 0;
    while (chosen + 1 < count && share >= sum)
        sum += row[++chosen];
    return chosen;
}

/* A world, and its losses: the source, Bayes, the unigram and the bigram with alpha added. */
typedef struct world {
    size_t k, order, length, states, pool;
    double alpha;
} world;

enum { SOURCE_LOSS = 0, BAYES_LOSS, UNIGRAM_LOSS, BIGRAM_LOSS, LOSSES };
static const char *const loss_names[LOSSES] = {"source", "bayes", "unigram", "bigram"};

static void draw_rows(uint64_t *state, double alpha, size_t rows, size_t k, double *out) {
    for (size_t r = 0; r < rows; r++) {
        double sum = 0;
        for (size_t a = 0; a < k; a++)
            sum += out[r * k + a] = next_gamma(state, alpha);
        for (size_t a = 0; a < k; a++)
            out[r * k + a] /= sum;
    }
}

/* -log of the counts' estimate of a symbol, which is then counted. */
static double take_count(double *counts, size_t k, double alpha, size_t symbol) {
    double total = 0;
    for (size_t a = 0; a < k; a++)
        total += counts[a] + alpha;
    return -log((counts[symbol]++ + alpha) / total);
}

/* Adds the losses of one sequence whose symbols are a chain, of the pool's tables or a fresh one. */
static void simulate_visible(const world *w, uint64_t *state, const double *pool, double *losses) {
    const size_t k = w->k, rows = w->order == 1 ? k : k * k;
    double own[MOST_NUMBERS], unigram[MOST_NUMBERS] = {0}, bigram[MOST_NUMBERS] = {0}, bayes[MOST_NUMBERS] = {0};
    double weights[MOST_NUMBERS];
    const double *chain = pool ? pool + next_word(state) % w->pool * rows * k : own;
    size_t before = 0, last = 0;

    draw_rows(state, w->alpha, rows, k, own);
    for (size_t i = 0; i < w->pool; i++)
        weights[i] = 1;
    for (size_t t = 0; t < w->length; t++) {
        const size_t row = before * k + last, place = w->order == 1 ? last : row;
        const double flat[] = {1 / (double)k, 1 / (double)k, 1 / (double)k, 1 / (double)k};
        const size_t symbol = next_choice(state, t < w->order ? flat : chain + place * k, k);
        const double by_unigram = take_count(unigram, k, w->alpha, symbol);
        const double by_bigram = t == 0 ? 0 : take_count(bigram + last * k, k, w->alpha, symbol);
        if (t >= w->order) {
            double with = 0, without = 0;
            for (size_t i = 0; i < w->pool; i++) {
                without += weights[i];
                with += weights[i] *= pool[(i * rows + place) * k + symbol];
            }
            losses[SOURCE_LOSS] -= log(chain[place * k + symbol]);
            losses[BAYES_LOSS] += pool ? -log(with / without) : take_count(bayes + place * k, k, w->alpha, symbol);
            losses[UNIGRAM_LOSS] += by_unigram;
            losses[BIGRAM_LOSS] += by_bigram;
        }
        before = last;
        last = symbol;
    }
}

/* The same for hidden states; the forward algorithm in logarithms of whole sums, without scaling. */
static void simulate_hidden(const world *w, uint64_t *state, double *losses) {
    const size_t k = w->k, H = w->states;
    double moves[MOST_NUMBERS], shown[MOST_NUMBERS], unigram[MOST_NUMBERS] = {0}, bigram[MOST_NUMBERS] = {0};
    double forward[MOST_NUMBERS], next[MOST_NUMBERS];
    size_t z = next_word(state) % H, last = 0;
    double before = 1;

    draw_rows(state, w->alpha, H, H, moves);
    draw_rows(state, w->alpha, H, k, shown);
    for (size_t i = 0; i < H; i++)
        forward[i] = 1 / (double)H;
    for (size_t t = 0; t < w->length; t++) {
        const size_t symbol = next_choice(state, shown + z * k, k);
        double whole = 0;
        for (size_t i = 0; i < H; i++)
            whole += forward[i] *= shown[i * k + symbol];
        for (size_t i = 0; i < H; i++) {
            next[i] = 0;
            for (size_t from = 0; from < H; from++)
                next[i] += forward[from] * moves[from * H + i];
        }
        memcpy(forward, next, sizeof forward);
        const double by_unigram = take_count(unigram, k, w->alpha, symbol);
        losses[UNIGRAM_LOSS] += t == 0 ? 0 : by_unigram;
        losses[BIGRAM_LOSS] += t == 0 ? 0 : take_count(bigram + last * k, k, w->alpha, symbol);
        losses[SOURCE_LOSS] -= t == 0 ? 0 : log(whole / before);
        before = whole;
        z = next_choice(state, moves + z * H, H);
        last = symbol;
    }
}

static void check_simulation(tap_run *tap, icl_backend *cpu, const world *w) {
    uint64_t state = 12345;
    statistic simulated[LOSSES] = {{0}};
    drawn all = {0};

    draw(&all, cpu, SEQUENCES,
         "task.family=markov task.symbols=%zu task.order=%zu task.length=%zu task.states=%zu task.pool=%zu "
         "task.alpha=%g",
         w->k, w->order, w->length, w->states, w->pool, w->alpha);
    const icl_markov *task = all.task->state;
    for (size_t s = 0; s < 2 * SEQUENCES; s++) {
        double losses[LOSSES] = {0};
        if (w->states > 0)
            simulate_hidden(w, &state, losses);
        else
            simulate_visible(w, &state, w->pool > 0 ? task->chains : NULL, losses);
        for (size_t i = 0; i < LOSSES; i++)
            add(&simulated[i], losses[i] / (double)all.scored);
    }
    for (size_t i = 0; i < LOSSES; i++) {
        if (i == BAYES_LOSS && w->states > 0)
            continue;
        const statistic ours = measure(&all, loss_names[i]);
        const double a = ours.sum / ours.count, b = simulated[i].sum / simulated[i].count;
        const double error = hypot(standard_error(&ours), standard_error(&simulated[i]));
        tap_ok(tap, fabs(a - b) < CLOSE * error, "k %zu, m %zu, T %zu, H %zu, M %zu, alpha %g: %s %.4f, simulated %.4f",
               w->k, w->order, w->length, w->states, w->pool, w->alpha, loss_names[i], a, b);
    }
    release(&all);
}

int main(void) {
    static const double alphas[] = {.05, .5, 1, 7};
    static const char *const worlds[] = {"task.family=markov",
                                         "task.family=markov task.order=2 task.symbols=4 task.alpha=0.2",
                                         "task.family=markov task.pool=3",
                                         "task.family=markov task.states=3 task.alpha=0.2",
                                         "task.family=markov task.states=2 task.pool=4 task.symbols=2",
                                         "task.family=markov task.states=3 task.pool=1 task.alpha=0.2 task.length=3"};
    static const world simulated[] = {{3, 1, 40, 0, 0, .3}, {2, 2, 60, 0, 0, 1},  {4, 1, 30, 0, 0, 2},
                                      {3, 1, 20, 0, 6, 1},  {2, 2, 40, 0, 5, .5}, {3, 1, 30, 4, 0, .3}};
    tap_run tap = {0};
    icl_backend *cpu = NULL;

    tap_need(icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &cpu, tap_error()));
    for (size_t i = 0; i < 4; i++) {
        check_rows(&tap, cpu, alphas[i], 2);
        check_rows(&tap, cpu, alphas[i], 5);
    }
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++)
        check_symbols(&tap, cpu, worlds[i]);
    check_pool(&tap, cpu);
    check_floors(&tap, cpu);
    for (size_t i = 0; i < sizeof simulated / sizeof *simulated; i++)
        check_simulation(&tap, cpu, &simulated[i]);
    icl_backend_close(&cpu);
    return tap_done(&tap);
}
