#include <stdio.h>

#include "every_op_run.h"

static icl_status run_normalization(run *r, const icl_normalize_params *params, const size_t shape[3]) {
    const size_t n = shape[2];
    icl_tensor in, gain, shift, g, out, d_in, d_gain, d_shift;
    const wanted inputs[] = {
        {&in, 3, {shape[0], shape[1], n}}, {&gain, 1, {n}}, {&shift, 1, {n}}, {&g, 3, {shape[0], shape[1], n}}};
    const wanted outputs[] = {
        {&out, 3, {shape[0], shape[1], n}}, {&d_in, 3, {shape[0], shape[1], n}}, {&d_gain, 1, {n}}, {&d_shift, 1, {n}}};
    char title[48];
    icl_status status = ICL_OK;
    ICL_TRY(make_inputs(r, inputs, sizeof inputs / sizeof *inputs));
    ICL_TRY(make_all(r, outputs, sizeof outputs / sizeof *outputs));
    ICL_TRY(icl_normalize(r->backend, params, out, in, gain, shift, r->error));
    ICL_TRY(icl_normalize_backward(r->backend, params, d_in, d_gain, d_shift, g, in, gain, r->error));
    snprintf(title, sizeof title, "normalize %s %zu", icl_norm_name(params->kind), n);
    const named results[] = {{"out", out}, {"d_in", d_in}, {"d_gain", d_gain}, {"d_shift", d_shift}};
    ICL_TRY(keep_all(r, title, results, sizeof results / sizeof *results));
done:
    release_all(r);
    return status;
}

