/*
 * model.tokens = cells: each number of a position has a vector of its own, for tables (Hollmann and others 2025, TabPFN
 * v2; Pfefferle and others 2025, nanoTabPFN, arXiv 2511.03634).
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
#include <math.h>

#include "model/sequence/sequence.h"

/* ---- Parameters ---- */

static icl_status add_linear(icl_sequence_builder *builder, icl_sequence_parameter *weight,
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

icl_status icl_sequence_add_cells(icl_sequence_builder *builder, icl_error *error) {
    icl_sequence *sequence = builder->sequence;

    ICL_CHECK(add_linear(builder, &sequence->embedding, &sequence->embedding_shift, "embedding", 1, error));
    return add_linear(builder, &sequence->label_embedding, &sequence->label_shift, "embedding.label",
                      sequence->label_inputs, error);
}

icl_status icl_sequence_add_row_attention(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    const icl_sequence *sequence = builder->sequence;
    const size_t width = sequence->width, keys = sequence->heads * sequence->key_width;
    const size_t values = sequence->heads * sequence->value_width;

    ICL_CHECK(icl_sequence_add_matrix(builder, &layer->row.query, layer, "row.query", width, keys, error));
    ICL_CHECK(icl_sequence_add_matrix(builder, &layer->row.key, layer, "row.key", width, keys, error));
    ICL_CHECK(icl_sequence_add_matrix(builder, &layer->row.value, layer, "row.value", width, values, error));
    return icl_sequence_add_residual(builder, &layer->row.output, layer, "row.output", values, width, error);
}

/* ---- Formulas ---- */

icl_variable icl_sequence_embed_cells(const icl_sequence_pass *pass, icl_variable inputs) {
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

icl_variable icl_sequence_label_cells(const icl_sequence_pass *pass, icl_variable z) {
    const icl_tensor seen = icl_tape_value(pass->tape, z);
    const size_t cells = pass->cells, width = pass->sequence->width;

    if (cells == 1)
        return z;
    const icl_variable rows =
        icl_tape_reshape(pass->tape, z, 3, (const size_t[]){seen.shape[0], seen.shape[1] / cells, cells * width});
    return icl_tape_slice(pass->tape, rows, 2, (cells - 1) * width, width);
}

/* Returns the vectors of x [B, N, width] times a matrix [width, H w] as heads [B T, H, N / T, w]. */
static icl_variable heads_of(const icl_sequence_pass *pass, icl_variable x, icl_sequence_parameter weight, size_t rows,
                             size_t width) {
    const icl_variable projected = icl_sequence_linear(pass, x, weight, 0);
    const icl_tensor seen = icl_tape_value(pass->tape, projected);
    const size_t by_row[] = {seen.shape[0] * rows, rows > 0 ? seen.shape[1] / rows : 0, seen.shape[2]};
    icl_sequence_pass among = *pass;

    among.cells = 1;
    return icl_sequence_split(&among, icl_tape_reshape(pass->tape, projected, 3, by_row), width);
}

icl_variable icl_sequence_attend_in_rows(const icl_sequence_pass *pass, const icl_sequence_layer *layer,
                                         icl_variable x) {
    const icl_sequence *sequence = pass->sequence;
    const icl_attention_params params = {.kind = ICL_ATTENTION_SOFTMAX,
                                         .scale = 1.0 / sqrt((double)sequence->key_width)};
    const icl_variable asked = pass->is_last ? icl_sequence_label_cells(pass, x) : x;
    const icl_tensor seen = icl_tape_value(pass->tape, x), asking = icl_tape_value(pass->tape, asked);
    const size_t rows = seen.shape[1] / sequence->cells;
    const icl_variable q = heads_of(pass, asked, layer->row.query, rows, sequence->key_width);
    const icl_variable k = heads_of(pass, x, layer->row.key, rows, sequence->key_width);
    const icl_variable v = heads_of(pass, x, layer->row.value, rows, sequence->value_width);
    icl_sequence_pass among = *pass;

    among.cells = 1;
    const icl_variable o = icl_sequence_join(&among, icl_tape_attention(pass->tape, &params, q, k, v));
    const icl_variable mixed = icl_tape_reshape(
        pass->tape, o, 3, (const size_t[]){asking.shape[0], asking.shape[1], sequence->heads * sequence->value_width});
    return icl_sequence_linear(pass, mixed, layer->row.output, 0);
}
