/* Tests states of models whose parameters are set by hand, against the definitions. */
#include "../model/sequence/fixture.h"
#include "probe/states.h"

enum { V = 4 }; /* symbols; also the width of a model that holds each as a unit vector */

static const icl_task_shape symbols_shape = {
    .positions = V, .symbols = V, .outputs = 2, .first_scored = V - 1, .scored = 1, .loss = ICL_LOSS_SQUARED_ERROR};

/* One block without norms, one head. */
#define PLAIN "layers=1 width=4 heads=1 key_width=4 value_width=4 norm=none feed_forward=none output_norm=none "

/* ---- Models by hand ---- */

static float *find(const fixture *f, float *values, const char *name) {
    for (size_t i = 0; i < icl_model_parameter_count(f->model); i++)
        if (strcmp(icl_model_parameter(f->model, i)->name, name) == 0)
            return values + icl_model_parameter(f->model, i)->offset;
    return NULL;
}

static void fill_identity(float *matrix) {
    for (size_t i = 0; matrix && i < (size_t)V * V; i++)
        matrix[i] = i % (V + 1) == 0;
}

/* The settings of a model: each symbol's part in its write strength [V], the bias of its gate, the length of its
 * keys. */
typedef struct hand {
    const float *slopes;
    float bias, key;
} hand;

/* Symbol s is the unit vector e_s, and so are its query, its value and, up to its length, its key; all other parameters
 * are 0. The sequence is 0, 1, 2, 3. */
static icl_status set_by_hand(fixture *f, const hand *is, icl_error *error) {
    static const char *const identities[] = {"embedding.table", "block.0.mixer.query", "block.0.mixer.key",
                                             "block.0.mixer.value"};
    static const float inputs[V] = {0, 1, 2, 3};
    float values[512] = {0}, *weights;

    if (icl_model_size(f->model) > sizeof values / sizeof *values)
        return icl_fail(error, ICL_ERROR_INPUT, "a model of %zu numbers", icl_model_size(f->model));
    for (size_t i = 0; i < sizeof identities / sizeof *identities; i++)
        fill_identity(find(f, values, identities[i]));
    weights = find(f, values, "block.0.mixer.write");
    for (size_t i = 0; weights && i < V; i++)
        weights[i] = is->slopes[i];
    weights = find(f, values, "block.0.mixer.gate_bias");
    if (weights)
        weights[0] = is->bias;
    weights = find(f, values, "block.0.mixer.key");
    for (size_t i = 0; i < (size_t)V * V; i++)
        weights[i] *= is->key;
    ICL_CHECK(icl_tensor_write(f->parameters, values, error));
    return icl_tensor_write(f->inputs, inputs, error);
}

static icl_status trace_by_hand(icl_backend *backend, const char *overrides, hand is_set, icl_state_traces *traces,
                                icl_error *error) {
    const setting is = {overrides, symbols_shape, 1};
    fixture f = {0};
    icl_status status = ICL_OK;

    fixture_open(&f, backend, &is);
    ICL_TRY(set_by_hand(&f, &is_set, error));
    ICL_TRY(icl_state_traces_measure(f.model, backend, f.parameters, f.inputs, traces, error));
done:
    fixture_close(&f);
    return status;
}

/* ---- The delta rule ---- */

/* beta = 2 sigmoid(slope): 2, 1, 0 and 2 to rounding; 1 - beta is -1, 0, 1 and -1. */
static void test_reflection(tap_run *tap, icl_backend *backend) {
    static const float slopes[V] = {40, 0, -40, 40};
    static const double strengths[V] = {2, 1, 0, 2}, sizes[V] = {2, 1, 0, 2};
    icl_state_traces traces = {0};
    icl_error error = {0};
    double worst = 0;

    if (tap_status(tap,
                   trace_by_hand(backend, PLAIN "mixer=delta write_strength=2", (hand){slopes, 0, 1}, &traces, &error),
                   &error, "the delta rule with known strengths") &&
        traces.traces) {
        const icl_state_trace *trace = &traces.traces[0];
        tap_ok(tap, traces.count == 1 && trace->is_delta && trace->has_beta && !trace->has_gate, "what it has");
        tap_ok(tap, trace->positions == V && trace->writes == 1 && trace->heads == 1 && trace->sequences == 1, "sizes");
        for (size_t t = 0; t < V; t++) {
            worst = fmax(worst, fabs(trace->of[t].strength - strengths[t]));
            worst = fmax(worst, fabs(trace->of[t].written - sizes[t]));
            worst = fmax(worst, fabs(trace->of[t].least - fmin(1, 1 - strengths[t])));
            worst = fmax(worst, fabs(trace->of[t].largest - 1));
        }
        tap_ok(tap, worst < 1e-6, "strengths, norms of what is written, eigenvalues: off by %.2g", worst);
        /* S = diag(2, 1, 0, 2): norm 3, three singular values of 5 in all. */
        const double expected = exp(-(.4 * log(.4) * 2 + .2 * log(.2)));
        tap_ok(tap, fabs(trace->ranks[V - 1].effective - expected) < 1e-6, "effective rank %.6f, expected %.6f",
               trace->ranks[V - 1].effective, expected);
        tap_ok(tap, trace->ranks[V - 1].numeric == 3 && fabs(trace->ranks[V - 1].norm - 3) < 1e-6,
               "numeric rank and norm");
    }
    icl_state_traces_release(&traces);
}

