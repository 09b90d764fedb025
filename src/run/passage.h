/* A passage of held-out text with the cost of each byte, and text that the model writes. */
#ifndef ICLAB_RUN_PASSAGE_H
#define ICLAB_RUN_PASSAGE_H

#include "iclab/train.h"

/* Windows of the final table, in its order, and new text. Zero is none; the arrays go with icl_free. */
typedef struct icl_passages {
    size_t count, length; /* windows, and the bytes of each: task.length + 1 */
    char *bytes;          /* [count][length]; 0 behind the end of the text */
    double *bits;         /* [count][length], -log2 of the model's probability; NaN where the table scores nothing */
    char *written;        /* what the model writes; NULL: it does not decode */
} icl_passages;

/* Reads as many windows as have about `bytes` positions, one at least, for a trainer of a task on text; their bits are
 * those that icl_evaluate takes the mean of, to rounding. The model writes `count` bytes, those that `iclab generate
 * --bytes COUNT` has by default. The arrays are to be freed also after a failure. */
icl_status icl_passages_read(icl_trainer *trainer, size_t bytes, size_t count, icl_passages *passages,
                             icl_error *error);

#endif
