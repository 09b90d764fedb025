#include "train/multistart.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "core/recipe_keys.h"
#include "iclab/random.h"
#include "model/linear_transformer.h"
#include "numeric/statistics.h"
#include "train/objective.h"
#include "train/trainer.h"

#define STARTS_OF_CHEAP 4
#define SHARE           4 /* a start takes 1 / SHARE of the steps */

/* The number of sequences that starts are compared on, if an objective holds that many, and the number of the batches
 * that they come from, which no step draws. */
#define SEQUENCES       32768
#define COMPARE_BATCHES ((uint64_t)1 << 43)

#define START_SEEDS 0x73740000u /* the stream of their seeds, see random.h */

/* ---- The number of starts ---- */

size_t icl_starts_count(const icl_trainer *trainer) {
    const icl_training_settings *settings = &trainer->problem.settings;

    if (settings->starts > 0)
        return settings->starts;
    return icl_trainer_is_cheap(trainer) && !settings->begins_with_one ? STARTS_OF_CHEAP : 1;
}

/* ---- Scouts ----
 *
 * The loss of several layers has several minima, and starts that differ by little noise end at the same one. Scouts
 * therefore begin far apart: with a random sign and size for each coefficient of each layer, so that the order of
 * layers differs, too. A scout is a small model, whose P and Q are diagonal, and takes a short training, by L-BFGS on
 * few fixed sequences. */

#define SCOUTS_A_LAYER  8
#define MOST_SCOUTS     32
#define SCOUT_SEQUENCES 4096
#define ITERATIONS      100
#define HISTORY         20
#define HELD            16384 /* sequences that scouts are ranked on */
/* The numbers of their batches, which no step draws. */
#define FIXED_BATCH ((uint64_t)3 << 41)
#define HELD_BATCH  ((uint64_t)3 << 42)

/* Few contexts can carry the mean of a deep layer's losses, and later steps tame them: the best basin of gd++
 * with three layers, d = n = 10, has a mean of .5 after a quarter of the steps, and of .081, the least of all, in the
 * end. Scouts and starts are therefore compared without the largest share of losses. */
#define LEFT_OUT 0.001

#define SAME_BASIN 1.02 /* the largest ratio of two losses in one basin */

#define SCOUT_STREAM 0x73740001u /* of their coefficients, see random.h */

typedef struct scout {
    double loss;
    size_t number;
} scout;

typedef struct basins {
    size_t layers;            /* with parameters of their own */
    icl_linear_layer *points; /* [MOST_SCOUTS][layers]: where the scouts ended */
    scout scouts[MOST_SCOUTS];
    icl_basins_seen seen;
    size_t best[MOST_SCOUTS]; /* the place in `scouts` of each basin's best */
} basins;

/* ---- The scouts' model ---- */

/* Returns the form of the scouts for a form of layers; NULL: there are none, for the order of its steps changes no
 * loss. */
static const char *scouting_form(const icl_trainer *trainer) {
    switch (icl_linear_read(trainer->problem.recipe).parameterization) {
    case ICL_LINEAR_GDPP:
    case ICL_LINEAR_SPARSE_B:
        return "gd++";
    case ICL_LINEAR_SPARSE:
        return NULL;
    default:
        return "diag";
    }
}

typedef struct scouting {
    const icl_trainer *trainer;
    icl_task *task; /* NULL: the trainer's own */
    icl_model *model;
    icl_objective *fixed, *held;
    double *losses; /* [held sequences] */
    double *at;     /* [N] */
    double unit;    /* length of a short descent's steps */
} scouting;