/* ---- Sums, gates ---- */

static void test_sum(tap_run *tap, icl_backend *backend) {
    icl_state_traces traces = {0};
    icl_error error = {0};
    double worst = 0;

    if (tap_status(tap, trace_by_hand(backend, PLAIN "mixer=linear", (hand){.key = 1}, &traces, &error), &error,
                   "linear attention over unit vectors") &&
        traces.traces) {
        const icl_state_trace *trace = &traces.traces[0];
        for (size_t t = 0; t < V; t++) {
            const double tokens = (double)t + 1; /* S is I in the first t + 1 coordinates */
            worst = fmax(worst, fabs(trace->ranks[t].effective - tokens));
            worst = fmax(worst, fabs(trace->ranks[t].numeric - tokens));
            worst = fmax(worst, fabs(trace->ranks[t].norm - sqrt(tokens)));
            worst = fmax(worst, fabs(trace->of[t].least - 1) + fabs(trace->of[t].largest - 1));
        }
        tap_ok(tap, worst < 1e-9, "ranks grow by 1 a token: off by %.2g", worst);
    }
    icl_state_traces_release(&traces);
}

/* The mixers that have one gate for all tokens here; its logarithm follows from their parameters. */
typedef struct gate_case {
    const char *overrides;
    float bias;
    double gate; /* of part 0, NaN: none; momentum's is that of part 1 */
    size_t parts;
} gate_case;

static void test_gates(tap_run *tap, icl_backend *backend) {
    const double rate = log(2); /* softplus(0), and exp(A) = 1 */
    const gate_case cases[] = {
        {PLAIN "mixer=retention", 0, 1 - 1.0 / 32, 1},
        {PLAIN "mixer=mamba2", 0, exp(-rate), 1},
        {PLAIN "mixer=mamba2 gate_limit=0.5", 0, .5 * exp(-rate), 1},
        {PLAIN "mixer=mamba3", 0, exp(-rate * rate), 1},
        {PLAIN "mixer=gated-delta", 1, exp(-log(1 + exp(1))), 1},
        {PLAIN "mixer=gla gate_root=4", 0, pow(.5, .25), 1},
        {PLAIN "mixer=kda", 0, exp(-rate), 1},
        {PLAIN "mixer=gated-delta-2 gate_limit=0.5", 0, .5 * exp(-rate), 1},
        {PLAIN "mixer=preconditioned-delta", 1, exp(-log(1 + exp(1))), 1},
        {PLAIN "mixer=comba", 1, exp(-log(1 + exp(1))), 1},
        {PLAIN "mixer=rwkv7", 0, exp(-.5 * exp(-.5)), 1},
        {PLAIN "mixer=titans", 2, 1 / (1 + exp(-2)), 1},
        {PLAIN "mixer=longhorn", 0, (double)NAN, 1},
        {PLAIN "mixer=gsa slots=1 gate_root=4", 0, pow(.5, .25), 2},
        {PLAIN "mixer=oja gate_root=4", 0, pow(.5, .25), 1},
        {PLAIN "mixer=mesa", 2, 1 / (1 + exp(-2)), 1},
        {PLAIN "mixer=momentum momentum=0.7", 0, .7, 2},
        {PLAIN "mixer=linear normalizer=true feature_map=elu+1", 0, (double)NAN, 2},
        {PLAIN "mixer=delta-product delta_steps=2", 0, (double)NAN, 1},
    };
    static const float slopes[V] = {0, 0, 0, 0};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        icl_state_traces traces = {0};
        icl_error error = {0};
        if (tap_status(tap,
                       trace_by_hand(backend, cases[i].overrides, (hand){slopes, cases[i].bias, 1}, &traces, &error),
                       &error, strstr(cases[i].overrides, "mixer=")) &&
            traces.traces) {
            const icl_state_trace *trace = &traces.traces[traces.count - 1];
            double worst = 0;
            for (size_t j = 0; j < V * trace->writes * trace->channels; j++)
                worst = fmax(worst, fabs(trace->gates[j] - (isnan(cases[i].gate) ? 1 : cases[i].gate)));
            tap_ok(tap, worst < 1e-6 && trace->has_gate == !isnan(cases[i].gate), "its gate %.6f: off by %.2g",
                   trace->gates[0], worst);
            tap_ok(tap, traces.count == cases[i].parts && trace->part == cases[i].parts - 1, "%zu recurrences",
                   traces.count);
        }
        icl_state_traces_release(&traces);
    }
}

