/* The memory of the host backends: the pool, its limit and its statistics; and how a backend describes itself. */
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <unistd.h>

#include "../core/scratch.h"
#include "backend/contract.h"
#include "backend/host_spec.h"
#include "every_op.h"
#include "iclab/ops_sequence.h"
#include "iclab/tensor.h"
#include "tap.h"

static icl_status create(icl_backend *backend, size_t count, icl_tensor *tensor, icl_error *error) {
    return icl_tensor_create(backend, 1, &count, tensor, error);
}

static void check_pool(tap_run *tap, const char *spec) {
    icl_backend *backend = NULL;
    icl_error error = {0};
    icl_tensor a = {0}, b = {0};

    if (!tap_status(tap, icl_backend_open(&(icl_backend_params){.spec = spec}, &backend, &error), &error, spec))
        return;
    const size_t size = icl_backend_capabilities(backend)->element_size;
    tap_status(tap, create(backend, 1000, &a, &error), &error, "create");
    icl_backend_statistics s = icl_backend_get_statistics(backend);
    tap_ok(tap, s.allocations == 1 && s.pool_hits == 0, "the first tensor is allocated");
    tap_ok(tap, s.bytes_live >= 1000 * size && s.bytes_live <= 1250 * size && s.bytes_reserved == s.bytes_live,
           "its bytes are counted, at most a quarter over");
    tap_ok(tap, (uintptr_t)a.buffer->handle % 64 == 0, "memory is aligned to 64 bytes");
    icl_tensor_release(&a);
    s = icl_backend_get_statistics(backend);
    tap_ok(tap, s.bytes_live == 0 && s.bytes_reserved >= 1000 * size, "released memory stays reserved");
    tap_status(tap, create(backend, 999, &a, &error), &error, "create again");
    tap_status(tap, create(backend, 999, &b, &error), &error, "and a second");
    s = icl_backend_get_statistics(backend);
    tap_ok(tap, s.allocations == 2 && s.pool_hits == 1, "a size of the same class comes from the pool");
    icl_tensor_release(&a);
    icl_tensor_release(&b);
    icl_backend_close(&backend);
    tap_ok(tap, backend == NULL, "closed");
}

static void check_steady_state(tap_run *tap, const char *spec) {
    static op_results results;
    icl_backend *backend = NULL;
    icl_error error = {0};
    icl_backend_statistics before, after;

    if (!tap_status(tap, icl_backend_open(&(icl_backend_params){.spec = spec}, &backend, &error), &error, spec))
        return;
    tap_status(tap, run_every_op(backend, &results, &error), &error, "every op runs once");
    free_results(&results);
    before = icl_backend_get_statistics(backend);
    tap_status(tap, run_every_op(backend, &results, &error), &error, "every op runs again");
    free_results(&results);
    after = icl_backend_get_statistics(backend);
    tap_ok(tap, after.allocations == before.allocations && after.pool_hits > before.pool_hits,
           "the second time nothing is allocated");
    tap_ok(tap, after.bytes_live == 0, "nothing is left alive");
    icl_backend_close(&backend);
}

