/*
 * Internals of model.family = sequence, shared by its files.
 *
 * A model is an embedding, blocks, and a readout. A block is a mixer, through which positions see each other, and a
 * feed-forward part, each inside a residual connection. Each of these concepts has a file; each mixer has a file of its
 * own and a row in ICL_SEQUENCE_MIXERS.
 *
 * Shapes: B sequences, T positions, H heads, m numbers of a key, n of a value. Activations are [B, T, width]; inside of
 * a mixer heads are views [B, H, T, .] of [B, T, H * .]. Weights are [inputs, outputs], y = x W + b.
 */
#ifndef ICLAB_MODEL_SEQUENCE_H
#define ICLAB_MODEL_SEQUENCE_H

#include "iclab/mixer_family.h"
#include "iclab/ops_recurrence.h"
#include "model/model.h"

/* ---- Settings of the recipe ---- */

typedef enum icl_positions {
    ICL_POSITIONS_NONE = 0,
    ICL_POSITIONS_LEARNED,
    ICL_POSITIONS_SINUSOIDAL,
    ICL_POSITIONS_ROTARY,
} icl_positions;

typedef enum icl_sequence_norm_kind { ICL_NORMS_NONE = 0, ICL_NORMS_LAYER, ICL_NORMS_RMS } icl_sequence_norm_kind;

typedef enum icl_norm_place { ICL_NORMS_BEFORE = 0, ICL_NORMS_AFTER } icl_norm_place;

typedef enum icl_tokens { ICL_TOKENS_POSITIONS = 0, ICL_TOKENS_CELLS } icl_tokens;

typedef enum icl_readout { ICL_READOUT_POSITION = 0, ICL_READOUT_POOLED, ICL_READOUT_LAST } icl_readout;

typedef enum icl_feed_forward {
    ICL_FEED_FORWARD_NONE = 0,
    ICL_FEED_FORWARD_RELU,
    ICL_FEED_FORWARD_GELU,
    ICL_FEED_FORWARD_SWIGLU,
    ICL_FEED_FORWARD_QUADRATIC,
} icl_feed_forward;

typedef enum icl_feature_map {
    ICL_FEATURES_IDENTITY = 0,
    ICL_FEATURES_ELU,
    ICL_FEATURES_RELU,
    ICL_FEATURES_TANH,
    ICL_FEATURES_DPFP,
    ICL_FEATURES_FAVOR,
    ICL_FEATURES_LEARNED,
} icl_feature_map;

/* How keys are normalized; AUTO is what the mixer's rule needs. */
typedef enum icl_key_norm {
    ICL_KEYS_AUTO = 0,
    ICL_KEYS_AS_THEY_ARE,
    ICL_KEYS_UNIT, /* x / |x| */
    ICL_KEYS_SUM,  /* x / (sum of x): Schlag, Irie, Schmidhuber 2021, equation 22 */
} icl_key_norm;

/* The number of a parameter of the model, counted from 1; 0 if the model has none. */
typedef size_t icl_sequence_parameter;

/* Gain and shift of a norm. */
typedef struct icl_sequence_norm {
    icl_sequence_parameter gain, shift;
} icl_sequence_norm;

/* sigmoid(x W + b): a matrix [width, shares], and [shares]. */
typedef struct icl_sequence_share_of {
    icl_sequence_parameter weight, bias;
} icl_sequence_share_of;

/* -exp(A) softplus(x W + b): a matrix [width, H], and b and A [H]. */
typedef struct icl_sequence_rate {
    icl_sequence_parameter weight, bias, rate;
} icl_sequence_rate;

/* The parameters of mamba3 alone. */
typedef struct icl_sequence_turns {
    icl_sequence_parameter step, share, angle;       /* [width, H], [width, H], [width, m/2] */
    icl_sequence_parameter step_bias, skip;          /* [H] */
    icl_sequence_parameter query_gain, key_gain;     /* [m] */
    icl_sequence_parameter query_offset, key_offset; /* [R H m] */
    icl_sequence_parameter spread, gather;           /* [R H n], if R > 1 */
} icl_sequence_turns;

