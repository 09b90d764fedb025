/* Every kernel of one family on small conformance cases, few enough to run in a simulator that checks each access.
 * argv: device, kernel family ("cpu" or "gpu", see src/backend/opencl/open.c), and for "gpu", which takes minutes in a
 * simulator, the number of cases of each op and kind. Otherwise two cases are run, spread over layouts and shapes; if
 * all are large, the first. */
#include <math.h>
#include <stdlib.h>

#include "backend/opencl/program.h"
#include "backend/opencl/small.h"
#include "conformance/case.h"
#include "core/allocate.h"
#include "tap.h"

#define MOST_ELEMENTS 500 /* in all operands together */

/* Cases that the choice of small ones would miss: products that are split and combined, or have wide tiles, a short row
 * with all rows, symbols in runs of 32, a sort of two passes, more values than one group of a recurrence holds, more
 * tokens than a chunk of it, several heads of attention, some of which share keys, and several heads of rotary
 * positions, reductions of several chunks and of several columns, and rows of cross-entropy that are cut into
 * chunks. */
static const char *const more_cases[] = {
    "sum (1)(4099) plain absorbed",
    "sum (1x255)(33x255) plain cancelling",
    "argmax (1x255)(33x255) plain special",
    "cross-entropy (2x1)(2x5000)(2x1) plain wide",
    "cross-entropy backward (2x5000)(2x1)(2x5000)(2x1) padded wide",
    "matmul (3x2)(3x515)(515x2) plain integers",
    "matmul (22x65x130)(22x65x18)(22x18x130) plain integers",
    "add (6x13x11)(6x13x11)(11) plain random",
    "softmax forward all (2x6x7x5)(2x6x7x1)(2x6x7x3)(2x3x10x3)(2x3x10x5) plain random",
    ("softmax backward all (2x6x7x3)(2x3x10x3)(2x3x10x5)(2x6x7x5)(2x6x7x5)(2x6x7x1)(2x6x7x3)(2x3x10x3)(2x3x10x5) "
     "plain random"),
    ("softmax backward all (33x4x1x6)(33x2x12x6)(33x2x12x3)(33x4x1x3)(33x4x1x3)(33x4x1x1)(33x4x1x6)(33x2x12x6)"
     "(33x2x12x3) plain random"),
    "rotate (2x3x9x20)(2x3x9x20)(9x10x2) plain integers",
    "look_up_backward (64x8)(3x11x8)(3x11) plain random",
    "look_up_backward (300x3)(9x3)(9) plain random",
    "update sgd (8197)(8197)(3)(1)(8197)(3)(3) plain random",
    ("recurrence backward sum (1x1x31x64)(1x1x31x64)(1x1x31x64)(1x1x31x64)(1x1x64x64)(1x1x64x64)"
     "(1x1x31x64)(1x1x31x64)(1x1x31x64) plain random"),
    "recurrence forward sum (1x1x31x64)(1x1x31x64)(1x1x31x64)(1x1x31x64) plain random",
    ("recurrence forward delta scalar read apart (1x2x33x8)(1x2x8x8)(1x2x33x8)(1x2x16x8)(1x2x33x8)(1x2x33x8)(1x2x33x8)"
     "(1x2x33x1)(1x2x33x1)(1x2x33x8) plain random")};

static bool is_one_more(const icl_case *c) {
    for (size_t i = 0; i < sizeof more_cases / sizeof *more_cases; i++)
        if (strcmp(c->name, more_cases[i]) == 0)
            return true;
    return false;
}

/* Returns whether no earlier case has this title; cases of one title need not follow each other. */
static bool is_first_of_title(const icl_case *cases, size_t i) {
    size_t first = 0;
    while (!icl_case_same_title(&cases[first], &cases[i]))
        first++;
    return first == i;
}

