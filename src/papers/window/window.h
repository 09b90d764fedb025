/* What the reproductions of "In-Context Learning with Transformers: Softmax Attention Adapts to Function Lipschitzness"
 * (Collins et al. 2024, arXiv 2402.11639) share: a trained window beside the best one of its shape. */
#ifndef ICLAB_PAPERS_WINDOW_WINDOW_H
#define ICLAB_PAPERS_WINDOW_WINDOW_H

#include "papers/reproduce.h"
#include "probe/window.h"

enum { ICL_WINDOW_NAME = 64, ICL_WINDOW_MOST_ELEMENTS = 256 };

/* One training run of the recipe "window". */
typedef struct icl_window_cell {
    const char *function; /* as task.function has it */
    size_t d, n;
    double lipschitz, sigma;
    size_t steps, batch;
    double learning_rate;
    /* k, with M random at first and snapshots of it along the way; 0: functions of all of x. */
    size_t subspace;
    bool linear; /* attention without the exponential */
} icl_window_cell;

enum { ICL_WINDOW_SNAPSHOTS = 8 };

/* What came of it. M is [d][d], d <= 16. */
typedef struct icl_window_trained {
    double M[ICL_WINDOW_MOST_ELEMENTS];
    double spectral_norm, distance; /* ||M||_2; Dist(M, I), see probe/matrix.h */
    double best;                    /* the w of the best window w I, searched for on other sequences */
    icl_window_ratio beside_best;   /* of M, and of best I */
    icl_window_quality of_mean;     /* of the mean of all labels */
} icl_window_trained;

/* "affine d 5, n 20, L 1, sigma 0.1", in name; and as the name of a run folder: the same without blanks. */
void icl_window_name(const icl_window_cell *cell, char name[ICL_WINDOW_NAME]);
void icl_window_folder(const icl_window_cell *cell, char name[ICL_WINDOW_NAME]);

/* The cell's recipe, freed by the caller. */
icl_status icl_window_recipe(const icl_reproducing *run, const icl_window_cell *cell, icl_recipe **recipe,
                             icl_error *error);

/* Trains the cell; M [d][d], d <= 16. Along the way: M after each of ICL_WINDOW_SNAPSHOTS equal parts of the steps, the
 * last one included; NULL where they are not wanted, else of a cell with a subspace whose steps they divide. */
icl_status icl_window_learn(icl_reproducing *run, const icl_window_cell *cell, double *M,
                            double along[ICL_WINDOW_SNAPSHOTS][ICL_WINDOW_MOST_ELEMENTS], icl_error *error);

/* Trains the cell and measures it on `sequences` sequences; the best window is searched for on as many others. */
icl_status icl_window_train(icl_reproducing *run, const icl_window_cell *cell, size_t sequences,
                            icl_window_trained *trained, icl_error *error);

/* Judges a trained window: its spectral norm within `tolerance` of the best w; its loss; what it is beside w I. Some
 * cells have w from another source (`printed`, 0 where there is none). */
icl_status icl_window_judge(icl_reproducing *run, const icl_window_cell *cell, const icl_window_trained *trained,
                            double tolerance, double printed, icl_error *error);

/* Judges that the windows' spectral norms rise from each value to the next. */
icl_status icl_window_judge_order(icl_reproducing *run, const char *what, size_t count, const double *norms,
                                  icl_error *error);

#endif
