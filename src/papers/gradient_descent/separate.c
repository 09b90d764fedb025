/*
 * Inputs and labels in tokens of their own: von Oswald et al. 2022, "Transformers learn in-context by gradient descent"
 * (arXiv 2212.07677), the section on how tokens come to hold both. A layer of softmax attention, then one of linear
 * attention, on tokens (x_k, 0, p_2k) and (0, y_k, p_(2k+1)) with learned positions p:
 *
 *     e_t <- e_t + sum_(s <= t) softmax_s(e_t^T A B^T e_s / sqrt(r)) V^T e_s
 *     y^(t) = 1/n sum_(s <= t) e_t^T M e_s <v, e_s>
 *
 * The second layer is a step of gradient descent only if a token holds y_k beside x_k. So the first one has to copy x_k
 * to the token of y_k: its weight there, the mean over pairs, is the copying. With codes cos and sin of 2 pi j t / T,
 * j = 1 … (T - 1) / 2, weights by hand do so: those of t - 1 have the product (T - 1) / 2 with themselves and -1 / 2
 * with those of any other position, and the two layers are one step to rounding.
 *
 * Without the first layer a label's token adds only terms in y_s, whose mean over x_s is 0, and in y_s^2, which are
 * even in w: the prediction has no covariance with <w, x>, and no loss is below that of predicting 0, E <w, x>^2 = d.
 *
 * A step of length a on raw sums, behind k pairs with w, x ~ N(0, I_d), has the squared error
 *
 *     E |w - a X^T X w|^2 = d (1 - 2 a k + a^2 k (k + d + 1)),
 *
 * and the best a for the mean over k = 0 … n is sum_k k / sum_k k (k + d + 1). The paper's models see one query; here
 * every input is one, which the same step serves.
 */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/ops.h"
#include "numeric/statistics.h"
#include "papers/papers.h"
#include "run/evaluation.h"

enum { D = 4, N = 8, POSITIONS = 2 * N + 1, CODES = 16, TOKEN = D + 1 + CODES, KEY = 16 };

/* ---- One step ---- */

/* The best step of gradient descent: its length, and its loss behind k pairs. */
static double best_length(void) {
    double first = 0, second = 0;
    for (size_t k = 0; k <= N; k++) {
        first += (double)k;
        second += (double)(k * (k + D + 1));
    }
    return first / second;
}

static double loss_behind(size_t k) {
    const double a = best_length();
    return D * (1 - 2 * a * (double)k + a * a * (double)(k * (k + D + 1)));
}

static double loss_of_step(void) {
    double sum = 0;
    for (size_t k = 0; k <= N; k++)
        sum += loss_behind(k) / (N + 1);
    return sum;
}

/* ---- The model ---- */

/* The model has constants that a recipe does not say. */
typedef struct layers {
    bool copies;        /* the first layer is there */
    icl_tensor inputs;  /* [T, 1]: 1 at positions of inputs */
    icl_tensor outputs; /* [T, 1]: 1 at those of labels */
} layers;

enum { PLACES = 0, VALUE, SCORE, QUERY, KEYS, COPY }; /* p, v, M, A, B, V */

static icl_status create(const icl_recipe *recipe, icl_model *model, icl_error *error) {
    const layers *own = model->family->settings;

    (void)recipe;
    ICL_CHECK(icl_model_add_parameter(model, 2, (size_t[]){POSITIONS, CODES}, error, "positions"));
    ICL_CHECK(icl_model_add_parameter(model, 2, (size_t[]){TOKEN, 1}, error, "v"));
    ICL_CHECK(icl_model_add_parameter(model, 2, (size_t[]){TOKEN, TOKEN}, error, "M"));
    if (!own->copies)
        return ICL_OK;
    ICL_CHECK(icl_model_add_parameter(model, 2, (size_t[]){TOKEN, KEY}, error, "A"));
    ICL_CHECK(icl_model_add_parameter(model, 2, (size_t[]){TOKEN, KEY}, error, "B"));
    return icl_model_add_parameter(model, 2, (size_t[]){TOKEN, TOKEN}, error, "V");
}

/* Positions are long enough to be told from each other, and maps keep lengths about as they are. */
static void initialize(const icl_model *model, uint32_t seed, float *values) {
    for (size_t i = 0; i < model->size; i++)
        values[i] = (i < (size_t)POSITIONS * CODES ? .5F : .2F) * icl_model_noise(seed, i);
}

