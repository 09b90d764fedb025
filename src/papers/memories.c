/*
 * Twenty-two memories on one page: each mixer but the convolution recalls, copies, tracks and predicts, by the same
 * training.
 *
 * A model is a gated convolution, which puts a token next to the one before it, and a layer of the mixer with one head,
 * each with a gated feed-forward part. Models are compared at equal numbers of parameters, where the width follows the
 * mixer, and at equal numbers of the state, where the width of the keys does; where both lead to one model, it is
 * trained once. Softmax attention and the forgetting transformer keep every key and value, and log-linear attention a
 * state for each power of two, so that they have no state of a given size. The state is measured: it is what a decoder
 * keeps.
 *
 * The tasks: associative recall (Arora et al. 2023), selective copying (Poli et al. 2024), parity of up to 40 bits
 * (Grazzi et al. 2024), Markov chains of three symbols (Edelman et al. 2024), and linear functions of five inputs (Garg
 * et al. 2022). Scores are accuracies, or losses above that of the Bayes-optimal predictor. There are no published
 * numbers for these sizes. The study judges floors that no model can be below, chance, and orders that papers state.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "iclab/decode.h"
#include "numeric/statistics.h"
#include "papers/papers.h"

/* ---- Mixers ---- */

enum { VALUE_WIDTH = 16, KEY_WIDTH = 16, STATE = VALUE_WIDTH * KEY_WIDTH };

/* Abilities that a mixer has by construction: to turn the sign of what its state holds, with a write strength of 2; to
 * choose by the token what each channel of its state keeps; to keep more for longer sequences; to rotate, by angles of
 * the token, what its state holds, and so to turn its sign. */
enum { TURNS = 1, CHOOSES = 2, GROWS = 4, ROTATES = 8 };

static const struct {
    const char *name, *settings;
    unsigned abilities;
    size_t key_width; /* with which the state has about STATE numbers; 0: KEY_WIDTH */
} mixers[] = {
    {"softmax", "", GROWS, 0},
    {"fox", "", GROWS, 0},
    {"linear", "model.feature_map=elu+1", 0, 0},
    {"retention", "", 0, 0},
    {"gla", "", CHOOSES, 0},
    {"mamba2", "", 0, 0},
    {"mamba3", "", ROTATES, 0},
    {"gsa", "", CHOOSES, 10},
    {"oja", "", TURNS | CHOOSES, 0},
    {"log-linear", "", GROWS, 0},
    {"delta", "", TURNS, 0},
    {"gated-delta", "", TURNS, 0},
    {"delta-product", "", TURNS, 0},
    {"kda", "", TURNS | CHOOSES, 0},
    {"gated-delta-2", "", TURNS | CHOOSES, 0},
    {"preconditioned-delta", "", TURNS, 0},
    {"comba", "", TURNS, 0},
    {"rwkv7", "", CHOOSES, 0},
    {"titans", "", TURNS, 0},
    {"longhorn", "", 0, 0},
    {"mesa", "", 0, 10},
    {"momentum", "", 0, 8},
};
enum { MIXERS = sizeof mixers / sizeof *mixers };

static bool has(size_t mixer, unsigned abilities) {
    return (mixers[mixer].abilities & abilities) != 0;
}

/* ---- Tasks ---- */

typedef enum task { RECALL = 0, COPYING, PARITY, CHAINS, FUNCTIONS, TASKS } task;

static const struct {
    const char *name, *recipe;
    const char *settings[ICL_SCALES]; /* NULL: not at this scale */
    const char *least;                /* the predictor of the least loss; NULL: the score is an accuracy */
} tasks[TASKS] = {
    {"recall",
     "recall",
     {"task.vocabulary=16 task.length=14 task.pairs=3", "task.vocabulary=32 task.length=32 task.pairs=8",
      "task.vocabulary=64 task.length=48 task.pairs=12"},
     NULL},
    {"copying",
     "mad",
     {NULL, "task.skill=selective-copying task.length=32 task.copied=6",
      "task.skill=selective-copying task.length=32 task.copied=6"},
     NULL},
    {"parity",
     "state-parity",
     {"task.shortest=2 task.longest=8", "task.shortest=2 task.longest=40", "task.shortest=2 task.longest=40"},
     NULL},
    {"chains", "markov", {"task.length=30", "task.length=60", "task.length=60"}, "bayes"},
    {"functions", "garg", {NULL, "task.d=5 task.n=12", "task.d=5 task.n=12"}, "least-squares"},
};

