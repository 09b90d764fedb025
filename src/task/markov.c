/*
 * Markov chains in context: Edelman, Edelman, Goel, Malach, Tsilivis 2024, "The Evolution of Statistical Induction
 * Heads: In-Context Learning Markov Chains" (arXiv 2402.11004), and its n-grams.
 *
 *     x_1 … x_m uniform on k = task.symbols,  x_(t+1) ~ P(. | x_(t-m+1) … x_t) up to x_T, m = task.order,
 *     T = task.length; each of the k^m rows of P ~ Dirichlet(alpha, …, alpha), alpha = task.alpha
 *
 * With H = task.states > 0 states z_t, z_1 uniform, are a chain of order 1 and hidden; x_t ~ E(. | z_t), and the rows
 * of E have the same Dirichlet law.
 *
 * task.pool = M: the chain is one of M, drawn uniformly; with task.fresh_functions it is none of them. task.chain names
 * a file with the pool's chains. Otherwise every sequence has a chain of its own.
 *
 * Position t holds x_t, t = 1 … T - 1, and has the class x_(t+1). Scored are the positions from m on, whose classes the
 * chain gives; all of them for order 1 and for hidden chains. A model that is not causal sees the answers.
 *
 * The host draws: the chain of sequence s owns the words s C … of its stream, C the numbers of a chain, in which row c
 * is words c k …; sequence s owns the words s (1 + 2 T) … of another: one for the choice of the pool's
 * chain, T for its symbols, T for its states. Everything is made of them in double precision by +, -, *, / alone.
 */
#include "task/parts.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "core/threads.h"
#include "iclab/file.h"
#include "iclab/number.h"
#include "iclab/task_family.h"
#include "task/draws.h"
#include "task/laws.h"
#include "task/streams.h"
#include "task/task.h"

#define MOST_SYMBOLS 65536
#define MOST_STATES  4096
#define MOST_ORDER   24
#define MOST_NUMBERS ((size_t)1 << 24) /* of a pool, in doubles: 128 MiB */

/* ---- The recipe ---- */

typedef struct markov_keys {
    size_t symbols, order, states;
    double alpha;
    const char *chain;
} markov_keys;

#define KEY(field)  ICL_KEY("task", markov_keys, field)
#define NAME(field) ICL_KEY_NAME("task", markov_keys, field)

static const icl_recipe_key own_rows[] = {
    {KEY(symbols), "3", 2, MOST_SYMBOLS, .help = "symbols k of a Markov chain"},
    {KEY(order), "1", 1, MOST_ORDER, .help = "symbols m that the next one depends on"},
    {KEY(alpha), "1", ICL_SMALLEST_SHAPE, ICL_LARGEST_SHAPE, .help = "Dirichlet parameter of a chain's rows"},
    {KEY(states), "0", 0, MOST_STATES, .help = "hidden states H; 0: the symbols are the chain"},
    {KEY(chain), "", .help = "a text file with rows of probabilities: the chains of the pool; empty: they are drawn"},
};
static const icl_recipe_group own_keys = ICL_RECIPE_GROUP(own_rows);
const icl_recipe_group *const icl_markov_family_keys[] = {&own_keys, &icl_length_keys, &icl_law_pool_keys, NULL};

/* Sets contexts and size, if the tables of all chains of a pool have few enough numbers. */
static icl_status measure_chains(const icl_recipe *recipe, const icl_law_pool *pool, icl_chain_law *law,
                                 icl_error *error) {
    const size_t k = law->symbols, states = law->states;

    law->contexts = 1;
    for (size_t i = 0; i < law->order && states == 0; i++) {
        if (law->contexts > MOST_NUMBERS / k / k)
            return icl_recipe_reject(recipe, NAME(order), error,
                                     "an order m with k^m rows of k = %zu probabilities, %zu in all at most", k,
                                     MOST_NUMBERS);
        law->contexts *= k;
    }
    law->size = states > 0 ? states * (states + k) : law->contexts * k;
    if (law->size > MOST_NUMBERS)
        return icl_recipe_reject(recipe, NAME(states), error,
                                 "states H with H (H + k) probabilities, k = %zu, %zu in all at most", k, MOST_NUMBERS);
    if (pool->pool > MOST_NUMBERS / law->size)
        return icl_recipe_reject(recipe, ICL_LAW_POOL_KEY(pool), error,
                                 "at most %zu chains of %zu probabilities, %zu in all", MOST_NUMBERS / law->size,
                                 law->size, MOST_NUMBERS);
    return ICL_OK;
}

