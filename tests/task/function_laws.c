/*
 * Function classes: functions and pools that keep to the formulas of src/task/function_classes/, by exact properties
 * and by moments within five standard errors.
 */
#include "function_classes.h"

/* ---- Functions ---- */

/* Targets are <w, x>, rounded once; labels stand one position later, with noise of the side tensor's level. */
static icl_status check_linear(tap_run *tap, icl_backend *backend, icl_error *error) {
    drawn all = {0};
    statistic noise = {0}, square = {0};
    size_t wrong = 0; /* rounding: of numbers below 100 */
    icl_status status = ICL_OK;

    ICL_TRY(draw("task.noise=choice:0.5,2 task.output_scale=3", backend, &all, error));
    for (size_t s = 0; s < all.count; s++) {
        double sum = 0, squares = 0;
        wrong += token(&all, s, 0)[D] != 0;
        for (size_t i = 0; i < POINTS; i++)
            wrong += fabs((double)target(&all, s, i) - dot(all.coefficients + s * D, token(&all, s, i))) > 1e-5;
        for (size_t i = 1; i < POINTS; i++) {
            const double miss = (double)token(&all, s, i)[D] - (double)target(&all, s, i - 1);
            sum += miss / (double)all.levels[s] / N;
            squares += miss * miss / ((double)all.levels[s] * (double)all.levels[s]) / N;
        }
        add(&noise, sum);
        add(&square, squares);
        wrong += all.levels[s] != .5F && all.levels[s] != 2;
    }
    tap_ok(tap, wrong == 0, "linear: targets are <w, x> of the side tensor, and the first token has no label");
    tap_ok(tap, deviation(&noise, 0) < BOUND && deviation(&square, 1) < BOUND,
           "linear: labels have the noise of their sequence (%.1f, %.1f standard errors)", deviation(&noise, 0),
           deviation(&square, 1));
done:
    release(&all);
    return status;
}

/* The separate layout holds the same inputs, targets and labels at positions of their own; those of x weigh 13 / 7. */
static icl_status check_layouts(tap_run *tap, icl_backend *backend, icl_error *error) {
    enum { POSITIONS = 2 * N + 1 };
    drawn joined = {0}, all = {0};
    size_t wrong = 0;
    icl_status status = ICL_OK;

    ICL_TRY(draw("task.noise=1", backend, &joined, error));
    ICL_TRY(draw("task.noise=1 task.layout=separate", backend, &all, error));
    for (size_t s = 0; s < all.count; s++)
        for (size_t t = 0; t < POSITIONS; t++) {
            const float *seen = all.inputs + (s * POSITIONS + t) * D, *before = token(&joined, s, (t + 1) / 2);
            const bool is_input = t % 2 == 0;
            const double weight = is_input ? 13. / 7 : 0;
            wrong += is_input ? !same_input(seen, before) : seen[0] != before[D] || seen[1] != 0 || seen[D - 1] != 0;
            wrong += all.targets[s * POSITIONS + t] != (is_input ? target(&joined, s, t / 2) : 0);
            wrong += fabs((double)all.weights[s * POSITIONS + t] - weight) > 1e-6;
        }
    tap_ok(tap, wrong == 0, "separate labels: the same numbers at positions of their own");
done:
    release(&joined);
    release(&all);
    return status;
}

/* E f^2, and what happens to f when inputs double. */
static icl_status check_class(tap_run *tap, const char *class, double mean_square, double factor, icl_backend *backend,
                              icl_error *error) {
    drawn one = {0}, two = {0};
    statistic seen = {0};
    size_t wrong = 0;
    char text[128];
    icl_status status = ICL_OK;

    snprintf(text, sizeof text, "task.noise=0 task.class=%s", class);
    ICL_TRY(draw(text, backend, &one, error));
    snprintf(text, sizeof text, "task.noise=0 task.input_scale=2 task.class=%s", class);
    ICL_TRY(draw(text, backend, &two, error));
    for (size_t s = 0; s < one.count; s++) {
        double sum = 0;
        for (size_t i = 0; i < POINTS; i++) {
            sum += (double)target(&one, s, i) * (double)target(&one, s, i) / POINTS;
            wrong += target(&two, s, i) != (float)factor * target(&one, s, i);
        }
        add(&seen, sum);
    }
    tap_ok(tap, deviation(&seen, mean_square) < BOUND, "%s: E f^2 is %g (%.4f, %.1f standard errors)", class,
           mean_square, seen.sum / seen.count, deviation(&seen, mean_square));
    tap_ok(tap, wrong == 0, "%s: twice the inputs give %g times the values", class, factor);
done:
    release(&one);
    release(&two);
    return status;
}

static icl_status check_classes(tap_run *tap, icl_backend *backend, icl_error *error) {
    ICL_CHECK(check_class(tap, "linear", D, 2, backend, error));
    ICL_CHECK(check_class(tap, "sparse", 3, 2, backend, error));
    ICL_CHECK(check_class(tap, "relu-network", D, 2, backend, error));
    ICL_CHECK(check_class(tap, "decision-tree", 1, 1, backend, error));
    ICL_CHECK(check_class(tap, "threshold", 1, 1, backend, error));
    return check_class(tap, "quadratic", D, 4, backend, error);
}