static void check_limit(tap_run *tap, const char *spec) {
    const icl_backend_params params = {.spec = spec, .memory_limit = 100000};
    icl_backend *backend = NULL;
    icl_error error = {0};
    icl_tensor a = {0}, b = {0};

    if (!tap_status(tap, icl_backend_open(&params, &backend, &error), &error, spec))
        return;
    const size_t most = 81920 / icl_backend_capabilities(backend)->element_size; /* a size class of the pool */
    tap_ok(tap, icl_backend_capabilities(backend)->max_allocation == 100000, "the limit is reported");
    tap_status(tap, create(backend, most, &a, &error), &error, "80 KiB fit");
    tap_ok(tap, create(backend, most, &b, &error) == ICL_ERROR_MEMORY && b.buffer == NULL, "80 KiB more do not");
    tap_note("%s", error.message);
    tap_ok(tap, strstr(error.message, "81920") && strstr(error.message, "100000"),
           "the message names what was asked for and the limit");
    icl_tensor_release(&a);
    tap_status(tap, create(backend, 50, &a, &error), &error, "a small tensor fits when the large one is free");
    tap_status(tap, create(backend, most / 2, &b, &error), &error, "a free block of another size makes room for it");
    const icl_backend_statistics s = icl_backend_get_statistics(backend);
    tap_ok(tap, s.bytes_reserved == s.bytes_live && s.bytes_live <= 100000,
           "the limit holds, and no free block is left");
    icl_tensor_release(&b);
    icl_tensor_release(&a);
    tap_ok(tap, create(backend, (size_t)1 << 40, &a, &error) == ICL_ERROR_MEMORY, "a terabyte is refused");
    tap_ok(tap, create(backend, SIZE_MAX / 4, &a, &error) == ICL_ERROR_MEMORY, "and so is the address space");
    icl_backend_close(&backend);
}

/* Takes the losses of one row of 1,000 logits: the scratch memory is two such rows for each thread. */
static icl_status take_scratch(icl_backend *backend, icl_error *error) {
    icl_tensor losses = {0}, logits = {0}, classes = {0};
    icl_status status;

    ICL_TRY(icl_tensor_create(backend, 2, (size_t[]){1, 1}, &losses, error));
    ICL_TRY(icl_tensor_create(backend, 2, (size_t[]){1, 1000}, &logits, error));
    ICL_TRY(icl_tensor_create(backend, 2, (size_t[]){1, 1}, &classes, error));
    ICL_TRY(icl_fill(backend, logits, 0, error));
    ICL_TRY(icl_fill(backend, classes, 0, error));
    ICL_TRY(icl_cross_entropy(backend, losses, logits, classes, error));
done:
    icl_tensor_release(&losses);
    icl_tensor_release(&logits);
    icl_tensor_release(&classes);
    return status;
}

static void check_scratch(tap_run *tap, const char *spec, size_t threads) {
    icl_backend *backend = NULL;
    icl_error error = {0};
    icl_backend_params params = {.spec = spec};

    if (!tap_status(tap, icl_backend_open(&params, &backend, &error), &error, spec))
        return;
    const size_t bytes = threads * 2 * 1000 * icl_backend_capabilities(backend)->element_size;
    tap_status(tap, take_scratch(backend, &error), &error, "an op with scratch memory");
    const icl_backend_statistics s = icl_backend_get_statistics(backend);
    tap_status(tap, icl_backend_trim(backend, &error), &error, "trim");
    const icl_backend_statistics trimmed = icl_backend_get_statistics(backend);
    tap_ok(tap, trimmed.bytes_reserved == bytes && trimmed.bytes_live == 0,
           "without free blocks its %zu bytes are reserved: %zu", bytes, trimmed.bytes_reserved);
    tap_ok(tap, s.bytes_peak == s.bytes_reserved && s.bytes_reserved > bytes,
           "with the tensors they were the peak: %zu", s.bytes_peak);
    params.memory_limit = s.bytes_reserved;
    icl_backend_close(&backend);
    tap_status(tap, icl_backend_open(&params, &backend, &error), &error, spec);
    tap_status(tap, take_scratch(backend, &error), &error, "within a limit of as many bytes it runs");
    icl_backend_close(&backend);
    params.memory_limit--;
    tap_status(tap, icl_backend_open(&params, &backend, &error), &error, spec);
    tap_ok(tap, take_scratch(backend, &error) == ICL_ERROR_MEMORY && strstr(error.message, "scratch memory"),
           "within one byte less it does not: %s", error.message);
    tap_ok(tap, icl_backend_get_statistics(backend).bytes_live == 0, "and nothing is left alive");
    icl_backend_close(&backend);
}

/* Returns the descriptor that the next opened file gets. */
static int next_file(void) {
    const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(file);
    return file;
}

