/* Work that is attempted again and again, each time with another of its calls failing. */
#ifndef ICLAB_TESTS_FAULTS_ATTEMPTS_H
#define ICLAB_TESTS_FAULTS_ATTEMPTS_H

#include <stdbool.h>

#include "iclab/recipe.h"
#include "iclab/status.h"
#include "plant.h"
#include "recipes.h"

typedef struct fault_work {
    /* Gives back all it takes, but for its outcome in the context. */
    icl_status (*attempt)(void *context, icl_error *error);
    /* Whether a finished attempt's outcome has the bits of the undisturbed one. */
    bool (*as_expected)(const void *context);
    /* Gives back the outcome; may be NULL. */
    void (*clear)(void *context);
    /* What else is wrong, now that the fault is over, or NULL: one line in static storage. `struck` is the call that
     * failed. May be NULL. */
    const char *(*find_trouble)(void *context, const char *struck, icl_status status);
    void *context;
    const char *what;    /* the work's name in the check; may be NULL */
    bool each_path;      /* of the calls that the same functions lead to, one alone fails */
    unsigned stride;     /* one call in so many fails; 0 and 1: each */
    bool keeps_memory;   /* a backend that lives on may keep what an attempt made it take */
    bool has_way_around; /* around every fault: none need be reported */
} fault_work;

/* Work whose outcome is a text, freed with icl_free. */
typedef icl_status fault_telling(void *context, char **text, icl_error *error);

/* A run folder with a model that was not trained, to work on. */
icl_status fault_make_run(const char *folder, const icl_recipe *recipe, icl_error *error);

/* A hash of the names and bytes of a folder's files, whatever their order. No call of it fails. */
uint64_t fault_hash_files(const char *folder);

/* Fails each call of a kind once, alone or with all that follow it. Each time the attempt must end with an error of one
 * line (a compiler's log may follow), or with the expected outcome, and hold nothing afterwards. One check. */
void fault_check(tap_run *tap, const fault_work *work, fault_kind kind, bool lasting);

/* The ways in which fault_check_text lets calls fail. */
enum {
    FAULT_EACH_CALL = 1, /* instead of one for each path that leads to one of the kind */
    FAULT_LASTING = 2,   /* once more with all that follow */
    FAULT_FORKED = 4     /* in one run, which forks at each path, so that work of many seconds can be tested: it must
                            keep to one thread where it has one core, and no attempt may do without an op */
};

/* The same against the text of the undisturbed work, and of files also that partial transfers change nothing. Two to
 * four checks; `what` names the work. */
void fault_check_text(tap_run *tap, fault_telling *tell, void *context, fault_kind kind, unsigned how,
                      const char *what);

#endif
