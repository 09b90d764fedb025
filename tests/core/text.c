/* Text that grows loses, cuts and moves nothing, in whatever pieces it is added. */
#include "iclab/text.h"

#include <math.h>

#include "tap.h"

static void check_growth(tap_run *tap) {
    enum { PIECES = 3000, LONG = 100000 };
    static char wide[LONG + 1];
    icl_text text = {0};
    icl_status status = ICL_OK;
    size_t right = 0;

    for (int i = 0; i < PIECES && status == ICL_OK; i++)
        status = icl_text_print(&text, NULL, "%04d,", i);
    tap_ok(tap, status == ICL_OK && text.length == 5 * PIECES && strlen(text.bytes) == text.length,
           "%d pieces, a NUL behind the last", PIECES);
    for (int i = 0; text.bytes && i < PIECES; i++)
        right += strtol(text.bytes + 5 * (size_t)i, NULL, 10) == i;
    tap_ok(tap, right == PIECES, "each in its place");
    memset(wide, 'x', LONG);
    tap_ok(tap,
           icl_text_print(&text, NULL, "<%s>", wide) == ICL_OK && text.length == 5 * PIECES + LONG + 2 &&
               text.bytes[text.length - 1] == '>',
           "a piece of %d bytes is whole", LONG);
    icl_text_release(&text);
    tap_ok(tap, !text.bytes && text.length == 0, "released, it is the empty text");
    tap_ok(tap, icl_text_append(&text, NULL, 0, NULL) == ICL_OK && text.bytes && text.bytes[0] == '\0',
           "nothing added to nothing is a text");
    icl_text_release(&text);
}

static void check_fields(tap_run *tap) {
    icl_text text = {0};
    icl_status status = icl_text_field(&text, "a \"b\",\nc", ",", NULL);

    if (status == ICL_OK)
        status = icl_text_number_field(&text, 0.1, ",", NULL);
    if (status == ICL_OK)
        status = icl_text_number_field(&text, (double)NAN, "\n", NULL);
    if (status == ICL_OK)
        status = icl_text_quote(&text, "it's\n", '\'', NULL);
    tap_ok(
        tap, status == ICL_OK && text.bytes && strcmp(text.bytes, "\"a \"\"b\"\",\nc\",0.1,\n'it''s '") == 0,
        "quotes are doubled, a field keeps its line feed, NaN is an empty field, and what is quoted stays on its line");
    icl_text_release(&text);
}

int main(void) {
    tap_run tap = {0};

    check_growth(&tap);
    check_fields(&tap);
    return tap_done(&tap);
}
