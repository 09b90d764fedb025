/* Mixers that are equal for suitable parameters: the same function by two routes. The parameters of one model are
 * copied to the other by name, and those that only the other has are set by hand. */
#include "fixture.h"

enum { B = 2 };

/* A parameter of either model, and the value for all its elements. */
typedef struct fixed {
    const char *suffix; /* the end of its name */
    double value;
} fixed;

typedef struct identity {
    const char *one, *other;
    fixed of_one[6], of_other[6];
    bool exact; /* the operations are the same, and so the bits on every device */
} identity;

static double softplus(double x) {
    return log1p(exp(x));
}

/* Solves softplus(x) = y. */
static double inverse_softplus(double y) {
    return log(expm1(y));
}

static void change(fixture *f, const fixed *list) {
    static double values[MOST_NUMBERS];

    tap_need(icl_tensor_read_double(f->parameters, values, tap_error()));
    for (size_t i = 0; i < icl_model_parameter_count(f->model); i++) {
        const icl_parameter_info *info = icl_model_parameter(f->model, i);
        for (const fixed *at = list; at->suffix; at++) {
            const size_t length = strlen(info->name), wanted = strlen(at->suffix);
            if (length < wanted || strcmp(info->name + length - wanted, at->suffix) != 0)
                continue;
            for (size_t k = 0; k < info->count; k++)
                values[info->offset + k] = at->value;
        }
    }
    tap_need(icl_tensor_write_double(f->parameters, values, tap_error()));
}

static void copy_by_name(fixture *to, const fixture *from, size_t *copied) {
    *copied = 0;
    for (size_t i = 0; i < icl_model_parameter_count(to->model); i++)
        for (size_t k = 0; k < icl_model_parameter_count(from->model); k++) {
            const icl_parameter_info *a = icl_model_parameter(to->model, i), *b = icl_model_parameter(from->model, k);
            if (strcmp(a->name, b->name) != 0 || a->count != b->count)
                continue;
            tap_need(icl_copy(to->backend, icl_tensor_slice(to->parameters, 0, a->offset, a->count),
                              icl_tensor_slice(from->parameters, 0, b->offset, b->count), tap_error()));
            *copied += a->count;
        }
}

static void compare(icl_backend *backend, const identity *is, double *worst, size_t *copied) {
    static double outputs[2][MOST_NUMBERS];
    const setting first = long_setting(is->one, B), second = long_setting(is->other, B);
    fixture one = {0}, other = {0};

    fixture_open(&one, backend, &first);
    fixture_open(&other, backend, &second);
    copy_by_name(&other, &one, copied);
    change(&one, is->of_one);
    change(&other, is->of_other);
    read_outputs(&one, outputs[0]);
    read_outputs(&other, outputs[1]);
    *worst = distance(outputs[0], outputs[1], one.outputs);
    fixture_close(&one);
    fixture_close(&other);
}

int main(int argc, char **argv) {
    /* A gate or strength of 1 is sigmoid(40), which rounds to 1 in double; exp(-200) is negligible. */
    const double one = 40, nothing = -200, gate = 0.3;
    const identity identities[] = {
        {"mixer=gla", "mixer=mamba2", .of_one = {{"mixer.gate_down", 0}, {"mixer.gate_bias", gate}},
         .of_other = {{"mixer.gate", 0},
                      {"mixer.gate_rate", 0},
                      {"mixer.gate_bias", inverse_softplus(softplus(-gate) / 16)}}},
        {"mixer=delta", "mixer=gated-delta", .of_other = {{"mixer.gate_rate", nothing}}, .exact = true},
        {"mixer=delta", "mixer=delta-product delta_steps=1", .exact = true},
        {"mixer=linear", "mixer=momentum momentum=0", .exact = true},
        {"mixer=delta", "mixer=kda", .of_other = {{"mixer.gate_rate", nothing}}, .exact = true},
        {"mixer=gated-delta", "mixer=kda", .of_one = {{"mixer.gate", 0}, {"mixer.gate_bias", gate}},
         .of_other = {{"mixer.gate_down", 0}, {"mixer.gate_bias", gate}}},
        {"mixer=gated-delta", "mixer=comba", .of_one = {{"mixer.gate_rate", nothing}},
         .of_other = {{"mixer.gate_rate", nothing}, {"mixer.feedback", one}, {"mixer.correction", 0}}},
        {"mixer=delta", "mixer=titans", .of_other = {{"mixer.gate", 0}, {"mixer.gate_bias", one}}},
        {"mixer=softmax", "mixer=softmax window=1000"}, /* longer than the sequence */
        {"mixer=softmax", "mixer=labelled"},            /* inputs are never 0: every row has a label */
        {"mixer=softmax", "mixer=fox", .of_other = {{"mixer.gate", 0}, {"mixer.gate_bias", one}}},
        {"mixer=softmax", "mixer=softmax sinks=true", .of_other = {{"mixer.sink", nothing}}},
        {"mixer=linear", "mixer=mamba2", .of_other = {{"mixer.gate_rate", nothing}}, .exact = true},
        {"mixer=mamba2 normalize_keys=unit", "mixer=mesa iterations=0",
         .of_one = {{"mixer.gate", 0}, {"mixer.gate_rate", 0}, {"mixer.gate_bias", softplus(0)}},
         .of_other = {{"mixer.gate", 0},
                      {"mixer.gate_bias", -log(expm1(softplus(softplus(0))))},
                      {"mixer.write", 0},
                      {"mixer.write_bias", one}}},
    };
    tap_run tap = {0};
    icl_backend *device = tap_open_device(&tap, argc > 1 ? argv[1] : "ref");

    for (size_t i = 0; device && i < sizeof identities / sizeof *identities; i++) {
        const double allowed = icl_backend_capabilities(device)->element_size == sizeof(double) ? 1e-12 : 1e-4;
        double worst = HUGE_VAL;
        size_t copied = 0;
        compare(device, &identities[i], &worst, &copied);
        tap_ok(&tap, copied > 900 && worst <= (identities[i].exact ? 0 : allowed),
               "%s is %s: %.2g, %zu parameters shared", identities[i].one, identities[i].other, worst, copied);
    }
    icl_backend_close(&device);
    return tap_done(&tap);
}