/* ---- Chains ---- */

#define TWICE_LN_2 1.38629436111989061883 /* 2 log 2 */

/* Returns a draw from Gamma(alpha, 1): the square of a radius, by its table of log2 (ops_gram.h states the pieces). */
static double draw_gamma(const icl_markov *state, uint32_t word) {
    const double z = (double)icl_normal_from_word(word);
    const int piece = (int)(z + (double)ICL_CHI_PIECES / 2);
    const double t = z - (piece - (ICL_CHI_PIECES - 1) / 2.0);
    const double *row = state->radii + (size_t)piece * ICL_CHI_TERMS;
    double logarithm = row[ICL_CHI_TERMS - 1];

    for (int term = ICL_CHI_TERMS - 2; term >= 0; term--)
        logarithm = logarithm * t + row[term];
    return icl_exponential(TWICE_LN_2 * logarithm);
}

/* Draws numbers [first, first + count) of chain `number` of the key, whole rows, to out [count]: number i is made from
 * word number C + i of the stream. */
static void draw_chain(const icl_markov *state, icl_random_key key, uint64_t number, size_t first, size_t count,
                       double *out) {
    const icl_chain_law *law = &state->law;
    const uint64_t words = number * law->size + first;

    for (size_t at = 0; at < count;) { /* gamma draws over their sum have a Dirichlet distribution */
        const size_t row = first + at < law->states * law->states ? law->states : law->symbols;
        double sum = 0;
        for (size_t i = 0; i < row; i++)
            sum += out[at + i] = draw_gamma(state, icl_random_word(key, words + at + i));
        for (size_t i = 0; i < row; i++)
            out[at + i] /= sum;
        at += row;
    }
}

/* Returns the outcome a of a row, p_0 + … + p_(a-1) <= w / 2^32 < p_0 + … + p_a, for a random word w. */
static uint32_t choose(const double *row, size_t count, uint32_t word) {
    const double share = (double)word * 0x1p-32;
    double sum = 0;

    for (size_t i = 0; i + 1 < count; i++)
        if (share < (sum += row[i]))
            return (uint32_t)i;
    return (uint32_t)(count - 1);
}

/* ---- Mixtures of chains ---- */

/*
 * A mixture of chains, each as likely as the others at first, with tables of law->size numbers, one after the other:
 *
 *     visible   w_c <- w_c P_c(x | context)                          p(x) = sum_c w_c P_c(x | context)
 *     hidden    f_c(z') <- sum_z f_c(z) E_c(x | z) A_c(z' | z)       p(x) = sum_c sum_z f_c(z) E_c(x | z)
 *
 * scaled to the sum 1 after each symbol: the posterior over chains and states, and its prediction (the forward
 * algorithm). For one chain it is the prediction of who knows the chain.
 */
typedef struct chain_mixture {
    const icl_chain_law *law;
    const double *chains; /* [count][law->size] */
    size_t count;
    double *weights; /* [mixture_size], in the caller's memory */
} chain_mixture;

/* Returns how many weights a mixture of so many chains needs. */
static size_t mixture_size(const icl_chain_law *law, size_t count) {
    return law->states > 0 ? (count + 1) * law->states : count; /* and a row to work in */
}

/* Begins a sequence. */
static void start_mixture(const chain_mixture *mixture) {
    const size_t count = mixture->count * (mixture->law->states > 0 ? mixture->law->states : 1);

    for (size_t i = 0; i < count; i++)
        mixture->weights[i] = 1 / (double)count;
}

/* Returns the probabilities of the next symbol in a state of a chain, [k], or behind a context. */
static const double *symbols_of(const chain_mixture *mixture, size_t chain, size_t place) {
    const icl_chain_law *law = mixture->law;
    return mixture->chains + chain * law->size + law->states * law->states + place * law->symbols;
}

/* Computes the probabilities p [k] of the next symbol, behind this context if symbols are visible. */
static void predict_by_mixture(const chain_mixture *mixture, size_t context, double *p) {
    const icl_chain_law *law = mixture->law;
    const size_t places = law->states > 0 ? law->states : 1;

    memset(p, 0, law->symbols * sizeof *p);
    for (size_t chain = 0; chain < mixture->count; chain++)
        for (size_t i = 0; i < places; i++) {
            const double *row = symbols_of(mixture, chain, law->states > 0 ? i : context);
            const double weight = mixture->weights[chain * places + i];
            for (size_t a = 0; a < law->symbols; a++)
                p[a] += weight * row[a];
        }
}

