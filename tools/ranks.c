#include "ranks.h"

#include <stdlib.h>
#include <string.h>

#include "iclab/number.h"

/* Hydra (MPICH, Intel MPI) and Slurm's PMI set the first, Open MPI the second; launchers by PMIx name their ranks and
 * Slurm the number of tasks. */
size_t ranks_launched(void) {
    static const char *const names[] = {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"};
    const char *tasks = getenv("PMIX_RANK") ? getenv("SLURM_NTASKS") : NULL;
    uint64_t count;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text && icl_parse_count(text, strlen(text), &count))
            return (size_t)count;
    }
    return tasks && icl_parse_count(tasks, strlen(tasks), &count) ? (size_t)count : 0;
}