/* The parameters of attention among the cells of a row, of model.tokens = cells: its norm, and matrices as those of
 * attention among positions. */
typedef struct icl_sequence_row_attention {
    icl_sequence_norm norm;
    icl_sequence_parameter query, key, value, output;
} icl_sequence_row_attention;

/* The parameters of one block. A mixer uses some of them. */
typedef struct icl_sequence_layer {
    const struct icl_sequence_mixer *mixer;
    size_t index; /* the block's number, from 0 */

    /* The mixer of a program's own; NULL: one of this room. `first`: its parameters' number, from 0. */
    const icl_mixer_family *own;
    icl_mixer_block block;
    size_t first;

    icl_sequence_row_attention row;                                /* with cells */
    icl_sequence_norm mixer_norm, feed_forward_norm;               /* before or after them */
    icl_sequence_parameter query, key, value;                      /* [width, H m], [width, H m], [width, H n] */
    icl_sequence_parameter query_filter, key_filter, value_filter; /* [convolution, channels] */
    icl_sequence_parameter features, features_bias;                /* for model.feature_map = learned or favor */
    icl_sequence_share_of write, erase;                            /* shares that are written, and taken out */
    icl_sequence_parameter gate, gate_rank, gate_bias;             /* of the state's decay */
    icl_sequence_parameter gate_rate;                              /* [H]: log of A of gates for each number */
    icl_sequence_parameter ridge;                                  /* [H, 1, m] */
    icl_sequence_parameter removal, blend;                         /* [H m], of rwkv7 */
    icl_sequence_parameter feedback, correction;                   /* [H], of comba */
    icl_sequence_parameter sink;                                   /* [H], of softmax */
    icl_sequence_turns turns;                                      /* of mamba3 */
    icl_sequence_rate rate_gate;                                   /* of mamba2, and of those with its gate */
    icl_sequence_rate condition_gate;                              /* of preconditioned-delta, as the next two */
    icl_sequence_share_of condition_write;
    icl_sequence_parameter condition_center;                    /* [H] */
    icl_sequence_parameter level, level_scale;                  /* [width, H levels], [H levels], of log-linear */
    icl_sequence_parameter output_gain, output_gate;            /* gain of the output norm [n]; [width, H n] */
    icl_sequence_parameter output;                              /* [H n, width] */
    icl_sequence_parameter up, up_bias, gated, down, down_bias; /* of the feed-forward part */
} icl_sequence_layer;

/* The initial values of a parameter. */
typedef struct icl_sequence_start {
    enum {
        ICL_START_CONSTANT,         /* a */
        ICL_START_NORMAL,           /* N(0, a^2) */
        ICL_START_UNIFORM,          /* uniform in (-a, a) */
        ICL_START_IDENTITY,         /* 1 on the diagonal, else 0 */
        ICL_START_LOG_UNIFORM,      /* log u with u uniform in (a, b) */
        ICL_START_INVERSE_SOFTPLUS, /* x such that log(softplus(x)) is uniform in (log a, log b) */
        ICL_START_ORTHOGONAL,       /* columns of [d, m]: blocks of orthogonal directions, as long as normal vectors */
    } kind;
    double a, b;
    bool keeps; /* no weight decay: biases, gains, positions, rates */
} icl_sequence_start;

/* Returns x with log(1 + exp(x)) = y > 0; beyond 40 both are the same double. */
double icl_sequence_inverse_softplus(double y);

/* The number of layers between the last position and the outputs of model.readout = last. */
#define ICL_SEQUENCE_DECODER 2