/* Moves the states of a chain, whose weights are f_c(z) E_c(x | z), to the next position. */
static void move_states(const chain_mixture *mixture, size_t chain) {
    const size_t states = mixture->law->states;
    const double *next = mixture->chains + chain * mixture->law->size;
    double *weights = mixture->weights + chain * states, *moved = mixture->weights + mixture->count * states;

    memset(moved, 0, states * sizeof *moved);
    for (size_t z = 0; z < states; z++)
        for (size_t to = 0; to < states; to++)
            moved[to] += weights[z] * next[z * states + to];
    memcpy(weights, moved, states * sizeof *weights);
}

/* Takes in that the next symbol is `symbol`. */
static void observe_in_mixture(const chain_mixture *mixture, size_t context, size_t symbol) {
    const icl_chain_law *law = mixture->law;
    const size_t places = law->states > 0 ? law->states : 1;
    double sum = 0;

    for (size_t chain = 0; chain < mixture->count; chain++)
        for (size_t i = 0; i < places; i++)
            sum += mixture->weights[chain * places + i] *=
                symbols_of(mixture, chain, law->states > 0 ? i : context)[symbol];
    for (size_t i = 0; i < mixture->count * places; i++)
        mixture->weights[i] /= sum;
    for (size_t chain = 0; chain < mixture->count && law->states > 0; chain++)
        move_states(mixture, chain);
}

/* ---- Chains of a user's own: a text file of probabilities ---- */

#define BETWEEN     ", \t\r"
#define MOST_BYTES  ((size_t)1 << 30)
#define NEAR_TO_ONE 1e-6

/* The rest of the file, and the number of its last line that was read. */
typedef struct reader {
    const char *path, *at;
    size_t line;
} reader;

/* Returns the next line that is neither empty nor a comment, from its first number on; NULL: there is none. */
static const char *next_line(reader *file) {
    while (*file->at) {
        const char *start = file->at + strspn(file->at, BETWEEN);
        file->at += strcspn(file->at, "\n");
        file->at += *file->at == '\n';
        file->line++;
        if (*start && *start != '\n' && *start != '#')
            return start;
    }
    return NULL;
}

/* Reads the `count` probabilities of a line and divides them by their sum, which is 1 but for rounding. */
static icl_status read_row(const reader *file, const char *text, size_t count, double *row, icl_error *error) {
    double sum = 0;
    size_t found = 0;

    for (; *text && *text != '\n'; text += strspn(text, BETWEEN)) {
        const size_t length = strcspn(text, BETWEEN "\n");
        double value;
        if (!icl_parse_number(text, length, &value) || !(value >= 0 && value <= 1))
            return icl_fail(error, ICL_ERROR_INPUT, "task.chain: %s: line %zu: '%.*s': expected a probability",
                            file->path, file->line, (int)(length < 32 ? length : 32), text);
        if (found < count)
            row[found] = value;
        found++;
        sum += value;
        text += length;
    }
    if (found != count)
        return icl_fail(error, ICL_ERROR_INPUT, "task.chain: %s: line %zu: %zu numbers: expected %zu", file->path,
                        file->line, found, count);
    if (!(fabs(sum - 1) <= NEAR_TO_ONE))
        return icl_fail(error, ICL_ERROR_INPUT, "task.chain: %s: line %zu: the sum is %.9g: expected 1, within %g",
                        file->path, file->line, sum, NEAR_TO_ONE);
    for (size_t i = 0; i < count; i++)
        row[i] /= sum;
    return ICL_OK;
}

/* Reads all rows; chains: room for so many numbers. Returns the numbers in *found. */
static icl_status read_rows(reader *file, const icl_chain_law *law, double *chains, size_t most, size_t *found,
                            icl_error *error) {
    const char *line;

    for (*found = 0; (line = next_line(file)) != NULL;) {
        const size_t width = *found % law->size < law->states * law->states ? law->states : law->symbols;
        if (width > most - *found)
            return icl_fail(error, ICL_ERROR_INPUT, "task.chain: %s: line %zu: expected at most %zu numbers in all",
                            file->path, file->line, most);
        ICL_CHECK(read_row(file, line, width, chains + *found, error));
        *found += width;
    }
    if (*found == 0 || *found % law->size != 0)
        return icl_fail(
            error, ICL_ERROR_INPUT,
            "task.chain: %s: %zu numbers: expected %zu for each chain, a row behind each of %zu contexts or "
            "states",
            file->path, *found, law->size, law->states > 0 ? 2 * law->states : law->contexts);
    return ICL_OK;
}

