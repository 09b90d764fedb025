/* Tests the residual stream of a model of two blocks and two loops against plain loops over its tokens in double, at
 * all positions, though few are scored; the same with one stage replaced by another stream; the outputs that a watch
 * sees; and a model that has no stream. */
#include "probe/activations.h"

#include "../model/sequence/fixture.h"

enum { T = 9, B = 3, WIDTH = 6, M = 3, HIDDEN = 5, INPUTS = 4, LAYERS = 2, STAGES = 1 + 2 * LAYERS, TURNED = 2 };

#define TURN (-.5) /* the factor of the stage that is replaced */

static const setting is = {
    "heads=1 key_width=3 value_width=3 loops=2 mixer=softmax norm=none feed_forward=relu feed_forward_factor=0.8 "
    "activation_clip=2",
    {.positions = T, .inputs = INPUTS, .outputs = 1, .first_scored = T - 1, .scored = 1},
    B};

typedef struct plain {
    const fixture *f;
    double turn; /* the factor of stage TURNED */
    const float *values;
    double e[T][WIDTH], z[T][WIDTH];
} plain;

/* Returns the parameter PREFIX.NAME. */
static const float *get(const plain *p, const char *prefix, const char *name) {
    char full[64];

    snprintf(full, sizeof full, "%s.%s", prefix, name);
    for (size_t i = 0; i < icl_model_parameter_count(p->f->model); i++)
        if (strcmp(icl_model_parameter(p->f->model, i)->name, full) == 0)
            return p->values + icl_model_parameter(p->f->model, i)->offset;
    return NULL;
}

/* Returns column j of x W, W [inputs][outputs]. */
static double column(const double *x, const float *matrix, size_t inputs, size_t outputs, size_t j) {
    double sum = 0;
    for (size_t i = 0; i < inputs; i++)
        sum += x[i] * (double)matrix[i * outputs + j];
    return sum;
}

static void attend(plain *p, const char *block) {
    double q[T][M], k[T][M], v[T][M];

    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < M; i++) {
            q[t][i] = column(p->z[t], get(p, block, "mixer.query"), WIDTH, M, i);
            k[t][i] = column(p->z[t], get(p, block, "mixer.key"), WIDTH, M, i);
            v[t][i] = column(p->z[t], get(p, block, "mixer.value"), WIDTH, M, i);
        }
    for (size_t t = 0; t < T; t++) {
        double total = 0, o[M] = {0};
        for (size_t s = 0; s <= t; s++) {
            double score = 0;
            for (size_t i = 0; i < M; i++)
                score += q[t][i] * k[s][i] / sqrt(M);
            total += exp(score);
            for (size_t i = 0; i < M; i++)
                o[i] += exp(score) * v[s][i];
        }
        for (size_t i = 0; i < M; i++)
            o[i] /= total;
        for (size_t i = 0; i < WIDTH; i++)
            p->z[t][i] += column(o, get(p, block, "mixer.output"), M, WIDTH, i);
    }
}

static void feed_forward(plain *p, const char *block) {
    for (size_t t = 0; t < T; t++) {
        double hidden[HIDDEN];
        for (size_t i = 0; i < HIDDEN; i++)
            hidden[i] = fmax(0, column(p->z[t], get(p, block, "feed_forward.up"), WIDTH, HIDDEN, i) +
                                    (double)get(p, block, "feed_forward.up_bias")[i]);
        for (size_t i = 0; i < WIDTH; i++)
            p->z[t][i] += column(hidden, get(p, block, "feed_forward.down"), HIDDEN, WIDTH, i) +
                          (double)get(p, block, "feed_forward.down_bias")[i];
    }
}

/* Computes the stages of one sequence, out [STAGES][T][WIDTH] with stages B T WIDTH apart. */
static void run_plain(plain *p, const float *inputs, double *out) {
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < WIDTH; i++) {
            p->e[t][i] = (double)get(p, "embedding", "bias")[i];
            for (size_t j = 0; j < INPUTS; j++)
                p->e[t][i] += (double)inputs[t * INPUTS + j] * (double)get(p, "embedding", "weight")[j * WIDTH + i];
        }
    memcpy(p->z, p->e, sizeof p->z);
    memcpy(out, p->z, sizeof p->z);
    for (size_t stage = 1; stage < STAGES; stage++) {
        const char *block = stage % LAYERS == 1 ? "block.0" : "block.1";
        for (size_t i = 0; stage == 1 + LAYERS && i < T * WIDTH; i++)
            p->z[i / WIDTH][i % WIDTH] += p->e[i / WIDTH][i % WIDTH];
        attend(p, block);
        feed_forward(p, block);
        for (size_t i = 0; i < T * WIDTH; i++)
            p->z[i / WIDTH][i % WIDTH] =
                (stage == TURNED ? p->turn : 1) * fmin(2, fmax(-2, p->z[i / WIDTH][i % WIDTH]));
        memcpy(out + stage * B * T * WIDTH, p->z, sizeof p->z);
    }
}

static icl_status compare(icl_backend *backend, icl_residual_stream *stream, double worst[STAGES], icl_error *error) {
    static float inputs[B * T * INPUTS], values[MOST_NUMBERS];
    static double expected[STAGES * B * T * WIDTH];
    plain p = {.values = values, .turn = 1};
    fixture f;
    icl_status status = ICL_OK;

    fixture_open(&f, backend, &is);
    ICL_TRY(icl_tensor_read(f.inputs, inputs, error));
    ICL_TRY(icl_tensor_read(f.parameters, values, error));
    ICL_TRY(icl_residual_stream_read(f.model, backend, f.parameters, f.inputs, stream, error));
    p.f = &f;
    for (size_t b = 0; b < B; b++)
        run_plain(&p, inputs + b * T * INPUTS, expected + b * T * WIDTH);
    for (size_t stage = 0; stage < STAGES && stage < stream->stages; stage++)
        for (size_t i = 0; i < (size_t)B * T * WIDTH; i++)
            worst[stage] = fmax(worst[stage], fabs(expected[stage * B * T * WIDTH + i] -
                                                   (double)icl_residual_stream_stage(stream, stage)[i]));
done:
    fixture_close(&f);
    return status;
}

