/* Studies as files: the way from numbers to findings and figures. */
#include "papers/study_file_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numeric/statistics.h"
#include "papers/study_frame.h"

/* ---- Findings ---- */

/* Returns the name of the point in findings. */
static icl_phrase what_of(const icl_study *study, const char *cell) {
    const icl_phrase what = icl_study_join_texts(study, cell, "what");

    return what.text[0] ? what : icl_phrase_print("%s", cell);
}

/* An expression that is computed for a point: by the means over its seeds, by the numbers of one of them, or by those
 * of the best. */
typedef struct asked_value {
    const icl_study *study;
    const icl_study_cell *cell;
    icl_study_seeds seeds;
    double position;
    bool has_other, has_itself; /* it names other points, or this one behind its name */
    bool has_predictor;         /* it names numbers of reference predictors */
    bool has_number;            /* it names numbers at all */
} asked_value;

/* Returns the training of a point whose number `best` is the least; the first, if none has that number. */
static const icl_study_cell *best_training(const icl_study *study, const char *name) {
    const icl_study_file *file = icl_study_file_of(study);
    const size_t number = icl_study_numbers_find(&file->numbers, icl_recipe_text(file->values, "study", "best"));
    const icl_study_cell *best = icl_study_find_training(study, name, 0), *next;

    for (size_t i = 1; (next = icl_study_find_training(study, name, i)); i++)
        if (isnan(best->numbers[number].value) || next->numbers[number].value < best->numbers[number].value)
            best = next;
    return best;
}

/* Gives a number of a point; one that is named stands behind its own name. */
static icl_number number_of(const asked_value *asked, bool is_named, const icl_study_cell *cell, const char *name) {
    const size_t index = icl_study_numbers_find(&icl_study_file_of(asked->study)->numbers, name);

    if (asked->seeds == ICL_STUDY_BEST)
        return best_training(asked->study, cell->name)->numbers[index];
    return asked->seeds == ICL_STUDY_MEAN || is_named ? icl_over_seeds(asked->study, cell, index)
                                                      : cell->numbers[index];
}

static icl_status take_number(void *user, const char *other, const char *name, icl_number *number, icl_error *error) {
    asked_value *asked = user;
    const icl_study_cell *cell = other ? icl_study_find(asked->study, other) : asked->cell;

    (void)error;
    asked->has_other = asked->has_other || other;
    asked->has_itself = asked->has_itself || (other && strcmp(other, asked->cell->name) == 0);
    *number = (icl_number){asked->position, 0};
    if (strcmp(name, "position") == 0)
        return ICL_OK;
    if (icl_study_is_key(cell->complete, name)) {
        if (!icl_study_key_number(cell->complete, name, &number->value))
            number->value = (double)NAN;
        return ICL_OK;
    }
    asked->has_number = true;
    asked->has_predictor = asked->has_predictor || strchr(strchr(name, '/') ? strchr(name, '/') : name, '.');
    *number = number_of(asked, other != NULL, cell, name);
    return ICL_OK;
}

static icl_number compute(asked_value *asked, const char *expression) {
    icl_number value = {(double)NAN, 0};

    (void)icl_study_value_read(expression, take_number, asked, &value, NULL);
    return value;
}

/* A check or a figure at one point, and perhaps at one position: of the seeds' mean, or of a seed. */
typedef struct judged {
    icl_study *study;
    const char *section;
    const icl_study_cell *cell;
    icl_study_seeds seeds;
    const char *position; /* NULL: none */
} judged;

/* Computes an expression, which holds its position already. A mean over seeds of the point's own numbers has their
 * standard error. */
static icl_number judged_value(const judged *at, const char *expression) {
    const icl_study *study = at->study;
    asked_value asked = {.study = study,
                         .cell = at->cell,
                         .seeds = at->seeds,
                         .position = at->position ? strtod(at->position, NULL) : (double)NAN};
    const icl_number value = compute(&asked, expression);
    double *values = study->frame->scratch;
    size_t count = 0;

    asked.seeds = ICL_STUDY_EACH;
    for (size_t i = 0; i < study->count && at->seeds == ICL_STUDY_MEAN && !asked.has_other; i++)
        if (strcmp(study->cells[i]->name, at->cell->name) == 0) {
            asked.cell = study->cells[i];
            values[count++] = compute(&asked, expression).value;
        }
    return count < 2 ? value : (icl_number){icl_mean(values, count), icl_standard_error(values, count)};
}