static icl_status create_model(scouting *s, const char *form, icl_error *error) {
    const icl_training_problem *problem = &s->trainer->problem;
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_clone(problem->recipe, &recipe, error));
    ICL_TRY(icl_recipe_set_text(recipe, ICL_KEY_NAME("model", icl_linear_settings, parameterization), form, error));
    ICL_TRY(icl_recipe_set_text(recipe, ICL_KEY_NAME("model", icl_linear_settings, scale), "mean", error));
    ICL_TRY(icl_recipe_set_count(recipe, ICL_KEY_NAME("model", icl_model_settings, heads), 1, error));
    ICL_TRY(icl_model_create(recipe, *icl_task_get_shape(problem->task), &s->model, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

/* Returns `wanted` sequences, or as many as an objective holds. */
static size_t choose_scout_sequences(const icl_trainer *trainer, bool has_tokens, size_t wanted) {
    const size_t fitting = icl_objective_fitting(icl_objective_sequence_bytes(trainer->problem.task, has_tokens));
    return wanted < fitting ? wanted : fitting;
}

static icl_status create_objective(scouting *s, size_t sequences, uint64_t batch, icl_objective **objective,
                                   icl_error *error) {
    const icl_objective_params params = {.task = s->task ? s->task : s->trainer->problem.task,
                                         .model = s->model,
                                         .purpose = ICL_FOR_TRAINING,
                                         .sequences = choose_scout_sequences(s->trainer, !s->task, sequences),
                                         .beside = s->trainer->backend};

    ICL_CHECK(icl_objective_create(&params, objective, error));
    return icl_objective_draw(*objective, s->trainer->problem.settings.seed, batch, error);
}

/* ---- Points ---- */

/* The parameters of a diagonal layer are (p_x, p_y) and (q_x, q_y), or (q_x) in gd++. */
static void write_point(const icl_model *model, const icl_linear_layer *layers, double *at) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        const icl_linear_layer *layer = &layers[i / ICL_LINEAR_PARTS];
        const bool is_p = i % ICL_LINEAR_PARTS == ICL_LINEAR_P;
        at[info->offset] = is_p ? layer->p_x : layer->q_x;
        if (info->count > 1)
            at[info->offset + 1] = is_p ? layer->p_y : layer->q_y;
    }
}

static void read_point(const icl_model *model, const double *at, icl_linear_layer *layers) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        icl_linear_layer *layer = &layers[i / ICL_LINEAR_PARTS];
        const double first = at[info->offset], second = info->count > 1 ? at[info->offset + 1] : 0;
        if (i % ICL_LINEAR_PARTS == ICL_LINEAR_P) {
            layer->p_x = first;
            layer->p_y = second;
        } else {
            layer->q_x = first;
            layer->q_y = second;
        }
    }
}

/* Makes a layer of w_yx = p_y q_x = -step, w_xx = p_x q_x = change and w_yy = p_y q_y. */
static icl_linear_layer layer_of(double step, double change, double label) {
    const double q = sqrt(step);
    return (icl_linear_layer){.p_x = change / q, .p_y = -q, .q_x = q, .q_y = -label / q};
}

/* Finds the step, among powers of two, whose repetition by all layers lowers the loss most: the unit of coefficients,
 * which depends on the inputs' variance. */
static icl_status find_unit(scouting *s, icl_linear_layer *layers, size_t count, icl_error *error) {
    double least = HUGE_VAL;

    for (int power = -10; power <= 10; power++) {
        const double step = ldexp(1, power);
        double loss = 0;
        for (size_t l = 0; l < count; l++)
            layers[l] = layer_of(step, 0, 0);
        write_point(s->model, layers, s->at);
        ICL_CHECK(icl_objective_gradient(s->fixed, s->at, &loss, NULL, error));
        if (!(loss < least))
            continue;
        least = loss;
        s->unit = step;
    }
    return ICL_OK;
}

/* Draws a number from 0 to 1. */
static double draw(const scouting *s, size_t number, size_t index) {
    const icl_random_key key = {
        .seed = s->trainer->problem.settings.seed, .stream = SCOUT_STREAM, .step = (uint64_t)number};
    return ((double)icl_random_word(key, index) + .5) * 0x1p-32;
}

/* Draws the coefficients of a scout: their logarithms are uniform, from LOW to HIGH times the unit. Steps descend, and
 * inputs shrink or grow. */
static void draw_point(const scouting *s, size_t number, icl_linear_layer *layers, size_t count) {
    static const double step_low = .2, step_high = 8, change_low = .03, change_high = 3, label = .1;

    for (size_t l = 0; l < count; l++) {
        const size_t index = 4 * l;
        const double step = s->unit * step_low * pow(step_high / step_low, draw(s, number, index));
        const double change = s->unit * change_low * pow(change_high / change_low, draw(s, number, index + 1));
        layers[l] = layer_of(step, draw(s, number, index + 2) < .5 ? -change : change,
                             label * s->unit * (2 * draw(s, number, index + 3) - 1));
    }
}

/* ---- Scouts ---- */

/* Balances P and Q, whose products alone matter; in form (11), where P's last entry is 1, gives P that entry. */
static void balance(const icl_trainer *trainer, icl_linear_layer *layer) {
    const bool is_one = icl_linear_read(trainer->problem.recipe).parameterization == ICL_LINEAR_SPARSE_B;
    const double p = hypot(layer->p_x, layer->p_y), q = hypot(layer->q_x, layer->q_y);
    const double factor = is_one ? 1 / layer->p_y : sqrt(q / p);

    if (!isfinite(factor) || factor == 0)
        return;
    *layer = (icl_linear_layer){layer->p_x * factor, layer->p_y * factor, layer->q_x / factor, layer->q_y / factor};
}