/* model->state. */
typedef struct icl_sequence {
    /* Recipe keys; members have the keys' names. */
    size_t width, heads, key_width, value_width, loops, convolution, window, delta_steps, iterations, slots, mimo_rank;
    bool causal, injection, loop_norm, embedding_bias, tied_embedding, normalizer, output_gate, sinks;
    icl_tokens tokens;
    size_t label_inputs;
    icl_positions positions;
    icl_norm_place norm_place;
    icl_sequence_norm_kind norm, output_norm;
    icl_feed_forward feed_forward;
    icl_readout readout;
    icl_key_norm normalize_keys;
    double position_base, feed_forward_factor, activation_clip, dropout, init; /* clip and init: 0 for none */
    double write_strength, ridge, momentum, gate_limit, gate_root;

    size_t cells;         /* vectors of a position: 1, or with model.tokens = cells one for each cell */
    size_t hidden;        /* the width of the feed-forward part's hidden layer */
    size_t feature_width; /* the numbers of a key after its feature map */

    icl_feature_map feature_map;
    size_t feature_count; /* NU of dpfp, M of favor and of learned; 0 for plain learned: as many as a key has */
    bool favor_as_it_is;  /* favor takes x instead of x m^(-1/4) */

    icl_sequence_parameter embedding, embedding_shift, label_embedding, label_shift;
    icl_sequence_parameter position_table, readout_weight, readout_shift;
    icl_sequence_norm final_norm;
    struct {
        icl_sequence_norm norm;
        icl_sequence_parameter weight, bias; /* [width, width], [width] */
    } decoder[ICL_SEQUENCE_DECODER];         /* for model.readout = last */
    icl_sequence_layer *layers;              /* [model->layers] */
    icl_sequence_start *starts;              /* one for each parameter */
    size_t start_count, start_capacity;
} icl_sequence;

/* ---- Mixers ---- */

/* The groups of recipe keys that a mixer reads, a bit each. A key that no layer's mixer reads is refused (keys.c). */
typedef enum icl_sequence_reads {
    ICL_READS_KEYS = 1,           /* it has queries and keys */
    ICL_READS_VALUES = 2,         /* values, and heads */
    ICL_READS_FEATURES = 4,       /* a feature map and norms of keys */
    ICL_READS_CONVOLUTION = 8,    /* short convolutions */
    ICL_READS_WRITES = 16,        /* a write strength */
    ICL_READS_STEPS = 32,         /* several steps a token */
    ICL_READS_SOLVER = 64,        /* iterations and ridge */
    ICL_READS_MOMENTUM = 128,     /* momentum */
    ICL_READS_NORMALIZER = 256,   /* the divisor of linear attention */
    ICL_READS_GATE_LIMIT = 512,   /* gates that depend on the token */
    ICL_READS_GATE_ROOT = 1024,   /* the root that gates by channel are taken of */
    ICL_READS_OUTPUT = 2048,      /* norm and gate of each head's output */
    ICL_READS_OUTPUT_GATE = 4096, /* the gate alone */
    ICL_READS_SINKS = 8192,       /* sinks of attention */
    ICL_READS_SLOTS = 16384,      /* the number of slots */
    ICL_READS_WINDOW = 32768,     /* positions that a query sees */
    ICL_READS_RANK = 65536,       /* several queries and keys a token that share one state and value */
} icl_sequence_reads;

typedef struct icl_sequence_pass icl_sequence_pass;
typedef struct icl_sequence_heads icl_sequence_heads;

/* A probe's view of a run: each member is called while the model records itself, with variables whose values live until
 * the tape is reset. A member that is NULL is not called. */