static const size_t steps[ICL_SCALES] = {100, 2000, 8000}, seeds[ICL_SCALES] = {1, 2, 5},
                    sequences[ICL_SCALES] = {256, 1024, 4096};

/* Mixers of scale ci. */
static const char *const few[] = {"softmax", "linear", "delta"};

static bool is_trained(const icl_study *study, size_t mixer) {
    for (size_t i = 0; i < sizeof few / sizeof *few; i++)
        if (strcmp(mixers[mixer].name, few[i]) == 0)
            return true;
    return study->scale > ICL_SCALE_CI;
}

/* ---- Cells ---- */

typedef enum budget { EQUAL_PARAMETERS = 0, EQUAL_STATE, EQUAL_BOTH, BUDGETS } budget;

static const char *const budget_names[BUDGETS] = {"equal parameters", "equal state", "equal parameters and state"};

enum { TASK = 0, MIXER, BUDGET }; /* places in the grid */

enum { WIDTH = 32, LEAST_WIDTH = 16, MOST_WIDTH = 64 };

/* Settings that all models and trainings share. */
#define COMMON                                                                                                         \
    "model.family=sequence model.layers=2 model.heads=1 model.convolution=3 model.norm=layer model.positions=none "    \
    "model.feed_forward=swiglu model.feed_forward_factor=2 train.batch=32 train.learning_rate=0.005 "                  \
    "train.weight_decay=0.01 train.clip=1 train.schedule=cosine eval.every=0 eval.predictors=all"

/* A write of strength 2 turns a state's sign, which only parity needs. */
static icl_phrase describe_mixer(task which, size_t mixer, size_t width, size_t key_width) {
    const int strength = which == PARITY && has(mixer, TURNS) ? 2 : 1;

    return icl_phrase_print("model.mixer=conv,%s %s model.width=%zu model.key_width=%zu model.value_width=%d "
                            "model.write_strength=%d",
                            mixers[mixer].name, mixers[mixer].settings, width, key_width, VALUE_WIDTH, strength);
}

static const char *describe_task(const icl_study *study, task which) {
    return tasks[which].settings[study->scale];
}

/* Counts the parameters of a model. */
static icl_status count_parameters(const icl_study *study, task which, size_t mixer, size_t width, size_t *count,
                                   icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_task *drawn = NULL;
    icl_model *model = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_recipe(tasks[which].recipe, &recipe, error));
    ICL_TRY(icl_reproduce_override_all(recipe, describe_task(study, which), error));
    ICL_TRY(icl_reproduce_override_all(recipe, COMMON, error));
    ICL_TRY(icl_reproduce_override_all(recipe, describe_mixer(which, mixer, width, KEY_WIDTH).text, error));
    ICL_TRY(icl_task_create(recipe, &drawn, error));
    ICL_TRY(icl_model_create(recipe, *icl_task_get_shape(drawn), &model, error));
    *count = icl_model_size(model);
done:
    icl_model_destroy(&model);
    icl_task_destroy(&drawn);
    icl_recipe_destroy(&recipe);
    return status;
}

/* Finds the even width whose number of parameters is nearest to that of the first mixer at WIDTH. */
static size_t fit_width(icl_study *study, task which, size_t mixer) {
    size_t low = LEAST_WIDTH, high = MOST_WIDTH, wanted = 0, below = 0, above = 0;

    if (mixer == 0)
        return WIDTH;
    ICL_STUDY_CALL(study, count_parameters, study, which, 0, WIDTH, &wanted);
    while (high - low > 2) {
        size_t count = 0;
        const size_t middle = (low + high) / 4 * 2;
        ICL_STUDY_CALL(study, count_parameters, study, which, mixer, middle, &count);
        if (count > wanted) {
            high = middle;
            above = count;
        } else {
            low = middle;
            below = count;
        }
    }
    return above - wanted < wanted - below ? high : low;
}

