/* Runs a fuzz target without LibFuzzer, on every file of the corpus, on every beginning of it, and on the file with
 * each byte damaged in turn. Deterministic.
 *
 * PROGRAM FILE... */
#include "fuzz.h"
#include "tap.h"

#define MAX_BYTES  (1 << 20)
#define MAX_DAMAGE 1500 /* the most inputs of each sort that one file gives */

/* Runs an input in memory of exactly its size, so that a checker notices an access to the byte after it. */
static void run_once(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size > 0 ? size : 1);
    fuzz_promise(copy != NULL, "there is memory for the input");
    memcpy(copy, data, size);
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static size_t replay(uint8_t *data, size_t size) {
    static const uint8_t masks[] = {0x01, 0x80, 0x10, 0xFF};
    const size_t step = size / MAX_DAMAGE + 1;
    size_t inputs = 1;

    run_once(data, size);
    for (size_t i = 0; i < size; i += step, inputs += 2) {
        const uint8_t kept = data[i];
        run_once(data, i);
        data[i] ^= masks[i / step % sizeof masks];
        run_once(data, size);
        data[i] = kept;
    }
    return inputs;
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    uint8_t *data = malloc(MAX_BYTES);

    fuzz_promise(data != NULL, "there is memory for the corpus");
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        const char *name = strrchr(argv[i], '/');
        if (!file) {
            tap_ok(&tap, false, "read %s", argv[i]);
            continue;
        }
        const size_t size = fread(data, 1, MAX_BYTES, file);
        fclose(file);
        tap_ok(&tap, true, "%s and what damage makes of it: %zu inputs", name ? name + 1 : argv[i], replay(data, size));
    }
    tap_ok(&tap, argc > 1, "%d files in the corpus", argc - 1);
    free(data);
    return tap_done(&tap);
}
