#include <inttypes.h>
#include <math.h>

#include "core/allocate.h"
#include "numeric/statistics.h"
#include "papers/fastweight/fastweight.h"

enum { MOST_QUERIES = 200 }; /* of the authors' evaluation */

struct icl_fastweight_measure {
    icl_trainer *trainer; /* of the evaluation's task */
    icl_batch batch;
    float *parameters, *outputs, *targets, *weights;
    double *of_sequence; /* [sequences]: means of losses */
    double *of_query;    /* [queries]: losses of one sequence */
};

double icl_fastweight_rank_floor(size_t features, size_t keys) {
    return features > 0 ? .5 * fmax(0, 1 - (double)features / (double)keys) : 0;
}

double icl_fastweight_mean_floor(size_t keys) {
    const double S = (double)keys;
    double chance = pow(1 - 1 / S, S), there = 1 - chance, sum = 0; /* chance: of c = 0 */

    for (size_t c = 1; c <= keys; c++) {
        chance *= (S - (double)c + 1) / ((double)c * (S - 1)); /* of c, from that of c - 1 */
        sum += chance / there * (1 - 1 / (double)c);
    }
    return .5 * sum * (1 - 1 / S);
}

static icl_status make_trainer(icl_reproducing *run, const icl_recipe *recipe, size_t keys, icl_trainer **trainer,
                               icl_error *error) {
    icl_recipe *own = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_clone(recipe, &own, error));
    ICL_TRY(icl_reproduce_override(own, error, "task.writes=%zu", keys));
    ICL_TRY(icl_reproduce_override(own, error, "task.queries=%zu", keys < MOST_QUERIES ? keys : MOST_QUERIES));
    ICL_TRY(icl_reproduce_override(own, error, "task.asked=keys"));
    ICL_TRY(icl_trainer_create(run->params->backend, own, trainer, error));
done:
    icl_recipe_destroy(&own);
    return status;
}

static icl_status make_batch(icl_reproducing *run, icl_fastweight_measure *m, size_t sequences, icl_error *error) {
    icl_backend *backend = run->params->backend;
    const icl_task *task = icl_trainer_task(m->trainer);

    ICL_CHECK(icl_batch_create(task, backend, ICL_FOR_EVALUATION, sequences, &m->batch, error));
    ICL_CHECK(icl_task_sample(task, backend, ICL_FOR_EVALUATION, run->params->seed, 0, &m->batch, error));
    ICL_CHECK(icl_allocate(icl_model_size(icl_trainer_model(m->trainer)), sizeof(float), "parameters", &m->parameters,
                           error));
    ICL_CHECK(icl_allocate(icl_tensor_count(&m->batch.targets), sizeof(float), "outputs", &m->outputs, error));
    ICL_CHECK(icl_allocate(icl_tensor_count(&m->batch.targets), sizeof(float), "targets", &m->targets, error));
    ICL_CHECK(icl_allocate(icl_tensor_count(&m->batch.weights), sizeof(float), "weights", &m->weights, error));
    ICL_CHECK(icl_allocate(sequences, sizeof(double), "losses", &m->of_sequence, error));
    ICL_CHECK(icl_allocate(m->batch.shape.scored, sizeof(double), "losses", &m->of_query, error));
    ICL_CHECK(icl_tensor_read(m->batch.targets, m->targets, error));
    return icl_tensor_read(m->batch.weights, m->weights, error);
}

icl_status icl_fastweight_measure_create(icl_reproducing *run, const icl_recipe *recipe, size_t keys, size_t sequences,
                                         icl_fastweight_measure **measure, icl_error *error) {
    icl_fastweight_measure *made = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *made, "measure", &made, error));
    ICL_TRY(make_trainer(run, recipe, keys, &made->trainer, error));
    ICL_TRY(make_batch(run, made, sequences, error));
    *measure = made;
    made = NULL;
done:
    icl_fastweight_measure_destroy(&made);
    return status;
}

void icl_fastweight_measure_destroy(icl_fastweight_measure **measure) {
    icl_fastweight_measure *m = *measure;

    if (m) {
        icl_batch_release(&m->batch);
        icl_trainer_destroy(&m->trainer);
        icl_free(&m->parameters);
        icl_free(&m->outputs);
        icl_free(&m->targets);
        icl_free(&m->weights);
        icl_free(&m->of_sequence);
        icl_free(&m->of_query);
    }
    icl_free(measure);
}

static double half_error(const float *output, const float *target, size_t count) {
    double sum = 0;
    for (size_t k = 0; k < count; k++)
        sum += ((double)output[k] - (double)target[k]) * ((double)output[k] - (double)target[k]);
    return .5 * sum;
}

/* The losses of one sequence's queries, those with a weight, which come first; their number. */
static size_t read_sequence(icl_fastweight_measure *m, size_t sequence) {
    const size_t queries = m->batch.shape.scored, outputs = m->batch.shape.outputs, first = sequence * queries;
    size_t asked = 0;

    for (; asked < queries && m->weights[first + asked] > 0; asked++) {
        const size_t at = (first + asked) * outputs;
        m->of_query[asked] = half_error(m->outputs + at, m->targets + at, outputs);
    }
    return asked;
}

static icl_fastweight_loss summarize(icl_fastweight_measure *m) {
    const size_t sequences = m->batch.size;

    for (size_t i = 0; i < sequences; i++)
        m->of_sequence[i] = icl_mean(m->of_query, read_sequence(m, i));
    return (icl_fastweight_loss){.mean = icl_mean(m->of_sequence, sequences),
                                 .standard_error = icl_standard_error(m->of_sequence, sequences)};
}

icl_status icl_fastweight_measure_of(icl_fastweight_measure *m, icl_trainer *trainer, icl_fastweight_loss *loss,
                                     icl_error *error) {
    ICL_CHECK(icl_trainer_get_parameters(trainer, m->parameters, error));
    ICL_CHECK(icl_trainer_set_parameters(m->trainer, m->parameters, error));
    ICL_CHECK(icl_trainer_predict(m->trainer, &m->batch, m->outputs, error));
    *loss = summarize(m);
    return ICL_OK;
}
