/* What every open backend answers in the same way. */
#include "iclab/backend.h"

#include "backend/contract.h"
#include "backend/share.h"
#include "core/allocate.h"

const char *icl_gemm_name(icl_gemm gemm) {
    static const char *const names[] = {"auto", "clblast", "native"};
    return (unsigned)gemm < sizeof names / sizeof *names ? names[gemm] : "unknown";
}

const char *icl_device_kind_name(icl_device_kind kind) {
    static const char *const names[] = {"host", "cpu", "gpu", "accelerator"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}

const icl_capabilities *icl_backend_capabilities(const icl_backend *backend) {
    return &backend->capabilities;
}

icl_status icl_backend_sync(icl_backend *backend, icl_error *error) {
    return backend->functions->sync(backend, error);
}

void icl_backend_stop_on(icl_backend *backend, const volatile sig_atomic_t *stop) {
    backend->stop = stop;
}

void icl_backend_close(icl_backend **backend) {
    if (*backend) {
        icl_backend_close_workers(*backend);
        icl_backend_close(&(*backend)->host);
        (*backend)->functions->close(*backend);
        icl_free(backend);
    }
}
