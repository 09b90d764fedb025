/* Attempts work again and again, each time with another of its calls failing. */
#ifndef ICLAB_TESTS_FAULTS_ATTEMPTS_H
#define ICLAB_TESTS_FAULTS_ATTEMPTS_H

#include <stdbool.h>

#include "iclab/recipe.h"
#include "iclab/status.h"
#include "plant.h"
#include "recipes.h"

typedef struct fault_work {
    /* Does the work, and gives back all that it takes, except its outcome in the context. */
    icl_status (*attempt)(void *context, icl_error *error);
    /* Says whether a finished attempt's outcome has the bits of the undisturbed one. */
    bool (*as_expected)(const void *context);
    /* Frees the outcome; may be NULL. */
    void (*clear)(void *context);
    /* Returns what else is wrong, now that the fault is over: one line in static storage, or NULL. `struck` is the call
     * that failed. May be NULL. */
    const char *(*find_trouble)(void *context, const char *struck, icl_status status);
    void *context;
    const char *what;    /* the work's name in the check; may be NULL */
    bool each_path;      /* of the calls that the same functions lead to, only one fails */
    unsigned stride;     /* fails every stride-th call; 0 and 1: every call */
    bool keeps_memory;   /* the backend stays open and may keep memory that an attempt took */
    bool has_way_around; /* around every fault, so none need be reported */
} fault_work;

/* Does work whose outcome is a text, freed with icl_free. */
typedef icl_status fault_telling(void *context, char **text, icl_error *error);

/* Creates a run folder with an untrained model to work on. */
icl_status fault_make_run(const char *folder, const icl_recipe *recipe, icl_error *error);

/* Returns a hash of the names and bytes of a folder's files, whatever their order. None of its own calls fails. */
uint64_t fault_hash_files(const char *folder);

/* Fails each call of a kind once, either only this call or also all that follow it. Each time the attempt must end with
 * an error of one line (a compiler's log may follow), or with the expected outcome, and hold nothing afterwards. One
 * check. */
void fault_check(tap_run *tap, const fault_work *work, fault_kind kind, bool lasting);

/* The ways in which fault_check_text makes calls fail. */
enum {
    FAULT_EACH_CALL = 1, /* instead of one call for each path that leads to one of the kind */
    FAULT_LASTING = 2,   /* once more, with all calls that follow failing too */
    FAULT_FORKED = 4     /* all in one run, which forks at each path, so that work of many seconds can be tested: on
                            one core it must use one thread, and no attempt may succeed without an op that failed */
};

/* As fault_check, against the text of the undisturbed work; for files it also checks that partial transfers change
 * nothing. Two to four checks; `what` names the work. */
void fault_check_text(tap_run *tap, fault_telling *tell, void *context, fault_kind kind, unsigned how,
                      const char *what);

#endif
