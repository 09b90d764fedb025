/* Trains models of table 1 of arXiv 2402.14180 in a way that works in seconds: layers inserted one by one before the
 * last, each sequence's own gradient cut, and the best of a few seeds, each from another start if layers are full. */
#include "papers/versatile/versatile.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Selection: a seed whose loss is more than this times the best has failed. */
#define FAILED_ABOVE 2.0

/* Little noise means sigma in [0, 2] and below. Predictions are then small differences of large numbers, and a few
 * sequences in 100,000 dominate the mean: cutting each sequence's gradient then trains for the other sequences
 * (three layers, sigma in [0, 1]: trimmed mean .010 and mean 3.4); cutting only the whole gradient does not (.010
 * and .0143). */
#define LAST_OF_LITTLE_NOISE 2

enum { CHOICE_1_3_5 = 9 };

const char *const icl_versatile_parameterizations[ICL_VERSATILE_PARAMETERIZATIONS] = {"gd++", "diag", "full"};

const icl_versatile_noise icl_versatile_noises[ICL_VERSATILE_NOISES] = {
    {"uniform0", "fixed:0", "no noise"},
    {"uniform1", "uniform:1", "sigma in [0, 1]"},
    {"uniform2", "uniform:2", "sigma in [0, 2]"},
    {"uniform3", "uniform:3", "sigma in [0, 3]"},
    {"uniform4", "uniform:4", "sigma in [0, 4]"},
    {"uniform5", "uniform:5", "sigma in [0, 5]"},
    {"uniform6", "uniform:6", "sigma in [0, 6]"},
    {"uniform7", "uniform:7", "sigma in [0, 7]"},
    {"choice1-3", "choice:1,3", "sigma in {1, 3}"},
    {"choice1-3-5", "choice:1,3,5", "sigma in {1, 3, 5}"},
};

/* "L4-diag-uniform5". */
static icl_phrase name_of(const icl_versatile_cell *cell) {
    return icl_phrase_print("L%zu-%s-%s", cell->layers, icl_versatile_parameterizations[cell->parameterization],
                            icl_versatile_noises[cell->noise].name);
}

const icl_study_cell *icl_versatile_find(const icl_study *study, const icl_versatile_cell *cell) {
    return icl_study_find(study, name_of(cell).text);
}

/* ---- How a model starts ---- */

/* Numbers of layers from which on full models are trained more slowly, and grown from shallower ones. */
#define DEEP_FROM  5
#define GROWN_FROM 6

/* How a full model starts. Diagonal solutions are symmetric in the coordinates of x, and are saddle points: a full
 * model does not get away from a trained diagonal model, which is as good as any with two layers but not with more; the
 * better ones use one direction of x together with the label. No single start is best in all cells. */
typedef enum start {
    START_ROUGH = 0, /* noise in all entries: best with three layers, and diverges with five */
    START_COUPLED,   /* noise between the first input and the label: best with four and five, and diverges with seven */
    START_DIAGONAL,  /* the trained diagonal model: from noise two layers end at .245 or at .44 (sigma in [0, 5]) */
    START_GROWN,     /* a trained model of one layer less, and a new layer before its last: best with six and more */
    START_INTERVALS, /* steps for intervals of eigenvalues, one after another: for deep models without noise */
} start;

/* The number of starts that seeds try in turn. */
enum { TURNS = 3 };

/* Without noise a deep model solves the equations by a polynomial in the eigenvalues of X X^T / n. Steps of Adam come
 * near it and stop when a few sequences dominate the mean; L-BFGS in double precision from START_INTERVALS goes
 * further. */
static bool solves(const icl_versatile_cell *cell) {
    return cell->noise == 0 && cell->layers >= DEEP_FROM;
}

/* Returns how many seeds are worth training. One layer has one minimum, and gd++ ends at one if there is noise; deep
 * models without noise have one start. */
static size_t most_seeds(const icl_versatile_cell *cell) {
    const bool agrees = cell->layers == 1 || (cell->parameterization == ICL_VERSATILE_GDPP && cell->noise > 0);

    return agrees || solves(cell) ? 1 : SIZE_MAX;
}

static start start_of(const icl_versatile_cell *cell, size_t number) {
    const start two[TURNS] = {START_DIAGONAL, START_COUPLED, START_ROUGH};
    const start shallow[TURNS] = {START_ROUGH, START_COUPLED, START_ROUGH};
    const start deep[TURNS] = {START_COUPLED, START_GROWN, START_COUPLED};

    if (solves(cell))
        return START_INTERVALS;
    if (cell->parameterization != ICL_VERSATILE_FULL)
        return START_ROUGH;
    if (cell->layers >= GROWN_FROM)
        return START_GROWN;
    return (cell->layers > 3 ? deep : cell->layers == 2 ? two : shallow)[number % TURNS];
}

