/* The bounds of conformance change only on purpose: a bound that became too wide would fail no device. bounds.tsv has
 * the number of cases of each op and kind, and how wide their bounds are in bits: the mean, over cases and elements, of
 * log2(bound / (u largest)), where u is the unit roundoff of a float and largest the largest finite number of the
 * output. Values below -10 count as -10, so that the rounding of a truth near 0 has no influence. argv: bounds.tsv; or
 * "print", which prints it anew. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/case.h"
#include "core/allocate.h"
#include "iclab/file.h"
#include "tap.h"

#define NARROWEST (-10.0)
/* Allows for the table's last digit, and for the functions of another C library in 10 bits. */
#define TOLERANCE 1.5e-5

static void release(icl_truth *truth) {
    for (int i = 0; i < ICL_MAX_OPERANDS; i++) {
        icl_free(&truth->operand[i]);
        icl_free(&truth->bound[i]);
    }
}

static icl_status find_truth(const icl_case *c, icl_truth *truth, icl_error *error) {
    const icl_op_info *info = &icl_op_infos[c->op];
    float *values[ICL_MAX_OPERANDS] = {0};
    icl_status status = ICL_OK;

    for (int i = info->outputs + info->inputs - 1; i >= 0; i--) {
        const size_t count = icl_case_count(c, icl_case_is_shared(c, i) ? 0 : i);
        if (c->rank[i] < 0)
            continue;
        ICL_TRY(icl_allocate(count, sizeof(double), "truth", &truth->operand[i], error));
        if (i < info->outputs)
            ICL_TRY(icl_allocate(count, sizeof(double), "bounds", &truth->bound[i], error));
        if (icl_case_is_shared(c, i))
            continue;
        ICL_TRY(icl_allocate(count, sizeof(float), "values", &values[i], error));
        if (icl_case_is_read(c, i))
            ICL_TRY(icl_case_inputs(c, i, values, error));
        for (size_t k = 0; k < count; k++)
            truth->operand[i][k] = (double)values[i][k];
    }
    for (int i = info->outputs; i < info->outputs + info->inputs; i++)
        if (c->rank[i] >= 0 && icl_case_is_shared(c, i))
            memcpy(truth->operand[i], truth->operand[0], icl_case_count(c, 0) * sizeof(double));
    ICL_TRY(icl_describe(c->op)->truth(truth, error));
done:
    for (int i = 0; i < ICL_MAX_OPERANDS; i++)
        icl_free(&values[i]);
    return status;
}

/* Returns the mean of one case, over all outputs. */
static double bits_of(const icl_case *c, const icl_truth *truth) {
    double sum = 0;
    size_t elements = 0;

    for (int i = 0; i < icl_op_infos[c->op].outputs; i++) {
        const size_t count = c->rank[i] < 0 ? 0 : icl_case_count(c, i);
        double largest = 0;
        for (size_t k = 0; k < count; k++)
            if (isfinite(truth->operand[i][k]))
                largest = fmax(largest, fabs(truth->operand[i][k]));
        for (size_t k = 0; k < count; k++) {
            const double bits = log2(truth->bound[i][k] / (truth->unit * (largest > 0 ? largest : 1)));
            if (!isfinite(truth->operand[i][k]) || isnan(bits) || bits == (double)INFINITY)
                continue;
            sum += fmax(NARROWEST, bits);
            elements++;
        }
    }
    return elements > 0 ? sum / (double)elements : NARROWEST;
}

/* Sets *bits to the mean of the cases with the first one's title. Returns how many they are. */
static size_t measure(const icl_case *cases, size_t count, double *bits, icl_error *error) {
    size_t done = 0;
    double sum = 0;

    while (done < count && icl_case_same_title(&cases[0], &cases[done])) {
        icl_truth truth = {.c = &cases[done], .unit = (double)FLT_EPSILON / 2};
        const icl_status status = find_truth(&cases[done], &truth, error);
        sum += status == ICL_OK ? bits_of(&cases[done], &truth) : (double)NAN;
        release(&truth);
        done++;
    }
    *bits = sum / (double)done;
    return done;
}

/* Compares with the table's next line, and moves *line past it. */
static void check_title(tap_run *tap, const char **line, const char *title, size_t cases, double bits) {
    const size_t length = strlen(title);
    const bool is_there = strncmp(*line, title, length) == 0 && (*line)[length] == '\t';
    char *end = NULL;
    const size_t cases_there = is_there ? strtoul(*line + length, &end, 10) : 0;
    const double bits_there = is_there ? strtod(end, NULL) : (double)NAN;

    tap_ok(tap, cases == cases_there && fabs(bits - bits_there) < TOLERANCE,
           "%s: %zu cases of %.5f bits; the table has %zu of %.5f", title, cases, bits, cases_there, bits_there);
    *line += strcspn(*line, "\n");
    *line += **line == '\n';
}

int main(int argc, char **argv) {
    const bool prints = argc > 1 && strcmp(argv[1], "print") == 0;
    tap_run tap = {0};
    icl_error error = {0};
    icl_case *cases = NULL;
    char *table = NULL;
    const char *line;
    size_t count = 0, size;

    if (argc < 2 || icl_cases_create(0, &cases, &count, &error) != ICL_OK ||
        (!prints && icl_file_read(argv[1], 0, &table, &size, &error) != ICL_OK)) {
        tap_ok(&tap, false, "cases and a table: %s", error.message);
        return tap_done(&tap);
    }
    line = table;
    for (size_t first = 0; first < count;) {
        char title[ICL_CASE_NAME_CAPACITY];
        double bits;
        const size_t done = measure(&cases[first], count - first, &bits, &error);
        snprintf(title, sizeof title, "%.*s", (int)cases[first].title_length, cases[first].name);
        if (prints)
            printf("%s\t%zu\t%.5f\n", title, done, bits);
        else
            check_title(&tap, &line, title, done, bits);
        first += done;
    }
    icl_free(&cases);
    if (prints)
        return 0;
    tap_ok(&tap, *line == '\0', "the table ends there");
    icl_free(&table);
    return tap_done(&tap);
}
