#include "command.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "iclab/file.h"
#include "iclab/host.h"
#include "iclab/recipe.h"
#include "iclab/run.h"
#include "iclab/text.h"

int exit_code_of(icl_status status) {
    switch (status) {
    case ICL_OK:
        return EXIT_DONE;
    case ICL_ERROR_DIVERGED:
    case ICL_ERROR_INTERRUPTED:
        return EXIT_CHECK_FAILED;
    case ICL_ERROR_INPUT:
        return EXIT_BAD_INPUT;
    case ICL_ERROR_DEVICE:
    case ICL_ERROR_IO:
    case ICL_ERROR_MEMORY:
        return EXIT_DEVICE_OR_FILE;
    }
    return EXIT_DEVICE_OR_FILE;
}

int report_failure(icl_status status, const icl_error *error) {
    fprintf(stderr, "iclab: %s\n", error->message[0] != '\0' ? error->message : icl_status_name(status));
    return exit_code_of(status);
}

static void print_log(void *user, icl_log_level level, const char *message) {
    (void)user;
    (void)level;
    fprintf(stderr, "iclab: %s\n", message);
}

icl_status open_device(const device_options *options, icl_backend **backend, icl_error *error) {
    const char *variable = getenv("ICLAB_DEVICE");
    const bool from_variable = !options->spec && variable && variable[0] != '\0';
    const icl_backend_params params = {
        .spec = options->spec   ? options->spec
                : from_variable ? variable
                                : "auto",
        .gemm = (icl_gemm)options->gemm,
        .fast_math = options->fast_math,
        .precision = (icl_precision)options->precision,
        .accept_failed_self_test = options->accept_failed_self_test,
        .profile = options->profile,
        .log = {print_log, NULL, options->quiet ? ICL_LOG_WARNING : ICL_LOG_INFO},
        .trial_seconds = options->is_another ? 0 : DRIVER_TRIAL_SECONDS,
    };
    const icl_capabilities *device;
    const icl_status status = icl_backend_open(&params, backend, error);

    if (status != ICL_OK || options->quiet)
        return status;
    device = icl_backend_capabilities(*backend);
    fprintf(stderr, "iclab: device %s: %s, %s (%s)\n", device->spec, device->name, device->platform,
            options->spec   ? "asked for with --device"
            : from_variable ? "asked for with ICLAB_DEVICE"
                            : "chosen by auto; --device SPEC or ICLAB_DEVICE=SPEC takes another, iclab devices "
                              "lists them");
    if (options->fast_math)
        fprintf(stderr, "iclab: fast math: the device may relax its arithmetic; error bounds do not hold\n");
    if (device->precision == ICL_PRECISION_BF16)
        fprintf(stderr, "iclab: bf16: matrix products and softmax attention round their operands to bfloat16\n");
    return ICL_OK;
}

void report_fallbacks(const icl_backend *backend) {
    const icl_backend_statistics statistics = icl_backend_get_statistics(backend);
    if (statistics.fallbacks > 0)
        fprintf(stderr, "iclab: %" PRIu64 " of %" PRIu64 " ops ran on the host because the device lacks them\n",
                statistics.fallbacks, statistics.ops);
}

icl_status apply_overrides(icl_recipe *recipe, const option_list *overrides, icl_error *error) {
    for (size_t i = 0; i < overrides->count; i++)
        ICL_CHECK(icl_recipe_override(recipe, overrides->values[i], error));
    return ICL_OK;
}

icl_status print_json_line(icl_json *json, icl_error *error) {
    char *text = NULL;
    const icl_status status = icl_json_finish(json, false, &text, error);

    if (status == ICL_OK)
        printf("%s\n", text);
    icl_text_free(&text);
    return status;
}

icl_status check_error_of_model(const icl_evaluation *evaluation, icl_error *error) {
    if (isfinite(evaluation->scores[0].mse))
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_DIVERGED, "the model's error is no number: its outputs are not finite");
}

void warn_of_missing_list(const char *folder) {
    char *path = NULL;

    if (icl_path_join(folder, ICL_RUN_FILES, &path, NULL) == ICL_OK && !icl_path_exists(path))
        fprintf(stderr,
                "iclab: %s: no " ICL_RUN_FILES ", as in runs of older versions: its files are not checked for damage\n",
                folder);
    icl_text_free(&path);
}

icl_status write_table(const char *folder, const char *name, const char *table, icl_error *error) {
    return table[0] != '\0' ? icl_file_write_in(folder, name, table, strlen(table), error) : ICL_OK;
}

icl_status finish_output(icl_error *error) {
    if (fflush(stdout) != 0)
        return icl_file_fail(error, "write", "standard output", errno);
    if (ferror(stdout)) /* the reason was lost with the call that failed */
        return icl_fail(error, ICL_ERROR_IO, "cannot write standard output: a part of it is lost");
    return ICL_OK;
}

