/* Muon's steps against plain loops in double, their singular values, what it leaves to Adam, and what a checkpoint
 * carries. argv: device. */
#include "fixture.h"

#include "train/trainer.h"

#define SEQUENCE                                                                                                       \
    "task.d=3", "task.n=5", "train.batch=8", "train.steps=6", "train.warmup=2", "model.family=sequence",               \
        "model.layers=3", "model.width=8", "model.heads=2", "model.mixer=gated-delta,softmax", "model.convolution=2",  \
        "model.norm=rms", "model.feed_forward=swiglu", "train.weight_decay=0.5", "train.learning_rate=0.01"

enum { MOST_SIDE = 32, MOST_ELEMENTS = 512 };

static const char *const muon[] = {SEQUENCE, "train.optimizer=muon", NULL};
static const char *const adam[] = {SEQUENCE, "train.beta1=0.95", NULL};

/* ---- Plain loops ---- */

/* X [m, n] <- a X + b (X X^T) X + c (X X^T)^2 X, five times, after division by its Frobenius norm + 1e-7. */
static void orthogonalize(size_t m, size_t n, double *x) {
    double norm = 0, products[MOST_SIDE][MOST_SIDE], once[MOST_ELEMENTS], twice[MOST_ELEMENTS];

    for (size_t i = 0; i < m * n; i++)
        norm += x[i] * x[i];
    for (size_t i = 0; i < m * n; i++)
        x[i] /= sqrt(norm) + 1e-7;
    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < m; j++) {
                products[i][j] = 0;
                for (size_t k = 0; k < n; k++)
                    products[i][j] += x[i * n + k] * x[j * n + k];
            }
        for (int power = 0; power < 2; power++)
            for (size_t i = 0; i < m; i++)
                for (size_t k = 0; k < n; k++) {
                    double sum = 0;
                    for (size_t j = 0; j < m; j++)
                        sum += products[i][j] * (power == 0 ? x : once)[j * n + k];
                    (power == 0 ? once : twice)[i * n + k] = sum;
                }
        for (size_t i = 0; i < m * n; i++)
            x[i] = 3.4445 * x[i] - 4.7750 * once[i] + 2.0315 * twice[i];
    }
}

/* Writes the step of a matrix [m, n] to out: from its first moment before and after. */
static void direction_of(const double *before, const double *after, size_t m, size_t n, double *out) {
    for (size_t i = 0; i < m * n; i++)
        out[i] = 1.95 * after[i] - 0.95 * before[i];
    orthogonalize(m, n, out);
}

/* ---- A step ---- */

/* A step's state before and after, in double. */
typedef struct pair {
    icl_training_state before, after;
} pair;

static icl_status take_step(icl_trainer *trainer, pair *states, icl_error *error) {
    ICL_CHECK(icl_trainer_read_state(trainer, &states->before, error));
    ICL_CHECK(icl_trainer_run(trainer, 1, error));
    return icl_trainer_read_state(trainer, &states->after, error);
}

/*
 * The bound. The polynomial's slope is below 4 where singular values lie, so that five rounds multiply an error of
 * X, of norm 1, by 4^5 = 2^10 at most; each round makes one of its own, sums of at most 32 products of the size of X,
 * X X^T and (X X^T)^2, together below 2^7 units, of which the later ones are multiplied less: 2^18 units in all, of
 * which the moment's cancellation, 2^2 units, is a small part. Times 0.2 sqrt(max(m, n)) rate, and the parameter's own
 * two roundings.
 */
static size_t count_wrong(const icl_parameter_info *info, const pair *states, double rate, double unit) {
    const size_t m = info->shape[0], n = info->shape[1], at = info->offset;
    const double scale = 0.2 * sqrt((double)(m > n ? m : n));
    double step[MOST_ELEMENTS];
    size_t wrong = 0;

    direction_of(states->before.vectors[1] + at, states->after.vectors[1] + at, m, n, step);
    for (size_t i = 0; i < info->count; i++) {
        const double old = states->before.vectors[0][at + i], seen = states->after.vectors[0][at + i];
        const double expected = old - rate * (0.5 * old + scale * step[i]);
        wrong += !(fabs(seen - expected) <= unit * (0x1p18 * rate * scale + 4 * fabs(old)));
    }
    return wrong;
}

