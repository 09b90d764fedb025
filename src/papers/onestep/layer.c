#include "papers/onestep/layer.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/baseline.h"
#include "model/model.h"
#include "numeric/matrix.h"
#include "numeric/statistics.h"
#include "run/evaluation.h"

enum { D = ICL_LAYER_D, WIDTH = ICL_LAYER_WIDTH };

/* Covariances are drawn here from a stream that no family of tasks uses. */
#define COVARIANCE_STREAM 0x6f6e6573u

/* ---- Matrices ---- */

icl_status icl_one_layer_read(icl_trainer *trainer, icl_one_layer *layer, icl_error *error) {
    const icl_model *model = icl_trainer_model(trainer);
    float values[ICL_LAYER_SIZE];

    ICL_CHECK(icl_trainer_get_parameters(trainer, values, error));
    ICL_CHECK(icl_matrix_of_model(model, values, "layer.0.head.0.P", WIDTH, WIDTH, layer->p[0], error));
    ICL_CHECK(icl_matrix_of_model(model, values, "layer.0.head.0.Q", WIDTH, WIDTH, layer->q[0], error));
    for (size_t i = 0; i < WIDTH; i++)
        for (size_t j = 0; j < WIDTH; j++)
            layer->q[i][j] = -layer->q[i][j];
    return ICL_OK;
}

void icl_one_layer_write(const icl_one_layer *layer, float *values) {
    for (size_t i = 0; i < (size_t)WIDTH * WIDTH; i++) {
        values[i] = (float)layer->p[i / WIDTH][i % WIDTH];
        values[WIDTH * WIDTH + i] = (float)-layer->q[i / WIDTH][i % WIDTH];
    }
}

/* Divides the columns of R = sqrt(lambda_i) u_i by their lengths, which gives u_i. */
static void find_eigenbasis(const double *root, double *basis) {
    for (size_t k = 0; k < D; k++) {
        double square = root ? 0 : 1;
        for (size_t i = 0; root && i < D; i++)
            square += root[i * D + k] * root[i * D + k];
        for (size_t i = 0; i < D; i++)
            basis[i * D + k] = root ? root[i * D + k] / sqrt(square) : i == k;
    }
}

void icl_one_layer_of_basis(double u, const double *inner, const double *root, icl_one_layer *layer) {
    double basis[D * D];

    find_eigenbasis(root, basis);
    *layer = (icl_one_layer){.p = {{0}}};
    layer->p[D][D] = u;
    for (size_t i = 0; i < D; i++)
        for (size_t j = 0; j < D; j++)
            for (size_t k = 0; k < (size_t)D * D; k++)
                layer->q[i][j] += basis[i * D + k / D] * inner[k] * basis[j * D + k % D];
}

void icl_one_layer_in_basis(const icl_one_layer *layer, const double *root, double *inner) {
    double basis[D * D], entries[D * D];

    find_eigenbasis(root, basis);
    for (size_t i = 0; i < (size_t)D * D; i++)
        entries[i] = layer->q[i / D][i % D];
    icl_matrix_in_basis(basis, entries, D, inner);
}

double icl_one_layer_unscale(icl_one_layer *layer) {
    const double scale = layer->p[D][D];

    for (size_t i = 0; i < WIDTH; i++)
        for (size_t j = 0; j < WIDTH; j++) {
            layer->p[i][j] /= scale;
            layer->q[i][j] *= scale;
        }
    return scale;
}

double icl_layer_distance(double matrix[WIDTH][WIDTH], double exact[WIDTH][WIDTH]) {
    double farthest = 0, largest = 0;

    for (size_t i = 0; i < WIDTH; i++)
        for (size_t j = 0; j < WIDTH; j++) {
            if (isnan(matrix[i][j]))
                return (double)NAN;
            farthest = fmax(farthest, fabs(matrix[i][j] - exact[i][j]));
            largest = fmax(largest, fabs(exact[i][j]));
        }
    return farthest / largest;
}

/* ---- Losses on changed prompts ---- */

typedef struct measuring {
    icl_sequences sequences;
    const icl_prompt_change *change;
    uint64_t chunk;                                 /* at hand */
    float *coefficients;                            /* [chunk][D]: w */
    double *predictions;                            /* [chunk]: predictions of least squares */
    icl_predictors *ols;                            /* NULL: not asked for */
    double loss, square, ols_loss, target, product; /* sums */
} measuring;

static double factor_of(double factor) {
    return factor > 0 ? factor : 1;
}

/* Returns sqrt(l), l ~ Exponential(1). */
static double draw_deviation(const measuring *m, size_t sequence, size_t axis) {
    const icl_random_key key = {m->sequences.seed, COVARIANCE_STREAM, m->chunk};
    const double uniform = ((double)icl_random_word(key, sequence * D + axis) + .5) * 0x1p-32;
    return sqrt(-log(uniform));
}

