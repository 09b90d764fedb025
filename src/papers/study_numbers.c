/* Studies as files: expressions of numbers, keys, targets and tolerances; and how numbers are found and measured. */
#include "papers/study_file_parts.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/nearest.h"
#include "iclab/number.h"
#include "papers/measures.h"
#include "run/evaluation.h"
#include "run/metrics.h"
#include "run/recipe_keys.h"

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

bool icl_study_is_key(const icl_recipe *recipe, const char *dotted) {
    const icl_study_key key = icl_study_key_read(dotted);

    return !strpbrk(dotted, "/@") && dotted[strlen(key.section)] == '.' &&
           icl_recipe_value(recipe, key.section, key.name);
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

/* ---- Numbers by their names: quantities ---- */

enum { NOWHERE = 0 }; /* no number has the offset 0 in a score */

/* What an evaluation must have for a quantity to exist. */
typedef enum need { ANYTHING = 0, CLASSES, ORACLE, TRAINING, PARAMETERS, IN_BLOCKS, MACRO, ASKED } need;

/* A quantity, with the offsets of its value and its standard error in a score, and in that of a position. */
typedef struct quantity {
    const char *name;
    need needs;
    bool is_of_reference; /* only of reference predictors, not of the model */
    size_t value, error, value_at, error_at;
    bool is_half; /* half of the number at the offset */
} quantity;

#define IN(member) offsetof(icl_score, member)
#define AT(member) offsetof(icl_position_score, member)

static const quantity quantities[] = {
    {"mse", ANYTHING, false, IN(mse), IN(se), AT(loss), AT(se)},
    {"loss", ANYTHING, false, IN(mse), IN(se), AT(loss), AT(se)},
    {"half_mse", ANYTHING, false, IN(mse), IN(se), AT(loss), AT(se), true},
    {"accuracy", CLASSES, false, IN(accuracy), NOWHERE, AT(accuracy), NOWHERE},
    {"minus_model", ANYTHING, true, IN(minus_model), IN(minus_model_se), AT(minus_model), AT(minus_model_se)},
    {"adjusted", ORACLE, false, IN(adjusted), IN(adjusted_se), NOWHERE, NOWHERE},
    {"half_adjusted", ORACLE, false, IN(half_adjusted), IN(half_adjusted_se), NOWHERE, NOWHERE},
    {"half_minus_model", ORACLE, true, IN(half_minus_model), IN(half_minus_model_se), NOWHERE, NOWHERE},
    {"half_above_bayes", ORACLE, false, IN(half_above_bayes), NOWHERE, NOWHERE, NOWHERE},
    {"adjusted_median", ORACLE, false, IN(adjusted_median), NOWHERE, NOWHERE, NOWHERE},
    {"adjusted_trimmed", ORACLE, false, IN(adjusted_trimmed), NOWHERE, NOWHERE, NOWHERE},
    {"final_loss", TRAINING, false, NOWHERE, NOWHERE, NOWHERE, NOWHERE},
    {"parameters", PARAMETERS, false, NOWHERE, NOWHERE, NOWHERE, NOWHERE},
    {"parameters_in_blocks", IN_BLOCKS, false, NOWHERE, NOWHERE, NOWHERE, NOWHERE},
    {"macro_accuracy", MACRO, false, NOWHERE, NOWHERE, NOWHERE, NOWHERE},
    {"classes", ASKED, false, NOWHERE, NOWHERE, NOWHERE, NOWHERE},
};
enum { QUANTITIES = sizeof quantities / sizeof *quantities };

/* Positions of a number without any. */
#define EVERYWHERE UINT64_MAX

struct icl_study_number {
    char *name;       /* "shifted/ols.mse@5" */
    char *evaluation; /* "shifted"; may be empty */
    char *predictor;  /* "ols", "model" */
    const quantity *quantity;
    unsigned scales;         /* that name it, a bit for each */
    uint64_t position, last; /* the mean from one to the other; `last` may be EVERYWHERE: to the end */
};

/* Returns whether it is a number of the training or of the model alone, and not of an evaluation. */
static bool is_of_training(const quantity *of) {
    return of->needs >= TRAINING;
}

static const quantity *find_quantity(const char *name, size_t length) {
    for (size_t i = 0; i < QUANTITIES; i++)
        if (strlen(quantities[i].name) == length && strncmp(quantities[i].name, name, length) == 0)
            return &quantities[i];
    return NULL;
}

/* Refuses a name with the nearest of "mse", "accuracy", ... to its last part. */
static icl_status refuse(const char *name, icl_error *error) {
    const char *names[QUANTITIES];

    for (size_t i = 0; i < QUANTITIES; i++)
        names[i] = quantities[i].name;
    const char *dot = strrchr(name, '.'), *word = dot ? dot + 1 : name;
    return icl_fail(error, ICL_ERROR_INPUT, "NUMBER or PREDICTOR.NUMBER; the nearest known number is %s",
                    icl_nearest(word, names, QUANTITIES));
}

/* Reads what stands behind @: 5, 5..9, or 5.. for all from 5 on. */
static bool read_places(const char *text, struct icl_study_number *number) {
    const char *range = strstr(text, "..");
    const size_t length = range ? (size_t)(range - text) : strlen(text);

    if (!icl_parse_count(text, length, &number->position))
        return false;
    number->last = range ? EVERYWHERE : number->position;
    return !range || !range[2] ||
           (icl_parse_count(range + 2, strlen(range + 2), &number->last) && number->last >= number->position);
}

/* Reads the parts of a name. */
static icl_status read_name(const char *whole, struct icl_study_number *number, icl_error *error) {
    const char *slash = strchr(whole, '/'), *name = slash ? slash + 1 : whole, *word = name;
    const size_t length = strcspn(name, "@");

    for (const char *c = name; c < name + length; c++)
        word = *c == '.' ? c + 1 : word;
    number->quantity = find_quantity(word, (size_t)(name + length - word));
    if (!number->quantity)
        return refuse(name, error);
    if (name[length] == '@' && number->quantity->value_at == NOWHERE)
        return icl_fail(error, ICL_ERROR_INPUT, "mse, loss, accuracy or minus_model before @POSITION");
    number->position = EVERYWHERE;
    if (name[length] == '@' && !read_places(name + length + 1, number))
        return icl_fail(error, ICL_ERROR_INPUT, "a position behind @, counted from 0, or FIRST..LAST or FIRST..");
    if (number->quantity->is_of_reference && word == name)
        return icl_fail(error, ICL_ERROR_INPUT, "PREDICTOR.%s: it is a predictor's, less the model's",
                        number->quantity->name);
    if (is_of_training(number->quantity) && word > whole)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: it is that of the training", number->quantity->name);
    ICL_CHECK(icl_duplicate(word > name ? name : "model", &number->predictor, error));
    if (word > name)
        number->predictor[word - name - 1] = '\0';
    ICL_CHECK(icl_duplicate(slash ? whole : "", &number->evaluation, error));
    if (slash)
        number->evaluation[slash - whole] = '\0';
    return icl_duplicate(whole, &number->name, error);
}

/* ---- The table of numbers ---- */

size_t icl_study_numbers_find(const icl_study_numbers *numbers, const char *name) {
    size_t i = 0;
    while (i < numbers->count && strcmp(numbers->rows[i].name, name) != 0)
        i++;
    return i;
}

static void release_number(struct icl_study_number *number) {
    icl_free(&number->name);
    icl_free(&number->evaluation);
    icl_free(&number->predictor);
}

icl_status icl_study_numbers_add(icl_study_numbers *numbers, const char *name, icl_error *error) {
    struct icl_study_number number = {0};
    icl_status status = ICL_OK;

    if (icl_study_numbers_find(numbers, name) < numbers->count)
        return ICL_OK;
    ICL_TRY(icl_grow(&numbers->rows, numbers->count, &numbers->capacity, sizeof number, "numbers", error));
    ICL_TRY(read_name(name, &number, error));
    numbers->rows[numbers->count++] = number;
    number = (struct icl_study_number){0};
done:
    release_number(&number);
    return status;
}

void icl_study_numbers_release(icl_study_numbers *numbers) {
    for (size_t i = 0; i < numbers->count; i++)
        release_number(&numbers->rows[i]);
    icl_free(&numbers->rows);
    *numbers = (icl_study_numbers){0};
}

const char *icl_study_numbers_evaluation(const icl_study_numbers *numbers, size_t number) {
    return numbers->rows[number].evaluation;
}

static bool is_of_model(const struct icl_study_number *number) {
    return strcmp(number->predictor, "model") == 0;
}

/* Returns the length of a predictor's name before its *, which stands for any argument: "polynomial:*". */
static size_t length_before_star(const char *predictor) {
    const size_t length = strlen(predictor);
    return length > 0 && predictor[length - 1] == '*' ? length - 1 : SIZE_MAX;
}

static bool is_listed(const icl_task *task, const char *list, const char *predictor) {
    const size_t length = length_before_star(predictor);

    if (length == SIZE_MAX)
        return icl_reference_is_listed(task, list, predictor);
    return strstr(list, ICL_PHRASE("%.*s", (int)length, predictor)) != NULL;
}

static const icl_score *find_score(const icl_evaluation *evaluation, const char *predictor) {
    const size_t length = length_before_star(predictor);

    for (size_t i = 0; length < SIZE_MAX && i < evaluation->count; i++)
        if (strncmp(evaluation->scores[i].predictor, predictor, length) == 0)
            return &evaluation->scores[i];
    return icl_reproduce_score(evaluation, predictor);
}

icl_status icl_study_numbers_check(const icl_study_numbers *numbers, size_t index, const icl_task *task,
                                   const icl_recipe *recipe, icl_error *error) {
    const struct icl_study_number *number = &numbers->rows[index];
    const icl_task_shape *shape = icl_task_get_shape(task);
    const char *listed = icl_evaluation_read(recipe).predictors;

    if ((number->quantity->needs == CLASSES || number->quantity->needs >= MACRO) && !icl_loss_has_accuracy(shape->loss))
        return icl_fail(error, ICL_ERROR_INPUT, "another number: the task's loss, %s, has no accuracy",
                        icl_loss_name(shape->loss));
    if (number->quantity->needs == ORACLE && !icl_task_get_prior(task))
        return icl_fail(error, ICL_ERROR_INPUT, "another number, such as mse: the task has no oracle");
    if (number->position != EVERYWHERE && shape->scored == 1)
        return icl_fail(error, ICL_ERROR_INPUT, "it without @: the task scores one position");
    if (number->position != EVERYWHERE &&
        (number->position < shape->first_scored || number->position >= shape->first_scored + shape->scored ||
         (number->last != EVERYWHERE && number->last >= shape->first_scored + shape->scored)))
        return icl_fail(error, ICL_ERROR_INPUT, "a scored position, %zu to %zu", shape->first_scored,
                        shape->first_scored + shape->scored - 1);
    if (!is_of_model(number) && !is_listed(task, listed, number->predictor))
        return icl_fail(error, ICL_ERROR_INPUT, "a predictor of eval.predictors = %s", listed[0] ? listed : "nothing");
    return ICL_OK;
}

/* ---- Measuring ---- */

static icl_number read_score(const void *score, size_t value, size_t error, double factor) {
    const double spread = error == NOWHERE ? 0 : *(const double *)((const char *)score + error);
    return (icl_number){factor * *(const double *)((const char *)score + value), factor * spread};
}

/* Returns the mean over the positions that count; its standard error is not known from theirs. */
static icl_number take_mean(const struct icl_study_number *number, const icl_score *score, double factor) {
    double sum = 0;
    size_t count = 0;

    for (size_t i = 0; i < score->position_count; i++) {
        const icl_position_score *at = &score->positions[i];
        if (at->position < number->position || at->position > number->last)
            continue;
        sum += read_score(at, number->quantity->value_at, NOWHERE, factor).value;
        count++;
    }
    return (icl_number){sum / (double)count, 0};
}

static icl_number take(const struct icl_study_number *number, const icl_score *score) {
    const quantity *taken = number->quantity;
    const double factor = taken->is_half ? .5 : 1;

    if (!score)
        return (icl_number){(double)NAN, 0};
    if (number->position == EVERYWHERE)
        return read_score(score, taken->value, taken->error, factor);
    if (number->last != number->position)
        return take_mean(number, score, factor);
    for (size_t i = 0; i < score->position_count; i++) {
        const icl_position_score *at = &score->positions[i];
        if (at->position == number->position)
            return read_score(at, taken->value_at, taken->error_at, factor);
    }
    return (icl_number){(double)NAN, 0};
}

/* ---- Numbers of the training or of the model alone ---- */

/* How often a class is asked for, and how often it is answered right. */
typedef struct tally {
    size_t asked, right;
} tally;

static size_t largest(const float *outputs, size_t count) {
    size_t at = 0;
    for (size_t k = 1; k < count; k++)
        if (outputs[k] > outputs[at])
            at = k;
    return at;
}

/* Computes the mean, over the classes that are asked for, of the share of right answers; or the number of these
 * classes, whose inverse is the level of chance. */
static double average(const tally *tallies, size_t classes, need which) {
    double sum = 0;
    size_t asked = 0;

    for (size_t k = 0; k < classes; k++)
        if (tallies[k].asked > 0) {
            sum += (double)tallies[k].right / (double)tallies[k].asked;
            asked++;
        }
    return which == ASKED ? (double)asked : sum / (double)asked;
}

/* Asks for classes in one batch of eval.sequences sequences. */
static icl_status take_of_classes(need which, const icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                  double *value, icl_error *error) {
    const size_t sequences = (size_t)icl_evaluation_read(cell->complete).sequences;
    icl_batch batch;
    float *outputs = NULL, *targets = NULL, *weights = NULL;
    tally *tallies = NULL;

    ICL_CHECK(icl_study_batch(study, icl_trainer_task(trained), sequences, 0, 0, &batch, error));
    const size_t positions = sequences * batch.shape.scored, classes = batch.shape.outputs;
    ICL_CHECK(icl_study_room(study, positions, classes * sizeof *outputs, &outputs, error));
    ICL_CHECK(icl_study_room(study, classes, sizeof *tallies, &tallies, error));
    ICL_CHECK(icl_study_read(study, batch.targets, &targets, error));
    if (batch.weights.buffer)
        ICL_CHECK(icl_study_read(study, batch.weights, &weights, error));
    ICL_CHECK(icl_trainer_predict(trained, &batch, outputs, error));
    for (size_t i = 0; i < positions; i++)
        if (!weights || weights[i] > 0) {
            const size_t class = (size_t)targets[i];
            tallies[class].asked++;
            tallies[class].right += largest(outputs + i * classes, classes) == class;
        }
    *value = average(tallies, classes, which);
    return ICL_OK;
}

static double count_parameters(const icl_model *model, bool in_blocks) {
    double sum = 0;

    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        sum += !in_blocks || strncmp(info->name, "block.", 6) == 0 ? (double)info->count : 0;
    }
    return sum;
}

