/* Takes the gradient of every op that a tape records, while each op and each allocation of it fails once. Each time the
 * outcome is an error of one line or, for an allocation, the same gradients; and nothing is held afterwards. */
#include "../tape/gradients.h"

#include <string.h>

#include "attempts.h"
#include "faults.h"

typedef struct taking {
    icl_backend *backend;
    const gradient_case *c;
    gradient_values expected, got;
} taking;

static icl_status attempt(void *context, icl_error *error) {
    taking *t = context;

    gradient_fill(t->c, &t->got);
    return gradient_take(t->backend, t->c, &t->got, error);
}

static bool as_expected(const void *context) {
    const taking *t = context;

    for (int i = 0; i < t->c->input_count; i++)
        if (memcmp(t->got.gradients[i], t->expected.gradients[i],
                   gradient_count(&t->c->inputs[i]) * sizeof t->got.gradients[i][0]) != 0)
            return false;
    return true;
}

void gradient_check(bench *b, const gradient_case *c) {
    static taking t;
    const fault_work work = {.attempt = attempt, .as_expected = as_expected, .context = &t};
    icl_error error = {0};

    t.backend = b->device;
    t.c = c;
    const icl_status status = attempt(&t, &error);
    t.expected = t.got;
    if (tap_status(&b->tap, status, &error, c->name)) {
        fault_check(&b->tap, &work, FAULT_OP, false);
        fault_check(&b->tap, &work, FAULT_ALLOCATION, false);
    }
}

void fault_gradients(tap_run *tap) {
    bench b = {.tap = *tap};

    b.device = b.ref = tap_open_device(&b.tap, "cpu:threads=1");
    if (b.device)
        check_every(&b);
    icl_backend_close(&b.device);
    *tap = b.tap;
}