/* Returns tokens [B, T, TOKEN] of inputs [B, T, d], where labels stand in the first number. */
static icl_variable make_tokens(const layers *own, icl_tape *tape, icl_variable places, icl_variable inputs) {
    const size_t shape[] = {icl_tape_value(tape, inputs).shape[0], POSITIONS, CODES};
    const icl_variable parts[] = {
        icl_tape_binary(tape, ICL_MULTIPLY, inputs, icl_tape_constant(tape, own->inputs)),
        icl_tape_binary(tape, ICL_MULTIPLY, icl_tape_slice(tape, inputs, 2, 0, 1),
                        icl_tape_constant(tape, own->outputs)),
        icl_tape_binary(tape, ICL_ADD, icl_tape_filled(tape, 3, shape, 0), places),
    };
    return icl_tape_concatenate(tape, 2, 3, parts);
}

static icl_variable predict(const icl_model *model, icl_tape *tape, const icl_variable *parameters, icl_variable inputs,
                            size_t depth) {
    const icl_attention_params copying = {
        .kind = ICL_ATTENTION_SOFTMAX, .mask = ICL_MASK_CAUSAL, .scale = 1 / sqrt(KEY)};
    const icl_attention_params descent = {.kind = ICL_ATTENTION_LINEAR, .mask = ICL_MASK_CAUSAL, .scale = 1. / N};
    const layers *own = model->family->settings;
    icl_variable tokens = make_tokens(own, tape, parameters[PLACES], inputs);

    (void)depth;
    if (own->copies)
        tokens = icl_tape_binary(tape, ICL_ADD, tokens,
                                 icl_tape_attention(tape, &copying, icl_tape_matmul(tape, 1, tokens, parameters[QUERY]),
                                                    icl_tape_matmul(tape, 1, tokens, parameters[KEYS]),
                                                    icl_tape_matmul(tape, 1, tokens, parameters[COPY])));
    return icl_tape_attention(tape, &descent, icl_tape_matmul(tape, 1, tokens, parameters[SCORE]), tokens,
                              icl_tape_matmul(tape, 1, tokens, parameters[VALUE]));
}

/* Writes the step of gradient descent: queries of position t are long codes of t - 1, and what is copied are inputs. */
static void construct(const icl_model *model, double length, float *values) {
    const double turn = 2 * acos(-1.0) / POSITIONS, sharpness = 20;
    float *at[COPY + 1];

    memset(values, 0, model->size * sizeof *values);
    for (size_t i = 0; i <= COPY; i++)
        at[i] = values + icl_model_parameter(model, i)->offset;
    at[VALUE][D] = 1;
    for (size_t i = 0; i < D; i++) {
        at[SCORE][i * TOKEN + i] = (float)(length * N);
        at[COPY][i * TOKEN + i] = 1;
    }
    for (size_t j = 0; j < CODES / 2; j++) {
        const double angle = turn * (double)(j + 1);
        float *query = at[QUERY] + (D + 1 + 2 * j) * KEY + 2 * j, *key = at[KEYS] + (D + 1 + 2 * j) * KEY + 2 * j;
        for (size_t t = 0; t < POSITIONS; t++) {
            at[PLACES][t * CODES + 2 * j] = (float)cos(angle * (double)t);
            at[PLACES][t * CODES + 2 * j + 1] = (float)sin(angle * (double)t);
        }
        query[0] = query[KEY + 1] = (float)(sharpness * cos(angle));
        query[KEY] = (float)(sharpness * sin(angle));
        query[1] = -query[KEY];
        key[0] = key[KEY + 1] = 1;
    }
}

/* ---- Cells ---- */

enum { WITH_COPIES = 0, WITHOUT, BY_HAND };

static const struct {
    size_t steps, every, batch, sequences, seeds;
} budgets[ICL_SCALES] = {{60, 20, 32, 1024, 1}, {3000, 50, 128, 16384, 3}, {30000, 500, 512, 65536, 5}};

enum { MOST_MOMENTS = 61 };

static const char *const names[] = {NULL, "linear layer alone", "by hand"};

static void plan(icl_study *study) {
    for (size_t kind = WITH_COPIES; kind <= BY_HAND; kind++)
        for (size_t i = 0; i < (kind == WITH_COPIES ? budgets[study->scale].seeds : 1); i++)
            ICL_ADD_CELL(study, .name = names[kind] ? names[kind] : ICL_PHRASE("training %zu", i + 1), .recipe = "garg",
                         .is_untrained = true, .at = {kind, i}, .seed = icl_study_seed(study, i),
                         .settings = {ICL_PHRASE("task.d=%d task.n=%d train.steps=%zu train.batch=%zu", D, N,
                                                 budgets[study->scale].steps, budgets[study->scale].batch),
                                      "train.learning_rate=0.003 train.warmup=50 train.schedule=cosine train.clip=1"});
}