/* Reads a pool of chains from a text file into state->chains, which the caller frees. A line is a row of probabilities
 * with commas or spaces between them: law->contexts rows of k for each chain, or the H rows of H of its states and the
 * H rows of k of their symbols. Empty lines and those that begin with # do not count. At most `most` numbers.
 * ICL_ERROR_IO if it cannot be read, ICL_ERROR_INPUT if it holds anything else. */
static icl_status read_chains(const char *path, icl_markov *state, size_t most, icl_error *error) {
    reader file = {.path = path};
    char *text = NULL;
    size_t size = 0, found = 0;
    icl_status status = ICL_OK;

    ICL_TRY(icl_file_read(path, MOST_BYTES, &text, &size, error));
    file.at = text;
    /* Two bytes hold a number at least. */
    const size_t room = size / 2 + 1 < most ? size / 2 + 1 : most;
    ICL_TRY(icl_allocate(room, sizeof *state->chains, "chains of task.chain", &state->chains, error));
    ICL_TRY(read_rows(&file, &state->law, state->chains, room, &found, error));
    state->pool = found / state->law.size;
    state->is_fresh = false;
done:
    icl_text_free(&text);
    return status;
}

/* ---- Reference predictors ---- */

/*
 * Reference predictors of Markov chains, at every scored position from the symbols so far:
 *
 *     source                      the chain's own row; of a hidden chain, the forward algorithm with its own tables
 *     bayes                       of a pool, the posterior over its chains, also of hidden ones; of fresh chains the
 *                                 posterior mean of a row, (n_s(x) + alpha) / (n_s + k alpha), n_s counted behind the
 *                                 last m symbols s. Fresh hidden chains have none: their posterior has no closed form
 *     unigram, bigram, trigram    the same with 0, 1 or 2 symbols s, whatever the order; unigram+1, bigram+1, trigram+1
 *                                 with 1 in place of alpha, if that is another number
 *     ctw                         Bayes over trees of contexts (below) of depth max(3, m)
 *     uniform                     1 / k
 */

enum { LEAST_TREE = 3 };

/* ---- Trees of contexts ---- */

/*
 * Counts of symbols by the symbols before them, as a tree, and Bayes over trees of contexts: context-tree weighting,
 * Willems, Shtarkov, Tjalkens 1995, "The context-tree weighting method: basic properties", IEEE Transactions on
 * Information Theory 41(3).
 *
 * The node of d symbols stands for the context that ends with them; node () is the root, its children add an earlier
 * symbol. A source is a tree of contexts, each of whose leaves has probabilities ~ Dirichlet(alpha) of the next symbol.
 * A node is a leaf with probability 1/2, independently, and at depth D always. With P_e(s) the probability of the
 * symbols that came behind s, if s is a leaf, and P_w(s) if it may be more,
 *
 *     P_w(s) = 1/2 P_e(s) + 1/2 prod_a P_w(a s),   P_w = P_e at depth D
 *
 * and the prediction at s is w e_s(x) + (1 - w) times that of its child, w = P_e / (P_e + prod P_w), e_s(x) =
 * (n_s(x) + alpha) / (n_s + k alpha). Before the sequence stands a symbol of its own: a context that reaches beyond the
 * beginning was never seen, and all symbols are equally likely behind it.
 */

enum { MOST_DEPTH = 24 };

typedef struct context_tree {
    size_t symbols, depth; /* k, D */
    double alpha;
    size_t nodes;                         /* in use; the root is node 0 */
    uint32_t *children;                   /* [nodes][k]; 0: none */
    double *counts;                       /* [nodes][k] */
    double *totals;                       /* [nodes], their sums */
    double *odds;                         /* [nodes], log P_e - log prod P_w, 0 at depth D */
    size_t path[MOST_DEPTH + 1], reached; /* the nodes of the present context, down to depth `reached` */
} context_tree;

static uint32_t add_node(context_tree *tree) {
    const size_t node = tree->nodes++, k = tree->symbols;

    memset(tree->children + node * k, 0, k * sizeof *tree->children);
    memset(tree->counts + node * k, 0, k * sizeof *tree->counts);
    tree->totals[node] = tree->odds[node] = 0;
    return (uint32_t)node;
}

/* Forgets everything. */
static void clear_tree(context_tree *tree) {
    tree->nodes = 0;
    tree->path[0] = add_node(tree);
    tree->reached = 0;
}

