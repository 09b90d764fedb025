#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/host.h"
#include "iclab/recipe.h"
#include "iclab/run.h"
#include "run/writer.h"
#include "terminal.h"

/* The number of bytes by default, and the most of a prompt. */
#define BYTES       1000
#define MOST_PROMPT ((size_t)1 << 24)

typedef struct generate_options {
    const char *run, *prompt, *prompt_file;
    option_count bytes, top_k, seed;
    option_number temperature, top_p;
    device_options device;
    const icl_families *families; /* of --with */
} generate_options;

/* A run's model, and what it goes on with. */
typedef struct writer {
    icl_backend *backend;
    icl_model *model;
    icl_tensor parameters; /* [N] */
    icl_writer text;
    char *prompt;
    size_t prompt_size;
} writer;

static void writer_close(writer *w) {
    icl_writer_close(&w->text);
    icl_tensor_release(&w->parameters);
    icl_model_destroy(&w->model);
    icl_backend_close(&w->backend);
    icl_free(&w->prompt);
}

/* ---- The run ---- */

/* Reads the run's recipe and makes its model. The file of its text is not needed. */
static icl_status make_model(const generate_options *options, writer *w, icl_error *error) {
    icl_status status = ICL_OK;
    icl_recipe *recipe = NULL;
    icl_task_shape shape;

    ICL_TRY(icl_recipe_create_with(options->families, &recipe, error));
    ICL_TRY(icl_run_read_recipe(options->run, recipe, error));
    warn_of_missing_list(options->run);
    ICL_TRY(icl_task_read_text_shape(recipe, &shape, error));
    ICL_TRY(icl_model_create(recipe, shape, &w->model, error));
    ICL_TRY(icl_run_read_flag(options->run, "text_is_utf8", &w->text.sampler.keeps_utf8, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

static icl_status put_parameters(const generate_options *options, writer *w, icl_error *error) {
    const size_t size = icl_model_size(w->model);
    icl_status status = ICL_OK;
    float *values = NULL;

    ICL_TRY(icl_allocate(size, sizeof *values, "parameters", &values, error));
    ICL_TRY(icl_run_read_model(options->run, w->model, values, error));
    ICL_TRY(icl_tensor_create(w->backend, 1, &size, &w->parameters, error));
    ICL_TRY(icl_tensor_write(w->parameters, values, error));
done:
    icl_free(&values);
    return status;
}

static icl_status writer_open(const generate_options *options, writer *w, icl_error *error) {
    ICL_CHECK(make_model(options, w, error));
    ICL_CHECK(open_device(&options->device, &w->backend, error));
    ICL_CHECK(put_parameters(options, w, error));
    return icl_writer_open(w->model, w->backend, w->parameters, &w->text, error);
}

/* ---- The text ---- */

static icl_status read_prompt(const generate_options *options, writer *w, icl_error *error) {
    const char *path = options->prompt_file;

    if (path)
        ICL_CHECK(icl_file_read(strcmp(path, "-") == 0 ? "/dev/stdin" : path, MOST_PROMPT, &w->prompt, &w->prompt_size,
                                error));
    else
        ICL_CHECK(icl_duplicate(options->prompt ? options->prompt : ICL_FIRST_PROMPT, &w->prompt, error));
    if (!path)
        w->prompt_size = strlen(w->prompt);
    if (w->prompt_size == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: empty: expected at least one byte to go on with",
                        path ? path : "--prompt");
    return ICL_OK;
}

static icl_status check_stop(icl_error *error) {
    return stop_signal == 0 ? ICL_OK : icl_fail(error, ICL_ERROR_INTERRUPTED, "interrupted");
}

/* Writes `count` bytes, each as soon as it is drawn. */
static icl_status write_bytes(writer *w, uint64_t count, uint32_t seed, icl_error *error) {
    unsigned char byte;

    for (uint64_t i = 0; i < count; i++) {
        ICL_CHECK(check_stop(error));
        ICL_CHECK(icl_writer_draw(&w->text, seed, i, count, &byte, error));
        putchar(byte);
        ICL_CHECK(finish_output(error));
        if (i + 1 < count)
            ICL_CHECK(icl_writer_show(&w->text, byte, error));
    }
    return ICL_OK;
}

static icl_status generate(const generate_options *options, icl_error *error) {
    const uint64_t count = options->bytes.given ? options->bytes.value : BYTES;
    writer w = {.text.sampler = {.temperature = options->temperature.given ? options->temperature.value : 1,
                                 .top_k = options->top_k.value,
                                 .top_p = options->top_p.given ? options->top_p.value : 1}};
    icl_status status = ICL_OK;

    ICL_TRY(read_prompt(options, &w, error));
    ICL_TRY(writer_open(options, &w, error));
    catch_stop_signals();
    for (size_t i = 0; i < w.prompt_size; i++) {
        ICL_TRY(check_stop(error));
        ICL_TRY(icl_writer_show(&w.text, (unsigned char)w.prompt[i], error));
        icl_sampler_take(&w.text.sampler, (unsigned char)w.prompt[i]);
    }
    ICL_TRY(write_bytes(&w, count, options->seed.given ? (uint32_t)options->seed.value : ICL_WRITER_SEED, error));
    if (!options->device.quiet)
        fprintf(stderr, "%siclab: %" PRIu64 " bytes; a state of %zu bytes\n", is_smart_terminal(stdout) ? "\n" : "",
                count, icl_decoder_state_bytes(w.text.decoder));
done:
    release_stop_signals();
    writer_close(&w);
    return status;
}

/* ---- The command ---- */

static icl_status check_options(const generate_options *options, icl_error *error) {
    if (options->prompt && options->prompt_file)
        return icl_fail(error, ICL_ERROR_INPUT, "--prompt-file: expected no --prompt beside it");
    if (options->top_k.given && options->top_k.value == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "--top-k: 0: expected 1 or more");
    if (options->top_p.given && (options->top_p.value <= 0 || options->top_p.value > 1))
        return icl_fail(error, ICL_ERROR_INPUT, "--top-p: %g: expected more than 0 and at most 1",
                        options->top_p.value);
    if (options->seed.given && options->seed.value > UINT32_MAX)
        return icl_fail(error, ICL_ERROR_INPUT, "--seed: %" PRIu64 ": expected at most %" PRIu32, options->seed.value,
                        UINT32_MAX);
    return ICL_OK;
}

static int run(const icl_families *families, int count, char *const *arguments) {
    generate_options options = {.families = families};
    icl_error error = {0};
    icl_status status;

    ICL_TRY(read_command_line(&command_generate, count, arguments, &options, &error));
    ICL_TRY(check_options(&options, &error));
    status = generate(&options, &error);
done:
    if (status == ICL_ERROR_INTERRUPTED) {
        fprintf(stderr, "iclab: %s\n", error.message);
        return 128 + (int)stop_signal;
    }
    return status == ICL_OK ? EXIT_DONE : report_failure(status, &error);
}

static const positional positionals[] = {
    {"RUN", "the folder of a training run", true, offsetof(generate_options, run)}};

static const option table[] = {
    {"--prompt", OPTION_TEXT, "TEXT", "the text to go on with (default: a line feed)",
     offsetof(generate_options, prompt)},
    {"--prompt-file", OPTION_TEXT, "FILE", "the same from a file; -: standard input",
     offsetof(generate_options, prompt_file)},
    {"--bytes", OPTION_COUNT, "N", "how many bytes to write (default " TEXT_OF(BYTES) ")",
     offsetof(generate_options, bytes)},
    {"--temperature", OPTION_NUMBER, "X", "divides the logits; 0: always the most likely byte (default 1)",
     offsetof(generate_options, temperature)},
    {"--top-k", OPTION_COUNT, "K", "only the K most likely bytes (default: all)", offsetof(generate_options, top_k)},
    {"--top-p", OPTION_NUMBER, "P", "only the fewest bytes whose probabilities sum to P (default 1: all)",
     offsetof(generate_options, top_p)},
    {"--seed", OPTION_COUNT, "N", "of the draws (default 1)", offsetof(generate_options, seed)},
    DEVICE_OPTION_ROWS(generate_options, device),
    QUIET_OPTION_ROW(generate_options, device),
};

const subcommand command_generate = {
    .name = "generate",
    .about = "text from a model that was trained on text, byte by byte",
    .summary = "Writes text with a model that was trained on text (task.family = text), byte by byte, as it comes.",
    .positionals = positionals,
    .positional_count = sizeof positionals / sizeof *positionals,
    .options = table,
    .option_count = sizeof table / sizeof *table,
    .notes = "Standard output has the new bytes alone. They are valid UTF-8 if the text of the training was, and end "
             "with a whole character. The same seed gives the same bytes on one device; another device rounds "
             "differently. Recurrent mixers keep a state of fixed size; softmax attention keeps the keys and values of "
             "all bytes before. The file of the training is not needed.",
    .takes_families = true,
    .run = run,
};