static void test_stages(tap_run *tap, icl_backend *backend) {
    icl_residual_stream stream = {0};
    double worst[STAGES] = {0};
    icl_error error = {0};

    if (tap_status(tap, compare(backend, &stream, worst, &error), &error, "a stream")) {
        tap_ok(tap, stream.stages == STAGES && stream.tokens == (size_t)B * T && stream.width == WIDTH,
               "%zu stages of %zu tokens of %zu numbers", stream.stages, stream.tokens, stream.width);
        for (size_t stage = 0; stage < STAGES; stage++) /* rounding of numbers up to 2 and of sums of tens of terms */
            tap_ok(tap, worst[stage] < 1e-5, "stage %zu: %.2g from plain loops", stage, worst[stage]);
    }
    icl_residual_stream_release(&stream);
}

/* ---- A stage that is replaced ---- */

typedef struct turned_run {
    const fixture *f;
    icl_variable stages[STAGES], outputs;
    double worst; /* the largest distance of a stage from plain loops */
    double apart; /* that of the outputs from the model's readout of the last stage */
} turned_run;

static icl_variable turn_stage(void *user, const icl_sequence_pass *pass, size_t stage, icl_variable z) {
    turned_run *run = user;
    run->stages[stage] = stage == TURNED ? icl_tape_scale(pass->tape, TURN, z) : z;
    return run->stages[stage];
}

static void see_outputs(void *user, icl_variable outputs) {
    turned_run *run = user;
    run->outputs = outputs;
}

/* The readout is W^T z + b at every position. */
static double read_out(const plain *p, const double *z) {
    return column(z, get(p, "readout", "weight"), WIDTH, 1, 0) + (double)get(p, "readout", "bias")[0];
}

static icl_status compare_turned(void *user, const icl_tape *tape, icl_error *error) {
    static float inputs[B * T * INPUTS], values[MOST_NUMBERS], stage_values[B * T * WIDTH], outputs[B * T];
    static double expected[STAGES * B * T * WIDTH];
    turned_run *run = user;
    plain p = {.f = run->f, .values = values, .turn = TURN};

    ICL_CHECK(icl_tensor_read(run->f->inputs, inputs, error));
    ICL_CHECK(icl_tensor_read(run->f->parameters, values, error));
    for (size_t b = 0; b < B; b++)
        run_plain(&p, inputs + b * T * INPUTS, expected + b * T * WIDTH);
    for (size_t stage = 0; stage < STAGES; stage++) {
        ICL_CHECK(icl_tensor_read(icl_tape_value(tape, run->stages[stage]), stage_values, error));
        for (size_t i = 0; i < (size_t)B * T * WIDTH; i++)
            run->worst = fmax(run->worst, fabs(expected[stage * B * T * WIDTH + i] - (double)stage_values[i]));
    }
    ICL_CHECK(icl_tensor_read(icl_tape_value(tape, run->outputs), outputs, error));
    for (size_t i = 0; i < (size_t)B * T; i++)
        run->apart =
            fmax(run->apart, fabs(read_out(&p, expected + ((STAGES - 1) * B * T + i) * WIDTH) - (double)outputs[i]));
    return ICL_OK;
}

static void test_replaced(tap_run *tap, icl_backend *backend) {
    turned_run run = {0};
    const icl_sequence_watch watch = {.stage = turn_stage, .outputs = see_outputs, .user = &run};
    icl_error error = {0};
    fixture f;

    fixture_open(&f, backend, &is);
    run.f = &f;
    if (tap_status(tap, icl_watched_run(f.model, backend, f.parameters, f.inputs, &watch, compare_turned, &error),
                   &error, "a stage that is replaced")) {
        tap_ok(tap, run.worst < 1e-5, "the stages behind it: %.2g from plain loops", run.worst);
        tap_ok(tap, run.apart < 1e-5, "outputs at all positions: %.2g from the readout", run.apart);
    }
    fixture_close(&f);
}

static icl_status refuse(icl_backend *backend, icl_error *error) {
    icl_residual_stream stream = {0};
    icl_recipe *recipe = NULL;
    icl_model *model = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(&recipe, error));
    ICL_TRY(icl_recipe_override(recipe, "model.family=linear", error));
    ICL_TRY(icl_model_create(recipe, icl_regression_shape(3, 5), &model, error));
    ICL_TRY(icl_residual_stream_read(model, backend, (icl_tensor){0}, (icl_tensor){0}, &stream, error));
done:
    icl_residual_stream_release(&stream);
    icl_model_destroy(&model);
    icl_recipe_destroy(&recipe);
    return status;
}

int main(int count, char **arguments) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, count > 1 ? arguments[1] : "cpu");
    icl_error error = {0};

    if (backend) {
        test_stages(&tap, backend);
        test_replaced(&tap, backend);
        tap_ok(&tap, refuse(backend, &error) == ICL_ERROR_INPUT && strstr(error.message, "linear"), "refused: %s",
               error.message);
    }
    icl_backend_close(&backend);
    return tap_done(&tap);
}