/* Reads limits from files written as control groups write them. */
static void check_container(tap_run *tap) {
    scratch_folder scratch;
    const int before = next_file();

    scratch_open(&scratch);
    scratch_write(&scratch, "limit", "1073741824\n", 11);
    scratch_write(&scratch, "none", "max\n", 4);
    const size_t limit = icl_machine_memory_limit(scratch_path(&scratch, "limit"));
    const size_t none = icl_machine_memory_limit(scratch_path(&scratch, "none"));
    const size_t missing = icl_machine_memory_limit(scratch_path(&scratch, "missing"));
    tap_ok(tap, limit == 1073741824 && none == 0 && missing == 0, "a container's limit: %zu bytes, none, no file",
           limit);
    tap_ok(tap, before >= 0 && next_file() == before, "no file is left open");
    tap_ok(tap, icl_machine_memory() > 0, "%zu bytes for this process", icl_machine_memory());
    scratch_close(&scratch);
}

/* The two backends compute the same numbers, up to 4096 roundings of the largest. Conformance has the bounds of each
 * op; this test finds an op that computes something else. */
static void check_agreement(tap_run *tap) {
    static op_results single, both;
    icl_backend *cpu = NULL, *ref = NULL;
    icl_error error = {0};
    size_t far = 0;

    icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &cpu, &error);
    icl_backend_open(&(icl_backend_params){.spec = "ref"}, &ref, &error);
    if (!tap_ok(tap, cpu && ref, "both backends open"))
        return;
    tap_status(tap, run_every_op(cpu, &single, &error), &error, "every op on cpu");
    tap_status(tap, run_every_op(ref, &both, &error), &error, "every op on ref");
    for (size_t i = 0; i < both.count; i++) {
        double size = 0, worst = 0;
        for (size_t j = 0; j < both.result[i].count; j++) {
            const double truth = both.result[i].values[j], value = single.result[i].values[j];
            if (isfinite(truth)) {
                size = fmax(size, fabs(truth));
                worst = fmax(worst, isfinite(value) ? fabs(value - truth) : HUGE_VAL);
            } else if (!(isnan(truth) && isnan(value)) && truth != value) {
                worst = HUGE_VAL;
            }
        }
        if (!(worst <= 4096 * (double)FLT_EPSILON * size)) {
            tap_note("%s: %g off, largest value %g", both.result[i].name, worst, size);
            far++;
        }
    }
    tap_ok(tap, far == 0 && both.count > 100, "cpu and ref agree on %zu results", both.count);
    free_results(&single);
    free_results(&both);
    icl_backend_close(&cpu);
    icl_backend_close(&ref);
}

/* Subtracts many rows from one short row: the host repeats such a row to make it longer, and must not mix up its
 * ends. */
static void check_short_rows(tap_run *tap, const char *spec) {
    enum { ROWS = 1003, COLUMNS = 11 };
    static float row[COLUMNS], matrix[ROWS * COLUMNS], out[ROWS * COLUMNS];
    icl_backend *backend = NULL;
    icl_error error = {0};
    icl_tensor a = {0}, b = {0};
    size_t wrong = 0;

    if (!tap_status(tap, icl_backend_open(&(icl_backend_params){.spec = spec}, &backend, &error), &error, spec))
        return;
    for (int j = 0; j < COLUMNS; j++)
        row[j] = (float)(j * j);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        matrix[i] = (float)(1000 * i);
    icl_tensor_create(backend, 2, (size_t[]){1, COLUMNS}, &a, &error);
    icl_tensor_create(backend, 2, (size_t[]){ROWS, COLUMNS}, &b, &error);
    icl_tensor_write(a, row, &error);
    icl_tensor_write(b, matrix, &error);
    tap_status(tap, icl_binary(backend, ICL_SUBTRACT, b, a, b, &error), &error, "a row minus a matrix, in place");
    icl_tensor_read(b, out, &error);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        wrong += out[i] != row[i % COLUMNS] - matrix[i];
    tap_ok(tap, wrong == 0, "every element is its own row's");
    icl_tensor_release(&a);
    icl_tensor_release(&b);
    icl_backend_close(&backend);
}

