/*
 * Families of one's own in a file that the command loads: Markov chains, each sequence with a chain of its own.
 *
 *     cc -shared -fPIC chain.c $(pkg-config --cflags iclab) -o chain.so
 *     iclab --with ./chain.so train chain.ini
 *
 * The task "chain" is drawn on the device. The chain of a sequence has k letters, task.letters; the probabilities of
 * the letter behind letter s are a row P_s ~ Dirichlet(a, ..., a), a = task.concentration. At each position the next
 * letter is asked for. It brings two reference predictors: "counts", the best one, and "chance". The predictor
 * "frequencies" can answer other tasks of symbols, too. The mixer "back" shows each position the ones shortly before
 * it.
 */
#include <iclab/iclab.h>
#include <math.h>
#include <stdio.h>

/* ---- The task ---- */

typedef struct chain {
    size_t letters, moves;
    double concentration;
} chain;

static const icl_recipe_key task_keys[] = {
    {ICL_KEY("task", chain, letters), "3", 2, 64, .help = "letters of a chain"},
    {ICL_KEY("task", chain, moves), "40", 1, 4096, .help = "letters that are shown, each with the next one asked for"},
    {ICL_KEY("task", chain, concentration), "1", 0.01, 100, .help = "of the Dirichlet law of each row"},
};
static const icl_recipe_group task_group = {.rows = task_keys, .count = sizeof task_keys / sizeof *task_keys};
static const icl_recipe_group *const task_groups[] = {&task_group, NULL};

static icl_status create(const icl_recipe *recipe, icl_task *task, icl_error *error) {
    chain *own = NULL;

    ICL_CHECK(icl_allocate(1, sizeof *own, "chain", &own, error));
    icl_recipe_read(recipe, &task_group, own);
    task->state = own;
    task->shape = (icl_task_shape){.positions = own->moves,
                                   .symbols = own->letters,
                                   .outputs = own->letters,
                                   .scored = own->moves,
                                   .loss = ICL_LOSS_CROSS_ENTROPY};
    return ICL_OK;
}

static void destroy(icl_task *task) {
    icl_free(&task->state);
}

/* Tensors of a batch: letters [B, T + 1, 1]; rows of weights [B, k, k]; the letter that would follow each letter at
 * each position, [B, k, T]. Inputs are the first T letters, targets the last T. */
enum { LETTERS, WEIGHTS, FOLLOWING };

static icl_status batch_create(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, size_t size,
                               icl_batch *batch, icl_error *error) {
    const chain *own = task->state;
    const size_t k = own->letters, positions = own->moves;
    const size_t inputs[] = {size, positions}, letters[] = {size, positions + 1, 1};
    const size_t weights[] = {size, k, k}, following[] = {size, k, positions};

    (void)purpose;
    ICL_CHECK(icl_tensor_create(backend, 2, inputs, &batch->inputs, error));
    ICL_CHECK(icl_tensor_create(backend, 3, letters, &batch->scratch[LETTERS], error));
    ICL_CHECK(icl_tensor_create(backend, 3, weights, &batch->scratch[WEIGHTS], error));
    ICL_CHECK(icl_tensor_create(backend, 3, following, &batch->scratch[FOLLOWING], error));
    batch->targets = icl_tensor_slice(batch->scratch[LETTERS], 1, 1, positions);
    return ICL_OK;
}

/* Draws the rows: gamma numbers, whose shares in their sum are Dirichlet, and then their cumulative sums. */
static icl_status draw_rows(icl_backend *backend, const chain *own, icl_random_key key, icl_tensor weights,
                            icl_error *error) {
    ICL_CHECK(icl_fill(backend, weights, own->concentration, error));
    ICL_CHECK(icl_random_gamma(backend, &(icl_draw_params){.key = key}, weights, weights, error));
    return icl_cumulative_sum(backend, weights, weights, error);
}

/* Draws letters by rows of cumulative sums. */
static icl_status draw_letters(icl_backend *backend, icl_random_key key, icl_tensor letters, icl_tensor sums,
                               icl_error *error) {
    const icl_random_params uniform = {.key = key, .distribution = ICL_UNIFORM, .low = 0, .high = 1};

    ICL_CHECK(icl_random_fill(backend, &uniform, letters, error));
    return icl_categorical(backend, letters, letters, sums, error);
}