static void plan_cell(icl_study *study, task which, size_t mixer, budget compared, size_t width) {
    const char *name = mixers[mixer].name;
    static const char *const folders[BUDGETS] = {"parameters", "state", "both"};
    const bool is_narrow = compared == EQUAL_STATE && mixers[mixer].key_width > 0;
    const size_t key_width = is_narrow ? mixers[mixer].key_width : KEY_WIDTH;

    for (size_t i = 0; i < seeds[study->scale]; i++) {
        const uint32_t seed = icl_study_seed(study, i);
        ICL_ADD_CELL(study, .name = ICL_PHRASE("%s, %s, %s", tasks[which].name, name, budget_names[compared]),
                     .group = ICL_PHRASE("%s-%s", tasks[which].name, name),
                     .folder = ICL_PHRASE("%s-%s-%s-seed%" PRIu32, tasks[which].name, name, folders[compared], seed),
                     .recipe = tasks[which].recipe, .seed = seed, .may_diverge = true, .at = {which, mixer, compared},
                     .settings = {describe_task(study, which), COMMON,
                                  describe_mixer(which, mixer, width, key_width).text,
                                  ICL_PHRASE("train.steps=%zu train.warmup=%zu eval.sequences=%zu", steps[study->scale],
                                             steps[study->scale] / 20, sequences[study->scale])});
    }
}

static void plan_mixer(icl_study *study, task which, size_t mixer) {
    const size_t width = fit_width(study, which, mixer);

    if (has(mixer, GROWS)) {
        plan_cell(study, which, mixer, EQUAL_PARAMETERS, width);
    } else if (width == WIDTH && mixers[mixer].key_width == 0) {
        plan_cell(study, which, mixer, EQUAL_BOTH, width);
    } else {
        plan_cell(study, which, mixer, EQUAL_PARAMETERS, width);
        plan_cell(study, which, mixer, EQUAL_STATE, WIDTH);
    }
}

static void plan(icl_study *study) {
    for (size_t which = 0; which < TASKS; which++)
        for (size_t mixer = 0; mixer < MIXERS && describe_task(study, which); mixer++)
            if (is_trained(study, mixer))
                plan_mixer(study, which, mixer);
}

/* ---- Numbers ---- */

/* The accuracy, or the loss above the least one, with its standard error over sequences; the accuracy of chance; the
 * numbers of the parameters and of the state. */
enum { SCORE = 0, CHANCE, PARAMETERS, STATE_NUMBERS, NUMBERS };

/* Measures the numbers that a decoder keeps of one sequence, of both layers. */
static icl_status measure_state(const icl_study *study, icl_trainer *trained, icl_number *state, icl_error *error) {
    const icl_model *model = icl_trainer_model(trained);
    icl_backend *backend = study->run->params->backend;
    icl_decoder *decoder = NULL;
    icl_tensor parameters = {0};
    float *values = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_parameters(study, trained, &values, error));
    ICL_TRY(icl_tensor_create(backend, 1, (const size_t[]){icl_model_size(model)}, &parameters, error));
    ICL_TRY(icl_tensor_write(parameters, values, error));
    ICL_TRY(icl_decoder_create(model, backend, parameters, 1, &decoder, error));
    state->value = (double)icl_decoder_state_bytes(decoder) / (double)icl_backend_capabilities(backend)->element_size;