icl_status print_evaluation(const icl_evaluation *evaluation, result_writer *keep, icl_error *error) {
    icl_status status = ICL_OK;
    char *text = NULL;

    if (!keep->json) {
        ICL_TRY(icl_evaluation_table(evaluation, &text, error));
        fputs(text, stdout);
        icl_text_free(&text);
    }
    for (size_t i = 0; i < evaluation->count; i++) {
        ICL_TRY(icl_score_json(&evaluation->scores[i], &text, error));
        ICL_TRY(results_add_lines(keep, ICL_RESULT_ROWS, text, error));
        icl_text_free(&text);
    }
done:
    icl_text_free(&text);
    return status;
}

icl_status print_polish(const icl_polish_result *polished, icl_error *error) {
    char *text = NULL;

    if (polished->sequences == 0)
        return ICL_OK;
    ICL_CHECK(icl_polish_text(polished, &text, error));
    printf("%s\n", text);
    icl_text_free(&text);
    return ICL_OK;
}

icl_status join_command_line(const icl_families *families, const char *command, int count, char *const *arguments,
                             char **text, icl_error *error) {
    icl_text line = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_text_print(&line, error, "iclab"));
    for (size_t i = 0; icl_families_file(families, i); i++)
        ICL_TRY(icl_text_print(&line, error, " --with %s", icl_families_file(families, i)));
    ICL_TRY(icl_text_print(&line, error, " %s", command));
    for (int i = 0; i < count; i++)
        ICL_TRY(icl_text_print(&line, error, " %s", arguments[i]));
    ICL_TRY(icl_duplicate(line.bytes, text, error));
done:
    icl_text_release(&line);
    return status;
}

/* ---- Results ---- */

icl_status results_begin(result_writer *keep, icl_error *error) {
    return icl_result_create(&keep->result, error);
}

void results_end(result_writer *keep) {
    icl_result_destroy(&keep->result);
}

static icl_status take_line(result_writer *keep, const char *table, const char *line, icl_error *error) {
    if (keep->json)
        printf("%s\n", line);
    return icl_result_add(keep->result, table, line, error);
}

icl_status results_add_to(result_writer *keep, const char *table, icl_json *row, icl_error *error) {
    icl_status status = ICL_OK;
    char *line = NULL;

    ICL_TRY(icl_json_finish(row, false, &line, error));
    ICL_TRY(take_line(keep, table, line, error));
done:
    icl_text_free(&line);
    return status;
}

icl_status results_add(result_writer *keep, icl_json *row, icl_error *error) {
    return results_add_to(keep, ICL_RESULT_ROWS, row, error);
}

icl_status results_add_lines(result_writer *keep, const char *table, const char *lines, icl_error *error) {
    icl_status status = ICL_OK;
    icl_text line = {0};

    for (const char *at = lines; *at != '\0'; at += strspn(at, "\n")) {
        const size_t length = strcspn(at, "\n");
        line.length = 0;
        ICL_TRY(icl_text_append(&line, at, length, error));
        ICL_TRY(take_line(keep, table, line.bytes, error));
        at += length;
    }
done:
    icl_text_release(&line);
    return status;
}

icl_status results_open_folder(result_writer *keep, icl_error *error) {
    icl_error reason = {0};
    icl_status status;

    (void)fflush(stdout); /* before messages about the files */
    if (!keep->folder)
        return ICL_OK;
    status = icl_folder_create(keep->folder, &reason);
    if (status == ICL_OK && access(keep->folder, W_OK) != 0)
        status = icl_file_fail(&reason, "write in", keep->folder, errno);
    if (status == ICL_OK)
        return ICL_OK;
    if (!keep->is_default || status != ICL_ERROR_IO)
        return icl_fail(error, status, "%s", reason.message);
    fprintf(stderr, "iclab: the result is not kept: %s (--out DIR takes it elsewhere)\n", reason.message);
    keep->folder = NULL;
    return ICL_OK;
}

static icl_status write_files(const result_writer *keep, const char *summary, icl_error *error) {
    ICL_CHECK(icl_result_write(keep->result, keep->folder, &keep->facts, summary, error));
    if (!keep->quiet)
        fprintf(stderr, "iclab: result %s/" ICL_RESULT_FILE "\n", keep->folder);
    return ICL_OK;
}

icl_status results_write(result_writer *keep, icl_json *summary, icl_error *error) {
    icl_status status = ICL_OK;
    char *line = NULL;

    ICL_TRY(results_open_folder(keep, error));
    if (keep->folder)
        icl_json_text(summary, "folder", keep->folder);
    ICL_TRY(icl_json_finish(summary, false, &line, error));
    if (keep->folder)
        ICL_TRY(write_files(keep, line, error));
    if (keep->json)
        printf(keep->is_wrapped ? "{\"summary\":%s}\n" : "%s\n", line);
done:
    icl_json_discard(summary);
    icl_text_free(&line);
    return status;
}
