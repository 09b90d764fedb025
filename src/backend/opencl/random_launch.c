/*
 * Launches of random sizes: ICLAB_OPENCL_LAUNCH=random:SEED, for tests of the kernels of GPUs.
 *
 * Results must not depend on how many work-items share the units out, nor on the size of their groups, unless a kernel
 * demands one. A GPU with other limits would choose other sizes; drawing them finds a kernel that relies on those of
 * the device at hand.
 */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/launch.h"
#include "iclab/random.h"

#define LARGEST_GROUP 256 /* work-items; all that kernels are written for */

icl_status icl_opencl_read_launch(icl_opencl *opencl, icl_error *error) {
    static const char prefix[] = "random:";
    const char *text = getenv("ICLAB_OPENCL_LAUNCH");
    icl_random_launch *random = &opencl->launcher->random;
    char *end = NULL;

    if (!text || !*text)
        return ICL_OK;
    const char *seed = strncmp(text, prefix, strlen(prefix)) == 0 ? text + strlen(prefix) : "";
    if (*seed < '0' || *seed > '9' || (random->seed = (uint32_t)strtoul(seed, &end, 10), *end))
        return icl_fail(error, ICL_ERROR_INPUT, "ICLAB_OPENCL_LAUNCH=%s: expected random:SEED, a whole number", text);
    random->on = opencl->lanes == 1;
    return ICL_OK;
}

enum { NUMBERS = 0, SIZES }; /* streams of what is drawn: groups of each launch, size of each kernel's groups */

static size_t draw(const icl_random_launch *random, uint32_t stream, uint64_t index, size_t least, size_t most) {
    const icl_random_key key = {.seed = random->seed, .stream = stream};
    return least + icl_random_word(key, index) % (most - least + 1);
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static bool is_intel_on_cpu(const icl_capabilities *device) {
    return device->kind == ICL_DEVICE_CPU && strncmp(device->platform, "Intel(R) OpenCL", 15) == 0;
}

/*
 * Each kernel keeps to one size, because some drivers compile it anew for another. Scratch memory is there for the
 * given number of items at most, and one group stays one. Two drivers get less of a choice:
 * - llvmpipe ends a work-item's loops after 65,535 turns (open.c), so that at least half of the items share the work;
 * - Intel's runtime for CPUs packs 16 work-items into vectors and compiles what is left of a group a second time, where
 *   it turns a sum in a loop into 16 partial sums. Strict arithmetic forbids that (OpenCL 1.2, 7.4); its machine code
 *   shows it. Groups of 16 leave nothing.
 */
void icl_opencl_draw_launch(icl_opencl *opencl, icl_kernel which, const icl_compiled *compiled, size_t *items,
                            size_t *group) {
    const icl_capabilities *device = &opencl->backend->capabilities;
    icl_random_launch *random = &opencl->launcher->random;
    const bool is_one = *items == compiled->local_size;

    if (!compiled->is_fixed) {
        const size_t unit = is_intel_on_cpu(device) ? 16 : 1;
        const size_t limit = smaller(smaller(compiled->limit, device->max_work_group), LARGEST_GROUP);
        *group = smaller(*items, unit * draw(random, SIZES, (uint64_t)which, 1, limit / unit));
    }
    const size_t most = is_one ? 1 : *items / *group, least = strstr(device->name, "llvmpipe") ? (most + 1) / 2 : 1;
    *items = *group * draw(random, NUMBERS, random->draws++, least, most);
}
