/* Declarations that the parts of an inspection share. */
#ifndef ICLAB_PROBE_INSPECTION_H
#define ICLAB_PROBE_INSPECTION_H

#include <stdbool.h>

#include "iclab/recipe.h"
#include "iclab/text.h"
#include "iclab/train.h"
#include "numeric/statistics.h"
#include "probe/inspect.h"
#include "probe/linear_layers.h"
#include "report/curves.h"
#include "report/figure.h"
#include "report/report.h"

typedef struct icl_inspection {
    const icl_inspect_params *params;
    icl_recipe *recipe;
    icl_trainer *trainer;
    const icl_task *task;
    const icl_model *model;
    size_t d, n;
    uint32_t seed; /* eval.seed */
    float *values; /* the parameters */
    icl_drawing drawing;
    icl_text lead;      /* the result in a sentence */
    icl_text details;   /* sentences that support it; each after a blank */
    icl_text markdown;  /* the rest of inspect.md so far */
    icl_report *report; /* report.html so far, with the content of markdown */
    icl_text table;     /* inspect.csv so far */
    size_t columns;     /* of the table being written */
} icl_inspection;

/* Reports the share in [0, 1] of `doing` that is done. */
void icl_inspect_progress(const icl_inspection *run, const char *doing, double share);

/* ICL_ERROR_INTERRUPTED if a stop was asked for. */
icl_status icl_inspect_poll(const icl_inspection *run, icl_error *error);

/* ---- What is written (document.c): each part goes to inspect.md and report.html alike ---- */

/* Reports one number and adds it to inspect.csv; the macro takes its fields. */
icl_status icl_inspect_found(icl_inspection *run, const icl_inspected *found, icl_error *error);
#define ICL_INSPECT_FOUND(run, error, ...) icl_inspect_found(run, &(icl_inspected){__VA_ARGS__}, error)

icl_status icl_inspect_section(icl_inspection *run, const char *heading, icl_error *error);
icl_status icl_inspect_paragraph(icl_inspection *run, icl_error *error, const char *format, ...) ICL_PRINTF(3, 4);

/* Draws a figure (curves or heat maps) and adds it; the macros take its fields. */
icl_status icl_inspect_figure(icl_inspection *run, const icl_figure *figure, icl_error *error);
icl_status icl_inspect_curves(icl_inspection *run, icl_curves *curves, icl_error *error);
icl_status icl_inspect_heat_maps(icl_inspection *run, const icl_heat_figure *figure, icl_error *error);
#define ICL_INSPECT_FIGURE(run, error, ...)    icl_inspect_figure(run, &(icl_figure){__VA_ARGS__}, error)
#define ICL_INSPECT_HEAT_MAPS(run, error, ...) icl_inspect_heat_maps(run, &(icl_heat_figure){__VA_ARGS__}, error)

/* Adds a table: its columns, rows of as many cells, its end. No cell holds a '|'. */
icl_status icl_inspect_table_begin(icl_inspection *run, const icl_report_column *columns, size_t count,
                                   icl_error *error);
icl_status icl_inspect_table_row(icl_inspection *run, icl_report_tone tone, const char *const *cells, icl_error *error);
icl_status icl_inspect_table_end(icl_inspection *run, icl_error *error);

/* Write a number with four significant digits, "-" for NaN; the second adds a standard error above 0. */
enum { ICL_INSPECT_CELL = 64 };
const char *icl_inspect_number(double value, char text[ICL_INSPECT_CELL]);
const char *icl_inspect_measured(double value, double standard_error, char text[ICL_INSPECT_CELL]);

/* ---- Sequences to measure on (document.c) ---- */

/* Sequences drawn for evaluation, on the host. */
typedef struct icl_inspect_sample {
    size_t count;
    float *tokens;          /* [count][n + 1][d + 1] */
    float *noise, *targets; /* [count] */
    double *predictions;    /* [count], the model's, computed on its device */
    double *weights;        /* [count][d], implied weights if the model is linear in the query; else NULL */
} icl_inspect_sample;

/* Constants are fitted on other sequences than those on which everything is measured. */
typedef enum icl_inspect_purpose { ICL_INSPECT_MEASURE = 0, ICL_INSPECT_FIT } icl_inspect_purpose;

/* Draws `count` sequences, or fewer if these would be too large. Released in any case. */
icl_status icl_inspect_draw(icl_inspection *run, icl_inspect_purpose purpose, size_t count, icl_inspect_sample *sample,
                            icl_error *error);
void icl_inspect_sample_release(icl_inspect_sample *sample);

/* Returns the query of a sequence, (x_t, 0). */
const float *icl_inspect_query(const icl_inspection *run, const icl_inspect_sample *sample, size_t sequence);

/* Returns <weights, x> over d inputs. */
double icl_inspect_product(const double *weights, const float *query, size_t d);

/* ---- Parts of layers taken away (terms.c) ---- */

/* The prunings. Of each layer: its four terms (icl_linear_term), all of it, and all but its four numbers. Of the model:
 * to the four numbers of every layer, to w_xx and w_yx of these, and to w_yx. */
enum { ICL_PRUNE_LAYER = ICL_LINEAR_TERMS, ICL_PRUNE_BEYOND_SCALARS, ICL_PRUNE_PER_LAYER };
enum { ICL_PRUNE_TO_DIAGONAL, ICL_PRUNE_TO_GDPP, ICL_PRUNE_TO_DESCENT, ICL_PRUNE_PER_MODEL };

