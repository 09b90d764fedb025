#include "iclab/result.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/allocate.h"
#include "core/json_parse.h"
#include "iclab/file.h"
#include "iclab/json.h"
#include "iclab/text.h"
#include "run/files.h"

static bool is_field(const cJSON *member) {
    return !cJSON_IsArray(member) && !cJSON_IsObject(member);
}

static icl_status no_memory(icl_error *error) {
    return icl_fail(error, ICL_ERROR_MEMORY, "CSV of a result: no memory");
}

/* ---- CSV of rows that are JSON objects ---- */

/* Adds a name, without quotes if it needs none. */
static icl_status add_heading(icl_text *csv, const char *name, const char *after, icl_error *error) {
    return strpbrk(name, ",\" \r\n") ? icl_text_field(csv, name, after, error)
                                     : icl_text_print(csv, error, "%s%s", name, after);
}

/* Makes an object with a member for each column. */
static icl_status collect_columns(const cJSON *rows, cJSON **columns, icl_error *error) {
    const cJSON *row, *member;

    *columns = cJSON_CreateObject();
    if (!*columns)
        return no_memory(error);
    cJSON_ArrayForEach(row, rows) {
        cJSON_ArrayForEach(member, row) {
            if (is_field(member) && !cJSON_GetObjectItemCaseSensitive(*columns, member->string) &&
                !cJSON_AddNullToObject(*columns, member->string))
                return no_memory(error);
        }
    }
    return ICL_OK;
}

static icl_status add_field(icl_text *csv, const cJSON *field, const char *after, icl_error *error) {
    if (cJSON_IsString(field))
        return icl_text_field(csv, field->valuestring, after, error);
    if (cJSON_IsNumber(field))
        return icl_text_number_field(csv, field->valuedouble, after, error);
    if (cJSON_IsBool(field))
        return icl_text_print(csv, error, "%s%s", cJSON_IsTrue(field) ? "true" : "false", after);
    return icl_text_print(csv, error, "%s", after);
}

/* Adds a header with the names of all members, in the order in which rows first have them, and a line for each row:
 * texts in quotes, numbers in full, nothing for null and for missing members. Members that are arrays or objects are
 * left out. `rows` is an array of objects. */
static icl_status add_csv(const cJSON *rows, icl_text *csv, icl_error *error) {
    icl_status status = ICL_OK;
    cJSON *columns = NULL;
    const cJSON *row, *column;

    ICL_TRY(collect_columns(rows, &columns, error));
    cJSON_ArrayForEach(column, columns) ICL_TRY(add_heading(csv, column->string, column->next ? "," : "\n", error));
    cJSON_ArrayForEach(row, rows) {
        cJSON_ArrayForEach(column, columns) ICL_TRY(
            add_field(csv, cJSON_GetObjectItemCaseSensitive(row, column->string), column->next ? "," : "\n", error));
    }
done:
    cJSON_Delete(columns);
    return status;
}

/* ---- Arrays within rows ---- */

/* Finds the name of the first member after the one named `after` (NULL: from the beginning) that is an array of objects
 * in the first row; NULL if there is none. */
static const char *next_nested(const cJSON *rows, const char *after) {
    const cJSON *first = cJSON_GetArrayItem(rows, 0), *member = first ? first->child : NULL;

    if (after && first)
        member = cJSON_GetObjectItemCaseSensitive(first, after)->next;
    for (; member; member = member->next)
        if (cJSON_IsArray(member) && cJSON_IsObject(member->child))
            return member->string;
    return NULL;
}

static bool add_copy(cJSON *object, const cJSON *member) {
    cJSON *copy = cJSON_Duplicate(member, true);

    if (copy && cJSON_AddItemToObject(object, member->string, copy))
        return true;
    cJSON_Delete(copy);
    return false;
}

/* Joins the texts with which a row begins and the inner object's members. */
static cJSON *joined(const cJSON *row, const cJSON *inner) {
    cJSON *created = cJSON_CreateObject();
    const cJSON *member;
    bool is_whole = created != NULL;

    for (member = row->child; is_whole && cJSON_IsString(member); member = member->next)
        is_whole = add_copy(created, member);
    for (member = inner->child; is_whole && member; member = member->next)
        is_whole = add_copy(created, member);
    if (is_whole)
        return created;
    cJSON_Delete(created);
    return NULL;
}