/* asked: its parts in any order; spec: as the capabilities show it. */
static void check_capabilities(tap_run *tap, const char *asked, const char *spec) {
    icl_backend *backend = NULL;
    icl_error error = {0};
    if (!tap_status(tap, icl_backend_open(&(icl_backend_params){.spec = asked}, &backend, &error), &error, asked))
        return;
    const icl_capabilities *c = icl_backend_capabilities(backend);
    tap_note("%s, %s, %s, %zu lanes, %zu bytes", c->spec, c->name, c->driver, c->vector_width, c->global_memory);
    tap_ok(tap, strcmp(c->spec, spec) == 0 && c->compute_units == 3, "%s selects it again", spec);
    tap_ok(tap, !strstr(spec, "isa=base") || c->vector_width == 4, "with vectors of that instruction set");
    tap_ok(tap, c->element_size == 4 && c->kind == ICL_DEVICE_HOST && c->name[0] && c->driver[0], "it says what it is");
    icl_backend_close(&backend);
}

/* Users of one machine divide its cores; the rest of each spec is kept. */
static void check_shares(tap_run *tap) {
    static const struct {
        const char *spec;
        size_t threads;
        const char *share; /* NULL: cannot be divided */
    } rows[] = {{"cpu", 2, "cpu:threads=2"},
                {"ref:isa=base", 0, "ref:threads=1:isa=base"},
                {"cpu:threads=4:isa=avx2", 3, NULL},
                {"opencl:pocl", 2, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char share[ICL_NAME_CAPACITY] = "as before";
        const bool divisible = icl_host_spec_is_divisible(rows[i].spec);
        if (divisible)
            icl_host_spec_take_threads(rows[i].spec, rows[i].threads, share, sizeof share);
        tap_ok(tap, divisible == (rows[i].share != NULL) && (!divisible || strcmp(share, rows[i].share) == 0),
               "%s for %zu threads: %s", rows[i].spec, rows[i].threads, divisible ? share : "not divided");
    }
}

/* Writes specs as text, and reads them back. */
static void check_specs(tap_run *tap) {
    static const struct {
        icl_host_spec spec;
        const char *text;
    } rows[] = {{{.threads = 0}, "cpu"},
                {{.threads = 4}, "cpu:threads=4"},
                {{.has_isa = true, .isa = ICL_ISA_AVX2}, "cpu:isa=avx2"},
                {{.threads = 12, .has_isa = true, .isa = ICL_ISA_BASE}, "cpu:threads=12:isa=base"}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[ICL_NAME_CAPACITY];
        icl_host_spec read = {.threads = 99};
        icl_host_spec_write(&rows[i].spec, "cpu", text, sizeof text);
        tap_ok(tap,
               strcmp(text, rows[i].text) == 0 && icl_host_spec_read(text, "cpu", &read) &&
                   read.threads == rows[i].spec.threads && read.has_isa == rows[i].spec.has_isa &&
                   read.isa == rows[i].spec.isa,
               "%s is written, and read again", text);
    }
}

int main(void) {
    tap_run tap = {0};
    static const char *const specs[] = {"cpu", "ref"};
    for (size_t i = 0; i < 2; i++) {
        check_pool(&tap, specs[i]);
        check_steady_state(&tap, specs[i]);
        check_limit(&tap, specs[i]);
        check_short_rows(&tap, specs[i]);
    }
    check_scratch(&tap, "cpu:threads=3", 3);
    check_scratch(&tap, "ref:threads=1", 1);
    check_container(&tap);
    check_agreement(&tap);
    check_capabilities(&tap, "cpu:threads=3", "cpu:threads=3");
    check_shares(&tap);
    check_capabilities(&tap, "cpu:isa=base:threads=3", "cpu:threads=3:isa=base");
    check_specs(&tap);
    return tap_done(&tap);
}