static const char *noise_of_start(const icl_versatile_cell *cell, size_t number) {
    if (cell->parameterization != ICL_VERSATILE_FULL)
        return "";
    const start first = start_of(cell, number);
    return first == START_ROUGH     ? "model.init_std=0.05"
           : first == START_COUPLED ? "model.init_std=0.005 model.coupling_std=0.1"
                                    : "model.init_std=0.005";
}

/* Bounds of the eigenvalues of X X^T / n for d = 10, n = 20: one of 300,000 sequences has a smaller one, none
 * a larger one. */
#define LEAST_EIGENVALUE   0.007
#define LARGEST_EIGENVALUE 5.0

/*
 * A layer with w_xx = -a and w_yx = -b maps an eigenvalue k of X X^T / n to k (1 - a k)^2, and what is left of the
 * label's part along it to 1 - b k of it. On [low, high] the ratio of the largest to the smallest image is least for
 * a = 1 / (high + sqrt(high low) + low), where both ends come to the same smallest one; the largest is 4 / (27 a), at
 * k = 1 / (3 a). b = 1 / high keeps all of [0, high] from growing; the last layer takes 2 / (low + high), which has the
 * least largest |1 - b k|. P = diag(-a, -b) / sqrt(b) and Q = sqrt(b) on the inputs.
 */
void icl_versatile_start_at_intervals(const icl_model *model, float *values) {
    const size_t layers = icl_model_layers(model), d = icl_model_parameter(model, 0)->shape[0] - 1;
    double low = LEAST_EIGENVALUE, high = LARGEST_EIGENVALUE;

    memset(values, 0, icl_model_size(model) * sizeof *values);
    for (size_t layer = 0; layer < layers; layer++) {
        const icl_parameter_info *p = icl_model_parameter(model, 2 * layer),
                                 *q = icl_model_parameter(model, 2 * layer + 1);
        const double a = 1 / (high + sqrt(high * low) + low), b = layer + 1 < layers ? 1 / high : 2 / (low + high);
        const size_t rows = p->rank == 1 ? 1 : d; /* diagonal forms share one number among the inputs */
        const size_t stride = p->rank == 1 ? 1 : d + 2;
        for (size_t i = 0; i < rows; i++) {
            values[p->offset + i * stride] = (float)(-a / sqrt(b));
            values[q->offset + i * stride] = (float)sqrt(b);
        }
        values[p->offset + p->count - 1] = (float)-sqrt(b);
        low *= (1 - a * low) * (1 - a * low);
        high = 4 / (27 * a);
    }
}

/* Makes initial parameters. A model that settles begins with its own parameters. Others begin with those of a diagonal
 * model, or of one layer less, with a new layer before its last. */
icl_status icl_versatile_begin(icl_study *study, const icl_study_cell *cell, icl_trainer *from, const icl_model *model,
                               float *values, icl_error *error) {
    float *held = NULL;

    if (!from) {
        icl_versatile_start_at_intervals(model, values);
        return ICL_OK;
    }
    const icl_model *smaller = icl_trainer_model(from);
    if (icl_model_size(smaller) == icl_model_size(model))
        return icl_trainer_get_parameters(from, values, error);
    ICL_CHECK(icl_study_parameters(study, from, &held, error));
    icl_model_initialize_inserted(model, icl_model_layers(model) - 2, cell->seed, values);
    return icl_model_embed(smaller, held, model, values, error);
}

/* ---- Settings ---- */

/* Steps at each depth of a model that grows by itself, steps at its last depth, and steps of full models. */
static const struct {
    unsigned growth, last, full;
} budgets[ICL_SCALES] = {{300, 700, 700}, {1000, 3000, 6000}, {1000, 3000, 6000}};

/* Takes no steps. A polish uses a sixteenth of the sequences that the schedule's steps would draw. */
#define POLISH "train.polish=on train.growth=0 train.steps=0 train.warmup=0 train.horizon=1000"

/* Three diagonal layers that grow end in a worse optimum if there is little noise (sigma in [0, 2]: .0545, and .0463
 * when all three begin at once): the second seed tries the other way. */
static bool begins_whole(const icl_versatile_cell *cell, size_t number) {
    return cell->parameterization == ICL_VERSATILE_DIAG && cell->layers == 3 && cell->noise <= LAST_OF_LITTLE_NOISE &&
           number == 1;
}

