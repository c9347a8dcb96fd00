// The contexts that calls from Python run in.
#pragma once

#include "weft/context.h"

namespace weft::binding {

// This thread's context for a device and the stream that the framework has made current there. It keeps
// vendor handles, plans and scratch from call to call. One a stream: the scratch of a call must not be that
// of a call running beside it on another stream. A graph is captured on the stream on which the same calls
// ran before.
Context& context_for(Device device);

}  // namespace weft::binding
