/*
 * model.family = sequence: stacks of mixers and feed-forward parts between an embedding and a readout.
 *
 *     e = embedding(inputs) + positions
 *     z = blocks(e), then z = blocks(z + e) for each further loop      (model.loops, Yang and others 2024), or z =
 *                                           blocks(z) with model.injection = false; with model.loop_norm each loop ends
 *                                           in the norm that otherwise only the readout has, as theirs do
 *     outputs from z at the scored positions, the mean over all, or the last one
 *
 * Each of the L blocks, with norms before:  z <- z + mixer(norm(z));  z <- z + feed_forward(norm(z))
 * with norms after:                         z <- norm(z + mixer(z));  z <- norm(z + feed_forward(z)), and no norm
 *                                           before the readout, whose input is normed already
 * before both, with model.tokens = cells:   a part of the same form, attention among the cells of a row
 * after all, c = model.activation_clip:     z <- min(max(z, -c), c), which keeps deep stacks of linear mixers,
 *                                           polynomials of high degree, finite (von Oswald and others 2023)
 *
 * While a training is recorded, model.dropout acts on e and on what each part of a block adds, as in GPT-2, but not on
 * attention weights. Its calls count in the order of the formulas.
 *
 * Parameters, by name: embedding.weight [p, width] and .bias, or embedding.table [V, width]; positions.table [T,
 * width]; with cells embedding.label.weight and .bias, block.I.row.query, .key, .value and .output, and
 * block.I.row_norm; block.I.mixer_norm and block.I.feed_forward_norm, each .gain and .shift; block.I.mixer.* as the
 * files of the mixers and parts.c have them; block.I.feed_forward.gate, .up, .up_bias, .down, .down_bias; norm.gain and
 * .shift; readout.weight [width, q], unless the table is tied, and readout.bias; and with model.readout = last
 * readout.I.norm, .weight and .bias.
 */
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "model/sequence/sequence.h"

/* ---- Norms ---- */

/* A norm along the width is none, a layer norm (Ba, Kiros, Hinton 2016) with gain and shift, or an RMS norm (Zhang,
 * Sennrich 2019) with a gain. */

#define EPSILON 1e-5 /* as GPT-2 has it */

static icl_status add_norm(icl_sequence_builder *builder, icl_sequence_norm *norm, icl_error *error, const char *name) {
    const icl_sequence *sequence = builder->sequence;

    if (sequence->norm == ICL_NORMS_NONE)
        return ICL_OK;
    ICL_CHECK(icl_sequence_add(builder, &norm->gain, (icl_sequence_start){ICL_START_CONSTANT, 1, 0, true}, 1,
                               &sequence->width, error, "%s.gain", name));
    if (sequence->norm == ICL_NORMS_LAYER)
        ICL_CHECK(icl_sequence_add(builder, &norm->shift, (icl_sequence_start){ICL_START_CONSTANT, 0, 0, true}, 1,
                                   &sequence->width, error, "%s.shift", name));
    return ICL_OK;
}

static icl_variable normalize(const icl_sequence_pass *pass, const icl_sequence_norm *norm, icl_variable x) {
    const icl_normalize_params params = {pass->sequence->norm == ICL_NORMS_LAYER ? ICL_NORM_LAYER : ICL_NORM_RMS,
                                         EPSILON};

    if (!norm->gain)
        return x;
    const icl_variable gain = icl_sequence_value(pass, norm->gain);
    const icl_variable shift = norm->shift ? icl_sequence_value(pass, norm->shift) : gain;
    return icl_tape_normalize(pass->tape, &params, x, &gain, norm->shift ? &shift : NULL);
}

/* ---- Cells as tokens ---- */

/*
 * With model.tokens = cells each number of a position has a vector of its own, for tables (Hollmann and others 2025,
 * TabPFN v2; Pfefferle and others 2025, nanoTabPFN, arXiv 2511.03634).
 *
 * A row of p inputs has C = p - l + 1 cells: one for each of its first p - l numbers, the features, and last the
 * label's cell for the l = model.label_inputs others, which say what is known of the row's label:
 *
 *     e_tc = x_tc w + a,    e_tC = (x_t(p-l+1), ..., x_tp) V + b
 *
 * A block begins with attention among the cells of each row; then its mixer sees each column by itself, and the
 * feed-forward part each cell. With norms before:
 *
 *     z_t <- z_t + softmax(q k^T / sqrt(m)) v,  q, k and v of the cells of norm(z_t), H heads, and an output matrix
 *
 * Columns have no position, so that another order of the features changes nothing but rounding. Outputs are read off
 * the label cells; in the last layer only these ask.
 *
 * The C vectors of a position stand side by side, [B, T C, width]: among the cells of a row heads are [B T, H, C, .],
 * among the rows of a column [B, C H, T, .], both without a copy.
 */

