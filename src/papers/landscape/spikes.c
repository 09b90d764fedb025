/*
 * Spikes of the training loss, and where they come from: asked of the authors of arXiv 2310.01082 (landscape.h), who
 * show that linear transformers replicate other traits of the training of transformers.
 *
 * A spike is a step whose batch has a loss above 10 times the median of the losses of the 100 steps before it; the
 * first 100 steps have none. Two trainings from different seeds go side by side, and all their parameters are kept.
 * Each spike is taken apart:
 *
 *     Its batch is drawn again and evaluated with the other training's parameters, and with its own of ten steps
 *     before; its parameters are evaluated on the other training's batch of that step. A loss that is still above 10
 *     times what is usual there follows the batch, which is a rare one; or it follows the parameters, and training is
 *     unstable; or both; or neither, and the spike takes this batch and these parameters together.
 *
 *     In context, a layer with A_l = -a_l I takes a step of gradient descent with the length a_l (Ahn et al. 2023,
 *     arXiv 2306.00297), which makes the error of a context grow along an eigenvector of its covariance S_l whose
 *     eigenvalue is above 2 / a_l. How far a context reaches is the largest a_l lambda_max(S_l) over the layers; it is
 *     measured of the sequence that carries most of the spike, and of all sequences of steps without a spike.
 *
 *     In training, a step of length eta along the preconditioned gradient makes a quadratic loss grow if the largest
 *     eigenvalue of eta P^-1 H is above a threshold, the edge of stability (Cohen et al. 2021, arXiv 2103.00065; 2022,
 *     arXiv 2207.14484): with momentum b, 2 (1 + b) for a velocity that adds up gradients, and 2 (1 + b) / (1 - b) for
 *     Adam's mean of them, P = sqrt(v) + epsilon. Here the eigenvalue is divided by this threshold and multiplied by 2,
 *     and eta is what clipping leaves of it at the step. H is that of a batch.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "numeric/matrix.h"
#include "numeric/statistics.h"
#include "papers/landscape/landscape.h"
#include "papers/papers.h"
#include "probe/curvature.h"
#include "train/settings.h"
#include "train/trainer.h"

enum { ADAM = ICL_LANDSCAPE_ADAM, SGD = ICL_LANDSCAPE_SGD };

/* ---- Spikes ---- */

size_t icl_landscape_find_spikes(const double *losses, size_t count, double factor, double *usual, size_t *steps) {
    double before[ICL_SPIKE_MEMORY];
    size_t found = 0;

    for (size_t t = 0; t < count; t++) {
        usual[t] = (double)NAN;
        if (t < ICL_SPIKE_MEMORY)
            continue;
        memcpy(before, losses + t - ICL_SPIKE_MEMORY, sizeof before);
        usual[t] = icl_median(before, ICL_SPIKE_MEMORY);
        if (!(losses[t] <= factor * usual[t]))
            steps[found++] = t;
    }
    return found;
}

icl_spike_kind icl_landscape_spike_kind(double batch_elsewhere, double others_here) {
    const bool follows_batch = !(batch_elsewhere <= ICL_SPIKE_FACTOR);
    const bool follows_parameters = !(others_here <= ICL_SPIKE_FACTOR);

    if (follows_batch)
        return follows_parameters ? ICL_SPIKE_OF_BOTH : ICL_SPIKE_OF_BATCH;
    return follows_parameters ? ICL_SPIKE_OF_PARAMETERS : ICL_SPIKE_OF_NEITHER;
}

/* ---- In context: how far the steps of the layers reach ---- */

enum { D = ICL_LANDSCAPE_DIMENSION, WIDTH = D + 1 };

/* out = X Y, all [D][D]; out is neither of them. */
static void multiply(const double *X, const double *Y, double *out) {
    for (size_t i = 0; i < D; i++)
        for (size_t j = 0; j < D; j++) {
            out[i * D + j] = 0;
            for (size_t k = 0; k < D; k++)
                out[i * D + j] += X[i * D + k] * Y[k * D + j];
        }
}

/* S = factor * sum of x x^T over the context. */
static void covariance_of(const float *tokens, size_t context, double factor, double *S) {
    memset(S, 0, D * D * sizeof *S);
    for (size_t t = 0; t < context; t++)
        for (size_t k = 0; k < D * D; k++)
            S[k] += factor * (double)tokens[t * WIDTH + k / D] * (double)tokens[t * WIDTH + k % D];
}

/* Reads A and B [D][D] of Q = (A 0; 0 0) and P = (B 0; 0 1). */
static icl_status read_layer(const icl_model *model, const float *values, size_t layer, double *A, double *B,
                             icl_error *error) {
    float P[WIDTH * WIDTH], Q[WIDTH * WIDTH];

    ICL_CHECK(icl_model_dense(model, values, layer, 0, ICL_MODEL_P, P, error));
    ICL_CHECK(icl_model_dense(model, values, layer, 0, ICL_MODEL_Q, Q, error));
    for (size_t k = 0; k < D * D; k++) {
        A[k] = (double)Q[k / D * WIDTH + k % D];
        B[k] = (double)P[k / D * WIDTH + k % D];
    }
    return ICL_OK;
}

