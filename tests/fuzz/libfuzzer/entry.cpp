// libFuzzer's entry for the target that WEFT_FUZZ_TARGET names. What a target throws ends the process: a
// finding.
#include <cstdint>

#include "targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    weft::fuzz::WEFT_FUZZ_TARGET(std::as_bytes(std::span(data, size)));
    return 0;
}
