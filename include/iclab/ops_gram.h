/* The op of one family of tasks: regression problems drawn as Gram matrices. Conventions: ops.h. */
#ifndef ICLAB_OPS_GRAM_H
#define ICLAB_OPS_GRAM_H

#include "iclab/ops.h"

ICL_C_BEGIN

/*
 * Strict. In-context regression problems by their Gram matrices, without a token. For a context of n pairs (x_i, y_i),
 * x_i = R g_i, y_i = <w, x_i> + sigma eps_i, with g_i, eps_i and h standard normal and w = C h, the matrix G = sum_i
 * (x_i, y_i) (x_i, y_i)^T is an image of a Wishart matrix, for which Bartlett's decomposition gives a lower trapezoid L
 * [D, m], D = d + 1, m = min(n, D), with sum_i (g_i, eps_i) (g_i, eps_i)^T = L L^T: L_ii has the chi distribution with
 * n - i degrees of freedom, and the elements below are standard normal. O(D^2) random numbers for any n; exact in
 * distribution, also for n < D.
 *
 * gram [B, D, D] = F F^T, query [B, D] = (x_t, 0) with x_t = R g_t, targets [B] = <w, x_t>, weights [B, d] = w, noise
 * [B] = sigma. roots [2, d, d]: R and C, or absent for identities. chi [m or more, ICL_CHI_PIECES, ICL_CHI_TERMS]: row
 * i takes a normal to L_ii; it holds the coefficients of 1, t, t^2, … of each piece, piece = (int)(z + ICL_CHI_PIECES /
 * 2), t = z - (piece - (ICL_CHI_PIECES - 1) / 2), summed by Horner's rule. |z| < 6.4 for every random word.
 *
 * Random words: sequence s owns indices s * 4 ceil(N / 4) + e of the key, e < N = T + 2 d + 1: the T elements of L row
 * by row, the diagonal's included, then g_t, h, and the word of sigma. Every product and every sum rounds once, sums
 * run upwards from their first product:
 *     F_ij = L_ij without roots, sum_k R_ik L_kj over j <= k < d with roots; i < d
 *     F_dj = (sum_i w_i F_ij) + sigma L_dj, over j <= i < d without roots, i < d with; F_dd = sigma L_dd
 *     G_ab = sum_k F_ak F_bk over k <= min(a, b, m - 1) without roots; with roots over k < min(d, m), for a = b = d
 *     over k < m
 *     x_t, w: sum over all columns of a root; target = sum_i w_i x_i
 */
typedef struct icl_gram_params {
    icl_random_key key;            /* key of all these numbers */
    uint64_t context;              /* n */
    icl_random_params noise_level; /* the distribution of sigma; its key and first_index are not used */
} icl_gram_params;

/* Samples as icl_gram_params says. */
ICL_API icl_status icl_gram_sample(icl_backend *backend, const icl_gram_params *params, icl_tensor gram,
                                   icl_tensor query, icl_tensor targets, icl_tensor weights, icl_tensor noise,
                                   icl_tensor chi, icl_tensor roots, icl_error *error);

ICL_C_END

#endif