static icl_status add_cell_embedding(icl_sequence_builder *builder, icl_sequence_parameter *weight,
                                     icl_sequence_parameter *shift, const char *name, size_t inputs, icl_error *error) {
    const icl_sequence *sequence = builder->sequence;
    const double std = sequence->init > 0 ? sequence->init : 1.0 / sqrt((double)inputs);

    ICL_CHECK(icl_sequence_add(builder, weight, (icl_sequence_start){ICL_START_NORMAL, std, 0, false}, 2,
                               (const size_t[]){inputs, sequence->width}, error, "%s.weight", name));
    if (!sequence->embedding_bias)
        return ICL_OK;
    return icl_sequence_add(builder, shift, (icl_sequence_start){ICL_START_CONSTANT, 0, 0, true}, 1, &sequence->width,
                            error, "%s.bias", name);
}

static icl_status add_cells(icl_sequence_builder *builder, icl_error *error) {
    icl_sequence *sequence = builder->sequence;

    ICL_CHECK(add_cell_embedding(builder, &sequence->embedding, &sequence->embedding_shift, "embedding", 1, error));
    return add_cell_embedding(builder, &sequence->label_embedding, &sequence->label_shift, "embedding.label",
                              sequence->label_inputs, error);
}

static icl_status add_row_attention(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    const icl_sequence *sequence = builder->sequence;
    const size_t width = sequence->width, keys = sequence->heads * sequence->key_width;
    const size_t values = sequence->heads * sequence->value_width;

    ICL_CHECK(icl_sequence_add_matrix(builder, &layer->row.query, layer, "row.query", width, keys, error));
    ICL_CHECK(icl_sequence_add_matrix(builder, &layer->row.key, layer, "row.key", width, keys, error));
    ICL_CHECK(icl_sequence_add_matrix(builder, &layer->row.value, layer, "row.value", width, values, error));
    return icl_sequence_add_residual(builder, &layer->row.output, layer, "row.output", values, width, error);
}

/* Embeds inputs [B, T, p] as [B, T C, width]. */
static icl_variable embed_cells(const icl_sequence_pass *pass, icl_variable inputs) {
    const icl_sequence *sequence = pass->sequence;
    const icl_tensor seen = icl_tape_value(pass->tape, inputs);
    const size_t rows = seen.shape[1], features = sequence->cells - 1, width = sequence->width;
    const icl_variable shown = icl_tape_slice(pass->tape, inputs, 2, 0, features);
    const icl_variable known = icl_tape_slice(pass->tape, inputs, 2, features, sequence->label_inputs);
    /* A reshape takes only contiguous numbers, which a slice is not. */
    const icl_variable numbers = icl_tape_reshape(pass->tape, icl_tape_scale(pass->tape, 1.0, shown), 3,
                                                  (const size_t[]){seen.shape[0], rows * features, 1});
    const icl_variable parts[] = {
        icl_tape_reshape(pass->tape, icl_sequence_linear(pass, numbers, sequence->embedding, sequence->embedding_shift),
                         3, (const size_t[]){seen.shape[0], rows, features * width}),
        icl_sequence_linear(pass, known, sequence->label_embedding, sequence->label_shift)};

    return icl_tape_reshape(pass->tape, icl_tape_concatenate(pass->tape, 2, 2, parts), 3,
                            (const size_t[]){seen.shape[0], rows * sequence->cells, width});
}

/* Returns the label cells [B, T, width] of z [B, T C, width], a view; z itself if a position has one vector. */
static icl_variable label_cells(const icl_sequence_pass *pass, icl_variable z) {
    const icl_tensor seen = icl_tape_value(pass->tape, z);
    const size_t cells = pass->cells, width = pass->sequence->width;

    if (cells == 1)
        return z;
    const icl_variable rows =
        icl_tape_reshape(pass->tape, z, 3, (const size_t[]){seen.shape[0], seen.shape[1] / cells, cells * width});
    return icl_tape_slice(pass->tape, rows, 2, (cells - 1) * width, width);
}

