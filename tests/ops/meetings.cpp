// What a call chooses meets all else that it chooses: each value of an option, each dtype of the first tensor and each
// optional field, three by three, as far as the generator draws them. A kernel that decides by two of them, as a chain of
// PyTorch's roundings does by the dtype of a gate, is right in most cases with a mistake in one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "core/sanitizer.h"
#include "verify/fuzz.h"

namespace weft {
namespace {

// Cases of an op; most meet nothing new, and are not run. A sanitizer has nothing to see: it is of values alone.
constexpr int kDrawn = kSanitized ? 0 : 6000;

// The choices of a case that others may depend on. Of options of many values only that they are not the usual one.
std::vector<std::string> choices(const Case& c) {
    const Contract& contract = c.contract();
    std::vector<std::string> made;
    for (std::size_t i = 0; i < c.options.size(); ++i) {
        const Option& option = contract.options()[i];
        const bool few = option.kind == Option::Kind::choice || option.kind == Option::Kind::boolean;
        if (few || c.options[i] != option.initial)
            made.push_back(fmt::format("{}={}", option.name, few ? c.options[i] : -1));
    }
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
        const Field& field = contract.fields()[i];
        if (c.tensors[i].present && (field.optional || i == 0))
            made.push_back(fmt::format("{} {}", field.name, name(c.tensors[i].dtype)));
    }
    return made;
}

// Whether three of them have not met before; they have then.
bool meets_anew(const std::vector<std::string>& made, DType first, std::set<std::string>& met) {
    bool is_new = false;
    for (std::size_t i = 0; i < made.size(); ++i) {
        for (std::size_t j = i; j < made.size(); ++j)
            is_new = met.insert(fmt::format("{}, {}, {}", name(first), made[i], made[j])).second || is_new;
    }
    return is_new;
}

class Meetings : public testing::TestWithParam<const OpEntry*> {};

TEST_P(Meetings, OfWhatACallChooses) {
    const OpEntry& op = *GetParam();
    for (const Device device : devices_here()) {
        if (device.type == DeviceType::cpu || op.implementations[static_cast<int>(device.type)].empty())
            continue;
        Random random(41);
        std::set<std::string> met;
        int ran = 0;
        for (int i = 0; i < kDrawn; ++i) {
            const auto c = generate(op, device_info(device), random, {.elements = 2000, .flops = 100'000});
            if (!c) continue;
            if (!meets_anew(choices(*c), c->tensors.front().dtype, met)) continue;
            const Values values = ++ran % 2 == 0 ? Values::ties : Values::usual;
            const Trial trial{*c, static_cast<std::uint64_t>(i), values, 0};
            const Outcome outcome = attempt_generated(trial, device);
            EXPECT_TRUE(outcome.passed) << outcome.why << "\nagain: " << command(trial, device);
        }
        EXPECT_EQ(ran > 0, kDrawn > 0) << "nothing was drawn";
    }
}

INSTANTIATE_TEST_SUITE_P(Ops, Meetings, testing::ValuesIn(all_ops()),
                         [](const auto& info) { return info.param->contract().name(); });

}  // namespace
}  // namespace weft