/* Returns whether a polish helps. Seven diagonal layers, sigma in {1, 3, 5}: steps end at .0494, and a polish at .0493,
 * a minimum (the table: .046). */
static bool is_polished(const icl_versatile_cell *cell) {
    return cell->noise == CHOICE_1_3_5 && cell->parameterization == ICL_VERSATILE_DIAG && cell->layers == 7;
}

/* Deep full models take smaller steps, and more of them if they do not begin with a trained shallower model. Five
 * layers, sigma in {1, 3}, 12,000 steps: .0200 at the others' rate, .0165 at half of it. Seven layers, sigma in [0, 5]:
 * .0427 grown, and diverged from a coupled start at half the rate. */
static icl_phrase schedule_of(const icl_study *study, const icl_versatile_cell *cell, size_t number) {
    const bool is_full = cell->parameterization == ICL_VERSATILE_FULL, is_deep = is_full && cell->layers >= DEEP_FROM;
    const bool is_grown = is_full && cell->layers >= GROWN_FROM;
    const unsigned stages = cell->layers > 2 && !is_full ? (unsigned)cell->layers - 2 : 0;
    const unsigned growth = stages > 0 ? budgets[study->scale].growth : 0;
    unsigned steps = budgets[study->scale].last + growth * stages;

    if (solves(cell))
        return icl_phrase_print(POLISH);
    if (is_full && cell->layers > 1)
        steps = budgets[study->scale].full * (is_deep && !is_grown ? 2 : 1);
    return icl_phrase_print("train.growth=%u train.steps=%u train.warmup=%u%s%s",
                            begins_whole(cell, number) ? 0 : growth, steps, steps / 10,
                            is_grown  ? " train.learning_rate=0.003"
                            : is_deep ? " train.learning_rate=0.005"
                                      : "",
                            is_polished(cell) ? " train.polish=on" : "");
}

/*
 * Deep full models settle, and so do three layers that are not gd++: a short run that cuts the gradient of the whole
 * batch, whereas the run before cut each sequence's. The run before learns for almost all sequences and lets a few in
 * 100,000 grow without bound; the settling run bounds them. Means and trimmed means before and after: 1090 and .0029,
 * .017 and .0031 for seven layers, sigma in {1, 3}; .29 and .0933, .118 and .0931 for three diagonal ones, sigma in [0,
 * 7]. Grown models begin with a settled model.
 */
#define SETTLE                                                                                                         \
    "train.sequence_clip=0 train.clip=1 train.learning_rate=0.001 train.steps=3000 train.growth=0 train.warmup=300"

static bool settles(const icl_versatile_cell *cell) {
    const bool is_deep = cell->parameterization == ICL_VERSATILE_FULL && cell->layers >= DEEP_FROM;
    return cell->noise > LAST_OF_LITTLE_NOISE &&
           (is_deep || (cell->parameterization != ICL_VERSATILE_GDPP && cell->layers == 3));
}

/* ---- Trainings ---- */

static icl_phrase training_name(const icl_study *study, const icl_versatile_cell *cell, size_t number,
                                const char *suffix) {
    return icl_phrase_print("%s-seed%" PRIu32 "%s", name_of(cell).text, icl_study_seed(study, number), suffix);
}

static const icl_study_cell *find_training(const icl_study *study, const icl_versatile_cell *cell, size_t number) {
    return icl_study_find(study, training_name(study, cell, number, settles(cell) ? "-settled" : "").text);
}

static const icl_study_cell *add_run(icl_study *study, const icl_versatile_cell *cell, size_t number, const char *name,
                                     const icl_study_cell *origin, const char *settings) {
    const bool has_little_noise = cell->noise <= LAST_OF_LITTLE_NOISE;

    return ICL_ADD_CELL(
        study, .name = name, .folder = name, .recipe = "versatile-table1", .seed = icl_study_seed(study, number),
        .is_helper = true, .may_diverge = true, .begins_with = origin,
        .has_start = start_of(cell, number) == START_INTERVALS,
        .settings = {ICL_PHRASE("task.noise=%s model.layers=%zu model.parameterization=%s %s",
                                icl_versatile_noises[cell->noise].recipe, cell->layers,
                                icl_versatile_parameterizations[cell->parameterization], noise_of_start(cell, number)),
                     has_little_noise ? "train.sequence_clip=0 train.clip=1" : NULL,
                     schedule_of(study, cell, number).text, settings});
}

