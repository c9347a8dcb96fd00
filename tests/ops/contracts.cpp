// Every registered op, from its contract alone: its description, case lines, rejections, work and policies.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "verify/fuzz.h"
#include "verify/instance.h"

namespace weft {
namespace {

class EveryOp : public testing::TestWithParam<const OpEntry*> {
   protected:
    const OpEntry& op() const { return *GetParam(); }
    const Contract& contract() const { return op().contract(); }
    std::optional<Case> draw(Random& random) const { return generate(op(), device_info(kCpu), random, {}); }
};

std::string op_label(const testing::TestParamInfo<const OpEntry*>& info) {
    return info.param->contract().name();
}

TEST_P(EveryOp, DescribesItself) {
    EXPECT_FALSE(contract().formula().empty());
    EXPECT_FALSE(contract().tolerance().empty());
    EXPECT_FALSE(contract().source().empty());
    EXPECT_TRUE(op().reference);
    ASSERT_FALSE(op().implementations[0].empty());
    EXPECT_EQ(op().implementations[0].back().name, "reference");
    for (const Field& f : contract().fields()) EXPECT_FALSE(f.meaning.empty()) << f.name;
    for (const Option& o : contract().options()) {
        EXPECT_FALSE(o.meaning.empty()) << o.name;
        EXPECT_GE(o.initial, o.low) << o.name;
        EXPECT_LE(o.initial, o.high) << o.name;
        EXPECT_EQ(contract().find_field(o.name), -1) << o.name << " is a field and an option";
    }
}

TEST_P(EveryOp, CaseLinesRoundTrip) {
    Random random(21);
    for (int i = 0; i < 200; ++i) {
        const auto c = draw(random);
        ASSERT_TRUE(c.has_value());
        EXPECT_EQ(Case::parse(c->line()), *c) << c->line();
    }
}

// A case and the same without one field must differ in being accepted, and the message must name that field
// or, for the rules of the op itself, another.
TEST_P(EveryOp, MissingFieldsAreRejectedByName) {
    Random random(22);
    const auto c = draw(random);
    ASSERT_TRUE(c.has_value());
    for (std::size_t i = 0; i < c->tensors.size(); ++i) {
        const Field& f = contract().fields()[i];
        if (f.optional) continue;
        Case without = *c;
        without.tensors[i] = {};
        for (TensorSpec& t : without.tensors) {
            if (t.alias == static_cast<int>(i)) t.alias = -1;
        }
        try {
            without.check();
            ADD_FAILURE() << "accepted without " << f.name;
        } catch (const Error& e) {
            EXPECT_EQ(e.what(), fmt::format("{}.{}: is required: {} [{}]", contract().name(), f.name,
                                            f.meaning, f.axes));
        }
    }
}

// A drawn case with one relation broken is refused in the name of the field that has it.
TEST_P(EveryOp, RelationsBetweenFieldsAreHeld) {
    for (const Relation& relation : contract().relations()) {
        const auto field = static_cast<std::size_t>(relation.field),
                   other = static_cast<std::size_t>(relation.other);
        const bool needs = relation.kind == Relation::Kind::needs;
        if (!needs && relation.kind != Relation::Kind::same_dtype) continue;
        Random random(25);
        std::optional<Case> c;
        for (int attempt = 0; attempt < 3000; ++attempt) {
            c = draw(random);
            if (c && c->tensors[field].present && c->tensors[field].alias < 0 && c->tensors[other].present)
                break;
        }
        ASSERT_TRUE(c && c->tensors[field].present) << contract().fields()[field].name;
        if (needs) {
            for (const Relation& r : contract().relations()) {  // whatever else needs it is not to blame
                if (r.kind == relation.kind && r.other == relation.other && r.field != relation.field)
                    c->tensors[static_cast<std::size_t>(r.field)] = {};
            }
            for (std::size_t i = 0; i < c->tensors.size(); ++i) {  // nor what has other axes beside it
                const Field& f = contract().fields()[i];
                if (f.picked_by == contract().fields()[other].name && f.optional && i != field)
                    c->tensors[i] = {};
            }
            c->tensors[other] = {};
        } else {
            c->tensors[field].dtype = c->tensors[field].dtype == DType::bf16 ? DType::fp32 : DType::bf16;
        }
        for (TensorSpec& t : c->tensors) t.alias = -1;
        try {
            c->check();
            ADD_FAILURE() << "accepted: " << c->line();
        } catch (const Error& e) {
            EXPECT_EQ(e.field(), contract().fields()[field].name) << c->line();
        }
    }
}

TEST_P(EveryOp, WrongDtypesAndRanksAreRejectedByName) {
    Random random(23);
    for (int attempt = 0; attempt < 30; ++attempt) {
        const auto c = draw(random);
        ASSERT_TRUE(c.has_value());
        for (std::size_t i = 0; i < c->tensors.size(); ++i) {
            const Field& f = contract().fields()[i];
            if (!c->tensors[i].present || c->tensors[i].alias >= 0) continue;
            const auto message = [&](auto change) {
                Case changed = *c;
                change(changed.tensors[i]);
                for (TensorSpec& t : changed.tensors) {
                    if (t.alias == static_cast<int>(i)) t.alias = -1;
                }
                try {
                    changed.check();
                } catch (const Error& e) {
                    return std::string(e.what());
                }
                return std::string("accepted");
            };
            const std::string prefix = contract().name() + "." + f.name + ": ";
            for (int d = 0; d < kDTypeCount; ++d) {
                const auto dtype = static_cast<DType>(d);
                if (f.dtypes.contains(dtype)) continue;
                EXPECT_THAT(message([&](TensorSpec& t) {
                                t.dtype = dtype;
                                if (bits(dtype) < 8) t.offset = 0;  // in pairs
                            }),
                            testing::StartsWith(prefix + "expected dtype "));
            }
            std::size_t shares_axes = 0;
            for (std::size_t other = 0; other < c->tensors.size(); ++other)
                shares_axes +=
                    c->tensors[other].present && contract().fields()[other].pattern.ellipsis ? 1 : 0;
            if (f.pattern.ellipsis && shares_axes == 1) continue;  // nothing says what its shape must be
            EXPECT_THAT(message([&](TensorSpec& t) {
                            t.shape.assign(6, 3);
                            t.stride.clear();
                        }),
                        testing::Not("accepted"))
                << c->line() << " with another shape of " << f.name;
        }
    }
}

// On the CPU, in tensors of one axis and of more, wherever the contract says what numbers there may be.
TEST_P(EveryOp, NumbersThatBreakTheirRuleAreRefused) {
    for (std::size_t i = 0; i < contract().fields().size(); ++i) {
        const Field& field = contract().fields()[i];
        if (!field.reads() || field.fill.rule().empty()) continue;
        std::set<std::size_t> ranks;
        Random random(26);
        for (int attempt = 0; attempt < 1000 && ranks.size() < 2; ++attempt) {
            const auto c = draw(random);
            ASSERT_TRUE(c.has_value());
            const TensorSpec& spec = c->tensors[i];
            if (!spec.present || bits(spec.dtype) < 32 || ranks.contains(spec.shape.size())) continue;
            const Instance instance(*c, kCpu, 5, Values::usual);
            const Tensor& numbers = Contract::tensor(instance.call(), field);
            if (numbers.numel() == 0 || contract().is_empty(instance.call())) continue;
            ranks.insert(spec.shape.size());
            EXPECT_NO_THROW(contract().check_call(instance.call())) << c->line();
            store_element(numbers.dtype, numbers.data, numbers.span() - 1, -2);
            try {
                contract().check_call(instance.call());
                ADD_FAILURE() << field.name << " holds -2 and is accepted: " << c->line();
            } catch (const Error& e) {
                EXPECT_EQ(e.field(), field.name) << c->line();
            }
        }
        EXPECT_FALSE(ranks.empty()) << field.name << " was never there";
    }
}

TEST_P(EveryOp, StatesItsWork) {
    Random random(24);
    for (int i = 0; i < 50; ++i) {
        const auto c = draw(random);
        ASSERT_TRUE(c.has_value());
        c->with_call(kCpu, [&](const void* call) {
            const Work work = contract().work(call);
            EXPECT_TRUE(std::isfinite(work.bytes) && work.bytes >= 0) << c->line();
            EXPECT_TRUE(std::isfinite(work.flops) && work.flops >= 0) << c->line();
            // A cache may have room where there is nothing to put into it.
            const bool whole = std::ranges::none_of(c->tensors, [](const TensorSpec& t) {
                return t.present && std::ranges::count(t.shape, 0) > 0;
            });
            if (whole && !contract().is_empty(call)) {
                EXPECT_GT(work.bytes, 0) << c->line();
            }
        });
    }
}

// The policies are pure functions of the call and the device: they answer for every known card without one.
TEST_P(EveryOp, EveryPolicyAnswersForEveryDevice) {
    Random random(25);
    for (int i = 0; i < 40; ++i) {
        const auto c = draw(random);
        ASSERT_TRUE(c.has_value());
        for (const std::string& device : device_names()) {
            c->with_call({DeviceType::cuda, 0}, [&](const void* call) {
                for (const DeviceType type : {DeviceType::cuda, DeviceType::emulator}) {
                    for (const AnyImplementation& impl : op().implementations[static_cast<int>(type)]) {
                        const char* reason = impl.decline(call, *find_device(device));
                        if (reason != nullptr) {
                            EXPECT_STRNE(reason, "") << impl.name;
                        } else if (!contract().is_empty(call)) {
                            EXPECT_FALSE(impl.config(call, *find_device(device)).empty())
                                << impl.name << " " << c->line();
                        }
                    }
                }
            });
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryOp, testing::ValuesIn(all_ops()), op_label);

}  // namespace
}  // namespace weft