/* ---- Measuring ---- */

/* A cell has the loss and the copying at moments of its training, then the last loss of inputs behind k pairs each. */
enum { LOSS = 0, COPYING = MOST_MOMENTS, LAST = 2 * MOST_MOMENTS, BY_PAIRS, NUMBERS = BY_PAIRS + N + 1 };

enum { WATCHED = 1024, SEEN = 256 };

static size_t count_moments(const icl_study *study) {
    return budgets[study->scale].steps / budgets[study->scale].every + 1;
}

/* y [columns] = x [TOKEN] W [TOKEN][columns] */
static void map_token(const double *x, const float *matrix, size_t columns, double *y) {
    for (size_t j = 0; j < columns; j++) {
        y[j] = 0;
        for (size_t i = 0; i < TOKEN; i++)
            y[j] += x[i] * (double)matrix[i * columns + j];
    }
}

/* Returns the mean weight that the labels' tokens of one sequence give to their inputs; tokens [T][d]. */
static double copying_of(const float *inputs, const float *places, const float *query, const float *keys) {
    double q[POSITIONS][KEY], k[POSITIONS][KEY], sum = 0;

    for (size_t t = 0; t < POSITIONS; t++) {
        double token[TOKEN] = {0};
        if (t % 2 == 1)
            token[D] = (double)inputs[t * D];
        for (size_t i = 0; i < D && t % 2 == 0; i++)
            token[i] = (double)inputs[t * D + i];
        for (size_t i = 0; i < CODES; i++)
            token[D + 1 + i] = (double)places[t * CODES + i];
        map_token(token, query, KEY, q[t]);
        map_token(token, keys, KEY, k[t]);
    }
    for (size_t t = 1; t < POSITIONS; t += 2) {
        double scores[POSITIONS] = {0}, largest = -HUGE_VAL, total = 0;
        for (size_t s = 0; s <= t; s++) {
            for (size_t i = 0; i < KEY; i++)
                scores[s] += q[t][i] * k[s][i] / sqrt(KEY);
            largest = fmax(largest, scores[s]);
        }
        for (size_t s = 0; s <= t; s++)
            total += exp(scores[s] - largest);
        sum += exp(scores[t - 1] - largest) / total;
    }
    return sum / N;
}

static icl_status measure_copying(const icl_study *study, icl_trainer *trainer, const float *inputs, double *copying,
                                  icl_error *error) {
    const icl_model *model = icl_trainer_model(trainer);
    float *values = NULL;

    ICL_CHECK(icl_study_parameters(study, trainer, &values, error));
    *copying = 0;
    for (size_t i = 0; i < SEEN; i++)
        *copying += copying_of(inputs + i * POSITIONS * D, values + icl_model_parameter(model, PLACES)->offset,
                               values + icl_model_parameter(model, QUERY)->offset,
                               values + icl_model_parameter(model, KEYS)->offset) /
                    SEEN;
    return ICL_OK;
}

/* Measures the losses behind k pairs, and their mean over k. */
static icl_status measure_last(const icl_study *study, icl_trainer *trainer, icl_number *numbers, icl_error *error) {
    const size_t count = budgets[study->scale].sequences;
    icl_sequences drawn = {0};
    double *losses = NULL; /* [N + 2][sequences], the mean last */
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_room(study, count, (N + 2) * sizeof *losses, &losses, error));
    ICL_TRY(icl_sequences_create(study->run->params->backend, icl_trainer_task(trainer), study->run->params->seed,
                                 &drawn, error));
    for (size_t i = 0; i < count; i++) {
        const size_t at = i % drawn.chunk * POSITIONS;
        if (at == 0) {
            ICL_TRY(icl_reproduce_poll(study->run, error));
            ICL_TRY(icl_sequences_sample(&drawn, i / drawn.chunk, error));
            ICL_TRY(icl_sequences_predict(&drawn, trainer, error));
            ICL_TRY(icl_sequences_refer(&drawn, NULL, drawn.chunk, NULL, error));
        }
        for (size_t k = 0; k <= N; k++) {
            losses[k * count + i] = pow((double)drawn.model[at + 2 * k] - (double)drawn.targets[at + 2 * k], 2);
            losses[(N + 1) * count + i] += losses[k * count + i] / (N + 1);
        }
    }
    for (size_t k = 0; k <= N; k++)
        numbers[BY_PAIRS + k] =
            (icl_number){icl_mean(losses + k * count, count), icl_standard_error(losses + k * count, count)};
    losses += (N + 1) * count;
    numbers[LAST] = (icl_number){icl_mean(losses, count), icl_standard_error(losses, count)};
