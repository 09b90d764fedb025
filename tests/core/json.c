/* JSON objects: the order of members, numbers that read back, text that needs escapes. */
#include "iclab/json.h"

#include <cJSON.h>
#include <math.h>

#include "core/allocate.h"
#include "tap.h"

int main(void) {
    tap_run tap = {0};
    icl_json json = {0};
    icl_error error = {0};
    char *text = NULL;
    cJSON *back;

    icl_json_text(&json, "name", "a \"quoted\"\nline");
    icl_json_number(&json, "third", 1.0 / 3.0);
    icl_json_number(&json, "missing", (double)NAN);
    icl_json_number(&json, "endless", (double)INFINITY);
    icl_json_count(&json, "count", UINT64_MAX);
    icl_json_flag(&json, "flag", true);
    tap_status(&tap, icl_json_finish(&json, false, &text, &error), &error, "an object");
    tap_ok(&tap,
           strcmp(text, "{\"name\":\"a "
                        "\\\"quoted\\\"\\nline\",\"third\":0.3333333333333333,\"missing\":null,\"endless\":null,"
                        "\"count\":18446744073709551615,\"flag\":true}") == 0,
           "%s", text);
    back = cJSON_Parse(text);
    tap_ok(&tap, back && cJSON_GetObjectItem(back, "third")->valuedouble == 1.0 / 3.0, "a third reads back exactly");
    cJSON_Delete(back);
    icl_free(&text);
    tap_ok(&tap, json.object == NULL, "finishing clears the object");

    tap_ok(&tap, icl_json_finish(&json, false, &text, &error) == ICL_OK && strcmp(text, "{}") == 0, "an empty object");
    icl_free(&text);
    icl_json_text(&json, "nothing", NULL);
    tap_ok(&tap, icl_json_finish(&json, false, &text, &error) == ICL_OK && strcmp(text, "{\"nothing\":null}") == 0,
           "a text that is NULL is null");
    icl_free(&text);
    icl_json_text(&json, "bytes", "a\xff\xc3(\xc3\xa4\xed\xa0\x80");
    tap_ok(&tap,
           icl_json_finish(&json, false, &text, &error) == ICL_OK && strcmp(text, "{\"bytes\":\"a?"
                                                                                  "?(\xc3\xa4?"
                                                                                  "?"
                                                                                  "?\"}") == 0,
           "bytes that are not UTF-8 become question marks: %s", text);
    icl_free(&text);
    icl_json_count(&json, "a", 1);
    tap_ok(&tap, icl_json_finish(&json, true, &text, &error) == ICL_OK && strcmp(text, "{\n\t\"a\":\t1\n}\n") == 0,
           "one member a line");
    icl_free(&text);
    icl_json_count(&json, "a", 1);
    icl_json_discard(&json);
    tap_ok(&tap, json.object == NULL, "discarding clears the object");
    return tap_done(&tap);
}