/* Returns the vectors of x [B, N, width] times a matrix [width, H w] as heads [B T, H, N / T, w]. */
static icl_variable row_heads(const icl_sequence_pass *pass, icl_variable x, icl_sequence_parameter weight, size_t rows,
                              size_t width) {
    const icl_variable projected = icl_sequence_linear(pass, x, weight, 0);
    const icl_tensor seen = icl_tape_value(pass->tape, projected);
    const size_t by_row[] = {seen.shape[0] * rows, rows > 0 ? seen.shape[1] / rows : 0, seen.shape[2]};
    icl_sequence_pass among = *pass;

    among.cells = 1;
    return icl_sequence_split(&among, icl_tape_reshape(pass->tape, projected, 3, by_row), width);
}

/* Maps x [B, T C, width] by attention among the cells of each row. In the last layer only label cells ask, and the
 * result is [B, T, width]. */
static icl_variable mix_rows(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const icl_sequence *sequence = pass->sequence;
    const icl_attention_params params = {.kind = ICL_ATTENTION_SOFTMAX,
                                         .scale = 1.0 / sqrt((double)sequence->key_width)};
    const icl_variable asked = pass->is_last ? label_cells(pass, x) : x;
    const icl_tensor seen = icl_tape_value(pass->tape, x), asking = icl_tape_value(pass->tape, asked);
    const size_t rows = seen.shape[1] / sequence->cells;
    const icl_variable q = row_heads(pass, asked, layer->row.query, rows, sequence->key_width);
    const icl_variable k = row_heads(pass, x, layer->row.key, rows, sequence->key_width);
    const icl_variable v = row_heads(pass, x, layer->row.value, rows, sequence->value_width);
    icl_sequence_pass among = *pass;

    among.cells = 1;
    const icl_variable o = icl_sequence_join(&among, icl_tape_attention(pass->tape, &params, q, k, v));
    const icl_variable mixed = icl_tape_reshape(
        pass->tape, o, 3, (const size_t[]){asking.shape[0], asking.shape[1], sequence->heads * sequence->value_width});
    return icl_sequence_linear(pass, mixed, layer->row.output, 0);
}

/* ---- Embedding and positions ---- */

/*
 * Embeds inputs into the width, and tells positions apart.
 *
 * Coordinates: x W + b, W [p, width]; without b if model.embedding_bias = false. Symbols: rows of a table
 * [V, width]; with model.tied_embedding sqrt(width) times them, of a table that begins as N(0, 1/width), so that it
 * suits the readout, too (Press and Wolf 2017; the root: Vaswani and others 2017). Positions, counted from 0:
 *
 *     learned:     a row of a table [T, width] is added
 *     sinusoidal:  (cos(t w_0), …, cos(t w_h), sin(t w_0), …, sin(t w_h)) is added, w_i = base^(-2 i / width):
 *                  Vaswani and others 2017, with coordinates in another order
 *     rotary:      queries and keys are turned (parts.c)
 */

static icl_status add_embedding(icl_sequence_builder *builder, icl_error *error) {
    icl_sequence *sequence = builder->sequence;
    const icl_task_shape *shape = &builder->model->shape;

    if (sequence->tokens == ICL_TOKENS_CELLS)
        return add_cells(builder, error);
    if (shape->symbols > 0) {
        const double own = sequence->tied_embedding ? 1.0 / sqrt((double)sequence->width) : 1.0;
        const icl_sequence_start start = {ICL_START_NORMAL, sequence->init > 0 ? sequence->init : own, 0, true};
        ICL_CHECK(icl_sequence_add(builder, &sequence->embedding, start, 2,
                                   (const size_t[]){shape->symbols, sequence->width}, error, "embedding.table"));
    } else {
        const icl_sequence_start start = {
            ICL_START_NORMAL, sequence->init > 0 ? sequence->init : 1.0 / sqrt((double)shape->inputs), 0, false};
        ICL_CHECK(icl_sequence_add(builder, &sequence->embedding, start, 2,
                                   (const size_t[]){shape->inputs, sequence->width}, error, "embedding.weight"));
    }
    if (shape->symbols == 0 && sequence->embedding_bias)
        ICL_CHECK(icl_sequence_add(builder, &sequence->embedding_shift,
                                   (icl_sequence_start){ICL_START_CONSTANT, 0, 0, true}, 1, &sequence->width, error,
                                   "embedding.bias"));
    if (sequence->positions != ICL_POSITIONS_LEARNED)
        return ICL_OK;
    return icl_sequence_add(builder, &sequence->position_table,
                            (icl_sequence_start){ICL_START_NORMAL, sequence->init > 0 ? sequence->init : 0.1, 0, true},
                            2, (const size_t[]){shape->positions, sequence->width}, error, "positions.table");
}

