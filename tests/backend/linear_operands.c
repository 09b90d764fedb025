/* The operands that each step of a linear transformer reads and writes, according to the table in
 * cl/linear_transformer/linear_steps.h. No device is needed. */
#include <string.h>

#include "backend/opencl/linear_transformer/linear_transformer.h"
#include "tap.h"

enum { ROWS = 5, COLUMNS = 3, DEPTH = 2 };

/* Operands by their letters: to, a, b, start (s), extra (x). */
static const struct {
    const char *what;
    cl_uint kind, mode, depth;
    const char *read;
    cl_uint to, extra; /* the number of elements written there */
    const char *far;   /* operands that need not be in local memory; NULL: none */
} rows[] = {
    {"take", STEP_TAKE, 0, DEPTH, "", ROWS *COLUMNS, 0},
    {"more rows", STEP_MORE_ROWS, 0, DEPTH, "", 0, 0},
    {"scale", STEP_SCALE, 0, DEPTH, "t", ROWS *COLUMNS, 0},
    {"multiply", STEP_MULTIPLY, START_NONE, DEPTH, "ab", ROWS *ROWS, 0, "t"},
    {"multiply onto itself", STEP_MULTIPLY, START_SELF, DEPTH, "abt", ROWS *ROWS, 0, "t"},
    {"multiply onto both sides", STEP_MULTIPLY, START_TWO_SIDED, DEPTH, "abs", ROWS *ROWS, 0, "ts"},
    {"an outer product alone", STEP_MULTIPLY, START_OUTER, 0, "sx", ROWS *ROWS, 0, "t"},
    {"multiply shared", STEP_MULTIPLY_SHARED, START_NONE, DEPTH, "b", ROWS *ROWS, 0, "t"},
    {"multiply shared onto itself", STEP_MULTIPLY_SHARED, START_SELF, DEPTH, "bt", ROWS *ROWS, 0, "t"},
    {"multiply shared, twice", STEP_MULTIPLY_SHARED, MODE_TWICE, DEPTH, "b", ROWS *ROWS, ROWS *ROWS, "tx"},
    {"gradient", STEP_GRADIENT, 0, DEPTH, "ab", 0, 0},
    {"apply", STEP_APPLY, START_NONE, DEPTH, "ab", ROWS *COLUMNS, 0},
    {"apply onto rows", STEP_APPLY, START_GIVEN, DEPTH, "abs", ROWS *COLUMNS, 0},
    {"apply shared onto rows", STEP_APPLY_SHARED, START_GIVEN, DEPTH, "as", ROWS *COLUMNS, 0},
    {"copy", STEP_COPY, 0, DEPTH, "a", ROWS *COLUMNS, 0},
    {"slope", STEP_SLOPE, 0, DEPTH, "a", ROWS *COLUMNS, 0},
    {"broadcast", STEP_BROADCAST, 0, DEPTH, "", ROWS *COLUMNS, 0},
    {"pair", STEP_PAIR, START_GIVEN, DEPTH, "as", ROWS *COLUMNS, 0},
    {"label", STEP_LABEL, 0, DEPTH, "", ROWS *COLUMNS, 0},
    {"weigh", STEP_WEIGH, 0, DEPTH, "a", ROWS *COLUMNS, 0},
    {"value", STEP_VALUE, 0, DEPTH, "abs", 0, 0},
    {"column dots", STEP_COLUMN_DOTS, 0, DEPTH, "ab", COLUMNS, 0},
    {"row sums", STEP_ROW_SUMS, 0, DEPTH, "ab", 2 * ROWS, 0},
    {"gradient of a row", STEP_GRADIENT_ROW, 0, DEPTH, "a", 0, 0},
    {"gradient of a pair", STEP_GRADIENT_PAIR, 0, DEPTH, "a", 0, 0},
    {"gradient of weights", STEP_GRADIENT_WEIGHTS, 0, DEPTH, "a", 0, 0},
};

/* Returns whether `is_chosen` holds for exactly the operands of these letters, each once at most. */
static bool are(const icl_linear_step *s, const icl_linear_operand *operands, size_t count, const char *letters,
                bool (*is_chosen)(const icl_linear_operand *operand)) {
    const struct {
        const cl_uint *place;
        char letter;
    } places[] = {{&s->to, 't'}, {&s->a, 'a'}, {&s->b, 'b'}, {&s->start, 's'}, {&s->extra, 'x'}};
    size_t known = 0, chosen = 0;

    for (size_t i = 0; i < count; i++)
        chosen += is_chosen(&operands[i]);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        for (size_t k = 0; k < count; k++)
            known += is_chosen(&operands[k]) && operands[k].place == places[i].place &&
                     strchr(letters, places[i].letter) != NULL;
    return chosen == strlen(letters) && known == chosen;
}

static bool is_read(const icl_linear_operand *operand) {
    return operand->is_read;
}

static bool may_be_far(const icl_linear_operand *operand) {
    return operand->may_be_far;
}

static cl_uint written_at(const icl_linear_operand *operands, size_t count, const cl_uint *place) {
    cl_uint written = 0;
    for (size_t i = 0; i < count; i++)
        written += operands[i].place == place ? operands[i].written : 0;
    return written;
}

int main(void) {
    tap_run tap = {0};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        icl_linear_step s = {
            .kind = rows[i].kind, .mode = rows[i].mode, .rows = ROWS, .columns = COLUMNS, .depth = rows[i].depth};
        icl_linear_operand operands[ICL_LINEAR_OPERANDS] = {{0}};
        const size_t count = icl_linear_operands_of(&s, operands);
        const cl_uint to = written_at(operands, count, &s.to), extra = written_at(operands, count, &s.extra);

        const char *far = rows[i].far ? rows[i].far : "";
        tap_ok(&tap, are(&s, operands, count, rows[i].read, is_read), "%s reads '%s'", rows[i].what, rows[i].read);
        tap_ok(&tap, to == rows[i].to && extra == rows[i].extra, "and writes %u and %u elements", to, extra);
        tap_ok(&tap, are(&s, operands, count, far, may_be_far), "and '%s' may be far", far);
    }
    return tap_done(&tap);
}