static bool is_small(const icl_case *c) {
    size_t elements = 0;
    for (int i = 0; i < icl_op_infos[c->op].outputs + icl_op_infos[c->op].inputs; i++)
        elements += icl_case_count(c, i);
    return elements <= MOST_ELEMENTS;
}

static bool passes(const icl_case *c, icl_backend *backend) {
    icl_case_result result;
    icl_error error = {0};
    const icl_status status = icl_case_run(c, backend, &result, &error);
    const bool passed = status == ICL_OK && icl_case_passed(&result);
    if (status != ICL_OK)
        tap_note("%s: %s", c->name, error.message);
    else if (!passed)
        tap_note("%s: error/bound %.3g at %s", c->name, result.error_over_bound, result.worst_name);
    icl_case_result_clear(&result);
    return passed;
}

/* Does the same in each way of the op. */
static bool passes_in_each_way(const icl_case *c, icl_backend *backend) {
    const char *const *names = NULL;
    const size_t ways = backend->functions->choices->ways(backend, c->op, &c->params, &names);
    bool passed = true;

    if (ways == 0)
        return passes(c, backend);
    for (size_t way = 0; way < ways; way++) {
        backend->functions->choices->choose_way(backend, c->op, way);
        passed = passes(c, backend) && passed;
    }
    backend->functions->choices->choose_way(backend, c->op, ICL_ANY_WAY);
    return passed;
}

/* Runs `wanted` cases, or one more, of the title that cases[first] is the first of. */
static void check_title(tap_run *tap, const icl_case *cases, size_t first, size_t count, size_t wanted,
                        icl_backend *backend) {
    size_t small = 0, seen = 0, run = 0, failed = 0;

    for (size_t i = first; i < count; i++)
        small += icl_case_same_title(&cases[i], &cases[first]) && is_small(&cases[i]);
    const size_t step = small > wanted ? small / wanted : 1;
    for (size_t i = first; i < count; i++)
        if (icl_case_same_title(&cases[i], &cases[first]) &&
            ((is_small(&cases[i]) && seen++ % step == 0) || (small == 0 && i == first) || is_one_more(&cases[i]))) {
            icl_opencl_of(backend)->small->is_off = run++ % 2 == 0; /* alternately in a list and not */
            failed += !passes_in_each_way(&cases[i], backend);
        }
    tap_ok(tap, failed == 0 && run > 0, "%.*s: %zu cases", (int)cases[first].title_length, cases[first].name, run);
}

static void check_all_were_launched(tap_run *tap, icl_backend *backend, const char *family) {
    const icl_kernel_family wanted = strcmp(family, "gpu") == 0 ? ICL_FAMILY_GPU : ICL_FAMILY_CPU;
    for (int kernel = 0; kernel < ICL_KERNEL_COUNT; kernel++)
        if (icl_kernel_infos[kernel].family & wanted)
            tap_ok(tap, icl_opencl_of(backend)->launcher->launched[kernel], "kernel %s was launched",
                   icl_kernel_infos[kernel].name);
}

/* Tests the kernels that measure peaks: a triad over an odd number of elements, which takes only whole vectors of
 * lanes, and chains of multiply-adds. */
