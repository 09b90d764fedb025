/* The ops of sequence models beside attention: normalization, rows by number, short convolutions, rotary positions,
 * concatenation, cross-entropy. Conventions: ops.h. */
#ifndef ICLAB_OPS_SEQUENCE_H
#define ICLAB_OPS_SEQUENCE_H

#include "iclab/ops.h"

ICL_C_BEGIN

/* ---- Normalization of rows ---- */

/* The normalized row, for a row x of n elements, before gain and shift. */
typedef enum icl_norm_kind {
    ICL_NORM_LAYER = 0, /* (x - mean) / sqrt(mean of (x - mean)^2 + epsilon) (Ba, Kiros and Hinton 2016) */
    ICL_NORM_RMS,       /* x / sqrt(mean of x^2 + epsilon) (Zhang and Sennrich 2019) */
    ICL_NORM_UNIT,      /* x / sqrt(sum of x^2 + epsilon) */
    ICL_NORM_COUNT
} icl_norm_kind;

/* How rows are normalized. */
typedef struct icl_normalize_params {
    icl_norm_kind kind; /* zero is a valid value */
    double epsilon;     /* added under the root; 0 or more */
} icl_normalize_params;

/* "layer", "rms", "unit"; static storage. */
ICL_API const char *icl_norm_name(icl_norm_kind kind);

/*
 * out = normalized * gain + shift, for each row along the last axis. out and in [..., n], of one shape of rank 1 to 4;
 * gain [n] and shift [n], each or both absent (zeroed icl_tensors): 1 and 0. out may be in's own view.
 *
 * A row whose root is 0 has normalized elements 0: with epsilon 0 a constant row for the layer norm, a row of zeros for
 * the others. NaN and infinities stay in their row. With NaN all of the row is NaN; with an infinity so is all of it
 * for the layer norm; for the others the infinite elements are NaN and the finite ones normalize to 0, as do all
 * elements of a row whose sum of squares overflows (of floats, beyond 2^63 / sqrt(n)).
 *
 * Bound. A term of a sum of n passes through at most K = 48 + n / 256 additions. The layer norm takes d_i = x_i - x_0
 * first, so that what is lost in the mean is relative to the row's range and not to its distance from 0: c = x - mean
 * has an error of at most e_i = u |d_i| + gamma(K + 6) mean|d| + u |c_i|. The root's reciprocal has half of the mean
 * square's relative error, gamma(K + 8) and for the layer norm mean(2 |c| e + e^2) / mean(c^2), beside 12 u; the
 * product with c, that with the gain and the sum with the shift round once each.
 */
ICL_API icl_status icl_normalize(icl_backend *backend, const icl_normalize_params *params, icl_tensor out,
                                 icl_tensor in, icl_tensor gain, icl_tensor shift, icl_error *error);

/*
 * Gradients of the above. With y the normalized row, r its reciprocal root and g = d_out * gain,
 *     d_in = r (g - mean(g) - y mean(g y)) for the layer norm, r (g - y mean(g y)) for RMS, r (g - y sum(g y)) for unit
 *     d_gain = sum over rows of d_out y,  d_shift = sum over rows of d_out
 * d_in, d_out and in have one shape [..., n]; d_gain and d_shift [n] may be absent: not wanted. All are overwritten,
 * and none shares elements with another operand. A row whose root is 0 has the gradient 0.
 * The sums over rows run over 64 rows in sequence and over such blocks in pairs, whatever the number of threads; sums
 * within a row as above. Of no rows d_gain and d_shift are 0.
 */
ICL_API icl_status icl_normalize_backward(icl_backend *backend, const icl_normalize_params *params, icl_tensor d_in,
                                          icl_tensor d_gain, icl_tensor d_shift, icl_tensor d_out, icl_tensor in,
                                          icl_tensor gain, icl_error *error);

/* ---- Rows by number ---- */

/* The largest number of rows of a table of icl_look_up: a float holds every whole number up to 2^24. */
#define ICL_MOST_SYMBOLS ((size_t)1 << 24)

/*
 * Copies out[..., :] = table[symbols[...], :], exactly. table [V, w] with V <= ICL_MOST_SYMBOLS; out [..., w] of rank 1
 * to 4; symbols has out's shape without its last axis, and holds whole numbers as elements. A symbol outside 0 … V - 1
 * (negative, too large, a fraction, NaN) gives a row of NaN. out shares no element with another operand.
 */
ICL_API icl_status icl_look_up(icl_backend *backend, icl_tensor out, icl_tensor table, icl_tensor symbols,
                               icl_error *error);

/*
 * Computes the gradient of the table: d_table[v, :] = the sum of d_out's rows whose symbol is v; 0 if there are none.
 * d_table [V, w] is overwritten; rows of d_out whose symbol is outside 0 … V - 1 are skipped. At most 2^31 - 1 rows.
 *
 * The same bits on every device for the same elements, whatever the number of threads: rows are sorted by symbol, those
 * of one symbol in their order, and every 32 rows whose place in that order begins at a multiple of 32 are added from
 * first to last if they are of one symbol; of 32 such sums that begin at a multiple of 32 again, and so on. A symbol's
 * row adds, from 0, on each level first what stands before and after the larger sums, and then the levels. A term
 * of n so passes through at most min(n - 1, 61 + 32 floor(log_32 n)) additions, which bounds the error: gamma of that
 * number times the sum of magnitudes. Cost: a radix sort of the N symbols by digits of 8 bits (on the host by
 * counting), N w to 2 N w additions, and V w elements written, whatever V is.
 */