/* Writes the text of a key with the position in it. */
static const char *text_at(const judged *at, const char *key, char text[ICL_STUDY_TEXT]) {
    const char *written = icl_study_text_of(at->study, at->section, key);

    if (at->position)
        icl_study_put_position(written, at->position, text);
    else
        snprintf(text, ICL_STUDY_TEXT, "%s", written);
    return text;
}

/* Finds the row of a table that is for the point, or for its position; false if it has none. */
static bool find_row(const judged *at, const char *table, double *value) {
    char name[ICL_STUDY_NAME];

    while (table && icl_study_target_row(&table, name, value))
        if (strcmp(name[0] == '@' ? name + 1 : name, name[0] != '@' ? at->cell->name
                                                     : at->position ? at->position
                                                                    : "") == 0)
            return true;
    return false;
}

/* Returns the number that a key has: as it is, from a table, or computed. */
static icl_number find_target(const judged *at, const char *key) {
    char text[ICL_STUDY_TEXT];
    const icl_study_target target = icl_study_target_read(text_at(at, key, text));
    icl_number row = {target.value, 0};

    if (target.kind == ICL_TARGET_TABLE &&
        !find_row(at, icl_study_text_of(at->study, at->section, key), &row.value)) /* rows name positions by @ */
        row.value = (double)NAN;
    return target.kind == ICL_TARGET_VALUE ? judged_value(at, text) : row;
}

static size_t count_seeds(const icl_study *study, const char *name) {
    size_t count = 0;

    while (icl_study_find_training(study, name, count))
        count++;
    return count;
}

/* Writes a number to four digits, and whole ones in full. */
static icl_phrase write_number(double value) {
    return icl_phrase_print(fabs(value) < 1e9 && value == floor(value) ? "%.0f" : "%.4g", value);
}

/* Writes a text with the values of the expressions in its braces; {what} is the point's name, {seed} the training's
 * seed, and {seeds} how many the point has. */
static icl_phrase write_text(const judged *at, const char *text) {
    char before[ICL_STUDY_TEXT], value[ICL_STUDY_TEXT];
    icl_phrase written = {""};
    bool has_more = true;

    while (has_more) {
        has_more = icl_study_next_braced(&text, before, value);
        const icl_phrase put = !has_more                    ? (icl_phrase){""}
                               : strcmp(value, "what") == 0 ? what_of(at->study, at->cell->name)
                               : strcmp(value, "seed") == 0 ? icl_phrase_print("%" PRIu32, at->cell->seed)
                               : strcmp(value, "seeds") == 0
                                   ? icl_phrase_print("%zu", count_seeds(at->study, at->cell->name))
                                   : write_number(judged_value(at, value).value);
        written = icl_phrase_print("%s%s%s", written.text, before, put.text);
    }
    return written;
}

/* Writes the note of the file, or else that several seeds were averaged; if some seeds gave no number, that comes
 * first. */
static icl_phrase write_note(const judged *at) {
    const icl_study *study = at->study;
    char note[ICL_STUDY_TEXT], number[ICL_STUDY_TEXT];
    const size_t seeds = at->seeds == ICL_STUDY_MEAN ? count_seeds(study, at->cell->name) : 0;
    judged seed = *at;
    size_t lost = 0;

    text_at(at, "note", note);
    text_at(at, "number", number);
    seed.seeds = ICL_STUDY_EACH;
    for (size_t i = 0; i < seeds; i++) {
        seed.cell = icl_study_find_training(study, at->cell->name, i);
        lost += !isfinite(judged_value(&seed, number).value);
    }
    if (lost > 0)
        return icl_phrase_print("%zu of %zu seeds gave no finite number", lost, seeds);
    return note[0] || seeds < 2 ? write_text(at, note) : icl_phrase_print("mean of %zu seeds", seeds);
}

