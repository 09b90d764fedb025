/*
 * Markov chains in context: Edelman, Edelman, Goel, Malach, Tsilivis 2024, "The Evolution of Statistical Induction
 * Heads: In-Context Learning Markov Chains" (arXiv 2402.11004), and its question asked of pools of chains, as Raventos
 * and others 2023 ask it of regression (arXiv 2306.15063).
 *
 * Predictions q of a reference predictor and p of a model are compared by
 *
 *     D(q) = mean of sum_a q(a) log (q(a) / p(a)) over sequences and positions
 *
 * which is 0 where the model is that predictor; the least tells which one the model is nearest to.
 *
 * A training passes stages: uniform, then unigram, the counts of single symbols, then bigram, the counts behind each
 * symbol. For chains of order 1 with Dirichlet rows bigram is Bayes. Of a pool of chains Bayes is the posterior over
 * the pool, and bigram remains the best that can be had on chains that are none of it.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "iclab/task_family.h"
#include "numeric/statistics.h"
#include "papers/papers.h"
#include "run/evaluation.h"

/* ---- Distances to reference predictors ---- */

enum { MOST_PREDICTORS = 3 };

/* Predictors by name, two or more. Each has two numbers: D and the mean loss. */
typedef struct comparison {
    const char *names[MOST_PREDICTORS];
    size_t count;
} comparison;

static size_t distance_at(size_t predictor) {
    return 2 * predictor;
}

static size_t loss_at(size_t predictor) {
    return 2 * predictor + 1;
}

enum {
    MODEL_LOSS = 2 * MOST_PREDICTORS,
    NEARER_TO_FIRST, /* D of the second predictor minus D of the first */
    COMPARISON_NUMBERS
};

typedef struct sums {
    double sum[COMPARISON_NUMBERS], square[COMPARISON_NUMBERS];
} sums;

static const icl_reference_predictor *predictor_of(const icl_task *task, const char *name) {
    const icl_reference_predictor *row = task->family->references(task);
    while (strcmp(row->name, name) != 0)
        row++;
    return row;
}

/* Replaces logits [k] by log p. */
static void normalize(double *logits, size_t k) {
    double sum = 0, largest = logits[0];
    for (size_t a = 1; a < k; a++)
        largest = fmax(largest, logits[a]);
    for (size_t a = 0; a < k; a++)
        sum += exp(logits[a] - largest);
    for (size_t a = 0; a < k; a++)
        logits[a] -= largest + log(sum);
}

/* Adds the means over the positions of one sequence: targets [S], model [S][k] and, from number `at` on, outputs [S][k]
 * of each predictor, all of them log p. */
static void add_sequence(const icl_task_shape *shape, size_t count, const float *targets, const double *model,
                         double *const *outputs, size_t at, sums *total) {
    double means[COMPARISON_NUMBERS] = {0};
    const size_t k = shape->outputs;

    for (size_t s = 0; s < shape->scored; s++) {
        const size_t target = (size_t)targets[s];
        means[MODEL_LOSS] -= model[s * k + target] / (double)shape->scored;
        for (size_t i = 0; i < count; i++) {
            const double *q = outputs[i] + at + s * k;
            means[loss_at(i)] -= q[target] / (double)shape->scored;
            for (size_t a = 0; a < k; a++)
                means[distance_at(i)] += exp(q[a]) * (q[a] - model[s * k + a]) / (double)shape->scored;
        }
    }
    means[NEARER_TO_FIRST] = means[distance_at(1)] - means[distance_at(0)];
    for (size_t n = 0; n < COMPARISON_NUMBERS; n++) {
        total->sum[n] += means[n];
        total->square[n] += means[n] * means[n];
    }
}

/* The room for the outputs of a chunk: of the predictors, and of the model in double precision. */
static icl_status make_room(const icl_study *study, const icl_sequences *drawn, size_t count, double **outputs,
                            double **model, icl_error *error) {
    const size_t size = drawn->chunk * drawn->task->shape.scored * drawn->task->shape.outputs;

    for (size_t i = 0; i < count; i++)
        ICL_CHECK(icl_study_room(study, size, sizeof *outputs[i], &outputs[i], error));
    return icl_study_room(study, size, sizeof **model, model, error);
}

