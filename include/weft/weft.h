// Everything but the ops; <weft/ops.h> lists those.
#pragma once

#include "weft/activation.h"
#include "weft/case.h"
#include "weft/context.h"
#include "weft/contract.h"
#include "weft/device_info.h"
#include "weft/dtype.h"
#include "weft/error.h"
#include "weft/graph.h"
#include "weft/memory.h"
#include "weft/op.h"
#include "weft/stream.h"
#include "weft/tensor.h"