static void check_peaks(tap_run *tap, icl_backend *backend) {
    enum { COUNT = 4099 };
    static float a[COUNT], b[COUNT], c[COUNT];
    const icl_peak_params triad = {.kind = ICL_PEAK_TRIAD, .rounds = 2}, chains = {.rounds = 3};
    const size_t count = COUNT, lanes = icl_opencl_of(backend)->lanes, whole = COUNT / lanes * lanes;
    icl_tensor operands[3] = {{0}};
    icl_error error = {0};
    icl_status status = ICL_OK;
    double moved = 0, done_operations = 0;
    size_t wrong = 0;

    for (size_t i = 0; i < COUNT; i++) {
        b[i] = (float)i;
        c[i] = (float)(2 * (i % 7));
    }
    for (int i = 0; i < 3; i++)
        ICL_TRY(icl_tensor_create(backend, 1, &count, &operands[i], &error));
    ICL_TRY(icl_fill(backend, operands[0], -1, &error));
    ICL_TRY(icl_tensor_write(operands[1], b, &error));
    ICL_TRY(icl_tensor_write(operands[2], c, &error));
    ICL_TRY(backend->functions->peak(backend, &triad, operands, &moved, &error));
    ICL_TRY(icl_tensor_read(operands[0], a, &error));
    for (size_t i = 0; i < COUNT; i++)
        wrong += a[i] != (i < whole ? b[i] + c[i] / 2 : -1);
    ICL_TRY(backend->functions->peak(backend, &chains, operands, &done_operations, &error));
    ICL_TRY(icl_tensor_read(operands[0], a, &error));
done:
    tap_status(tap, status, &error, "the kernels that measure");
    tap_ok(tap, wrong == 0 && moved == 2 * 12.0 * (double)whole, "the triad moved %.0f bytes, %zu elements wrong",
           moved, wrong);
    /* Chain i is 27/64 i + 37/32 after three rounds of x <- 3/4 x + 1/2; the sum is 12 * 37/32 + 66 * 27/64. */
    tap_ok(tap, fabs((double)a[0] - 41.71875) < 1e-4 && done_operations > 0, "the chains add up to %.9g", (double)a[0]);
    for (int i = 0; i < 3; i++)
        icl_tensor_release(&operands[i]);
}

/* ---- How many launches an op is ---- */

enum { MOST_TENSORS = 4 };

typedef icl_status run_op(icl_backend *backend, const icl_tensor *t, icl_error *error);

/* Returns the launches of an op on tensors of these ranks and shapes, 0 if it fails. Unused ranks at the end are 0. */
static size_t launches_of(icl_backend *backend, const int ranks[MOST_TENSORS],
                          const size_t shapes[MOST_TENSORS][ICL_MAX_RANK], run_op *op, icl_error *error) {
    icl_tensor t[MOST_TENSORS] = {{0}};
    size_t launches = 0;
    icl_status status = ICL_OK;

    for (int i = 0; i < MOST_TENSORS && ranks[i] > 0; i++) {
        ICL_TRY(icl_tensor_create(backend, ranks[i], shapes[i], &t[i], error));
        ICL_TRY(icl_fill(backend, t[i], 1, error));
    }
    ICL_TRY(icl_backend_sync(backend, error));
    launches = icl_backend_get_statistics(backend).launches;
    ICL_TRY(op(backend, t, error));
    ICL_TRY(icl_backend_sync(backend, error));
    launches = icl_backend_get_statistics(backend).launches - launches;
done:
    for (int i = 0; i < MOST_TENSORS; i++)
        icl_tensor_release(&t[i]);
    return status == ICL_OK ? launches : 0;
}

static icl_status recur(icl_backend *backend, const icl_tensor *t, icl_error *error) {
    const icl_recurrence_inputs in = {.q = t[1], .k = t[2], .v = t[3]};
    return icl_recurrence_forward(backend, &(icl_recurrence_params){.scale = 1}, t[0], (icl_tensor){0}, NULL, &in,
                                  error);
}

/* Returns the launches of a recurrence over `tokens` tokens with keys of `width` coordinates. */
static size_t launches_of_recurrence(icl_backend *backend, size_t tokens, size_t width, icl_error *error) {
    const size_t shapes[MOST_TENSORS][ICL_MAX_RANK] = {
        {1, 1, tokens, width}, {1, 1, tokens, width}, {1, 1, tokens, width}, {1, 1, tokens, width}};
    return launches_of(backend, (const int[MOST_TENSORS]){4, 4, 4, 4}, shapes, recur, error);
}

static icl_status sort_symbols(icl_backend *backend, const icl_tensor *t, icl_error *error) {
    return icl_look_up_backward(backend, t[0], t[1], t[2], error);
}