static void check_step(tap_run *tap, icl_trainer *trainer, const pair *states, double unit, size_t step) {
    const icl_model *model = icl_trainer_model(trainer);
    const double rate = icl_trainer_progress(trainer).learning_rate;
    size_t matrices = 0, tall = 0, wrong = 0;

    for (size_t k = 0; k < icl_model_parameter_count(model); k++) {
        const icl_parameter_info *info = icl_model_parameter(model, k);
        if (!info->is_hidden_matrix)
            continue;
        matrices++;
        tall += info->shape[0] > info->shape[1];
        wrong += count_wrong(info, states, rate, unit);
    }
    tap_ok(tap, wrong == 0 && tall > 0 && matrices > tall, "step %zu of %zu matrices, %zu of them tall: %zu are wrong",
           step, matrices, tall, wrong);
}

/* ---- Singular values ---- */

/* Returns what five rounds make of a singular value. */
static double grown(double s) {
    for (int round = 0; round < 5; round++)
        s = 3.4445 * s - 4.7750 * s * s * s + 2.0315 * s * s * s * s * s;
    return s;
}

/* The interval that five rounds map [0.003, 1] into. */
static void check_interval(tap_run *tap) {
    double least = 2, most = 0;

    for (int i = 0; i <= 1000000; i++) {
        const double s = grown(0.003 + 0.997 * i / 1e6);
        least = fmin(least, s);
        most = fmax(most, s);
    }
    tap_ok(tap, least > 0.68 && most < 1.21, "singular values from 0.003 to 1 end between %.4f and %.4f", least, most);
}

/* Returns X^T X v, v [n]. */
static void multiply_twice(const double *x, size_t m, size_t n, const double *v, double *out) {
    memset(out, 0, n * sizeof *out);
    for (size_t i = 0; i < m; i++) {
        double row = 0;
        for (size_t j = 0; j < n; j++)
            row += x[i * n + j] * v[j];
        for (size_t j = 0; j < n; j++)
            out[j] += row * x[i * n + j];
    }
}

/* Returns the largest singular value, by 200 rounds of power iteration: never more than it is. */
static double largest_singular_value(const double *x, size_t m, size_t n) {
    double v[MOST_ELEMENTS], next[MOST_ELEMENTS], length = 0;

    for (size_t j = 0; j < n; j++)
        v[j] = 1 + 0.1 * (double)j;
    for (int round = 0; round < 200; round++) {
        multiply_twice(x, m, n, v, next);
        length = 0;
        for (size_t j = 0; j < n; j++)
            length += next[j] * next[j];
        length = sqrt(length);
        for (size_t j = 0; j < n; j++)
            v[j] = next[j] / length;
    }
    return sqrt(length);
}

/* The largest singular value of the device's own update, (1 - rate decay) W - W' over rate times the factor: before the
 * five rounds it is at least 1 / sqrt(min(m, n)), far above 0.003, so that it ends in the interval above. */
static void check_singular_values(tap_run *tap, icl_trainer *trainer, const pair *states) {
    const icl_model *model = icl_trainer_model(trainer);
    const double rate = icl_trainer_progress(trainer).learning_rate;
    double least = 2, most = 0, update[MOST_ELEMENTS];

    for (size_t k = 0; k < icl_model_parameter_count(model); k++) {
        const icl_parameter_info *info = icl_model_parameter(model, k);
        const size_t m = info->shape[0], n = info->shape[1];
        if (!info->is_hidden_matrix)
            continue;
        for (size_t i = 0; i < info->count; i++) {
            const double old = states->before.vectors[0][info->offset + i];
            const double step = (1 - 0.5 * rate) * old - states->after.vectors[0][info->offset + i];
            update[i] = step / (rate * 0.2 * sqrt((double)(m > n ? m : n)));
        }
        const double value = largest_singular_value(update, m, n);
        least = fmin(least, value);
        most = fmax(most, value);
    }
    tap_ok(tap, least > 0.68 && most < 1.21, "the largest singular values of updates lie between %.4f and %.4f", least,
           most);
}

