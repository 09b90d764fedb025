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
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "numeric/parallel.h"
#include "task/markov/family.h"
#include "task/task.h"

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

/* ---- The source ---- */

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

/* ---- From counts ---- */

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

/* ---- From a pool ---- */

static void mix_sequence(const icl_task *task, const void *settings, size_t number, const float *inputs, double *work,
                         double *outputs) {
    const icl_markov *state = task->state;
    const icl_chain_law *law = &state->law;
    const icl_chain_mixture pool = {law, state->chains, state->pool, work};
    size_t context = 0;

    (void)settings;
    (void)number;
    icl_chain_mixture_start(&pool);
    for (size_t t = 0; t < task->shape.positions; t++) {
        const size_t symbol = (size_t)inputs[t];
        if (t >= law->order || law->states > 0)
            icl_chain_mixture_observe(&pool, context, symbol);
        context = (context * law->symbols + symbol) % law->contexts;
        if (t < task->shape.first_scored)
            continue;
        icl_chain_mixture_predict(&pool, context, outputs);
        take_logarithms(outputs, law->symbols);
        outputs += law->symbols;
    }
}

static icl_status predict_by_pool(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                  double *outputs, icl_error *error) {
    const icl_markov *state = shown->task->state;

    (void)predictor;
    return icl_task_for_each(shown->task, mix_sequence, NULL, icl_chain_mixture_size(&state->law, state->pool),
                             shown->count, shown->inputs, outputs, error);
}

/* ---- The table ---- */

void icl_markov_list_references(icl_markov *state) {
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