typedef struct icl_sequence_watch {
    /* Sees the queries and keys of a softmax layer; the queries are those of the last positions. */
    void (*attention)(void *user, const icl_sequence_pass *pass, const icl_sequence_layer *layer,
                      const icl_attention_params *params, const icl_sequence_heads *heads);
    /* Sees the residual stream [B, T, width] of all positions, after the embedding (stage 0) and after each layer of
     * each loop (stage 1 + loop * layers + layer), and returns what the run goes on with: z, or a stream of its own on
     * the same tape. If it is set, the outputs are those of all positions, too. */
    icl_variable (*stage)(void *user, const icl_sequence_pass *pass, size_t stage, icl_variable z);
    /* Sees the outputs [B, S, q]. */
    void (*outputs)(void *user, icl_variable outputs);
    /* Sees each recurrence of a layer before it runs; momentum and the normalizer of linear attention have two. */
    void (*recurrence)(void *user, const icl_sequence_pass *pass, const icl_sequence_layer *layer, bool delta,
                       const icl_recurrence_variables *operands);
    void *user;
} icl_sequence_watch;

/* One run of the model on a tape. */
struct icl_sequence_pass {
    const icl_model *model;
    const icl_sequence *sequence; /* the model's state */
    icl_tape *tape;
    const icl_variable *parameters;
    icl_variable inputs;             /* of this run: [B, T, p], or symbols [B, T] */
    icl_model_memory *memory;        /* the state left by the positions before; NULL: none */
    size_t first_position;           /* the number of this run's first position */
    size_t first_scored, scored;     /* positions of this run whose outputs are wanted */
    bool is_last;                    /* the last layer: its other positions are not read later */
    size_t cells;                    /* vectors of a position that stand side by side in a mixer's input */
    size_t loop, loops;              /* the loops that ran before, and all of this run (model.loops) */
    const icl_sequence_watch *watch; /* NULL: nobody watches */
};

/* Runs a model under a watch, on an empty tape with parameters [N] that are constants, or whose gradients go to
 * gradient [N] if it has a buffer. ICL_ERROR_INPUT for models of another family, and for those with cells as tokens. */
icl_status icl_sequence_watch_run(const icl_model *model, icl_tape *tape, icl_tensor parameters, icl_tensor gradient,
                                  icl_tensor inputs, const icl_sequence_watch *watch, icl_error *error);

/* A model whose parameters are being added. */
typedef struct icl_sequence_builder {
    icl_model *model;
    icl_sequence *sequence;
    const icl_recipe *recipe;
} icl_sequence_builder;

typedef struct icl_sequence_mixer {
    const char *word;  /* in model.mixer */
    unsigned reads;    /* icl_sequence_reads */
    bool is_two_sided; /* model.causal = false is allowed */
    bool has_sigmoid;  /* the gate of the output is a sigmoid and no SiLU */
    icl_key_norm keys; /* what ICL_KEYS_AUTO means */
    icl_status (*create)(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error);
    /* Maps x [B, T, width] to [B, T, width]. */
    icl_variable (*mix)(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x);
} icl_sequence_mixer;

/* The mixers, in the order in which messages list them: icl_mixer_NAME in mixer_NAME.c, which defines its word
 * of model.mixer. */
#define ICL_SEQUENCE_MIXERS(MIXER)                                                                                     \
    MIXER(softmax)                                                                                                     \
    MIXER(labelled)                                                                                                    \
    MIXER(fox)                                                                                                         \
    MIXER(linear)                                                                                                      \
    MIXER(retention)                                                                                                   \
    MIXER(gla)                                                                                                         \
    MIXER(mamba2)                                                                                                      \
    MIXER(mamba3)                                                                                                      \
    MIXER(delta)                                                                                                       \
    MIXER(gated_delta)                                                                                                 \
    MIXER(delta_product)                                                                                               \
    MIXER(kda)                                                                                                         \
    MIXER(gated_delta_2)                                                                                               \
    MIXER(preconditioned_delta)                                                                                        \
    MIXER(comba)                                                                                                       \
    MIXER(rwkv7)                                                                                                       \
    MIXER(titans)                                                                                                      \
    MIXER(longhorn)                                                                                                    \
    MIXER(mesa)                                                                                                        \
    MIXER(momentum)                                                                                                    \
    MIXER(gsa)                                                                                                         \
    MIXER(oja)                                                                                                         \
    MIXER(log_linear)                                                                                                  \
    MIXER(convolution)

