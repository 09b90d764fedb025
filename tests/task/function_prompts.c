/*
 * Function classes: shifts of the inputs and curricula that keep to the formulas of src/task/function_classes/, by
 * exact properties and by moments within five standard errors.
 */
#include "function_classes.h"

/* ---- Shifts ---- */

/* Numbers whose size differs from the plain one's, or whose sign is not that of their sequence's orthant: at the probe
 * the plain one's with 0, otherwise that times this. */
static size_t count_wrong_signs(const drawn *plain, const drawn *shifted, size_t probe, int probe_sign) {
    size_t wrong = 0;

    for (size_t s = 0; s < plain->count; s++)
        for (size_t i = 0; i < POINTS; i++)
            for (size_t j = 0; j < D; j++) {
                const float before = token(plain, s, i)[j], after = token(shifted, s, i)[j];
                const bool same_side = (after > 0) == (token(shifted, s, i == 0 ? 1 : 0)[j] > 0);
                wrong += fabsf(before) != fabsf(after);
                wrong += i != probe ? !same_side : probe_sign == 0 ? before != after : same_side != (probe_sign > 0);
            }
    return wrong;
}

static icl_status check_orthants(tap_run *tap, icl_backend *backend, icl_error *error) {
    drawn plain = {0}, shifted = {0};
    icl_status status = ICL_OK;

    ICL_TRY(draw("task.noise=0", backend, &plain, error));
    ICL_TRY(draw("task.noise=0 task.orthant=true", backend, &shifted, error));
    tap_ok(tap, count_wrong_signs(&plain, &shifted, POINTS, 0) == 0, "orthant: all inputs in one, of the same sizes");
    ICL_TRY(draw("task.noise=0 task.orthant=true task.probe=anywhere task.probe_at=3", backend, &shifted, error));
    tap_ok(tap, count_wrong_signs(&plain, &shifted, 3, 0) == 0, "anywhere: x_3 alone is as it was");
    ICL_TRY(draw("task.noise=0 task.orthant=true task.probe=opposite", backend, &shifted, error));
    tap_ok(tap, count_wrong_signs(&plain, &shifted, N, -1) == 0, "opposite: x_n alone in the opposite orthant");
done:
    release(&plain);
    release(&shifted);
    return status;
}

static icl_status check_probes(tap_run *tap, icl_backend *backend, icl_error *error) {
    enum { AT = 3 };
    drawn plain = {0}, orthogonal = {0}, repeated = {0};
    statistic chosen[AT] = {{0}};
    size_t wrong = 0, others = 0;
    double worst = 0;
    icl_status status = ICL_OK;

    ICL_TRY(draw("task.noise=0", backend, &plain, error));
    ICL_TRY(draw("task.noise=0 task.probe=orthogonal task.probe_at=3 task.input_scale=2", backend, &orthogonal, error));
    ICL_TRY(draw("task.noise=0 task.probe=repeated task.probe_at=3", backend, &repeated, error));
    for (size_t s = 0; s < plain.count; s++) {
        const float *probe = token(&orthogonal, s, AT), *twin = token(&repeated, s, AT);
        size_t matches = 0;
        wrong += fabs(sqrt(dot(probe, probe)) - 4) > 1e-5; /* 2 sqrt(d) */
        for (size_t i = 0; i < POINTS; i++) {
            const float *before = token(&plain, s, i);
            if (i < AT) {
                wrong += fabs(dot(probe, token(&orthogonal, s, i))) > 1e-5 * sqrt(dot(before, before));
                add(&chosen[i], same_input(twin, before));
                matches += same_input(twin, before);
            }
            others += i != AT && !same_input(before, token(&repeated, s, i));
            others += i != AT && token(&orthogonal, s, i)[0] != 2 * before[0];
        }
        wrong += matches != 1;
    }
    for (size_t i = 0; i < AT; i++)
        worst = fmax(worst, deviation(&chosen[i], 1. / AT));
    tap_ok(tap, wrong == 0 && others == 0, "orthogonal and repeated probes; nothing else changes");
    tap_ok(tap, worst < BOUND, "each input is repeated as often (%.1f standard errors)", worst);
done:
    release(&plain);
    release(&orthogonal);
    release(&repeated);
    return status;
}