ICL_API icl_status icl_look_up_backward(icl_backend *backend, icl_tensor d_table, icl_tensor d_out, icl_tensor symbols,
                                        icl_error *error);

/* ---- Short convolutions ---- */

/*
 * Causal convolution, with a filter for each channel: out_t = sum_j kernel_j in_(t - (width - 1) + j), channel by
 * channel, over the existing tokens only: nothing is added for places before the first token. out and in [B, T, c],
 * kernel [width, c], which may be longer than T; width 0 gives 0. Products and sums round once each, j upwards: |error|
 * <= gamma(width) sum |kernel_j in_(…)|, the same bits on every device. NaN and infinities stay in their sequence and
 * channel. out shares no element with another operand.
 */
ICL_API icl_status icl_convolve(icl_backend *backend, icl_tensor out, icl_tensor in, icl_tensor kernel,
                                icl_error *error);

/*
 * Computes the gradients of the above: d_in_s = sum_j kernel_j d_out_(s + (width - 1) - j), j upwards, with
 * icl_convolve's bound, and d_kernel_j = sum over sequences and t of d_out_t in_(t - (width - 1) + j). Either may be
 * absent: not wanted. Both are overwritten, shaped as in and kernel, and share no element with another operand.
 * d_kernel sums blocks of L = max(32, 2 width) tokens of a sequence from first to last, every 32 of the P = B ceil(T /
 * L) blocks likewise, and so on: |error| <= gamma(L + 31 ceil(log_32 P)) sum |d_out in|, the same bits on every
 * device. It takes memory for P width c elements.
 */
ICL_API icl_status icl_convolve_backward(icl_backend *backend, icl_tensor d_in, icl_tensor d_kernel, icl_tensor d_out,
                                         icl_tensor in, icl_tensor kernel, icl_error *error);

/* ---- Rotary positions ---- */

/*
 * Rotates the pairs (i, i + d / 2) of each row (Su et al. 2021): with (c, s) = angles[t, i, :], the cosine and the sine
 * of an angle, out_i = c in_i - s in_(i + d / 2) and out_(i + d / 2) = s in_i + c in_(i + d / 2); with `inverse` by the
 * opposite angle (s = -s), which is also the gradient. out and in [..., T, d] of one shape of rank 2 to 4, d even;
 * angles [T, d / 2, 2]. Products and sums round once each: |error| <= gamma(2) (|c in_i| + |s in_(i + d / 2)|), the
 * same bits on every device. NaN and infinities stay in their pair. out may be the same view as in.
 */
ICL_API icl_status icl_rotate(icl_backend *backend, bool inverse, icl_tensor out, icl_tensor in, icl_tensor angles,
                              icl_error *error);

/* ---- Concatenation ---- */

/* Writes the `count` tensors one after another along `axis` into out, exactly. Their shapes are out's in every other
 * axis, and their extents along it add up to out's. One copy for each; none shares an element with out. count may be
 * 0 if out is empty. */
ICL_API icl_status icl_concatenate(icl_backend *backend, icl_tensor out, int axis, size_t count, const icl_tensor *ins,
                                   icl_error *error);

/* ---- Cross-entropy ---- */

/* The largest number of classes in a tensor of floats: more could not be told apart. */
#define ICL_MAX_CLASSES ((size_t)1 << 24)

/*
 * Computes losses [..., 1] = log sum_k exp(z_k) - z_y for each row z of logits [..., V] along the last axis, y of
 * classes [..., 1]: a whole number from 0 to V - 1. Rank 1 to 4; V is at most ICL_MAX_CLASSES.
 *
 * With m = max_k z_k the loss is computed as log sum_k exp(z_k - m) - (z_y - m), so that large logits do not overflow.
 * A logit of -infinity has the probability 0, and the loss of its class is infinite. The loss is NaN if y is no class,
 * and in rows with NaN, with +infinity, or with nothing but -infinity; other rows are not affected.
 *
 * Bound: exp(z_k - m) has the relative error (6 + |z_k - m|) u, the sum of V terms runs through at most 48 + V / 256
 * additions, and the logarithm's error is 6 u of it; z_y - m and the difference round once each.
 */
ICL_API icl_status icl_cross_entropy(icl_backend *backend, icl_tensor losses, icl_tensor logits, icl_tensor classes,
                                     icl_error *error);

/*
 * Computes d_logits [..., V] = d_loss (exp(z_k - m) / sum_j exp(z_j - m) - [k = y]), with d_losses [..., 1] and the
 * rest as above; overwritten, and sharing no memory with another operand. If the loss is NaN, so is the row; a class of
 * -infinity has -d_loss.
 */
ICL_API icl_status icl_cross_entropy_backward(icl_backend *backend, icl_tensor d_logits, icl_tensor d_losses,
                                              icl_tensor logits, icl_tensor classes, icl_error *error);

ICL_C_END

#endif