static void add_chunk(const icl_sequences *drawn, const comparison *with, double *const *outputs, double *model,
                      sums *total) {
    const icl_task_shape *shape = &drawn->task->shape;
    const size_t k = shape->outputs, sequence = shape->scored * k;

    for (size_t j = 0; j < drawn->chunk * shape->scored; j++) {
        for (size_t a = 0; a < k; a++)
            model[j * k + a] = (double)drawn->model[j * k + a];
        normalize(model + j * k, k);
        for (size_t i = 0; i < with->count; i++)
            normalize(outputs[i] + j * k, k);
    }
    for (size_t s = 0; s < drawn->chunk; s++)
        add_sequence(shape, with->count, drawn->targets + s * shape->scored, model + s * sequence, outputs,
                     s * sequence, total);
}

/* Fills numbers [COMPARISON_NUMBERS] from `chunks` chunks of sequences of the task. */
static icl_status compare(const icl_study *study, const icl_task *task, icl_trainer *trainer, const comparison *with,
                          size_t chunks, icl_number *numbers, icl_error *error) {
    icl_sequences drawn = {0};
    double *outputs[MOST_PREDICTORS] = {NULL}, *model = NULL;
    icl_status status = ICL_OK;
    sums total = {{0}, {0}};

    ICL_TRY(icl_sequences_create(study->run->params->backend, task, study->run->params->seed, &drawn, error));
    ICL_TRY(make_room(study, &drawn, with->count, outputs, &model, error));
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        const icl_shown_sequences shown = {task, drawn.chunk, drawn.inputs, &drawn.batch, drawn.backend};
        ICL_TRY(icl_reproduce_poll(study->run, error));
        ICL_TRY(icl_sequences_sample(&drawn, chunk, error));
        ICL_TRY(icl_sequences_refer(&drawn, NULL, drawn.chunk, NULL, error));
        ICL_TRY(icl_sequences_predict(&drawn, trainer, error));
        for (size_t i = 0; i < with->count; i++) {
            const icl_reference_predictor *predictor = predictor_of(task, with->names[i]);
            ICL_TRY(predictor->predict(predictor, &shown, outputs[i], error));
        }
        add_chunk(&drawn, with, outputs, model, &total);
    }
    const size_t count = chunks * drawn.chunk;
    for (size_t n = 0; n < COMPARISON_NUMBERS; n++)
        numbers[n] = (icl_number){total.sum[n] / (double)count,
                                  icl_standard_error_of_sums(total.sum[n], total.square[n], count)};
done:
    icl_sequences_release(&drawn);
    return status;
}

/* ---- The stages of a training ---- */

enum { MOST_MOMENTS = 51 };

static const struct {
    size_t steps, every, seeds;
    double above; /* loss at the end less that of Bayes */
    const char *settings;
} stage_budgets[ICL_SCALES] = {
    {400, 20, 1, .05, "train.warmup=200"},
    {2000, 40, 5, .01, NULL},
    {20000, 400, 5, .005, "train.learning_rate=0.001 model.width=64 train.warmup=4000"},
};

enum { UNIFORM = 0, UNIGRAM, BIGRAM, STAGES };
static const comparison stages = {{"uniform", "unigram", "bigram"}, STAGES};

static void plan_stages(icl_study *study) {
    for (size_t i = 0; i < stage_budgets[study->scale].seeds; i++) {
        const uint32_t seed = icl_study_seed(study, i);
        ICL_ADD_CELL(study, .name = ICL_PHRASE("seed %" PRIu32, seed), .group = ICL_PHRASE("seed-%zu", i + 1),
                     .recipe = "markov", .seed = seed, .folder = ICL_PHRASE("markov-seed%" PRIu32, seed),
                     .settings = {ICL_PHRASE("eval.every=0 train.steps=%zu train.snapshot_every=%zu",
                                             stage_budgets[study->scale].steps, stage_budgets[study->scale].every),
                                  stage_budgets[study->scale].settings});
    }
}

static size_t count_moments(const icl_study *study) {
    return stage_budgets[study->scale].steps / stage_budgets[study->scale].every + 1;
}