/* Eigenvalues 1, 1/4, 1/9, 1/16 over their mean, along the axes. */
static icl_status check_covariance(tap_run *tap, icl_backend *backend, icl_error *error) {
    const double mean = (1 + 1. / 4 + 1. / 9 + 1. / 16) / D;
    drawn all = {0};
    statistic seen[D] = {{0}};
    double worst = 0;
    icl_status status = ICL_OK;

    ICL_TRY(draw("task.noise=0 task.covariance=power:2", backend, &all, error));
    for (size_t s = 0; s < all.count; s++)
        for (size_t j = 0; j < D; j++)
            add(&seen[j], (double)token(&all, s, 0)[j] * (double)token(&all, s, 0)[j]);
    for (size_t j = 0; j < D; j++)
        worst = fmax(worst, deviation(&seen[j], 1 / (double)((j + 1) * (j + 1)) / mean));
    tap_ok(tap, worst < BOUND, "power:2: eigenvalues as i^-2, of mean 1 (%.1f standard errors)", worst);
done:
    release(&all);
    return status;
}

/* ---- A curriculum ---- */

static icl_status check_stage(tap_run *tap, const char *more, uint64_t batch, size_t dimension, size_t context,
                              icl_backend *backend, icl_error *error) {
    drawn all = {0};
    size_t wrong = 0;
    char text[192];
    icl_status status = ICL_OK;

    snprintf(text, sizeof text, "task.noise=1 task.curriculum=10 task.curriculum_d=2 task.curriculum_n=1 %s", more);
    ICL_TRY(draw_for(text, ICL_FOR_TRAINING, SEED, batch, backend, &all, error));
    for (size_t s = 0; s < BATCH; s++)
        for (size_t i = 0; i < POINTS; i++) {
            const double weight = i <= context ? (double)POINTS / (double)(context + 1) : 0;
            for (size_t j = 0; j < D; j++)
                wrong += (token(&all, s, i)[j] != 0) != (i <= context && j < dimension);
            wrong += (token(&all, s, i)[D] != 0) != (i > 0 && i <= context);
            wrong += fabs((double)all.weights[s * POINTS + i] - weight) > 1e-6;
            wrong += fabs((double)target(&all, s, i) - dot(all.coefficients + s * D, token(&all, s, i))) > 1e-5;
        }
    tap_ok(tap, wrong == 0, "%s, batch %zu: %zu coordinates, %zu pairs", more, (size_t)batch, dimension, context);
done:
    release(&all);
    return status;
}

static icl_status check_stages(tap_run *tap, icl_backend *backend, icl_error *error) {
    static const struct {
        const char *more;
        uint64_t batch;
        size_t dimension, context;
    } rows[] = {{"", 0, 2, 1},
                {"", 9, 2, 1},
                {"", 10, 3, 3},
                {"", 20, 4, 5},
                {"", 30, 4, 6},
                {"", (uint64_t)1 << 40, 4, 6},
                {"task.curriculum_points=0", 1000, 4, 1},
                {"train.slices=3", 29, 2, 1},
                {"train.slices=3", 30, 3, 3},
                {"train.refresh=5", 2, 3, 3}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ICL_CHECK(check_stage(tap, rows[i].more, rows[i].batch, rows[i].dimension, rows[i].context, backend, error));
    return ICL_OK;
}

static icl_status check_evaluation(tap_run *tap, icl_backend *backend, icl_error *error) {
    drawn plain = {0}, all = {0};
    size_t different = 0;
    icl_status status = ICL_OK;

    ICL_TRY(draw("task.noise=0", backend, &plain, error));
    ICL_TRY(draw("task.noise=0 task.curriculum=10 task.curriculum_d=2 task.curriculum_n=1", backend, &all, error));
    for (size_t i = 0; i < all.count * POINTS * TOKEN; i++)
        different += all.inputs[i] != plain.inputs[i];
    tap_ok(tap, different == 0 && !all.weights, "evaluation has no curriculum");
done:
    release(&plain);
    release(&all);
    return status;
}

int main(void) {
    static icl_status (*const checks[])(tap_run * tap, icl_backend * backend, icl_error * error) = {
        check_orthants, check_probes, check_covariance, check_stages, check_evaluation};
    return test_on_cpu(checks, sizeof checks / sizeof *checks);
}