/* Trains a scout and ranks its end. Its loss is infinite if it fails. */
static icl_status send(scouting *s, size_t number, icl_linear_layer *point, size_t layers, double *loss,
                       icl_error *error) {
    const icl_minimise_params params = {.history = HISTORY, .iterations = ITERATIONS};
    icl_minimised found;
    icl_error refusal = {0};

    *loss = HUGE_VAL;
    draw_point(s, number, point, layers);
    write_point(s->model, point, s->at);
    const icl_status status = icl_objective_minimise(s->fixed, &params, s->at, &found, &refusal);
    if (status == ICL_ERROR_INPUT) /* the loss at its start is not finite */
        return ICL_OK;
    if (status != ICL_OK) {
        *error = refusal;
        return status;
    }
    read_point(s->model, s->at, point);
    for (size_t l = 0; l < layers; l++)
        balance(s->trainer, &point[l]);
    ICL_CHECK(icl_objective_losses(s->held, s->at, s->losses, error));
    *loss = icl_trimmed_mean(s->losses, icl_objective_sequences(s->held), LEFT_OUT);
    if (!isfinite(*loss))
        *loss = HUGE_VAL;
    return ICL_OK;
}

static int compare_scouts(const void *a, const void *b) {
    const scout *x = a, *y = b;
    return x->loss < y->loss ? -1 : x->loss > y->loss ? 1 : x->number < y->number ? -1 : 1;
}

/* Gathers the scouts, from the best on, into basins. */
static void gather(basins *to) {
    icl_basins_seen *seen = &to->seen;

    qsort(to->scouts, seen->scouts, sizeof *to->scouts, compare_scouts);
    for (size_t i = 0; i < seen->scouts && isfinite(to->scouts[i].loss); i++) {
        if (seen->count > 0 && to->scouts[i].loss <= SAME_BASIN * to->scouts[to->best[seen->count - 1]].loss)
            continue;
        if (seen->count < ICL_LISTED_BASINS)
            seen->losses[seen->count] = to->scouts[i].loss;
        to->best[seen->count++] = i;
    }
}

static void release(scouting *s) {
    icl_objective_destroy(&s->fixed);
    icl_objective_destroy(&s->held);
    icl_model_destroy(&s->model);
    icl_task_destroy(&s->task);
    icl_free(&s->losses);
    icl_free(&s->at);
}

static icl_status prepare(scouting *s, basins *to, icl_error *error) {
    ICL_CHECK(icl_objective_choose_task(s->trainer->problem.recipe, &s->task, error));
    ICL_CHECK(create_objective(s, SCOUT_SEQUENCES, FIXED_BATCH, &s->fixed, error));
    ICL_CHECK(create_objective(s, HELD, HELD_BATCH, &s->held, error));
    ICL_CHECK(icl_allocate(icl_objective_sequences(s->held), sizeof(double), "scouts", &s->losses, error));
    ICL_CHECK(icl_allocate(icl_model_size(s->model), sizeof(double), "scouts", &s->at, error));
    to->layers = icl_linear_own_layers(s->model);
    return icl_allocate(MOST_SCOUTS * to->layers, sizeof *to->points, "scouts", &to->points, error);
}

/* Sends scouts and gathers their basins; none if the form of the model's layers has no scouts. Free found->points in
 * any case. */
static icl_status find_basins(const icl_trainer *trainer, const volatile sig_atomic_t *stop, basins *found,
                              icl_error *error) {
    const char *form = icl_trainer_has_objective(trainer) ? scouting_form(trainer) : NULL;
    scouting s = {.trainer = trainer, .unit = 1};
    icl_status status = ICL_OK;

    if (!form)
        return ICL_OK;
    ICL_TRY(create_model(&s, form, error));
    ICL_TRY(prepare(&s, found, error));
    ICL_TRY(find_unit(&s, found->points, found->layers, error));
    const size_t wanted = SCOUTS_A_LAYER * icl_model_layers(s.model);
    found->seen.scouts = wanted < MOST_SCOUTS ? wanted : MOST_SCOUTS;
    for (size_t i = 0; i < found->seen.scouts; i++) {
        if (stop && *stop)
            ICL_TRY(icl_fail(error, ICL_ERROR_INTERRUPTED, "stopped among the scouts of train.starts, before step 1"));
        found->scouts[i].number = i;
        ICL_TRY(send(&s, i, found->points + i * found->layers, found->layers, &found->scouts[i].loss, error));
    }
    gather(found);
done:
    release(&s);
    return status;
}