static double step_of(const icl_study *study, size_t moment) {
    return (double)(moment * stage_budgets[study->scale].every);
}

static const icl_number *moment_of(const icl_study_cell *cell, size_t moment) {
    return cell->numbers + moment * COMPARISON_NUMBERS;
}

static icl_status measure_stages(icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                 icl_number *numbers, icl_error *error) {
    for (size_t i = 0; i < count_moments(study); i++) {
        ICL_CHECK(icl_study_go_to_step(study, cell, (uint64_t)(i * stage_budgets[study->scale].every), trained, error));
        ICL_CHECK(
            compare(study, icl_trainer_task(trained), trained, &stages, 1, numbers + i * COMPARISON_NUMBERS, error));
    }
    return ICL_OK;
}

/* Returns the predictor that the model is nearest to at a moment. */
static size_t nearest(const icl_study_cell *cell, size_t moment) {
    size_t least = 0;
    for (size_t i = 1; i < STAGES; i++)
        if (moment_of(cell, moment)[distance_at(i)].value < moment_of(cell, moment)[distance_at(least)].value)
            least = i;
    return least;
}

/* Returns the first moment at which the model is nearest to a predictor; the number of moments for never. */
static size_t onset(const icl_study *study, const icl_study_cell *cell, size_t predictor) {
    size_t moment = 0;
    while (moment < count_moments(study) && nearest(cell, moment) != predictor)
        moment++;
    return moment;
}

/* Returns whether the model is nearest to uniform, unigram and bigram in turn. */
static bool is_in_turn(const icl_study *study, const icl_study_cell *cell) {
    for (size_t i = 1; i < count_moments(study); i++)
        if (nearest(cell, i) < nearest(cell, i - 1))
            return false;
    return nearest(cell, 0) == UNIFORM && onset(study, cell, UNIGRAM) < onset(study, cell, BIGRAM) &&
           onset(study, cell, BIGRAM) < count_moments(study);
}

static void judge_stages(icl_study *study, const icl_study_cell *cell) {
    const size_t unigram = onset(study, cell, UNIGRAM), bigram = onset(study, cell, BIGRAM);
    const icl_number *last = moment_of(cell, count_moments(study) - 1);

    ICL_JUDGE(study, .quantity = "loss at the end less that of Bayes",
              .ours = last[MODEL_LOSS].value - last[loss_at(BIGRAM)].value, .target = 0,
              .tolerance = stage_budgets[study->scale].above, .criterion = ICL_AT_MOST, .evidence = ICL_COMPUTED,
              .source = "bigram with alpha is Bayes",
              .note =
                  ICL_PHRASE("loss %.4g; Bayes %.4g, unigram %.4g, uniform %.4g", last[MODEL_LOSS].value,
                             last[loss_at(BIGRAM)].value, last[loss_at(UNIGRAM)].value, last[loss_at(UNIFORM)].value));
    ICL_JUDGE(study, .quantity = "steps nearest to unigram", .ours = step_of(study, bigram) - step_of(study, unigram),
              .note = ICL_PHRASE("from step %g to step %g", step_of(study, unigram), step_of(study, bigram)));
}

static void draw_stages(icl_study *study) {
    icl_curves losses = {.figure = {"loss", "A model of Markov chains: plateau and drop", "steps", "cross-entropy"}};
    icl_curves distances = ICL_CURVES(.name = "stages", .title = "Distances of the model from reference predictors",
                                      .x_label = "steps", .y_label = "D", .log_y = true);

    for (size_t k = 0; k < study->count * count_moments(study); k++) {
        const icl_study_cell *cell = study->cells[k / count_moments(study)];
        const size_t i = k % count_moments(study);
        const icl_number *numbers = moment_of(cell, i);
        if (!cell->is_measured)
            continue;
        icl_study_plot(study, &losses, cell->name, ICL_SERIES_LINE, step_of(study, i), numbers[MODEL_LOSS].value);
        for (size_t p = 0; p < STAGES; p++) {
            icl_study_plot(study, &losses, stages.names[p], ICL_SERIES_REFERENCE, step_of(study, i),
                           numbers[loss_at(p)].value);
            icl_study_plot(study, &distances, ICL_PHRASE("to %s", stages.names[p]), ICL_SERIES_LINE, step_of(study, i),
                           numbers[distance_at(p)].value);
        }
    }
    icl_study_draw(study, &losses);
    icl_study_draw(study, &distances);
}

