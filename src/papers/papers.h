/* The reproductions, as the files of the papers define them and the table (reproductions.c) lists them. */
#ifndef ICLAB_PAPERS_PAPERS_H
#define ICLAB_PAPERS_PAPERS_H

#include "papers/reproduce.h"

/* Vladymyrov et al. 2024, "Linear Transformers are Versatile In-Context Learners" (arXiv 2402.14180) */
extern const icl_reproduction icl_versatile_table1, icl_versatile_profile, icl_versatile_weights, icl_versatile_layers,
    icl_versatile_quadratic, icl_versatile_feedforward;

/* Ahn et al. 2023, "Transformers learn to implement preconditioned gradient descent for
 * in-context learning" (arXiv 2306.00297) */
extern const icl_reproduction icl_precondition_theory, icl_precondition_rotation, icl_precondition_lbfgs,
    icl_precondition_depth, icl_precondition_context;

/* Schlag, Irie, Schmidhuber 2021, "Linear Transformers Are Secretly Fast Weight Programmers" (arXiv 2102.11174) */
extern const icl_reproduction icl_fastweight_capacity, icl_fastweight_overwrite;

/* Zhang, Frei, Bartlett 2023, "Trained transformers learn linear models in-context" (arXiv 2306.09927) */
extern const icl_reproduction icl_gradientflow_limit;

/* Mahankali, Hashimoto, Ma 2023, "One step of gradient descent is provably the optimal in-context learner with one
 * layer of linear self-attention" (arXiv 2307.03576) */
extern const icl_reproduction icl_onestep_noise;

/* von Oswald et al. 2022, "Transformers learn in-context by gradient descent" (arXiv 2212.07677) */
extern const icl_reproduction icl_gd_construction, icl_gd_trained, icl_gd_recurrent;

/* Collins et al. 2024, "In-Context Learning with Transformers: Softmax Attention Adapts to Function Lipschitzness"
 * (arXiv 2402.11639) */
extern const icl_reproduction icl_window_lipschitz, icl_window_noise, icl_window_context, icl_window_generalize,
    icl_window_subspace;

/* Ahn, Cheng, Song, Yun, Jadbabaie, Sra 2023, "Linear attention is (maybe) all you need (to understand transformer
 * optimization)" (arXiv 2310.01082) */
extern const icl_reproduction icl_landscape_adam_sgd, icl_landscape_noise, icl_landscape_condition,
    icl_landscape_smoothness;

/* Gatmiry, Saunshi, Reddi, Jegelka, Kumar 2024, "Can Looped Transformers Learn to Implement Multi-step Gradient Descent
 * for In-context Learning?" (arXiv 2410.08292) */
extern const icl_reproduction icl_looped_exact;

/* Yang, Lee, Nowak, Papailiopoulos 2024, "Looped Transformers are Better at Learning Learning Algorithms" (arXiv
 * 2311.12424) */
extern const icl_reproduction icl_looped_curves;

/* Bai, Chen, Wang, Xiong, Mei 2023, "Transformers as statisticians: provable in-context learning with in-context
 * algorithm selection" (arXiv 2306.04637) */
extern const icl_reproduction icl_statisticians_selection;

/* Raventos, Paul, Chen, Ganguli 2023, "Pretraining task diversity and the emergence of non-Bayesian in-context
 * learning for regression" (arXiv 2306.15063) */
extern const icl_reproduction icl_diversity_threshold;

/* Garg, Tsipras, Liang, Valiant 2022, "What can transformers learn in-context? A case study of simple function
 * classes" (arXiv 2208.01066) */
extern const icl_reproduction icl_garg_curves, icl_garg_shifts;

/* Akyurek, Schuurmans, Andreas, Ma, Zhou 2022, "What learning algorithm is in-context learning? Investigations with
 * linear models" (arXiv 2211.15661) */
extern const icl_reproduction icl_algorithms_distance;

/* Giannou, Yang, Wang, Papailiopoulos, Lee 2024, "How Well Can Transformers Emulate In-context Newton's Method?" (arXiv
 * 2403.03183), and Fu, Chen, Jia, Sharan 2023, "Transformers Learn to Achieve Second-Order Convergence Rates for
 * In-Context Linear Regression" (arXiv 2310.17086) */
extern const icl_reproduction icl_newton_descent;

/* von Oswald et al. 2023, "Uncovering mesa-optimization algorithms in Transformers" (arXiv 2309.05858) */
extern const icl_reproduction icl_mesa_linear, icl_mesa_layer, icl_mesa_depth;

/* Grazzi et al. 2024, "Unlocking State-Tracking in Linear RNNs Through Negative Eigenvalues" (arXiv 2411.12537), and
 * Siems et al. 2025, "DeltaProduct" (arXiv 2502.10297) */
extern const icl_reproduction icl_state_parity, icl_state_words;

/* Recall by memories of fixed size: closed forms for the rules of Schlag, Irie, Schmidhuber 2021 (arXiv 2102.11174) and
 * of von Oswald et al. 2025, "MesaNet" (arXiv 2506.05233); the tasks of Poli et al. 2024, "MAD" (arXiv 2403.17844). */
extern const icl_reproduction icl_recall_onepass, icl_recall_mqar, icl_recall_mad;

/* Singh et al. 2024, "What needs to go right for an induction head?" (arXiv 2404.07129), and Singh et al. 2025,
 * "Strategy coopetition explains the emergence and transience of in-context learning" (arXiv 2503.05631) */
extern const icl_reproduction icl_induction_toys, icl_induction_emergence;

/* Reddy 2024, "The mechanistic basis of data dependence and abrupt learning in an in-context classification task"
 * (arXiv 2312.03002) */
extern const icl_reproduction icl_classification_burstiness;

/* Razzhigaev et al. 2024, "Your Transformer is Secretly Linear" (arXiv 2405.12250) */
extern const icl_reproduction icl_linearity_score;

/* Nguyen et al. 2022, "Momentum Transformer" (arXiv 2208.00579) */
extern const icl_reproduction icl_momentum_recurrence;

/* Kasai et al. 2021, "Finetuning Pretrained Transformers into RNNs" (arXiv 2103.13076) */
extern const icl_reproduction icl_rnn_conversion;

/* Li et al. 2024, "Learning on Transformers is Provable Low-Rank and Sparse: A One-layer Analysis" (arXiv
 * 2406.17167) */
extern const icl_reproduction icl_lowrank_update;

/* Cheng, Carin, Sra 2024, "Graph Transformers Dream of Electric Flow" (arXiv 2410.16699) */
extern const icl_reproduction icl_electric_flow;

#endif
