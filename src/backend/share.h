/* Workers of a backend: share.c. */
#ifndef ICLAB_BACKEND_SHARE_H
#define ICLAB_BACKEND_SHARE_H

#include "backend/contract.h"

/* Closes the workers that were opened, if any. */
void icl_backend_close_workers(icl_backend *backend);

#endif
