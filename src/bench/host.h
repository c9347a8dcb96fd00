// What a call costs the host: Google Benchmark over weft::run and prepared calls.
#pragma once

namespace weft {

// Runs and prints them; false where this build has no Google Benchmark. On a machine with a GPU the kernels
// are launched; elsewhere a launch that does nothing stands in, so that what is measured is weft alone.
bool run_host_benchmarks(bool json);

}  // namespace weft
