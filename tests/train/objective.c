/* A model's loss on fixed sequences (train/objective.h): sets that keep the tail of a larger sample. */
#include "train/objective.h"
#include "fixture.h"

enum { TIMES = 4, KEPT = 4 * 2048, ALL = TIMES * KEPT, SIZE = 9, SEED = 3, NUMBER = 5 }; /* batches of 2048 */

/* Two layers of gd++ without noise, with n near d, have losses with a heavy tail. */
static const char *const recipe[] = {"task.d=3",           "task.n=4",
                                     "task.noise=fixed:0", "task.sampler=gram",
                                     "model.layers=3",     "model.parameterization=gd++",
                                     "train.batch=64",     NULL};

typedef struct sets {
    icl_trainer *trainer;
    icl_objective *few, *all;
    double losses[ALL], kept[KEPT], shares[KEPT], scores[ALL];
    double at[SIZE], other[SIZE];
} sets;

static icl_status create(const sets *s, size_t sequences, icl_objective **made, icl_error *error) {
    const icl_objective_params of = {.task = icl_trainer_task(s->trainer),
                                     .model = icl_trainer_model(s->trainer),
                                     .purpose = ICL_FOR_TRAINING,
                                     .sequences = sequences};
    return icl_objective_create(&of, made, error);
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static double mean(const double *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i] / (double)count;
    return sum;
}

/* Returns how many of the `most` sequences that lose most at `at`, among all, are kept. */
static size_t count_kept(sets *s, const double *at, size_t most, icl_error *error) {
    size_t count = 0;

    if (icl_objective_losses(s->all, at, s->losses, error) != ICL_OK ||
        icl_objective_losses(s->few, at, s->kept, error) != ICL_OK)
        return 0;
    qsort(s->losses, ALL, sizeof *s->losses, compare);
    qsort(s->kept, KEPT, sizeof *s->kept, compare);
    for (size_t i = 0, k = 0; i < most && k < KEPT; i++)
        if (s->kept[k] == s->losses[i])
            count++, k++;
    return count;
}

/* The mean estimates that of all sequences, with the rest sampled; the gradient is the mean's. */
static icl_status test_mean(tap_run *tap, sets *s, icl_error *error) {
    double loss = 0, exact = 0, sum = 0, gradient[SIZE], sampled[SIZE], again = 0, variance = 0, up = 0, down = 0;
    const double step = 1e-6;

    for (size_t i = 0; i < SIZE; i++)
        gradient[i] = sampled[i] = (double)NAN;
    ICL_CHECK(icl_objective_gradient(s->few, s->at, &loss, gradient, error));
    ICL_CHECK(icl_objective_gradient(s->all, s->at, &exact, NULL, error));
    tap_ok(tap, fabs(loss / exact - 1) < .01, "%d of %d sequences: mean loss %.5g, of all %.5g", KEPT, ALL, loss,
           exact);
    icl_objective_shares(s->few, s->shares);
    ICL_CHECK(icl_objective_losses(s->few, s->at, s->kept, error));
    for (size_t i = 0; i < KEPT; i++)
        sum += s->shares[i] * s->kept[i];
    tap_ok(tap, fabs(sum / loss - 1) < 1e-12 && fabs(mean(s->shares, KEPT) * KEPT - 1) < 1e-12,
           "shares add up to 1, and with losses to the mean");
    tap_ok(tap, mean(s->kept, KEPT) > 1.5 * exact, "without shares it would be %.5g", mean(s->kept, KEPT));
    ICL_CHECK(icl_objective_sampled_gradient(s->few, s->at, &again, sampled, &variance, error));
    memcpy(s->other, s->at, sizeof s->other);
    s->other[1] += step;
    ICL_CHECK(icl_objective_gradient(s->few, s->other, &up, NULL, error));
    s->other[1] -= 2 * step;
    ICL_CHECK(icl_objective_gradient(s->few, s->other, &down, NULL, error));
    tap_ok(tap,
           fabs((up - down) / (2 * step) / gradient[1] - 1) < 1e-5 && fabs(sampled[1] / gradient[1] - 1) < 1e-12 &&
               fabs(again / loss - 1) < 1e-12 && variance > 0,
           "the gradient is the mean's: %.8g, %.8g", gradient[1], (up - down) / (2 * step));
    size_t same = 0;
    for (size_t i = 0; i < SIZE; i++)
        same += fabs(sampled[i] - gradient[i]) < 1e-10;
    tap_ok(tap, same == SIZE, "in each of %d parameters, whatever stood there", SIZE);
    return ICL_OK;
}

