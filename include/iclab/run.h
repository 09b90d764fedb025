/*
 * Run folders: everything about one training run.
 *
 *     recipe.ini                    complete, re-runnable
 *     origin                        hash of the parameters it started from, if they are not the recipe's
 *     run.json                      version, commit, device, seed, command line: the origin of every number
 *     files.txt                     hash (FNV-1a, 64 bits) and size of the files above and of those that follow
 *     metrics.csv                   loss, gradient norm and learning rate by step
 *     model.safetensors             the named matrices
 *     snapshots/STEP.safetensors    the named matrices after STEP steps, with train.snapshot_every
 *     checkpoint/state.safetensors  all that the next step depends on
 *     lock                          while a training holds it, or after one that was killed
 *     report.html, loss.*, adjusted.*   at the end, by iclab train: all of it to look at (run_report.h)
 */
#ifndef ICLAB_RUN_H
#define ICLAB_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "iclab/backend.h"
#include "iclab/status.h"
#include "iclab/train.h"

ICL_C_BEGIN

/* The names of these files. */
#define ICL_RUN_RECIPE     "recipe.ini"
#define ICL_RUN_ORIGIN     "origin"
#define ICL_RUN_FACTS      "run.json"
#define ICL_RUN_METRICS    "metrics.csv"
#define ICL_RUN_MODEL      "model.safetensors"
#define ICL_RUN_SNAPSHOTS  "snapshots"
#define ICL_RUN_CHECKPOINT "checkpoint/state.safetensors"
#define ICL_RUN_LOCK       "lock"
#define ICL_RUN_FILES      "files.txt"

/* A run folder that no other process or thread trains in while the claim is held. */
typedef struct icl_run_claim icl_run_claim;

/* Claims a folder, which is created if it is missing, before a run is created in it or continued. A claim ends with its
 * process, however that ends. ICL_ERROR_INPUT while another process or thread holds it, ICL_ERROR_IO if the folder
 * cannot be made, or if its lock fails for another reason, such as a file system without locks. */
ICL_API icl_status icl_run_claim_take(const char *folder, icl_run_claim **claim, icl_error *error);

/* Gives the claim back, and sets *claim to NULL; NULL claims are allowed. */
ICL_API void icl_run_claim_release(icl_run_claim **claim);

/* The origin of a run's numbers, besides version, commit and compiler: for run.json and the report. */
typedef struct icl_run_facts {
    const icl_capabilities *device;            /* the device that trains it, as it was opened */
    const icl_backend *backend;                /* whose choices are recorded; NULL: none are */
    const char *recipe_name;                   /* as the user gave it */
    const char *command_line;                  /* may be NULL */
    uint32_t seed;                             /* seed of training */
    size_t ranks;                              /* ranks that trained it together; 0 means 1 */
    uint64_t steps;                            /* done */
    uint64_t skipped_steps, dropped_sequences; /* see iclab/train.h */
    uint64_t start;                            /* likewise, and */
    icl_basins_seen basins;                    /* result of icl_trainer_basins, and */
    icl_polish_result polished;                /* result of icl_trainer_polished */
    double step_memory;                        /* bytes that a step holds (icl_step_memory_of); 0: not measured */
    double memory;                             /* bytes that the training holds (icl_session_memory_of); likewise */
    double startup_seconds, training_seconds;  /* seconds of this command up to its first step, and from there */
    const icl_task_text *text;                 /* text that it is trained on; NULL: none */
    const char *status;                        /* running, finished, interrupted or diverged */
} icl_run_facts;

/* Collects the facts that backend, recipe and trainer know: device, seed, steps, and what was skipped and dropped. The
 * rest is zero. */
ICL_API icl_run_facts icl_run_facts_collect(const icl_backend *backend, const icl_recipe *recipe,
                                            const icl_trainer *trainer);

/* Creates the folder and writes its recipe. ICL_ERROR_INPUT if it already holds a run, ICL_ERROR_IO if it cannot be
 * written. If two processes may begin a run at once, claim the folder first. */
ICL_API icl_status icl_run_create(const char *folder, const icl_recipe *recipe, icl_error *error);

/* Replaces the recipe of a run that continues with another budget. */
ICL_API icl_status icl_run_write_recipe(const char *folder, const icl_recipe *recipe, icl_error *error);

/* Lists the files of a run's folder anew, after a program has written some of them itself; otherwise the next one to
 * open the run would report them as damaged. ICL_ERROR_IO if a file cannot be read or the list cannot be written. */
ICL_API icl_status icl_run_list_files(const char *folder, icl_error *error);

/* Reads the recipe of an existing run over `recipe`. ICL_ERROR_INPUT if the folder holds no run, or the run of a
 * program's own task or model, or if a file of the run was changed after it was written (files.txt; older versions
 * wrote none). */
ICL_API icl_status icl_run_read_recipe(const char *folder, icl_recipe *recipe, icl_error *error);

/* Reads the recipe name from run.json, freed with icl_text_free; "recipe.ini" if it has none. */
ICL_API icl_status icl_run_read_recipe_name(const char *folder, char **name, icl_error *error);

/* Reads the status from run.json, freed with icl_text_free; "" if it has none. */
ICL_API icl_status icl_run_read_state(const char *folder, char **state, icl_error *error);

/* Reads a number from run.json; NaN if it has none. */
ICL_API icl_status icl_run_read_number(const char *folder, const char *name, double *number, icl_error *error);

/* Reads whether run.json has a true value of this name. */
ICL_API icl_status icl_run_read_flag(const char *folder, const char *name, bool *flag, icl_error *error);

/* Reads the result of the run's polish from run.json; sequences is 0 if it has none. */
ICL_API icl_status icl_run_read_polish(const char *folder, icl_polish_result *polished, icl_error *error);

/* Checks that the text of a trainer's task is the one that the run was trained on, by size and hash, as run.json has
 * them. Sets *same to true, or to false and `difference` to one line that says what differs; *same is true, too, for
 * tasks without text and for runs that recorded none. */
#define ICL_TEXT_DIFFERENCE 320
ICL_API icl_status icl_run_compare_text(const char *folder, const icl_trainer *trainer, bool *same,
                                        char difference[ICL_TEXT_DIFFERENCE], icl_error *error);

/* Writes run.json, in place of any older one. */
ICL_API icl_status icl_run_write_facts(const char *folder, const icl_run_facts *facts, icl_error *error);

/* Reads model.safetensors into the model's flat vector (icl_model_size floats). ICL_ERROR_INPUT if it is missing, or
 * does not hold exactly this model's matrices, all finite. */
ICL_API icl_status icl_run_read_model(const char *folder, const icl_model *model, float *values, icl_error *error);

/* As above for the snapshot that was taken after `step` steps. */
ICL_API icl_status icl_run_read_snapshot(const char *folder, uint64_t step, const icl_model *model, float *values,
                                         icl_error *error);

/* Returns the path of a snapshot, freed with icl_text_free. */
ICL_API icl_status icl_run_snapshot_path(const char *folder, uint64_t step, char **path, icl_error *error);

/* Creates a trainer that holds the run's model, for predictions: it cannot continue the training. `recipe` is the
 * run's, perhaps with another [task] or [eval]. ICL_ERROR_INPUT as for icl_run_read_model. */
ICL_API icl_status icl_trained_load(icl_backend *backend, const char *folder, const icl_recipe *recipe,
                                    icl_trainer **trainer, icl_error *error);

ICL_C_END

#endif
