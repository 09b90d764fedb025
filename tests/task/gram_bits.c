/* Gram matrices drawn without tokens have the same bits on every device. (The conformance cases of gram_sample check
 * that these are the bits of the definition.) Only batches for training have them. */
#include "frame.h"

static void check_recipes(task_test *test) {
    static const char *const recipes[] = {
        "task.sampler=gram task.d=10 task.n=20 task.noise=uniform:5",
        "task.sampler=gram task.d=20 task.n=10000 task.noise=fixed:0",
        "task.sampler=gram task.d=3 task.n=1 task.noise=choice:1,3,5",
        "task.sampler=gram task.d=1 task.n=4 task.noise=fixed:0.25",
        ("task.sampler=gram task.d=5 task.n=20 task.noise=fixed:1 task.covariance=spectrum:1,1,0.25,0.0625,1 "
         "task.rotate=true task.weights=inverse-covariance"),
        "task.sampler=gram task.d=2 task.n=1 task.noise=choice:0,1e-30",
        "task.sampler=gram task.d=2 task.n=3 task.noise=uniform:1e-22 task.covariance=spectrum:1e-22,1e-22",
        "task.sampler=gram task.d=7 task.n=4 task.noise=choice:0,2 task.covariance=spectrum:4,1,0.25,9,1,1,2",
    };

    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        check_bits(test, recipes[i], 53, 20);
}

/* Batches for evaluation and fitting have tokens, the same ones as with task.sampler = tokens. */
static void check_purposes(task_test *test) {
    drawn tokens = {0}, gram = {0};

    for (int purpose = ICL_FOR_TRAINING; purpose <= ICL_FOR_FITTING; purpose++) {
        open_batch(&tokens, test->device, (icl_task_purpose)purpose, 4, "task.d=3 task.n=5");
        open_batch(&gram, test->device, (icl_task_purpose)purpose, 4, "task.sampler=gram task.d=3 task.n=5");
        draw_step(&tokens, 1, 2);
        draw_step(&gram, 1, 2);
        if (purpose == ICL_FOR_TRAINING)
            tap_ok(&test->tap, gram.gram && !gram.inputs, "batches for training have no tokens");
        else
            tap_ok(&test->tap, count_different(&tokens, &gram) == 0, "purpose %d: the same tokens", purpose);
    }
    release(&tokens);
    release(&gram);
}

int main(int count, char **arguments) {
    static task_check *const checks[] = {check_recipes, check_purposes};
    return run_checks(count, arguments, checks, sizeof checks / sizeof *checks);
}