/* With strength b = 1/2, gate g = 1/2 and orthogonal keys of length 3/2 along the axes, each write has the eigenvalues
 * g and g (1 - 9 b / 4), and S is diagonal with 3 b / 2, times g for each later token. */
static void test_decaying_delta(tap_run *tap, icl_backend *backend) {
    static const float slopes[V] = {0, 0, 0, 0};
    const double rest = 1 - .5 * 2.25, written = .75;
    icl_state_traces traces = {0};
    icl_error error = {0};

    if (tap_status(tap,
                   trace_by_hand(backend, PLAIN "mixer=gated-delta normalize_keys=none", (hand){slopes, 0, 1.5F},
                                 &traces, &error),
                   &error, "gated delta with keys that are no unit vectors") &&
        traces.traces) {
        const icl_state_write *write = traces.traces[0].of;
        const double norm = written * sqrt(1 + 1.0 / 4 + 1.0 / 16 + 1.0 / 64);
        tap_ok(tap, fabs(write[2].least - rest / 2) < 1e-6 && fabs(write[2].largest - .5) < 1e-6,
               "g (1 - b |k|^2) = %.6f and g", write[2].least);
        tap_ok(tap, fabs(write[2].written - written) < 1e-6, "what is written");
        tap_ok(tap, fabs(traces.traces[0].ranks[V - 1].norm - norm) < 1e-6, "the state decays: %.6f, expected %.6f",
               traces.traces[0].ranks[V - 1].norm, norm);
    }
    icl_state_traces_release(&traces);
}

/* Checks the eigenvalues x of a write (I - b k k^T) Diag(g), k a unit vector of `width` numbers: the least gate and the
 * second largest bound them, and of two the product is the determinant g_1 g_2 (1 - b). */
static void check_channels(tap_run *tap, icl_backend *backend, size_t width, const char *overrides) {
    const setting is = {overrides, small_shape, 2};
    icl_state_traces traces = {0};
    fixture f = {0};
    icl_error error = {0};
    double worst = 0, apart = 0;
    size_t outside = 0;

    fixture_open(&f, backend, &is);
    const icl_status status = icl_state_traces_measure(f.model, backend, f.parameters, f.inputs, &traces, &error);
    if (tap_status(tap, status, &error, overrides) && traces.traces) {
        const icl_state_trace *trace = &traces.traces[0];
        for (size_t i = 0; i < trace->sequences * trace->heads * trace->positions; i++) {
            const icl_state_write *write = &trace->of[i];
            const double *gates = trace->gates + i * width;
            double product = 1 - write->strength, least = HUGE_VAL, largest = 0;
            for (size_t j = 0; j < width; j++) {
                product *= gates[j];
                least = fmin(least, gates[j]);
                largest = fmax(largest, gates[j]);
            }
            worst = fmax(worst, width == 2 ? fabs(write->least * write->largest - product) : 0);
            apart = fmax(apart, largest - least);
            outside += write->least > least + 1e-9 || write->largest < least - 1e-9 || write->largest > largest + 1e-9;
        }
        tap_ok(tap, trace->channels == width && worst < 1e-6 && outside == 0 && apart > 0.01,
               "%s: their product is the determinant to %.2g, %zu outside, gates up to %.2g apart", overrides, worst,
               outside, apart);
    }
    icl_state_traces_release(&traces);
    fixture_close(&f);
}