/* Returns the largest eigenvalue of S^(1/2) (-A) S^(1/2), with A's symmetric part: a lambda_max(S) if A = -a I;
 * infinity if S is not finite. */
static double reach_of_layer(const double *S, const double *A) {
    double matrix[D * D], root[D * D] = {0}, opposite[D * D], eigenvalues[D], vectors[D * D], work[3 * D];

    for (size_t k = 0; k < D * D; k++) {
        matrix[k] = (S[k] + S[k % D * D + k / D]) / 2;
        opposite[k] = -(A[k] + A[k % D * D + k / D]) / 2;
        if (!isfinite(matrix[k]))
            return HUGE_VAL;
    }
    if (!icl_symmetric_eigen(D, matrix, eigenvalues, vectors, work))
        return HUGE_VAL;
    for (size_t k = 0; k < D * D; k++)
        for (size_t e = 0; e < D; e++)
            root[k] += sqrt(fmax(eigenvalues[e], 0)) * vectors[e * D + k / D] * vectors[e * D + k % D];
    icl_matrix_in_basis(root, opposite, D, matrix);
    return icl_symmetric_eigen(D, matrix, eigenvalues, vectors, work) ? eigenvalues[D - 1] : HUGE_VAL;
}

/* A layer maps inputs by M = I + B S A, and so S to M S M^T. */
static void move_covariance(const double *A, const double *B, double *S) {
    double product[D * D], M[D * D], transposed[D * D];

    multiply(S, A, product);
    multiply(B, product, M);
    for (size_t i = 0; i < D; i++)
        M[i * (D + 1)] += 1;
    for (size_t k = 0; k < D * D; k++)
        transposed[k] = M[k % D * D + k / D];
    multiply(M, S, product);
    multiply(product, transposed, S);
}

icl_status icl_landscape_reach(const icl_model *model, const float *values, const float *tokens, size_t context,
                               double *reach, icl_error *error) {
    double S[D * D], A[D * D], B[D * D];

    *reach = 0;
    covariance_of(tokens, context, icl_model_attention_factor(model), S);
    for (size_t layer = 0; layer < icl_model_layers(model); layer++) {
        ICL_CHECK(read_layer(model, values, layer, A, B, error));
        *reach = fmax(*reach, reach_of_layer(S, A));
        move_covariance(A, B, S);
    }
    return ICL_OK;
}

/* ---- In training: the largest eigenvalue of a preconditioned Hessian ---- */

enum { LANCZOS_STEPS = 24 };