/* Returns the rows of sinusoidal positions, [positions, width], from position `first` on. The width must be even. Turns
 * rows (1, 0) by the angles t w_i, which gives (cos, sin): the rows by which rotary positions turn. */
static icl_variable sinusoids(const icl_sequence_pass *pass, double base, size_t first, size_t positions) {
    const size_t half[] = {positions, pass->sequence->width / 2};
    const icl_variable parts[] = {icl_tape_filled(pass->tape, 2, half, 1.0), icl_tape_filled(pass->tape, 2, half, 0.0)};
    return icl_tape_rotate(pass->tape, icl_tape_concatenate(pass->tape, 1, 2, parts), base, first);
}

static void fail_beyond(const icl_sequence_pass *pass) {
    icl_error error;
    icl_fail(&error, ICL_ERROR_INPUT, "model.positions = learned: there are %zu, and none for position %zu",
             pass->model->shape.positions, pass->first_position);
    icl_tape_fail(pass->tape, &error);
}

static icl_variable look_up(const icl_sequence_pass *pass, icl_variable symbols) {
    const icl_sequence *sequence = pass->sequence;
    const icl_variable rows = icl_tape_look_up(pass->tape, icl_sequence_value(pass, sequence->embedding), symbols);

    return sequence->tied_embedding ? icl_tape_scale(pass->tape, sqrt((double)sequence->width), rows) : rows;
}

static icl_variable embed(const icl_sequence_pass *pass, icl_variable inputs) {
    const icl_sequence *sequence = pass->sequence;
    const size_t positions = icl_tape_value(pass->tape, inputs).shape[1];

    if (sequence->tokens == ICL_TOKENS_CELLS)
        return embed_cells(pass, inputs);
    const icl_variable x = pass->model->shape.symbols > 0
                               ? look_up(pass, inputs)
                               : icl_sequence_linear(pass, inputs, sequence->embedding, sequence->embedding_shift);

    if (sequence->positions == ICL_POSITIONS_LEARNED && pass->first_position + positions > pass->model->shape.positions)
        fail_beyond(pass);
    if (sequence->positions == ICL_POSITIONS_LEARNED)
        return icl_tape_binary(pass->tape, ICL_ADD, x,
                               icl_tape_slice(pass->tape, icl_sequence_value(pass, sequence->position_table), 0,
                                              pass->first_position, positions));
    if (sequence->positions == ICL_POSITIONS_SINUSOIDAL)
        return icl_tape_binary(pass->tape, ICL_ADD, x,
                               sinusoids(pass, sequence->position_base, pass->first_position, positions));
    return x;
}

/* ---- Feed-forward parts ---- */

/*
 * Each position computes this part by itself, hidden = model.feed_forward_factor * width:
 *
 *     relu, gelu:  f(x U + a) D + b
 *     swiglu:      (silu(x G) * x U) D                   Shazeer 2020, without biases
 *     quadratic:   (x G * x U) D                         the bilinear map, which adds products of two coordinates
 */

static bool is_gated(icl_feed_forward kind) {
    return kind == ICL_FEED_FORWARD_SWIGLU || kind == ICL_FEED_FORWARD_QUADRATIC;
}

static icl_status add_feed_forward(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    const icl_sequence *sequence = builder->sequence;

    if (sequence->feed_forward == ICL_FEED_FORWARD_NONE)
        return ICL_OK;
    if (is_gated(sequence->feed_forward))
        ICL_CHECK(icl_sequence_add_matrix(builder, &layer->gated, layer, "feed_forward.gate", sequence->width,
                                          sequence->hidden, error));
    ICL_CHECK(icl_sequence_add_matrix(builder, &layer->up, layer, "feed_forward.up", sequence->width, sequence->hidden,
                                      error));
    if (!is_gated(sequence->feed_forward))
        ICL_CHECK(icl_sequence_add_constants(builder, &layer->up_bias, layer, "feed_forward.up_bias", sequence->hidden,
                                             0, error));
    ICL_CHECK(icl_sequence_add_residual(builder, &layer->down, layer, "feed_forward.down", sequence->hidden,
                                        sequence->width, error));
    if (!is_gated(sequence->feed_forward))
        ICL_CHECK(icl_sequence_add_constants(builder, &layer->down_bias, layer, "feed_forward.down_bias",
                                             sequence->width, 0, error));
    return ICL_OK;
}