#define ICL_DECLARE_MIXER(name) extern const icl_sequence_mixer icl_mixer_##name;
ICL_SEQUENCE_MIXERS(ICL_DECLARE_MIXER)
#undef ICL_DECLARE_MIXER

/* The mixer of layers that have one of a program's own (mixer_own.c). */
extern const icl_sequence_mixer icl_mixer_own;

/* Returns the word of a layer's mixer. */
static inline const char *icl_sequence_word(const icl_sequence_layer *layer) {
    return layer->own ? layer->own->name : layer->mixer->word;
}

/* Writes the words of the mixers with a bit of `reads`, as "delta, gated-delta"; those of all mixers for 0. Returns
 * text. */
const char *icl_sequence_mixer_words(unsigned reads, char *text, size_t capacity);

/* ---- Keys (keys.c) ---- */

/* Fills the settings and the mixer of each layer; refuses keys that no layer reads, and settings that do not fit
 * together. */
icl_status icl_sequence_read_keys(const icl_recipe *recipe, const icl_model *model, icl_sequence *sequence,
                                  icl_error *error);

/* The recipe keys of attention keys and their feature map, which other families list, too: width; key_width, by default
 * width / sequence->heads; and feature_map. */
extern const icl_recipe_group icl_sequence_feature_keys;
icl_status icl_sequence_read_features(const icl_recipe *recipe, icl_sequence *sequence, icl_error *error);

/* ---- Parameters (parameters.c) ---- */

/* Adds a parameter with this start, names it, and sets *parameter to its number. */
icl_status icl_sequence_add(icl_sequence_builder *builder, icl_sequence_parameter *parameter, icl_sequence_start start,
                            int rank, const size_t *shape, icl_error *error, const char *format, ...) ICL_PRINTF(7, 8);

/* Adds a matrix [inputs, outputs] of block `layer`, called block.LAYER.NAME, that begins as N(0, model.init^2), or with
 * variance 1 / inputs if model.init is 0. */
icl_status icl_sequence_add_matrix(icl_sequence_builder *builder, icl_sequence_parameter *parameter,
                                   const icl_sequence_layer *layer, const char *name, size_t inputs, size_t outputs,
                                   icl_error *error);

/* As above, for a matrix whose outputs a residual connection adds: a factor (2 layers)^(-1/2) keeps the sum of all
 * blocks of order 1, as in GPT-2. */
icl_status icl_sequence_add_residual(icl_sequence_builder *builder, icl_sequence_parameter *parameter,
                                     const icl_sequence_layer *layer, const char *name, size_t inputs, size_t outputs,
                                     icl_error *error);

/* Adds a vector [count] of constants, which does not decay. */
icl_status icl_sequence_add_constants(icl_sequence_builder *builder, icl_sequence_parameter *parameter,
                                      const icl_sequence_layer *layer, const char *name, size_t count, double value,
                                      icl_error *error);

/* Writes the initial values of the model's parameters, whose starts `is` holds. */
void icl_sequence_initialize(const icl_model *model, const icl_sequence *sequence, uint32_t seed, float *values);

/* Draws directions of favor [d, m] for a step of training, as ICL_START_ORTHOGONAL does. */
void icl_sequence_redraw_directions(const icl_parameter_info *info, uint32_t seed, uint64_t step, float *values);

/* Returns the parameter on the tape. Its number must not be 0. */
icl_variable icl_sequence_value(const icl_sequence_pass *pass, icl_sequence_parameter parameter);

/* ---- Small operations on the tape (parameters.c) ---- */

/* Returns x W + b; without b if bias is 0. */
icl_variable icl_sequence_linear(const icl_sequence_pass *pass, icl_variable x, icl_sequence_parameter weight,
                                 icl_sequence_parameter bias);

