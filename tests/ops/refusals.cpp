// What each op refuses, in its words: all that one change of a legal call leads to, or a change beside another value of an
// option. A rule often names several fields, and a test of it one; a field that a rule has lost is found here. And which
// axes may be empty, beside which fields: cases are drawn by the contract's own check, so that no drawn one is ever refused
// by a rule that refuses too much. Both stand in refusals/OP.txt; WEFT_RECORD_REFUSALS=1 test_ops
// --gtest_filter='*Refusals*' writes it anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "verify/guided.h"
#include "verify/workload.h"

namespace weft {
namespace {

const std::string kFolder = WEFT_SOURCE_DIR "/tests/ops/";

// Legal calls of all kinds: the corpus and the table of dispatch.
std::vector<Case> legal_calls(const OpEntry& op) {
    const std::string& name = op.contract().name();
    std::vector<Case> calls;
    if (const std::string corpus = kFolder + "corpus/" + name + ".txt"; std::filesystem::exists(corpus)) {
        for (const Trial& trial : read_corpus(corpus)) calls.push_back(trial.c);
    }
    for (const auto& row : read_csv(kFolder + "../../ops/" + name + "/dispatch.csv")) {
        if (row[3].starts_with(name)) calls.push_back(Case::parse(row[3]));  // else it has none
    }
    return calls;
}

// Without numbers and without what was given, which tell calls apart, not rules.
std::string rule_of(const std::string& message) {
    std::string rule = message.substr(0, message.find('\n'));
    rule = rule.substr(0, rule.find(", got"));
    if (const std::size_t leading = rule.find("=("); leading != std::string::npos)
        rule.erase(leading, rule.find(')', leading) + 1 - leading);
    std::string text;
    for (const char c : rule) {
        const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
        if (!digit || text.empty() || text.back() != '#') text += digit ? '#' : c;
    }
    return text;
}

// What refuses a case; "" where nothing does.
std::string refusal(Case c) {
    try {
        c.infer();
        c.check();
        return "";
    } catch (const Error& e) {
        return rule_of(e.what());
    }
}
void note(const Case& c, std::set<std::string>& refused) {
    if (const std::string rule = refusal(c); !rule.empty()) refused.insert(rule);
}

// Without a field, and those that are there beside it alone.
Case without(Case c, std::size_t field) {
    c.tensors[field].present = false;
    for (const Relation& relation : c.contract().relations()) {
        const auto beside = static_cast<std::size_t>(relation.field);
        if (relation.kind == Relation::Kind::needs && static_cast<std::size_t>(relation.other) == field &&
            c.tensors[beside].present)
            c = without(std::move(c), beside);
    }
    return c;
}

// Each field absent, alone or with all that needs it, or there in another dtype.
void change_fields(const Case& c, std::set<std::string>& refused) {
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
        const Field& field = c.contract().fields()[i];
        Case other = c;
        other.tensors[i].alias = -1;
        if (other.tensors[i].present) {
            note(without(other, i), refused);
            other.tensors[i].present = false;
            note(other, refused);
        } else {
            other.tensors[i] = {};  // the shape follows, where it can
        }
        other.tensors[i].present = true;
        for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
            other.tensors[i].dtype = static_cast<DType>(dtype);
            if (field.dtypes.contains(other.tensors[i].dtype)) note(other, refused);
        }
    }
}

// Each axis of a field empty, alone or one longer, and the field as a view: its rows in several steps, or with holes.
void change_views(const Case& c, std::set<std::string>& refused) {
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
        const std::vector<std::int64_t>& shape = c.tensors[i].shape;
        if (!c.tensors[i].present) continue;
        for (std::size_t axis = 0; axis < shape.size(); ++axis) {
            Case other = c;
            TensorSpec& spec = other.tensors[i];
            spec.stride.clear();
            for (const std::int64_t size : {std::int64_t{0}, std::int64_t{1}, shape[axis] + 1}) {
                spec.shape[axis] = size;
                note(other, refused);
            }
            spec.shape = shape;
            spec.stride.assign(shape.size(), 1);
            for (std::size_t at = shape.size(); at-- > 1;)
                spec.stride[at - 1] = spec.stride[at] * std::max<std::int64_t>(1, shape[at]);
            // Of this axis and those around it: from axis 1 on that parts the rows from one another.
            for (std::size_t at = 0; at <= axis; ++at) spec.stride[at] *= 2;
            note(other, refused);
        }
    }
}

// An axis of a call: a named one or, where that is negative, a leading one.
struct Axis {
    std::string name;
    int named, leading;

    std::int64_t& size(AxisSizes& sizes) const {
        return named >= 0 ? sizes.size[static_cast<std::size_t>(named)]
                          : sizes.leading[static_cast<std::size_t>(leading)];
    }
    bool in(const AxisExpression& expression) const {
        return named >= 0 ? expression.mentions(named) : expression.mentions_leading();
    }
};
std::vector<Axis> axes_of(const Case& c, AxisSizes sizes) {
    std::vector<Axis> axes;
    for (const std::string& name : c.contract().axes().all())
        axes.push_back({name, static_cast<int>(axes.size()), 0});
    for (int i = 0; i < sizes.leading_rank; ++i) axes.push_back({"rows", -1, i});
    std::erase_if(axes, [&](const Axis& axis) { return axis.size(sizes) <= 0; });
    return axes;
}

