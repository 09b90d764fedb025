/* How the work of linear transformers is cut at the limits of addressing: kernels count floats with 32 bits, and a
 * device limits the size of a buffer. No device is needed. */
#include <string.h>

#include "backend/opencl/linear_transformer/program.h"
#include "tap.h"

#define GIB ((size_t)1 << 30)

static icl_linear_job job_of(const icl_linear_transformer_params *params, size_t size, size_t batch, size_t lanes,
                             size_t max_allocation) {
    return (icl_linear_job){.params = params,
                            .size = size,
                            .batch = batch,
                            .train = true,
                            .has_norms = true,
                            .is_contiguous = true,
                            .is_straight = lanes == 1,
                            .lanes = lanes,
                            .wave = 32,
                            .local_memory = (size_t)64 << 10,
                            .max_allocation = max_allocation};
}

/* Checks that all partial sums, and every team's scratch memory, stay within 32 bits and one buffer. */
static void check_within(tap_run *tap, const char *what, size_t size, size_t lanes, size_t max_allocation) {
    const icl_linear_transformer_params params = {.layers = 4, .depth = 4, .heads = 1, .factor = 1.0};
    const icl_linear_job job = job_of(&params, size, 65536, lanes, max_allocation);
    icl_linear_cut cut = {0};
    icl_error error = {0};
    const bool is_cut = icl_linear_cut_of(&job, &cut, &error) == ICL_OK;

    tap_ok(tap,
           is_cut && cut.units * cut.length <= UINT32_MAX &&
               (cut.units * cut.length + ICL_LINEAR_PADDING) * sizeof(cl_float) <= max_allocation &&
               cut.per_unit * cut.units * lanes >= job.batch && cut.most_teams > 0 &&
               cut.most_teams * cut.scratch_length <= UINT32_MAX,
           "%s, D %zu, %zu lanes: %zu units of %zu sums, at most %zu teams of %zu floats%s", what, size, lanes,
           cut.units, cut.length, cut.most_teams, cut.scratch_length, error.message);
}

static void check_refused(tap_run *tap, size_t size, size_t max_allocation) {
    const icl_linear_transformer_params params = {.layers = 4, .depth = 4, .heads = 1, .factor = 1.0};
    const icl_linear_job job = job_of(&params, size, 64, 1, max_allocation);
    icl_linear_cut cut = {0};
    icl_error error = {0};
    const icl_status status = icl_linear_cut_of(&job, &cut, &error);

    tap_ok(tap, status == ICL_ERROR_MEMORY && strstr(error.message, "each work-group, at most"),
           "D %zu is refused where a buffer has %zu bytes at most: %s", size, max_allocation, error.message);
}

/* Checks a large GPU: there are teams for half of its waves, and blocks cover a matrix in one round. */
static void check_filled(tap_run *tap, size_t size, size_t wave, size_t team) {
    const icl_linear_transformer_params params = {.layers = 4, .depth = 4, .heads = 1, .factor = 1.0};
    icl_linear_job job = job_of(&params, size, 65536, 1, 4 * GIB);
    icl_linear_cut cut = {0};
    icl_error error = {0};

    job.wave = wave;
    const bool is_cut = icl_linear_cut_of(&job, &cut, &error) == ICL_OK;
    const size_t blocks = is_cut ? ((size + cut.rows - 1) / cut.rows) * ((size + cut.columns - 1) / cut.columns) : 0;
    tap_ok(tap, is_cut && cut.units >= 4096 && cut.team == team && blocks <= team,
           "D %zu, waves of %zu: %zu units, teams of %zu, %zu blocks of %zu x %zu", size, wave, cut.units, cut.team,
           blocks, cut.rows, cut.columns);
}

int main(void) {
    tap_run tap = {0};

    check_filled(&tap, 12, 16, 16); /* nine sums each */
    check_filled(&tap, 13, 16, 64);
    check_filled(&tap, 11, 32, 32);
    check_filled(&tap, 16, 32, 32);
    check_filled(&tap, 17, 32, 64);
    check_filled(&tap, 21, 32, 64);
    check_filled(&tap, 21, 64, 64);
    check_within(&tap, "usual", 21, 1, 4 * GIB);
    check_within(&tap, "usual", 21, 16, 4 * GIB);
    check_within(&tap, "small buffers", 21, 1, (size_t)192 << 20);
    check_within(&tap, "more partial sums than 32 bits count", 3001, 1, 64 * GIB);
    check_within(&tap, "more partial sums than a buffer holds", 1001, 1, (size_t)192 << 20);
    check_refused(&tap, 3001, GIB / 2);
    check_refused(&tap, 30001, 4096 * GIB);
    return tap_done(&tap);
}
