/* The table of reproductions, paper by paper. */
#include "iclab/nearest.h"
#include "papers/papers.h"
#include "papers/reproduce.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const icl_reproduction *const table[] = {
    /* Vladymyrov et al. 2024, "Linear Transformers are Versatile In-Context Learners" */
    &icl_versatile_table1,
    &icl_versatile_profile,
    &icl_versatile_weights,
    &icl_versatile_layers,
    &icl_versatile_quadratic,
    &icl_versatile_feedforward,
    /* Ahn et al. 2023, "Transformers learn to implement preconditioned gradient descent for in-context learning" */
    &icl_precondition_theory,
    &icl_precondition_rotation,
    &icl_precondition_lbfgs,
    &icl_precondition_depth,
    &icl_precondition_context,
    /* Zhang, Frei, Bartlett 2023, "Trained transformers learn linear models in-context" */
    &icl_gradientflow_limit,
    /* Mahankali, Hashimoto, Ma 2023, "One step of gradient descent is provably the optimal in-context learner with one
     * layer of linear self-attention" */
    &icl_onestep_noise,
    /* von Oswald et al. 2022, "Transformers learn in-context by gradient descent" */
    &icl_gd_construction,
    &icl_gd_trained,
    &icl_gd_recurrent,
    /* Gatmiry et al. 2024, "Can Looped Transformers Learn to Implement Multi-step Gradient Descent for In-context
     * Learning?" */
    &icl_looped_exact,
    /* Yang et al. 2024, "Looped Transformers are Better at Learning Learning Algorithms" */
    &icl_looped_curves,
    /* Giannou et al. 2024, "How Well Can Transformers Emulate In-context Newton's Method?"; Fu et al. 2023 */
    &icl_newton_descent,
    /* Ahn, Cheng, Song et al. 2023, "Linear attention is (maybe) all you need
     * (to understand transformer optimization)" */
    &icl_landscape_adam_sgd,
    &icl_landscape_noise,
    &icl_landscape_condition,
    &icl_landscape_smoothness,
    /* Collins et al. 2024, "In-Context Learning with Transformers: Softmax Attention
     * Adapts to Function Lipschitzness" */
    &icl_window_lipschitz,
    &icl_window_noise,
    &icl_window_context,
    &icl_window_generalize,
    &icl_window_subspace,
    /* Garg et al. 2022, "What Can Transformers Learn In-Context? A Case Study of Simple Function Classes" */
    &icl_garg_curves,
    &icl_garg_shifts,
    /* Bai et al. 2023, "Transformers as Statisticians: Provable In-Context Learning with In-Context Algorithm
     * Selection" */
    &icl_statisticians_selection,
    /* Raventos et al. 2023, "Pretraining task diversity and the emergence of non-Bayesian in-context learning for
     * regression" */
    &icl_diversity_threshold,
    /* Akyurek et al. 2022, "What learning algorithm is in-context learning? Investigations with linear models" */
    &icl_algorithms_distance,
    /* von Oswald et al. 2023, "Uncovering mesa-optimization algorithms in Transformers" */
    &icl_mesa_linear,
    &icl_mesa_layer,
    &icl_mesa_depth,
    /* Grazzi et al. 2024, "Unlocking State-Tracking in Linear RNNs Through Negative Eigenvalues";
     * Siems et al. 2025, "DeltaProduct" */
    &icl_state_parity,
    &icl_state_words,
    /* Schlag, Irie, Schmidhuber 2021, "Linear Transformers Are Secretly Fast Weight Programmers" */
    &icl_fastweight_capacity,
    &icl_fastweight_overwrite,
    /* Recall by memories of fixed size: closed forms; Poli et al. 2024, "MAD" */
    &icl_recall_onepass,
    &icl_recall_mqar,
    &icl_recall_mad,
    /* Singh et al. 2024, "What needs to go right for an induction head?"; Singh et al. 2025, "Strategy coopetition
     * explains the emergence and transience of in-context learning" */
    &icl_induction_toys,
    &icl_induction_emergence,
    /* Reddy 2024, "The mechanistic basis of data dependence and abrupt learning in an in-context classification
     * task" */
    &icl_classification_burstiness,
    /* Razzhigaev et al. 2024, "Your Transformer is Secretly Linear" */
    &icl_linearity_score,
    /* Nguyen et al. 2022, "Momentum Transformer" */
    &icl_momentum_recurrence,
    /* Kasai et al. 2021, "Finetuning Pretrained Transformers into RNNs" */
    &icl_rnn_conversion,
    /* Li et al. 2024, "Learning on Transformers is Provable Low-Rank and Sparse: A One-layer Analysis" */
    &icl_lowrank_update,
    /* Cheng et al. 2024, "Graph Transformers Dream of Electric Flow" */
    &icl_electric_flow,
};

const icl_reproduction *const *icl_reproductions(size_t *count) {
    *count = COUNT_OF(table);
    return table;
}

icl_status icl_reproduction_find(const char *name, const icl_reproduction **reproduction, icl_error *error) {
    const char *names[COUNT_OF(table)];

    for (size_t i = 0; i < COUNT_OF(table); i++) {
        names[i] = table[i]->name;
        if (strcmp(name, names[i]) == 0) {
            *reproduction = table[i];
            return ICL_OK;
        }
    }
    return icl_fail(error, ICL_ERROR_INPUT, "reproduce: %s: unknown; the nearest known one is %s", name,
                    icl_nearest(name, names, COUNT_OF(table)));
}
