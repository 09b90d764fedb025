/* Tests layers taken apart against the model itself: implicit weight vectors predict as the model does, for every
 * parameterization; an embedded model predicts the same; and an ablation removes exactly the term that it names. */
#include "probe/linear_layers.h"

#include <math.h>

#include "core/allocate.h"
#include "iclab/recipe.h"
#include "iclab/train.h"
#include "tap.h"

enum { D = 4, N = 7, LAYERS = 3, BATCH = 16, WIDTH = D + 1 };

typedef struct fixture {
    icl_backend *backend;
    icl_recipe *recipe;
    icl_trainer *trainer;
    icl_batch batch;
    icl_linear_layers *layers;
    float *values;
    float tokens[BATCH * (N + 1) * WIDTH], predictions[BATCH];
} fixture;

static icl_status override(icl_recipe *recipe, const char *parameterization, const char *scale, const char *heads,
                           icl_error *error) {
    const char *const settings[] = {"task.d=4",           "task.n=7",      "model.layers=3",
                                    "model.init_std=0.1", "train.batch=1", "eval.every=0",
                                    parameterization,     scale,           heads};
    icl_status status = ICL_OK;

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        ICL_TRY(icl_recipe_override(recipe, settings[i], error));
done:
    return status;
}

static icl_status open_fixture(fixture *f, const char *parameterization, const char *scale, const char *heads,
                               icl_error *error) {
    const icl_backend_params params = {.spec = "ref"};
    icl_status status = ICL_OK;

    ICL_TRY(icl_backend_open(&params, &f->backend, error));
    ICL_TRY(icl_recipe_create_complete(&f->recipe, error));
    ICL_TRY(override(f->recipe, parameterization, scale, heads, error));
    ICL_TRY(icl_trainer_create(f->backend, f->recipe, &f->trainer, error));
    const icl_task *task = icl_trainer_task(f->trainer);
    const icl_model *model = icl_trainer_model(f->trainer);
    ICL_TRY(icl_batch_create(task, f->backend, ICL_FOR_EVALUATION, BATCH, &f->batch, error));
    ICL_TRY(icl_task_sample(task, f->backend, ICL_FOR_EVALUATION, 3, 0, &f->batch, error));
    ICL_TRY(icl_tensor_read(f->batch.inputs, f->tokens, error));
    ICL_TRY(icl_trainer_predict(f->trainer, &f->batch, f->predictions, error));
    ICL_TRY(icl_allocate(icl_model_size(model), sizeof *f->values, "parameters", &f->values, error));
    ICL_TRY(icl_trainer_get_parameters(f->trainer, f->values, error));
    ICL_TRY(icl_linear_layers_create(model, D, N, f->values, &f->layers, error));
done:
    return status;
}

static void close_fixture(fixture *f) {
    icl_linear_layers_destroy(&f->layers);
    icl_free(&f->values);
    icl_batch_release(&f->batch);
    icl_trainer_destroy(&f->trainer);
    icl_recipe_destroy(&f->recipe);
    icl_backend_close(&f->backend);
}

static double predict(const double *weights, const float *tokens) {
    double sum = 0;
    for (size_t i = 0; i < D; i++)
        sum += weights[i] * (double)tokens[(size_t)N * WIDTH + i];
    return sum;
}

static void test_form(tap_run *tap, const char *parameterization, const char *scale, const char *heads) {
    fixture f = {0};
    icl_error error = {0};
    double worst = 0, weights[LAYERS * D];

    if (tap_status(tap, open_fixture(&f, parameterization, scale, heads, &error), &error, parameterization)) {
        for (size_t i = 0; i < BATCH; i++) {
            const float *tokens = f.tokens + i * (N + 1) * WIDTH;
            icl_linear_layers_weights(f.layers, tokens, NULL, weights);
            const double prediction = predict(weights + (LAYERS - 1) * D, tokens);
            /* Read back as a float. */
            worst = fmax(worst, fabs(prediction - (double)f.predictions[i]) / (1 + fabs(prediction)));
        }
        tap_ok(tap, worst < 2e-7, "%s, %s, %s: <w, x> is the prediction, to %.2g", parameterization, scale, heads,
               worst);
    }
    close_fixture(&f);
}