static icl_variable feed_forward_of(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    icl_variable hidden = icl_sequence_linear(pass, x, layer->up, layer->up_bias), gate;

    switch (pass->sequence->feed_forward) {
    case ICL_FEED_FORWARD_RELU:
        hidden = icl_tape_unary(pass->tape, ICL_RELU, hidden);
        break;
    case ICL_FEED_FORWARD_GELU:
        hidden = icl_tape_unary(pass->tape, ICL_GELU, hidden);
        break;
    case ICL_FEED_FORWARD_SWIGLU:
        gate = icl_tape_unary(pass->tape, ICL_SILU, icl_sequence_linear(pass, x, layer->gated, 0));
        hidden = icl_tape_binary(pass->tape, ICL_MULTIPLY, gate, hidden);
        break;
    case ICL_FEED_FORWARD_QUADRATIC:
        gate = icl_sequence_linear(pass, x, layer->gated, 0);
        hidden = icl_tape_binary(pass->tape, ICL_MULTIPLY, gate, hidden);
        break;
    case ICL_FEED_FORWARD_NONE:
        break;
    }
    return icl_sequence_linear(pass, hidden, layer->down, layer->down_bias);
}

/* ---- Readout ---- */

/*
 * Computes the outputs from the blocks' last state z, by model.readout:
 *
 *     position: norm(z_t) W + b at each scored position t
 *     pooled:   norm(mean of z over all positions) W + b, one output for a sequence
 *     last:     from z_T, the last position, only: h = z_T + p_t, p_t sinusoids of the scored position t, then twice
 *               h <- gelu(norm(h) U + a), and norm(h) W + b. This is the decoder of MAD's autoencoder (Poli and others
 *               2024): z_T holds all that the model knows of the sequence
 *
 * W is the transpose of the table of symbols with model.tied_embedding.
 */

#define POSITION_BASE 10000.0 /* as the authors have it */

static icl_status add_decoder(icl_sequence_builder *builder, icl_error *error) {
    icl_sequence *sequence = builder->sequence;
    const icl_sequence_start matrix = {
        ICL_START_NORMAL, sequence->init > 0 ? sequence->init : 1.0 / sqrt((double)sequence->width), 0, false};
    const icl_sequence_start zero = {ICL_START_CONSTANT, 0, 0, true};

    for (size_t i = 0; i < ICL_SEQUENCE_DECODER; i++) {
        char name[32];
        snprintf(name, sizeof name, "readout.%zu.norm", i);
        ICL_CHECK(add_norm(builder, &sequence->decoder[i].norm, error, name));
        ICL_CHECK(icl_sequence_add(builder, &sequence->decoder[i].weight, matrix, 2,
                                   (const size_t[]){sequence->width, sequence->width}, error, "readout.%zu.weight", i));
        ICL_CHECK(icl_sequence_add(builder, &sequence->decoder[i].bias, zero, 1, &sequence->width, error,
                                   "readout.%zu.bias", i));
    }
    return ICL_OK;
}

static icl_status add_readout(icl_sequence_builder *builder, icl_error *error) {
    icl_sequence *sequence = builder->sequence;
    const size_t outputs = builder->model->shape.outputs;
    const icl_sequence_start start = {ICL_START_NORMAL,
                                      sequence->init > 0 ? sequence->init : 1.0 / (double)sequence->width, 0, false};

    if (sequence->readout == ICL_READOUT_LAST)
        ICL_CHECK(add_decoder(builder, error));
    if (sequence->norm_place == ICL_NORMS_BEFORE)
        ICL_CHECK(add_norm(builder, &sequence->final_norm, error, "norm"));
    if (!sequence->tied_embedding)
        ICL_CHECK(icl_sequence_add(builder, &sequence->readout_weight, start, 2,
                                   (const size_t[]){sequence->width, outputs}, error, "readout.weight"));
    return icl_sequence_add(builder, &sequence->readout_shift, (icl_sequence_start){ICL_START_CONSTANT, 0, 0, true}, 1,
                            &outputs, error, "readout.bias");
}

/* Decodes by model.readout = last, without the last norm and readout: [B, T, width] to [B, S, width]. */
static icl_variable decode(const icl_sequence_pass *pass, icl_variable z) {
    const icl_sequence *sequence = pass->sequence;
    const icl_variable last = icl_tape_slice(pass->tape, z, 1, icl_tape_value(pass->tape, z).shape[1] - 1, 1);
    icl_variable h =
        icl_tape_binary(pass->tape, ICL_ADD, last, sinusoids(pass, POSITION_BASE, pass->first_scored, pass->scored));

    for (size_t i = 0; i < ICL_SEQUENCE_DECODER; i++) {
        h = icl_sequence_linear(pass, normalize(pass, &sequence->decoder[i].norm, h), sequence->decoder[i].weight,
                                sequence->decoder[i].bias);
        h = icl_tape_unary(pass->tape, ICL_GELU, h);
    }
    return h;
}