static void judge_at(const judged *at) {
    icl_study *study = at->study;
    const char *section = at->section, *target = icl_study_text_of(study, section, "target");
    const char *quantity = icl_study_text_of(study, section, "quantity");
    const char *source = icl_study_text_of(study, section, "source");
    const icl_recipe *values = icl_study_file_of(study)->values;
    char number[ICL_STUDY_TEXT], what[ICL_STUDY_TEXT], tolerances[ICL_STUDY_TEXT];
    const icl_number ours = judged_value(at, text_at(at, "number", number));
    const icl_number expected = find_target(at, "target");
    const icl_phrase note = write_note(at), name = write_text(at, text_at(at, "what", what)[0] ? what : "{what}");
    const icl_evidence evidence =
        (icl_evidence)icl_recipe_choice(values, icl_study_place_of(study, section, "evidence"), "evidence");
    icl_study_tolerance tolerance;

    icl_study_tolerance_read(text_at(at, "tolerance", tolerances), &tolerance);
    const double other = tolerance.of[0] ? fabs(judged_value(at, tolerance.of).value) : 0;
    ICL_JUDGE(study, .what = name.text, .quantity = quantity[0] ? quantity : icl_study_name_in(section, "check"),
              ICL_OURS(ours), .target = expected.value,
              .tolerance = tolerance.absolute + tolerance.relative * fabs(expected.value) +
                           tolerance.errors * hypot(ours.standard_error, expected.standard_error) +
                           tolerance.of_share * other,
              .criterion = (icl_criterion)icl_recipe_choice(values, icl_study_place_of(study, section, "criterion"),
                                                            "criterion"),
              .evidence = icl_study_is_at(study, section, "judged") ? evidence : ICL_EVIDENCE_NONE,
              .source = source[0]   ? source
                        : target[0] ? target
                                    : NULL,
              .note = note.text[0] ? note.text : NULL);
}

/* Judges the mean of the seeds, each of them, the first or the best. */
static void judge_seeds(const judged *check) {
    judged at = *check;

    at.cell = icl_study_find_training(at.study, check->cell->name, 0);
    if (at.seeds != ICL_STUDY_EACH) {
        at.seeds = at.seeds == ICL_STUDY_FIRST ? ICL_STUDY_EACH : at.seeds;
        judge_at(&at);
        return;
    }
    for (size_t i = 1; at.cell; i++) {
        judge_at(&at);
        at.cell = icl_study_find_training(at.study, check->cell->name, i);
    }
}

/* Returns the position whose number is the largest, or none. */
static const char *find_largest(const judged *check, const icl_list *positions) {
    double largest = -(double)INFINITY;
    char number[ICL_STUDY_TEXT];
    judged at = *check;
    const char *found = NULL;

    for (size_t i = 0; i < positions->count; i++) {
        at.position = positions->values[i];
        const double value = judged_value(&at, text_at(&at, "number", number)).value;
        if (value <= largest)
            continue;
        largest = value;
        found = at.position;
    }
    return found;
}

/* Judges a check at a point: once, at each position, or at that of the largest number. */
static icl_status judge_check(icl_study *study, const char *section, const icl_study_cell *cell, icl_error *error) {
    const icl_recipe *values = icl_study_file_of(study)->values;
    const char *target = icl_study_text_of(study, section, "target");
    const bool is_table = icl_study_target_read(target).kind == ICL_TARGET_TABLE;
    const bool of_largest = icl_recipe_choice(values, icl_study_place_of(study, section, "position"), "position");
    judged at = {study, section, cell,
                 (icl_study_seeds)icl_recipe_choice(values, icl_study_place_of(study, section, "seeds"), "seeds"),
                 NULL};
    icl_list positions = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_study_positions(icl_study_file_of(study), study->scale, section, &positions, error));
    const char *largest = of_largest ? find_largest(&at, &positions) : NULL;
    for (size_t i = 0; i < positions.count || i == 0; i++) {
        double row;
        at.position = positions.count > 0 ? positions.values[i] : NULL;
        if ((!largest || at.position == largest) && (!is_table || find_row(&at, target, &row)))
            judge_seeds(&at);
    }
