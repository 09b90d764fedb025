#include "commands.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const subcommand *const commands[] = {
    &command_devices,   &command_train, &command_eval,    &command_inspect, &command_predict,
    &command_reproduce, &command_sweep, &command_compare, &command_bench,
};

const subcommand *const *all_commands(size_t *count) {
    *count = COUNT_OF(commands);
    return commands;
}