/* Returns the outputs [B, S, q] from the last block's scored positions [B, S, width], or from all its positions if
 * model.readout is pooled or last. */
static icl_variable read_out(const icl_sequence_pass *pass, icl_variable z) {
    const icl_sequence *sequence = pass->sequence;

    if (sequence->readout == ICL_READOUT_POOLED)
        z = icl_tape_reduce(pass->tape, ICL_MEAN, 1u << 1, z);
    if (sequence->readout == ICL_READOUT_LAST)
        z = decode(pass, z);
    if (!sequence->loop_norm) /* else the last loop ended with this norm */
        z = normalize(pass, &sequence->final_norm, z);
    if (!sequence->tied_embedding)
        return icl_sequence_linear(pass, z, sequence->readout_weight, sequence->readout_shift);
    const icl_variable table = icl_tape_swap_axes(pass->tape, icl_sequence_value(pass, sequence->embedding), 0, 1);
    return icl_tape_binary(pass->tape, ICL_ADD, icl_tape_matmul(pass->tape, 1.0, z, table),
                           icl_sequence_value(pass, sequence->readout_shift));
}

/* The largest number of symbols that a float counts exactly. */
#define MOST_SYMBOLS ((size_t)1 << 24)

/* ---- Creation ---- */

static icl_status add_block(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    char name[64];

    if (builder->sequence->tokens == ICL_TOKENS_CELLS) {
        snprintf(name, sizeof name, "block.%zu.row_norm", layer->index);
        ICL_CHECK(add_norm(builder, &layer->row.norm, error, name));
        ICL_CHECK(add_row_attention(builder, layer, error));
    }
    snprintf(name, sizeof name, "block.%zu.mixer_norm", layer->index);
    ICL_CHECK(add_norm(builder, &layer->mixer_norm, error, name));
    ICL_CHECK(layer->mixer->create(builder, layer, error));
    if (builder->sequence->feed_forward == ICL_FEED_FORWARD_NONE)
        return ICL_OK;
    snprintf(name, sizeof name, "block.%zu.feed_forward_norm", layer->index);
    ICL_CHECK(add_norm(builder, &layer->feed_forward_norm, error, name));
    return add_feed_forward(builder, layer, error);
}

static icl_status add_parameters(const icl_recipe *recipe, icl_model *model, icl_sequence *sequence, icl_error *error) {
    icl_sequence_builder builder = {model, sequence, recipe};

    ICL_CHECK(add_embedding(&builder, error));
    for (size_t i = 0; i < model->layers; i++)
        ICL_CHECK(add_block(&builder, &sequence->layers[i], error));
    return add_readout(&builder, error);
}

static icl_status check_shape(const icl_model *model, icl_error *error) {
    if (model->shape.symbols > MOST_SYMBOLS)
        return icl_model_refuse(model, "tasks of at most 16777216 symbols", error);
    return ICL_OK;
}

/* Returns the number of sequences with about 256 vectors in all: their activations stay in a core's cache, and
 * products have enough rows. */
static size_t at_once(const icl_model *model, const icl_sequence *sequence) {
    const size_t positions = model->shape.positions * sequence->cells;
    return positions < 256 ? 256 / positions : 1;
}

/* Returns whether every mixer keeps what earlier positions leave. */
static bool remembers(const icl_model *model, const icl_sequence *sequence) {
    for (size_t i = 0; i < model->layers; i++)
        if (sequence->layers[i].own && !sequence->layers[i].own->remembers)
            return false;
    return true;
}

static icl_status create(const icl_recipe *recipe, icl_model *model, icl_error *error) {
    icl_sequence *sequence = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(check_shape(model, error));
    ICL_TRY(icl_allocate(1, sizeof *sequence, "sequence model", &sequence, error));
    model->state = sequence;
    model->layers = icl_model_read(recipe).layers;
    ICL_TRY(icl_allocate(model->layers, sizeof *sequence->layers, "layers", &sequence->layers, error));
    ICL_TRY(icl_sequence_read_keys(recipe, model, sequence, error));
    model->loops = sequence->loops;
    model->abilities |= ICL_MODEL_LOOPS;
    ICL_TRY(add_parameters(recipe, model, sequence, error));
    model->sequences_at_once = at_once(model, sequence);
    if (sequence->causal && sequence->readout == ICL_READOUT_POSITION && remembers(model, sequence))
        model->abilities |= ICL_MODEL_DECODES;
done:
    return status;
}

