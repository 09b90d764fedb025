/* Refusals of model.family = sequence, each by one line that names the key and the expected values. */
#include "fixture.h"

typedef struct refusal {
    const char *overrides, *expected;
} refusal;

static const refusal refusals[] = {
    {"mixer=lineer", "did you mean \"linear\"?"},
    {"mixer=delta,,linear", "\"\" is none"},
    {"mixer=all",
     "words of softmax, labelled, fox, linear, retention, gla, mamba2, mamba3, delta, gated-delta, delta-product, kda, "
     "gated-delta-2, preconditioned-delta, comba, rwkv7, titans, longhorn, mesa, momentum, gsa, oja, log-linear, "
     "conv, with commas"},
    {"mixer=softmax,delta,gla", "at most 2 words, one for each layer"},
    {"mixer=delta causal=false", "model.causal = false: expected true: the mixer delta of layer 0 has no other form"},
    {"mixer=softmax,gla causal=false", "the mixer gla of layer 1 has no other form"},
    {"mixer=softmax heads=4", "model.heads = 4: expected a divisor of model.width = 6, or another model.key_width"},
    {"mixer=softmax heads=4 key_width=2", "or another model.value_width"},
    {"mixer=conv heads=1", "model.convolution = 0: expected at least 2 for the mixer conv"},
    {"mixer=conv heads=1 convolution=1", "at least 2"},
    {"mixer=softmax causal=false convolution=3", "model.convolution = 3: expected 0 beside model.causal = false"},
    {"mixer=delta window=3",
     "model.window = 3: expected 0, its default: no layer reads it, only the mixers softmax do"},
    {"mixer=softmax causal=false window=3", "model.window = 3: expected 0 beside model.causal = false"},
    {"mixer=softmax sinks=true window=3", "model.window = 3: expected 0 beside model.sinks = true"},
    {"mixer=softmax window=-1", "model.window"},
    {"mixer=conv convolution=3", "model.heads = 2: expected 1, its default: no layer reads it"},
    {"mixer=softmax momentum=0.3", "expected 0.5, its default: no layer reads it, only the mixers momentum do"},
    {"mixer=softmax write_strength=2", "only the mixers delta, gated-delta, delta-product, kda, gated-delta-2, "},
    {"mixer=delta sinks=true", "model.sinks = true: expected false, its default: no layer reads it, only the mixers "
                               "softmax do"},
    {"mixer=fox sinks=true", "only the mixers softmax do"},
    {"mixer=softmax output_norm=layer", "model.output_norm = layer: expected rms, its default: no layer reads it"},
    {"mixer=labelled causal=false tokens=cell", "model.tokens = cell: expected one of positions|cells"},
    {"mixer=labelled,softmax causal=false tokens=cells",
     "model.tokens = cells: expected positions: the mixer softmax of layer 1 does not know columns"},
    {"mixer=labelled tokens=cells", "only with model.causal = false, model.positions = none"},
    {"mixer=labelled causal=false positions=learned tokens=cells", "model.positions = none"},
    {"mixer=labelled causal=false readout=last tokens=cells", "model.readout = position"},
    {"mixer=labelled causal=false tokens=cells label_inputs=3",
     "model.label_inputs = 3: expected less than 3, the inputs of a row"},
    {"mixer=labelled causal=false tokens=cells label_inputs=0", "model.label_inputs = 0: expected"},
    {"mixer=labelled causal=false label_inputs=1", "model.tokens = positions does not read it"},
    {"mixer=fox causal=false", "the mixer fox of layer 0 has no other form"},
    {"mixer=kda causal=false", "the mixer kda of layer 0 has no other form"},
    {"mixer=rwkv7 gate_limit=0.5", "model.gate_limit = 0.5: expected 1, its default: no layer reads it"},
    {"mixer=longhorn gate_limit=0.5", "model.gate_limit"},
    {"mixer=conv heads=1 convolution=2 output_gate=true", "model.output_gate = true: expected false, its default"},
    {"mixer=conv heads=1 convolution=2 output_gate=true", "momentum, gsa, oja, log-linear do"},
    {"mixer=gla slots=3", "model.slots = 3: expected 0, its default: no layer reads it, only the mixers gsa do"},
    {"mixer=delta mimo_rank=2",
     "model.mimo_rank = 2: expected 1, its default: no layer reads it, only the mixers mamba3 do"},
    {"mixer=mamba3 key_width=4 mimo_rank=0", "model.mimo_rank = 0: expected"},
    {"mixer=mamba3 key_width=4 mimo_rank=4", "model.mimo_rank = 4: expected at most 3, the numbers of a value"},
    {"mixer=mamba3 key_width=2 mimo_rank=3", "model.mimo_rank = 3: expected at most 2, the numbers of a key"},
    {"mixer=mamba3",
     "model.key_width = 0: expected an even number for the mixer mamba3, whose keys turn in pairs: here "
     "they have 3"},
    {"mixer=mamba3 key_width=4 causal=false", "the mixer mamba3 of layer 0 has no other form"},
    {"mixer=mamba3 key_width=4 gate_limit=0.5", "model.gate_limit = 0.5: expected 1, its default: no layer reads it"},
    {"mixer=kad", "did you mean \"kda\"?"},
    {"mixer=delta normalizer=true", "only the mixers linear do"},
    {"mixer=softmax feature_map=relu", "model.feature_map"},
    {"mixer=linear feature_map=rely", "the nearest is relu"},
    {"mixer=linear feature_map=dpfp", "dpfp:NU"},
    {"mixer=linear feature_map=dpfp:0", "NU and M from 1 to 65536"},
    {"mixer=linear feature_map=favor", "favor:M"},
    {"mixer=linear feature_map=favor:65537", "NU and M from 1 to 65536"},
    {"mixer=linear feature_map=identity:2", "identity, elu+1, relu"},
    {"mixer=linear feature_map=elu+1:2", "identity, elu+1, relu"},
    {"mixer=linear feature_map=relu:2", "identity, elu+1, relu"},
    {"mixer=linear feature_map=tanh:2", "identity, elu+1, relu"},
    {"mixer=linear feature_map=learned:0", "learned or learned:M"},
    {"mixer=linear feature_map=learned:", "learned or learned:M"},
    {"mixer=linear normalizer=true", "the sum of its weights may be 0"},
    {"mixer=linear normalize_keys=sum", "the sum of a key may be 0"},
    {"mixer=linear normalizer=true feature_map=tanh", "false beside model.feature_map = tanh"},
    {"mixer=softmax positions=rotary", "keys of an even width: here they have 3 numbers"},
    {"mixer=conv heads=1 convolution=2 positions=rotary", "no layer has any"},
    {"mixer=softmax width=3 heads=1 positions=sinusoidal", "an even number"},
    {"mixer=softmax readout=pooled", "the task scores 4 positions"},
    {"mixer=softmax width=3 heads=1 readout=last", "an even number beside model.readout = last"},
    {"mixer=softmax loops=0", "loops"},
    {"mixer=softmax norm=none loop_norm=true", "model.loop_norm = true: expected false: only with norms before"},
    {"mixer=softmax norm_place=after loop_norm=true", "only with norms before"},
    {"mixer=softmax readout=last loop_norm=true", "outputs from each position or from their mean"},
    {"mixer=softmax write_strength=2.5", "write_strength"},
    {"mixer=softmax norm=none norm_place=after", "model.norm = none does not read it"},
    {"mixer=softmax feed_forward=none feed_forward_factor=2", "model.feed_forward = none does not read it"},
    {"mixer=softmax position_base=100", "model.positions = none does not read it"},
    {"mixer=softmax init_std=0.1", "model.family = sequence does not read it"},
    {"family=linear parameterization=full width=3", "model.family = linear does not read it"},
};

