/*
 * The parameters of a sequence model: their names, how they begin, and small operations on the tape.
 *
 * With model.init = s > 0 matrices, tables and filters are N(0, s^2), as GPT-2 has it with s = 0.02. With 0 a matrix of
 * N inputs is N(0, 1/N), so that numbers keep a variance of about 1 on their way; tables of symbols are N(0, 1), those
 * of positions N(0, 0.1^2), filters of C taps N(0, 1/C), and the readout N(0, 1/width^2), whose outputs begin near 0.
 * In both cases what a residual connection adds is divided by sqrt(2 layers). Gains begin at 1, biases at 0 unless
 * their mixer says otherwise.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/allocate.h"
#include "iclab/random.h"
#include "model/sequence/sequence.h"

icl_status icl_sequence_add(icl_sequence_builder *builder, icl_sequence_parameter *parameter, icl_sequence_start start,
                            int rank, const size_t *shape, icl_error *error, const char *format, ...) {
    icl_sequence *sequence = builder->sequence;
    char name[64];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    ICL_CHECK(icl_grow(&sequence->starts, sequence->start_count, &sequence->start_capacity, sizeof start,
                       "starts of parameters", error));
    ICL_CHECK(icl_model_add_parameter(builder->model, rank, shape, error, "%s", name));
    if (start.keeps)
        icl_model_mark_without_decay(builder->model);
    sequence->starts[sequence->start_count++] = start;
    *parameter = builder->model->parameter_count;
    return ICL_OK;
}

static double matrix_std(const icl_sequence *sequence, size_t inputs) {
    return sequence->init > 0 ? sequence->init : 1.0 / sqrt((double)inputs);
}

static icl_status add_hidden(icl_sequence_builder *builder, icl_sequence_parameter *parameter,
                             const icl_sequence_layer *layer, const char *name, const size_t shape[2], double std,
                             icl_error *error) {
    const icl_sequence_start start = {ICL_START_NORMAL, std, 0, false};

    ICL_CHECK(icl_sequence_add(builder, parameter, start, 2, shape, error, "block.%zu.%s", layer->index, name));
    icl_model_mark_hidden_matrix(builder->model);
    return ICL_OK;
}

icl_status icl_sequence_add_matrix(icl_sequence_builder *builder, icl_sequence_parameter *parameter,
                                   const icl_sequence_layer *layer, const char *name, size_t inputs, size_t outputs,
                                   icl_error *error) {
    return add_hidden(builder, parameter, layer, name, (const size_t[]){inputs, outputs},
                      matrix_std(builder->sequence, inputs), error);
}

icl_status icl_sequence_add_residual(icl_sequence_builder *builder, icl_sequence_parameter *parameter,
                                     const icl_sequence_layer *layer, const char *name, size_t inputs, size_t outputs,
                                     icl_error *error) {
    const double std = matrix_std(builder->sequence, inputs) / sqrt(2.0 * (double)builder->model->layers);
    return add_hidden(builder, parameter, layer, name, (const size_t[]){inputs, outputs}, std, error);
}

icl_status icl_sequence_add_constants(icl_sequence_builder *builder, icl_sequence_parameter *parameter,
                                      const icl_sequence_layer *layer, const char *name, size_t count, double value,
                                      icl_error *error) {
    const icl_sequence_start start = {ICL_START_CONSTANT, value, 0, true};
    return icl_sequence_add(builder, parameter, start, 1, &count, error, "block.%zu.%s", layer->index, name);
}

/* ---- Initial values ---- */

static double uniform_at(uint32_t seed, size_t index) {
    const icl_random_key key = {.seed = seed, .stream = ICL_MODEL_STREAM, .step = 1};
    return ((double)(icl_random_word(key, index) >> 8) + 0.5) * 0x1p-24;
}

/* Fills the columns of [d, m] in blocks of d directions, orthogonal to each other within a block (Gram-Schmidt), each
 * as long as a normal vector of its own: Choromanski and others 2021, section 3.2. */
static void fill_directions(const icl_parameter_info *info, icl_random_key key, float *values) {
    const size_t d = info->shape[0], m = info->shape[1];

    for (size_t j = 0; d > 0 && j < m; j++) {
        double length = 0, rest = 0;
        for (size_t i = 0; i < d; i++) {
            values[i * m + j] = icl_normal_from_word(icl_random_word(key, info->offset + i * m + j));
            length += (double)values[i * m + j] * (double)values[i * m + j];
        }
        for (size_t other = j - j % d; other < j; other++) {
            double product = 0, square = 0;
            for (size_t i = 0; i < d; i++) {
                product += (double)values[i * m + j] * (double)values[i * m + other];
                square += (double)values[i * m + other] * (double)values[i * m + other];
            }
            for (size_t i = 0; i < d; i++)
                values[i * m + j] -= (float)((square > 0 ? product / square : 0) * (double)values[i * m + other]);
        }
        for (size_t i = 0; i < d; i++)
            rest += (double)values[i * m + j] * (double)values[i * m + j];
        for (size_t i = 0; i < d; i++)
            values[i * m + j] *= (float)(rest > 0 ? sqrt(length / rest) : 0);
    }
}