static void destroy(icl_model *model) {
    icl_sequence *sequence = model->state;

    if (sequence) {
        for (size_t i = 0; sequence->layers && i < model->layers; i++)
            icl_free(&sequence->layers[i].block.state);
        icl_free(&sequence->layers);
        icl_free(&sequence->starts);
    }
    icl_free(&model->state);
}

/* ---- Outputs ---- */

static icl_variable add(const icl_sequence_pass *pass, icl_variable a, icl_variable b) {
    return icl_tape_binary(pass->tape, ICL_ADD, a, b);
}

static icl_variable clip(const icl_sequence_pass *pass, icl_variable z) {
    const double most = pass->sequence->activation_clip;
    icl_tape *tape = pass->tape;

    if (most == 0)
        return z;
    z = icl_tape_binary(tape, ICL_MAXIMUM, z, icl_tape_filled(tape, 0, NULL, -most));
    return icl_tape_binary(tape, ICL_MINIMUM, z, icl_tape_filled(tape, 0, NULL, most));
}

static icl_variable drop_out(const icl_sequence_pass *pass, icl_variable z) {
    return icl_tape_drop_out(pass->tape, pass->sequence->dropout, z);
}

/* Returns what a part sees of z, and z with what the part added. */
static icl_variable before_part(const icl_sequence_pass *pass, const icl_sequence_norm *norm, icl_variable z) {
    return pass->sequence->norm_place == ICL_NORMS_AFTER ? z : normalize(pass, norm, z);
}

static icl_variable after_part(const icl_sequence_pass *pass, const icl_sequence_norm *norm, icl_variable z,
                               icl_variable added) {
    z = add(pass, z, drop_out(pass, added));
    return pass->sequence->norm_place == ICL_NORMS_AFTER ? normalize(pass, norm, z) : z;
}

static icl_variable attend_in_rows(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable z) {
    const icl_variable mixed = mix_rows(pass, layer, before_part(pass, &layer->row.norm, z));
    return after_part(pass, &layer->row.norm, pass->is_last ? label_cells(pass, z) : z, mixed);
}

/* Applies a block. After the last mixer, positions no longer see each other, so those without a score are left out, and
 * after the last attention in rows all cells but those of labels. */
static icl_variable apply_block(const icl_sequence_pass *outer, const icl_sequence_layer *layer, icl_variable z) {
    icl_sequence_pass inner = *outer;
    const icl_sequence_pass *pass = &inner;

    if (pass->sequence->tokens == ICL_TOKENS_CELLS) {
        z = attend_in_rows(pass, layer, z);
        inner.cells = pass->is_last ? 1 : pass->cells;
    }
    icl_variable mixed = layer->mixer->mix(pass, layer, before_part(pass, &layer->mixer_norm, z));
    if (pass->is_last) {
        z = icl_sequence_keep_scored(pass, z);
        mixed = icl_sequence_keep_scored(pass, mixed);
    }
    z = after_part(pass, &layer->mixer_norm, z, mixed);
    if (pass->sequence->feed_forward == ICL_FEED_FORWARD_NONE)
        return z;
    const icl_variable seen = before_part(pass, &layer->feed_forward_norm, z);
    return after_part(pass, &layer->feed_forward_norm, z, feed_forward_of(pass, layer, seen));
}

static icl_variable show_stage(const icl_sequence_pass *pass, size_t stage, icl_variable z) {
    return pass->watch && pass->watch->stage ? pass->watch->stage(pass->watch->user, pass, stage, z) : z;
}

/* Adds the embedding of the prompt again in every loop: only then do many loops end in a fixed point that depends on
 * the prompt, wherever they began. */
static icl_variable enter_loop(const icl_sequence_pass *pass, icl_variable z, icl_variable embedded) {
    return pass->loop > 0 && pass->sequence->injection ? add(pass, z, embedded) : z;
}

static icl_variable apply_blocks(icl_sequence_pass *pass, icl_variable z) {
    const icl_sequence *sequence = pass->sequence;
    const size_t layers = pass->model->layers;

    for (size_t i = 0; i < layers; i++) {
        pass->is_last = i + 1 == layers && pass->loop + 1 == pass->loops && sequence->readout == ICL_READOUT_POSITION;
        z = clip(pass, apply_block(pass, &sequence->layers[i], z));
        if (i + 1 == layers && sequence->loop_norm)
            z = normalize(pass, &sequence->final_norm, z);
        z = show_stage(pass, 1 + pass->loop * layers + i, z);
    }
    return z;
}

