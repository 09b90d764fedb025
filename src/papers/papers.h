/* The list of papers and of the studies in C of each, which is defined only here. A study is defined in its paper's
 * file as icl_NAME. Studies that need no C are files: tools/studies. */
#ifndef ICLAB_PAPERS_PAPERS_H
#define ICLAB_PAPERS_PAPERS_H

#include "papers/measures.h"

/* clang-format off */
#define ICL_PAPERS(PAPER, STUDY) \
    PAPER("Vladymyrov et al. 2024, \"Linear Transformers are Versatile In-Context Learners\" (arXiv " \
          "2402.14180)") \
        STUDY(versatile_table1) STUDY(versatile_profile) STUDY(versatile_weights) STUDY(versatile_layers) \
        STUDY(versatile_quadratic) STUDY(versatile_adaptation) \
        STUDY(versatile_architectures) STUDY(versatile_diagonal) \
    PAPER("Ahn et al. 2023, \"Transformers learn to implement preconditioned gradient descent for " \
          "in-context learning\" (arXiv 2306.00297)") \
        STUDY(precondition_theory) STUDY(precondition_rotation) STUDY(precondition_lbfgs) \
        STUDY(precondition_depth) STUDY(precondition_minimum) STUDY(precondition_starts) \
    PAPER("Zhang, Frei, Bartlett 2023, \"Trained transformers learn linear models in-context\" (arXiv " \
          "2306.09927)") \
        STUDY(gradientflow_limit) \
    PAPER("Mahankali, Hashimoto, Ma 2023, \"One step of gradient descent is provably the optimal in-context " \
          "learner with one layer of linear self-attention\" (arXiv 2307.03576)") \
        STUDY(onestep_noise) \
    PAPER("Lu, Letey, Zavatone-Veth, Maiti, Pehlevan 2025, \"Asymptotic theory of in-context learning by " \
          "linear attention\" (arXiv 2405.11751)") \
        STUDY(asymptotic_linear) \
    PAPER("von Oswald et al. 2022, \"Transformers learn in-context by gradient descent\" (arXiv 2212.07677)") \
        STUDY(gd_construction) STUDY(gd_trained) STUDY(gd_recurrent) STUDY(gd_separate) \
    PAPER("Gatmiry, Saunshi, Reddi, Jegelka, Kumar 2024, \"Can Looped Transformers Learn to Implement " \
          "Multi-step Gradient Descent for In-context Learning?\" (arXiv 2410.08292)") \
        STUDY(looped_exact) \
    PAPER("Giannou, Yang, Wang, Papailiopoulos, Lee 2024, \"How Well Can Transformers Emulate In-context " \
          "Newton's Method?\" (arXiv 2403.03183), and Fu, Chen, Jia, Sharan 2023, \"Transformers Learn to " \
          "Achieve Second-Order Convergence Rates for In-Context Linear Regression\" (arXiv 2310.17086)") \
        STUDY(newton_descent) STUDY(newton_construction) \
    PAPER("Ahn, Cheng, Song, Yun, Jadbabaie, Sra 2023, \"Linear attention is (maybe) all you need (to " \
          "understand transformer optimization)\" (arXiv 2310.01082)") \
        STUDY(landscape_adam_sgd) STUDY(landscape_noise) STUDY(landscape_condition) STUDY(landscape_smoothness) \
        STUDY(landscape_spikes) STUDY(landscape_digits) \
    PAPER("Collins et al. 2024, \"In-Context Learning with Transformers: Softmax Attention Adapts to " \
          "Function Lipschitzness\" (arXiv 2402.11639)") \
        STUDY(window_lipschitz) STUDY(window_noise) STUDY(window_context) STUDY(window_generalize) \
        STUDY(window_subspace) STUDY(window_rate) STUDY(window_values) STUDY(window_far) \
        STUDY(window_classification) STUDY(window_directions) STUDY(window_layers) \
    PAPER("Bai, Chen, Wang, Xiong, Mei 2023, \"Transformers as statisticians: provable in-context learning " \
          "with in-context algorithm selection\" (arXiv 2306.04637)") \
        STUDY(statisticians_selection) \
    PAPER("Raventos, Paul, Chen, Ganguli 2023, \"Pretraining task diversity and the emergence of " \
          "non-Bayesian in-context learning for regression\" (arXiv 2306.15063)") \
        STUDY(diversity_threshold) \
    PAPER("Edelman, Edelman, Goel, Malach, Tsilivis 2024, \"The Evolution of Statistical Induction Heads: " \
          "In-Context Learning Markov Chains\" (arXiv 2402.11004)") \
        STUDY(markov_phases) STUDY(markov_diversity) \
    PAPER("Akyurek, Schuurmans, Andreas, Ma, Zhou 2022, \"What learning algorithm is in-context learning? " \
          "Investigations with linear models\" (arXiv 2211.15661)") \
        STUDY(algorithms_distance) STUDY(algorithms_probes) \
    PAPER("von Oswald et al. 2023, \"Uncovering mesa-optimization algorithms in Transformers\" (arXiv " \
          "2309.05858)") \
        STUDY(mesa_depth) STUDY(mesa_partial) STUDY(mesa_fewshot) \
    PAPER("Mania, Tu, Recht 2019, \"Certainty Equivalence is Efficient for Linear Quadratic Control\" (arXiv " \
          "1902.07826), with plants that are identified in context") \
        STUDY(plant_control) \
    PAPER("Grazzi et al. 2024, \"Unlocking State-Tracking in Linear RNNs Through Negative Eigenvalues\" " \
          "(arXiv 2411.12537), and Siems et al. 2025, \"DeltaProduct\" (arXiv 2502.10297)") \
        STUDY(state_parity) STUDY(state_words) \
    PAPER("Schlag, Irie, Schmidhuber 2021, \"Linear Transformers Are Secretly Fast Weight Programmers\" " \
          "(arXiv 2102.11174)") \
        STUDY(fastweight_capacity) STUDY(fastweight_overwrite) \
    PAPER("Recall by memories of fixed size: closed forms for the rules of Schlag, Irie, Schmidhuber 2021 " \
          "(arXiv 2102.11174) and of von Oswald et al. 2025, \"MesaNet\" (arXiv 2506.05233)") \
        STUDY(recall_onepass) STUDY(recall_mqar) \
    PAPER("Mixers beside each other, on the tasks of Arora et al. 2023 (arXiv 2312.04927), Poli et al. 2024 " \
          "(2403.17844), Grazzi et al. 2024 (2411.12537), Edelman et al. 2024 (2402.11004), and Garg et al. 2022 " \
          "(2208.01066)") \
        STUDY(memories) \
    PAPER("Mixers as language models of bytes: Yang et al. 2024 (arXiv 2412.06464, 2312.06635), Dao and Gu 2024 " \
          "(2405.21060), Sun et al. 2023 (2307.08621), Kimi Team 2025 (2510.26692), Peng et al. 2025 (2503.14456)") \
        STUDY(text_memories) \
    PAPER("Singh et al. 2024, \"What needs to go right for an induction head?\" (arXiv 2404.07129), and " \
          "Singh et al. 2025, \"Strategy coopetition explains the emergence and transience of in-context " \
          "learning\" (arXiv 2503.05631)") \
        STUDY(induction_toys) STUDY(induction_emergence) \
    PAPER("Razzhigaev et al. 2024, \"Your Transformer is Secretly Linear\" (arXiv 2405.12250)") \
        STUDY(linearity_score) STUDY(linearity_replaced) \
    PAPER("Nguyen et al. 2022, \"Momentum Transformer\" (arXiv 2208.00579)") \
        STUDY(momentum_recurrence) \
    PAPER("Kasai et al. 2021, \"Finetuning Pretrained Transformers into RNNs\" (arXiv 2103.13076)") \
        STUDY(rnn_conversion) \
    PAPER("Cheng, Carin, Sra 2024, \"Graph Transformers Dream of Electric Flow\" (arXiv 2410.16699)") \
        STUDY(electric_construction) \
    PAPER("Li et al. 2024, \"Learning on Transformers is Provable Low-Rank and Sparse: A One-layer " \
          "Analysis\" (arXiv 2406.17167), and Li et al. 2024, \"How Do Nonlinear Transformers Learn and " \
          "Generalize in In-Context Learning?\" (arXiv 2402.15607)") \
        STUDY(lowrank_update)
/* clang-format on */

#define ICL_NO_PAPER(text)
#define ICL_DECLARE_STUDY(name) extern const icl_reproduction icl_##name;
ICL_PAPERS(ICL_NO_PAPER, ICL_DECLARE_STUDY)

#endif