/* ---- Whole trainings ---- */

static icl_status begin(icl_backend *backend, icl_trainer **trainer, pair *states, icl_error *error) {
    ICL_CHECK(make_trainer(backend, muon, trainer, error));
    ICL_CHECK(icl_training_state_create(*trainer, &states->before, error));
    return icl_training_state_create(*trainer, &states->after, error);
}

static void check_steps(tap_run *tap, icl_backend *backend) {
    const double unit = icl_backend_capabilities(backend)->element_size == sizeof(float) ? 0x1p-24 : 0x1p-53;
    icl_trainer *trainer = NULL;
    pair states = {{0}, {0}};
    icl_error error = {0};
    icl_status status = begin(backend, &trainer, &states, &error);

    for (size_t step = 1; step <= 4 && status == ICL_OK; step++) {
        status = take_step(trainer, &states, &error);
        if (status == ICL_OK)
            check_step(tap, trainer, &states, unit, step);
    }
    if (tap_status(tap, status, &error, "four steps"))
        check_singular_values(tap, trainer, &states);
    icl_training_state_clear(&states.before);
    icl_training_state_clear(&states.after);
    icl_trainer_destroy(&trainer);
}

static icl_status parameters_after(icl_backend *backend, const char *const *settings, size_t steps, float *values,
                                   icl_trainer **trainer, icl_error *error) {
    ICL_CHECK(make_trainer(backend, settings, trainer, error));
    ICL_CHECK(icl_trainer_run(*trainer, steps, error));
    return icl_trainer_get_parameters(*trainer, values, error);
}

/* All else has the bits of Adam's first step, whose gradients are the same; hidden matrices do not. */
static void check_rest(tap_run *tap, icl_backend *backend) {
    static float by_muon[MAX_PARAMETERS * 4], by_adam[MAX_PARAMETERS * 4];
    icl_trainer *first = NULL, *second = NULL;
    size_t others = 0, wrong = 0, same = 0;
    icl_error error = {0};
    icl_status status = parameters_after(backend, muon, 1, by_muon, &first, &error);

    if (status == ICL_OK)
        status = parameters_after(backend, adam, 1, by_adam, &second, &error);
    if (tap_status(tap, status, &error, "a step of each")) {
        const icl_model *model = icl_trainer_model(first);
        for (size_t k = 0; k < icl_model_parameter_count(model); k++) {
            const icl_parameter_info *info = icl_model_parameter(model, k);
            for (size_t i = info->offset; i < info->offset + info->count; i++) {
                others += !info->is_hidden_matrix;
                wrong += !info->is_hidden_matrix && by_muon[i] != by_adam[i];
                same += info->is_hidden_matrix && by_muon[i] == by_adam[i];
            }
        }
        tap_ok(tap, others > 0 && wrong == 0 && same == 0,
               "%zu other parameters take Adam's step: %zu are wrong, and "
               "%zu of the matrices moved alike",
               others, wrong, same);
    }
    icl_trainer_destroy(&first);
    icl_trainer_destroy(&second);
}

static icl_status resume(icl_backend *backend, const char *path, float *values, icl_trainer **trainer,
                         icl_error *error) {
    ICL_CHECK(parameters_after(backend, muon, 2, values, trainer, error));
    ICL_CHECK(icl_trainer_save(*trainer, path, error));
    icl_trainer_destroy(trainer);
    ICL_CHECK(make_trainer(backend, muon, trainer, error));
    ICL_CHECK(icl_trainer_restore(*trainer, path, error));
    ICL_CHECK(icl_trainer_run(*trainer, 4, error));
    return icl_trainer_get_parameters(*trainer, values, error);
}

