/*
 * How linear the layers of a transformer are: Razzhigaev and others 2024, "Your Transformer is Secretly Linear" (arXiv
 * 2405.12250). The linearity score of consecutive layers (probe/linearity.h), for the residual stream after them and
 * for what they add, over all tokens of some sequences.
 *
 * The paper scores language models on text; its values are available only as plots. Here small softmax transformers
 * learn to predict a dynamical system at every position, or to recall, and are scored untrained and after some steps.
 * Its regularizer, the sum over layers of 1 - cos between the stream before and behind (train.turn_penalty), "decreases
 * the linearity of the models" by the abstract. A stream that hardly turns is near the identity, and linear for that
 * reason; what the layers add is judged, with the regularizer beside without.
 * The scores of known maps, and of noise, are judged; those of models are shown next to what we recall of the paper.
 */
#include <math.h>

#include "iclab/random.h"
#include "numeric/statistics.h"
#include "papers/papers.h"
#include "probe/activations.h"
#include "probe/linearity.h"

/* The stream of this file's random numbers. Tasks have other streams (task/streams.h). */
#define NOISE_STREAM 0x6c696e65u

enum { SEQUENCES = 128, KINDS = 3, MOST_STEPS = 5, LAYERS = 4, TOKENS = 4096, WIDTH = 32 };
enum { DYNAMICS = 0, PENALIZED = 2, MOST_SEEDS = 5 }; /* kinds that are compared */

#define DYNAMICAL                                                                                                      \
    "task.constructed=false model.mixer=softmax model.layers=4 model.width=64 model.heads=4 model.positions=learned "  \
    "model.norm=rms model.feed_forward=gelu model.output_norm=rms train.schedule=constant"

static const struct {
    const char *name, *what, *recipe, *settings;
} kinds[KINDS] = {
    {"dynamics", "dynamical system", "mesa", DYNAMICAL},
    {"recall", "recall", "recall",
     "model.mixer=conv,softmax model.layers=4 model.width=64 model.heads=4 model.key_width=16 "
     "model.feed_forward=gelu train.learning_rate=0.002 train.schedule=constant eval.every=0"},
    {"penalized", "dynamical system, turns penalized", "mesa", DYNAMICAL " train.turn_penalty=1"},
};

static const struct {
    size_t kinds, seeds;
    size_t steps[MOST_STEPS]; /* 0 means untrained; the list ends at the next 0 */
} budgets[ICL_SCALES] = {{1, 2, {0, 20}}, {KINDS, 3, {0, 200, 800}}, {KINDS, 5, {0, 200, 800, 3200, 12800}}};

static size_t count_steps(icl_scale scale) {
    size_t count = 1;
    while (count < MOST_STEPS && budgets[scale].steps[count] > 0)
        count++;
    return count;
}

/* ---- Cells ---- */

enum { KIND = 0, STEPS }; /* places in the grid */

/* A map with a known score. */
typedef enum control { MODEL = 0, IDENTITY, REFLECTION, NOISE } control;

static const control controls[] = {IDENTITY, REFLECTION, NOISE};
static const char *const control_names[] = {"identity", "an orthogonal map", "independent noise"};

static void plan_kind(icl_study *study, size_t kind) {
    for (size_t i = 0; i < count_steps(study->scale); i++)
        for (size_t seed = 0; seed < budgets[study->scale].seeds; seed++) {
            const size_t steps = budgets[study->scale].steps[i];
            ICL_ADD_CELL(study, .name = ICL_PHRASE("%s-%zu", kinds[kind].name, steps), .group = kinds[kind].name,
                         .recipe = kinds[kind].recipe, .seed = icl_study_seed(study, seed), .is_untrained = steps == 0,
                         .at = {kind, steps},
                         .settings = {steps > 0 ? ICL_PHRASE("train.steps=%zu", steps) : NULL, kinds[kind].settings},
                         .curve = steps > 0 ? ICL_PHRASE("%zu steps", steps) : "untrained");
        }
}

static void plan(icl_study *study) {
    for (size_t i = 0; i < sizeof controls / sizeof *controls; i++)
        ICL_ADD_CELL(study, .name = control_names[i], .group = "controls", .data = &controls[i]);
    for (size_t kind = 0; kind < budgets[study->scale].kinds; kind++)
        plan_kind(study, kind);
}

/* ---- Measuring ---- */

enum { SCORE = 0, UPDATE = LAYERS, ANISOTROPY = UPDATE + LAYERS, NUMBERS = ANISOTROPY + LAYERS }; /* by layer */

static float normal(uint32_t seed, uint32_t matrix, size_t index) {
    const icl_random_key key = {.seed = seed, .stream = NOISE_STREAM, .step = matrix};
    return icl_normal_from_word(icl_random_word(key, index));
}