/* Tests one diagonal layer: w_xx, w_xy, w_yx and w_yy are products of its four numbers, and only w_yx moves a fresh
 * query. */
static void test_terms(tap_run *tap) {
    fixture f = {0};
    icl_error error = {0};
    double terms[ICL_LINEAR_TERMS], whole[LAYERS * D], without[LAYERS * D];

    if (tap_status(tap, open_fixture(&f, "model.parameterization=diag", "model.scale=raw", "model.heads=1", &error),
                   &error, "a diagonal model")) {
        const double p_x = (double)f.values[0], p_y = (double)f.values[1], q_x = (double)f.values[2],
                     q_y = (double)f.values[3];
        const double expected[ICL_LINEAR_TERMS] = {p_x * q_x, p_x * q_y, p_y * q_x, p_y * q_y};
        bool right = true;
        icl_linear_layers_terms(f.layers, 0, terms);
        for (int t = 0; t < ICL_LINEAR_TERMS; t++)
            right = right && fabs(terms[t] - N * expected[t]) < 1e-12;
        tap_ok(tap, right, "n times the products of its entries");
        icl_linear_layers_weights(f.layers, f.tokens, NULL, whole);
        for (int t = 0; t < ICL_LINEAR_TERMS; t++) {
            const icl_linear_ablation ablation = {.layer = 0, .terms = 1U << t};
            bool is_zero = true, is_same = true;
            icl_linear_layers_weights(f.layers, f.tokens, &ablation, without);
            for (size_t i = 0; i < D; i++) {
                is_zero = is_zero && without[i] == 0;
                is_same = is_same && without[i] == whole[i];
            }
            tap_ok(tap, t == ICL_TERM_YX ? is_zero && !is_same : is_same, "the first layer without %s: %s",
                   icl_linear_term_name((icl_linear_term)t), t == ICL_TERM_YX ? "predicts zero" : "predicts the same");
        }
    }
    close_fixture(&f);
}

/* ---- Patterns ---- */

/* Writes a layer's P and Q, [WIDTH][WIDTH] each, of a full model with one head. */
static void set_layer(fixture *f, size_t layer, const double *p, const double *q) {
    float *at = f->values + layer * 2 * WIDTH * WIDTH;

    for (size_t i = 0; i < (size_t)WIDTH * WIDTH; i++) {
        at[i] = (float)p[i];
        at[WIDTH * WIDTH + i] = (float)q[i];
    }
}

static icl_status take_apart(fixture *f, icl_error *error) {
    icl_linear_layers_destroy(&f->layers);
    return icl_linear_layers_create(icl_trainer_model(f->trainer), D, N, f->values, &f->layers, error);
}

/* Fills P = [B 0; 0 corner] and Q = [A 0; 0 q_y]: b and a on the diagonals of B and A, and `off` times these in one
 * place off each diagonal. */
static void fill(double *p, double *q, double b, double corner, double a, double q_y, double off) {
    memset(p, 0, WIDTH * WIDTH * sizeof *p);
    memset(q, 0, WIDTH * WIDTH * sizeof *q);
    for (size_t i = 0; i < D; i++) {
        p[i * WIDTH + i] = b;
        q[i * WIDTH + i] = a;
    }
    p[1] = b * off;
    q[1] = a * off;
    p[WIDTH * WIDTH - 1] = corner;
    q[WIDTH * WIDTH - 1] = q_y;
}

