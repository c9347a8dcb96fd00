// Running calls from Python: the device, the stream and the context that they get.
#pragma once

#include "binding/arguments.h"
#include "weft/op.h"

namespace weft::binding {

// Checks and queues a call on its tensors' device, on the stream that the framework has made current there.
// Throws what is wrong as a Python exception.
//
// A context keeps vendor handles, plans and scratch from call to call, one for each thread, device and
// stream: the scratch of a call must not be that of a call beside it on another stream. So a graph is
// captured on a stream on which the same calls ran before.
void run(const OpEntry& entry, const Call& call);

}  // namespace weft::binding