done:
    icl_decoder_destroy(&decoder);
    icl_tensor_release(&parameters);
    return status;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    const char *least = tasks[cell->at[TASK]].least;
    icl_evaluation *evaluation = NULL;

    ICL_CHECK(icl_study_evaluate(study, cell, trained, NULL, &evaluation, error));
    const icl_score *model = evaluation->scores, *floor = least ? icl_reproduce_score(evaluation, least) : NULL;
    if (floor) { /* the difference is theirs less ours */
        numbers[SCORE] = (icl_number){-floor->minus_model, floor->minus_model_se};
    } else {
        const double p = model->accuracy, count = (double)evaluation->sequences; /* answers of a sequence may depend */
        numbers[SCORE] = (icl_number){p, sqrt(p * (1 - p) / count)};
        numbers[CHANCE].value = icl_reproduce_score(evaluation, "uniform")->accuracy;
    }
    numbers[PARAMETERS].value = (double)icl_model_size(icl_trainer_model(trained));
    return measure_state(study, trained, &numbers[STATE_NUMBERS], error);
}

/* ---- Judging ---- */

/* Returns a point's score: the mean over seeds, with their standard error or that of one evaluation, whichever is
 * larger. */
static icl_number score_of(const icl_study *study, const icl_study_cell *cell) {
    icl_number score = icl_over_seeds(study, cell, SCORE);

    score.standard_error = fmax(score.standard_error, cell->numbers[SCORE].standard_error);
    return score;
}

/* The state of the mixer, and the inputs that the convolution before it and those of its queries, keys and values look
 * back on. */
static const double expected_state = STATE + 2 * WIDTH + 2 * (2 * KEY_WIDTH + VALUE_WIDTH);

/* No loss is below the least one, and no accuracy below chance, but for the error of an evaluation. */
static void judge(icl_study *study, const icl_study_cell *cell) {
    const bool is_loss = tasks[cell->at[TASK]].least != NULL;
    const icl_number score = score_of(study, cell);

    ICL_JUDGE(study, .quantity = is_loss ? "loss above the least" : "accuracy", ICL_OURS(score),
              .target = is_loss ? 0 : cell->numbers[CHANCE].value, .tolerance = 3 * score.standard_error,
              .criterion = ICL_AT_LEAST, .evidence = ICL_COMPUTED,
              .source = is_loss ? tasks[cell->at[TASK]].least : "chance",
              .note = ICL_PHRASE("%.0f parameters, a state of %.0f numbers", cell->numbers[PARAMETERS].value,
                                 cell->numbers[STATE_NUMBERS].value));
    if (cell->at[TASK] == RECALL && cell->at[BUDGET] != EQUAL_PARAMETERS)
        ICL_JUDGE(study, .quantity = "numbers of the state", .ours = cell->numbers[STATE_NUMBERS].value,
                  .target = expected_state, .tolerance = .2 * expected_state, .evidence = ICL_COMPUTED,
                  .source = "keys times values, and inputs of convolutions");
}

/* Finds the point of a mixer at equal parameters or at equal state; NULL if there is none. */
static const icl_study_cell *find_point(const icl_study *study, task which, size_t mixer, budget compared) {
    const icl_study_cell *both = NULL;

    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        if (cell->at[TASK] != (size_t)which || cell->at[MIXER] != mixer)
            continue;
        if (cell->at[BUDGET] == (size_t)compared)
            return cell;
        both = cell->at[BUDGET] == EQUAL_BOTH ? cell : both;
    }
    return both;
}

/* ---- Orders: what mixers with an ability score less what the others of fixed states do ---- */

static const struct {
    const char *what, *source;
    task which;
    unsigned ability;
} orders[] = {
    {"states that turn above others", "Grazzi et al. 2024", PARITY, TURNS | ROTATES},
    {"states that choose by the token what each channel keeps above others", "Gu and Dao 2023", COPYING, CHOOSES},
    {"delta rules below other states", "Yang et al. 2024", FUNCTIONS, TURNS},
};