void icl_sequence_redraw_directions(const icl_parameter_info *info, uint32_t seed, uint64_t step, float *values) {
    fill_directions(info, (icl_random_key){.seed = seed, .stream = ICL_MODEL_STREAM + 1, .step = step}, values);
}

double icl_sequence_inverse_softplus(double y) {
    return y > 40 ? y : log(expm1(y));
}

static double start_of(const icl_sequence_start *start, uint32_t seed, size_t index) {
    switch (start->kind) {
    case ICL_START_CONSTANT:
        return start->a;
    case ICL_START_LOG_UNIFORM:
        return log(start->a + (start->b - start->a) * uniform_at(seed, index));
    case ICL_START_INVERSE_SOFTPLUS:
        return icl_sequence_inverse_softplus(
            exp(log(start->a) + (log(start->b) - log(start->a)) * uniform_at(seed, index)));
    case ICL_START_UNIFORM:
        return start->a * (2 * uniform_at(seed, index) - 1);
    case ICL_START_IDENTITY:
    case ICL_START_NORMAL:
    case ICL_START_ORTHOGONAL:
        break;
    }
    return start->a * (double)icl_model_noise(seed, index);
}

static void initialize_identity(const icl_parameter_info *info, float *values) {
    for (size_t k = 0; k < info->count; k++)
        values[k] = k / info->shape[1] == k % info->shape[1] ? 1 : 0;
}

void icl_sequence_initialize(const icl_model *model, const icl_sequence *sequence, uint32_t seed, float *values) {
    for (size_t i = 0; i < model->parameter_count; i++) {
        const icl_parameter_info *info = &model->parameters[i];
        if (sequence->starts[i].kind == ICL_START_ORTHOGONAL)
            fill_directions(info, (icl_random_key){.seed = seed, .stream = ICL_MODEL_STREAM}, values + info->offset);
        else if (sequence->starts[i].kind == ICL_START_IDENTITY)
            initialize_identity(info, values + info->offset);
        else
            for (size_t k = 0; k < info->count; k++)
                values[info->offset + k] = (float)start_of(&sequence->starts[i], seed, info->offset + k);
    }
}

/* ---- Small operations on the tape ---- */

icl_variable icl_sequence_value(const icl_sequence_pass *pass, icl_sequence_parameter parameter) {
    return pass->parameters[parameter - 1];
}

icl_variable icl_sequence_linear(const icl_sequence_pass *pass, icl_variable x, icl_sequence_parameter weight,
                                 icl_sequence_parameter bias) {
    const icl_variable product = icl_tape_matmul(pass->tape, 1.0, x, icl_sequence_value(pass, weight));
    return bias ? icl_tape_binary(pass->tape, ICL_ADD, product, icl_sequence_value(pass, bias)) : product;
}

icl_variable icl_sequence_split(const icl_sequence_pass *pass, icl_variable x, size_t width) {
    const icl_tensor seen = icl_tape_value(pass->tape, x);
    const size_t heads = icl_sequence_heads_of(pass);
    const size_t positions = seen.shape[2] > 0 ? seen.shape[1] * seen.shape[2] / (heads * width) : 0;

    return icl_tape_swap_axes(
        pass->tape, icl_tape_reshape(pass->tape, x, 4, (const size_t[]){seen.shape[0], positions, heads, width}), 1, 2);
}

icl_variable icl_sequence_multiply(icl_tape *tape, icl_variable a, icl_variable b) {
    return icl_tape_binary(tape, ICL_MULTIPLY, a, b);
}

icl_variable icl_sequence_by_head(const icl_sequence_pass *pass, icl_sequence_parameter parameter, size_t width) {
    return icl_tape_reshape(pass->tape, icl_sequence_value(pass, parameter), 3,
                            (const size_t[]){pass->sequence->heads, 1, width});
}

icl_variable icl_sequence_join(const icl_sequence_pass *pass, icl_variable heads) {
    const icl_variable rows = icl_tape_swap_axes(pass->tape, heads, 1, 2);
    const icl_tensor seen = icl_tape_value(pass->tape, rows);
    /* A reshape takes only contiguous rows, which one head has and several have not. */
    const icl_variable copy =
        seen.buffer && icl_tensor_is_contiguous(&seen) ? rows : icl_tape_scale(pass->tape, 1.0, rows);

    return icl_tape_reshape(
        pass->tape, copy, 3,
        (const size_t[]){seen.shape[0], seen.shape[1] * pass->cells, seen.shape[2] / pass->cells * seen.shape[3]});
}

icl_variable icl_sequence_add_scalar(const icl_sequence_pass *pass, icl_variable x, double value) {
    return icl_tape_binary(pass->tape, ICL_ADD, x, icl_tape_filled(pass->tape, 0, NULL, value));
}

icl_variable icl_sequence_keep_scored(const icl_sequence_pass *pass, icl_variable z) {
    const size_t positions = icl_tape_value(pass->tape, z).shape[1];
    return pass->scored < positions ? icl_tape_slice(pass->tape, z, 1, pass->first_scored, pass->scored) : z;
}
