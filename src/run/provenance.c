#include "run/provenance.h"

#include <time.h>
#include <unistd.h>

#include "config.h"

void icl_provenance_add_program(icl_json *json) {
    icl_json_text(json, "version", ICL_VERSION);
    icl_json_text(json, "commit", ICL_COMMIT);
    icl_json_text(json, "compiler", ICL_COMPILER);
}

void icl_provenance_add_device(icl_json *json, const icl_capabilities *device) {
    icl_json_text(json, "device", device->spec);
    icl_json_text(json, "device_name", device->name);
    icl_json_text(json, "device_kind", icl_device_kind_name(device->kind));
    icl_json_text(json, "platform", device->platform);
    icl_json_text(json, "driver", device->driver);
    icl_json_text(json, "gemm", icl_gemm_name(device->gemm));
    icl_json_flag(json, "fast_math", device->fast_math);
}

void icl_provenance_add_place(icl_json *json) {
    const time_t now = time(NULL);
    struct tm utc;
    char date[32] = "", host[256] = "";

    if (gmtime_r(&now, &utc))
        (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    icl_json_text(json, "date", date);
    icl_json_text(json, "host", host);
}