static void conclude_stages(icl_study *study) {
    size_t count = 0, in_turn = 0;

    for (size_t i = 0; i < study->count; i++) {
        count += study->cells[i]->is_measured;
        in_turn += study->cells[i]->is_measured && is_in_turn(study, study->cells[i]);
    }
    ICL_JUDGE(study, .what = "the stages",
              .quantity = ICL_PHRASE("of %zu seed%s, nearest to uniform, unigram, bigram in turn", count,
                                     count == 1 ? "" : "s"),
              .ours = (double)in_turn, .target = (double)count, .criterion = ICL_AT_LEAST, .evidence = ICL_STATED,
              .source = "abstract");
    draw_stages(study);
}

const icl_reproduction icl_markov_phases =
    ICL_STUDY(.name = "markov-phases", .source = "arXiv 2402.11004, abstract",
              .about = "two layers of attention on Markov chains: which predictor they are nearest to, by step",
              .claim =
                  "A transformer that learns Markov chains in context predicts uniformly at first, then by counts of "
                  "single symbols, and then, after a drop of the loss, by counts of pairs.",
              .scope = "A met table means that the trained models are nearest to the three predictors in turn "
                       "and end near Bayes, on chains of three symbols; other orders of chains and the cause of "
                       "the drop were not tested.",
              .cost = {"10 s", "3 min", "1 h"}, .numbers = MOST_MOMENTS * COMPARISON_NUMBERS, .plan = plan_stages,
              .measure = measure_stages, .judge = judge_stages, .conclude = conclude_stages);

/* ---- Pools of chains ---- */

enum { POOL = 0, ALL_CHAINS, UNIGRAM_OF_POOL };
static const comparison posteriors = {{"bayes", "bigram", "unigram"}, 3};

/* First on chains of the pool, then on fresh ones. */
enum { OWN = 0, FRESH = COMPARISON_NUMBERS, POOL_NUMBERS = 2 * COMPARISON_NUMBERS };

/* Models are nearer to the posterior over the pool for pools up to `small`, and to that over all chains from `large`
 * on; the threshold lies between them. */
static const struct {
    const char *settings;
    size_t chunks, small, large;
    size_t pools[10]; /* 0 behind the last */
} pool_budgets[ICL_SCALES] = {
    {"train.steps=300 train.warmup=100", 1, 2, 1024, {2, 1024}},
    {"train.steps=2000", 2, 2, 256, {2, 8, 32, 256}},
    {"train.steps=20000 model.width=64", 8, 4, 1024, {2, 4, 8, 16, 64, 256, 1024, 4096}},
};

static void plan_pools(icl_study *study) {
    for (const size_t *pool = pool_budgets[study->scale].pools; *pool > 0; pool++)
        ICL_ADD_CELL(
            study, .name = ICL_PHRASE("pool-%zu", *pool), .recipe = "markov", .seed = icl_study_seed(study, 0),
            .at = {*pool},
            .settings = {pool_budgets[study->scale].settings, ICL_PHRASE("eval.every=0 task.pool=%zu", *pool)});
}

static icl_status measure_pool(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                               icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_task *task = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_clone(cell->complete, &recipe, error));
    for (size_t world = OWN; world <= FRESH; world += FRESH) {
        ICL_TRY(icl_recipe_set_text(recipe, "task", "fresh_functions", world == FRESH ? "true" : "false", error));
        ICL_TRY(icl_task_create(recipe, &task, error));
        ICL_TRY(compare(study, task, trained, &posteriors, pool_budgets[study->scale].chunks, numbers + world, error));
        icl_task_destroy(&task);
    }
done:
    icl_task_destroy(&task);
    icl_recipe_destroy(&recipe);
    return status;
}