/* Writes the end of the best scout of basin `number` as parameters of the model, plus the noise of a start. */
static void write_basin(const basins *from, size_t number, const icl_model *model, uint32_t seed, float *values) {
    const size_t best = from->scouts[from->best[number]].number;

    icl_linear_initialize_at(model, from->points + best * from->layers, seed, values);
}

static double scout_bytes(const icl_trainer *trainer) {
    const bool has_tokens = trainer->state.batch.inputs.buffer != NULL;

    if (!icl_trainer_has_objective(trainer) || !scouting_form(trainer))
        return 0;
    const size_t sequences = choose_scout_sequences(trainer, has_tokens, SCOUT_SEQUENCES) +
                             choose_scout_sequences(trainer, has_tokens, HELD);
    return (double)sequences * icl_objective_sequence_bytes(trainer->problem.task, has_tokens);
}

/* ---- One start ---- */

uint32_t icl_start_seed(uint32_t seed, size_t number) {
    return icl_random_seed(seed, START_SEEDS, number);
}

/* Makes the recipe of start `number`: its steps are a quarter of those up to the end of the schedule, and its schedule
 * is shortened to them. */
static icl_status make_recipe(const icl_training_problem *problem, size_t number, icl_recipe **recipe,
                              icl_error *error) {
    const icl_training_settings *settings = &problem->settings;
    icl_recipe *created = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_clone(problem->recipe, &created, error));
    ICL_TRY(icl_recipe_set_count(created, ICL_TRAIN_KEY(steps), settings->schedule.total / SHARE, error));
    ICL_TRY(icl_recipe_set_count(created, ICL_TRAIN_KEY(horizon), 0, error));
    ICL_TRY(icl_recipe_set_count(created, ICL_TRAIN_KEY(warmup), settings->schedule.warmup / SHARE, error));
    ICL_TRY(icl_recipe_set_count(created, ICL_TRAIN_KEY(seed), icl_start_seed(settings->seed, number), error));
    ICL_TRY(icl_recipe_set_count(created, ICL_TRAIN_KEY(starts), 1, error));
    *recipe = created;
    created = NULL;
done:
    icl_recipe_destroy(&created);
    return status;
}

/* Runs a start to its end. ICL_ERROR_DIVERGED as in icl_trainer_run. */
static icl_status run(icl_trainer *start, size_t number, const icl_starts_watch *watch, icl_error *error) {
    while (icl_trainer_progress(start).step < icl_trainer_progress(start).total_steps) {
        if (watch->stop && *watch->stop)
            return icl_fail(error, ICL_ERROR_INTERRUPTED, "stopped among the runs of train.starts, before step 1");
        ICL_CHECK(icl_trainer_run(start, ICL_TRAIN_CHUNK, error));
        if (watch->report)
            watch->report(watch->user, number, start);
    }
    return ICL_OK;
}

/* Trains a start and returns its parameters [N]; *diverged: there are none. The first one begins as the trainer does,
 * the next at the best basins. */
static icl_status train_one(const icl_trainer *trainer, const basins *from, size_t number,
                            const icl_starts_watch *watch, float *values, bool *diverged, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_trainer *one = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make_recipe(&trainer->problem, number, &recipe, error));
    ICL_TRY(icl_trainer_create(trainer->backend, recipe, &one, error));
    if (number > 0 && number <= from->seen.count) {
        write_basin(from, number - 1, one->problem.model, one->problem.settings.seed, values);
        ICL_TRY(icl_trainer_set_parameters(one, values, error));
    }
    status = run(one, number, watch, error);
    *diverged = status == ICL_ERROR_DIVERGED;
    if (*diverged)
        status = ICL_OK;
    else if (status == ICL_OK)
        status = icl_trainer_get_parameters(one, values, error);
done:
    icl_trainer_destroy(&one);
    icl_recipe_destroy(&recipe);
    return status;
}

/* ---- The best start ---- */