/* Y = X (I - 2 v v^T / |v|^2), a reflection. */
static void reflect(const float *x, uint32_t seed, float *y) {
    double square = 0;

    for (size_t i = 0; i < WIDTH; i++)
        square += pow((double)normal(seed, 3, i), 2);
    for (size_t t = 0; t < TOKENS; t++) {
        double product = 0;
        for (size_t i = 0; i < WIDTH; i++)
            product += (double)x[t * WIDTH + i] * (double)normal(seed, 3, i);
        for (size_t i = 0; i < WIDTH; i++)
            y[t * WIDTH + i] = (float)((double)x[t * WIDTH + i] - 2 * product / square * (double)normal(seed, 3, i));
    }
}

/* Scores a known map. A linear map leaves only the residual of rounding: of floats, whose square is below 2^-46 of the
 * values', and of sums of TOKENS doubles. The score of noise scatters like the share of WIDTH among TOKENS - 1
 * dimensions. */
static icl_status score_control(const icl_study *study, control which, icl_number *score, icl_error *error) {
    const uint32_t seed = study->run->params->seed;
    const double n = TOKENS - 1, r = WIDTH;
    const size_t count = (size_t)TOKENS * WIDTH;
    float *x = NULL, *y = NULL;
    icl_linearity linearity;

    ICL_CHECK(icl_study_room(study, count, sizeof *x, &x, error));
    ICL_CHECK(icl_study_room(study, count, sizeof *y, &y, error));
    for (size_t i = 0; i < count; i++) {
        x[i] = normal(seed, 1, i);
        y[i] = which == NOISE ? normal(seed, 2, i) : x[i];
    }
    if (which == REFLECTION)
        reflect(x, seed, y);
    ICL_CHECK(icl_linearity_measure(TOKENS, WIDTH, x, y, &linearity, error));
    *score = (icl_number){linearity.score, which == NOISE ? sqrt(2 * r * (n - r) / (n * n * (WIDTH * n + 2))) : 0};
    return ICL_OK;
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *trained, icl_number *numbers,
                          icl_error *error) {
    icl_residual_stream stream = {0};
    icl_tensor parameters = {0};
    icl_batch batch; /* the same sequences for all models of a kind */
    icl_status status = ICL_OK;

    if (cell->data)
        return score_control(study, *(const control *)cell->data, &numbers[SCORE], error);
    ICL_CHECK(icl_study_batch(study, icl_trainer_task(trained), SEQUENCES, 0, 0, &batch, error));
    ICL_TRY(icl_study_put_parameters(study, trained, &parameters, error));
    ICL_TRY(icl_residual_stream_read(icl_trainer_model(trained), study->run->params->backend, parameters, batch.inputs,
                                     &stream, error));
    for (size_t layer = 0; layer < LAYERS; layer++) {
        const float *before = icl_residual_stream_stage(&stream, layer);
        const float *behind = icl_residual_stream_stage(&stream, layer + 1);
        icl_linearity linearity;
        ICL_TRY(icl_linearity_measure(stream.tokens, stream.width, before, behind, &linearity, error));
        numbers[SCORE + layer].value = linearity.score;
        numbers[UPDATE + layer].value = linearity.update_score;
        ICL_TRY(icl_anisotropy(stream.tokens, stream.width, behind, &numbers[ANISOTROPY + layer].value, error));
    }
done:
    icl_tensor_release(&parameters);
    icl_residual_stream_release(&stream);
    return status;
}

/* ---- Judging ---- */

#define SCORE_CHECK(control, target, tolerance, errors, source)                                                        \
    {                                                                                                                  \
        "linearity score", control, SCORE, target, NULL, {tolerance, tolerance, tolerance}, {0}, errors, ICL_WITHIN,   \
            ICL_COMPUTED, source, NULL                                                                                 \
    }

/* Scores of noise may be off by four standard errors, which chance exceeds in one of 16,000 rows. */
static const icl_study_check_row checks[] = {
    SCORE_CHECK("identity", 1, 1e-12, 0, "a linear map"),
    SCORE_CHECK("an orthogonal map", 1, 1e-12, 0, "a linear map"),
    SCORE_CHECK("independent noise", WIDTH / (TOKENS - 1.), 0, 4, "dimensions over tokens"),
};