static void check_patterns(tap_run *tap, fixture *f, size_t layer, const char *name,
                           const icl_linear_patterns *expected) {
    icl_error error = {0};

    if (!tap_status(tap, take_apart(f, &error), &error, name))
        return;
    const icl_linear_patterns is = icl_linear_layers_patterns(f->layers, layer);
    tap_ok(tap,
           fabs(is.diagonal - expected->diagonal) < 1e-6 && fabs(is.gdpp - expected->gdpp) < 1e-6 &&
               fabs(is.descent - expected->descent) < 1e-6 && fabs(is.sparse - expected->sparse) < 1e-6 &&
               fabs(is.sparse_b - expected->sparse_b) < 1e-6,
           "%s, layer %zu: distances %.4f %.4f %.4f %.4f %.4f from diagonal, GD++, GD, sparse, sparse-b", name,
           layer + 1, is.diagonal, is.gdpp, is.descent, is.sparse, is.sparse_b);
}

/* Checks distances against their definition: sqrt(1 - the share of |P|^2 |Q|^2 that belongs to the pattern). */
static void test_patterns(tap_run *tap) {
    fixture f = {0};
    icl_error error = {0};
    double p[WIDTH * WIDTH], q[WIDTH * WIDTH];

    if (tap_status(tap, open_fixture(&f, "model.parameterization=full", "model.scale=mean", "model.heads=1", &error),
                   &error, "a full model")) {
        fill(p, q, 0, -3, 1, 0, 0);
        set_layer(&f, 0, p, q);
        check_patterns(tap, &f, 0, "gradient descent", &(icl_linear_patterns){0});
        /* |P|^2 = d b^2 + c^2 with b = .5 and c = 3, of which c^2 belongs to a step. */
        fill(p, q, .5, -3, 1, 0, 0);
        set_layer(&f, 0, p, q);
        set_layer(&f, LAYERS - 1, p, q);
        const double gd = sqrt(1 - 9 / (9 + D * .25));
        check_patterns(tap, &f, 0, "GD++", &(icl_linear_patterns){.descent = gd, .sparse = gd});
        check_patterns(tap, &f, LAYERS - 1, "GD++, whose last layer is a step", &(icl_linear_patterns){0});
        /* With one entry off the diagonal of A, |Q|^2 = d + 1/4. */
        fill(p, q, 0, -3, 1, 0, .5);
        set_layer(&f, 0, p, q);
        const double off = sqrt(1 - D / (D + .25));
        check_patterns(tap, &f, 0, "preconditioned descent", &(icl_linear_patterns){off, off, off, 0, 0});
        /* With a label's entry q_y = 2 in Q, |Q|^2 = d + 4; and P = (0, c). */
        fill(p, q, 0, -3, 1, 2, 0);
        set_layer(&f, 0, p, q);
        const double label = sqrt(1 - D / (D + 4.0));
        check_patterns(tap, &f, 0, "rescaling", &(icl_linear_patterns){0, label, label, label, label});
    }
    close_fixture(&f);
}

/* (P, Q) and (-3 P, -Q / 3) are the same layer, so all its measures are equal. */
static void test_scale_freedom(tap_run *tap) {
    fixture f = {0};
    icl_error error = {0};
    double before[2 * WIDTH * WIDTH], worst = 0, trace = 0;

    if (tap_status(tap, open_fixture(&f, "model.parameterization=full", "model.scale=mean", "model.heads=1", &error),
                   &error, "a full model")) {
        for (int part = 0; part < 2; part++)
            memcpy(before + part * WIDTH * WIDTH, icl_linear_layers_matrix(f.layers, 1, 0, (icl_model_part)part),
                   WIDTH * WIDTH * sizeof(double));
        for (size_t i = 0; i < (size_t)WIDTH * WIDTH; i++) {
            f.values[2 * WIDTH * WIDTH + i] *= -3;
            f.values[3 * WIDTH * WIDTH + i] /= -3;
        }
        tap_status(tap, take_apart(&f, &error), &error, "scaled");
        for (int part = 0; part < 2; part++)
            for (size_t i = 0; i < (size_t)WIDTH * WIDTH; i++)
                worst = fmax(worst, fabs(before[(size_t)part * WIDTH * WIDTH + i] -
                                         icl_linear_layers_matrix(f.layers, 1, 0, (icl_model_part)part)[i]));
        for (size_t i = 0; i < D; i++)
            trace += before[WIDTH * WIDTH + i * (WIDTH + 1)];
        tap_ok(tap, worst < 1e-6, "P and Q do not depend on the scale, to %.1e", worst);
        tap_ok(tap, trace >= 0, "the trace of Q's block of x is not negative: %.3f", trace);
    }
    close_fixture(&f);
}

