/* iclab bench and iclab devices print and write numbers that the linker plants, which all differ. */
#include "command.h"
#include "device/device.h"
#include "read_back.h"
#include "run/bench.h"

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
icl_status __wrap_icl_bench(const icl_bench_params *params, icl_error *error);
icl_status __wrap_icl_devices_list_apart(const icl_log *log, double seconds, icl_device **devices, size_t *count,
                                         icl_error *error);
icl_status __wrap_icl_contest_sizes(const char *spec, double seconds, icl_contest_listener *tell, void *user,
                                    icl_error *error);
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static char text[16384];
static double case_seconds; /* the seconds of each case in the last bench */
static bool chip_is_usable; /* the planted GPU */

/* Runs a command, whose words are separated by bars. */
static int run(const subcommand *command, const char *line) {
    char copy[1024];

    snprintf(copy, sizeof copy, "%s", line);
    return run_words(command, copy, text, sizeof text);
}

/* ---- Ops ---- */

icl_status __wrap_icl_bench(const icl_bench_params *params, icl_error *error) { /* NOLINT */
    const icl_bench_row rows[] = {
        {"adam (7)", "cpu", {.003, .002, .004, 15, 6}, .25, 5e-6, 21.5, 31.25, .125, 8, 9, .0075},
        {"peak",
         "cpu",
         {2, 1, 3, 4, 5},
         (double)NAN,
         (double)NAN,
         (double)NAN,
         (double)NAN,
         (double)NAN,
         (double)NAN,
         (double)NAN,
         (double)NAN}};

    case_seconds = params->seconds;
    for (size_t i = 0; i < COUNT(rows); i++)
        ICL_CHECK(params->callback(params->user, &rows[i], error));
    return ICL_OK;
}

#define SMALL "--device|cpu:threads=1|--quiet|"

static void test_bench(tap_run *tap) {
    static const expected_cell cells[] = {{"median", 0, "3 ms"},    {"min", 0, "2 ms"},     {"max", 0, "4 ms"},
                                          {"GFLOP/s", 0, "21.50"},  {"GB/s", 0, "31.25"},   {"of peak", 0, "12.5 %"},
                                          {"compile", 0, "250 ms"}, {"kernels", 0, "5 us"}, {"queued", 0, "8"},
                                          {"vs cpu", 0, "2.50x"}};
    static const expected_cell nothing[] = {{"median", 0, "2 s"}, {"GFLOP/s", 0, "-"}, {"GB/s", 0, "-"},
                                            {"of peak", 0, "-"},  {"compile", 0, "-"}, {"kernels", 0, "-"},
                                            {"queued", 0, "-"},   {"vs cpu", 0, "-"}};
    static const expected_field row[] = {{"case", 0, "adam (7)"},       {"device", 0, "cpu"},
                                         {"median_s", .003, NULL},      {"min_s", .002, NULL},
                                         {"max_s", .004, NULL},         {"gflops", 21.5, NULL},
                                         {"gbytes_per_s", 31.25, NULL}, {"peak_share", .125, NULL},
                                         {"compile_s", .25, NULL},      {"kernels_s", 5e-6, NULL},
                                         {"launches", 8, NULL},         {"ops", 9, NULL},
                                         {"cpu_median_s", .0075, NULL}, {"times_cpu", .0075 / .003, NULL},
                                         {"turns", 15, NULL},           {"calls_a_turn", 6, NULL}};

    run(&command_bench, SMALL);
    check_cells(tap, line_of(text, "cpu "), line_of(text, "adam (7)"), cells, COUNT(cells));
    check_cells(tap, line_of(text, "cpu "), line_of(text, "peak"), nothing, COUNT(nothing));
    tap_ok(tap, count_lines(text) == 3, "a header and two rows");
    run(&command_bench, SMALL "--json");
    check_json(tap, text, row, COUNT(row));
    tap_ok(tap, case_seconds == 1, "a case takes 1 s where nobody says: %g", case_seconds);
    run(&command_bench, SMALL "--seconds|0");
    tap_ok(tap, case_seconds == 0, "none where 0 is asked for: %g", case_seconds);
    run(&command_bench, SMALL "--seconds|2.5");
    tap_ok(tap, case_seconds == 2.5, "and what is asked for: %g", case_seconds);
}

/* ---- Devices ---- */

