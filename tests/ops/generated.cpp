// Every op against its reference, on every device that is here, over cases that its contract generates.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/sanitizer.h"
#include "verify/fuzz.h"
#include "weft/op.h"

namespace weft {
namespace {

// ThreadSanitizer has nothing to see on the CPU but the comparison, which alone has threads there.
constexpr int kInEmulator = kSeesRaces ? 10 : kSeesAddresses ? 30 : 60;
constexpr int kElsewhere = kSeesRaces ? 20 : 200;
constexpr int kEach = kSeesRaces ? 3 : kSeesAddresses ? 6 : 12;

struct Subject {
    const OpEntry* op;
    Device device;
};

std::string name_of(const testing::TestParamInfo<Subject>& info) {
    return fmt::format("{}_{}", info.param.op->contract().name(), name(info.param.device.type));
}

void PrintTo(const Subject& subject, std::ostream* out) { *out << subject.op->contract().name(); }

std::vector<Subject> subjects() {
    std::vector<Subject> found;
    for (const OpEntry* op : all_ops()) {
        for (const Device device : devices_here()) {
            if (!op->implementations[static_cast<int>(device.type)].empty()) found.push_back({op, device});
        }
    }
    return found;
}

void expect_success(const FuzzReport& report, Device device) {
    for (const auto& failure : report.failures) {
        ADD_FAILURE() << failure.why << "\nagain: " << command(failure.trial, device);
    }
}

// Whether an implementation declines a case because this machine lacks its library.
bool lacks_library(const OpEntry& op, const std::string& implementation, const Case& c, Device device) {
    bool lacking = false;
    c.with_call(device, [&](const void* call) {
        for (const Verdict& v : explain(op, call, device_info(device))) {
            if (v.implementation == implementation)
                lacking = v.reason.find("was not found") != std::string::npos;
        }
    });
    return lacking;
}

class Generated : public testing::TestWithParam<Subject> {};

TEST_P(Generated, AgreesWithItsReference) {
    const auto [op, device] = GetParam();
    const char* asked = std::getenv("WEFT_TEST_CASES");
    FuzzOptions options{.device = device, .seed = 20, .values = {}, .implementation = {}, .limits = {}};
    options.cases = asked != nullptr ? std::atoi(asked)
                                     : (device.type == DeviceType::emulator ? kInEmulator : kElsewhere);
    announce_deaths();
    const FuzzReport report = fuzz(*op, options);
    expect_success(report, device);
    EXPECT_GT(report.cases, 0);
    if (asked != nullptr) return;
    // Where few of these cases are such as an implementation takes, it gets some of its own.
    for (const AnyImplementation& i : op->implementations[static_cast<int>(device.type)]) {
        const auto ran = report.implementations.find(i.name);
        options.cases = kEach - (ran == report.implementations.end() ? 0 : ran->second);
        if (options.cases <= 0) continue;
        options.implementation = i.name;
        const FuzzReport more = fuzz(*op, options);
        expect_success(more, device);
        Random random(options.seed);
        const auto c = generate(*op, device_info(device), random, {});
        if (more.cases == 0 && c && lacks_library(*op, i.name, *c, device)) continue;
        EXPECT_EQ(more.cases, options.cases) << "the generator hardly ever draws what " << i.name << " takes";
    }
}

INSTANTIATE_TEST_SUITE_P(Ops, Generated, testing::ValuesIn(subjects()), name_of);

}  // namespace
}  // namespace weft