/* ---- Other ablations ---- */

/* Replaces the layer's matrices by their mean diagonals. */
static void make_scalar(fixture *f, size_t layer) {
    for (size_t part = 0; part < 2; part++) {
        float *at = f->values + (layer * 2 + part) * WIDTH * WIDTH;
        const float last = at[WIDTH * WIDTH - 1];
        double mean = 0;
        for (size_t i = 0; i < D; i++)
            mean += (double)at[i * (WIDTH + 1)] / D;
        memset(at, 0, WIDTH * WIDTH * sizeof *at);
        for (size_t i = 0; i < D; i++)
            at[i * (WIDTH + 1)] = (float)mean;
        at[WIDTH * WIDTH - 1] = last;
    }
}

static double apart(const double *a, const double *b, size_t count) {
    double worst = 0;
    for (size_t i = 0; i < count; i++)
        worst = fmax(worst, fabs(a[i] - b[i]));
    return worst;
}

/* Compares ablations with models whose parameters lack the ablated terms. */
static void test_ablations(tap_run *tap) {
    const icl_linear_ablation scalars = {.layer = 1, .beyond_scalars = true},
                              every = {.layer = ICL_EVERY_LAYER, .beyond_scalars = true},
                              nothing = {.layer = 1, .terms = ICL_EVERY_TERM};
    double ablated[3][LAYERS * D], direct[LAYERS * D];
    fixture f = {0};
    icl_error error = {0};

    if (tap_status(tap, open_fixture(&f, "model.parameterization=full", "model.scale=mean", "model.heads=1", &error),
                   &error, "a full model")) {
        icl_linear_layers_weights(f.layers, f.tokens, &scalars, ablated[0]);
        icl_linear_layers_weights(f.layers, f.tokens, &every, ablated[1]);
        icl_linear_layers_weights(f.layers, f.tokens, &nothing, ablated[2]);
        make_scalar(&f, 1);
        tap_status(tap, take_apart(&f, &error), &error, "layer 2 with its four numbers");
        icl_linear_layers_weights(f.layers, f.tokens, NULL, direct);
        tap_ok(tap, apart(ablated[0], direct, sizeof direct / sizeof *direct) < 1e-6,
               "what is beyond the four numbers of one layer");
        make_scalar(&f, 0);
        make_scalar(&f, 2);
        tap_status(tap, take_apart(&f, &error), &error, "all layers with their four numbers");
        icl_linear_layers_weights(f.layers, f.tokens, NULL, direct);
        tap_ok(tap, apart(ablated[1], direct, sizeof direct / sizeof *direct) < 1e-6,
               "what is beyond the four numbers of every layer");
        tap_ok(tap, apart(ablated[2], ablated[2] + D, D) == 0 && apart(ablated[2], ablated[2] + 2 * D, D) > 0,
               "a layer without its terms leaves the prediction of the one before");
    }
    close_fixture(&f);
}

