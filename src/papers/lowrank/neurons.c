/*
 * Neurons of small magnitude can be pruned at little loss. A neuron's magnitude is the norm of what it reads times that
 * of what it writes. Eight patterns of two labels in four dimensions, where no linear map tells them apart.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "model/named_matrix.h"
#include "papers/curves.h"
#include "papers/lowrank/lowrank.h"
#include "papers/phrase.h"

enum { WIDTH = ICL_LOWRANK_WIDTH, HIDDEN = ICL_LOWRANK_HIDDEN, QUARTERS = 4, HALF = QUARTERS / 2 };

typedef struct neuron {
    size_t index;
    double magnitude;
} neuron;

static int by_magnitude(const void *left, const void *right) {
    const neuron *a = left, *b = right;
    return (a->magnitude > b->magnitude) - (a->magnitude < b->magnitude);
}

/* Neurons in ascending order of magnitude. */
static icl_status rank_neurons(const icl_lowrank_trained *of, neuron *neurons, icl_error *error) {
    const icl_model *model = icl_trainer_model(of->made.trainer);
    double up[WIDTH * HIDDEN], down[HIDDEN * WIDTH];

    ICL_CHECK(icl_matrix_of_model(model, of->after, "block.0.feed_forward.up", WIDTH, HIDDEN, up, error));
    ICL_CHECK(icl_matrix_of_model(model, of->after, "block.0.feed_forward.down", HIDDEN, WIDTH, down, error));
    for (size_t j = 0; j < HIDDEN; j++) {
        double reads = 0, writes = 0;
        for (size_t i = 0; i < WIDTH; i++) {
            reads += up[i * HIDDEN + j] * up[i * HIDDEN + j];
            writes += down[j * WIDTH + i] * down[j * WIDTH + i];
        }
        neurons[j] = (neuron){j, sqrt(reads * writes)};
    }
    qsort(neurons, HIDDEN, sizeof *neurons, by_magnitude);
    return ICL_OK;
}

/* What a neuron writes, set to 0: it is gone. */
static void silence(const icl_model *model, size_t index, float *values) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        if (strcmp(info->name, "block.0.feed_forward.down") == 0)
            memset(values + info->offset + index * WIDTH, 0, WIDTH * sizeof *values);
    }
}

typedef struct outcome {
    double loss, accuracy;
} outcome;

static icl_status prune(icl_reproducing *run, icl_lowrank_trained *of, const neuron *neurons, bool largest, size_t gone,
                        outcome *out, icl_error *error) {
    const icl_model *model = icl_trainer_model(of->made.trainer);
    float *values = NULL;
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(icl_model_size(model), sizeof *values, "parameters", &values, error));
    memcpy(values, of->after, icl_model_size(model) * sizeof *values);
    for (size_t i = 0; i < gone; i++)
        silence(model, neurons[largest ? HIDDEN - 1 - i : i].index, values);
    ICL_TRY(icl_trainer_set_parameters(of->made.trainer, values, error));
    ICL_TRY(icl_evaluate(run->params->backend, of->made.trainer, of->made.recipe, &evaluation, error));
    *out = (outcome){evaluation->scores[0].mse, evaluation->scores[0].accuracy};
done:
    icl_evaluation_destroy(&evaluation);
    icl_free(&values);
    return status;
}

/* smallest, largest: those that go first, by the quarters that are gone. */
static icl_status judge(icl_reproducing *run, const outcome *smallest, const outcome *largest, icl_error *error) {
    static const char *const what = "half of the neurons pruned";
    const double lost = smallest[HALF].loss - smallest[0].loss, lost_otherwise = largest[HALF].loss - largest[0].loss;
    const icl_phrase note = icl_phrase_print("loss %.4f, the smallest gone %.4f, the largest %.4f", smallest[0].loss,
                                             smallest[HALF].loss, largest[HALF].loss);

    ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "accuracy lost, the smallest gone",
                        .ours = smallest[0].accuracy - smallest[HALF].accuracy, .tolerance = .02,
                        .criterion = ICL_AT_MOST, .evidence = ICL_INFERRED, .source = "pruned at little loss",
                        .note = note.text));
    ICL_CHECK(ICL_FOUND(run, error, .what = what, .quantity = "accuracy lost, the largest gone",
                        .ours = smallest[0].accuracy - largest[HALF].accuracy, .target = .1, .criterion = ICL_AT_LEAST,
                        .evidence = ICL_INFERRED, .source = "few neurons carry it"));
    return ICL_FOUND(run, error, .what = what, .quantity = "loss added, the smallest over the largest gone",
                     .ours = lost / lost_otherwise, .target = .1, .criterion = ICL_AT_MOST, .evidence = ICL_INFERRED,
                     .source = "few neurons carry it", .note = note.text);
}

static icl_status prune_all(icl_reproducing *run, icl_lowrank_trained *of, icl_curves *curves, icl_error *error) {
    neuron neurons[HIDDEN];
    outcome is[2][QUARTERS];

    ICL_CHECK(rank_neurons(of, neurons, error));
    for (size_t i = 0; i < QUARTERS; i++)
        for (int largest = 0; largest < 2; largest++) {
            const size_t gone = i * HIDDEN / QUARTERS;
            ICL_CHECK(prune(run, of, neurons, largest, gone, &is[largest][i], error));
            ICL_CHECK(icl_curves_add(curves, largest ? "the largest first" : "the smallest first",
                                     largest ? ICL_SERIES_REFERENCE : ICL_SERIES_OURS, (double)gone / HIDDEN,
                                     is[largest][i].accuracy, error));
        }
    return judge(run, is[0], is[1], error);
}

icl_status icl_lowrank_neurons(icl_reproducing *run, icl_error *error) {
    icl_lowrank_trained of = {.before = NULL};
    icl_curves curves = {.figure = {.name = "pruning",
                                    .title = "Neurons pruned by magnitude",
                                    .x_label = "share of the neurons that is gone",
                                    .y_label = "accuracy"}};
    icl_status status = ICL_OK;

    ICL_TRY(icl_lowrank_train_block(run, "neurons", 8, 2, 4, &of, error));
    ICL_TRY(prune_all(run, &of, &curves, error));
    ICL_TRY(icl_curves_draw(run, &curves, error));
done:
    icl_curves_release(&curves);
    icl_lowrank_release(&of);
    return status;
}
