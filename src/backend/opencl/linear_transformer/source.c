/*
 * Writes the steps of a linear transformer as statements of the kernel, with places, strides and extents as constants:
 * for GPUs, whose time an interpreter wastes with reading steps, with barriers that are not needed and with loops of
 * unknown length. They are the steps that the interpreter runs, in the same order, so that the bits are the same.
 */
#include "backend/opencl/linear_transformer/source.h"

#include <stdio.h>
#include <string.h>

#include "backend/opencl/linear_transformer/placement.h"

#define NEAR_BYTES  ((size_t)4 << 10)  /* of local memory: half of the waves that GPUs hold, at 64 KiB for 16 groups */
#define MOST_BYTES  ((size_t)32 << 10) /* where two matrices and their vectors need more */
#define OWN_FLOATS  1                  /* of it that the kernel itself uses */
#define MOST_PLACED 320                /* a compiler takes seconds for these */

/* What runs a step; the memories of a product's result and of its second matrix follow some of them. */
static const char *const runners[] = {
    [STEP_TAKE] = "RUN_TAKE",
    [STEP_SCALE] = "RUN_ELEMENTWISE",
    [STEP_MULTIPLY] = "RUN_MULTIPLY(multiply_",
    [STEP_MULTIPLY_SHARED] = "RUN_MULTIPLY_SHARED(multiply_shared_",
    [STEP_GRADIENT] = "RUN_GRADIENT",
    [STEP_APPLY] = "RUN_APPLY",
    [STEP_APPLY_SHARED] = "RUN_APPLY_SHARED",
    [STEP_COPY] = "RUN_ELEMENTWISE",
    [STEP_SLOPE] = "RUN_ELEMENTWISE",
    [STEP_BROADCAST] = "RUN_ELEMENTWISE",
    [STEP_PAIR] = "RUN_ELEMENTWISE",
    [STEP_LABEL] = "RUN_ELEMENTWISE",
    [STEP_WEIGH] = "RUN_WEIGH",
    [STEP_VALUE] = "RUN_VALUE",
    [STEP_COLUMN_DOTS] = "RUN_COLUMN_DOTS",
    [STEP_ROW_SUMS] = "RUN_ROW_SUMS",
    [STEP_GRADIENT_ROW] = "RUN_GRADIENT_ROW",
    [STEP_GRADIENT_PAIR] = "RUN_GRADIENT_PAIR",
    [STEP_GRADIENT_WEIGHTS] = "RUN_GRADIENT_WEIGHTS",
};

/* Which of a step's places count parameters, or numbers in far memory: those are hidden from compilers, see STEP. */
static bool is_far(const icl_linear_placed *placed, size_t word) {
    const step *s = &placed->step;

    switch (s->kind) {
    case STEP_MULTIPLY:
        return (word == WORD_TO && placed->is_to_far) || (word == WORD_START && placed->is_second_far);
    case STEP_MULTIPLY_SHARED:
        return word == WORD_A || (word == WORD_TO && placed->is_to_far) ||
               (word == WORD_EXTRA && placed->is_second_far);
    case STEP_BROADCAST:
        return word == WORD_A;
    case STEP_APPLY_SHARED:
    case STEP_PAIR:
    case STEP_LABEL:
    case STEP_WEIGH:
    case STEP_GRADIENT_WEIGHTS:
        return word == WORD_B;
    default:
        return false;
    }
}

static icl_status print_step(icl_text *text, const icl_linear_placed *placed, icl_error *error) {
    const step *s = &placed->step;
    cl_uint words[STEP_WORDS];
    icl_status status = ICL_OK;

    if (s->kind == STEP_MORE_ROWS) {
        ICL_TRY(icl_text_print(text, error, "MORE_ROWS(%uu) }", s->rows));
        goto done;
    }
    ICL_TRY(icl_text_print(text, error, "STEP(%s", runners[s->kind]));
    if (s->kind == STEP_MULTIPLY || s->kind == STEP_MULTIPLY_SHARED)
        ICL_TRY(icl_text_print(text, error, "%s_%s, %s, %s)", placed->is_to_far ? "far" : "near",
                               placed->is_second_far ? "far" : "near", placed->is_to_far ? "far" : "state",
                               placed->is_second_far ? "far" : "state"));
    memcpy(words, s, sizeof words);
    for (size_t word = 0; word < STEP_WORDS; word++)
        ICL_TRY(icl_text_print(text, error, is_far(placed, word) ? ", FAR(%uu)" : ", %u", words[word]));
    ICL_TRY(icl_text_print(text, error, ")"));
done:
    return status;
}

static icl_status print_placed(icl_text *text, const icl_linear_placed *placed, icl_error *error) {
    icl_status status = ICL_OK;

    ICL_TRY(icl_text_print(text, error, " \\\n    %s", placed->meets ? "MEET; " : ""));
    if (placed->kind == ICL_PLACED_FETCH)
        status = icl_text_print(text, error, "FETCH_FAR(%u, %u, %uu)", placed->near, placed->far, placed->length);
    else if (placed->kind == ICL_PLACED_KEEP)
        status = icl_text_print(text, error, "KEEP_FAR(%u, %u, %uu)", placed->far, placed->near, placed->length);
    else
        status = print_step(text, placed, error);
done:
    return status;
}

static bool loops(const icl_linear_placement *placement) {
    for (size_t i = 0; i < placement->count; i++)
        if (placement->placed[i].step.kind == STEP_MORE_ROWS) /* a move has none: its kind is 0 */
            return true;
    return false;
}

icl_status icl_linear_source(const icl_linear_cut *cut, size_t local_memory, icl_text *text, icl_error *error) {
    const size_t most = local_memory < MOST_BYTES ? local_memory : MOST_BYTES;
    icl_linear_placement placement = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_linear_place(&cut->key, NEAR_BYTES / sizeof(cl_float) - OWN_FLOATS,
                             (cl_uint)(most / sizeof(cl_float)) - OWN_FLOATS, &placement, error));
    if (placement.count == 0 || placement.count > MOST_PLACED)
        goto done;
    const size_t near = placement.near_length > cut->team ? placement.near_length : cut->team;
    ICL_TRY(icl_text_print(text, error,
                           "#define TEAM_SIZE %zu\n#define ROWS %zu\n#define COLUMNS %zu\n"
                           "#define IN_LOCAL 1\n#define NEAR_FLOATS %zu\n#define STRAIGHT_STEPS",
                           cut->team, cut->rows, cut->columns, near));
    if (loops(&placement))
        ICL_TRY(icl_text_print(text, error, " FOR_MORE_ROWS {"));
    for (size_t i = 0; i < placement.count; i++)
        ICL_TRY(print_placed(text, &placement.placed[i], error));
    ICL_TRY(icl_text_print(text, error, "\n"));
done:
    icl_linear_placement_clear(&placement);
    return status;
}

void icl_linear_interpreter_definitions(const icl_linear_cut *cut, char definitions[ICL_LINEAR_DEFINITIONS]) {
    snprintf(definitions, ICL_LINEAR_DEFINITIONS,
             "#define TEAM_SIZE %zu\n#define ROWS %zu\n#define COLUMNS %zu\n#define IN_LOCAL %d\n", cut->team,
             cut->rows, cut->columns, cut->is_local);
}

const char *icl_linear_register_option(const icl_linear_key *key, const char *option) {
    return key->copy == ICL_COPY_DIAGONAL ? NULL : option;
}