static void check_resumed(tap_run *tap, icl_backend *backend) {
    static float whole[MAX_PARAMETERS * 4], resumed[MAX_PARAMETERS * 4];
    icl_trainer *first = NULL, *second = NULL;
    icl_error error = {0};
    char path[64];

    snprintf(path, sizeof path, "test-muon-%ld.safetensors", (long)getpid());
    icl_status status = parameters_after(backend, muon, 6, whole, &first, &error);
    if (status == ICL_OK)
        status = resume(backend, path, resumed, &second, &error);
    (void)remove(path);
    if (tap_status(tap, status, &error, "save and restore"))
        tap_ok(tap, memcmp(whole, resumed, icl_model_size(icl_trainer_model(first)) * sizeof *whole) == 0,
               "a resumed training has the bits of one that was never stopped");
    icl_trainer_destroy(&first);
    icl_trainer_destroy(&second);
}

/* Makes the readout so large that the gradient overflows, and takes a step from there. */
static icl_status overflow(icl_trainer *trainer, pair *states, double huge, icl_error *error) {
    const icl_model *model = icl_trainer_model(trainer);

    ICL_CHECK(icl_trainer_run(trainer, 2, error));
    ICL_CHECK(icl_trainer_read_state(trainer, &states->before, error));
    for (size_t k = 0; k < icl_model_parameter_count(model); k++) {
        const icl_parameter_info *info = icl_model_parameter(model, k);
        for (size_t i = 0; strcmp(info->name, "readout.weight") == 0 && i < info->count; i++)
            states->before.vectors[0][info->offset + i] = huge;
    }
    ICL_CHECK(icl_trainer_write_state(trainer, &states->before, error));
    return take_step(trainer, states, error);
}

static void check_skipped(tap_run *tap, icl_backend *backend) {
    const double huge = icl_backend_capabilities(backend)->element_size == sizeof(float) ? 1e30 : 1e200;
    icl_trainer *trainer = NULL;
    pair states = {{0}, {0}};
    icl_error error = {0};
    icl_status status = begin(backend, &trainer, &states, &error);

    if (status == ICL_OK)
        status = overflow(trainer, &states, huge, &error);
    if (tap_status(tap, status, &error, "a gradient that overflows"))
        tap_ok(tap,
               icl_trainer_progress(trainer).skipped_steps == 1 &&
                   memcmp(states.before.vectors[0], states.after.vectors[0], states.before.size * sizeof(double)) == 0,
               "matrices do not move along their old momentum where the gradient overflows");
    icl_training_state_clear(&states.before);
    icl_training_state_clear(&states.after);
    icl_trainer_destroy(&trainer);
}

static void check_refusal(tap_run *tap, icl_backend *backend) {
    static const char *const linear[] = {"train.optimizer=muon", NULL};
    icl_trainer *trainer = NULL;
    icl_error error = {0};
    const icl_status status = make_trainer(backend, linear, &trainer, &error);

    tap_ok(tap,
           status == ICL_ERROR_INPUT &&
               strstr(error.message, "train.optimizer = muon: expected adam or sgd: this model marks no hidden"),
           "a model without hidden matrices: %s", error.message);
    icl_trainer_destroy(&trainer);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = argc > 1 ? tap_open_device(&tap, argv[1]) : NULL;

    if (backend) {
        check_interval(&tap);
        check_steps(&tap, backend);
        check_rest(&tap, backend);
        check_resumed(&tap, backend);
        check_skipped(&tap, backend);
        check_refusal(&tap, backend);
        icl_backend_close(&backend);
    }
    return tap_done(&tap);
}
