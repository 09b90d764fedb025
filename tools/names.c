#include "names.h"

#include <stdbool.h>
#include <string.h>

#include "iclab/file.h"
#include "iclab/host.h"

/* A name of more bytes than this ends there, and a number that tells it from others stands behind it. */
#define MOST_BYTES 100

/* c is not 0, which strchr would find. */
static bool is_plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("._+", c);
}

icl_status add_plain_name(icl_text *name, const char *text, icl_error *error) {
    const size_t start = name->length;
    bool is_open = false; /* a run of other characters, which becomes one sign before the next plain one */

    for (const char *c = text; *c != '\0'; c++) {
        if (is_plain(*c)) {
            ICL_CHECK(icl_text_append(name, is_open ? "-" : "", is_open, error));
            ICL_CHECK(icl_text_append(name, c, 1, error));
        }
        is_open = !is_plain(*c) && name->length > start;
    }
    return ICL_OK;
}

/* FNV-1a. */
static unsigned long hash_of(const char *text) {
    unsigned long hash = 2166136261UL;

    for (; *text != '\0'; text++)
        hash = ((hash ^ (unsigned char)*text) * 16777619UL) & 0xffffffffUL;
    return hash;
}

static icl_status shorten(icl_text *name, icl_error *error) {
    const unsigned long hash = name->length > MOST_BYTES ? hash_of(name->bytes) : 0;

    if (name->length <= MOST_BYTES)
        return ICL_OK;
    name->length = MOST_BYTES;
    return icl_text_print(name, error, "_%08lx", hash);
}

icl_status folder_of_overrides(const char *run, const char *what, const option_list *overrides, char **folder,
                               icl_error *error) {
    icl_status status = ICL_OK;
    icl_text name = {0};
    char *above = NULL;

    for (size_t i = 0; i < overrides->count; i++) {
        const char *key = strchr(overrides->values[i], '.');
        ICL_TRY(icl_text_print(&name, error, "%s", i > 0 ? "_" : ""));
        ICL_TRY(add_plain_name(&name, key ? key + 1 : overrides->values[i], error));
    }
    ICL_TRY(icl_path_join(run, what, &above, error));
    if (name.length == 0)
        ICL_TRY(icl_duplicate(above, folder, error));
    else {
        ICL_TRY(shorten(&name, error));
        ICL_TRY(icl_path_join(above, name.bytes, folder, error));
    }
done:
    icl_text_release(&name);
    icl_free(&above);
    return status;
}
