/*
 * What a pruning costs, judged thrice. Losses of linear transformers have heavy tails: of ten thousand sequences a few
 * may hold nearly all of the mean and of its standard error, so that a mean alone can neither see what every sequence
 * needs nor what hurts only those few.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "inspect/inspecting.h"

#define TRIMMED_SHARE 0.1

/* Predictions that move by less than this share of their size have not changed: the layers are taken
 * apart in double precision. */
#define UNCHANGED 1e-9

/* Predictions that move by more than their own size are not idle, whatever their losses come to. */
#define LARGE_MOVE 1.0

void icl_inspect_judge_differences(double *differences, size_t count, icl_inspect_effect *effect) {
    effect->costs[ICL_JUDGE_MEAN] = icl_locate_mean(differences, count);
    effect->costs[ICL_JUDGE_MEDIAN] = icl_locate_median(differences, count);
    effect->costs[ICL_JUDGE_TRIMMED] = icl_locate_middle_mean(differences, count, TRIMMED_SHARE);
}

int icl_inspect_judged(const icl_inspect_effect *effect, icl_inspect_judge judge) {
    const icl_location *cost = &effect->costs[judge];
    return (cost->low > 0) - (cost->high < 0);
}

/* Not so for NaN: what makes predictions NaN does something. */
bool icl_inspect_does_nothing(const icl_inspect_effect *effect) {
    return effect->moved <= UNCHANGED;
}

/* Writes the names of the judges that see the loss rise or fall: "mean, median". */
static void name_judges(const icl_inspect_effect *effect, int judged, char text[ICL_INSPECT_CELL]) {
    static const char *const names[ICL_JUDGES] = {"mean", "median", "trimmed mean"};
    size_t used = 0;

    text[0] = '\0';
    for (int judge = 0; judge < ICL_JUDGES; judge++)
        if (icl_inspect_judged(effect, (icl_inspect_judge)judge) == judged)
            used += (size_t)snprintf(text + used, ICL_INSPECT_CELL - used, "%s%s", used > 0 ? ", " : "", names[judge]);
}

const char *icl_inspect_verdict(const icl_inspect_effect *effect, char text[ICL_INSPECT_VERDICT]) {
    char needing[ICL_INSPECT_CELL], better[ICL_INSPECT_CELL];

    name_judges(effect, 1, needing);
    name_judges(effect, -1, better);
    if (icl_inspect_does_nothing(effect))
        snprintf(text, ICL_INSPECT_VERDICT, "nothing");
    else if (!isfinite(effect->costs[ICL_JUDGE_MEAN].value))
        snprintf(text, ICL_INSPECT_VERDICT, "predictions are not finite without it");
    else if (needing[0] && better[0])
        snprintf(text, ICL_INSPECT_VERDICT, "the loss needs it (%s), and is lower without it (%s)", needing, better);
    else if (needing[0])
        snprintf(text, ICL_INSPECT_VERDICT, "the loss needs it (%s)", needing);
    else if (better[0])
        snprintf(text, ICL_INSPECT_VERDICT, "the loss is lower without it (%s)", better);
    else if (effect->moved > LARGE_MOVE)
        snprintf(text, ICL_INSPECT_VERDICT, "predictions move far, in too few sequences to measure the loss");
    else
        snprintf(text, ICL_INSPECT_VERDICT, "no measurable loss (mean, median, trimmed mean)");
    return text;
}

icl_status icl_inspect_add_role(const char *name, const icl_inspect_effect *effect, icl_text *text, icl_error *error) {
    static const char *const losses[ICL_JUDGES] = {"loss", "median loss", "trimmed mean of the loss"};
    const char *before = text->length > 0 ? ", " : "";
    char verdict[ICL_INSPECT_VERDICT];

    if (!isfinite(effect->costs[ICL_JUDGE_MEAN].value))
        return icl_text_print(text, error, "%s%s (predictions are not finite without it)", before, name);
    for (int judge = 0; judge < ICL_JUDGES; judge++)
        if (icl_inspect_judged(effect, (icl_inspect_judge)judge) != 0)
            return icl_text_print(text, error, "%s%s (%s %+.3g without it)", before, name, losses[judge],
                                  effect->costs[judge].value);
    return icl_text_print(text, error, "%s%s (%s)", before, name, icl_inspect_verdict(effect, verdict));
}
