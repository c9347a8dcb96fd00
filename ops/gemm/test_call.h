// A call of gemm for tests that need no memory.
#pragma once

#include <string>

#include "ops/gemm/gemm.h"
#include "weft/case.h"

namespace weft::test {

// use(the call of a case line without the op's name); its tensors are where nothing can be read.
template <class Use>
void with_gemm(const std::string& operands, Use use) {
    Case c = Case::parse("gemm " + operands);
    c.infer();
    c.with_call(kCuda, [&](const void* call) { use(*static_cast<const Gemm*>(call)); });
}

// What decline(call) says of the call of a case line.
template <class Decline>
std::string declines(const std::string& operands, Decline decline) {
    std::string why;
    with_gemm(operands, [&](const Gemm& op) {
        const char* said = decline(op);
        why = said == nullptr ? "takes it" : said;
    });
    return why;
}

}  // namespace weft::test
