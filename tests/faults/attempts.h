/* Work that is attempted again and again, each time with another of its calls failing. */
#ifndef ICLAB_TESTS_FAULTS_ATTEMPTS_H
#define ICLAB_TESTS_FAULTS_ATTEMPTS_H

#include <stdbool.h>

#include "iclab/recipe.h"
#include "iclab/status.h"
#include "plant.h"
#include "tap.h"

typedef struct fault_work {
    icl_status (*attempt)(void *context,
                          icl_error *error); /* gives back all it takes, but for its outcome in the context */
    bool (*as_expected)(
        const void *context);     /* whether a finished attempt's outcome has the bits of the undisturbed one */
    void (*clear)(void *context); /* gives back the outcome; may be NULL */
    void *context;
    bool each_path; /* of the calls that the same functions lead to, one alone fails */
} fault_work;

/* Work whose outcome is a text, freed with icl_free. */
typedef icl_status fault_telling(void *context, char **text, icl_error *error);

/* A complete recipe with settings, "section.key=value", separated by blanks. */
icl_status fault_make_recipe(const char *settings, icl_recipe **recipe, icl_error *error);

/* A run folder with a model that was not trained, to work on. */
icl_status fault_make_run(const char *folder, const icl_recipe *recipe, icl_error *error);

/* Fails each call of a kind once, alone or with all that follow it. Each time the attempt must end with an error of one
 * line, or with the expected outcome, and hold nothing afterwards. One check. */
void fault_check(tap_run *tap, const fault_work *work, fault_kind kind, bool lasting);

/* The same for one call for each path that leads to one of the kind, against the text of the undisturbed work. Two
 * checks; `what` names the work. */
void fault_check_text(tap_run *tap, fault_telling *tell, void *context, fault_kind kind, const char *what);

/* The same in one run, which forks at each path (fault_branch) that leads to a call of the kind, so that work of many
 * seconds can be tested. The work must keep to one thread
 * where it has one core. No attempt may do without an op. */
void fault_check_branches(tap_run *tap, fault_telling *tell, void *context, fault_kind kind, const char *what);

#endif
