/* The whole public interface. */
#ifndef ICLAB_ICLAB_H
#define ICLAB_ICLAB_H

#include "iclab/backend.h"
#include "iclab/baseline.h"
#include "iclab/evaluate.h"
#include "iclab/export.h"
#include "iclab/lab.h"
#include "iclab/log.h"
#include "iclab/model.h"
#include "iclab/ops.h"
#include "iclab/random.h"
#include "iclab/recipe.h"
#include "iclab/status.h"
#include "iclab/tape.h"
#include "iclab/task.h"
#include "iclab/tensor.h"
#include "iclab/train.h"

#endif