/* Summaries of per-sequence differences: the mean, which a heavy tail can dominate, and two robust estimates. */
typedef enum icl_inspect_judge {
    ICL_JUDGE_MEAN = 0,
    ICL_JUDGE_MEDIAN,
    ICL_JUDGE_TRIMMED, /* the mean without the tenth at each end */
    ICL_JUDGES
} icl_inspect_judge;

/* The effect of a pruning. */
typedef struct icl_inspect_effect {
    double moved; /* root mean square of the prediction's change, over that of the prediction */
    /* The rise of the squared error by each judge: pruned minus whole, on the same sequence. */
    icl_location costs[ICL_JUDGES];
} icl_inspect_effect;

/* Summarises `count` paired differences of squared errors, which it sorts. */
void icl_inspect_judge_differences(double *differences, size_t count, icl_inspect_effect *effect);

enum { ICL_INSPECT_VERDICT = 160 };
/* Writes "the loss needs it (mean, median, trimmed mean)". Returns text. */
const char *icl_inspect_verdict(const icl_inspect_effect *effect, char text[ICL_INSPECT_VERDICT]);

/* Adds the role of a term: "name (loss +0.12 without it)" or, if a heavy tail leaves the mean unsure, "name (median
 * loss +0.12 without it)"; after a comma if the text is not empty. */
icl_status icl_inspect_add_role(const char *name, const icl_inspect_effect *effect, icl_text *text, icl_error *error);

typedef struct icl_inspect_effects {
    size_t depth;
    icl_location losses[ICL_JUDGES]; /* the whole model's squared error, by each judge */
    double size, residual;           /* root mean squares of its predictions, and of the device's minus <w, x> */
    icl_inspect_effect *of;          /* [depth][ICL_PRUNE_PER_LAYER], [ICL_PRUNE_PER_MODEL] */
    double *typical;                 /* [depth][ICL_LINEAR_TERMS], median over sequences of icl_linear_layers_changes */
    double *along;                   /* [depth], share of sequences in which momentum goes along the layer's step */
} icl_inspect_effects;

/* Measures all effects on the sample, and fills sample->weights. Released in any case. */
icl_status icl_inspect_prune(icl_inspection *run, icl_inspect_sample *sample, icl_inspect_effects *effects,
                             icl_error *error);
void icl_inspect_effects_release(icl_inspect_effects *effects);

/* ---- Parts ---- */

/* A layer's gradient step y <- y + (1/n) <a, A x>. */
typedef struct icl_inspect_step {
    double multiple, distance;          /* the multiple of I nearest to A, and its distance Dist(A, I) */
    double whitened_multiple, whitened; /* likewise for R^T A R, if inputs have a covariance R R^T; else NaN */
} icl_inspect_step;

/* Measures the step of a layer. matrices [2][d][d] is scratch. */
icl_inspect_step icl_inspect_measure_step(const icl_inspection *run, const icl_linear_layers *layers, size_t layer,
                                          double *matrices);

/* The descent that the layers are near, with one step for each layer that does something. Its constants are two of the
 * layer's four numbers: those of a step and of its inputs. */
enum { ICL_INSPECT_MOST_STEPS = 16 };
typedef struct icl_inspect_descent {
    size_t steps;
    bool is_known; /* the constants below are set; false if there are too many steps for them */
    double rates[ICL_INSPECT_MOST_STEPS], inputs[ICL_INSPECT_MOST_STEPS];             /* for sums without 1 / n */
    double white_rates[ICL_INSPECT_MOST_STEPS], white_inputs[ICL_INSPECT_MOST_STEPS]; /* likewise for white inputs */
} icl_inspect_descent;

/* Reports what each term of a linear transformer's layers does, and what pruning it costs. Fills sample->weights and
 * `descent`. */
icl_status icl_inspect_terms(icl_inspection *run, const icl_linear_layers *layers, icl_inspect_sample *sample,
                             icl_inspect_descent *descent, icl_error *error);

/* Returns the words for a model whose predictions differ from an algorithm's by this share of their mean square:
 * "is, to rounding,", "is nearly", "comes close to", or that it is none of them. */
const char *icl_inspect_nearness(double share);

/* Reports the losses of the model and of all reference predictors on fresh sequences. */
icl_status icl_inspect_losses(icl_inspection *run, size_t sequences, icl_error *error);

/* The sequences of the above if nobody asks for another number. */
enum { ICL_INSPECT_LOSS_SEQUENCES = 2048 };

/* Inspects a sequence model: everything that follows. */
icl_status icl_inspect_sequence(icl_inspection *run, icl_error *error);

/* Writes "head 1", or "loop 2, head 1" if the layers run several times. Returns text. */
const char *icl_inspect_head(const icl_inspection *run, size_t loop, size_t head, char text[ICL_INSPECT_CELL]);

/* Reports gates, writes, transitions and ranks of its states, on inputs [B, T, p] or symbols [B, T]; nothing for mixers
 * without states. parameters [N]. */
icl_status icl_inspect_states(icl_inspection *run, icl_tensor parameters, icl_tensor inputs, icl_error *error);

/* Reports the window of a softmax attention over labels, or the matrix of a linear one of that family. */
icl_status icl_inspect_window(icl_inspection *run, icl_error *error);

#endif
