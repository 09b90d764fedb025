/* Fuzzes the safetensors reader. The tensors of an accepted file lie in memory as it says. */
#include "core/safetensors.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    icl_safetensors *file = NULL;
    icl_error error = {0};
    const icl_status status = icl_safetensors_read(fuzz_file(data, size), &file, &error);
    volatile unsigned char sum = 0;
    size_t total = 0;

    if (status != ICL_OK) {
        fuzz_check_refusal(status, &error);
        return 0;
    }
    for (size_t i = 0; i < icl_safetensors_count(file); i++) {
        const icl_named_tensor *tensor = icl_safetensors_at(file, i);
        const size_t bytes =
            icl_named_tensor_count(tensor) * (tensor->type == ICL_ELEMENT_F64 ? sizeof(double) : sizeof(float));
        const unsigned char *values = tensor->data;
        for (size_t j = 0; j < bytes; j++)
            sum = (unsigned char)(sum + values[j]);
        total += bytes;
        fuzz_promise(icl_safetensors_find(file, tensor->name) == tensor, "a tensor is found by its name");
    }
    fuzz_promise(total < size, "tensors take no more than the file");
    (void)icl_safetensors_metadata(file, "iclab.recipe");
    icl_safetensors_destroy(&file);
    return 0;
}
