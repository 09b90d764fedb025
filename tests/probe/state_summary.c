/* Tests the summary of a head's recurrence over all sequences, on a trace whose numbers are known: those of the other
 * head, and of the positions before the last, do not count. Of two eigenvalues at the bound of rounding, the one below
 * it is negative. */
#include "probe/states.h"

#include <math.h>

#include "tap.h"

enum { SEQUENCES = 2, HEADS = 2, POSITIONS = 2, HEAD = 1, ALL = SEQUENCES * HEADS * POSITIONS };

typedef struct expected {
    const char *name;
    double seen, number;
} expected;

int main(void) {
    static const icl_state_write none = {99, 99, -99, 99}; /* of the other head */
    icl_state_write of[ALL] = {none, none, {1, 1, -.5, .5},     {2, 1, .25, .75},
                               none, none, {3, 2, -0x1p-20, 1}, {6, 4, -0x1.0000000000001p-20, .6}};
    icl_state_rank ranks[ALL] = {{99, 99, 99}, {99, 99, 99}, {99, 99, 99}, {2, 1, 5},
                                 {99, 99, 99}, {99, 99, 99}, {99, 99, 99}, {4, 5, 11}};
    double gates[ALL] = {99, 99, .1, .5, 99, 99, .9, .7};
    const icl_state_trace trace = {.sequences = SEQUENCES,
                                   .heads = HEADS,
                                   .positions = POSITIONS,
                                   .writes = 1,
                                   .channels = 1,
                                   .of = of,
                                   .gates = gates,
                                   .ranks = ranks};
    icl_inspect_state is = {0};
    icl_error error = {0};
    tap_run tap = {0};

    tap_status(&tap, icl_inspect_state_measure(&trace, HEAD, &is, &error), &error, "a head is measured");
    const expected numbers[] = {
        {"mean gate", is.gate, .55},
        {"a tenth of the way through the gates", is.quantiles[0], .22},
        {"their median", is.quantiles[1], .6},
        {"nine tenths of the way", is.quantiles[2], .84},
        {"mean strength", is.strength, 3},
        {"what is written", is.written, 2},
        {"least eigenvalue", is.least, -.5},
        {"largest", is.largest, 1},
        {"share of writes with one below 0", is.negative, .5},
        {"effective rank", is.effective.mean, 3},
        {"its standard error", is.effective.standard_error, 1},
        {"numeric rank", is.numeric.mean, 3},
        {"its standard error", is.numeric.standard_error, 2},
        {"norm", is.norm.mean, 8},
        {"its standard error", is.norm.standard_error, 3},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        tap_ok(&tap, fabs(numbers[i].seen - numbers[i].number) < 1e-14, "%s: %.17g", numbers[i].name, numbers[i].seen);
    return tap_done(&tap);
}
