/*
 * A trained layer reaches its optimum, which is known in closed form.
 *
 * For x ~ N(0, I_d), w ~ N(0, I_d) and s = E[sigma^2] the best one-layer predictor is g <alpha, x_t> with alpha = sum_i
 * y_i x_i and g = 1 / (n + d + 1 + s); its mean squared error is d (d + 1 + s) / (n + d + 1 + s). The adjusted loss is
 * half of that less the oracle's error.
 *
 * The trained model's error is estimated as that optimum plus the mean difference of its squared error and the
 * optimum's on the same sequences, which varies far less than either. It may be off by 1 % of the adjusted loss.
 */
#include "fixture.h"

enum { D = 10, N = 20, BATCH = 2048, BATCHES = 20 };

static const struct {
    const char *noise;
    double mean_square; /* E[sigma^2] */
    double oracle;      /* loss of ridge with sigma known; simulated in double, 200,000 sequences */
} noises[] = {
    {"task.noise=fixed:0", 0.0, 0.0},
    {"task.noise=uniform:2", 4.0 / 3.0, 1.0173},
    {"task.noise=uniform:5", 25.0 / 3.0, 3.126},
    {"task.noise=choice:1,3", 5.0, 2.4417},
};

/* Sets the optimum in each parameterization's own parameters, in units of the 1/n scaling. */
static void optimal_parameters(const icl_model *model, double mean_square, float *values) {
    const double step = -(double)N / (N + D + 1 + mean_square);

    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        const char part = info->name[strlen(info->name) - 1];
        float *value = values + info->offset;
        memset(value, 0, info->count * sizeof *value);
        if (part == 'P')
            value[info->count - 1] = 1.0F; /* the label's entry, of a vector or a matrix */
        else if (part != 'B' && info->rank == 1)
            value[0] = (float)step;
        else if (part != 'B')
            for (size_t j = 0; j < D; j++)
                value[j * info->shape[1] + j] = (float)step;
    }
}

typedef struct moments {
    double sum, square;
    size_t count;
} moments;

static void add(moments *m, double value) {
    m->sum += value;
    m->square += value * value;
    m->count++;
}

static double mean_of(const moments *m) {
    return m->sum / (double)m->count;
}

static double error_of(const moments *m) {
    return sqrt((m->square / (double)m->count - mean_of(m) * mean_of(m)) / (double)m->count);
}

/* Measures squared errors of the optimum on evaluation data, and how much larger those of the trained parameters
 * are. */
static icl_status compare(icl_backend *backend, icl_trainer *trainer, const float *trained, const float *optimal,
                          moments *optimum, moments *excess, icl_error *error) {
    const icl_task *task = icl_trainer_task(trainer);
    icl_batch batch = {{0}};
    float seen[BATCH], best[BATCH], targets[BATCH];
    icl_status status = ICL_OK;

    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_EVALUATION, BATCH, &batch, error));
    for (uint64_t step = 0; step < BATCHES; step++) {
        ICL_TRY(icl_task_sample(task, backend, ICL_FOR_EVALUATION, 1, step, &batch, error));
        ICL_TRY(icl_tensor_read(batch.targets, targets, error));
        ICL_TRY(icl_trainer_set_parameters(trainer, trained, error));
        ICL_TRY(icl_trainer_predict(trainer, &batch, seen, error));
        ICL_TRY(icl_trainer_set_parameters(trainer, optimal, error));
        ICL_TRY(icl_trainer_predict(trainer, &batch, best, error));
        for (int b = 0; b < BATCH; b++) {
            const double of_best = pow((double)best[b] - (double)targets[b], 2);
            add(optimum, of_best);
            add(excess, pow((double)seen[b] - (double)targets[b], 2) - of_best);
        }
    }
done:
    icl_batch_release(&batch);
    return status;
}

static void check(tap_run *tap, icl_backend *backend, const char *parameterization, const char *steps, int noise) {
    const double s = noises[noise].mean_square, exact = D * (D + 1 + s) / (N + D + 1 + s);
    const double adjusted = 0.5 * (exact - noises[noise].oracle);
    char key[64];
    const char *const overrides[] = {"task.d=10",
                                     "task.n=20",
                                     "model.layers=1",
                                     "model.init_std=0.01",
                                     "train.batch=512",
                                     steps,
                                     "train.warmup=50",
                                     "train.learning_rate=0.02",
                                     "train.clip=0",
                                     noises[noise].noise,
                                     key,
                                     NULL};
    float trained[MAX_PARAMETERS], optimal[MAX_PARAMETERS];
    moments optimum = {0}, excess = {0};
    icl_trainer *trainer = NULL;
    icl_error error = {0};
    icl_status status = ICL_OK;

    snprintf(key, sizeof key, "model.parameterization=%s", parameterization);
    ICL_TRY(make_trainer(backend, overrides, &trainer, &error));
    ICL_TRY(icl_trainer_run(trainer, 100000, &error));
    ICL_TRY(icl_trainer_get_parameters(trainer, trained, &error));
    optimal_parameters(icl_trainer_model(trainer), s, optimal);
    ICL_TRY(compare(backend, trainer, trained, optimal, &optimum, &excess, &error));
    tap_ok(tap, fabs(mean_of(&optimum) - exact) < 4.0 * error_of(&optimum),
           "%s, %s: error of the optimum %.4f +- %.4f, exactly %.4f", parameterization, noises[noise].noise,
           mean_of(&optimum), error_of(&optimum), exact);
    tap_ok(tap, fabs(0.5 * mean_of(&excess)) + error_of(&excess) < 0.01 * adjusted,
           "%s, %s: adjusted loss %.4f + %.5f +- %.5f", parameterization, noises[noise].noise, adjusted,
           0.5 * mean_of(&excess), 0.5 * error_of(&excess));
done:
    if (status != ICL_OK)
        tap_status(tap, status, &error, parameterization);
    icl_trainer_destroy(&trainer);
}

int main(int argc, char **argv) {
    /* A handful of parameters converges faster than a hundred. A parameterization meets the noise only in its data: one
     * of them is run with every noise, the others with two. */
    static const struct {
        const char *parameterization, *steps;
        int noises[4], count;
    } runs[] = {{"full", "train.steps=1000", {0, 2}, 2},
                {"diag", "train.steps=300", {0, 1, 2, 3}, 4},
                {"gd++", "train.steps=300", {1, 3}, 2},
                {"sparse", "train.steps=1000", {0, 3}, 2},
                {"sparse-b", "train.steps=1000", {1, 2}, 2}};
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu");

    if (!backend)
        return tap_done(&tap);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        for (int k = 0; k < runs[i].count; k++)
            check(&tap, backend, runs[i].parameterization, runs[i].steps, runs[i].noises[k]);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
