// Which calls an implementation must take, in what configuration, and which it must decline: each op's dispatch.csv, a row
// a call. A false decline or a wrong configuration costs speed and a false accept a wrong result, and none of them shows
// in results where another implementation stands in.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <set>

#include "verify/generate.h"
#include "verify/workload.h"
#include "weft/case.h"

namespace weft {
namespace {

constexpr int kDrawn = 300;

// `reason`: a part of what the implementation says; empty where it takes the call. "never", without a case: whatever the
// generator draws is taken. `config`: a part of the configuration that it takes the call in, where that is told.
struct Row {
    std::string implementation, device, reason, line, config;
};

// An op without a table says that its kernels never decline.
std::vector<Row> rows_of(const OpEntry& op) {
    std::vector<Row> rows;
    const std::string path = "ops/" + op.contract().name() + "/dispatch.csv";
    if (!std::filesystem::exists(path)) {
        for (const AnyImplementation& i : op.implementations[static_cast<int>(DeviceType::emulator)])
            rows.push_back({i.name, "", "never", "", ""});
        return rows;
    }
    const auto table = read_csv(path);
    for (std::size_t i = 1; i < table.size(); ++i)
        rows.push_back({table[i].at(0), table[i].at(1), table[i].at(2), table[i].at(3),
                        table[i].size() > 4 ? table[i][4] : ""});
    return rows;
}

// The list of kernels is the emulator's: made of the same sources, in every build that has any.
DeviceInfo described(const std::string& device) {
    if (device == "cpu") return device_info(kCpu);
    const DeviceInfo* known = find_device(device);
    if (known == nullptr) throw std::invalid_argument("no device " + device);
    DeviceInfo info = *known;
    info.type = DeviceType::emulator;
    return info;
}

// What one implementation says of a call; "not in the list" where this build has none of the name.
Verdict says(const Case& c, const std::string& implementation, const DeviceInfo& device) {
    Verdict said{implementation, "", "not in the list"};
    c.with_call({device.type, 0}, [&](const void* call) {
        for (const Verdict& v : explain(c.op(), call, device)) {
            if (v.implementation == implementation) said = v;
        }
    });
    return said;
}

bool is_here(DeviceType type) {
#if WEFT_HAS_EMULATOR
    return type != DeviceType::cuda;
#else
    return type == DeviceType::cpu;
#endif
}

class DispatchTable : public testing::TestWithParam<const OpEntry*> {};

TEST_P(DispatchTable, EachCallIsTakenOrDeclinedAsItSays) {
    for (const Row& row : rows_of(*GetParam())) {
        if (row.line.empty()) continue;
        const Case c = Case::parse(row.line);
        EXPECT_NO_THROW(c.check()) << row.line;
        const DeviceInfo device = described(row.device);
        if (!is_here(device.type)) continue;
        const Verdict said = says(c, row.implementation, device);
        if (said.reason.find("was not found") != std::string::npos) continue;  // a library that is not here
        if (row.reason.empty()) {
            EXPECT_EQ(said.reason, "")
                << row.implementation << " on " << row.device << " declines " << row.line;
            EXPECT_THAT(said.config, testing::HasSubstr(row.config)) << row.device << ", of " << row.line;
        } else {
            EXPECT_THAT(said.reason, testing::HasSubstr(row.reason))
                << row.implementation << " on " << row.device << ", of " << row.line;
        }
    }
}

TEST_P(DispatchTable, WhoNeverDeclinesTakesWhateverIsDrawn) {
    for (const Row& row : rows_of(*GetParam())) {
        if (row.reason != "never" || !is_here(DeviceType::emulator)) continue;
        for (const char* device : {"h200", "a100"}) {
            const DeviceInfo info = described(device);
            Random random(31);
            for (int i = 0; i < kDrawn; ++i) {
                const auto c = generate(*GetParam(), info, random, {});
                ASSERT_TRUE(c.has_value());
                EXPECT_EQ(says(*c, row.implementation, info).reason, "") << c->line();
            }
        }
    }
}

TEST_P(DispatchTable, HasCallsOfBothKindsForEachImplementation) {
    std::set<std::string> takes, declines;
    for (const Row& row : rows_of(*GetParam())) {
        if (row.reason.empty() || row.reason == "never") takes.insert(row.implementation);
        if (!row.reason.empty()) declines.insert(row.implementation);
    }
    for (const DeviceType type : {DeviceType::cpu, DeviceType::emulator}) {
        for (const AnyImplementation& i : GetParam()->implementations[static_cast<int>(type)]) {
            if (i.name == "reference") continue;
            EXPECT_TRUE(takes.contains(i.name)) << "no call that " << i.name << " must take";
            EXPECT_TRUE(declines.contains(i.name))
                << "no call that " << i.name << " must decline, nor that it never does";
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Ops, DispatchTable, testing::ValuesIn(all_ops()),
                         [](const auto& info) { return info.param->contract().name(); });

}  // namespace
}  // namespace weft