// The call with an axis empty in every field that has it.
Case emptied(Case c, AxisSizes& sizes, const Axis& axis) {
    axis.size(sizes) = 0;
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
        TensorSpec& spec = c.tensors[i];
        if (!spec.present) continue;
        spec.stride.clear();
        spec.offset = 0;
        const AxisPattern& pattern = c.pattern(i);
        const int rank = static_cast<int>(spec.shape.size()), count = static_cast<int>(pattern.axes.size());
        const auto set = [&](int at, std::int64_t size) {
            const auto place = static_cast<std::size_t>(at);
            if (at >= 0 && at < rank && !(pattern.broadcast && spec.shape[place] == 1))
                spec.shape[place] = size;
        };
        if (axis.named < 0 && pattern.ellipsis && axis.leading < rank - count)
            set(pattern.before + axis.leading, 0);
        for (int j = 0; j < count; ++j) {
            const AxisExpression& expression = pattern.axes[static_cast<std::size_t>(j)];
            if (axis.in(expression)) set(pattern.place(j, rank), expression.evaluate(sizes));
        }
    }
    return c;
}

// Which axes may be empty, alone and beside which fields, and which two may.
void note_empty(const Case& c, std::set<std::string>& noted) {
    const AxisSizes sizes = c.check();
    const std::vector<Axis> axes = axes_of(c, sizes);
    for (const Axis& axis : axes) {
        AxisSizes less = sizes;
        const Case empty = emptied(c, less, axis);
        for (const Axis& other : axes) {
            AxisSizes least = less;
            if (axis.name < other.name && refusal(emptied(empty, least, other)).empty())
                noted.insert("takes no " + axis.name + " and no " + other.name);
        }
        if (const std::string rule = refusal(empty); !rule.empty()) {
            noted.insert(rule);
            continue;
        }
        noted.insert("takes no " + axis.name);
        for (std::size_t i = 0; i < c.tensors.size(); ++i) {
            const Field& field = c.contract().fields()[i];
            if (c.tensors[i].present && field.optional)
                noted.insert("takes no " + axis.name + " beside " + field.name);
        }
    }
}

// The call with one more leading axis, of two: of some ops all calls here have one at most. None where that is refused.
std::optional<Case> lifted(Case c) {
    AxisSizes sizes = c.check();
    if (sizes.leading_rank < 0 || sizes.leading_rank + 1 >= kMaxRank) return {};
    std::copy_backward(sizes.leading.begin(), sizes.leading.begin() + sizes.leading_rank,
                       sizes.leading.begin() + sizes.leading_rank + 1);
    sizes.leading[0] = 2;
    ++sizes.leading_rank;
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
        TensorSpec& spec = c.tensors[i];
        if (!spec.present) continue;
        const AxisPattern& pattern = c.pattern(i);
        const bool shared = pattern.broadcast && spec.shape.size() <= pattern.axes.size();
        spec.stride.clear();
        spec.offset = 0;
        if (pattern.ellipsis && !shared)
            spec.shape.insert(spec.shape.begin() + pattern.before, pattern.broadcast ? 1 : 2);
        for (int j = 0; j < static_cast<int>(pattern.axes.size()); ++j) {
            const AxisExpression& axis = pattern.axes[static_cast<std::size_t>(j)];
            const int place = pattern.place(j, static_cast<int>(spec.shape.size()));
            if (axis.mentions_leading()) spec.shape[static_cast<std::size_t>(place)] = axis.evaluate(sizes);
        }
    }
    return refusal(c).empty() ? std::optional(c) : std::nullopt;
}

std::set<std::string> refusals(const OpEntry& op) {
    std::set<std::string> refused;
    for (const Case& c : legal_calls(op)) {
        change_fields(c, refused);
        change_views(c, refused);
        if (const std::optional<Case> more = lifted(c)) change_views(*more, refused);
        note_empty(c, refused);
        for (std::size_t i = 0; i < c.options.size(); ++i) {
            const Option& option = op.contract().options()[i];
            std::vector<double> values = {option.low, option.high};
            for (std::size_t choice = 0; choice < option.choices.size(); ++choice)
                values.push_back(static_cast<double>(choice));
            for (const double value : values) {
                Case other = c;
                other.options[i] = value;
                note(other, refused);
                change_fields(other, refused);
            }
        }
    }
    return refused;
}

class Refusals : public testing::TestWithParam<const OpEntry*> {};

TEST_P(Refusals, AreThoseThatWereRecorded) {
    const std::string path = kFolder + "refusals/" + GetParam()->contract().name() + ".txt";
    const std::set<std::string> refused = refusals(*GetParam());
    EXPECT_FALSE(refused.empty());
    if (std::getenv("WEFT_RECORD_REFUSALS") != nullptr) {
        std::ofstream file(path);
        for (const std::string& rule : refused) file << rule << "\n";
        return;
    }
    std::ifstream file(path);
    ASSERT_TRUE(file) << path << " is not there: WEFT_RECORD_REFUSALS=1 writes it";
    for (std::string rule; std::getline(file, rule);)
        EXPECT_TRUE(refused.contains(rule)) << "no call leads to this any more: " << rule;
}

INSTANTIATE_TEST_SUITE_P(Ops, Refusals, testing::ValuesIn(all_ops()),
                         [](const auto& info) { return info.param->contract().name(); });

}  // namespace
}  // namespace weft
