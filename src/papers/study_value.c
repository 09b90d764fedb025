/* Studies as files: what checks and figures write as values: expressions of numbers, targets, tolerances. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "iclab/number.h"
#include "papers/study_file_parts.h"

/* ---- Expressions ---- */

typedef struct reader {
    const char *at;
    icl_study_term *take;
    void *user;
} reader;

static void skip_blanks(reader *text) {
    text->at += strspn(text->at, " ");
}

/* Copies the next word, which ends at a blank, a comma or a parenthesis. */
static size_t take_word(reader *text, char word[ICL_STUDY_NAME]) {
    const size_t length = strcspn(text->at, " ,()");

    snprintf(word, ICL_STUDY_NAME, "%.*s", (int)length, text->at);
    text->at += length;
    skip_blanks(text);
    return length;
}

/* Reads a number as digits, or by its name, perhaps behind a cell's: "n-10: ols.mse". */
static icl_status read_term(reader *text, icl_number *value, icl_error *error) {
    char word[ICL_STUDY_NAME], cell[ICL_STUDY_NAME] = "";
    size_t length = take_word(text, word);

    *value = (icl_number){0, 0};
    if (length == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "a number at \"%.40s\"", text->at);
    if (icl_parse_number(word, length, &value->value))
        return ICL_OK;
    if (word[length < ICL_STUDY_NAME ? length - 1 : 0] == ':') {
        snprintf(cell, sizeof cell, "%.*s", (int)length - 1, word);
        length = take_word(text, word);
    }
    if (length == 0 || length >= ICL_STUDY_NAME)
        return icl_fail(error, ICL_ERROR_INPUT, "a number's name of at most %d bytes", ICL_STUDY_NAME - 1);
    return text->take(text->user, cell[0] ? cell : NULL, word, value, error);
}

/* Reads ln(TERM), least(TERM, TERM), or a term. */
static icl_status read_factor(reader *text, icl_number *value, icl_error *error) {
    const size_t length = strcspn(text->at, " ,()");
    const bool is_ln = strncmp(text->at, "ln(", 3) == 0, is_least = strncmp(text->at, "least(", 6) == 0;

    if (text->at[length] == '(' && !is_ln && !is_least)
        return icl_fail(error, ICL_ERROR_INPUT, "ln(NUMBER) or least(NUMBER, NUMBER) at \"%.40s\"", text->at);
    if (!is_ln && !is_least)
        return read_term(text, value, error);
    text->at += length + 1;
    skip_blanks(text);
    ICL_CHECK(read_term(text, value, error));
    while (is_least && *text->at == ',') {
        icl_number other;
        text->at++;
        skip_blanks(text);
        ICL_CHECK(read_term(text, &other, error));
        *value = other.value < value->value ? other : *value;
    }
    if (*text->at != ')')
        return icl_fail(error, ICL_ERROR_INPUT, "a ) at \"%.40s\"", text->at);
    text->at++;
    skip_blanks(text);
    if (is_ln)
        *value = (icl_number){log(value->value), value->standard_error / value->value};
    return ICL_OK;
}

/* Takes an operator between blanks, one of two. */
static char take_operator(reader *text, const char *two) {
    const char sign = *text->at;

    if (sign == '\0' || !strchr(two, sign) || text->at[1] != ' ')
        return '\0';
    text->at++;
    skip_blanks(text);
    return sign;
}

static icl_status read_product(reader *text, icl_number *value, icl_error *error) {
    char sign;

    ICL_CHECK(read_factor(text, value, error));
    while ((sign = take_operator(text, "*/")) != '\0') {
        const icl_number a = *value;
        icl_number b;
        ICL_CHECK(read_factor(text, &b, error));
        if (sign == '*')
            *value = (icl_number){a.value * b.value, hypot(a.standard_error * b.value, a.value * b.standard_error)};
        else
            *value = (icl_number){a.value / b.value,
                                  hypot(a.standard_error / b.value, a.value / b.value / b.value * b.standard_error)};
    }
    return ICL_OK;
}

icl_status icl_study_value_read(const char *expression, icl_study_term *take, void *user, icl_number *value,
                                icl_error *error) {
    reader text = {expression, take, user};
    char sign;

    skip_blanks(&text);
    ICL_CHECK(read_product(&text, value, error));
    while ((sign = take_operator(&text, "+-")) != '\0') {
        icl_number other;
        ICL_CHECK(read_product(&text, &other, error));
        value->value += sign == '+' ? other.value : -other.value;
        value->standard_error = hypot(value->standard_error, other.standard_error);
    }
    if (*text.at != '\0')
        return icl_fail(error, ICL_ERROR_INPUT, "+, -, * or / between blanks, or the end, before \"%.40s\"", text.at);
    return ICL_OK;
}