/* Overrides that are just not refused. */
static const char *const accepted[] = {"mixer=softmax window=6",
                                       "mixer=delta,softmax window=1",
                                       "mixer=linear feature_map=favor:65536",
                                       "mixer=linear feature_map=dpfp:1",
                                       "mixer=linear feature_map=learned",
                                       "mixer=linear feature_map=learned:1",
                                       "mixer=labelled causal=false tokens=cells label_inputs=2"};

static void check_accepted(tap_run *tap, const setting *config) {
    icl_model *model = NULL;
    icl_error error = {0};

    tap_status(tap, make_model(config, &model, &error), &error, config->overrides);
    icl_model_destroy(&model);
}

int main(void) {
    tap_run tap = {0};
    setting symbols = setting_of("symbols mixer=softmax", 1);
    const setting unbiased = setting_of("symbols mixer=softmax embedding_bias=false", 1);

    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        check_refusal(&tap, &(setting){refusals[i].overrides, small_shape, 1}, refusals[i].expected);
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++)
        check_accepted(&tap, &(setting){accepted[i], small_shape, 1});
    symbols.shape.symbols = ((size_t)1 << 24) + 1;
    check_refusal(&tap, &symbols, "at most 16777216 symbols");
    symbols.shape.symbols--;
    check_accepted(&tap, &symbols);
    check_refusal(&tap, &(setting){"mixer=softmax tied_embedding=true", small_shape, 1},
                  "model.tied_embedding = true: expected false: the task has 0 symbols and 2 outputs");
    check_refusal(&tap, &(setting){"mixer=softmax causal=false tokens=cells", symbols.shape, 1},
                  "model.tokens = cells: expected positions: the task has symbols");
    check_refusal(&tap, &unbiased, "model.embedding_bias = false: expected true: the task has symbols");
    return tap_done(&tap);
}
