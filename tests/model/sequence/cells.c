/* model.tokens = cells: outputs against plain loops in double, the order of rows and columns, and rows to predict,
 * which no other row sees. */
#include "plain.h"

enum { B = 2, T = 7, FIRST = 2, S = T - FIRST, LABEL = 2, FEATURES = 3, P = FEATURES + LABEL, C = FEATURES + 1 };
enum { Q = 3, WIDTH = 6, HEADS = 2, KEY = 3, VALUE = 2, HIDDEN = 12, LAYERS = 2, KNOWN = 4, OUTPUTS = B * S * Q };

static const setting config = {
    "mixer=labelled causal=false tokens=cells norm=layer norm_place=after feed_forward=relu feed_forward_factor=2 "
    "key_width=3 value_width=2",
    {.positions = T, .inputs = P, .outputs = Q, .first_scored = FIRST, .scored = S, .loss = ICL_LOSS_SQUARED_ERROR},
    B};

/* Writes tables, whose first KNOWN rows have a label. */
static void draw_tables(double *inputs) {
    for (size_t i = 0; i < (size_t)B * T * P; i++) {
        const size_t row = i / P % T, input = i % P;
        inputs[i] = (double)noise(2, i);
        if (input >= FEATURES && row >= KNOWN)
            inputs[i] = 0;
        else if (input == P - 1)
            inputs[i] = 1;
    }
}

static void outputs_on(icl_backend *backend, const double *inputs, double *outputs) {
    fixture f;

    fixture_open(&f, backend, &config);
    tap_need(icl_tensor_write_double(f.inputs, inputs, tap_error()));
    read_outputs(&f, outputs);
    fixture_close(&f);
}

/* ---- Plain loops ---- */

typedef double table[T][C][WIDTH];

typedef struct plain_model {
    const icl_model *model;
    const double *values;
} plain_model;

static const double *of_block(plain_model from, size_t layer, const char *name) {
    char full[64];

    snprintf(full, sizeof full, "block.%zu.%s", layer, name);
    return parameters_of(from.model, from.values, full);
}

static void embed(plain_model from, const double *inputs, table z) {
    const double *weight = parameters_of(from.model, from.values, "embedding.weight");
    const double *bias = parameters_of(from.model, from.values, "embedding.bias");
    const double *label = parameters_of(from.model, from.values, "embedding.label.weight");
    const double *label_bias = parameters_of(from.model, from.values, "embedding.label.bias");

    for (size_t t = 0; t < T; t++)
        for (size_t j = 0; j < WIDTH; j++) {
            for (size_t c = 0; c < FEATURES; c++)
                z[t][c][j] = inputs[t * P + c] * weight[j] + bias[j];
            z[t][FEATURES][j] = column(inputs + t * P + FEATURES, label, LABEL, WIDTH, j) + label_bias[j];
        }
}

/* z <- norm(z + added), with gain and shift. */
static void add_and_norm(plain_model from, size_t layer, const char *norm, double *z, const double *added) {
    char gain[32], shift[32];
    double mean = 0, square = 0;

    snprintf(gain, sizeof gain, "%s.gain", norm);
    snprintf(shift, sizeof shift, "%s.shift", norm);
    for (size_t j = 0; j < WIDTH; j++) {
        z[j] += added[j];
        mean += z[j] / WIDTH;
    }
    for (size_t j = 0; j < WIDTH; j++)
        square += (z[j] - mean) * (z[j] - mean) / WIDTH;
    for (size_t j = 0; j < WIDTH; j++)
        z[j] = (z[j] - mean) / sqrt(square + 1e-5) * of_block(from, layer, gain)[j] + of_block(from, layer, shift)[j];
}