static double dot(const double *a, const double *b, size_t size) {
    double sum = 0;
    for (size_t i = 0; i < size; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Returns the largest eigenvalue of the tridiagonal matrix [count][count]. */
static double largest_of(const double *diagonal, const double *beside, size_t count) {
    double matrix[LANCZOS_STEPS * LANCZOS_STEPS] = {0}, vectors[LANCZOS_STEPS * LANCZOS_STEPS];
    double eigenvalues[LANCZOS_STEPS], work[3 * LANCZOS_STEPS];

    for (size_t k = 0; k < count; k++) {
        if (!isfinite(diagonal[k]))
            return HUGE_VAL;
        matrix[k * (count + 1)] = diagonal[k];
        if (k + 1 < count)
            matrix[k * count + k + 1] = matrix[(k + 1) * count + k] = beside[k];
    }
    return icl_symmetric_eigen(count, matrix, eigenvalues, vectors, work) ? eigenvalues[count - 1] : HUGE_VAL;
}

/* Subtracts from v [N] its parts along the vectors of the basis [count][N], twice, so that rounding leaves none.
 * Returns the length of the rest. */
static double orthogonalise(double *v, const double *basis, size_t count, size_t size) {
    for (size_t k = 0; k < 2 * count; k++) {
        const double *other = basis + k % count * size, part = dot(v, other, size);
        for (size_t i = 0; i < size; i++)
            v[i] -= part * other[i];
    }
    return sqrt(dot(v, v, size));
}

icl_status icl_landscape_sharpness(icl_objective *objective, const double *at, const double *weights, double *largest,
                                   icl_error *error) {
    const size_t size = icl_objective_size(objective), most = size < LANCZOS_STEPS ? size : LANCZOS_STEPS;
    double diagonal[LANCZOS_STEPS], beside[LANCZOS_STEPS], length;
    double *basis = NULL, *vector = NULL, *product = NULL;
    size_t count = 0;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(most * size, sizeof *basis, "Lanczos vectors", &basis, error));
    ICL_TRY(icl_allocate(size, sizeof *vector, "direction", &vector, error));
    ICL_TRY(icl_allocate(size, sizeof *product, "product", &product, error));
    for (size_t i = 0; i < size; i++)
        product[i] = sin((double)i + 1);
    length = sqrt(dot(product, product, size));
    while (count < most && length > 0) {
        double *q = basis + count * size;
        for (size_t i = 0; i < size; i++) {
            q[i] = product[i] / length;
            vector[i] = sqrt(weights[i]) * q[i];
        }
        ICL_TRY(icl_hessian_vector(objective, at, vector, product, error));
        for (size_t i = 0; i < size; i++)
            product[i] *= sqrt(weights[i]);
        diagonal[count] = dot(q, product, size);
        length = beside[count] = orthogonalise(product, basis, count + 1, size);
        count++;
        if (!(length > 1e-8 * fabs(diagonal[0])))
            break;
    }
    *largest = largest_of(diagonal, beside, count);
done:
    icl_free(&basis);
    icl_free(&vector);
    icl_free(&product);
    return status;
}

/* ---- Cells: at[] is the place of the depth, the optimizer, and the number of the pair of seeds ---- */

enum { MOST_DEPTHS = 5, MOST_PAIRS = 3 };

/* pairs: of seeds, for Adam and for SGD. studied: the most spikes of a training that are taken apart; probed: of these
 * and of the steps without a spike, those whose curvature and contexts are measured. */
static const struct {
    size_t depths[MOST_DEPTHS], steps, pairs[ICL_LANDSCAPE_OPTIMIZERS], studied, probed;
} budgets[ICL_SCALES] = {
    {{2, 6}, 400, {1, 0}, 30, 2},
    {{2, 3, 6}, 3000, {MOST_PAIRS, 1}, 60, 6},
    {{2, 3, 4, 6, 8}, 10000, {MOST_PAIRS, MOST_PAIRS}, 200, 10},
};

static void plan(icl_study *study) {
    for (size_t depth = 0; depth < MOST_DEPTHS && budgets[study->scale].depths[depth] > 0; depth++)
        for (size_t optimizer = 0; optimizer < ICL_LANDSCAPE_OPTIMIZERS; optimizer++)
            for (size_t pair = 0; pair < budgets[study->scale].pairs[optimizer]; pair++) {
                const icl_landscape_cell cell = {.setting = ICL_LANDSCAPE_S1,
                                                 .optimizer = (icl_landscape_optimizer)optimizer,
                                                 .layers = budgets[study->scale].depths[depth],
                                                 .steps = budgets[study->scale].steps};
                ICL_ADD_CELL(study, .name = icl_landscape_name(&cell).text, .seed = icl_study_seed(study, 2 * pair),
                             .recipe = "landscape", .settings = {icl_landscape_changes(&cell).text},
                             .is_untrained = true, .at = {depth, optimizer, pair});
            }
}

/* ---- Measuring: two trainings side by side ---- */

/* One training, with all that its steps left; its own step t goes from parameters + t N to the next. */
typedef struct training {
    icl_trainer *trainer;
    uint32_t seed;
    size_t steps;      /* steps done; fewer than asked for if it diverged */
    float *parameters; /* [steps + 1][N] */
    float *squares;    /* [steps + 1][N]: Adam's second moments */
    double *losses;    /* [steps]: of the batches */
    double *norms;     /* [steps]: of the gradients, before clipping */
    double *usual;     /* [steps]: the median of the losses before */
    size_t *spikes;    /* [spike_count] */
    size_t spike_count;
} training;

typedef struct pair {
    const icl_study *study;
    icl_train_keys keys;
    size_t size; /* N */
    training sides[2];
    icl_objective *objective; /* of a batch of either side */
    icl_batch batch;          /* the same as tokens */
    float *tokens;            /* [batch][n + 1][WIDTH] */
    double *at, *losses, *weights;
} pair;

static icl_status reserve(const icl_study *study, size_t steps, size_t size, training *side, icl_error *error) {
    ICL_CHECK(icl_study_room(study, (steps + 1) * size, sizeof(float), &side->parameters, error));
    ICL_CHECK(icl_study_room(study, (steps + 1) * size, sizeof(float), &side->squares, error));
    ICL_CHECK(icl_study_room(study, steps, sizeof(double), &side->losses, error));
    ICL_CHECK(icl_study_room(study, steps, sizeof(double), &side->norms, error));
    ICL_CHECK(icl_study_room(study, steps, sizeof(double), &side->usual, error));
    return icl_study_room(study, steps, sizeof(size_t), &side->spikes, error);
}

/* Copies the state before a step, or after the last one. */
static icl_status keep_state(training *side, size_t size, icl_training_state *state, icl_error *error) {
    ICL_CHECK(icl_trainer_read_state(side->trainer, state, error));
    for (size_t i = 0; i < size; i++) {
        side->parameters[side->steps * size + i] = (float)state->vectors[0][i];
        side->squares[side->steps * size + i] = (float)state->vectors[2][i];
    }
    return ICL_OK;
}

/* Trains to the end, or until the training diverges. */
static icl_status follow(const icl_study *study, size_t steps, size_t size, training *side, icl_error *error) {
    icl_training_state state = {0};
    icl_status status = ICL_OK;
    size_t count;

    ICL_TRY(reserve(study, steps, size, side, error));
    ICL_TRY(icl_training_state_create(side->trainer, &state, error));
    ICL_TRY(keep_state(side, size, &state, error));
    while (side->steps < steps) {
        if (side->steps % 100 == 0)
            ICL_TRY(icl_reproduce_poll(study->run, error));
        ICL_TRY(icl_trainer_run(side->trainer, 1, error));
        side->losses[side->steps] = (double)icl_trainer_losses(side->trainer, &count)[0];
        side->norms[side->steps] = (double)icl_trainer_gradient_norms(side->trainer, &count)[0];
        side->steps++;
        ICL_TRY(keep_state(side, size, &state, error));
    }
done:
    icl_training_state_clear(&state);
    side->spike_count =
        icl_landscape_find_spikes(side->losses, side->steps, ICL_SPIKE_FACTOR, side->usual, side->spikes);
    return status == ICL_ERROR_DIVERGED ? ICL_OK : status;
}

static icl_status create_other(const icl_study *study, const icl_study_cell *cell, training *side, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    side->seed = icl_study_seed(study, 2 * cell->at[2] + 1);
    ICL_TRY(icl_recipe_clone(cell->complete, &recipe, error));
    ICL_TRY(icl_recipe_set_count(recipe, "train", "seed", side->seed, error));
    ICL_TRY(icl_trainer_create(study->run->params->backend, recipe, &side->trainer, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

static icl_status open_pair(icl_study *study, const icl_study_cell *cell, icl_trainer *start, pair *both,
                            icl_error *error) {
    const icl_task *task = icl_trainer_task(start);
    icl_backend *backend = study->run->params->backend;
    const icl_objective_params params = {
        .task = task, .model = icl_trainer_model(start), .purpose = ICL_FOR_TRAINING, .sequences = both->keys.batch};

    both->size = icl_model_size(params.model);
    both->sides[0].trainer = start;
    both->sides[0].seed = cell->seed;
    ICL_CHECK(create_other(study, cell, &both->sides[1], error));
    ICL_CHECK(icl_objective_create(&params, &both->objective, error));
    ICL_CHECK(icl_batch_create(task, backend, ICL_FOR_TRAINING, both->keys.batch, &both->batch, error));
    ICL_CHECK(icl_study_room(study, both->keys.batch * (icl_task_context(task) + 1) * WIDTH, sizeof(float),
                             &both->tokens, error));
    ICL_CHECK(icl_study_room(study, both->size, sizeof(double), &both->at, error));
    ICL_CHECK(icl_study_room(study, both->size, sizeof(double), &both->weights, error));
    return icl_study_room(study, both->keys.batch, sizeof(double), &both->losses, error);
}

static void close_pair(pair *both) {
    icl_objective_destroy(&both->objective);
    icl_batch_release(&both->batch);
    icl_trainer_destroy(&both->sides[1].trainer);
}

static void go_to(pair *both, const training *side, size_t step) {
    for (size_t i = 0; i < both->size; i++)
        both->at[i] = (double)side->parameters[step * both->size + i];
}

/* Computes the loss of the objective's batch with the side's parameters before a step, and those of its sequences. */
static icl_status loss_at(pair *both, const training *side, size_t step, double *loss, icl_error *error) {
    go_to(both, side, step);
    ICL_CHECK(icl_objective_losses(both->objective, both->at, both->losses, error));
    *loss = icl_mean(both->losses, both->keys.batch);
    return ICL_OK;
}

/* Computes 2 times the largest eigenvalue over the threshold, for the objective's batch at the side's parameters before
 * a step, as far as a step is clipped whose gradient has this norm. */
static icl_status edge_at(pair *both, const training *side, size_t step, double norm, double *edge, icl_error *error) {
    const icl_train_keys *keys = &both->keys;
    const float *squares = side->squares + step * both->size;
    const double rate = 2 * keys->learning_rate * fmin(1, keys->clip / norm);

    for (size_t i = 0; i < both->size; i++)
        both->weights[i] = keys->optimizer == ICL_OPTIMIZER_SGD
                               ? rate / (2 * (1 + keys->momentum))
                               : rate * (1 - keys->beta1) / (2 * (1 + keys->beta1)) /
                                     (sqrt((double)squares[i] / (1 - pow(keys->beta2, (double)step))) + keys->epsilon);
    go_to(both, side, step);
    return icl_landscape_sharpness(both->objective, both->at, both->weights, edge, error);
}

static icl_status read_tokens(pair *both, const training *side, size_t step, icl_error *error) {
    ICL_CHECK(icl_task_sample(icl_trainer_task(side->trainer), both->study->run->params->backend, ICL_FOR_TRAINING,
                              side->seed, step, &both->batch, error));
    return icl_tensor_read(both->batch.inputs, both->tokens, error);
}

/* Computes how far a sequence of the tokens reaches with the side's parameters before a step. */
static icl_status reach_at(const pair *both, const training *side, size_t step, size_t sequence, double *reach,
                           icl_error *error) {
    const size_t context = icl_task_context(icl_trainer_task(side->trainer));

    return icl_landscape_reach(icl_trainer_model(side->trainer), side->parameters + step * both->size,
                               both->tokens + sequence * (context + 1) * WIDTH, context, reach, error);
}

/* ---- Measuring: spikes taken apart ---- */

enum { EARLIER = 10, MOST_STUDIED = 2 * 200, MOST_PROBED = 2 * 10, BINS = 100 };

/* SPIKES are those of one training, above 10, 3 and 100 times what is usual. The next come from the spikes that were
 * taken apart: shares of each kind, and of those whose batch is above the threshold ten steps before, too; the median
 * share of a batch's loss that one sequence carries, and how far it reaches; the share of these beyond 2. The same of
 * all sequences of steps without a spike. Edges are medians: of steps without a spike; with another batch at the
 * parameters of a spike; with its own. */
enum {
    SPIKES = 0,
    SPIKES_LOW,
    SPIKES_HIGH,
    KINDS,
    KIND_EARLIER = KINDS + ICL_SPIKE_KINDS,
    ELSEWHERE, /* the median loss of a spike's batch at the other parameters, over what is usual there */
    OTHERS,    /* that of another batch at the spike's parameters, over what is usual */
    TYPICAL,   /* that of any step: below 1 while the loss falls, or where it is high for many steps */
    CARRIED,
    REACH,
    REACH_ELSEWHERE, /* how far the same sequence reaches with the other parameters */
    BEYOND,
    USUAL_REACH,
    USUAL_BEYOND,
    USUAL_EDGE,
    EDGE_BEFORE,
    EDGE_OF_BATCH,
    REDRAWN,  /* the largest |log(loss of the batch drawn again / loss at training)| */
    DIVERGED, /* the number of trainings */
    LARGEST,  /* loss over what is usual in each part of the first training */
    NUMBERS = LARGEST + BINS
};

typedef struct parts {
    size_t count, kinds[ICL_SPIKE_KINDS], earlier;
    double elsewhere[MOST_STUDIED], others[MOST_STUDIED]; /* over what is usual */
    double carried[MOST_STUDIED], reaches[MOST_STUDIED], reaches_elsewhere[MOST_STUDIED];
    double redrawn;
    size_t probed, usual_probed, reach_count;
    double before[MOST_PROBED], of_batch[MOST_PROBED], usual[MOST_PROBED];
    double *usual_reaches; /* [reach_count] */
} parts;

/* Says whether the next of `all` things is one of `wanted`, evenly spaced. */
static bool is_taken(size_t place, size_t wanted, size_t all) {
    return (place + 1) * wanted / all > place * wanted / all;
}

static size_t place_of_largest(const double *values, size_t count) {
    size_t largest = 0;
    for (size_t i = 1; i < count; i++)
        if (values[i] > values[largest])
            largest = i;
    return largest;
}

static icl_status take_apart(pair *both, size_t number, size_t step, parts *all, icl_error *error) {
    const training *own = &both->sides[number], *other = &both->sides[1 - number];
    double here, earlier, elsewhere, others;

    ICL_CHECK(icl_objective_draw(both->objective, own->seed, step, error));
    ICL_CHECK(loss_at(both, own, step, &here, error));
    const size_t worst = place_of_largest(both->losses, both->keys.batch);
    all->carried[all->count] = both->losses[worst] / here / (double)both->keys.batch;
    if (isfinite(own->losses[step]))
        all->redrawn = fmax(all->redrawn, fabs(log(here / own->losses[step])));
    ICL_CHECK(loss_at(both, own, step - EARLIER, &earlier, error));
    ICL_CHECK(loss_at(both, other, step, &elsewhere, error));
    ICL_CHECK(icl_objective_draw(both->objective, other->seed, step, error));
    ICL_CHECK(loss_at(both, own, step, &others, error));
    all->elsewhere[all->count] = elsewhere / other->usual[step];
    all->others[all->count] = others / own->usual[step];
    all->kinds[icl_landscape_spike_kind(all->elsewhere[all->count], all->others[all->count])]++;
    all->earlier += !(earlier <= ICL_SPIKE_FACTOR * own->usual[step]);
    ICL_CHECK(read_tokens(both, own, step, error));
    ICL_CHECK(reach_at(both, other, step, worst, &all->reaches_elsewhere[all->count], error));
    return reach_at(both, own, step, worst, &all->reaches[all->count++], error);
}

/* Measures the curvature at a spike's parameters: of another batch, as if the step before went on, and of its own. */
static icl_status probe_spike(pair *both, size_t number, size_t step, parts *all, icl_error *error) {
    const training *own = &both->sides[number], *other = &both->sides[1 - number];

    ICL_CHECK(icl_objective_draw(both->objective, other->seed, step, error));
    ICL_CHECK(edge_at(both, own, step, own->norms[step - 1], &all->before[all->probed], error));
    ICL_CHECK(icl_objective_draw(both->objective, own->seed, step, error));
    return edge_at(both, own, step, own->norms[step], &all->of_batch[all->probed++], error);
}

/* Measures curvature and contexts of a step without a spike. */
static icl_status probe_usual(pair *both, const training *own, size_t step, parts *all, icl_error *error) {
    ICL_CHECK(icl_objective_draw(both->objective, own->seed, step, error));
    ICL_CHECK(edge_at(both, own, step, own->norms[step - 1], &all->usual[all->usual_probed++], error));
    ICL_CHECK(read_tokens(both, own, step, error));
    for (size_t sequence = 0; sequence < both->keys.batch; sequence++)
        ICL_CHECK(reach_at(both, own, step, sequence, &all->usual_reaches[all->reach_count++], error));
    return ICL_OK;
}

static bool is_spike(const training *side, size_t step) {
    return !(side->losses[step] <= ICL_SPIKE_FACTOR * side->usual[step]);
}

/* Studies the steps that both trainings reached. */
static icl_status study_side(pair *both, size_t number, parts *all, icl_error *error) {
    const training *side = &both->sides[number];
    const size_t steps = both->sides[0].steps < both->sides[1].steps ? both->sides[0].steps : both->sides[1].steps;
    const size_t probed = budgets[both->study->scale].probed, studied = budgets[both->study->scale].studied;
    size_t count = 0, taken = 0;

    if (steps <= ICL_SPIKE_MEMORY)
        return ICL_OK;
    while (count < side->spike_count && side->spikes[count] < steps)
        count++;
    const size_t wanted = count < studied ? count : studied;
    for (size_t i = 0; i < count; i++) {
        if (!is_taken(i, wanted, count))
            continue;
        ICL_CHECK(icl_reproduce_poll(both->study->run, error));
        ICL_CHECK(take_apart(both, number, side->spikes[i], all, error));
        if (is_taken(taken++, probed < wanted ? probed : wanted, wanted))
            ICL_CHECK(probe_spike(both, number, side->spikes[i], all, error));
    }
    for (size_t i = 0; i < probed; i++) {
        size_t step = ICL_SPIKE_MEMORY + (2 * i + 1) * (steps - ICL_SPIKE_MEMORY) / (2 * probed);
        while (step < steps && is_spike(side, step))
            step++;
        ICL_CHECK(icl_reproduce_poll(both->study->run, error));
        if (step < steps)
            ICL_CHECK(probe_usual(both, side, step, all, error));
    }
    return ICL_OK;
}

static double share_beyond(const double *reaches, size_t count) {
    size_t beyond = 0;
    for (size_t i = 0; i < count; i++)
        beyond += reaches[i] > 2;
    return (double)beyond / (double)count;
}

static void write_parts(parts *all, icl_number *numbers) {
    const double count = (double)all->count; /* without spikes all of theirs are NaN */

    for (int kind = 0; kind < ICL_SPIKE_KINDS; kind++)
        numbers[KINDS + kind].value = (double)all->kinds[kind] / count;
    numbers[KIND_EARLIER].value = (double)all->earlier / count;
    numbers[ELSEWHERE].value = icl_median(all->elsewhere, all->count);
    numbers[OTHERS].value = icl_median(all->others, all->count);
    numbers[BEYOND].value = share_beyond(all->reaches, all->count);
    numbers[CARRIED].value = icl_median(all->carried, all->count);
    numbers[REACH].value = icl_median(all->reaches, all->count);
    numbers[REACH_ELSEWHERE].value = icl_median(all->reaches_elsewhere, all->count);
    numbers[USUAL_BEYOND].value = share_beyond(all->usual_reaches, all->reach_count);
    numbers[USUAL_REACH].value = icl_median(all->usual_reaches, all->reach_count);
    numbers[USUAL_EDGE].value = icl_median(all->usual, all->usual_probed);
    numbers[EDGE_BEFORE].value = icl_median(all->before, all->probed);
    numbers[EDGE_OF_BATCH].value = icl_median(all->of_batch, all->probed);
    if (all->count > 0)
        numbers[REDRAWN].value = all->redrawn;
}

static icl_status write_counts(const pair *both, size_t steps, icl_number *numbers, icl_error *error) {
    double *usual = NULL;
    size_t *found = NULL;

    ICL_CHECK(icl_study_room(both->study, steps, sizeof *usual, &usual, error));
    ICL_CHECK(icl_study_room(both->study, steps, sizeof *found, &found, error));
    numbers[SPIKES].value = numbers[SPIKES_LOW].value = numbers[SPIKES_HIGH].value = numbers[DIVERGED].value = 0;
    for (size_t k = 0; k < 2; k++) {
        const training *side = &both->sides[k];
        numbers[SPIKES].value += (double)side->spike_count / 2;
        numbers[SPIKES_LOW].value += (double)icl_landscape_find_spikes(side->losses, side->steps, 3, usual, found) / 2;
        numbers[SPIKES_HIGH].value +=
            (double)icl_landscape_find_spikes(side->losses, side->steps, 100, usual, found) / 2;
        numbers[DIVERGED].value += side->steps < steps;
    }
    return ICL_OK;
}

static icl_status write_typical(const pair *both, icl_number *numbers, icl_error *error) {
    double *ratios = NULL;
    size_t count = 0;

    ICL_CHECK(icl_study_room(both->study, both->sides[0].steps + both->sides[1].steps, sizeof *ratios, &ratios, error));
    for (size_t k = 0; k < 2; k++)
        for (size_t t = ICL_SPIKE_MEMORY; t < both->sides[k].steps; t++)
            ratios[count++] = both->sides[k].losses[t] / both->sides[k].usual[t];
    numbers[TYPICAL].value = icl_median(ratios, count);
    return ICL_OK;
}

/* Writes the largest loss over what is usual in each of BINS parts of a training's steps after the first 100. */
static void write_largest(const training *side, size_t steps, icl_number *numbers) {
    for (size_t t = ICL_SPIKE_MEMORY; t < side->steps; t++) {
        const size_t bin = (t - ICL_SPIKE_MEMORY) * BINS / (steps - ICL_SPIKE_MEMORY);
        numbers[LARGEST + bin].value = fmax(numbers[LARGEST + bin].value, side->losses[t] / side->usual[t]);
    }
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *start, icl_number *numbers,
                          icl_error *error) {
    const size_t steps = budgets[study->scale].steps;
    pair both = {.study = study, .keys = icl_train_keys_read(cell->complete)};
    parts *all = NULL;
    icl_status status = ICL_OK;

    icl_reproduce_say(study->run, "%s, seed %" PRIu32 ": %zu steps of two trainings", cell->name, cell->seed, steps);
    ICL_TRY(icl_study_room(study, 1, sizeof *all, &all, error));
    ICL_TRY(open_pair(study, cell, start, &both, error));
    ICL_TRY(icl_study_room(study, 2 * budgets[study->scale].probed * both.keys.batch, sizeof(double),
                           &all->usual_reaches, error));
    for (size_t k = 0; k < 2; k++)
        ICL_TRY(follow(study, steps, both.size, &both.sides[k], error));
    for (size_t k = 0; k < 2; k++)
        ICL_TRY(study_side(&both, k, all, error));
    ICL_TRY(write_counts(&both, steps, numbers, error));
    ICL_TRY(write_typical(&both, numbers, error));
    write_parts(all, numbers);
    write_largest(&both.sides[0], steps, numbers);
done:
    close_pair(&both);
    return status;
}

/* ---- Judging ---- */

/* Returns the mean over the pairs of a depth and an optimizer, with its standard error, without those that have no such
 * number; NaN if none has. */
static icl_number over_pairs(const icl_study *study, size_t depth, size_t optimizer, size_t number) {
    double values[MOST_PAIRS] = {0};
    const icl_study_cell *cell;
    size_t count = 0;

    for (size_t i = 0; (cell = icl_landscape_find(study, depth, optimizer, i, 0)) != NULL; i++)
        if (!isnan(cell->numbers[number].value))
            values[count++] = cell->numbers[number].value;
    if (count == 0)
        return (icl_number){(double)NAN, 0};
    return (icl_number){icl_mean(values, count), icl_standard_error(values, count)};
}

static icl_number of_point(const icl_study *study, const icl_study_cell *point, size_t number) {
    return over_pairs(study, point->at[0], point->at[1], number);
}

/* At scale ci a training ends before its spikes are many. */
static void judge_kinds(icl_study *study, const icl_study_cell *point, bool is_deep) {
    const icl_evidence inferred = is_deep && study->scale > ICL_SCALE_CI ? ICL_INFERRED : ICL_EVIDENCE_NONE;

    ICL_JUDGE(study, .quantity = "share of spikes that follow the parameters",
              ICL_OURS(of_point(study, point, KINDS + ICL_SPIKE_OF_PARAMETERS)), .target = .3,
              .criterion = ICL_AT_LEAST, .evidence = inferred, .source = "unstable training, not rare contexts",
              .note = ICL_PHRASE("the batch alone %.2f, both %.2f, neither %.2f; of all steps %.2g are spikes",
                                 of_point(study, point, KINDS + ICL_SPIKE_OF_BATCH).value,
                                 of_point(study, point, KINDS + ICL_SPIKE_OF_BOTH).value,
                                 of_point(study, point, KINDS + ICL_SPIKE_OF_NEITHER).value,
                                 of_point(study, point, SPIKES).value /
                                     (double)(budgets[study->scale].steps - ICL_SPIKE_MEMORY)));
    ICL_JUDGE(study, .quantity = "loss of a spike's batch at other parameters / median there",
              ICL_OURS(of_point(study, point, ELSEWHERE)),
              .note = ICL_PHRASE("median over spikes, of all steps %.3g; of another batch at its parameters %.3g; its "
                                 "batch ten steps before is a spike, too, in %.2f",
                                 of_point(study, point, TYPICAL).value, of_point(study, point, OTHERS).value,
                                 of_point(study, point, KIND_EARLIER).value));
    ICL_JUDGE(study, .quantity = "share of the loss that one sequence carries",
              ICL_OURS(of_point(study, point, CARRIED)), .note = "median over spikes");
    ICL_JUDGE(study, .quantity = "a lambda of the sequence that carries most", ICL_OURS(of_point(study, point, REACH)),
              .note =
                  ICL_PHRASE("above 2 in %.2f; at other parameters %.3g; of all sequences %.3g, %.2g above 2",
                             of_point(study, point, BEYOND).value, of_point(study, point, REACH_ELSEWHERE).value,
                             of_point(study, point, USUAL_REACH).value, of_point(study, point, USUAL_BEYOND).value));
    ICL_JUDGE(study, .quantity = "loss of a batch drawn again / at training", .target = 1, .tolerance = .01,
              .ours = exp(of_point(study, point, REDRAWN).value),
              .evidence = is_deep ? ICL_COMPUTED : ICL_EVIDENCE_NONE, .source = "the same batch and parameters",
              .note = "the spike that differs most");
}

static void judge(icl_study *study, const icl_study_cell *point) {
    const bool is_deep = point->at[1] == ADAM && budgets[study->scale].depths[point->at[0]] >= 6;

    ICL_JUDGE(study, .quantity = "spikes of a training", ICL_OURS(of_point(study, point, SPIKES)),
              .note = ICL_PHRASE("in %zu steps; above 3 times the median %.4g, 100 times %.4g; diverged %.2g",
                                 budgets[study->scale].steps, of_point(study, point, SPIKES_LOW).value,
                                 of_point(study, point, SPIKES_HIGH).value, of_point(study, point, DIVERGED).value));
    if (point->at[0] > 0) /* two layers have no spikes */
        judge_kinds(study, point, is_deep);
    ICL_JUDGE(study, .quantity = "curvature over the edge of stability, times 2",
              ICL_OURS(of_point(study, point, USUAL_EDGE)),
              .note =
                  ICL_PHRASE("another batch where a spike is %.3g, its own batch %.3g",
                             of_point(study, point, EDGE_BEFORE).value, of_point(study, point, EDGE_OF_BATCH).value));
}

static void plot(icl_study *study, icl_curves *curves, size_t depth, size_t optimizer) {
    const size_t steps = budgets[study->scale].steps, width = (steps - ICL_SPIKE_MEMORY) / BINS;
    const icl_study_cell *cell = icl_landscape_find(study, depth, optimizer, 0, 0);
    const icl_phrase label =
        icl_phrase_print("%zu layers, %s", budgets[study->scale].depths[depth], icl_landscape_labels[optimizer]);

    for (size_t bin = 0; bin < BINS && cell; bin++)
        if (!isnan(cell->numbers[LARGEST + bin].value))
            icl_study_plot(study, curves, label.text, depth == 0 ? ICL_SERIES_OURS : ICL_SERIES_LINE,
                           (double)(ICL_SPIKE_MEMORY + bin * width) + (double)width / 2,
                           cell->numbers[LARGEST + bin].value);
}

/* The least that six layers have more than two. */
static const double more_spikes[ICL_SCALES] = {1, 30, 100};

static void conclude(icl_study *study) {
    icl_curves curves = ICL_CURVES(.name = "spikes", .title = "Largest loss of a batch over the median before",
                                   .x_label = "step", .y_label = "loss / median", .log_y = true);
    size_t deepest = 0;

    for (size_t depth = 0; depth < MOST_DEPTHS && budgets[study->scale].depths[depth] > 0; depth++) {
        plot(study, &curves, depth, ADAM);
        if (budgets[study->scale].depths[depth] <= 6)
            deepest = depth;
    }
    const icl_number deep = over_pairs(study, deepest, ADAM, SPIKES), flat = over_pairs(study, 0, ADAM, SPIKES);
    if (!isnan(deep.value) && !isnan(flat.value))
        ICL_JUDGE(study, .what = "6 layers against 2", .quantity = "difference of the spikes of a training",
                  .ours = deep.value - flat.value, .standard_error = hypot(deep.standard_error, flat.standard_error),
                  .target = more_spikes[study->scale], .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED,
                  .source = "spikes come with depth");
    icl_study_draw(study, &curves);
}

const icl_reproduction icl_landscape_spikes =
    ICL_STUDY(.name = "landscape-spikes", .source = "arXiv 2310.01082, section 3, and its authors' talk",
              .about = "spikes of the training loss by depth: rare contexts or unstable training",
              .claim =
                  "Deep linear transformers have spikes of the training loss, and most come from unstable training: "
                  "other batches spike at the same parameters.",
              .scope = "A met table means that six layers have more spikes than two and that a good part of "
                       "theirs follows the parameters; learning rates other than the study's and models with "
                       "norms were not tested.",
              .cost = {"3 s", "2 min", "20 min"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
              .conclude = conclude);
