/* Studies as files: what checks and figures write as values: expressions of numbers, keys, targets, tolerances. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/print.h"
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

/* Takes an operator between blanks, one of two. */
static char take_operator(reader *text, const char *two) {
    const char sign = *text->at;

    if (sign == '\0' || !strchr(two, sign) || text->at[1] != ' ')
        return '\0';
    text->at++;
    skip_blanks(text);
    return sign;
}

/* Reads what operators stand between: a term, or also a function of sums of terms. */
typedef icl_status read_operand(reader *text, icl_number *value, icl_error *error);

static icl_status read_product(reader *text, read_operand *operand, icl_number *value, icl_error *error) {
    char sign;

    ICL_CHECK(operand(text, value, error));
    while ((sign = take_operator(text, "*/")) != '\0') {
        const icl_number a = *value;
        icl_number b;
        ICL_CHECK(operand(text, &b, error));
        if (sign == '*')
            *value = (icl_number){a.value * b.value, hypot(a.standard_error * b.value, a.value * b.standard_error)};
        else
            *value = (icl_number){a.value / b.value,
                                  hypot(a.standard_error / b.value, a.value / b.value / b.value * b.standard_error)};
    }
    return ICL_OK;
}

static icl_status read_sum(reader *text, read_operand *operand, icl_number *value, icl_error *error) {
    char sign;

    ICL_CHECK(read_product(text, operand, value, error));
    while ((sign = take_operator(text, "+-")) != '\0') {
        icl_number other;
        ICL_CHECK(read_product(text, operand, &other, error));
        value->value += sign == '+' ? other.value : -other.value;
        value->standard_error = hypot(value->standard_error, other.standard_error);
    }
    return ICL_OK;
}

/* ---- Functions ---- */

typedef enum function { LN = 0, EXACT, LEAST, LARGEST, ERRORS, FUNCTIONS } function;

static const char *const function_names[FUNCTIONS] = {"ln", "exact", "least", "largest", "errors"};

/* The size of a number that is 0 but for rounding, for `errors`. */
#define ROUNDING 1e-6

static function find_function(const char *name, size_t length) {
    function which = LN;
    while (which < FUNCTIONS &&
           (strlen(function_names[which]) != length || strncmp(function_names[which], name, length) != 0))
        which++;
    return which;
}

static icl_number apply(function which, icl_number value) {
    return which == LN      ? (icl_number){log(value.value), value.standard_error / value.value}
           : which == EXACT ? (icl_number){value.value, 0}
                            : value;
}

static icl_number combine(function which, icl_number value, icl_number other) {
    if (which == ERRORS)
        return (icl_number){
            other.value > 0 ? fabs(value.value - other.value) / value.standard_error : fabs(value.value) / ROUNDING, 0};
    return (which == LEAST ? other.value < value.value : other.value > value.value) ? other : value;
}

/* Reads a function of sums of terms, or a term. */
static icl_status read_factor(reader *text, icl_number *value, icl_error *error) {
    const size_t length = strcspn(text->at, " ,()");
    const function which = find_function(text->at, length);
    size_t count = 1;

    if (text->at[length] != '(')
        return read_term(text, value, error);
    if (which == FUNCTIONS)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "ln(VALUE), exact(VALUE), least(VALUE, VALUE), largest(VALUE, VALUE) or errors(VALUE, VALUE) "
                        "at \"%.40s\"",
                        text->at);
    text->at += length + 1;
    skip_blanks(text);
    ICL_CHECK(read_sum(text, read_term, value, error));
    for (; *text->at == ',' && which >= LEAST && (which != ERRORS || count == 1); count++) {
        icl_number other;
        text->at++;
        skip_blanks(text);
        ICL_CHECK(read_sum(text, read_term, &other, error));
        *value = combine(which, *value, other);
    }
    if (which == ERRORS && count == 1)
        return icl_fail(error, ICL_ERROR_INPUT, "errors(VALUE, VALUE), a comma at \"%.40s\"", text->at);
    if (*text->at != ')')
        return icl_fail(error, ICL_ERROR_INPUT, "a ) at \"%.40s\"", text->at);
    text->at++;
    skip_blanks(text);
    *value = apply(which, *value);
    return ICL_OK;
}

icl_status icl_study_value_read(const char *expression, icl_study_term *take, void *user, icl_number *value,
                                icl_error *error) {
    reader text = {expression, take, user};

    skip_blanks(&text);
    ICL_CHECK(read_sum(&text, read_factor, value, error));
    if (*text.at != '\0')
        return icl_fail(error, ICL_ERROR_INPUT, "+, -, * or / between blanks, or the end, before \"%.40s\"", text.at);
    return ICL_OK;
}

