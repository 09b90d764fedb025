/* A process that may open no more files gets an error that says so, instead of one that says that no driver is
 * installed. */
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tap.h"

int main(void) {
    tap_run tap = {0};
    icl_backend *backend = NULL;
    icl_error error = {0};
    struct rlimit files;
    const int lowest = open("/dev/null", O_RDONLY);

    tap_ok(&tap, lowest >= 0 && close(lowest) == 0 && getrlimit(RLIMIT_NOFILE, &files) == 0, "a limit on open files");
    files.rlim_cur = (rlim_t)lowest;
    tap_ok(&tap, setrlimit(RLIMIT_NOFILE, &files) == 0, "no file more than the %d that are open", lowest);
    const icl_status status = icl_backend_open(&(icl_backend_params){.spec = "opencl:0.0"}, &backend, &error);
    tap_ok(&tap, status == ICL_ERROR_IO && strstr(error.message, "Too many open files"), "%s: %s",
           icl_status_name(status), error.message);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
