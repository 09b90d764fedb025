/* Writes one file for safetensors_read.py. Usage: write-safetensors PATH. */
#include <stdio.h>

#include "core/safetensors.h"

int main(int count, char **arguments) {
    static const float matrix[] = {1.0f, -2.5f, 3.0e-38f, 4.0f, 5.0f, 6.5f};
    static const double vector[] = {0.1, -1e300, 3.0};
    static const float scalar = 7.0f;
    const icl_named_tensor tensors[] = {
        {.name = "layer.0.head.0.P", .type = ICL_ELEMENT_F32, .rank = 2, .shape = {2, 3}, .data = matrix},
        {.name = "scalar", .type = ICL_ELEMENT_F32, .rank = 0, .data = &scalar},
        {.name = "empty", .type = ICL_ELEMENT_F32, .rank = 2, .shape = {0, 4}, .data = matrix},
        {.name = "vector", .type = ICL_ELEMENT_F64, .rank = 1, .shape = {3}, .data = vector},
    };
    const icl_metadata metadata[] = {{"step", "12"}, {"text", "two\nlines \"quoted\""}};
    icl_error error = {0};

    if (count != 2 || icl_safetensors_write(arguments[1], tensors, 4, metadata, 2, &error) != ICL_OK) {
        fprintf(stderr, "%s\n", count != 2 ? "expected a path" : error.message);
        return 1;
    }
    return 0;
}
