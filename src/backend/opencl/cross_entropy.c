/* Cross-entropy and its gradient: cl/cross_entropy.cl. */
#include "backend/opencl/ops.h"
#include "backend/opencl/view.h"

#define WORK 30.0 /* operations for a logit, about */

/* Operands of cross_entropy, and of cross_entropy_backward. */
enum { LOSSES = 0, LOGITS, CLASSES };
enum { D_LOGITS = 0, D_LOSSES, OF_LOGITS, OF_CLASSES };

icl_status icl_opencl_cross_entropy(icl_backend *backend, const void *params, const icl_tensor *operands,
                                    icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_teams teams = icl_teams_of(&operands[LOGITS]);
    const icl_view losses = icl_view_of(&operands[LOSSES]), logits = icl_view_of(&operands[LOGITS]);
    const icl_view classes = icl_view_of(&operands[CLASSES]);
    const double work = WORK * teams.shape.s[3];

    (void)params;
    if (opencl->lanes > 1)
        return ICL_LAUNCH(opencl, ICL_KERNEL_cross_entropy_lanes, teams.rows, error, ICL_VIEW(losses), ICL_VIEW(logits),
                          ICL_VIEW(classes), ICL_ARGUMENT(teams.shape), ICL_UNITS(teams.rows, work));
    return ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_cross_entropy_teams, icl_team_items(opencl, &teams), error,
                            ICL_VIEW(losses), ICL_VIEW(logits), ICL_VIEW(classes), ICL_TEAMS(teams, work));
}

icl_status icl_opencl_cross_entropy_backward(icl_backend *backend, const void *params, const icl_tensor *operands,
                                             icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_teams teams = icl_teams_of(&operands[OF_LOGITS]);
    const icl_view d_logits = icl_view_of(&operands[D_LOGITS]), d_losses = icl_view_of(&operands[D_LOSSES]);
    const icl_view logits = icl_view_of(&operands[OF_LOGITS]), classes = icl_view_of(&operands[OF_CLASSES]);
    const double work = WORK * teams.shape.s[3];

    (void)params;
    if (opencl->lanes > 1)
        return ICL_LAUNCH(opencl, ICL_KERNEL_cross_entropy_backward_lanes, teams.rows, error, ICL_VIEW(d_logits),
                          ICL_VIEW(d_losses), ICL_VIEW(logits), ICL_VIEW(classes), ICL_ARGUMENT(teams.shape),
                          ICL_UNITS(teams.rows, work));
    return ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_cross_entropy_backward_teams, icl_team_items(opencl, &teams), error,
                            ICL_VIEW(d_logits), ICL_VIEW(d_losses), ICL_VIEW(logits), ICL_VIEW(classes),
                            ICL_TEAMS(teams, work));
}
