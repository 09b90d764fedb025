/*
 * Diagonal models with known weights have known losses: the optima for sigma in {1, 3}, d = 10, n = 20,
 * found by direct minimisation of the expected loss in an independent program, on 200,000 sequences. Here
 * they are only evaluated: half the mean squared distance to the oracle must be theirs within 1 %, give or
 * take three standard errors of our own estimate (2.4 million sequences gave .2007 +- .0003 and .0974 +-
 * .0002).
 */
#include "distance.h"

enum { LAYERS = 3 };

/* n times (w_xx, w_xy, w_yx, w_yy), where w_ab = p_a q_b in
 *     x <- x + w_xx Sigma x + w_xy y alpha,     y <- y + w_yx <alpha, x> + w_yy lambda y. */
static const struct {
    const char *layers;
    size_t count;
    double loss;
    float weights[LAYERS][4];
} known[] = {
    {"model.layers=2", 2, 0.2015, {{-.326F, -.0048F, -.456F, -.0067F}, {-.346F, -.0029F, -2.358F, -.0200F}}},
    {"model.layers=3",
     3,
     0.0982,
     {{-.282F, -.0063F, -.339F, -.0075F}, {-.697F, -.0541F, -.293F, -.0227F}, {-2.288F, .0205F, -5.974F, .0536F}}},
};

/* One head has P = diag(p_x, p_y), Q = diag(q_x, q_y), so only products of rank one. Two heads take the
 * four printed numbers as they are: the first has q = (1, 0), the second q = (0, 1). */
static void set_weights(const icl_model *model, size_t layers, const float weights[LAYERS][4], float *values) {
    for (size_t layer = 0; layer < layers; layer++)
        for (size_t head = 0; head < 2; head++) {
            const icl_parameter_info *p = icl_model_parameter(model, 4 * layer + 2 * head);
            const icl_parameter_info *q = icl_model_parameter(model, 4 * layer + 2 * head + 1);
            values[p->offset] = weights[layer][head];         /* p_x: w_xx or w_xy */
            values[p->offset + 1] = weights[layer][2 + head]; /* p_y: w_yx or w_yy */
            values[q->offset] = head == 0 ? 1.0F : 0.0F;
            values[q->offset + 1] = head == 0 ? 0.0F : 1.0F;
        }
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu");

    if (!backend)
        return tap_done(&tap);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *const overrides[] = {"task.d=10",
                                         "task.n=20",
                                         "task.noise=choice:1,3",
                                         "model.parameterization=diag",
                                         "model.heads=2",
                                         "model.scale=mean",
                                         "train.batch=1",
                                         known[i].layers,
                                         NULL};
        icl_trainer *trainer = NULL;
        float values[MAX_PARAMETERS] = {0};
        double mean = 0.0, standard_error = 0.0;
        icl_error error = {0};
        icl_status status = make_trainer(backend, overrides, &trainer, &error);

        if (status == ICL_OK) {
            set_weights(icl_trainer_model(trainer), known[i].count, known[i].weights, values);
            status = icl_trainer_set_parameters(trainer, values, &error);
        }
        if (status == ICL_OK)
            status = distance_to_oracle(backend, trainer, 200000, &mean, &standard_error, &error);
        if (status != ICL_OK)
            tap_note("%s", error.message);
        tap_ok(&tap, status == ICL_OK && fabs(mean - known[i].loss) < 0.01 * known[i].loss + 3.0 * standard_error,
               "%s: adjusted loss %.5f +- %.5f, expected %.4f", known[i].layers, mean, standard_error, known[i].loss);
        icl_trainer_destroy(&trainer);
    }
    icl_backend_close(&backend);
    return tap_done(&tap);
}