done:
    icl_sequences_release(&drawn);
    return status;
}

/* Sets the weights by hand. */
static icl_status set_step(const icl_study *study, icl_trainer *trainer, icl_error *error) {
    float *values = NULL;

    ICL_CHECK(icl_study_parameters(study, trainer, &values, error));
    construct(icl_trainer_model(trainer), best_length(), values);
    return icl_trainer_set_parameters(trainer, values, error);
}

/* Trains unless the weights are set by hand, and looks every few steps. */
static icl_status follow(const icl_study *study, icl_trainer *trainer, size_t kind, icl_number *numbers,
                         icl_error *error) {
    const size_t moments = kind == BY_HAND ? 1 : count_moments(study);
    icl_evaluator *evaluator = NULL;
    float *inputs = NULL;
    icl_batch batch;
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_batch(study, icl_trainer_task(trainer), SEEN, 0, 0, &batch, error));
    ICL_TRY(icl_study_read(study, batch.inputs, &inputs, error));
    ICL_TRY(icl_evaluator_create(study->run->params->backend, icl_trainer_task(trainer), WATCHED,
                                 study->run->params->seed, &evaluator, error));
    for (size_t i = 0; i < moments; i++) {
        ICL_TRY(icl_reproduce_poll(study->run, error));
        if (i > 0)
            ICL_TRY(icl_trainer_run(trainer, budgets[study->scale].every, error));
        ICL_TRY(icl_evaluator_loss(evaluator, trainer, &numbers[LOSS + i].value, error));
        if (kind != WITHOUT)
            ICL_TRY(measure_copying(study, trainer, inputs, &numbers[COPYING + i].value, error));
    }
done:
    icl_evaluator_destroy(&evaluator);
    return status;
}

/* Makes the two columns of places: of inputs, or of labels. */
static icl_status make_column(icl_backend *backend, bool of_labels, icl_tensor *column, icl_error *error) {
    float values[POSITIONS];

    for (size_t t = 0; t < POSITIONS; t++)
        values[t] = (t % 2 == 1) == of_labels;
    ICL_CHECK(icl_tensor_create(backend, 2, (size_t[]){POSITIONS, 1}, column, error));
    return icl_tensor_write(*column, values, error);
}

static icl_status measure(icl_study *study, const icl_study_cell *cell, icl_trainer *start, icl_number *numbers,
                          icl_error *error) {
    layers own = {.copies = cell->at[0] != WITHOUT};
    const icl_model_family family = {.name = "copying and descent",
                                     .settings = &own,
                                     .create = create,
                                     .initialize = initialize,
                                     .predict = predict};
    const icl_trainer_parts parts = {.model = &family};
    icl_backend *backend = study->run->params->backend;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    (void)start;
    ICL_TRY(make_column(backend, false, &own.inputs, error));
    ICL_TRY(make_column(backend, true, &own.outputs, error));
    ICL_TRY(icl_trainer_create_with(backend, &parts, cell->complete, &trainer, error));
    if (cell->at[0] == BY_HAND)
        ICL_TRY(set_step(study, trainer, error));
    ICL_TRY(follow(study, trainer, cell->at[0], numbers, error));
    ICL_TRY(measure_last(study, trainer, numbers, error));
done:
    icl_trainer_destroy(&trainer);
    icl_tensor_release(&own.inputs);
    icl_tensor_release(&own.outputs);
    return status;
}

/* ---- Judging ---- */

/* Returns the first step at which a curve has gone half of the way from `first` to its end. */
static double find_half(const icl_study *study, const icl_number *values, double first) {
    const double last = values[count_moments(study) - 1].value;
    size_t moment = 0;

    while (moment + 1 < count_moments(study) && (values[moment].value - first) / (last - first) < .5)
        moment++;
    return (double)(moment * budgets[study->scale].every);
}