/* Returns the launches of the gradient of a table of `rows` rows, looked up by `symbols` symbols. */
static size_t launches_of_sort(icl_backend *backend, size_t rows, size_t symbols, icl_error *error) {
    const size_t shapes[MOST_TENSORS][ICL_MAX_RANK] = {{rows, 2}, {symbols, 2}, {symbols}};
    return launches_of(backend, (const int[MOST_TENSORS]){2, 2, 1}, shapes, sort_symbols, error);
}

/* Symbols below 300 have two digits of 8 bits. On CPUs one pass sorts them, unless they are so few that its 301 counts
 * cost more. */
static void check_passes(tap_run *tap, icl_backend *backend) {
    icl_error error = {0};
    const size_t one = launches_of_sort(backend, 200, 1000, &error),
                 many = launches_of_sort(backend, 300, 1000, &error);
    const size_t enough = launches_of_sort(backend, 300, 76, &error), few = launches_of_sort(backend, 300, 75, &error);
    const bool is_gpu = icl_opencl_of(backend)->lanes == 1;

    tap_ok(tap, one > 0 && (many > one) == is_gpu && (enough > one) == is_gpu && few > one,
           "a sort by one digit has %zu launches, one of 300 symbols %zu, of 76 of them %zu, of 75 %zu%s", one, many,
           enough, few, error.message);
}

/* Token by token is one launch. Chunks of 16 are two; they are taken if there are several or if they are chosen,
 * provided that keys have 2 to 128 coordinates. */
static void check_walks(tap_run *tap, icl_backend *backend) {
    static const struct {
        unsigned walk;
        size_t tokens, width, launches;
    } cases[] = {
        {ICL_BY_TABLE, 16, 4, 1},      {ICL_BY_TABLE, 17, 4, 2},       {ICL_WALK_BY_TOKENS, 40, 4, 1},
        {ICL_WALK_BY_CHUNKS, 1, 4, 2}, {ICL_WALK_BY_CHUNKS, 17, 4, 2}, {ICL_BY_TABLE, 17, 1, 1},
        {ICL_BY_TABLE, 17, 2, 2},      {ICL_BY_TABLE, 17, 128, 2},     {ICL_BY_TABLE, 17, 129, 1},
    };
    icl_opencl *opencl = icl_opencl_of(backend);
    unsigned *walk = &opencl->chosen.all[ICL_CHOICE_RECURRENCE];
    const unsigned chosen = *walk;

    for (size_t i = 0; opencl->lanes == 1 && i < sizeof cases / sizeof *cases; i++) {
        icl_error error = {0};
        *walk = cases[i].walk;
        const size_t launches = launches_of_recurrence(backend, cases[i].tokens, cases[i].width, &error);
        tap_ok(tap, launches == cases[i].launches, "%zu tokens, keys of %zu, way %d: %zu launches%s", cases[i].tokens,
               cases[i].width, (int)cases[i].walk, launches, error.message);
    }
    *walk = chosen;
}

/* Recurrences have two forms on GPUs, which `iclab bench` shows beside each other. The self-test of a program at its
 * first use, which takes both, leaves the chosen one chosen. */
