// An implementation whose library knows more than its documented limits: what it declines when it is asked, and what it
// refuses when it is launched.
#include <gmock/gmock.h>

#include "weft/op.h"

namespace weft::test {
namespace {

struct Asked {
    static constexpr std::string_view kName = "asked";
    Tensor x{}, out{};
    static const Contract& contract() {
        static const Contract c = Describe<Asked>(std::string(kName), "out = x")
                                      .in("x", &Asked::x, "... dim", kFloat, "the rows")
                                      .out("out", &Asked::out, "... dim", kFloat, "the same")
                                      .tolerance("none")
                                      .source("nothing");
        return c;
    }
};

struct Library {
    bool refused = false;
};
int launches = 0;

const char* never(const Asked&, const DeviceInfo&) { return nullptr; }
std::string config(const Asked& op, const DeviceInfo&) { return "dim=" + std::to_string(op.x.dim(-1)); }
void launch(const Asked&, Context&) { ++launches; }

// It has no plan for one row, and refuses the first launch of three.
Readiness ready(const Asked& op, Context& context) {
    if (op.x.dim(0) == 1) return {"its library knows no plan"};
    if (op.x.dim(0) == 3 && context.slot<Library>().refused) return {"its library refused the call"};
    return {nullptr, "timed"};
}
void launch_by_library(const Asked& op, Context& context) {
    if (op.x.dim(0) == 3) {
        context.slot<Library>().refused = true;
        throw Refused();
    }
    launch(op, context);
}
void refuse(const Asked&, Context&) { throw Refused(); }

const RegisterImplementations<Asked> kList{
    DeviceType::cpu, {{"library", never, config, launch_by_library, ready}, {"own", never, config, launch}}};
const RegisterImplementations<Asked> kContrary{DeviceType::emulator, {{"contrary", never, config, refuse}}};

struct Libraries : testing::Test {
    Libraries() { launches = 0; }
    Asked make(std::int64_t rows, Device device = kCpu) {
        Asked op{};
        op.x = Tensor(memory, DType::fp32, {rows, 8}, device);
        op.out = Tensor(memory + 32, DType::fp32, {rows, 8}, device);
        return op;
    }
    alignas(16) float memory[64] = {};
    const OpEntry& entry = *find_op("asked");
    Context context;
};

TEST_F(Libraries, WhatOneDeclinesIsSaid) {
    const Asked lone = make(1), two = make(2);
    EXPECT_EQ(detail::choose(entry, &lone, context)->name, "own");
    EXPECT_EQ(Prepared<Asked>(lone, context).implementation(), "own");
    EXPECT_EQ(explain(entry, &lone, context)[0].reason, "its library knows no plan");
    EXPECT_EQ(explain(entry, &two, context)[0].config, "dim=8, timed");
    EXPECT_EQ(explain(entry, &lone, device_info(kCpu))[0].reason, "") << "a description knows no library";
    context.avoid("library");
    EXPECT_EQ(explain(entry, &two, context)[0].reason, "left out by the context");
}

TEST_F(Libraries, WhatOneRefusesGoesToTheNextAndIsSaid) {
    const Asked three = make(3);
    const Prepared<Asked> call(three, context);
    EXPECT_EQ(call.implementation(), "library");
    call();
    EXPECT_EQ(call.implementation(), "own");
    EXPECT_EQ(launches, 1);
    EXPECT_EQ(explain(entry, &three, context)[0].reason, "its library refused the call");
    run(three, context);
    EXPECT_EQ(launches, 2);
}

TEST_F(Libraries, OneThatRefusesWhatItTakesIsADefect) {
    Context emulated(kEmulator);
    try {
        run(make(2, kEmulator), emulated);
        FAIL() << "it ran";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::internal);
        EXPECT_STREQ(e.what(), "asked: contrary refused a call that it still takes");
    }
}

}  // namespace
}  // namespace weft::test
