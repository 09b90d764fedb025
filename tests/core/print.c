/* Numbers that the library prints have a decimal point even if the program's locale has a comma. The linker plants such
 * a locale, so that none need be installed: printing in the locale of the program writes commas. */
#include "core/print.h"

#include <locale.h>
#include <stdio.h>

#include "iclab/file.h"
#include "iclab/text.h"
#include "report/figure.h"
#include "run/evaluation.h"
#include "run/sweep/sweep.h"
#include "scratch.h"
#include "tap.h"

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
int __real_vsnprintf(char *text, size_t size, const char *format, va_list arguments);
int __wrap_vsnprintf(char *text, size_t size, const char *format, va_list arguments);
int __wrap_snprintf(char *text, size_t size, const char *format, ...);

static bool is_digit(char letter) {
    return letter >= '0' && letter <= '9';
}

int __wrap_vsnprintf(char *text, size_t size, const char *format, va_list arguments) {
    const int length = __real_vsnprintf(text, size, format, arguments);

    for (size_t i = 1; size > 0 && uselocale((locale_t)0) == LC_GLOBAL_LOCALE && i + 1 < size && text[i]; i++)
        if (text[i] == '.' && is_digit(text[i - 1]) && is_digit(text[i + 1]))
            text[i] = ',';
    return length;
}

int __wrap_snprintf(char *text, size_t size, const char *format, ...) {
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = __wrap_vsnprintf(text, size, format, arguments);
    va_end(arguments);
    return length;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static void test_texts(tap_run *tap) {
    char text[64], planted[64];
    icl_text made = {0};
    icl_error error = {0};

    snprintf(planted, sizeof planted, "%g", 0.5);
    tap_ok(tap, strcmp(planted, "0,5") == 0, "the planted locale writes %s", planted);
    icl_print(text, sizeof text, "%g", 0.5);
    tap_ok(tap, strcmp(text, "0.5") == 0, "icl_print writes %s", text);
    tap_status(tap, icl_text_print(&made, &error, "%.17g", 0.25), &error, "a text");
    tap_ok(tap, made.bytes && strcmp(made.bytes, "0.25") == 0, "a text has %s", made.bytes);
    icl_text_release(&made);
    (void)icl_fail(&error, ICL_ERROR_INPUT, "%g", 1.5);
    tap_ok(tap, strcmp(error.message, "1.5") == 0, "a message has %s", error.message);
    tap_ok(tap, strcmp(icl_loss_text(0.125, text), "0.1250") == 0, "a table has %s", text);
}

/* A range of numbers becomes values that a recipe takes; an axis has decimal points. */
static void test_files(tap_run *tap) {
    static const char text[] = "[sweep]\nrecipe = base.ini\n[grid]\ntrain.learning_rate = 0.01:0.03:0.01\n";
    const double x[] = {0.5, 1.25}, y[] = {1.5, 2.25};
    const icl_series series = {"a", ICL_SERIES_LINE, 2, x, y, NULL};
    const icl_figure figure = {
        .name = "figure", .title = "half", .x_label = "x", .y_label = "y", .count = 1, .series = &series};
    scratch_folder scratch;
    icl_sweep *sweep = NULL;
    icl_error error = {0};
    char *script = NULL;
    size_t size = 0;

    scratch_open(&scratch);
    scratch_write(&scratch, "base.ini", "[task]\nd = 3\n", 13);
    tap_status(tap, icl_file_write(scratch_path(&scratch, "grid.ini"), text, strlen(text), &error), &error, "a sweep");
    if (tap_status(tap, icl_sweep_load(scratch_path(&scratch, "grid.ini"), NULL, &sweep, &error), &error, "its range"))
        tap_ok(tap, icl_sweep_cells(sweep) == 3 && strcmp(icl_sweep_value(sweep, 1, 0), "0.02") == 0, "has %s",
               icl_sweep_value(sweep, 1, 0));
    icl_sweep_destroy(&sweep);
    tap_status(tap, icl_figure_write(&(icl_drawing){.folder = scratch.folder, .command = "test"}, &figure, &error),
               &error, "a figure");
    if (tap_status(tap, icl_file_read(scratch_path(&scratch, "figure.gp"), 0, &script, &size, &error), &error,
                   "its script"))
        tap_ok(tap, strstr(script, "set xrange [0.47:1.28]") != NULL, "has points");
    icl_text_free(&script);
    remove(scratch_path(&scratch, "figure.gp"));
    remove(scratch_path(&scratch, "figure.csv"));
    remove(scratch_path(&scratch, "grid.ini"));
    remove(scratch_path(&scratch, "base.ini"));
    scratch_close(&scratch);
}

int main(void) {
    tap_run tap = {0};

    test_texts(&tap);
    test_files(&tap);
    return tap_done(&tap);
}