/* Attention of vector `asks` to those of `vectors` that `seen` names, by the matrices of a part; writes added. */
static void attend(plain_model from, size_t layer, const char *part, const double *asks, const double *const *vectors,
                   size_t count, double *added) {
    const double *matrix[4];
    double joined[HEADS * VALUE] = {0};

    for (size_t i = 0; i < 4; i++) {
        static const char *const names[] = {"query", "key", "value", "output"};
        char name[32];
        snprintf(name, sizeof name, "%s.%s", part, names[i]);
        matrix[i] = of_block(from, layer, name);
    }
    for (size_t h = 0; h < HEADS; h++) {
        double weights[T + C], total = 0;
        for (size_t s = 0; s < count; s++) {
            double score = 0;
            for (size_t i = h * KEY; i < (h + 1) * KEY; i++)
                score += column(asks, matrix[0], WIDTH, (size_t)HEADS * KEY, i) *
                         column(vectors[s], matrix[1], WIDTH, (size_t)HEADS * KEY, i);
            total += weights[s] = exp(score / sqrt(KEY));
        }
        for (size_t s = 0; s < count; s++)
            for (size_t i = h * VALUE; i < (h + 1) * VALUE; i++)
                joined[i] += weights[s] / total * column(vectors[s], matrix[2], WIDTH, (size_t)HEADS * VALUE, i);
    }
    for (size_t j = 0; j < WIDTH; j++)
        added[j] = column(joined, matrix[3], (size_t)HEADS * VALUE, WIDTH, j);
}

static void attend_in_rows(plain_model from, size_t layer, table z) {
    for (size_t t = 0; t < T; t++) {
        const double *cells[C];
        double added[C][WIDTH];
        for (size_t c = 0; c < C; c++)
            cells[c] = z[t][c];
        for (size_t c = 0; c < C; c++)
            attend(from, layer, "row", z[t][c], cells, C, added[c]);
        for (size_t c = 0; c < C; c++)
            add_and_norm(from, layer, "row_norm", z[t][c], added[c]);
    }
}

static void attend_in_columns(plain_model from, size_t layer, table z) {
    for (size_t c = 0; c < C; c++) {
        const double *known[KNOWN];
        double added[T][WIDTH];
        for (size_t t = 0; t < KNOWN; t++)
            known[t] = z[t][c];
        for (size_t t = 0; t < T; t++)
            attend(from, layer, "mixer", z[t][c], known, KNOWN, added[t]);
        for (size_t t = 0; t < T; t++)
            add_and_norm(from, layer, "mixer_norm", z[t][c], added[t]);
    }
}

static void feed_forward(plain_model from, size_t layer, double *z) {
    const double *up = of_block(from, layer, "feed_forward.up"), *down = of_block(from, layer, "feed_forward.down");
    double hidden[HIDDEN], added[WIDTH];

    for (size_t i = 0; i < HIDDEN; i++)
        hidden[i] = fmax(0, column(z, up, WIDTH, HIDDEN, i) + of_block(from, layer, "feed_forward.up_bias")[i]);
    for (size_t j = 0; j < WIDTH; j++)
        added[j] = column(hidden, down, HIDDEN, WIDTH, j) + of_block(from, layer, "feed_forward.down_bias")[j];
    add_and_norm(from, layer, "feed_forward_norm", z, added);
}

static void predict_plainly(plain_model from, const double *inputs, double *outputs) {
    const double *weight = parameters_of(from.model, from.values, "readout.weight");
    const double *bias = parameters_of(from.model, from.values, "readout.bias");
    table z;

    embed(from, inputs, z);
    for (size_t layer = 0; layer < LAYERS; layer++) {
        attend_in_rows(from, layer, z);
        attend_in_columns(from, layer, z);
        for (size_t cell = 0; cell < (size_t)T * C; cell++)
            feed_forward(from, layer, z[cell / C][cell % C]);
    }
    for (size_t s = 0; s < S; s++)
        for (size_t k = 0; k < Q; k++)
            outputs[s * Q + k] = column(z[FIRST + s][FEATURES], weight, WIDTH, Q, k) + bias[k];
}

static void test_plain(tap_run *tap, icl_backend *device, const double *inputs, const double *seen, double allowed) {
    static double values[MOST_NUMBERS], expected[OUTPUTS];
    fixture f;

    fixture_open(&f, device, &config);
    tap_need(icl_tensor_read_double(f.parameters, values, tap_error()));
    for (size_t b = 0; b < B; b++)
        predict_plainly((plain_model){f.model, values}, inputs + b * T * P, expected + b * S * Q);
    const double worst = distance(seen, expected, OUTPUTS), largest = largest_of(expected, OUTPUTS);
    tap_ok(tap, worst <= allowed * largest, "plain loops give the same: %.2g of %.3g", worst, largest);
    fixture_close(&f);
}

