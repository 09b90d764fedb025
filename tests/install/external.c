/* A program outside the project: it knows the installed headers, the library and pkg-config, and nothing else. */
#include <iclab/iclab.h>
#include <stdio.h>

static icl_status multiply(icl_backend *backend, float *product, icl_error *error) {
    const float left[] = {1, 2, 3, 4}, right[] = {5, 6, 7, 8};
    icl_tensor a = {0}, b = {0}, c = {0};
    icl_status status = icl_tensor_create(backend, 2, (size_t[]){2, 2}, &a, error);

    if (status == ICL_OK)
        status = icl_tensor_create(backend, 2, (size_t[]){2, 2}, &b, error);
    if (status == ICL_OK)
        status = icl_tensor_create(backend, 2, (size_t[]){2, 2}, &c, error);
    if (status == ICL_OK)
        status = icl_tensor_write(a, left, error);
    if (status == ICL_OK)
        status = icl_tensor_write(b, right, error);
    if (status == ICL_OK)
        status = icl_matmul(backend, c, 1, a, b, 0, error);
    if (status == ICL_OK)
        status = icl_tensor_read(c, product, error);
    icl_tensor_release(&a);
    icl_tensor_release(&b);
    icl_tensor_release(&c);
    return status;
}

int main(void) {
    const float expected[] = {19, 22, 43, 50};
    icl_backend *backend = NULL;
    icl_error error = {0};
    float product[4] = {0};
    icl_status status = icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &backend, &error);

    if (status == ICL_OK)
        status = multiply(backend, product, &error);
    icl_backend_close(&backend);
    if (status != ICL_OK) {
        fprintf(stderr, "%s: %s\n", icl_status_name(status), error.message);
        return 1;
    }
    for (int i = 0; i < 4; i++)
        if (product[i] != expected[i]) {
            fprintf(stderr, "element %d is %g, expected %g\n", i, (double)product[i], (double)expected[i]);
            return 1;
        }
    return 0;
}
