#include "report/axis.h"

#include <math.h>

/* Room at either end, as a share of what the values span. */
#define ROOM 0.04

/* About so many numbers stand on an axis. */
#define MOST_NUMBERS 8

/* A logarithmic axis has powers of ten alone from so many decades on. */
#define MANY_DECADES 2.5

icl_figure_axis icl_figure_axis_create(bool is_log) {
    return (icl_figure_axis){.low = HUGE_VAL, .high = -HUGE_VAL, .is_log = is_log, .is_whole = true};
}

void icl_figure_axis_add(icl_figure_axis *axis, const double *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(values[i]) || (axis->is_log && values[i] <= 0))
            continue;
        axis->low = fmin(axis->low, values[i]);
        axis->high = fmax(axis->high, values[i]);
        axis->is_whole = axis->is_whole && values[i] == floor(values[i]);
    }
}

static bool has_values(const icl_figure_axis *axis) {
    return axis->low <= axis->high;
}

/* The least of 1, 2, 5, 10, 20, … that is not below the value. */
static double round_up(double value) {
    const double power = pow(10, floor(log10(value)));
    return value <= power ? power : value <= 2 * power ? 2 * power : value <= 5 * power ? 5 * power : 10 * power;
}

static icl_status write_range(const char *name, double low, double high, icl_text *script, icl_error *error) {
    if (!isfinite(low) || !isfinite(high)) /* values at the edge of double precision: gnuplot's own range */
        return ICL_OK;
    /* Values that have more than three digits in common need all of theirs. */
    const int digits = high - low > 1e-3 * fmax(fabs(low), fabs(high)) ? 10 : 17;
    return icl_text_print(script, error, "set %srange [%.*g:%.*g]\n", name, digits, low, digits, high);
}

static icl_status write_linear(const icl_figure_axis *axis, const char *name, bool wants_whole, icl_text *script,
                               icl_error *error) {
    /* One value alone is given a range of its own size about it. */
    const double span = axis->high > axis->low ? axis->high - axis->low : axis->high != 0 ? fabs(axis->high) : 1;
    const double room = axis->high > axis->low ? ROOM * span : span / 2;
    double step = round_up(span / MOST_NUMBERS);

    if (wants_whole && axis->is_whole)
        step = fmax(step, 1);
    ICL_CHECK(write_range(name, axis->low - room, axis->high + room, script, error));
    return icl_text_print(script, error, "set %stics %.10g\n", name, step);
}

/* Numbers at the multiples of powers of ten that lie in the range: 1, 2 and 5, or, in a narrow one, steps as on a plain
 * axis. */
static icl_status write_few_decades(double low, double high, const char *name, icl_text *script, icl_error *error) {
    static const int multiples[] = {1, 2, 5};
    const int first = (int)floor(log10(low)), last = (int)floor(log10(high));
    const double step = round_up((high - low) / MOST_NUMBERS), least = ceil(low / step);
    const char *before = "(";
    size_t count = 0;

    ICL_CHECK(icl_text_print(script, error, "set %stics ", name));
    for (int i = 0; i < 3 * (last - first + 1); i++) {
        const int power = first + i / 3;
        const double value = multiples[i % 3] * pow(10, power);
        count += value >= low && value <= high;
    }
    for (int i = 0; i < 3 * (last - first + 1) && count >= 3; i++) {
        const int power = first + i / 3;
        const double value = multiples[i % 3] * pow(10, power);
        if (value < low || value > high)
            continue;
        ICL_CHECK(icl_text_print(script, error, "%s%.10g", before, value));
        before = ", ";
    }
    for (int i = 0; count < 3 && (least + i) * step <= high; i++) {
        ICL_CHECK(icl_text_print(script, error, "%s%.6g", before, (least + i) * step));
        before = ", ";
    }
    return icl_text_print(script, error, ")\n");
}

static icl_status write_logarithmic(const icl_figure_axis *axis, const char *name, icl_text *script, icl_error *error) {
    const double decades = log10(axis->high / axis->low);
    const double room = pow(10, decades > 0.25 ? ROOM * decades : 0.15);
    const double low = axis->low / room, high = axis->high * room;

    ICL_CHECK(icl_text_print(script, error, "set logscale %s\n", name));
    ICL_CHECK(write_range(name, low, high, script, error));
    if (decades < MANY_DECADES)
        return write_few_decades(low, high, name, script, error);
    return icl_text_print(script, error, "set %stics %.10g\n", name, pow(10, ceil(decades / MOST_NUMBERS)));
}

icl_status icl_figure_axis_write(const icl_figure_axis *axis, const char *name, bool wants_whole, icl_text *script,
                                 icl_error *error) {
    if (!has_values(axis))
        return write_range(name, 0, 1, script, error);
    return axis->is_log ? write_logarithmic(axis, name, script, error)
                        : write_linear(axis, name, wants_whole, script, error);
}