/* Adds a training, and the trainings that it grows from. The diagonal model that a full one begins with has its own
 * folder, because the diagonal cell's may be in training at the same time. */
static const icl_study_cell *add_training(icl_study *study, const icl_versatile_cell *cell, size_t number) {
    const icl_versatile_cell shallower = {cell->layers - 1, cell->parameterization, cell->noise};
    const icl_versatile_cell diagonal = {cell->layers, ICL_VERSATILE_DIAG, cell->noise};
    const start first = start_of(cell, number);
    const icl_study_cell *trained = find_training(study, cell, number), *origin = NULL;

    if (trained)
        return trained;
    if (first == START_GROWN)
        origin = add_training(study, &shallower, number);
    else if (first == START_DIAGONAL)
        origin = add_run(study, &diagonal, number, training_name(study, cell, number, "-diagonal").text, NULL, NULL);
    trained = add_run(study, cell, number, training_name(study, cell, number, "").text, origin, NULL);
    return settles(cell)
               ? add_run(study, cell, number, training_name(study, cell, number, "-settled").text, trained, SETTLE)
               : trained;
}

void icl_versatile_add(icl_study *study, const icl_versatile_cell *cell, size_t seeds) {
    const size_t count = seeds < most_seeds(cell) ? seeds : most_seeds(cell);

    for (size_t number = 0; number < count; number++)
        add_training(study, cell, number);
    const icl_study_cell *added = ICL_ADD_CELL(study, .name = name_of(cell).text,
                                               .at = {cell->layers, cell->parameterization, cell->noise, count});
    for (size_t number = 0; number < count; number++)
        icl_study_need(study, added, find_training(study, cell, number));
}

icl_versatile_cell icl_versatile_model_of(const icl_study_cell *cell) {
    return (icl_versatile_cell){cell->at[0], (icl_versatile_parameterization)cell->at[1], cell->at[2]};
}

/* ---- The best seed ---- */

/* Numbers of sequences on which seeds are compared. Among 20,000 there may be none of those that dominate a mean. */
static const size_t judges[ICL_SCALES] = {20000, 100000, 100000};

static icl_status create_evaluator(icl_study *study, const icl_study_cell *training, icl_task **task,
                                   icl_evaluator **evaluator, icl_error *error) {
    ICL_CHECK(icl_task_create(training->complete, task, error));
    return icl_evaluator_create(study->run->params->backend, *task, judges[study->scale], study->run->params->seed,
                                evaluator, error);
}

/* The loss is infinite if the training diverged, and 0 without an evaluator. */
static icl_status measure_seed(icl_study *study, const icl_study_cell *training, icl_evaluator *evaluator, double *loss,
                               icl_error *error) {
    icl_trainer *trainer = NULL;

    *loss = training->has_diverged ? (double)INFINITY : 0;
    if (training->has_diverged || !evaluator)
        return ICL_OK;
    ICL_CHECK(icl_study_trained(study, training, &trainer, error));
    ICL_CHECK(icl_evaluator_loss(evaluator, trainer, loss, error));
    *loss = isnan(*loss) ? (double)INFINITY : *loss;
    return ICL_OK;
}

icl_status icl_versatile_choose(icl_study *study, const icl_study_cell *cell, icl_versatile_choice *choice,
                                icl_error *error) {
    enum { MOST_SEEDS = 16 };
    const icl_versatile_cell model = icl_versatile_model_of(cell);
    double losses[MOST_SEEDS], best = (double)INFINITY;
    icl_evaluator *evaluator = NULL;
    icl_task *task = NULL;
    icl_status status = ICL_OK;

    choice->seeds = cell->at[3];
    if (choice->seeds > 1)
        ICL_TRY(create_evaluator(study, find_training(study, &model, 0), &task, &evaluator, error));
    for (size_t number = 0; number < choice->seeds; number++) {
        const icl_study_cell *training = find_training(study, &model, number);
        ICL_TRY(measure_seed(study, training, evaluator, &losses[number], error));
        if (!training->has_diverged && (!choice->training || losses[number] < best)) {
            choice->training = training;
            best = losses[number];
        }
    }
    for (size_t number = 0; number < choice->seeds; number++)
        choice->failed += !(losses[number] <= FAILED_ABOVE * best);
    if (choice->training)
        ICL_TRY(icl_study_trained(study, choice->training, &choice->trainer, error));
    else
        status = icl_fail(error, ICL_ERROR_DIVERGED, "%s: every seed diverged", cell->name);
done:
    icl_evaluator_destroy(&evaluator);
    icl_task_destroy(&task);
    return status;
}