static icl_status run_normalizations(run *r) {
    static const size_t shapes[][3] = {{67, 41, 16}, {9, 130, 57}, {3, 5, 2100}};
    icl_status status = ICL_OK;
    for (int kind = 0; kind < ICL_NORM_COUNT; kind++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            ICL_TRY(run_normalization(r, &(icl_normalize_params){(icl_norm_kind)kind, 1e-5}, shapes[i]));
done:
    return status;
}

/* Segments and a part of one, values and channels that fill no vector; with the delta term and a decay, strong enough
 * that some segments are computed again, and without either. */
static icl_status run_recurrence_case(run *r, const size_t s[5], bool delta, size_t decays) {
    const size_t rows = (s[2] + ICL_RECURRENCE_SEGMENT - 1) / ICL_RECURRENCE_SEGMENT * s[3];
    const icl_recurrence_params params = {delta, 0.5};
    icl_recurrence_inputs in = {{0}}, d = {{0}};
    icl_recurrence_saved saved = {{0}};
    icl_tensor out, final, d_out, d_final;
    const wanted inputs[] = {{&in.q, 4, {s[0], s[1], s[2], s[3]}},      {&in.k, 4, {s[0], s[1], s[2], s[3]}},
                             {&in.v, 4, {s[0], s[1], s[2], s[4]}},      {&d_out, 4, {s[0], s[1], s[2], s[4]}},
                             {&d_final, 4, {s[0], s[1], s[3], s[4]}},   {&in.beta, 4, {s[0], s[1], s[2], 1}},
                             {&in.decay, 4, {s[0], s[1], s[2], decays}}};
    const wanted outputs[] = {{&d.q, 4, {s[0], s[1], s[2], s[3]}}, {&d.k, 4, {s[0], s[1], s[2], s[3]}},
                              {&d.v, 4, {s[0], s[1], s[2], s[4]}}, {&saved.states, 4, {s[0], s[1], rows, s[4]}},
                              {&out, 4, {s[0], s[1], s[2], s[4]}}, {&final, 4, {s[0], s[1], s[3], s[4]}},
                              {&d.beta, 4, {s[0], s[1], s[2], 1}}, {&d.decay, 4, {s[0], s[1], s[2], decays}}};
    icl_status status = ICL_OK;

    ICL_TRY(make_inputs(r, inputs, decays > 0 ? 7 : 5));
    ICL_TRY(make_all(r, outputs, decays > 0 ? 8 : 6));
    ICL_TRY(icl_scale_add(r->backend, in.k, 1 / (double)s[3], in.k, 0, (icl_tensor){0}, r->error));
    if (decays > 0)
        ICL_TRY(icl_scale_add(r->backend, in.decay, 0.1, in.decay, 0, (icl_tensor){0}, r->error));
    if (delta)
        ICL_TRY(make(r, 4, inputs[2].shape, &saved.reads));
    ICL_TRY(icl_recurrence_forward(r->backend, &params, out, final, &saved, &in, r->error));
    ICL_TRY(icl_recurrence_backward(r->backend, &params, &d, d_out, d_final, final, &saved, &in, r->error));
    const named results[] = {{"out", out}, {"final", final},   {"d_q", d.q},        {"d_k", d.k},
                             {"d_v", d.v}, {"d_beta", d.beta}, {"d_decay", d.decay}};
    ICL_TRY(keep_all(r, delta ? "recurrence with delta" : "recurrence", results, decays > 0 ? 7 : 5));
done:
    release_all(r);
    return status;
}

static icl_status run_recurrence(run *r) {
    static const size_t sizes[][5] = {{37, 3, 70, 9, 21}, {1, 2, 200, 33, 70}};
    icl_status status = ICL_OK;
    for (size_t i = 0; i < 2 && status == ICL_OK; i++)
        for (size_t form = 0; form < 4 && status == ICL_OK; form++)
            status = run_recurrence_case(r, sizes[i], form > 1, form == 3 ? sizes[i][3] : form > 0);
    return status;
}

/* Tokens by number, of which half are none, filtered and rotated, and the gradients back to the table. */
static icl_status run_tokens(run *r, size_t rows, size_t width) {
    const size_t batch = 67, length = 131;
    const icl_random_params symbol = {
        .key = {11, 3, 1}, .distribution = ICL_CHOICE, .choice_count = 4, .choices = {0, (float)(rows - 1), 1.5F, -1}};
    icl_tensor symbols, table, taps, angles, g, out, filtered, turned, back, d_in, d_taps, d_table;
    const wanted inputs[] = {{&table, 2, {rows, width}},
                             {&taps, 2, {3, width}},
                             {&angles, 3, {length, width / 2, 2}},
                             {&g, 3, {batch, length, width}}};
    const wanted outputs[] = {{&symbols, 2, {batch, length}},
                              {&out, 3, {batch, length, width}},
                              {&filtered, 3, {batch, length, width}},
                              {&turned, 3, {batch, length, width}},
                              {&back, 3, {batch, length, width}},
                              {&d_in, 3, {batch, length, width}},
                              {&d_taps, 2, {3, width}},
                              {&d_table, 2, {rows, width}}};
    char title[48];
    icl_status status = ICL_OK;
    ICL_TRY(make_inputs(r, inputs, sizeof inputs / sizeof *inputs));
    ICL_TRY(make_all(r, outputs, sizeof outputs / sizeof *outputs));
    ICL_TRY(icl_random_fill(r->backend, &symbol, symbols, r->error));
    ICL_TRY(icl_look_up(r->backend, out, table, symbols, r->error));
    ICL_TRY(icl_convolve(r->backend, filtered, out, taps, r->error));
    ICL_TRY(icl_rotate(r->backend, false, turned, filtered, angles, r->error));
    ICL_TRY(icl_rotate(r->backend, true, back, g, angles, r->error));
    ICL_TRY(icl_convolve_backward(r->backend, d_in, d_taps, back, g, taps, r->error));
    ICL_TRY(icl_look_up_backward(r->backend, d_table, d_in, symbols, r->error));
    snprintf(title, sizeof title, "tokens of %zu x %zu", rows, width);
    const named results[] = {{"filtered", filtered}, {"rotated", turned}, {"rotated back", back},
                             {"d_in", d_in},         {"d_taps", d_taps},  {"d_table", d_table}};
    ICL_TRY(keep_all(r, title, results, sizeof results / sizeof *results));
done:
    release_all(r);
    return status;
}

static icl_status run_cross_entropies(run *r) {
    static const size_t shapes[][2] = {{3001, 7}, {301, 130}, {5, 5000}};
    icl_status status = ICL_OK;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const size_t rows = shapes[i][0], n = shapes[i][1];
        icl_tensor logits, g, classes, losses, d_logits;
        const wanted inputs[] = {{&logits, 2, {rows, n}}, {&g, 2, {rows, 1}}};
        const wanted outputs[] = {{&classes, 2, {rows, 1}}, {&losses, 2, {rows, 1}}, {&d_logits, 2, {rows, n}}};
        char title[48];
        ICL_TRY(make_inputs(r, inputs, sizeof inputs / sizeof *inputs));
        ICL_TRY(make_all(r, outputs, sizeof outputs / sizeof *outputs));
        ICL_TRY(icl_fill(r->backend, classes, (double)(i + 3), r->error));
        ICL_TRY(icl_cross_entropy(r->backend, losses, logits, classes, r->error));
        ICL_TRY(icl_cross_entropy_backward(r->backend, d_logits, g, logits, classes, r->error));
        snprintf(title, sizeof title, "cross-entropy of %zu", n);
        ICL_TRY(keep_all(r, title, (const named[]){{"losses", losses}, {"d_logits", d_logits}}, 2));
        release_all(r);
    }
done:
    release_all(r);
    return status;
}

icl_status run_sequence_ops(run *r) {
    icl_status status = ICL_OK;
    ICL_TRY(run_normalizations(r));
    ICL_TRY(run_recurrence(r));
    ICL_TRY(run_tokens(r, 300, 22));
    ICL_TRY(run_tokens(r, 2, 64));
    ICL_TRY(run_cross_entropies(r));
done:
    return status;
}