/* Judges the difference of two means over mixers, whose standard error is that of the means. */
static void judge_order(icl_study *study, size_t order) {
    const task which = orders[order].which;
    const double sign = tasks[which].least ? -1 : 1;
    double scores[2][MIXERS];
    size_t counts[2] = {0};

    for (size_t mixer = 0; mixer < MIXERS; mixer++) {
        const icl_study_cell *point = find_point(study, which, mixer, EQUAL_STATE);
        const double score = point ? icl_over_seeds(study, point, SCORE).value : (double)NAN;
        const bool is_able = has(mixer, orders[order].ability);
        if (!isnan(score))
            scores[is_able][counts[is_able]++] = score;
    }
    if (counts[0] < 2 || counts[1] < 2)
        return;
    const double error = hypot(icl_standard_error(scores[0], counts[0]), icl_standard_error(scores[1], counts[1]));
    ICL_JUDGE(study, .what = orders[order].what, .quantity = ICL_PHRASE("%s, equal state", tasks[which].name),
              .ours = sign * (icl_mean(scores[1], counts[1]) - icl_mean(scores[0], counts[0])), .standard_error = error,
              .target = 2 * error, .criterion = ICL_AT_LEAST, .evidence = ICL_INFERRED, .source = orders[order].source,
              .note = ICL_PHRASE("means of %zu and of %zu mixers", counts[1], counts[0]));
}

/* ---- Figures ---- */

/* Storage for a heat map of the scores of one budget. */
typedef struct map_room {
    double values[MIXERS * TASKS];
    const char *rows[MIXERS], *columns[TASKS];
} map_room;

/* Fills a map of mixers by the tasks whose scores are losses, or accuracies. */
static icl_heat_map fill_map(const icl_study *study, bool is_loss, budget compared, map_room *room) {
    size_t rows = 0, columns = 0, used = 0;

    for (size_t which = 0; which < TASKS; which++)
        if ((tasks[which].least != NULL) == is_loss && describe_task(study, which))
            room->columns[columns++] = tasks[which].name;
    for (size_t mixer = 0; mixer < MIXERS; mixer++) {
        if (!find_point(study, RECALL, mixer, compared))
            continue;
        room->rows[rows++] = mixers[mixer].name;
        for (size_t which = 0; which < TASKS; which++)
            if ((tasks[which].least != NULL) == is_loss && describe_task(study, which))
                room->values[used++] = icl_over_seeds(study, find_point(study, which, mixer, compared), SCORE).value;
    }
    return (icl_heat_map){budget_names[compared], rows, columns, room->values, room->rows, room->columns};
}

static void draw(icl_study *study, bool is_loss, budget compared) {
    map_room room;
    const icl_heat_map map = fill_map(study, is_loss, compared, &room);
    const char *suffix = compared == EQUAL_STATE ? "state" : "parameters";

    ICL_STUDY_MAPS(study, .name = ICL_PHRASE("memories-%s-%s", is_loss ? "losses" : "accuracies", suffix),
                   .title = is_loss ? "Losses above the least by mixer" : "Accuracies by mixer", .row_label = "mixer",
                   .column_label = "task", .amounts = true,
                   .value_label = is_loss ? "loss above the least" : "accuracy", .count = 1, .maps = &map);
}

static void conclude(icl_study *study) {
    for (size_t i = 0; i < sizeof orders / sizeof *orders && study->scale > ICL_SCALE_CI; i++)
        judge_order(study, i);
    for (budget compared = EQUAL_PARAMETERS; compared < EQUAL_BOTH; compared++) {
        draw(study, false, compared);
        draw(study, true, compared);
    }
}

const icl_reproduction icl_memories = ICL_STUDY(
        .name = "memories", .source = "arXiv 2312.04927, 2403.17844, 2411.12537, 2402.11004, 2208.01066",
        .about = "all mixers on one page: recall, copying, parity, chains, functions, at equal parameters and states",
        .claim =
            "States of one size differ by what they can do with it: those that a write can turn track parity, those "
            "whose channels choose what they keep copy best, and delta rules are nearest to least squares.",
        .scope = "A met table means that no mixer is below what no model can beat and that three orders "
                 "which papers state hold at this size; the other orders of the page are shown and not "
                 "judged, and one training each does not tell luck from merit.",
        .cost = {"5 s", "12 min", "10 h"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
        .conclude = conclude);