/* Tests each term's change of the context in the first layer, token by token, and A of its step. */
static void test_changes(tap_run *tap) {
    double changes[LAYERS * ICL_LINEAR_TERMS], step[D * D], gram[WIDTH * WIDTH] = {0};
    double moved[ICL_LINEAR_TERMS] = {0}, before[2] = {0}, worst = 0, terms[ICL_LINEAR_TERMS];
    fixture f = {0};
    icl_error error = {0};

    if (tap_status(tap, open_fixture(&f, "model.parameterization=diag", "model.scale=mean", "model.heads=1", &error),
                   &error, "a diagonal model")) {
        icl_linear_layers_changes(f.layers, f.tokens, changes);
        icl_linear_layers_terms(f.layers, 0, terms);
        icl_linear_layers_step(f.layers, 0, step);
        for (size_t i = 0; i < N; i++)
            for (size_t a = 0; a < WIDTH; a++)
                for (size_t b = 0; b < WIDTH; b++)
                    gram[a * WIDTH + b] += (double)f.tokens[i * WIDTH + a] * (double)f.tokens[i * WIDTH + b];
        for (size_t i = 0; i < N; i++)
            for (size_t a = 0; a < WIDTH; a++) {
                const float *token = f.tokens + i * WIDTH;
                const int row = a < D ? 0 : 2;
                double by_x = 0;
                for (size_t b = 0; b < D; b++)
                    by_x += gram[a * WIDTH + b] * (double)token[b];
                const double by_y = gram[a * WIDTH + D] * (double)token[D];
                moved[row] += terms[row] * terms[row] / (N * N) * by_x * by_x;
                moved[row + 1] += terms[row + 1] * terms[row + 1] / (N * N) * by_y * by_y;
                before[a == D] += (double)token[a] * (double)token[a];
            }
        for (int t = 0; t < ICL_LINEAR_TERMS; t++)
            worst = fmax(worst, fabs(changes[t] / sqrt(moved[t] / before[t / 2]) - 1));
        tap_ok(tap, worst < 1e-9, "terms move the context by what they add to each token, to %.1e", worst);
        worst = 0;
        for (size_t i = 0; i < (size_t)D * D; i++)
            worst = fmax(worst, fabs(step[i] - (i % (D + 1) == 0 ? terms[ICL_TERM_YX] : 0)));
        tap_ok(tap, worst < 1e-12, "A of a diagonal layer is w_yx I");
    }
    close_fixture(&f);
}

/* Tests the momentum of the first layer against its definition: the gradient behind the layer, of tokens that it
 * changed one by one, is that of the new residuals and the momentum's part of the old one. */
static void test_momentum(tap_run *tap) {
    double momentum[LAYERS], terms[ICL_LINEAR_TERMS], gram[D * D] = {0}, old[D] = {0}, new[D] = {0}, residuals[D] = {0};
    double square = 0, moved = 0, worst = 0;
    fixture f = {0};
    icl_error error = {0};

    if (tap_status(tap, open_fixture(&f, "model.parameterization=diag", "model.scale=mean", "model.heads=1", &error),
                   &error, "a diagonal model")) {
        icl_linear_layers_momentum(f.layers, f.tokens, momentum);
        icl_linear_layers_terms(f.layers, 0, terms);
        for (size_t i = 0; i < N; i++)
            for (size_t a = 0; a < D; a++) {
                const float *token = f.tokens + i * WIDTH;
                old[a] += (double)token[D] * (double)token[a];
                square += a == 0 ? (double)token[D] * (double)token[D] : 0;
                for (size_t b = 0; b < D; b++)
                    gram[a * D + b] += (double)token[a] * (double)token[b];
            }
        for (size_t i = 0; i < N; i++) {
            const float *token = f.tokens + i * WIDTH;
            const double y = (double)token[D];
            double after = y * (1 + terms[ICL_TERM_YY] / N * square);
            for (size_t a = 0; a < D; a++)
                after += terms[ICL_TERM_YX] / N * old[a] * (double)token[a];
            for (size_t a = 0; a < D; a++) {
                double x = (double)token[a] + terms[ICL_TERM_XY] / N * y * old[a];
                for (size_t b = 0; b < D; b++)
                    x += terms[ICL_TERM_XX] / N * gram[a * D + b] * (double)token[b];
                new[a] += after *x;
                residuals[a] += after * (double)token[a];
            }
        }
        for (size_t a = 0; a < D; a++) {
            double expected = residuals[a];
            for (size_t b = 0; b < D; b++)
                expected += terms[ICL_TERM_XX] / N * gram[a * D + b] * residuals[b];
            moved = fmax(moved, fabs(momentum[0] * old[a]));
            worst = fmax(worst, fabs(new[a] - expected - momentum[0] * old[a]));
        }
        tap_ok(tap, worst < 1e-9 * moved, "the momentum's part of the next gradient, to %.1e of %.1e", worst, moved);
        tap_ok(tap, momentum[1] != 0 && momentum[LAYERS - 1] == 0, "the last layer has none");
    }
    close_fixture(&f);
}