/* Computes the mean loss on the common sequences, in double precision, without the largest. */
static icl_status judge(icl_objective *objective, const float *values, double *loss, icl_error *error) {
    const size_t size = icl_objective_size(objective), sequences = icl_objective_sequences(objective);
    double *at = NULL, *losses = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(size, sizeof *at, "start", &at, error));
    ICL_TRY(icl_allocate(sequences, sizeof *losses, "start", &losses, error));
    for (size_t i = 0; i < size; i++)
        at[i] = (double)values[i];
    ICL_TRY(icl_objective_losses(objective, at, losses, error));
    *loss = icl_trimmed_mean(losses, sequences, LEFT_OUT);
done:
    icl_free(&at);
    icl_free(&losses);
    return status;
}

static size_t choose_sequences(const icl_trainer *trainer) {
    const bool has_tokens = trainer->state.batch.inputs.buffer != NULL;
    const size_t fitting = icl_objective_fitting(icl_objective_sequence_bytes(trainer->problem.task, has_tokens));

    return SEQUENCES < fitting ? SEQUENCES : fitting;
}

double icl_starts_bytes(const icl_trainer *trainer) {
    const bool has_tokens = trainer->state.batch.inputs.buffer != NULL;

    if (icl_starts_count(trainer) <= 1)
        return 0;
    return scout_bytes(trainer) +
           (double)choose_sequences(trainer) * icl_objective_sequence_bytes(trainer->problem.task, has_tokens);
}

icl_status icl_trainer_choose_start(icl_trainer *trainer, const icl_starts_watch *watch, icl_error *error) {
    const size_t count = icl_starts_count(trainer), size = icl_model_size(trainer->problem.model);
    const icl_objective_params params = {.task = trainer->problem.task,
                                         .model = trainer->problem.model,
                                         .purpose = ICL_FOR_TRAINING,
                                         .sequences = choose_sequences(trainer),
                                         .beside = trainer->backend};
    icl_objective *objective = NULL;
    basins found = {.points = NULL};
    float *values = NULL, *best = NULL;
    double least = HUGE_VAL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_objective_create(&params, &objective, error));
    ICL_TRY(icl_objective_draw(objective, trainer->problem.settings.seed, COMPARE_BATCHES, error));
    ICL_TRY(icl_allocate(size, sizeof *values, "starts", &values, error));
    ICL_TRY(icl_allocate(size, sizeof *best, "starts", &best, error));
    for (size_t number = 0; number < count; number++) {
        bool diverged = false;
        double loss = HUGE_VAL;
        if (number == 1) /* the first start needs none, and reports at once */
            ICL_TRY(find_basins(trainer, watch->stop, &found, error));
        ICL_TRY(train_one(trainer, &found, number, watch, values, &diverged, error));
        if (!diverged)
            ICL_TRY(judge(objective, values, &loss, error));
        if (!(loss < least))
            continue;
        least = loss;
        trainer->state.start = number + 1;
        memcpy(best, values, size * sizeof *best);
    }
    if (isfinite(least))
        ICL_TRY(icl_trainer_set_parameters(trainer, best, error));
    trainer->state.seen = found.seen;
done:
    icl_free(&found.points);
    icl_objective_destroy(&objective);
    icl_free(&values);
    icl_free(&best);
    return status;
}

/* ---- What scouts saw ---- */

icl_status icl_basins_text(const icl_basins_seen *seen, uint64_t start, char **text, icl_error *error) {
    const uint64_t listed = seen->count < ICL_LISTED_BASINS ? seen->count : ICL_LISTED_BASINS;
    char line[512], losses[256] = "";
    size_t used = 0;

    for (uint64_t i = 0; i < listed; i++) {
        icl_print(losses + used, sizeof losses - used, " %.4g", seen->losses[i]);
        used += strlen(losses + used);
    }
    icl_print(line, sizeof line,
              "starts: %" PRIu64 " scouts ended in %" PRIu64 " basin%s, %s losses%s%s. Start %" PRIu64 " went on.\n",
              seen->scouts, seen->count, seen->count == 1 ? "" : "s", listed < seen->count ? "the least" : "of", losses,
              listed < seen->count ? " ..." : "", start);
    return icl_duplicate(line, text, error);
}

void icl_basins_add_json(const icl_basins_seen *seen, icl_json *json) {
    if (seen->scouts == 0)
        return;
    icl_json_count(json, "scouts", seen->scouts);
    icl_json_count(json, "basin_count", seen->count);
    for (uint64_t i = 0; i < seen->count && i < ICL_LISTED_BASINS; i++) {
        icl_json row = {0};
        icl_json_number(&row, "loss", seen->losses[i]);
        icl_json_append(json, "basins", &row);
    }
}