/* Makes rows of the objects of such a member, each preceded by the texts with which its outer row begins; deleted with
 * cJSON_Delete. */
static icl_status unfold(const cJSON *rows, const char *member, cJSON **unfolded, icl_error *error) {
    cJSON *created = cJSON_CreateArray();
    bool is_whole = created != NULL;

    for (const cJSON *row = rows->child; row; row = row->next) {
        const cJSON *nested = cJSON_GetObjectItemCaseSensitive(row, member);
        for (const cJSON *inner = nested ? nested->child : NULL; inner && is_whole; inner = inner->next) {
            cJSON *object = joined(row, inner);
            is_whole = object && cJSON_AddItemToArray(created, object);
            if (!is_whole)
                cJSON_Delete(object);
        }
    }
    *unfolded = created;
    return is_whole ? ICL_OK : no_memory(error);
}

typedef struct table {
    char *name;
    icl_text lines; /* JSON objects, with a comma and a newline between them */
} table;

struct icl_result {
    table tables[ICL_RESULT_TABLES];
    size_t count;
};

static icl_status add_table(icl_result *result, const char *name, icl_error *error) {
    if (result->count == ICL_RESULT_TABLES)
        return icl_fail(error, ICL_ERROR_INPUT, "result: table %s: expected at most %d tables", name,
                        ICL_RESULT_TABLES);
    ICL_CHECK(icl_duplicate(name, &result->tables[result->count].name, error));
    result->count++;
    return ICL_OK;
}

icl_status icl_result_create(icl_result **result, icl_error *error) {
    icl_result *created = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *created, "result", &created, error));
    ICL_TRY(add_table(created, ICL_RESULT_ROWS, error));
    *result = created;
    created = NULL;
done:
    icl_result_destroy(&created);
    return status;
}

void icl_result_destroy(icl_result **result) {
    if (!*result)
        return;
    for (size_t i = 0; i < (*result)->count; i++) {
        icl_free(&(*result)->tables[i].name);
        icl_text_release(&(*result)->tables[i].lines);
    }
    icl_free(result);
}

static icl_status check_object(const char *line, icl_error *error) {
    cJSON *parsed = NULL;

    ICL_CHECK(icl_json_parse(line, strlen(line) + 1, "result", &parsed, NULL, error));
    const bool is_object = cJSON_IsObject(parsed);
    cJSON_Delete(parsed);
    return is_object ? ICL_OK : icl_fail(error, ICL_ERROR_INPUT, "result: %.60s: expected a JSON object", line);
}

icl_status icl_result_add(icl_result *result, const char *name, const char *line, icl_error *error) {
    size_t at = 0;

    ICL_CHECK(check_object(line, error));
    while (at < result->count && strcmp(result->tables[at].name, name) != 0)
        at++;
    if (at == result->count)
        ICL_CHECK(add_table(result, name, error));
    icl_text *lines = &result->tables[at].lines;
    return icl_text_print(lines, error, "%s%s", lines->length > 0 ? ",\n" : "", line);
}

/* ---- Files of tables ---- */

static icl_status write_text(const char *folder, const char *name, const char *suffix, const icl_text *text,
                             icl_error *error) {
    icl_status status = ICL_OK;
    icl_text file = {0};

    ICL_TRY(icl_text_print(&file, error, "%s%s", name, suffix));
    ICL_TRY(icl_file_write_in(folder, file.bytes, text->bytes, text->length, error));
done:
    icl_text_release(&file);
    return status;
}

static icl_status write_csv(const cJSON *rows, const char *folder, const char *name, icl_error *error) {
    icl_status status = ICL_OK;
    icl_text csv = {0};

    ICL_TRY(add_csv(rows, &csv, error));
    if (csv.length > 0)
        ICL_TRY(write_text(folder, name, ".csv", &csv, error));
done:
    icl_text_release(&csv);
    return status;
}