/* ---- Keys of recipes ---- */

bool icl_study_is_key(const char *dotted) {
    const icl_study_key key = icl_study_key_read(dotted);
    const icl_recipe_key *known;

    for (size_t i = 0;
         !strpbrk(dotted, "/@") && dotted[strlen(key.section)] == '.' && (known = icl_recipe_known_key(i)); i++)
        if (strcmp(known->section, key.section) == 0 && strcmp(known->name, key.name) == 0)
            return true;
    return false;
}

icl_study_key icl_study_key_read(const char *dotted) {
    icl_study_key key = {""};

    snprintf(key.section, sizeof key.section, "%.*s", (int)strcspn(dotted, "."), dotted);
    key.name = dotted + strlen(key.section) + (dotted[strlen(key.section)] == '.');
    return key;
}

bool icl_study_key_number(const icl_recipe *recipe, const char *dotted, double *number) {
    const icl_study_key key = icl_study_key_read(dotted);
    const char *value = icl_recipe_value(recipe, key.section, key.name), *colon = strrchr(value, ':');

    value = colon ? colon + 1 : value;
    return icl_parse_number(value, strlen(value), number);
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

/* Returns the length of "k" or "2k" behind an @, and the number before the k; 0 if there is neither. */
static size_t read_place(const char *text, double *times) {
    const size_t digits = strspn(text, "0123456789");

    *times = 1;
    if (text[digits] != 'k' || isalnum((unsigned char)text[digits + 1]) || text[digits + 1] == '_')
        return 0;
    return digits == 0 || icl_parse_number(text, digits, times) ? digits + 1 : 0;
}

void icl_study_put_position(const char *expression, const char *position, char value[ICL_STUDY_TEXT]) {
    size_t used = 0;

    value[0] = '\0';
    for (const char *at = expression; *at && used + 1 < ICL_STUDY_TEXT; used += strlen(value + used)) {
        double times = 1, place;
        const size_t length = *at == '@' ? read_place(at + 1, &times) : 0;
        const size_t other = length > 0 ? 0 : 1 + strcspn(at + 1, "@"); /* bytes up to the next @ */
        if (times != 1 && icl_parse_number(position, strlen(position), &place))
            icl_print(value + used, ICL_STUDY_TEXT - used, "@%.17g", times * place);
        else
            snprintf(value + used, ICL_STUDY_TEXT - used, "%s%.*s", length > 0 ? "@" : "",
                     length > 0 ? (int)strlen(position) : (int)other, length > 0 ? position : at);
        at += length > 0 ? 1 + length : other;
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

/* Reads "of VALUE" behind a share; true if there is none. Only one term of a tolerance may have it. */
static bool read_share(const char **rest, double share, icl_study_tolerance *tolerance) {
    const char *value = *rest + 3, *end = strstr(value, " + ");
    const size_t length = end ? (size_t)(end - value) : strlen(value);

    if (tolerance->of[0] || length == 0 || length >= sizeof tolerance->of)
        return false;
    snprintf(tolerance->of, sizeof tolerance->of, "%.*s", (int)length, value);
    tolerance->of_share = share;
    *rest = value + length;
    return true;
}

bool icl_study_tolerance_read(const char *text, icl_study_tolerance *tolerance) {
    *tolerance = (icl_study_tolerance){.absolute = 0};
    for (text += strspn(text, " "); *text;) {
        const size_t length = strcspn(text, " +%s"); /* length of the number; %, se, or neither follows */
        double value;
        if (!icl_parse_number(text, length, &value) || !(value >= 0))
            return false;
        text += length;
        text += strspn(text, " ");
        const bool is_relative = *text == '%', is_error = strncmp(text, "se", 2) == 0;
        text += is_relative ? 1 : is_error ? 2 : 0;
        text += strspn(text, " ");
        if (is_relative && strncmp(text, "of ", 3) == 0) {
            if (!read_share(&text, value / 100, tolerance))
                return false;
        } else {
            *(is_relative ? &tolerance->relative
              : is_error  ? &tolerance->errors
                          : &tolerance->absolute) += is_relative ? value / 100 : value;
        }
        text += strspn(text, " ");
        if (*text && (*text != '+' || !text[1]))
            return false;
        text += *text == '+';
        text += strspn(text, " ");
    }
    return true;
}