done:
    icl_list_clear(&positions);
    return status;
}

static icl_status look_for_others(void *user, const char *key, const char *expression, icl_error *error) {
    (void)key, (void)error;
    (void)compute(user, expression);
    return ICL_OK;
}

/* Judges the checks of a point. Checks that name other points wait until these are measured: they are judged if
 * `is_last`, and not at a point that they name. */
static void judge_point(icl_study *study, const icl_study_cell *cell, bool is_last) {
    const icl_study_file *file = icl_study_file_of(study);

    for (size_t i = 0; i < file->count; i++) {
        const char *section = file->sections[i].name;
        asked_value asked = {.study = study, .cell = cell};
        if (!icl_study_name_in(section, "check") || !icl_study_is_about(study, section, cell->name))
            continue;
        (void)icl_study_each_value(file, study->scale, section, look_for_others, &asked, NULL);
        if (asked.has_other == is_last && !asked.has_itself)
            ICL_STUDY_CALL(study, judge_check, study, section, cell);
    }
}

static void judge(icl_study *study, const icl_study_cell *cell) {
    judge_point(study, cell, false);
}

/* ---- Figures ---- */

/* Returns the label of the cell's curves in a figure: the value of the figure's key, or the cell's own. */
static icl_phrase curve_of(const icl_study *study, const char *section, const icl_study_cell *cell) {
    const char *text = icl_study_text_of(study, section, "curves");
    const icl_study_key key = icl_study_key_read(text);

    return text[0] ? icl_phrase_print("%s = %s", text, icl_recipe_value(cell->complete, key.section, key.name))
                   : icl_phrase_print("%s", cell->curve ? cell->curve : "");
}

/* Joins the label of a curve and of what it shows. */
static icl_phrase join(const char *curve, const char *shown) {
    return icl_phrase_print("%s%s%s", curve, curve[0] && shown[0] ? ", " : "", shown);
}

/* Returns the cell's place in a figure, which no seed decides. */
static double place_on(const judged *at) {
    judged alone = *at;

    alone.seeds = ICL_STUDY_EACH;
    return find_target(&alone, "x").value;
}

/* Adds one number of the figure at one place; numbers of predictors, and of none, are references. */
static icl_status add_number(const judged *at, const char *label, const char *number, icl_curves *curves,
                             icl_error *error) {
    asked_value asked = {.study = at->study,
                         .cell = at->cell,
                         .seeds = ICL_STUDY_EACH,
                         .position = at->position ? strtod(at->position, NULL) : (double)NAN};
    const double value = compute(&asked, number).value;

    return icl_curves_add(curves, label,
                          asked.has_predictor || !asked.has_number ? ICL_SERIES_REFERENCE
                          : at->position                           ? ICL_SERIES_LINE
                                                                   : ICL_SERIES_OURS,
                          place_on(at), value, error);
}

/* Adds the numbers of a figure, at all of its positions. */
static icl_status add_numbers(const judged *figure, icl_curves *curves, icl_error *error) {
    const icl_study *study = figure->study;
    const char *rest = icl_study_text_of(study, figure->section, "number");
    const char *labels = icl_study_text_of(study, figure->section, "labels");
    const icl_phrase curve = curve_of(study, figure->section, figure->cell);
    char one[ICL_STUDY_TEXT], label[ICL_STUDY_TEXT], value[ICL_STUDY_TEXT];
    icl_list positions = {0};
    icl_status status = ICL_OK;
    judged at = *figure;

    ICL_TRY(icl_study_positions(icl_study_file_of(study), study->scale, at.section, &positions, error));
    while (icl_study_next_value(&rest, one)) {
        const bool is_labelled = icl_study_next_value(&labels, label);
        const icl_phrase name = join(curve.text, is_labelled ? label : curve.text[0] ? "" : one);
        for (size_t i = 0; i < positions.count || i == 0; i++) {
            at.position = positions.count > 0 ? positions.values[i] : NULL;
            snprintf(value, sizeof value, "%s", one);
            if (at.position)
                icl_study_put_position(one, at.position, value);
            ICL_TRY(add_number(&at, name.text, value, curves, error));
        }
    }
done:
    icl_list_clear(&positions);
    return status;
}