/* Computes the outputs after each of the last `count` loops. is_cut: gradients stop where these loops begin. */
static void run(icl_sequence_pass pass, icl_variable inputs, size_t count, bool is_cut, icl_variable *outputs) {
    const bool reads_scored = pass.sequence->readout == ICL_READOUT_POSITION;
    icl_variable embedded, z;

    pass.inputs = inputs;
    embedded = z = show_stage(&pass, 0, drop_out(&pass, embed(&pass, inputs)));
    for (pass.loop = 0; pass.loop < pass.loops; pass.loop++) {
        const size_t left = pass.loops - pass.loop; /* including this one */
        if (is_cut && left == count && pass.loop > 0)
            z = icl_tape_constant(pass.tape, icl_tape_value(pass.tape, z));
        z = apply_blocks(&pass, enter_loop(&pass, z, embedded));
        const icl_variable rows = left > 1 ? label_cells(&pass, z) : z;
        if (left <= count)
            outputs[count - left] =
                read_out(&pass, left > 1 && reads_scored ? icl_sequence_keep_scored(&pass, rows) : rows);
    }
}

static icl_sequence_pass pass_of(const icl_model *model, icl_tape *tape, const icl_variable *parameters) {
    return (icl_sequence_pass){.model = model,
                               .sequence = model->state,
                               .tape = tape,
                               .parameters = parameters,
                               .cells = ((const icl_sequence *)model->state)->cells,
                               .loops = model->loops,
                               .first_scored = model->shape.first_scored,
                               .scored = model->shape.scored};
}

icl_status icl_sequence_watch_run(const icl_model *model, icl_tape *tape, icl_tensor parameters, icl_tensor gradient,
                                  icl_tensor inputs, const icl_sequence_watch *watch, icl_error *error) {
    icl_variable *variables = NULL, outputs = {-1};
    icl_status status = ICL_OK;

    if (model->family != &icl_sequence_model)
        return icl_fail(error, ICL_ERROR_INPUT, "model.family = %s: expected sequence, whose runs can be watched",
                        model->family->name);
    if (((const icl_sequence *)model->state)->tokens == ICL_TOKENS_CELLS)
        return icl_fail(error, ICL_ERROR_INPUT, "model.tokens = cells: expected positions, whose runs can be watched");
    ICL_TRY(icl_model_put_parameters(model, tape, parameters, gradient, &variables, error));
    icl_sequence_pass pass = pass_of(model, tape, variables);
    pass.watch = watch;
    if (watch && watch->stage) {
        pass.first_scored = 0;
        pass.scored = model->shape.positions;
    }
    run(pass, icl_tape_constant(tape, inputs), 1, false, &outputs);
    if (watch && watch->outputs)
        watch->outputs(watch->user, outputs);
    status = icl_tape_status(tape, error);
done:
    icl_free(&variables);
    return status;
}

static icl_variable predict(const icl_model *model, icl_tape *tape, const icl_variable *parameters, icl_variable inputs,
                            size_t depth) {
    icl_variable outputs;

    (void)depth;
    run(pass_of(model, tape, parameters), inputs, 1, false, &outputs);
    return outputs;
}

static void predict_loops(const icl_model *model, icl_tape *tape, const icl_variable *parameters, icl_variable inputs,
                          icl_loop_window window, icl_variable *outputs) {
    icl_sequence_pass pass = pass_of(model, tape, parameters);

    pass.loops = window.loops;
    run(pass, inputs, window.count, true, outputs);
}

static icl_variable step(const icl_model *model, icl_tape *tape, const icl_variable *parameters, icl_variable inputs,
                         icl_model_memory *memory) {
    icl_sequence_pass pass = pass_of(model, tape, parameters);
    icl_variable outputs;

    pass.memory = memory;
    pass.first_position = icl_model_memory_position(memory);
    pass.first_scored = 0;
    pass.scored = icl_tape_value(tape, inputs).shape[1];
    run(pass, inputs, 1, false, &outputs);
    return outputs;
}

static void initialize(const icl_model *model, uint32_t seed, float *values) {
    icl_sequence_initialize(model, model->state, seed, values);
}

const icl_model_family icl_sequence_model = {
    .name = "sequence",
    .create = create,
    .destroy = destroy,
    .initialize = initialize,
    .predict = predict,
    .predict_loops = predict_loops,
    .step = step,
};