/* Returns the heads of a mixer; those of a position's cells stand side by side: each column of a table attends by
 * itself. */
static inline size_t icl_sequence_heads_of(const icl_sequence_pass *pass) {
    return pass->sequence->heads * pass->cells;
}

/* Returns [B, T C, H w] as heads [B, C H, T, w], a view, where a position has C = pass->cells vectors. */
icl_variable icl_sequence_split(const icl_sequence_pass *pass, icl_variable x, size_t width);

/* Returns a times b, which repeats where its extents are 1. */
icl_variable icl_sequence_multiply(icl_tape *tape, icl_variable a, icl_variable b);

/* Returns a parameter [H w] as [H, 1, w], beside heads [B, H, T, w]. */
icl_variable icl_sequence_by_head(const icl_sequence_pass *pass, icl_sequence_parameter parameter, size_t width);

/* Returns heads [B, C H, T, w] as [B, T C, H w]. */
icl_variable icl_sequence_join(const icl_sequence_pass *pass, icl_variable heads);

icl_variable icl_sequence_add_scalar(const icl_sequence_pass *pass, icl_variable x, double value);

/* Returns the positions of z [B, T, width] that have a score; z itself if all have one, or if it holds no others. */
icl_variable icl_sequence_keep_scored(const icl_sequence_pass *pass, icl_variable z);

/* ---- Parts that mixers share (parts.c): heads ---- */

/* Queries [B, H, T, m], and keys [B, H, T steps, m] and values [B, H, T steps, n] of `steps` writes a token; for mixers
 * that read model.mimo_rank queries [B, H, T steps, m] and values [B, H, T, n]. */
struct icl_sequence_heads {
    icl_variable q, k, v;
};

/* Applies the projections and convolutions, and the feature map, with `steps` keys and values a token. */
icl_sequence_heads icl_sequence_project(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x,
                                        size_t steps);

/* Returns the rows of x at length 1; a row of zeros stays so. */
icl_variable icl_sequence_unit(const icl_sequence_pass *pass, icl_variable x);

/* Applies a causal convolution with a filter for each channel; remembers the inputs of the positions before. */
icl_variable icl_sequence_convolve(const icl_sequence_pass *pass, icl_variable x, icl_sequence_parameter filter);

/* phi(x) for x [B, H, T, m] (feature_map.c): its parameters, and its value. */
icl_status icl_sequence_add_features(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error);
icl_variable icl_sequence_features(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x);

/* Applies the output's norm of each head, its gate, and the projection back to the width; o [B, H, T, n]. */
icl_variable icl_sequence_emit(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x,
                               icl_variable o);

/* ---- Matrix states ---- */

/* Adds the projections, the feature map, and the output's norm, gate and projection, which all mixers with a matrix
 * state have. */
icl_status icl_sequence_add_matrix_state(icl_sequence_builder *builder, icl_sequence_layer *layer, size_t steps,
                                         icl_error *error);

/* Runs a recurrence and remembers its state; k or v has B and H in full. */
icl_variable icl_sequence_remember(const icl_sequence_pass *pass, const icl_recurrence_params *params,
                                   const icl_recurrence_variables *operands);

/* The same at the scale of the mixer's queries, before the eyes of a watch. */
icl_variable icl_sequence_recur(const icl_sequence_pass *pass, const icl_sequence_layer *layer, bool delta,
                                const icl_recurrence_variables *operands);

/* Runs the recurrence with these params, before the eyes of a watch, and remembers its state. */
icl_variable icl_sequence_recur_with(const icl_sequence_pass *pass, const icl_sequence_layer *layer,
                                     const icl_recurrence_params *params, const icl_recurrence_variables *operands);