/* Judges the layers after the largest number of steps. */
static void judge(icl_study *study, const icl_study_cell *cell) {
    const size_t last = budgets[study->scale].steps[count_steps(study->scale) - 1];

    if (cell->data || cell->at[STEPS] != last)
        return;
    const char *what = kinds[cell->at[KIND]].what;
    const icl_study_cell *untrained = icl_study_find(study, ICL_PHRASE("%s-0", kinds[cell->at[KIND]].name));
    for (size_t layer = 0; layer < LAYERS; layer++) {
        const icl_number score = icl_over_seeds(study, cell, SCORE + layer);
        ICL_JUDGE(study, .what = ICL_PHRASE("%s, layer %zu, %zu steps", what, layer + 1, last),
                  .quantity = "linearity score", ICL_OURS(score), .target = .99, .criterion = ICL_AT_LEAST,
                  .evidence = ICL_RECALLED, .source = "language models",
                  .note = ICL_PHRASE("untrained %.4f; anisotropy behind it %.2f",
                                     icl_over_seeds(study, untrained, SCORE + layer).value,
                                     icl_over_seeds(study, cell, ANISOTROPY + layer).value));
        ICL_JUDGE(study, .what = ICL_PHRASE("%s, layer %zu, %zu steps", what, layer + 1, last),
                  .quantity = "linearity score of what it adds", ICL_OURS(icl_over_seeds(study, cell, UPDATE + layer)),
                  .target = score.value, .criterion = ICL_AT_MOST, .evidence = ICL_RECALLED,
                  .source = "lower without the residual connection",
                  .note = ICL_PHRASE("untrained %.4f", icl_over_seeds(study, untrained, UPDATE + layer).value));
    }
}

/* ---- Figures ---- */

static const struct {
    const char *name, *title, *y_label;
    size_t first; /* number */
} quantities[] = {
    {"score", "Linearity of layers", "linearity score", SCORE},
    {"update", "Linearity of what layers add", "linearity score of the update", UPDATE},
    {"anisotropy", "Variance along the first principal direction", "share", ANISOTROPY},
};

static void draw(icl_study *study, size_t kind, size_t quantity) {
    const icl_phrase name = icl_phrase_print("%s-%s", quantities[quantity].name, kinds[kind].name);
    icl_curves curves = {.figure = {name.text, quantities[quantity].title, "layer", quantities[quantity].y_label}};

    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        for (size_t layer = 0; layer < LAYERS && cell->curve && cell->at[KIND] == kind; layer++)
            icl_study_plot(study, &curves, cell->curve, ICL_SERIES_OURS, (double)layer + 1,
                           cell->numbers[quantities[quantity].first + layer].value);
    }
    icl_study_draw(study, &curves);
}

/* Returns the mean over layers of numbers of a cell. */
static double mean_over_layers(const icl_study_cell *cell, size_t first) {
    double sum = 0;
    for (size_t layer = 0; layer < LAYERS; layer++)
        sum += cell->numbers[first + layer].value;
    return sum / LAYERS;
}

/* Judges the scores with the penalty less those without, by training: seed for seed. */
static void judge_penalty(icl_study *study) {
    const size_t last = budgets[study->scale].steps[count_steps(study->scale) - 1];
    double differences[2][MOST_SEEDS];
    size_t seeds = 0;

    for (size_t i = 0; i < study->count; i++)
        for (size_t j = 0; j < study->count && seeds < MOST_SEEDS; j++) {
            const icl_study_cell *with = study->cells[i], *without = study->cells[j];
            if (with->data || without->data || with->at[KIND] != PENALIZED || without->at[KIND] != DYNAMICS ||
                with->at[STEPS] != last || without->at[STEPS] != last || with->seed != without->seed)
                continue;
            differences[0][seeds] = mean_over_layers(with, SCORE) - mean_over_layers(without, SCORE);
            differences[1][seeds++] = mean_over_layers(with, UPDATE) - mean_over_layers(without, UPDATE);
        }
    if (seeds > 0)
        ICL_JUDGE(study, .what = ICL_PHRASE("turns penalized, less without, %zu steps", last),
                  .quantity = "linearity score of what layers add", .ours = icl_mean(differences[1], seeds),
                  .standard_error = icl_standard_error(differences[1], seeds), .target = 0, .criterion = ICL_AT_MOST,
                  .evidence = ICL_STATED, .source = "abstract: it decreases the linearity",
                  .note = ICL_PHRASE("of the whole stream, which turns less, %.3f", icl_mean(differences[0], seeds)));
}

static void conclude(icl_study *study) {
    judge_penalty(study);
    for (size_t kind = 0; kind < budgets[study->scale].kinds; kind++)
        for (size_t i = 0; i < sizeof quantities / sizeof *quantities; i++)
            draw(study, kind, i);
}

const icl_reproduction icl_linearity_score =
    ICL_STUDY(.name = "linearity-score", .source = "arXiv 2405.12250",
              .about = "how linear the layers of transformers are, by layer and training",
              .claim = "What a layer of a transformer makes of the residual stream is nearly a linear map of it.",
              .scope = "A met table means that the score is right on known maps and on noise, and that the penalty on "
                       "turns makes what layers add less linear; the scores of trained models, of which the claim "
                       "speaks, are shown and not judged, because the paper's values were not at hand.",
              .cost = {"4 s", "5 min", "4 h"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge,
              .conclude = conclude, ICL_CHECKS(checks));