/* Takes a number of the training or of the model alone. */
static icl_status take_of_training(need which, const icl_study *study, const icl_study_cell *cell, icl_trainer *trained,
                                   icl_number *value, icl_error *error) {
    char *folder = NULL;
    icl_status status = ICL_OK;

    *value = (icl_number){0, 0};
    if (which >= MACRO)
        return take_of_classes(which, study, cell, trained, &value->value, error);
    if (which != TRAINING) {
        value->value = count_parameters(icl_trainer_model(trained), which == IN_BLOCKS);
        return ICL_OK;
    }
    ICL_TRY(icl_study_folder(study, cell, &folder, error));
    ICL_TRY(icl_metrics_final_loss(folder, &value->value, error));
done:
    icl_free(&folder);
    return status;
}

icl_status icl_study_numbers_measure(const icl_study_numbers *numbers, const char *evaluation, const bool *needed,
                                     const icl_recipe *recipe, icl_study *study, const icl_study_cell *cell,
                                     icl_trainer *trained, icl_number *values, icl_error *error) {
    icl_evaluation *evaluated = NULL;
    bool is_needed = false, has_references = false;
    icl_status status = ICL_OK;

    for (size_t i = 0; i < numbers->count; i++)
        if (needed[i] && strcmp(numbers->rows[i].evaluation, evaluation) == 0) {
            is_needed = is_needed || !is_of_training(numbers->rows[i].quantity);
            has_references = has_references || !is_of_model(&numbers->rows[i]);
        }
    if (is_needed) /* reference predictors are computed only if a number needs them */
        ICL_TRY(icl_reproduce_evaluate_as(study->run, trained, recipe,
                                          has_references ? "" : "eval.predictors=", &evaluated, error));
    for (size_t i = 0; i < numbers->count; i++) {
        const struct icl_study_number *number = &numbers->rows[i];
        if (!needed[i] || strcmp(number->evaluation, evaluation) != 0)
            continue;
        if (is_of_training(number->quantity))
            ICL_TRY(take_of_training(number->quantity->needs, study, cell, trained, &values[i], error));
        else
            values[i] = take(number, find_score(evaluated, number->predictor));
    }
done:
    icl_evaluation_destroy(&evaluated);
    return status;
}
