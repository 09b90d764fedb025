/*
 * The states S [m, n] of the recurrences of a sequence model (model.family = sequence), token by token.
 *
 * With decay a_t, write strength b_t and key k_t a token does (ops_recurrence.h)
 *
 *     S <- A_t S + b_t k_t v_t^T,   A_t = (I - b_t k_t k_t^T) diag(exp a_t)   with the delta term,
 *                                   A_t = diag(exp a_t)                       without
 *
 * The eigenvalues of A_t are the gates exp(a_t); the delta term, whose mixers have one gate g for each head, makes one
 * of them g (1 - b_t |k_t|^2), below 0 for strong writes: what state tracking needs (Grazzi et al. 2024).
 */
#ifndef ICLAB_PROBE_STATES_H
#define ICLAB_PROBE_STATES_H

#include "iclab/model.h"
#include "probe/inspection.h"

/* Singular values above this share of the largest count in a state's numeric rank. */
#define ICL_STATE_RANK_SHARE 1e-6

/* A write of strength 1 has the eigenvalue 0 up to rounding, a few units of single precision: an eigenvalue counts as
 * negative if it lies below minus this number. */
#define ICL_STATE_ROUNDING 0x1p-20

/* The effect of one write of one token. */
typedef struct icl_state_write {
    double strength;       /* b_t; 1 if the mixer has none */
    double written;        /* |b_t k_t v_t^T|, its Frobenius norm */
    double least, largest; /* eigenvalues of A_t */
} icl_state_write;

/* The state after a token, with its last write done. */
typedef struct icl_state_rank {
    double
        effective;  /* icl_entropy_rank of its singular values; 0 if the state is all 0, NaN if it is not all finite */
    double numeric; /* singular values above ICL_STATE_RANK_SHARE of the largest; NaN likewise */
    double norm;    /* Frobenius */
} icl_state_rank;

/* One recurrence of one layer. Momentum has two, the sum and the one that decays; linear attention with a normalizer
 * has a second one, the sum of keys by which it divides. */
typedef struct icl_state_trace {
    size_t layer, loop, part;                   /* layer from 0; loop of model.loops; part: number in the layer */
    const char *mixer;                          /* its word in model.mixer */
    bool is_delta, has_gate, has_beta;          /* the terms above that it has */
    size_t sequences, heads, positions, writes; /* B, H, T; writes of a token */
    size_t key_width, value_width, channels, rank_step; /* m, n; gates of a write, 1 or m; see ranks */
    icl_state_write *of;                                /* [B][H][T][writes] */
    double *gates;                                      /* [B][H][T][writes][channels]: exp(a_t) */
    /* [B][H][T]: those of the last token and of every rank_step-th before it; the others are NaN. */
    icl_state_rank *ranks;
} icl_state_trace;

/* The traces, in the order in which the model runs the recurrences. Zero at the beginning. */
typedef struct icl_state_traces {
    size_t count, capacity;
    icl_state_trace *traces; /* [count] */
} icl_state_traces;

/* Runs the model with parameters [N] on inputs [B, T, p], or symbols [B, T]. ICL_ERROR_INPUT for other families. Layers
 * without a recurrence have no trace. Released in any case. */
icl_status icl_state_traces_measure(const icl_model *model, icl_backend *backend, icl_tensor parameters,
                                    icl_tensor inputs, icl_state_traces *traces, icl_error *error);
void icl_state_traces_release(icl_state_traces *traces);

/* ---- Inspections of states ---- */

/* The number of quantiles of gates (10 %, median, 90 %), and the bytes of a head's name. */
enum { ICL_INSPECT_QUANTILES = 3, ICL_INSPECT_STATE_NAME = 96 };

/* Summary of one head of one recurrence on all sequences. */
typedef struct icl_inspect_state {
    double gate, quantiles[ICL_INSPECT_QUANTILES];
    double strength, written;
    double least, largest, negative; /* eigenvalues, and the share of writes with one below -ICL_STATE_ROUNDING */
    struct {
        double mean, standard_error;
    } effective, numeric, norm; /* of the state after the last token */
} icl_inspect_state;

/* Fills `to`, zero at the beginning, for one head of the trace. */
icl_status icl_inspect_state_measure(const icl_state_trace *trace, size_t head, icl_inspect_state *to,
                                     icl_error *error);

#endif