static void judge_world(icl_study *study, size_t pool, const char *chains, const icl_number *numbers) {
    const size_t small = pool_budgets[study->scale].small, large = pool_budgets[study->scale].large;
    const bool is_large = pool >= large, is_judged = pool <= small || is_large;
    const icl_number nearer = numbers[NEARER_TO_FIRST];

    ICL_JUDGE(study, .what = ICL_PHRASE("model of a pool of %zu, on %s chains", pool, chains),
              .quantity = is_large ? "nearer to bigram than to the pool's posterior by"
                                   : "nearer to the pool's posterior than to bigram by",
              .ours = is_large ? -nearer.value : nearer.value, .standard_error = nearer.standard_error,
              .target = 2 * nearer.standard_error, .criterion = ICL_AT_LEAST,
              .evidence = is_judged ? ICL_INFERRED : ICL_EVIDENCE_NONE,
              .source = "arXiv 2306.15063 on regression; two standard errors",
              .note = ICL_PHRASE("D to the pool's %.4g, to bigram %.4g; losses %.4g, pool's %.4g, bigram %.4g",
                                 numbers[distance_at(POOL)].value, numbers[distance_at(ALL_CHAINS)].value,
                                 numbers[MODEL_LOSS].value, numbers[loss_at(POOL)].value,
                                 numbers[loss_at(ALL_CHAINS)].value));
}

/* Bayes is the best that can be had: over the pool on its own chains, over all chains on fresh ones. */
static void judge_posteriors(icl_study *study, size_t pool, bool is_fresh, const icl_number *numbers) {
    ICL_JUDGE(study, .what = ICL_PHRASE("posterior over a pool of %zu, on %s chains", pool, is_fresh ? "fresh" : "its"),
              .quantity = "loss less that of bigram",
              .ours = numbers[loss_at(POOL)].value - numbers[loss_at(ALL_CHAINS)].value, .target = 0,
              .criterion = is_fresh ? ICL_AT_LEAST : ICL_AT_MOST, .evidence = ICL_COMPUTED,
              .source = "Bayes is optimal");
}

static void judge_pool(icl_study *study, const icl_study_cell *cell) {
    judge_posteriors(study, cell->at[0], false, cell->numbers + OWN);
    judge_posteriors(study, cell->at[0], true, cell->numbers + FRESH);
    judge_world(study, cell->at[0], "the pool's", cell->numbers + OWN);
    judge_world(study, cell->at[0], "fresh", cell->numbers + FRESH);
}

static void conclude_pools(icl_study *study) {
    static const struct {
        const char *label;
        size_t number;
    } lines[] = {{"to the pool's posterior, its chains", OWN + 2 * POOL},
                 {"to bigram, the pool's chains", OWN + 2 * ALL_CHAINS},
                 {"to the pool's posterior, fresh chains", FRESH + 2 * POOL},
                 {"to bigram, fresh chains", FRESH + 2 * ALL_CHAINS}};
    icl_curves curves =
        ICL_CURVES(.name = "markov-diversity", .title = "Distances of a model by the chains that it was trained on",
                   .x_label = "chains in the pool", .y_label = "D", .log_x = true, .log_y = true);

    for (size_t i = 0; i < study->count; i++)
        for (size_t line = 0; study->cells[i]->is_wanted && line < sizeof lines / sizeof *lines; line++)
            icl_study_plot(study, &curves, lines[line].label, ICL_SERIES_OURS, (double)study->cells[i]->at[0],
                           study->cells[i]->numbers[lines[line].number].value);
    icl_study_draw(study, &curves);
}

const icl_reproduction icl_markov_diversity =
    ICL_STUDY(.name = "markov-diversity", .source = "arXiv 2402.11004 and 2306.15063",
              .about = "a model of a pool of Markov chains, nearer to the posterior over the pool or over all chains",
              .claim =
                  "A transformer that is trained on few Markov chains predicts as if there were no others; one that is "
                  "trained on many counts pairs, as one that has seen all.",
              .scope = "A met table means that models of the smallest and of the largest pool are nearer to the "
                       "predictor that its number of chains calls for; where between them the change comes was "
                       "not judged.",
              .cost = {"10 s", "2 min", "1 h"}, .numbers = POOL_NUMBERS, .plan = plan_pools, .measure = measure_pool,
              .judge = judge_pool, .conclude = conclude_pools);