/* The random streams of this task begin here: those below 1000 are the library's. */
enum { FIRST_STREAM = 1000, STREAMS = 3 };

/* Draws on the device. What would follow each letter is drawn for all positions at once; a walk then takes what follows
 * the letter that is there. The first letter is drawn as one behind letter 0. */
static icl_status sample(const icl_task *task, icl_backend *backend, icl_task_purpose purpose, uint32_t seed,
                         uint64_t step, icl_batch *batch, icl_error *error) {
    const chain *own = task->state;
    const icl_tensor letters = batch->scratch[LETTERS], weights = batch->scratch[WEIGHTS];
    const icl_tensor following = batch->scratch[FOLLOWING];
    icl_random_key key = {seed, FIRST_STREAM + STREAMS * (uint32_t)purpose, step};

    ICL_CHECK(draw_rows(backend, own, key, weights, error));
    key.stream++;
    ICL_CHECK(draw_letters(backend, key, following, weights, error));
    key.stream++;
    ICL_CHECK(
        draw_letters(backend, key, icl_tensor_slice(letters, 1, 0, 1), icl_tensor_slice(weights, 1, 0, 1), error));
    for (size_t t = 0; t < own->moves; t++)
        ICL_CHECK(icl_take(backend, icl_tensor_slice(letters, 1, t + 1, 1),
                           icl_tensor_swap_axes(icl_tensor_slice(following, 2, t, 1), 1, 2),
                           icl_tensor_slice(letters, 1, t, 1), error));
    return icl_copy(
        backend, batch->inputs,
        icl_tensor_slice(icl_tensor_reshape(letters, 2, (size_t[]){batch->size, own->moves + 1}), 1, 0, own->moves),
        error);
}

/* ---- Its reference predictors ---- */

/* Bayes: the mean of Dirichlet(a + counts), p(j | s) = (a + n_sj) / (k a + n_s), with the counts of all moves so far.
 * */
static icl_status predict_counts(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                 double *outputs, icl_error *error) {
    const chain *own = shown->task->state;
    const size_t k = own->letters;
    double *counts = NULL; /* [k][k] */

    (void)predictor;
    ICL_CHECK(icl_allocate(k * k, sizeof *counts, "counts of letters", &counts, error));
    for (size_t b = 0; b < shown->count; b++) {
        const float *letters = shown->inputs + b * own->moves;
        for (size_t i = 0; i < k * k; i++)
            counts[i] = own->concentration;
        for (size_t t = 0, before = 0; t < own->moves; t++) {
            const size_t now = (size_t)letters[t];
            double *row = counts + now * k, sum = 0;
            counts[before * k + now] += 1;
            before = now;
            for (size_t j = 0; j < k; j++)
                sum += row[j];
            for (size_t j = 0; j < k; j++)
                outputs[(b * own->moves + t) * k + j] = log(row[j] / sum);
        }
    }
    icl_free(&counts);
    return ICL_OK;
}

static icl_status predict_chance(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                 double *outputs, icl_error *error) {
    const chain *own = shown->task->state;

    (void)predictor;
    (void)error;
    for (size_t i = 0; i < shown->count * own->moves * own->letters; i++)
        outputs[i] = 0; /* logits: all letters alike */
    return ICL_OK;
}

static const icl_reference_predictor *references(const icl_task *task) {
    static const icl_reference_predictor of_chains[] = {
        {.name = "counts", .predict = predict_counts}, {.name = "chance", .predict = predict_chance}, {0}};

    (void)task;
    return of_chains;
}

static const icl_task_family chain_task = {.name = "chain",
                                           .keys = task_groups,
                                           .create = create,
                                           .destroy = destroy,
                                           .batch_create = batch_create,
                                           .sample = sample,
                                           .references = references};

/* ---- A predictor for all tasks that ask for the next symbol ---- */

typedef struct frequency_settings {
    double added;
} frequency_settings;

static const icl_recipe_key predictor_keys[] = {
    {ICL_KEY("eval", frequency_settings, added), "1", 1e-6, 1e6, .help = "what frequencies adds to each count"},
};
static const icl_recipe_group predictor_group = {.rows = predictor_keys,
                                                 .count = sizeof predictor_keys / sizeof *predictor_keys};
