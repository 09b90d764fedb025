/* An experiment that the examples run with their own parts. */
#ifndef EXPERIMENT_H
#define EXPERIMENT_H

#include <iclab/iclab.h>

/* Trains the parts on the first device named in the arguments (default "cpu"), the second half from a checkpoint;
 * evaluates them with their reference predictor, and compares training steps with the second device (default "ref").
 * Returns the program's exit code: 0 if the model beats the reference and the devices agree. `settings` are texts
 * "section.key=value". */
int experiment(const char *name, const icl_trainer_parts *parts, const char *const *settings, size_t count,
               int argument_count, char **arguments);

#endif