/* Makes a tree for sequences of up to `length` symbols. destroy_tree cleans up, also after a failure. */
static icl_status create_tree(size_t symbols, size_t depth, double alpha, size_t length, context_tree *tree,
                              icl_error *error) {
    const size_t most = 1 + depth * length; /* each symbol adds at most a path */

    assert(depth <= MOST_DEPTH);
    *tree = (context_tree){.symbols = symbols, .depth = depth, .alpha = alpha};
    ICL_CHECK(icl_allocate(most, symbols * sizeof *tree->children, "contexts", &tree->children, error));
    ICL_CHECK(icl_allocate(most, symbols * sizeof *tree->counts, "contexts", &tree->counts, error));
    ICL_CHECK(icl_allocate(most, sizeof *tree->totals, "contexts", &tree->totals, error));
    ICL_CHECK(icl_allocate(most, sizeof *tree->odds, "contexts", &tree->odds, error));
    clear_tree(tree);
    return ICL_OK;
}

static void destroy_tree(context_tree *tree) {
    icl_free(&tree->children);
    icl_free(&tree->counts);
    icl_free(&tree->totals);
    icl_free(&tree->odds);
}

/* Goes to the context of the `length` symbols before `end`. */
static void enter_context(context_tree *tree, const float *end, size_t length) {
    tree->reached = length < tree->depth ? length : tree->depth;
    for (size_t d = 0; d < tree->reached; d++) {
        const size_t symbol = (size_t)end[-1 - (ptrdiff_t)d];
        uint32_t *child = &tree->children[tree->path[d] * tree->symbols + symbol];
        if (*child == 0)
            *child = add_node(tree);
        tree->path[d + 1] = *child;
    }
}

/* Returns e_s(x), with `added` in place of alpha. */
static double estimate(const context_tree *tree, size_t node, double added, size_t symbol) {
    const size_t k = tree->symbols;
    return (tree->counts[node * k + symbol] + added) / (tree->totals[node] + (double)k * added);
}

/* Computes the probabilities p [k] of the next symbol by the counts behind the last `depth` symbols, with this many
 * added to each; equal ones if there are not so many symbols. */
static void predict_by_context(const context_tree *tree, size_t depth, double added, double *p) {
    for (size_t a = 0; a < tree->symbols; a++)
        p[a] = depth <= tree->reached ? estimate(tree, tree->path[depth], added, a) : 1 / (double)tree->symbols;
}

/* Returns the prediction at the node of depth d, from that of its child. */
static double mix(const context_tree *tree, size_t d, double of_leaf, double of_child) {
    if (d == tree->depth)
        return of_leaf;
    const double weight = 1 / (1 + exp(-tree->odds[tree->path[d]]));
    return weight * of_leaf + (1 - weight) * of_child;
}

/* Computes the probabilities p [k] of the next symbol by Bayes over trees. */
static void predict_by_tree(const context_tree *tree, double *p) {
    for (size_t a = 0; a < tree->symbols; a++) {
        p[a] = 1 / (double)tree->symbols;
        for (size_t d = tree->reached + 1; d-- > 0;)
            p[a] = mix(tree, d, estimate(tree, tree->path[d], tree->alpha, a), p[a]);
    }
}

/* Takes in that the next symbol is `symbol`. */
static void observe_symbol(context_tree *tree, size_t symbol) {
    double below = 1 / (double)tree->symbols;

    for (size_t d = tree->reached + 1; d-- > 0;) {
        const size_t node = tree->path[d];
        const double of_leaf = estimate(tree, node, tree->alpha, symbol), mixed = mix(tree, d, of_leaf, below);
        if (d < tree->depth)
            tree->odds[node] += log(of_leaf / below);
        tree->counts[node * tree->symbols + symbol]++;
        tree->totals[node]++;
        below = mixed;
    }
}

/* ---- Prediction by the source ---- */

static icl_status predict_source(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                 double *outputs, icl_error *error) {
    const icl_tensor side = icl_batch_side(shown->batch, ICL_SIDE_SOURCE);
    float *p = NULL;

    if (!side.buffer)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: the batch lacks the side tensor %s, as those for training do",
                        predictor->name, ICL_SIDE_SOURCE);
    ICL_CHECK(icl_allocate(icl_tensor_count(&side), sizeof *p, "source", &p, error));
    const icl_status status = icl_tensor_read(side, p, error);
    for (size_t i = 0; status == ICL_OK && i < shown->count * shown->task->shape.scored * shown->task->shape.outputs;
         i++)
        outputs[i] = log((double)p[i]);
    icl_free(&p);
    return status;
}

/* ---- Prediction from counts ---- */