static const icl_recipe_group *const predictor_groups[] = {&predictor_group, NULL};

static bool answers(const icl_task *task) {
    const icl_task_shape *shape = icl_task_get_shape(task);
    return shape->symbols > 0 && shape->outputs == shape->symbols && shape->scored == shape->positions &&
           shape->loss == ICL_LOSS_CROSS_ENTROPY;
}

/* Predicts each symbol by how often it was there so far, whatever stood before it. */
static icl_status predict_frequencies(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                      double *outputs, icl_error *error) {
    const icl_task_shape *shape = icl_task_get_shape(shown->task);
    const size_t k = shape->symbols;
    double *counts = NULL; /* [k] */
    frequency_settings own;

    (void)predictor;
    icl_recipe_read(shown->recipe, &predictor_group, &own);
    ICL_CHECK(icl_allocate(k, sizeof *counts, "counts of symbols", &counts, error));
    for (size_t i = 0; i < shown->count * shape->positions; i++) {
        const size_t t = i % shape->positions;
        for (size_t j = 0; t == 0 && j < k; j++)
            counts[j] = own.added;
        counts[(size_t)shown->inputs[i]] += 1;
        for (size_t j = 0; j < k; j++)
            outputs[i * k + j] = log(counts[j] / ((double)(t + 1) + own.added * (double)k));
    }
    icl_free(&counts);
    return ICL_OK;
}

static const icl_predictor_family frequencies = {
    .predictor = {.name = "frequencies", .predict = predict_frequencies}, .answers = answers, .keys = predictor_groups};

/* ---- A mixer ---- */

typedef struct back {
    size_t reach;
} back;

static const icl_recipe_key mixer_keys[] = {
    {ICL_KEY("model", back, reach), "1", 1, 64, .help = "positions that the mixer back shows, the last ones before"},
};
static const icl_recipe_group mixer_group = {.rows = mixer_keys, .count = sizeof mixer_keys / sizeof *mixer_keys};
static const icl_recipe_group *const mixer_groups[] = {&mixer_group, NULL};

static icl_status create_back(const icl_recipe *recipe, icl_mixer_block *block, icl_mixer_builder *builder,
                              icl_error *error) {
    back *own = block->state;
    char name[32];

    icl_recipe_read(recipe, &mixer_group, own);
    for (size_t i = 1; i <= own->reach; i++) {
        snprintf(name, sizeof name, "back_%zu", i);
        ICL_CHECK(icl_mixer_add_output(builder, name, block->width, block->width, error));
    }
    return ICL_OK;
}

/* y_t = sum over i = 1 ... reach of x_(t-i) W_i, with x = 0 before the first position. */
static icl_variable mix_back(const icl_mixer_pass *pass, icl_variable x) {
    const back *own = pass->block->state;
    const icl_tensor seen = icl_tape_value(pass->tape, x);
    const size_t positions = seen.shape[1];
    icl_variable sum = icl_tape_filled(pass->tape, 3, seen.shape, 0);

    for (size_t i = 1; i <= own->reach && i < positions; i++) {
        const icl_variable zeros = icl_tape_filled(pass->tape, 3, seen.shape, 0);
        const icl_variable before =
            icl_tape_place(pass->tape, zeros, icl_tape_slice(pass->tape, x, 1, 0, positions - i), (size_t[]){0, i, 0});
        sum = icl_tape_binary(pass->tape, ICL_ADD, sum,
                              icl_tape_matmul(pass->tape, 1.0, before, pass->parameters[i - 1]));
    }
    return sum;
}

static const icl_mixer_family back_mixer = {
    .name = "back", .keys = mixer_groups, .state_size = sizeof(back), .create = create_back, .mix = mix_back};

/* ---- What the file brings ---- */

static icl_status add(icl_families *families, icl_error *error) {
    ICL_CHECK(icl_families_add_task(families, &chain_task, error));
    ICL_CHECK(icl_families_add_predictor(families, &frequencies, error));
    return icl_families_add_mixer(families, &back_mixer, error);
}

ICL_PLUGIN(add)