static void draw(icl_study *study, const icl_study_cell *cell) {
    const icl_phrase name = icl_phrase_print("gd-separate-%zu", cell->at[1] + 1);
    const icl_phrase title = icl_phrase_print("Separate tokens: copying and loss along %s", cell->name);
    icl_curves curves = ICL_CURVES(.name = name.text, .title = title.text, .x_label = "step", .y_label = "share");
    double steps[MOST_MOMENTS];

    for (size_t i = 0; i < MOST_MOMENTS; i++)
        steps[i] = (double)(i * budgets[study->scale].every);
    icl_study_plot_numbers(study, &curves, "weight of labels on their inputs", ICL_SERIES_OURS, steps,
                           cell->numbers + COPYING, count_moments(study));
    for (size_t i = 0; i < count_moments(study); i++)
        icl_study_plot(study, &curves, "loss / that of predicting 0", ICL_SERIES_LINE, steps[i],
                       cell->numbers[LOSS + i].value / D);
    icl_study_draw(study, &curves);
}

/* Judges the mean and the loss behind all pairs, where the step is too long. */
static void judge_by_hand(icl_study *study, const icl_study_cell *cell) {
    const icl_number mean = cell->numbers[LAST], behind = cell->numbers[BY_PAIRS + N];

    ICL_JUDGE(study, .quantity = "squared error", ICL_OURS(mean), .target = loss_of_step(),
              .tolerance = 4 * mean.standard_error, .evidence = ICL_COMPUTED, .source = "closed form of a step");
    ICL_JUDGE(study, .quantity = ICL_PHRASE("squared error behind %d pairs", N), ICL_OURS(behind),
              .target = loss_behind(N), .tolerance = 4 * behind.standard_error, .evidence = ICL_COMPUTED,
              .source = "closed form of a step");
    ICL_JUDGE(study, .quantity = "weight of labels on their inputs", .ours = cell->numbers[COPYING].value, .target = 1,
              .tolerance = 1e-6, .evidence = ICL_COMPUTED, .source = "products of codes");
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    /* At scale ci models hardly learn. */
    const bool learns = study->scale != ICL_SCALE_CI;
    const icl_number last = cell->numbers[LAST];
    const double step = loss_of_step(), copying = cell->numbers[COPYING + count_moments(study) - 1].value;

    if (cell->at[0] == WITHOUT) {
        ICL_JUDGE(study, .quantity = "squared error", ICL_OURS(last), .target = D, .tolerance = 4 * last.standard_error,
                  .criterion = ICL_AT_LEAST, .evidence = ICL_COMPUTED, .source = "no covariance with <w, x>");
        return;
    }
    if (cell->at[0] == BY_HAND) {
        judge_by_hand(study, cell);
        return;
    }
    /* Models begin above the loss of predicting 0, and have learned nothing before they are below it. */
    const double learned = find_half(study, cell->numbers + LOSS, D);
    const double copied = find_half(study, cell->numbers + COPYING, cell->numbers[COPYING].value);
    ICL_JUDGE(
        study, .quantity = "squared error", ICL_OURS(last), .target = step, .tolerance = 4 * last.standard_error,
        .criterion = ICL_AT_MOST, .evidence = learns ? ICL_STATED : ICL_EVIDENCE_NONE,
        .source = "two layers reach one step",
        .note = ICL_PHRASE("behind %d pairs %.4g, a step %.4g", N, cell->numbers[BY_PAIRS + N].value, loss_behind(N)));
    ICL_JUDGE(study, .quantity = "weight of labels on their inputs", .ours = copying, .target = .5,
              .criterion = ICL_AT_LEAST, .evidence = learns ? ICL_STATED : ICL_EVIDENCE_NONE,
              .source = "the first layer copies", .note = ICL_PHRASE("untrained %.3g", cell->numbers[COPYING].value));
    ICL_JUDGE(study, .quantity = "steps from half of copying to half of the loss's fall", .ours = learned - copied,
              .note = ICL_PHRASE("copying at %.0f, loss at %.0f", copied, learned));
    draw(study, cell);
}

const icl_reproduction icl_gd_separate =
    ICL_STUDY(.name = "gd-separate", .source = "arXiv 2212.07677, separate tokens",
              .about = "inputs and labels in tokens of their own: a layer that copies, and one that descends",
              .claim = "With inputs and labels in separate tokens a first layer learns to copy, and the next one takes "
                       "a step of gradient descent.",
              .scope = "A met table means that the first layer puts at least half of its weight on copying and "
                       "that the loss reaches that of one step; the judged models have one head of each kind and "
                       "eight pairs, and other positions than learned ones were not tested.",
              .cost = {"1 s", "1 min", "30 min"}, .numbers = NUMBERS, .plan = plan, .measure = measure, .judge = judge);
