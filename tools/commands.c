#include "commands.h"

static const subcommand *const commands[] = {
    &command_devices,   &command_train, &command_eval,    &command_inspect, &command_predict,
    &command_reproduce, &command_sweep, &command_compare, &command_bench,
};

const subcommand *const *all_commands(size_t *count) {
    *count = sizeof commands / sizeof *commands;
    return commands;
}