/* ---- Lists of expressions, and texts that hold some ---- */

/* Reads the next value of a list; commas in parentheses belong to a value. */
bool icl_study_next_value(const char **rest, char value[ICL_STUDY_TEXT]) {
    const char *text = *rest + strspn(*rest, " ");
    size_t length = 0;
    int depth = 0;

    for (; text[length] && (text[length] != ',' || depth > 0); length++)
        depth += (text[length] == '(') - (text[length] == ')');
    *rest = text + length + (text[length] == ',');
    while (length > 0 && text[length - 1] == ' ')
        length--;
    snprintf(value, ICL_STUDY_TEXT, "%.*s", (int)length, text);
    return length > 0;
}

bool icl_study_next_braced(const char **rest, char before[ICL_STUDY_TEXT], char value[ICL_STUDY_TEXT]) {
    const char *open = strchr(*rest, '{'), *end = open ? strchr(open, '}') : NULL;

    snprintf(before, ICL_STUDY_TEXT, "%.*s", (int)(end ? open - *rest : (ptrdiff_t)strlen(*rest)), *rest);
    if (end)
        snprintf(value, ICL_STUDY_TEXT, "%.*s", (int)(end - open - 1), open + 1);
    *rest = end ? end + 1 : *rest + strlen(*rest);
    return end != NULL;
}

/* The word that stands for each of a figure's positions in its numbers: "mse@k". */
#define ANY_POSITION "@k"

void icl_study_put_position(const char *expression, const char *position, char value[ICL_STUDY_TEXT]) {
    size_t used = 0;

    for (const char *at = expression; used + 1 < ICL_STUDY_TEXT; used = strlen(value)) {
        const char *place = strstr(at, ANY_POSITION);
        snprintf(value + used, ICL_STUDY_TEXT - used, "%.*s%s%s", (int)(place ? place - at : (ptrdiff_t)strlen(at)), at,
                 place ? "@" : "", place ? position : "");
        if (!place)
            return;
        at = place + strlen(ANY_POSITION);
    }
}

/* ---- Targets ---- */

bool icl_study_target_row(const char **rest, char cell[ICL_STUDY_NAME], double *value) {
    const char *text = *rest + strspn(*rest, " "), *colon = strstr(text, ": ");
    const size_t length = strcspn(text, ",");

    *rest = text[length] == ',' ? text + length + 1 : NULL;
    if (!colon || colon >= text + length)
        return false;
    snprintf(cell, ICL_STUDY_NAME, "%.*s", (int)(colon - text), text);
    colon += 1 + strspn(colon + 1, " ");
    return icl_parse_number(colon, (size_t)(text + length - colon), value);
}

icl_study_target icl_study_target_read(const char *text) {
    icl_study_target target = {0};
    char cell[ICL_STUDY_NAME];
    const char *rest = text;

    if (text[0] == '\0')
        return target;
    target.kind = icl_study_target_row(&rest, cell, &target.value)      ? ICL_TARGET_TABLE
                  : icl_parse_number(text, strlen(text), &target.value) ? ICL_TARGET_NUMBER
                                                                        : ICL_TARGET_VALUE;
    return target;
}

bool icl_study_tolerance_read(const char *text, icl_study_tolerance *tolerance) {
    *tolerance = (icl_study_tolerance){0, 0, 0};
    for (text += strspn(text, " "); *text;) {
        const size_t length = strcspn(text, " +%s"); /* length of the number; %, se, or neither follows */
        double value;
        if (!icl_parse_number(text, length, &value) || !(value >= 0))
            return false;
        text += length;
        text += strspn(text, " ");
        const bool is_relative = *text == '%', is_error = strncmp(text, "se", 2) == 0;
        *(is_relative ? &tolerance->relative
          : is_error  ? &tolerance->errors
                      : &tolerance->absolute) += is_relative ? value / 100 : value;
        text += is_relative ? 1 : is_error ? 2 : 0;
        text += strspn(text, " ");
        if (*text && (*text != '+' || !text[1]))
            return false;
        text += *text == '+';
        text += strspn(text, " ");
    }
    return true;
}