static void check_ways(tap_run *tap, icl_backend *backend) {
    icl_opencl *opencl = icl_opencl_of(backend);
    unsigned *opened_with = &opencl->opened_with.all[ICL_CHOICE_RECURRENCE];
    const unsigned *forced = &opencl->forced[ICL_CHOICE_RECURRENCE], chosen = *opened_with;
    const char *const *names = NULL;

    *opened_with = ICL_BY_TABLE;
    const size_t ways = backend->functions->choices->ways(backend, ICL_OP_recurrence_forward, NULL, &names);
    if (tap_ok(tap, ways == (opencl->lanes == 1 ? 2 : 0), "a recurrence has %zu ways", ways) && ways > 0) {
        backend->functions->choices->choose_way(backend, ICL_OP_recurrence_forward, 1);
        tap_ok(tap, strcmp(names[1], "by chunks") == 0 && *forced == ICL_WALK_BY_CHUNKS, "the second is %s", names[1]);
        for (size_t way = 0; way < ways; way++) {
            icl_error error = {0};
            backend->functions->choices->choose_way(backend, ICL_OP_recurrence_forward, way);
            opencl->programs->tested[ICL_TESTED_RECURRENCE] = false;
            const size_t launches = launches_of_recurrence(backend, 40, 4, &error);
            tap_ok(tap, launches == way + 1, "%s at the program's first use: %zu launches%s", names[way], launches,
                   error.message);
        }
        backend->functions->choices->choose_way(backend, ICL_OP_recurrence_forward, ICL_ANY_WAY);
        tap_ok(tap, *forced == ICL_BY_TABLE, "then the length decides again");
        *opened_with = ICL_WALK_BY_TOKENS;
        tap_ok(tap, backend->functions->choices->ways(backend, ICL_OP_recurrence_forward, NULL, &names) == 0,
               "where the user chose one, there is no choice");
    }
    tap_ok(tap, backend->functions->choices->ways(backend, ICL_OP_recurrence_backward, NULL, &names) == 0,
           "backward has one way");
    *opened_with = chosen;
}

/* ---- Attention by products, in parts ---- */

/* The cases of more_cases with heads: 2 sequences of 3 heads of 7 x 10 scores, a sequence and its queries in
 * parts, and 33 of 2 heads of 2 queries. */
static void check_parts(tap_run *tap, const icl_case *cases, size_t count, icl_backend *backend) {
    const icl_choice_functions *choices = backend->functions->choices;
    size_t *const most = &icl_opencl_of(backend)->most_scores, launches[2] = {0}, run = 0, failed = 0;
    const size_t kept = *most;

    for (int parts = 0; parts < 2; parts++) {
        const uint64_t before = icl_backend_get_statistics(backend).launches;
        *most = parts ? 64 : kept;
        for (size_t i = 0; i < count; i++) {
            if (!is_one_more(&cases[i]) ||
                (cases[i].op != ICL_OP_attention_forward && cases[i].op != ICL_OP_attention_backward))
                continue;
            choices->choose_way(backend, cases[i].op, 1);
            failed += !passes(&cases[i], backend);
            choices->choose_way(backend, cases[i].op, ICL_ANY_WAY);
            run++;
        }
        launches[parts] = (size_t)(icl_backend_get_statistics(backend).launches - before);
    }
    *most = kept;
    tap_ok(tap, run == 6 && failed == 0 && launches[1] > 2 * launches[0],
           "attention by products in parts: %zu cases, %zu failed; %zu launches, %zu in parts", run, failed,
           launches[0], launches[1]);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_error error = {0};
    icl_case *cases = NULL;
    size_t count = 0;
    const size_t wanted = argc > 3 && strcmp(argv[2], "gpu") == 0 ? strtoul(argv[3], NULL, 10) : 2;
    icl_backend *backend = argc > 1 ? tap_open_device(&tap, argv[1]) : NULL;

    if (!backend)
        return tap_done(&tap);
    if (tap_status(&tap, icl_cases_create(0, &cases, &count, &error), &error, "build the cases"))
        for (size_t i = 0; i < count; i++)
            if (is_first_of_title(cases, i))
                check_title(&tap, cases, i, count, wanted, backend);
    tap_ok(&tap, icl_backend_get_statistics(backend).fallbacks == 0, "no op fell back to the host");
    check_parts(&tap, cases, count, backend);
    check_peaks(&tap, backend);
    check_ways(&tap, backend);
    check_walks(&tap, backend);
    check_passes(&tap, backend);
    check_all_were_launched(&tap, backend, argc > 2 ? argv[2] : "cpu");
    icl_backend_close(&backend);
    icl_free(&cases);
    return tap_done(&tap);
}
