#include "papers/kept.h"

#include <string.h>

#include "core/allocate.h"
#include "core/safetensors.h"
#include "iclab/file.h"
#include "papers/phrase.h"
#include "papers/share.h"

#define MADE_OF "made_of"

typedef struct keeping {
    icl_reproducing *run;
    const icl_kept *kept;
    const char *folder, *path;
} keeping;

static icl_status find(void *context, bool *finished, icl_error *error) {
    const keeping *is = context;

    (void)error;
    *finished = icl_path_exists(is->path);
    return ICL_OK;
}

static bool is_array(const icl_named_tensor *tensor, icl_element_type type, size_t count) {
    return tensor && tensor->type == type && icl_named_tensor_count(tensor) == count;
}

static icl_status read_kept(const keeping *is, icl_error *error) {
    const icl_kept *kept = is->kept;
    icl_safetensors *file = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_safetensors_read(is->path, &file, error));
    const char *made_of = icl_safetensors_metadata(file, MADE_OF);
    const icl_named_tensor *values = icl_safetensors_find(file, "values");
    const icl_named_tensor *numbers = icl_safetensors_find(file, "numbers");
    if (!made_of || strcmp(made_of, kept->made_of) != 0 || !is_array(values, ICL_ELEMENT_F32, kept->count) ||
        !is_array(numbers, ICL_ELEMENT_F64, kept->number_count))
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "%s: made of %s; expected %s: remove it to compute it again", is->path,
                         made_of ? made_of : "something else", kept->made_of));
    memcpy(kept->values, values->data, kept->count * sizeof *kept->values);
    memcpy(kept->numbers, numbers->data, kept->number_count * sizeof *kept->numbers);
done:
    icl_safetensors_destroy(&file);
    return status;
}

static icl_status compute(void *context, icl_error *error) {
    const keeping *is = context;
    const icl_kept *kept = is->kept;

    if (icl_path_exists(is->path))
        return read_kept(is, error);
    ICL_CHECK(icl_folder_create(is->folder, error));
    ICL_CHECK(kept->compute(is->run, kept->context, error));
    const icl_named_tensor tensors[] = {
        {"values", ICL_ELEMENT_F32, 1, {kept->count}, kept->values},
        {"numbers", ICL_ELEMENT_F64, 1, {kept->number_count}, kept->numbers},
    };
    return icl_safetensors_write(is->path, tensors, 2, &(icl_metadata){MADE_OF, kept->made_of}, 1, error);
}

icl_status icl_reproduce_keep(icl_reproducing *run, const icl_kept *kept, icl_error *error) {
    char *folder = NULL, *path = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_path_join(run->params->folder, "kept", &folder, error));
    ICL_TRY(icl_path_join(folder, ICL_PHRASE("%s.safetensors", kept->name), &path, error));
    ICL_TRY(icl_reproduce_share(
        run, &(icl_shared_work){kept->name, true, &(keeping){run, kept, folder, path}, find, compute}, error));
done:
    icl_free(&folder);
    icl_free(&path);
    return status;
}
