#include "run/result_csv.h"

#include <stdbool.h>
#include <string.h>

#include "core/allocate.h"

static bool is_field(const cJSON *member) {
    return !cJSON_IsArray(member) && !cJSON_IsObject(member);
}

static icl_status no_memory(icl_error *error) {
    return icl_fail(error, ICL_ERROR_MEMORY, "CSV of a result: no memory");
}

/* ---- Columns ---- */

/* A name stands as it is where it can. */
static icl_status add_heading(icl_text *csv, const char *name, const char *after, icl_error *error) {
    return strpbrk(name, ",\" \r\n") ? icl_text_field(csv, name, after, error)
                                     : icl_text_print(csv, error, "%s%s", name, after);
}

/* An object with a member for each column. */
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

icl_status icl_result_csv(const cJSON *rows, icl_text *csv, icl_error *error) {
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

const char *icl_result_nested(const cJSON *rows, const char *after) {
    const cJSON *first = cJSON_GetArrayItem(rows, 0), *member = first ? first->child : NULL;

    if (after && first)
        member = cJSON_GetObjectItemCaseSensitive(first, after)->next;
    for (; member; member = member->next)
        if (cJSON_IsArray(member) && cJSON_IsObject(member->child))
            return member->string;
    return NULL;
}

static bool add_copy(cJSON *to, const cJSON *member) {
    cJSON *copy = cJSON_Duplicate(member, true);

    if (copy && cJSON_AddItemToObject(to, member->string, copy))
        return true;
    cJSON_Delete(copy);
    return false;
}

/* The texts that a row begins with, and then the inner object's members. */
static cJSON *joined(const cJSON *row, const cJSON *inner) {
    cJSON *made = cJSON_CreateObject();
    const cJSON *member;
    bool is_whole = made != NULL;

    for (member = row->child; is_whole && cJSON_IsString(member); member = member->next)
        is_whole = add_copy(made, member);
    for (member = inner->child; is_whole && member; member = member->next)
        is_whole = add_copy(made, member);
    if (is_whole)
        return made;
    cJSON_Delete(made);
    return NULL;
}

icl_status icl_result_unfold(const cJSON *rows, const char *member, cJSON **unfolded, icl_error *error) {
    cJSON *made = cJSON_CreateArray();
    const cJSON *row, *inner;

    if (!made)
        return no_memory(error);
    cJSON_ArrayForEach(row, rows){
        cJSON_ArrayForEach(inner, cJSON_GetObjectItemCaseSensitive(row, member)){cJSON *object = joined(row, inner);
    if (!object || !cJSON_AddItemToArray(made, object)) {
        cJSON_Delete(object);
        cJSON_Delete(made);
        return no_memory(error);
    }
}
}
*unfolded = made;
return ICL_OK;
}
