/* Predictors of long sequences are fitted in pieces: no allocation of the fit is larger than one piece. The linker
 * plants an allocator that notes the largest. */
#include "../task/frame.h"
#include "iclab/baseline.h"
#include "iclab/host.h"

enum { D = 20, N = 20000, SEQUENCES = 16, MOST = 1024, SLACK = 4096 }; /* SLACK: bytes that a device adds */

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
icl_status __real_icl_allocate(size_t count, size_t size, const char *what, void *pointer_to_pointer, icl_error *error);
icl_status __wrap_icl_allocate(size_t count, size_t size, const char *what, void *pointer_to_pointer, icl_error *error);

static size_t largest;

icl_status __wrap_icl_allocate(size_t count, size_t size, const char *what, void *pointer_to_pointer,
                               icl_error *error) {
    largest = count * size > largest ? count * size : largest;
    return __real_icl_allocate(count, size, what, pointer_to_pointer, error);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* A piece has as many whole sequences as fit into 64 MiB of floats; short sequences are taken together, and at least
 * one. */
static void test_pieces(tap_run *tap, const icl_task *task) {
    const size_t numbers = (N + 1) * (D + 1), piece = icl_task_piece(task, MOST);

    tap_ok(tap, piece * numbers <= (size_t)1 << 24 && (piece + 1) * numbers > (size_t)1 << 24,
           "a piece of long sequences has %zu", piece);
    tap_ok(tap, icl_task_piece(task, piece) == piece && icl_task_piece(task, piece - 1) == piece - 1,
           "and no more than asked for");
}

int main(void) {
    tap_run tap = {0};
    icl_task *task = NULL;
    icl_predictors *predictors = NULL;
    icl_error error = {0};

    if (tap_status(&tap, make_task("task.d=20 task.n=20000", &task, &error), &error, "a task of long sequences")) {
        test_pieces(&tap, task);
        tap_status(&tap, icl_predictors_create(task, NULL, "gd:1", SEQUENCES, 1, &predictors, &error), &error, "a fit");
        tap_ok(&tap, largest <= ((size_t)1 << 24) * sizeof(float) + SLACK, "whose largest allocation is %zu bytes",
               largest);
    }
    icl_predictors_destroy(&predictors);
    icl_task_destroy(&task);
    return tap_done(&tap);
}