/* Every second one of 34 positions has a rank, counted back from the last. */
static void test_long(tap_run *tap, icl_backend *backend) {
    enum { POSITIONS = 34 };
    icl_task_shape shape = symbols_shape;
    shape.positions = POSITIONS;
    shape.first_scored = POSITIONS - 1;
    const setting linear = {PLAIN "mixer=linear", shape, 1};
    icl_state_traces traces = {0};
    fixture f = {0};
    icl_error error = {0};

    fixture_open(&f, backend, &linear);
    const icl_status status = icl_state_traces_measure(f.model, backend, f.parameters, f.inputs, &traces, &error);
    if (tap_status(tap, status, &error, "a long sequence") && traces.traces) {
        size_t wrong = 0;
        for (size_t t = 0; t < POSITIONS; t++)
            wrong += isnan(traces.traces[0].ranks[t].norm) != (t % 2 == 0);
        tap_ok(tap, wrong == 0 && traces.traces[0].rank_step == 2, "ranks at 17 of its positions, the last among them");
    }
    icl_state_traces_release(&traces);
    fixture_close(&f);
}

/* ---- What there is ---- */

static void test_counts(tap_run *tap, icl_backend *backend) {
    static const struct {
        const char *overrides;
        size_t traces, last_layer, last_loop;
    } cases[] = {
        {"mixer=softmax", 0, 0, 0},
        {"heads=1 mixer=conv convolution=3", 0, 0, 0},
        {"mixer=linear causal=false", 0, 0, 0},
        {"mixer=fox", 0, 0, 0},
        {"mixer=softmax,delta", 1, 1, 0},
        {"layers=1 mixer=delta loops=3", 3, 0, 2},
        {"mixer=gla,momentum", 3, 1, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const setting is = {cases[i].overrides, small_shape, 2};
        icl_state_traces traces = {0};
        fixture f = {0};
        icl_error error = {0};

        fixture_open(&f, backend, &is);
        const icl_status status = icl_state_traces_measure(f.model, backend, f.parameters, f.inputs, &traces, &error);
        if (tap_status(tap, status, &error, cases[i].overrides)) {
            const icl_state_trace *last = traces.count > 0 ? &traces.traces[traces.count - 1] : NULL;
            tap_ok(tap, traces.count == cases[i].traces, "%zu recurrences", traces.count);
            tap_ok(tap, !last || (last->layer == cases[i].last_layer && last->loop == cases[i].last_loop),
                   "the last is where it stands");
        }
        icl_state_traces_release(&traces);
        fixture_close(&f);
    }
}

static void test_refusal(tap_run *tap, icl_backend *backend) {
    const setting is = {"family=linear layers=1 heads=1", icl_regression_shape(3, 4), 2};
    icl_state_traces traces = {0};
    icl_recipe *recipe = NULL;
    icl_model *model = NULL;
    icl_error error = {0};

    if (tap_status(tap, icl_recipe_create_complete(&recipe, &error), &error, "recipe") &&
        tap_status(tap, icl_model_create(recipe, is.shape, &model, &error), &error, "a linear transformer")) {
        const icl_status status =
            icl_state_traces_measure(model, backend, (icl_tensor){0}, (icl_tensor){0}, &traces, &error);
        tap_ok(tap, status == ICL_ERROR_INPUT && strstr(error.message, "expected sequence, whose runs can be watched"),
               "refused: %s", error.message);
    }
    icl_state_traces_release(&traces);
    icl_model_destroy(&model);
    icl_recipe_destroy(&recipe);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "ref");

    if (backend) {
        test_reflection(&tap, backend);
        test_sum(&tap, backend);
        test_gates(&tap, backend);
        test_decaying_delta(&tap, backend);
        check_channels(&tap, backend, 2, "layers=1 mixer=kda key_width=2");
        check_channels(&tap, backend, 2, "layers=1 mixer=kda key_width=2 write_strength=2");
        check_channels(&tap, backend, 4, "layers=1 mixer=kda key_width=4");
        test_long(&tap, backend);
        test_counts(&tap, backend);
        test_refusal(&tap, backend);
    }
    icl_backend_close(&backend);
    return tap_done(&tap);
}