/* A predictor's loop over sequences; trees [threads]. */
typedef struct counting {
    const icl_shown_sequences *shown;
    const icl_gram *gram; /* NULL: Bayes over trees */
    context_tree *trees;
    double *outputs;
} counting;

static void take_logarithms(double *p, size_t count) {
    for (size_t a = 0; a < count; a++)
        p[a] = log(p[a]);
}

static void count_one(void *context, size_t index, size_t thread) {
    const counting *job = context;
    const icl_task_shape *shape = &job->shown->task->shape;
    const float *inputs = job->shown->inputs + index * shape->positions;
    double *p = job->outputs + index * shape->scored * shape->outputs;
    context_tree *tree = &job->trees[thread];

    clear_tree(tree);
    for (size_t t = 0; t < shape->positions; t++) {
        observe_symbol(tree, (size_t)inputs[t]);
        enter_context(tree, inputs + t + 1, t + 1);
        if (t < shape->first_scored)
            continue;
        if (job->gram)
            predict_by_context(tree, job->gram->depth, job->gram->added, p);
        else
            predict_by_tree(tree, p);
        take_logarithms(p, shape->outputs);
        p += shape->outputs;
    }
}

/* settings: an icl_gram, or NULL. */
static icl_status predict_by_counts(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                    double *outputs, icl_error *error) {
    const icl_markov *state = shown->task->state;
    const icl_task_shape *shape = &shown->task->shape;
    const size_t threads = icl_parallel_threads();
    counting job = {shown, predictor->settings, NULL, outputs};
    const size_t depth = job.gram ? job.gram->depth : state->law.order > LEAST_TREE ? state->law.order : LEAST_TREE;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(threads, sizeof *job.trees, "contexts", &job.trees, error));
    for (size_t i = 0; i < threads; i++)
        ICL_TRY(create_tree(shape->symbols, depth, state->alpha, shape->positions, &job.trees[i], error));
    icl_parallel_for(shown->count, threads, count_one, &job);
done:
    for (size_t i = 0; job.trees && i < threads; i++)
        destroy_tree(&job.trees[i]);
    icl_free(&job.trees);
    return status;
}

/* ---- Prediction from a pool ---- */

static void mix_sequence(const icl_task *task, const void *settings, size_t number, const float *inputs, double *work,
                         double *outputs) {
    const icl_markov *state = task->state;
    const icl_chain_law *law = &state->law;
    const chain_mixture pool = {law, state->chains, state->pool, work};
    size_t context = 0;

    (void)settings;
    (void)number;
    start_mixture(&pool);
    for (size_t t = 0; t < task->shape.positions; t++) {
        const size_t symbol = (size_t)inputs[t];
        if (t >= law->order || law->states > 0)
            observe_in_mixture(&pool, context, symbol);
        context = (context * law->symbols + symbol) % law->contexts;
        if (t < task->shape.first_scored)
            continue;
        predict_by_mixture(&pool, context, outputs);
        take_logarithms(outputs, law->symbols);
        outputs += law->symbols;
    }
}

static icl_status predict_by_pool(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                  double *outputs, icl_error *error) {
    const icl_markov *state = shown->task->state;

    (void)predictor;
    return icl_task_for_each(shown->task, mix_sequence, NULL, mixture_size(&state->law, state->pool), shown->count,
                             shown->inputs, outputs, error);
}

/* ---- The table of predictors ---- */

/* Fills in the reference predictors of the law, alpha and pool. */
static void list_references(icl_markov *state) {
    static const char *const names[ICL_MARKOV_GRAMS] = {"bayes",     "unigram",  "bigram",   "trigram",
                                                        "unigram+1", "bigram+1", "trigram+1"};
    const size_t used = state->alpha == 1 ? 4 : ICL_MARKOV_GRAMS;
    icl_reference_predictor *next = state->references;

    *next++ = (icl_reference_predictor){.name = "source", .predict = predict_source};
    if (state->pool > 0)
        *next++ = (icl_reference_predictor){.name = "bayes", .predict = predict_by_pool};
    for (size_t i = 0; i < used; i++) {
        state->grams[i] = (icl_gram){i == 0 ? state->law.order : (i - 1) % 3, i < 4 ? state->alpha : 1};
        if (i > 0 || (state->pool == 0 && state->law.states == 0))
            *next++ =
                (icl_reference_predictor){.name = names[i], .settings = &state->grams[i], .predict = predict_by_counts};
    }
    *next++ = (icl_reference_predictor){.name = "ctw", .predict = predict_by_counts};
    *next = (icl_reference_predictor){.name = "uniform", .predict = icl_task_predict_zero};
}

