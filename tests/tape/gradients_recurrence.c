/* Gradients of recurrences: every set of operands, with and without the final state among the outputs. */
#include <string.h>

#include "gradients.h"

/* The bits of option. */
enum {
    DELTA = 1,
    BETA = 2,
    DECAY = 4,
    CHANNELS = 8,
    READ_KEY = 16,
    WRITE_KEY = 32,
    STATE = 64,
    FINAL = 128,
    TIED = 256,
    FROM_ROWS = 512
};

/* The inputs are parts of one flat parameter, so that MAX_INPUTS does not limit them; `kind` is the number of
 * tokens. */
typedef struct parts {
    icl_tape *tape;
    icl_variable all;
    size_t start;
} parts;

static icl_variable next(parts *p, double factor, size_t b, size_t h, size_t rows, size_t columns) {
    const size_t count = b * h * rows * columns, extents[4] = {b, h, rows, columns};
    const icl_variable part = icl_tape_slice(p->tape, p->all, 0, p->start, count);
    p->start += count;
    return icl_tape_reshape(p->tape, icl_tape_scale(p->tape, factor, part), 4, extents);
}

static const size_t batch = 2, heads = 1, m = 3, n = 2;

static icl_variable flat(icl_tape *tape, icl_variable x) {
    const icl_tensor value = icl_tape_value(tape, x);
    const size_t count = value.buffer ? icl_tensor_count(&value) : 0;
    const icl_variable copy = icl_tape_scale(tape, 1, x);
    return icl_tape_reshape(tape, copy, 1, &count);
}

static icl_variable build(icl_tape *tape, const icl_variable *inputs, const gradient_case *c) {
    const icl_recurrence_params params = {c->option & DELTA, 0.7, c->option & FROM_ROWS};
    const size_t tokens = (size_t)c->kind;
    parts p = {tape, inputs[0], 0};
    icl_recurrence_variables x = {0};

    x.q = next(&p, 1, batch, heads, tokens, c->option & FROM_ROWS ? n : m);
    x.k = c->option & TIED ? icl_tape_scale(tape, 0.3, x.q)
                           : next(&p, 0.5, 1, heads, tokens, m); /* the batch shares its keys */
    x.v = next(&p, 1, batch, heads, tokens, n);
    const icl_variable beta = c->option & BETA ? next(&p, 0.3, batch, 1, tokens, 1) : x.q;
    const icl_variable decay = c->option & DECAY ? next(&p, 0.4, 1, heads, tokens, c->option & CHANNELS ? m : 1) : x.q;
    const icl_variable read_key = c->option & READ_KEY ? next(&p, 0.5, batch, heads, tokens, m) : x.q;
    const icl_variable write_key = c->option & WRITE_KEY ? next(&p, 0.5, batch, heads, tokens, m) : x.q;
    const icl_variable state = c->option & STATE ? next(&p, 0.8, batch, heads, m, n) : x.q;
    x.beta = c->option & BETA ? &beta : NULL;
    x.decay = c->option & DECAY ? &decay : NULL;
    x.read_key = c->option & READ_KEY ? &read_key : NULL;
    x.write_key = c->option & WRITE_KEY ? &write_key : NULL;
    x.state = c->option & STATE ? &state : NULL;

    icl_variable final;
    const icl_variable out = icl_tape_recurrence(tape, &params, &x, c->option & FINAL ? &final : NULL);
    if (!(c->option & FINAL))
        return out;
    const size_t outs = batch * heads * tokens * (c->option & FROM_ROWS ? m : n);
    const size_t count = outs + batch * heads * m * n;
    const icl_variable both = icl_tape_place(tape, icl_tape_filled(tape, 1, &count, 0), flat(tape, out), (size_t[]){0});
    return icl_tape_place(tape, both, flat(tape, final), (size_t[]){outs});
}

static size_t elements(int option, size_t tokens) {
    const size_t rows = batch * heads * tokens;
    return rows * (option & FROM_ROWS ? n : m) + (option & TIED ? 0 : heads * tokens * m) + rows * n +
           (option & BETA ? batch * tokens : 0) + (option & DECAY ? heads * tokens * (option & CHANNELS ? m : 1) : 0) +
           (option & READ_KEY ? rows * m : 0) + (option & WRITE_KEY ? rows * m : 0) +
           (option & STATE ? batch * heads * m * n : 0);
}

static void check(bench *b, int option, int tokens) {
    gradient_case c = {.build = build, .kind = tokens, .option = option, .input_count = 1};
    char what[96];

    c.inputs[0] = (shape){1, {elements(option, (size_t)tokens)}};
    snprintf(what, sizeof what, "recurrence %s%s%s%s%s%s%s%s%s, %d tokens", option & DELTA ? "delta" : "sum",
             option & FROM_ROWS ? " from rows" : "", option & BETA ? " beta" : "",
             option & DECAY ? option & CHANNELS ? " channels" : " decay" : "", option & READ_KEY ? " read" : "",
             option & WRITE_KEY ? " write" : "", option & STATE ? " state" : "", option & FINAL ? " final" : "",
             option & TIED ? " tied" : "", tokens);
    gradient_describe(&c, what);
    gradient_check(b, &c);
}

void check_recurrence(bench *b) {
    for (int option = 0; option < 2 * FINAL; option++) {
        const bool keys = option & (READ_KEY | WRITE_KEY);
        if ((keys && !(option & DELTA)) || ((option & CHANNELS) && !(option & DECAY)))
            continue;
        check(b, option, 3);
        if (option & BETA && option & STATE)
            check(b, option | FROM_ROWS, 3);
    }
    check(b, DELTA | TIED | BETA, 4);
    check(b, TIED | FINAL, 1);
    /* The tokens are a segment and the first token of the next one. */
    static const int long_ones[] = {0, DELTA, BETA | DECAY, DELTA | BETA | DECAY};
    for (size_t i = 0; i < sizeof long_ones / sizeof *long_ones; i++)
        check(b, long_ones[i] | TIED, 33);
    check(b, DELTA | BETA | DECAY | FROM_ROWS, 33);
}