/* Adds what is expected or published beside a cell, if the cell has it. */
static icl_status add_known(const judged *at, const char *key, icl_curves *curves, icl_error *error) {
    const char *text = icl_study_text_of(at->study, at->section, key);
    const char *own = icl_study_text_of(at->study, at->section, "expected_label");
    const bool is_expected = icl_study_target_read(text).kind == ICL_TARGET_VALUE;
    const double value = find_target(at, key).value;
    const char *shown = !is_expected ? "published" : own[0] ? own : text;

    if (text[0] == '\0' || (!is_expected && isnan(value)))
        return ICL_OK;
    return icl_curves_add(curves, join(curve_of(at->study, at->section, at->cell).text, shown).text,
                          is_expected ? ICL_SERIES_REFERENCE : ICL_SERIES_PUBLISHED, place_on(at), value, error);
}

/* Adds a cell to a figure, and once for all seeds what is known beside it. */
static icl_status add_cell(icl_study *study, const char *section, const icl_study_cell *cell, icl_curves *curves,
                           icl_error *error) {
    const icl_recipe *values = icl_study_file_of(study)->values;
    const bool of_best =
        icl_recipe_choice(values, icl_study_place_of(study, section, "seeds"), "seeds") == ICL_STUDY_BEST;
    const icl_study_cell *first =
        of_best ? best_training(study, cell->name) : icl_study_find_training(study, cell->name, 0);
    const judged at = {study, section, cell, ICL_STUDY_MEAN, NULL};

    if (!cell->is_wanted || !icl_study_is_about(study, section, cell->name) || (of_best && cell != first))
        return ICL_OK;
    ICL_CHECK(add_numbers(&at, curves, error));
    if (cell != first)
        return ICL_OK;
    ICL_CHECK(add_known(&at, "expected", curves, error));
    return add_known(&at, "published", curves, error);
}

static icl_status draw_figure(icl_study *study, const char *section, icl_error *error) {
    const icl_recipe *values = icl_study_file_of(study)->values;
    const char *number = icl_study_text_of(study, section, "number"), *x = icl_study_text_of(study, section, "x");
    const char *title = icl_study_text_of(study, section, "title"),
               *x_label = icl_study_text_of(study, section, "x_label");
    const char *y_label = icl_study_text_of(study, section, "y_label");
    const icl_phrase by = icl_phrase_print("%s by %s", number, x);
    icl_curves curves = {
        .figure = {.name = icl_study_name_in(section, "figure"),
                   .title = title[0] ? title : by.text,
                   .x_label = x_label[0] ? x_label : x,
                   .y_label = y_label[0] ? y_label : number,
                   .log_x = icl_recipe_flag(values, icl_study_place_of(study, section, "log_x"), "log_x"),
                   .log_y = icl_recipe_flag(values, icl_study_place_of(study, section, "log_y"), "log_y"),
                   .least_y = icl_recipe_number(values, icl_study_place_of(study, section, "least_y"), "least_y")}};
    icl_status status = ICL_OK;

    for (size_t i = 0; i < study->count; i++)
        ICL_TRY(add_cell(study, section, study->cells[i], &curves, error));
    if (curves.count > 0)
        ICL_TRY(icl_curves_draw(study->run, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

static void conclude(icl_study *study) {
    const icl_study_file *file = icl_study_file_of(study);

    for (size_t i = 0; i < study->count; i++) {
        const icl_study_cell *cell = study->cells[i];
        if (((const kept_cell *)cell)->is_chosen && icl_study_find_training(study, cell->name, 0) == cell)
            judge_point(study, cell, true);
    }
    for (size_t i = 0; i < file->count; i++)
        if (icl_study_name_in(file->sections[i].name, "figure") &&
            icl_study_is_at(study, file->sections[i].name, "scales"))
            ICL_STUDY_CALL(study, draw_figure, study, file->sections[i].name);
}

const icl_reproduction icl_study_judges = {.judge = judge, .conclude = conclude};