/* ---- The task ---- */

static icl_status draw_pool(const icl_law_pool *pool, icl_markov *state, icl_error *error) {
    const icl_random_key key = {.seed = (uint32_t)pool->pool_seed, .stream = ICL_MARKOV_POOL_STREAM};

    state->pool = (size_t)pool->pool;
    state->is_fresh = pool->pool == 0 || pool->fresh_functions;
    ICL_CHECK(
        icl_allocate(state->pool, state->law.size * sizeof *state->chains, "pool of chains", &state->chains, error));
    for (size_t i = 0; i < state->pool; i++)
        draw_chain(state, key, i, 0, state->law.size, state->chains + i * state->law.size);
    return ICL_OK;
}

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    const icl_law_pool pool = icl_law_pool_read(recipe);
    icl_vocabulary size;
    markov_keys keys;
    icl_markov *state = NULL;

    icl_recipe_read(recipe, &own_keys, &keys);
    icl_recipe_read(recipe, &icl_length_keys, &size);
    if (keys.states > 0 && keys.order > 1)
        return icl_recipe_reject(recipe, NAME(order), error, "1, because task.states = %zu are hidden", keys.states);
    if (size.length < keys.order + 2)
        return icl_recipe_reject(recipe, ICL_VOCABULARY_KEY(length), error,
                                 "at least %zu: two symbols behind the first %zu", keys.order + 2, keys.order);
    ICL_CHECK(icl_allocate(1, sizeof *state, "Markov chains", &state, error));
    task->state = state;
    state->law = (icl_chain_law){.symbols = keys.symbols, .order = keys.order, .states = keys.states};
    state->alpha = keys.alpha;
    ICL_CHECK(measure_chains(recipe, &pool, &state->law, error));
    icl_radius_table(keys.alpha, 1, state->radii);
    if (keys.chain[0] && pool.pool > 0)
        return icl_recipe_reject(recipe, ICL_LAW_POOL_KEY(pool), error, "0: the chains of task.chain are the pool");
    ICL_CHECK(keys.chain[0] ? read_chains(keys.chain, state, MOST_NUMBERS, error) : draw_pool(&pool, state, error));
    list_references(state);
    task->shape = (icl_task_shape){.positions = size.length - 1,
                                   .symbols = keys.symbols,
                                   .outputs = keys.symbols,
                                   .first_scored = keys.order - 1,
                                   .scored = size.length - keys.order,
                                   .loss = ICL_LOSS_CROSS_ENTROPY};
    return ICL_OK;
}

static void destroy(icl_task *task) {
    icl_markov *state = task->state;

    if (state)
        icl_free(&state->chains);
    icl_free(&task->state);
}

/* ---- Batches ---- */

/* The tensors that a batch keeps in icl_batch.scratch. */
enum { TARGETS = 0 /* [B, S, 1] */, SOURCE /* [B, S, k] */ };

static icl_status batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                               icl_batch *batch, icl_error *error) {
    const size_t scored = task->shape.scored;

    ICL_CHECK(icl_tensor_create(backend, 2, (size_t[]){size, task->shape.positions}, &batch->inputs, error));
    ICL_CHECK(icl_tensor_create(backend, 3, (size_t[]){size, scored, 1}, &batch->scratch[TARGETS], error));
    batch->targets = batch->scratch[TARGETS];
    if (purpose == ICL_FOR_TRAINING)
        return ICL_OK;
    ICL_CHECK(
        icl_tensor_create(backend, 3, (size_t[]){size, scored, task->shape.outputs}, &batch->scratch[SOURCE], error));
    return icl_batch_add_side(batch, ICL_SIDE_SOURCE, batch->scratch[SOURCE], error);
}

/* A batch, its streams, and for each thread [room] doubles: a table or a row, and then k and H numbers to work in. */
typedef struct drawing {
    const icl_task *task;
    icl_random_key symbols, chains;
    icl_batch_values out;
    double *rooms;
    size_t room;
} drawing;

/* Returns whether a sequence's own chain is drawn as a whole: if it has fewer rows than the sequence has symbols.
 * Otherwise each row is drawn where it is needed, as often as it is needed. */
static bool draws_whole(const icl_task *task) {
    const icl_markov *state = task->state;
    return state->law.states > 0 || state->law.contexts <= task->shape.scored;
}