/* Returns the factor of the outputs: m^(-1/2) for keys as they are projected, 1 after a feature map or a norm. */
double icl_sequence_scale(const icl_sequence *sequence, const icl_sequence_layer *layer);

/* beta = write_strength sigmoid(x W + b) [B, H, T steps, 1]. */
icl_status icl_sequence_add_write(icl_sequence_builder *builder, icl_sequence_layer *layer, size_t steps,
                                  icl_error *error);
icl_variable icl_sequence_write(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x,
                                double strength);

/* ---- Gates (gates.c) ----
 *
 * Decays are natural logarithms, with log gate_limit added to them. */

/* -exp(A) softplus(x W + dt) [B, H, T, 1], with parameters whose names begin with `name`. */
icl_status icl_sequence_add_rate_of(icl_sequence_builder *builder, icl_sequence_rate *gate,
                                    const icl_sequence_layer *layer, const char *name, icl_error *error);
icl_variable icl_sequence_rate_of(const icl_sequence_pass *pass, const icl_sequence_rate *gate, icl_variable x);

/* The same with the parameters of the layer's gate, the decay of mamba2. */
static inline icl_status icl_sequence_add_rate_gate(icl_sequence_builder *builder, icl_sequence_layer *layer,
                                                    icl_error *error) {
    return icl_sequence_add_rate_of(builder, &layer->rate_gate, layer, "mixer.gate", error);
}

static inline icl_variable icl_sequence_rate_gate(const icl_sequence_pass *pass, const icl_sequence_layer *layer,
                                                  icl_variable x) {
    return icl_sequence_rate_of(pass, &layer->rate_gate, x);
}

/* Adds matrices [width, rank] and [rank, H m] and a bias [H m] that begins so: layer->gate_rank, gate and gate_bias. */
icl_status icl_sequence_add_low_rank(icl_sequence_builder *builder, icl_sequence_layer *layer, size_t rank,
                                     icl_sequence_start start, icl_error *error);

/* -exp(A) softplus(x F G + dt) [B, H, T, m], A a number for each head, F [width, n] and G [n, H m]. */
icl_status icl_sequence_add_channel_gate(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error);
icl_variable icl_sequence_channel_gate(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x);

/* log sigmoid(x W + b)^(1 / gate_root) [B, H, T, channels], W [width, H channels], which begins at 2^(-1 / gate_root).
 * The gates of gla have the matrix of icl_sequence_add_low_rank, and x of its rank. */
icl_status icl_sequence_add_root_gate(icl_sequence_builder *builder, icl_sequence_layer *layer, size_t channels,
                                      icl_error *error);
icl_variable icl_sequence_root_gate(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x,
                                    size_t channels);

/* log sigmoid(x W + c) [B, H, T, 1], which begins near log .98. */
icl_status icl_sequence_add_kept(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error);
icl_variable icl_sequence_kept(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x);

/* Returns key exp(min(-decay, 8)), the read key under which the op finds what the state held before its decay. Where
 * less than exp(-8) of a state stays, what is read fades with it. */
icl_variable icl_sequence_before_decay(const icl_sequence_pass *pass, icl_variable key, icl_variable decay);

/* largest sigmoid(x W + b) [B, H, T, w] of `count` = H w shares. */
icl_status icl_sequence_add_share(icl_sequence_builder *builder, icl_sequence_share_of *share,
                                  const icl_sequence_layer *layer, const char *name, size_t count, icl_error *error);
icl_variable icl_sequence_share(const icl_sequence_pass *pass, const icl_sequence_share_of *share, icl_variable x,
                                double largest, size_t width);

/* ---- Attention ---- */

/* Adds projections, sinks (model.sinks) and the output of attention over all keys so far. */
icl_status icl_sequence_add_attention(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error);

/* Maps x by attention. offset [B, H, T, 1]: what each key adds to the logits of its queries; NULL: nothing. */
icl_variable icl_sequence_attend(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x,
                                 const icl_variable *offset);

#endif
