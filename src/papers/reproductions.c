/* The table of reproductions, paper by paper. */
#include "iclab/nearest.h"
#include "papers/papers.h"
#include "papers/reproduce.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define NO_PAPER(text)
#define ROW_OF_STUDY(name) &icl_##name,
static const icl_reproduction *const table[] = {ICL_PAPERS(NO_PAPER, ROW_OF_STUDY)};

/* The paper of each row: a text, and then as many NULL as it has studies. */
#define ROW_OF_PAPER(text) text,
#define NO_TEXT(name)      NULL,
static const char *const papers[] = {ICL_PAPERS(ROW_OF_PAPER, NO_TEXT)};

const char *icl_reproduction_paper(size_t index) {
    const char *paper = NULL;

    for (size_t i = 0, study = 0; study <= index; i++) {
        paper = papers[i] ? papers[i] : paper;
        study += papers[i] == NULL;
    }
    return paper;
}

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
