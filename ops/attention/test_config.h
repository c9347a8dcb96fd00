// What attention's tests ask of its policy.
#pragma once

#include <string>

#include "ops/attention/policy.h"
#include "weft/case.h"

namespace weft::test {

// How flash_mma cuts the call on a device that weft knows.
inline attention::Config config_of(const std::string& line, const char* device) {
    Case c = Case::parse(line);
    c.infer();
    attention::Config config;
    c.with_call(kCuda, [&](const void* call) {
        config =
            attention::choose(attention::Problem(*static_cast<const Attention*>(call)), *find_device(device));
    });
    return config;
}

}  // namespace weft::test
