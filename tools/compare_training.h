/* `iclab compare --train RECIPE`: how two devices train, beside the reference. */
#ifndef ICLAB_TOOLS_COMPARE_TRAINING_H
#define ICLAB_TOOLS_COMPARE_TRAINING_H

#include "command.h"

/* Where neither --steps nor a shorter recipe says how many. */
#define DEFAULT_COMPARED_STEPS 50

typedef struct training_options {
    const char *recipe_name; /* --train; NULL: compare ops instead */
    const char *out;         /* folder for the result, and of trainings CSV files and a picture; may be NULL */
    option_list overrides;
    option_count steps, seed;
    bool json, every_step;
    const char *command_line;
} training_options;

/* Compares, prints, and writes the files. *failed: some step did. The backends are open and stay so. */
icl_status compare_training(const training_options *options, icl_backend *device, icl_backend *against, bool *failed,
                            icl_error *error);

#endif