/* Changes x to diag(factors) x, and y to <w, x> of the new x, at every position of the sequence except the query's
 * label, which is the target. */
static void change_sequence(measuring *m, size_t sequence) {
    const size_t positions = m->sequences.batch.shape.positions;
    const float *w = m->coefficients + sequence * D;
    double factors[D];

    for (size_t i = 0; i < D; i++)
        factors[i] = factor_of(m->change->covariates) * (m->change->is_covariance ? draw_deviation(m, sequence, i) : 1);
    for (size_t t = 0; t < positions; t++) {
        float *token = m->sequences.inputs + (sequence * positions + t) * WIDTH;
        const bool is_query = t + 1 == positions;
        double label = 0;
        for (size_t i = 0; i < D; i++) {
            token[i] = (float)((double)token[i] * factors[i] * (is_query ? factor_of(m->change->query) : 1));
            label += (double)w[i] * (double)token[i];
        }
        if (is_query)
            m->sequences.targets[sequence] = (float)label;
        else
            token[D] = (float)label;
    }
}

static icl_status measure_chunk(measuring *m, icl_trainer *trainer, size_t count, icl_error *error) {
    icl_sequences *s = &m->sequences;

    ICL_CHECK(icl_sequences_sample(s, m->chunk, error));
    ICL_CHECK(icl_sequences_refer(s, NULL, 0, NULL, error));
    ICL_CHECK(icl_tensor_read(icl_batch_side(&s->batch, ICL_SIDE_COEFFICIENTS), m->coefficients, error));
    for (size_t i = 0; i < s->chunk; i++)
        change_sequence(m, i);
    ICL_CHECK(icl_tensor_write(s->batch.inputs, s->inputs, error));
    ICL_CHECK(icl_sequences_predict(s, trainer, error));
    if (m->ols)
        ICL_CHECK(icl_predictors_run(m->ols, count, s->inputs, s->noise, m->predictions, error));
    for (size_t i = 0; i < count; i++) {
        const double target = (double)s->targets[i], model = (double)s->model[i];
        const double loss = (model - target) * (model - target);
        m->loss += loss;
        m->square += loss * loss;
        m->target += target * target;
        m->product += model * target;
        if (m->ols)
            m->ols_loss += (m->predictions[i] - target) * (m->predictions[i] - target);
    }
    return ICL_OK;
}

static icl_status measure_all(const icl_reproducing *run, measuring *m, icl_trainer *trainer, size_t total,
                              icl_error *error) {
    for (size_t done = 0; done < total; done += m->sequences.chunk, m->chunk++) {
        const size_t left = total - done;
        ICL_CHECK(icl_reproduce_poll(run, error));
        ICL_CHECK(measure_chunk(m, trainer, left < m->sequences.chunk ? left : m->sequences.chunk, error));
    }
    return ICL_OK;
}

icl_status icl_one_layer_measure(icl_reproducing *run, const icl_recipe *recipe, const icl_one_layer *layer,
                                 const icl_prompt_change *change, size_t sequences, icl_changed_loss *loss,
                                 icl_error *error) {
    const double n = (double)sequences;
    measuring m = {.change = change};
    icl_trainer *trainer = NULL;
    float values[ICL_LAYER_SIZE];
    icl_status status = ICL_OK;

    ICL_TRY(icl_trainer_create(run->params->backend, recipe, &trainer, error));
    icl_one_layer_write(layer, values);
    ICL_TRY(icl_trainer_set_parameters(trainer, values, error));
    const icl_task *task = icl_trainer_task(trainer);
    ICL_TRY(icl_sequences_create(run->params->backend, task, run->params->seed, &m.sequences, error));
    ICL_TRY(icl_allocate(m.sequences.chunk, D * sizeof *m.coefficients, "coefficients", &m.coefficients, error));
    ICL_TRY(icl_allocate(m.sequences.chunk, sizeof *m.predictions, "predictions", &m.predictions, error));
    if (change->is_covariance)
        ICL_TRY(icl_predictors_create(task, run->params->backend, "ols", 1, run->params->seed, &m.ols, error));
    ICL_TRY(measure_all(run, &m, trainer, sequences, error));
    *loss = (icl_changed_loss){.mse = m.loss / n,
                               .se = icl_standard_error_of_sums(m.loss, m.square, sequences),
                               .ols = m.ols ? m.ols_loss / n : (double)NAN,
                               .target = m.target / n,
                               .slope = m.product / m.target};
done:
    icl_predictors_destroy(&m.ols);
    icl_free(&m.coefficients);
    icl_free(&m.predictions);
    icl_sequences_release(&m.sequences);
    icl_trainer_destroy(&trainer);
    return status;
}
