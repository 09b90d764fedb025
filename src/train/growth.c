#include "train/growth.h"

#define FIRST_DEPTH   2
#define FALL_OF_STAGE 0.1

uint64_t icl_growth_steps(const icl_growth *growth) {
    return growth->layers > FIRST_DEPTH ? growth->steps_per_layer * (growth->layers - FIRST_DEPTH) : 0;
}

icl_growth_stage icl_growth_stage_at(const icl_growth *growth, uint64_t step) {
    const uint64_t growing = icl_growth_steps(growth);

    if (step >= growing)
        return (icl_growth_stage){
            .depth = growth->layers, .first_step = growing, .steps = growth->total_steps - growing, .is_last = true};
    const uint64_t stage = step / growth->steps_per_layer;
    return (icl_growth_stage){.depth = FIRST_DEPTH + (size_t)stage,
                              .first_step = stage * growth->steps_per_layer,
                              .steps = growth->steps_per_layer};
}

icl_schedule icl_growth_schedule(const icl_growth_stage *stage, const icl_schedule *recipe) {
    icl_schedule schedule = *recipe;

    schedule.total = stage->steps;
    if (!stage->is_last) {
        schedule.kind = ICL_SCHEDULE_LINEAR;
        schedule.factor = FALL_OF_STAGE;
        if (schedule.warmup > stage->steps / 2)
            schedule.warmup = stage->steps / 2;
    }
    return schedule;
}