static icl_status parse_rows(const table *source, cJSON **rows, icl_error *error) {
    icl_status status = ICL_OK;
    icl_text array = {0};

    ICL_TRY(icl_text_print(&array, error, "[%s]", source->lines.bytes ? source->lines.bytes : ""));
    *rows = cJSON_Parse(array.bytes);
    if (!*rows)
        status = icl_fail(error, ICL_ERROR_MEMORY, "result: no memory");
done:
    icl_text_release(&array);
    return status;
}

/* Writes the rows, and a file for each member that is itself a table. */
static icl_status write_rows(const table *source, const char *folder, icl_error *error) {
    icl_status status = ICL_OK;
    cJSON *rows = NULL, *inner = NULL;

    ICL_TRY(parse_rows(source, &rows, error));
    ICL_TRY(write_csv(rows, folder, "result", error));
    for (const char *member = next_nested(rows, NULL); member; member = next_nested(rows, member)) {
        ICL_TRY(unfold(rows, member, &inner, error));
        ICL_TRY(write_csv(inner, folder, member, error));
        cJSON_Delete(inner);
        inner = NULL;
    }
done:
    cJSON_Delete(inner);
    cJSON_Delete(rows);
    return status;
}

/* ---- JSON ---- */

/* Adds date (now, in UTC) and host. */
static void add_place(icl_json *json) {
    const time_t now = time(NULL);
    struct tm utc;
    char date[32] = "", host[256] = "";

    if (gmtime_r(&now, &utc))
        (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    icl_json_text(json, "date", date);
    icl_json_text(json, "host", host);
}

static void add_given(icl_json *json, const char *name, const char *value) {
    if (value)
        icl_json_text(json, name, value);
}

/* Adds the object of the facts, without its closing brace. */
static icl_status add_facts(icl_text *text, const icl_result_facts *facts, icl_error *error) {
    icl_json json = {0};
    char *object = NULL, *choices = NULL;
    icl_status status = ICL_OK;

    if (facts->backend)
        ICL_TRY(icl_backend_choices(facts->backend, &choices, error));
    add_given(&json, "command", facts->command);
    add_given(&json, "command_line", facts->command_line);
    add_given(&json, "recipe", facts->recipe_name);
    if (facts->seed)
        icl_json_count(&json, "seed", *facts->seed);
    add_place(&json);
    icl_provenance_add_program(&json);
    if (facts->backend) {
        icl_provenance_add_device(&json, icl_backend_capabilities(facts->backend));
        if (*choices)
            icl_json_text(&json, "choices", choices);
    }
    icl_json_text(&json, "csv", facts->csv ? facts->csv : ICL_RESULT_CSV);
    ICL_TRY(icl_json_finish(&json, true, &object, error));
    ICL_TRY(icl_text_append(text, object, (size_t)(strrchr(object, '}') - object) - 1, error)); /* without "}\n" */
done:
    icl_free(&choices);
    icl_free(&object);
    return status;
}

/* Writes the JSON, with one line for each row. */
static icl_status write_json(const icl_result *result, const char *folder, const icl_result_facts *facts,
                             const char *summary, icl_error *error) {
    icl_status status = ICL_OK;
    icl_text text = {0};

    ICL_TRY(add_facts(&text, facts, error));
    ICL_TRY(icl_text_print(&text, error, ",\n\t\"summary\":\t%s", summary ? summary : "{}"));
    for (size_t i = 0; i < result->count; i++) {
        const table *source = &result->tables[i];
        ICL_TRY(icl_text_print(&text, error, ",\n\t\"%s\":\t[\n%s\n\t]", source->name,
                               source->lines.bytes ? source->lines.bytes : ""));
    }
    ICL_TRY(icl_text_print(&text, error, "\n}\n"));
    ICL_TRY(write_text(folder, ICL_RESULT_FILE, "", &text, error));
done:
    icl_text_release(&text);
    return status;
}

icl_status icl_result_write(const icl_result *result, const char *folder, const icl_result_facts *facts,
                            const char *summary, icl_error *error) {
    if (summary)
        ICL_CHECK(check_object(summary, error));
    ICL_CHECK(icl_folder_create(folder, error));
    if (!facts->csv)
        ICL_CHECK(write_rows(&result->tables[0], folder, error));
    return write_json(result, folder, facts, summary, error);
}