/* ---- Order ---- */

/* Copies tables with their rows and columns in another order. */
static void permute(const double *from, const size_t rows[T], const size_t columns[P], double *to) {
    for (size_t b = 0; b < B; b++)
        for (size_t t = 0; t < T; t++)
            for (size_t j = 0; j < P; j++)
                to[(b * T + t) * P + j] = from[(b * T + rows[t]) * P + columns[j]];
}

/* Another order of the rows gives each the same answer; only scored rows have one, so that rows before FIRST stay. */
static void test_order(tap_run *tap, icl_backend *device, const double *inputs, const double *seen, double allowed) {
    static const size_t rows[T] = {1, 0, 6, 2, 4, 3, 5}, as_they_are[T] = {0, 1, 2, 3, 4, 5, 6};
    static const size_t columns[P] = {2, 0, 1, 3, 4}, own[P] = {0, 1, 2, 3, 4}, swapped[P] = {0, 1, 3, 2, 4};
    static double changed[B * T * P], outputs[OUTPUTS], expected[OUTPUTS];

    permute(inputs, as_they_are, columns, changed);
    outputs_on(device, changed, outputs);
    tap_ok(tap, distance(outputs, seen, OUTPUTS) <= allowed * largest_of(seen, OUTPUTS),
           "another order of the features changes nothing: %.2g", distance(outputs, seen, OUTPUTS));
    permute(inputs, as_they_are, swapped, changed);
    outputs_on(device, changed, outputs);
    tap_ok(tap, distance(outputs, seen, OUTPUTS) > 0.01 * largest_of(seen, OUTPUTS),
           "but a feature in the label's place does: %.2g", distance(outputs, seen, OUTPUTS));
    permute(inputs, rows, own, changed);
    outputs_on(device, changed, outputs);
    for (size_t i = 0; i < OUTPUTS; i++)
        expected[i] = seen[(i / (S * Q) * S + rows[FIRST + i / Q % S] - FIRST) * Q + i % Q];
    tap_ok(tap, distance(outputs, expected, OUTPUTS) <= allowed * largest_of(seen, OUTPUTS),
           "another order of the rows changes that of the answers alone: %.2g", distance(outputs, expected, OUTPUTS));
}

/* A row to predict changes its own answers alone, and a labelled row those of all others. */
static void test_unseen(tap_run *tap, icl_backend *device, const double *inputs, const double *seen) {
    static double changed[B * T * P], outputs[OUTPUTS];
    size_t kept = 0, moved = 0;

    memcpy(changed, inputs, sizeof changed);
    changed[(T - 2) * P] += 1;
    outputs_on(device, changed, outputs);
    for (size_t i = 0; i < OUTPUTS; i++)
        kept += i / Q != T - 2 - FIRST && outputs[i] == seen[i];
    moved = outputs[(T - 2 - FIRST) * Q] != seen[(T - 2 - FIRST) * Q];
    tap_ok(tap, kept == OUTPUTS - Q && moved == 1, "a row to predict changes its own answers: %zu others stay", kept);
    memcpy(changed, inputs, sizeof changed);
    changed[1 * P] += 1;
    outputs_on(device, changed, outputs);
    for (size_t i = kept = moved = 0; i < OUTPUTS; i++) {
        moved += i < OUTPUTS / B && outputs[i] != seen[i];
        kept += i >= OUTPUTS / B && outputs[i] == seen[i];
    }
    tap_ok(tap, moved == OUTPUTS / B && kept == OUTPUTS / B, "a labelled row changes all of its table: %zu", moved);
}

int main(int argc, char **argv) {
    static double inputs[B * T * P], seen[OUTPUTS];
    tap_run tap = {0};
    icl_backend *device = tap_open_device(&tap, argc > 1 ? argv[1] : "ref");

    if (!device)
        return tap_done(&tap);
    const double allowed = icl_backend_capabilities(device)->element_size == sizeof(double) ? 1e-12 : 1e-4;
    draw_tables(inputs);
    outputs_on(device, inputs, seen);
    test_plain(&tap, device, inputs, seen, allowed);
    test_order(&tap, device, inputs, seen, allowed);
    test_unseen(&tap, device, inputs, seen);
    icl_backend_close(&device);
    return tap_done(&tap);
}