icl_status __wrap_icl_devices_list_apart(const icl_log *log, double seconds, /* NOLINT */
                                         icl_device **devices, size_t *count, icl_error *error) {
    const icl_device planted[] = {{.capabilities = {.spec = "opencl:9",
                                                    .name = "a chip",
                                                    .platform = "a platform",
                                                    .driver = "1.2.3",
                                                    .kind = ICL_DEVICE_GPU,
                                                    .element_size = 4,
                                                    .compute_units = 17,
                                                    .max_work_group = 256,
                                                    .vector_width = 8,
                                                    .local_memory = 3072,
                                                    .global_memory = (size_t)5 << 30,
                                                    .max_allocation = (size_t)7 << 20,
                                                    .has_fp64 = true},
                                   .usable = chip_is_usable,
                                   .verdict = "passes"},
                                  {.capabilities = {.spec = "opencl:10", .name = "another", .unified_memory = true},
                                   .usable = true,
                                   .verdict = "fine"}};
    icl_device *made = NULL;

    (void)log;
    (void)seconds;
    ICL_CHECK(icl_allocate(COUNT(planted), sizeof *made, "devices", &made, error));
    memcpy(made, planted, sizeof planted);
    *devices = made;
    *count = COUNT(planted);
    return ICL_OK;
}

static void test_devices(tap_run *tap) {
    static const expected_field row[] = {{"spec", 0, "opencl:9"},
                                         {"name", 0, "a chip"},
                                         {"kind", 0, "gpu"},
                                         {"platform", 0, "a platform"},
                                         {"driver", 0, "1.2.3"},
                                         {"usable", 0, NULL},
                                         {"verdict", 0, "passes"},
                                         {"element_size", 4, NULL},
                                         {"compute_units", 17, NULL},
                                         {"max_work_group", 256, NULL},
                                         {"vector_width", 8, NULL},
                                         {"local_memory", 3072, NULL},
                                         {"global_memory", 5368709120, NULL},
                                         {"max_allocation", 7340032, NULL},
                                         {"fp64", 1, NULL},
                                         {"unified_memory", 0, NULL}};

    run(&command_devices, "");
    tap_ok(tap,
           strcmp(line_of(text, "opencl:9"), "") != 0 &&
               strstr(text, "opencl:9       a chip\n"
                            "               gpu, a platform, driver 1.2.3\n"
                            "               17 compute units, memory 5 GiB, largest buffer 7 MiB, local memory 3 KiB, "
                            "vectors of 8, 4-byte numbers\n"
                            "               REFUSED: passes\n") != NULL,
           "a device in words");
    tap_ok(tap, strstr(text, "memory -, largest buffer -,") && strstr(text, "usable: fine\n"), "another");
    run(&command_devices, "--json");
    tap_ok(tap, count_lines(text) == 2, "JSON: a line for each device");
    check_json(tap, text, row, COUNT(row));
}

/* ---- Contests ---- */

icl_status __wrap_icl_contest_sizes(const char *spec, double seconds, icl_contest_listener *tell,
                                    void *user, /* NOLINT */
                                    icl_error *error) {
    const icl_contest_row rows[] = {
        {"gemm", {"native", "clblast"}, {{16, 64, 256, 1}}, {.002, .001}, .0005, "clblast=a100", true},
        {"attention", {"fused", "products"}, {{64, 65, 1024, 17}}, {.003, .004}, 0, "", false}};

    (void)seconds;
    (void)error;
    tell(user, NULL);
    for (size_t i = 0; i < COUNT(rows) && strcmp(spec, "opencl:9") == 0; i++)
        tell(user, &rows[i]);
    return ICL_OK;
}

static void test_contests(tap_run *tap) {
    static const expected_cell products[] = {
        {"native", 0, "2.0000 ms"}, {"clblast", 0, "1.0000 ms"}, {"clblast=a100", 0, "0.5000 ms"}};
    static const expected_cell attention[] = {{"fused", 0, "3.0000 ms"}, {"products", 0, "4.0000 ms"}};
    static const expected_field row[] = {{"spec", 0, "opencl:9"},
                                         {"choice", 0, "gemm"},
                                         {"a", 16, NULL},
                                         {"b", 64, NULL},
                                         {"c", 256, NULL},
                                         {"count", 1, NULL},
                                         {"first_seconds", .002, NULL},
                                         {"second_seconds", .001, NULL},
                                         {"variant_seconds", .0005, NULL},
                                         {"takes", 0, "clblast"}};

    chip_is_usable = true;
    run(&command_devices, "--gemm");
    check_cells(tap, strstr(text, "opencl:9       gemm"), line_of(text, "               16x64x256x1 "), products,
                COUNT(products));
    check_cells(tap, strstr(text, "opencl:9       attention"), line_of(text, "               64x65x1024x17 "),
                attention, COUNT(attention));
    tap_ok(tap, strstr(text, "0.5000 ms  clblast\n") && strstr(text, "4.0000 ms  fused\n"), "the ways that are taken");
    run(&command_devices, "--gemm|--json");
    tap_ok(tap, count_lines(text) == 4, "JSON: a line for each device and each class");
    check_json(tap, strstr(text, "{\"spec\":\"opencl:9\",\"choice\""), row, COUNT(row));
    chip_is_usable = false;
    run(&command_devices, "--gemm|--json");
    tap_ok(tap, count_lines(text) == 2, "a device that is refused has no contest");
}

int main(void) {
    tap_run tap = {0};

    test_bench(&tap);
    test_devices(&tap);
    test_contests(&tap);
    return tap_done(&tap);
}