/* Longer last steps have their largest losses on other sequences: those with large eigenvalues. */
static icl_status test_points(tap_run *tap, sets *s, icl_error *error) {
    const size_t most = KEPT / 8;

    memcpy(s->other, s->at, sizeof s->other);
    s->other[SIZE - 2] *= 3;
    const size_t first = count_kept(s, s->at, most, error), before = count_kept(s, s->other, most, error);
    ICL_CHECK(icl_objective_draw_tail(s->few, s->other, TIMES, s->scores, SEED, NUMBER, error));
    const size_t still = count_kept(s, s->at, most, error), after = count_kept(s, s->other, most, error);
    tap_ok(tap, first == most && before < most && still == most && after == most,
           "of the %zu that lose most, %zu are kept, at another point %zu; then %zu and %zu", most, first, before,
           still, after);
    return ICL_OK;
}

/* ---- Which sequences ---- */

static bool share_losses(const double *a, const double *b, size_t count) {
    for (size_t i = 0, k = 0; i < count && k < count;) {
        if (a[i] == b[k])
            return true;
        a[i] > b[k] ? i++ : k++; /* both lists fall */
    }
    return false;
}

/* Draws of neighbouring numbers have no sequence in common, nor have draws that keep tails, which go through more
 * sequences. */
static icl_status test_draws(tap_run *tap, sets *s, icl_error *error) {
    for (int keeps_tails = 0; keeps_tails < 2; keeps_tails++) {
        for (uint64_t number = 1; number <= 2; number++) {
            double *losses = number == 1 ? s->losses : s->kept;
            memset(s->scores, 0, sizeof s->scores);
            ICL_CHECK(keeps_tails ? icl_objective_draw_tail(s->few, s->at, TIMES, s->scores, SEED, number, error)
                                  : icl_objective_draw(s->few, SEED, number, error));
            ICL_CHECK(icl_objective_losses(s->few, s->at, losses, error));
            qsort(losses, KEPT, sizeof *losses, compare);
        }
        tap_ok(tap, s->losses[0] > s->losses[KEPT - 1] && !share_losses(s->losses, s->kept, KEPT),
               "two draws%s share no sequence", keeps_tails ? " that keep tails" : "");
    }
    return ICL_OK;
}

/* With one batch, or with as many sequences as are kept, a tail cannot be kept: the draws are plain ones. */
static icl_status test_plain(tap_run *tap, sets *s, icl_error *error) {
    const struct { size_t sequences, times; } cases[] = {{KEPT / 4, TIMES}, {KEPT, 1}};
    icl_status status = ICL_OK;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        icl_objective *objective = NULL;
        const size_t size = cases[i].sequences * sizeof(double);
        memset(s->scores, 0, sizeof s->scores);
        ICL_TRY(create(s, cases[i].sequences, &objective, error));
        status = icl_objective_draw_tail(objective, s->at, cases[i].times, s->scores, SEED, NUMBER, error);
        if (status == ICL_OK)
            status = icl_objective_losses(objective, s->at, s->kept, error);
        if (status == ICL_OK)
            status = icl_objective_draw(objective, SEED, NUMBER, error);
        if (status == ICL_OK)
            status = icl_objective_losses(objective, s->at, s->losses, error);
        icl_objective_destroy(&objective);
        tap_ok(tap, status == ICL_OK && memcmp(s->kept, s->losses, size) == 0, "%zu sequences, %zu times: a plain draw",
               cases[i].sequences, cases[i].times);
    }
done:
    return status;
}

static icl_status test_all(tap_run *tap, sets *s, icl_backend *backend, icl_error *error) {
    float values[SIZE];

    ICL_CHECK(make_trainer(backend, recipe, &s->trainer, error));
    ICL_CHECK(icl_trainer_get_parameters(s->trainer, values, error));
    for (size_t i = 0; i < SIZE; i++)
        s->at[i] = (double)values[i];
    ICL_CHECK(create(s, KEPT, &s->few, error));
    ICL_CHECK(create(s, ALL, &s->all, error));
    ICL_CHECK(icl_objective_draw(s->all, SEED, NUMBER, error));
    ICL_CHECK(icl_objective_draw_tail(s->few, s->at, TIMES, s->scores, SEED, NUMBER, error));
    ICL_CHECK(test_mean(tap, s, error));
    ICL_CHECK(test_points(tap, s, error));
    ICL_CHECK(test_draws(tap, s, error));
    return test_plain(tap, s, error);
}

int main(void) {
    icl_backend *backend = NULL;
    icl_error error = {0};
    tap_run tap = {0};
    sets *s = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, &error));
    ICL_TRY(icl_allocate(1, sizeof *s, "sets", &s, &error));
    status = test_all(&tap, s, backend, &error);
    icl_objective_destroy(&s->few);
    icl_objective_destroy(&s->all);
    icl_trainer_destroy(&s->trainer);
done:
    tap_status(&tap, status, &error, "sets are drawn and measured");
    icl_free(&s);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