/* Writes symbol t of the sequence, from 0, and the probabilities that the chain gave it. */
static void write_symbol(const drawing *picture, size_t index, size_t t, uint32_t symbol, const double *p) {
    const icl_task_shape *shape = &picture->task->shape;
    const size_t place = index * shape->scored + t - 1 - shape->first_scored;

    if (t < shape->positions)
        picture->out.inputs[index * shape->positions + t] = (float)symbol;
    if (t <= shape->first_scored)
        return;
    picture->out.targets[place] = (float)symbol;
    if (picture->out.sides[0])
        icl_narrow(p, shape->outputs, picture->out.sides[0] + place * shape->outputs);
}

/* Draws a sequence whose symbols are the chain. table: NULL if its rows are drawn where they are needed. */
static void draw_visible(const drawing *picture, size_t index, const double *table, uint64_t words, double *room) {
    const icl_markov *state = picture->task->state;
    const icl_chain_law *law = &state->law;
    const size_t length = picture->task->shape.positions + 1, k = law->symbols;
    size_t context = 0;

    for (size_t t = 0; t < length; t++) {
        const uint32_t word = icl_random_word(picture->symbols, words + t);
        const double *row = table ? table + context * k : room;
        uint32_t symbol;
        if (t < law->order) {
            symbol = (uint32_t)((uint64_t)word * k >> 32);
        } else {
            if (!table)
                draw_chain(state, picture->chains, index, context * k, k, room);
            symbol = choose(row, k, word);
        }
        write_symbol(picture, index, t, symbol, row);
        context = (context * k + symbol) % law->contexts;
    }
}

/* Draws a sequence of hidden states. The source knows the chain, and the states only by their symbols. */
static void draw_hidden(const drawing *picture, size_t index, const double *table, uint64_t words, double *room) {
    const icl_markov *state = picture->task->state;
    const icl_chain_law *law = &state->law;
    const size_t length = picture->task->shape.positions + 1, k = law->symbols, states = law->states;
    const chain_mixture known = {law, table, 1, room + k};
    size_t z = 0;

    start_mixture(&known);
    for (size_t t = 0; t < length; t++) {
        const uint32_t word = icl_random_word(picture->symbols, words + t),
                       moving = icl_random_word(picture->symbols, words + length + t);
        z = t > 0 ? choose(table + z * states, states, moving) : (size_t)((uint64_t)moving * states >> 32);
        const uint32_t symbol = choose(table + states * states + z * k, k, word);
        if (picture->out.sides[0])
            predict_by_mixture(&known, 0, room);
        write_symbol(picture, index, t, symbol, room);
        if (picture->out.sides[0])
            observe_in_mixture(&known, 0, symbol);
    }
}

static void draw_one(void *context, size_t index, size_t thread) {
    const drawing *picture = context;
    const icl_markov *state = picture->task->state;
    const icl_chain_law *law = &state->law;
    const uint64_t words = (uint64_t)index * (1 + 2 * (picture->task->shape.positions + 1));
    double *room = picture->rooms + thread * picture->room;
    const double *table = NULL;

    if (!state->is_fresh) {
        table = state->chains + icl_draw_below(picture->symbols, words, state->pool) * law->size;
    } else if (draws_whole(picture->task)) {
        draw_chain(state, picture->chains, index, 0, law->size, room);
        table = room;
        room += law->size;
    }
    if (law->states > 0)
        draw_hidden(picture, index, table, words + 1, room);
    else
        draw_visible(picture, index, table, words + 1, room);
}

static icl_status draw_batch(const icl_task *task, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                             const icl_batch_values *values, icl_error *error) {
    const icl_markov *state = task->state;
    const size_t threads = icl_parallel_threads(), table = draws_whole(task) ? state->law.size : 0;
    drawing all = {.task = task,
                   .symbols = {seed, icl_stream_for(purpose, ICL_MARKOV_STREAMS), step},
                   .chains = {seed, icl_stream_for(purpose, ICL_MARKOV_CHAIN_STREAMS), step},
                   .out = *values,
                   .room = table + state->law.symbols + mixture_size(&state->law, 1)};

    ICL_CHECK(icl_allocate(threads, all.room * sizeof *all.rooms, "chains", &all.rooms, error));
    icl_parallel_for(values->size, threads, draw_one, &all);
    icl_free(&all.rooms);
    return ICL_OK;
}

static const icl_reference_predictor *references(const icl_task *task) {
    const icl_markov *state = task->state;
    return state->references;
}

const icl_task_family icl_markov_family = {
    .name = "markov",
    .create = create,
    .destroy = destroy,
    .batch_create = batch_create,
    .draw = draw_batch,
    .references = references,
};