/* Tests a full model with the parameters of another form, and one with a further layer that changes nothing. */
static void test_embedding(tap_run *tap, const char *parameterization) {
    fixture f = {0};
    icl_recipe *recipe = NULL;
    icl_trainer *full = NULL;
    float *values = NULL, predictions[BATCH] = {0};
    icl_error error = {0};
    double worst = 0;
    icl_status status = open_fixture(&f, parameterization, "model.scale=mean", "model.heads=1", &error);

    if (status == ICL_OK)
        status = icl_recipe_clone(f.recipe, &recipe, &error);
    if (status == ICL_OK)
        status = icl_recipe_override(recipe, "model.parameterization=full", &error);
    if (status == ICL_OK)
        status = icl_trainer_create(f.backend, recipe, &full, &error);
    if (status == ICL_OK)
        status = icl_allocate(icl_model_size(icl_trainer_model(full)), sizeof *values, "parameters", &values, &error);
    if (status == ICL_OK)
        status = icl_model_embed(icl_trainer_model(f.trainer), f.values, icl_trainer_model(full), values, &error);
    if (status == ICL_OK)
        status = icl_trainer_set_parameters(full, values, &error);
    if (status == ICL_OK)
        status = icl_trainer_predict(full, &f.batch, predictions, &error);
    if (tap_status(tap, status, &error, "an embedded model")) {
        for (size_t i = 0; i < BATCH; i++)
            worst = fmax(worst, fabs((double)predictions[i] - (double)f.predictions[i]) /
                                    (1 + fabs((double)f.predictions[i])));
        tap_ok(tap, worst < 2e-7, "%s as full predicts the same, to %.2g", parameterization, worst);
        tap_ok(tap,
               icl_model_embed(icl_trainer_model(full), values, icl_trainer_model(f.trainer), f.values, &error) ==
                   ICL_ERROR_INPUT,
               "the other way round is refused: %s", error.message);
    }
    icl_free(&values);
    icl_trainer_destroy(&full);
    icl_recipe_destroy(&recipe);
    close_fixture(&f);
}

int main(void) {
    static const char *const parameterizations[] = {"model.parameterization=full", "model.parameterization=diag",
                                                    "model.parameterization=gd++", "model.parameterization=sparse",
                                                    "model.parameterization=sparse-b"};
    tap_run tap = {0};

    for (size_t i = 0; i < sizeof parameterizations / sizeof *parameterizations; i++) {
        test_form(&tap, parameterizations[i], "model.scale=mean", "model.heads=1");
        test_form(&tap, parameterizations[i], "model.scale=raw", "model.heads=2");
    }
    test_terms(&tap);
    test_patterns(&tap);
    test_scale_freedom(&tap);
    test_ablations(&tap);
    test_changes(&tap);
    test_momentum(&tap);
    for (size_t i = 1; i < sizeof parameterizations / sizeof *parameterizations; i++)
        test_embedding(&tap, parameterizations[i]);
    return tap_done(&tap);
}