/* Three weights of four, each left out as often. */
static icl_status check_sparse(tap_run *tap, icl_backend *backend, icl_error *error) {
    drawn all = {0};
    statistic used[D] = {{0}};
    size_t wrong = 0;
    double worst = 0;
    icl_status status = ICL_OK;

    ICL_TRY(draw("task.noise=0 task.class=sparse task.support=3", backend, &all, error));
    for (size_t s = 0; s < all.count; s++) {
        size_t count = 0;
        for (size_t j = 0; j < D; j++) {
            const bool is_used = all.coefficients[s * D + j] != 0;
            add(&used[j], is_used);
            count += is_used;
        }
        wrong += count != 3;
    }
    for (size_t j = 0; j < D; j++)
        worst = fmax(worst, deviation(&used[j], .75));
    tap_ok(tap, wrong == 0 && worst < BOUND, "sparse: 3 weights, each coordinate as often (%.1f standard errors)",
           worst);
done:
    release(&all);
    return status;
}

/* A tree of depth 2 has at most four values, equal where all signs are, and asks for at most three coordinates. */
static icl_status check_tree(tap_run *tap, icl_backend *backend, icl_error *error) {
    drawn all = {0};
    size_t wrong = 0, most = 0;
    icl_status status = ICL_OK;

    ICL_TRY(draw("task.noise=0 task.class=decision-tree task.depth=2", backend, &all, error));
    for (size_t s = 0; s < all.count; s++) {
        size_t values = 0;
        for (size_t i = 0; i < POINTS; i++) {
            bool is_new = true;
            for (size_t k = 0; k < i; k++) {
                bool same_signs = true;
                for (size_t j = 0; j < D; j++)
                    same_signs = same_signs && (token(&all, s, i)[j] > 0) == (token(&all, s, k)[j] > 0);
                wrong += same_signs && target(&all, s, i) != target(&all, s, k);
                is_new = is_new && target(&all, s, i) != target(&all, s, k);
            }
            values += is_new;
        }
        most = values > most ? values : most;
    }
    tap_ok(tap, wrong == 0 && most == 4, "decision-tree: at most %zu values, by the signs of x alone", most);
done:
    release(&all);
    return status;
}

/* ---- A pool ---- */

static bool same_function(const drawn *a, size_t s, const drawn *b, size_t t) {
    return same_input(a->coefficients + s * D, b->coefficients + t * D);
}

/* Distinct functions, the first sequence of each in `firsts`; no more than `most` are looked for. */
static size_t count_functions(const drawn *all, size_t most, size_t *firsts) {
    size_t count = 0;

    for (size_t s = 0; s < all->count && count < most; s++) {
        size_t i = 0;
        while (i < count && !same_function(all, s, all, firsts[i]))
            i++;
        if (i == count)
            firsts[count++] = s;
    }
    return count;
}

static size_t count_shared(const drawn *a, const size_t *firsts, size_t count, const drawn *b) {
    size_t shared = 0;
    for (size_t i = 0; i < count; i++) {
        size_t s = 0;
        while (s < b->count && !same_function(a, firsts[i], b, s))
            s++;
        shared += s < b->count;
    }
    return shared;
}

static icl_status check_pool(tap_run *tap, icl_backend *backend, icl_error *error) {
    drawn all = {0}, other = {0};
    size_t firsts[6] = {0};
    icl_status status = ICL_OK;

    ICL_TRY(draw("task.noise=0 task.pool=3", backend, &all, error));
    tap_ok(tap, count_functions(&all, 6, firsts) == 3, "a pool of 3 functions");
    for (size_t i = 0; i < 3; i++) {
        statistic seen = {0};
        for (size_t s = 0; s < all.count; s++)
            add(&seen, same_function(&all, s, &all, firsts[i]));
        tap_ok(tap, deviation(&seen, 1. / 3) < BOUND, "one of them: %.3f of the sequences", seen.sum / seen.count);
    }
    ICL_TRY(draw_for("task.noise=0 task.pool=5", ICL_FOR_TRAINING, SEED + 1, 9, backend, &other, error));
    tap_ok(tap, count_shared(&all, firsts, 3, &other) == 3, "a pool of 5 begins with them, whatever the seed and step");
    ICL_TRY(draw("task.noise=0 task.pool=3 task.pool_seed=2", backend, &other, error));
    tap_ok(tap, count_shared(&all, firsts, 3, &other) == 0, "another task.pool_seed has others");
    ICL_TRY(draw("task.noise=0 task.pool=3 task.fresh_functions=true", backend, &other, error));
    tap_ok(tap, count_shared(&all, firsts, 3, &other) == 0 && count_functions(&other, 6, firsts) == 6,
           "fresh functions are none of them");
done:
    release(&all);
    release(&other);
    return status;
}

int main(void) {
    static icl_status (*const checks[])(tap_run * tap, icl_backend * backend, icl_error * error) = {
        check_linear, check_layouts, check_classes, check_sparse, check_tree, check_pool};
    return test_on_cpu(checks, sizeof checks / sizeof *checks);
}
