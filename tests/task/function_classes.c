/* Function classes: the same bits on every device, and others for another purpose, seed or step. */
#include "function_classes.h"

/* Another purpose, seed or step has other inputs, functions and noise. */
static icl_status compare_others(tap_run *tap, icl_backend *backend, icl_error *error) {
    static const struct {
        icl_task_purpose purpose;
        uint32_t seed;
        uint64_t step;
    } others[] = {
        {ICL_FOR_TRAINING, SEED, 5},
        {ICL_FOR_FITTING, SEED, 5},
        {ICL_FOR_TRAINING, SEED + 1, 5},
        {ICL_FOR_TRAINING, SEED, 6},
        {ICL_FOR_TRAINING, SEED, ((uint64_t)1 << 32) + 5},
    };
    drawn first = {0}, other = {0};
    icl_status status = ICL_OK;

    ICL_TRY(draw_for("task.noise=1", others[0].purpose, SEED, others[0].step, backend, &first, error));
    for (size_t o = 1; o < sizeof others / sizeof *others; o++) {
        size_t same = 0;
        ICL_TRY(draw_for("task.noise=1", others[o].purpose, others[o].seed, others[o].step, backend, &other, error));
        for (size_t s = 0; s < BATCH; s++)
            for (size_t i = 1; i < POINTS; i++)
                same += same_input(token(&first, s, i), token(&other, s, i)) ||
                        token(&first, s, i)[D] == token(&other, s, i)[D] ||
                        first.coefficients[s * D] == other.coefficients[s * D];
        tap_ok(tap, same == 0, "another purpose, seed or step: other numbers throughout");
    }
done:
    release(&first);
    release(&other);
    return status;
}

static void checks(tap_run *tap, icl_backend *backend, icl_backend *cpu) {
    static const char *const settings[] = {
        FAMILY,
        "task.family=function-classes task.class=relu-network task.hidden_units=7 task.d=3 task.pool=5",
        "task.family=function-classes task.class=decision-tree task.orthant=true task.probe=opposite",
        "task.family=function-classes task.class=quadratic task.covariance=power:1 task.rotate=true task.curriculum=1",
        ("task.family=function-classes task.layout=separate task.noise=1 task.curriculum=1 task.noise_law=student-t "
         "task.class=mixture"),
        "task.family=function-classes task.class=sparse task.probe=orthogonal task.probe_at=9 task.label_law=logistic"};
    icl_error error = {0};

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        tap_status(tap, two_devices_compare(tap, settings[i], BATCH, backend, cpu, &error), &error, "sampling runs");
    tap_status(tap, compare_others(tap, backend, &error), &error, "sampling runs");
}

int main(int count, char **arguments) {
    return test_beside_cpu(count, arguments, checks);
}
