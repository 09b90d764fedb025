#include "baseline/workspace.h"

#include <string.h>

#include "core/allocate.h"
#include "numeric/parallel.h"

icl_status icl_workspaces_create(const icl_task_prior *prior, bool both_bases, icl_workspaces *all, icl_error *error) {
    memset(all, 0, sizeof *all);
    all->prior = prior;
    all->both_bases = both_bases && prior->weight_root;
    ICL_CHECK(icl_allocate(icl_parallel_threads(), sizeof *all->workspaces, "workspaces", &all->workspaces, error));
    all->threads = icl_parallel_threads();
    for (size_t i = 0; i < all->threads; i++) {
        icl_workspace *workspace = &all->workspaces[i];
        ICL_CHECK(icl_spectrum_create(prior->dimension, prior->context, prior->weight_root,
                                      &workspace->spectra[ICL_PRIOR_BASIS], error));
        if (all->both_bases)
            ICL_CHECK(icl_spectrum_create(prior->dimension, prior->context, NULL, &workspace->spectra[ICL_INPUT_BASIS],
                                          error));
        ICL_CHECK(icl_allocate(prior->dimension, sizeof(double), "filter", &workspace->filter, error));
        if (prior->labels == ICL_LABELS_NEXT)
            ICL_CHECK(icl_allocate(prior->context + 1, (prior->dimension + 1) * sizeof(float), "pairs",
                                   &workspace->tokens, error));
    }
    return ICL_OK;
}

double icl_workspaces_bytes(const icl_task_prior *prior, bool both_bases) {
    const size_t d = prior->dimension, bases = both_bases && prior->weight_root ? ICL_BASIS_COUNT : 1;
    const size_t row = bases * d * sizeof(double) + (prior->labels == ICL_LABELS_NEXT ? (d + 1) * sizeof(float) : 0);

    return (double)(icl_parallel_threads() * row) * (double)(prior->context + 1);
}

void icl_workspaces_destroy(icl_workspaces *all) {
    for (size_t i = 0; i < all->threads; i++) {
        for (int basis = 0; basis < ICL_BASIS_COUNT; basis++)
            icl_spectrum_destroy(&all->workspaces[i].spectra[basis]);
        icl_free(&all->workspaces[i].filter);
        icl_free(&all->workspaces[i].tokens);
    }
    icl_free(&all->workspaces);
    all->threads = 0;
}

/* Rows (x_i, y_i) of rows (x_i, y_(i - 1)). The label of the last one, the query, is not read. */
static void pair_labels(const icl_task_prior *prior, const float *inputs, float *tokens) {
    const size_t d = prior->dimension, width = d + 1;

    memcpy(tokens, inputs, (prior->context + 1) * width * sizeof *tokens);
    for (size_t i = 0; i < prior->context; i++)
        tokens[i * width + d] = inputs[(i + 1) * width + d];
}

void icl_workspace_load(const icl_workspaces *all, icl_workspace *workspace, const float *inputs) {
    const float *tokens = workspace->tokens ? workspace->tokens : inputs;

    if (workspace->tokens)
        pair_labels(all->prior, inputs, workspace->tokens);
    icl_spectrum_compute(&workspace->spectra[ICL_PRIOR_BASIS], tokens);
    if (all->both_bases)
        icl_spectrum_compute(&workspace->spectra[ICL_INPUT_BASIS], tokens);
}

const icl_spectrum *icl_workspace_spectrum(const icl_workspaces *all, const icl_workspace *workspace, icl_basis basis) {
    return &workspace->spectra[all->prior->weight_root ? basis : ICL_PRIOR_BASIS];
}
