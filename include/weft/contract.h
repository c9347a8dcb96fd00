// An op described once: its fields, what each may be, its work and its tolerance. Checks, bindings, the
// command line, generated cases, rooflines and documentation all read this description.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/axes.h"
#include "weft/error.h"
#include "weft/fill.h"
#include "weft/op_function.h"
#include "weft/tensor.h"

namespace weft {

enum class Role : std::uint8_t { in, out, inout };

// Which strides a field may have.
enum class Layout : std::uint8_t {
    rows,     // the last axis contiguous, the leading axes fold into rows of one stride
    dense,    // row-major without gaps
    inner,    // the last axis contiguous, any other strides
    strided,  // any strides
};

using DTypeSizes = std::vector<std::pair<DType, std::int64_t>>;
using DTypeChoices = std::vector<std::pair<DType, std::vector<DType>>>;

struct Field {
    std::string name, axes, meaning;
    Role role = Role::in;
    bool optional = false;
    bool partial = false;  // an output of which a call may leave elements as they are
    DTypeSet dtypes;
    Layout layout = Layout::rows;
    Fill fill;
    std::vector<std::string> in_place_of;  // inputs whose very memory this output may be
    std::size_t offset = 0;                // of the Tensor in the op's struct
    AxisPattern pattern;                   // `axes`, compiled
    // A field that, where it is there, names the rows of this one, which then has the axes `picked_axes`.
    std::string picked_by, picked_axes;
    AxisPattern picked_pattern;
    int sized_axis = -1;        // an axis that has, where the field is there, the size that
    DTypeSizes sizes_by_dtype;  // its dtype has here

    bool writes() const { return role != Role::in; }
    bool reads() const { return role != Role::out; }
    bool keeps() const { return reads() || partial; }  // does what it held before a call matter after it?
};

// What must hold between two fields of a call.
struct Relation {
    enum class Kind : std::uint8_t {
        same_dtype,  // `field` has the dtype of `other`
        dtype_beside,  // `field` has a dtype of those that `choices` has for other's; where none, it is not there
        scale_of,      // `field` is there only where `other` is stored in fewer bits
        needs,         // `field` is there only beside `other`
        excludes,      // `field` is not there beside `other`
    };
    Kind kind = Kind::same_dtype;
    int field = -1, other = -1;  // indices of Contract::fields()
    DTypeChoices choices = {};

    // Beside `other` of this dtype; the first is what Python allocates. Empty: none.
    std::span<const DType> beside(DType dtype) const {
        for (const auto& [key, list] : choices) {
            if (key == dtype) return list;
        }
        return {};
    }
};

struct Option {
    enum class Kind : std::uint8_t { real, integer, boolean, choice };
    std::string name, meaning;
    Kind kind = Kind::real;
    double low = 0, high = 0, initial = 0;
    // Of a choice: the words that it may be, and the enumerator that each stands for. Its value is the index of one.
    std::vector<std::string> choices;
    std::vector<std::int32_t> enumerators;
    std::vector<double> samples;  // what generated cases draw from; empty: the initial value only
    std::size_t offset = 0;
    int axis = -1;  // the axis of the same name, which an integer option fixes
};

// What a correct call cannot avoid: each operand's distinct elements moved once, and the arithmetic.
struct Work {
    double bytes = 0, flops = 0;
    DType math = DType::fp32;  // which unit the flops run on: fp32 means outside the matrix units
    bool at_most = false;      // contents of an operand (lengths, a mask) may hide a part: no floor follows
};

struct Violation {
    std::string field, message;
};

class Contract {
   public:
    Contract(const Contract&);
    Contract(Contract&&) noexcept;
    ~Contract();

    const std::string& name() const { return name_; }
    const std::string& formula() const { return formula_; }
    const std::vector<Field>& fields() const { return fields_; }
    const std::vector<Option>& options() const { return options_; }
    const std::vector<Relation>& relations() const { return relations_; }
    const AxisNames& axes() const { return axes_; }
    const std::string& tolerance() const { return tolerance_; }
    const std::string& source() const { return source_; }
    bool deterministic() const { return deterministic_; }
    // Axes whose indices are problems of their own; "..." is all leading axes.
    const std::vector<std::string>& independent() const { return independent_; }
    // Sizes that generated cases draw for an axis.
    const std::vector<std::int64_t>& sizes(int axis) const;

    // What a field and its elements must be, in words: "only beside gate", "numbers in [0, vocab)".
    std::vector<std::string> rules(const Field& field) const;

    int find_field(std::string_view name) const;   // -1 where there is none
    int find_option(std::string_view name) const;  // -1 where there is none

    // The op struct behind a type-erased pointer.
    std::size_t size() const { return size_; }
    void construct(void* op) const { construct_(op); }  // default values; op structs need no destruction
    static Tensor& tensor(void* op, const Field& field);
    static const Tensor& tensor(const void* op, const Field& field);
    static double get(const void* op, const Option& option);
    static void set(void* op, const Option& option, double value);

    // The axis whose size this field's dtype says, where there is one.
    static void size_by_dtype(const Field& field, DType dtype, AxisSizes& sizes);
    // The pattern of a field's axes in this call.
    const AxisPattern& pattern(const Field& field, const std::function<bool(int)>& is_there) const {
        return field.picked_by.empty() || !is_there(find_field(field.picked_by)) ? field.pattern
                                                                                 : field.picked_pattern;
    }

    // Throws the first breach of the contract. Returns the sizes of all axes. Makes no CUDA call.
    AxisSizes check(const void* op) const;
    // The same, and the rules of inputs' elements where the host can see them (on the CPU): what a run does first.
    void check_call(const void* op) const;
    Work work(const void* op) const;
    // True where every output is empty: nothing to do.
    bool is_empty(const void* op) const;

   private:
    friend class Description;

    Contract();
    void add_field(Field field);
    void add_option(Option option);
    void add_relation(Relation::Kind kind, std::string other,
                      DTypeChoices choices = {});             // of the last field
    void add_sizes(std::string_view axis, DTypeSizes sizes);  // by the last field's dtype
    void finish();  // throws Error(internal) where the description contradicts itself
    void resolve_relations();
    void resolve_fill(Field& field, const AxisNames& used);
    void check_options(const void* op, AxisSizes& sizes) const;
    void check_field(const void* op, const Field& field, AxisMatcher& matcher) const;
    void check_aliases(const void* op) const;
    void check_relation(const void* op, const Relation& relation) const;

    std::string name_, formula_, tolerance_, source_;
    std::vector<Field> fields_;
    std::vector<Option> options_;
    std::vector<Relation> relations_;
    std::vector<std::string> relation_names_;  // of each relation's other field, which may come later
    AxisNames axes_;
    std::vector<std::vector<std::int64_t>> sizes_;
    std::vector<std::string> independent_;
    std::vector<OpFunction<std::optional<Violation>()>> requirements_;
    OpFunction<Work()> work_;
    OpFunction<double()> flops_;
    int flops_operand_ = -1;  // the field whose dtype says on which unit the flops run
    std::size_t size_ = 0;
    void (*construct_)(void*) = nullptr;
    bool deterministic_ = true;
};

// What Describe does that is the same for every op, so that it is compiled once.
class Description {
   protected:
    Description(std::string_view name, std::string_view formula, std::size_t size, void (*construct)(void*));
    Description(const Description&);
    ~Description();

    void add_field(std::string_view name, std::size_t offset, std::string_view axes, DTypeSet dtypes,
                   std::string_view meaning, Role role);
    // `op` holds the default values.
    void add_option(std::string_view name, std::size_t offset, Option::Kind kind, double low, double high,
                    std::string_view meaning, std::initializer_list<double> samples, const void* op);
    void add_choice(std::string_view name, std::size_t offset, std::string_view meaning,
                    std::initializer_list<std::string_view> choices, const void* op);
    using Choices = std::vector<std::pair<std::string_view, std::int32_t>>;  // a word and its enumerator
    void add_choice(std::string_view name, std::size_t offset, std::string_view meaning, Choices&& choices,
                    const void* op);
    Field& last_field();
    void relate(Relation::Kind kind, std::string_view other);
    void relate_dtypes(std::string_view other, DTypeChoices&& choices);
    void set_sizes_by_dtype(std::string_view axis, DTypeSizes&& sizes);
    void add_in_place_of(std::string_view input);
    void set_fill(Fill&& fill);
    void set_picked_by(std::string_view index, std::string_view axes);
    void add_rule(OpFunction<std::optional<Violation>()> rule);
    void set_work(OpFunction<Work()> work);
    void set_flops(OpFunction<double()> flops);
    void set_flops(OpFunction<double()> flops, std::size_t operand);
    void set_sizes(std::string_view axis, std::initializer_list<std::int64_t> sizes);
    void set_independent(std::initializer_list<std::string_view> axes);
    void set_tolerance(std::string_view rule);
    void set_source(std::string_view source);
    Contract finish();

   private:
    Contract c_;
};

// Builds a Contract; each call after a field or an option may refine that field. It
// only hands on, since every file that includes an op compiles it.
template <class Op>
class Describe : Description {
    static_assert(std::is_trivially_destructible_v<Op> && std::is_trivially_copyable_v<Op>,
                  "an op is a plain struct of tensors and options");

   public:
    Describe(std::string_view name, std::string_view formula)
        : Description(name, formula, sizeof(Op), [](void* op) { new (op) Op{}; }) {}

    Describe& in(std::string_view name, Tensor Op::* member, std::string_view axes, DTypeSet dtypes,
                 std::string_view meaning) {
        return add_field(name, offset_of(member), axes, dtypes, meaning, Role::in), *this;
    }
    Describe& out(std::string_view name, Tensor Op::* member, std::string_view axes, DTypeSet dtypes,
                  std::string_view meaning) {
        return add_field(name, offset_of(member), axes, dtypes, meaning, Role::out), *this;
    }
    Describe& inout(std::string_view name, Tensor Op::* member, std::string_view axes, DTypeSet dtypes,
                    std::string_view meaning) {
        return add_field(name, offset_of(member), axes, dtypes, meaning, Role::inout), *this;
    }
    Describe& optional() { return last_field().optional = true, *this; }
    Describe& layout(Layout layout) { return last_field().layout = layout, *this; }
    Describe& fill(Fill&& fill) { return set_fill(std::move(fill)), *this; }
    // Where the field `index`, which comes before, is there, this one is a table of the axes `axes`.
    Describe& picked_by(std::string_view index, std::string_view axes) {
        return set_picked_by(index, axes), *this;
    }
    // Some elements of the output may stay as they are (rows beyond a counter): then they keep their bits.
    Describe& partial() { return last_field().partial = true, *this; }
    Describe& in_place_of(std::string_view input) { return add_in_place_of(input), *this; }
    // Where both are there, the field has the dtype of `other`.
    Describe& like(std::string_view other) { return relate(Relation::Kind::same_dtype, other), *this; }
    // Where both are there, the field has one of the dtypes that `choices` has for other's, by default the first;
    // beside an `other` of a dtype that `choices` lacks it is not there.
    Describe& dtype_beside(std::string_view other, DTypeChoices&& choices) {
        return relate_dtypes(other, std::move(choices)), *this;
    }
    // Where the field is there, its dtype says the size of `axis`.
    Describe& sizes_by_dtype(std::string_view axis, DTypeSizes&& sizes) {
        return set_sizes_by_dtype(axis, std::move(sizes)), *this;
    }
    // The field is a scale of `other`: nothing but a tensor that is stored in fewer bits has one.
    Describe& scale_of(std::string_view other) { return relate(Relation::Kind::scale_of, other), *this; }
    Describe& needs(std::string_view other) { return relate(Relation::Kind::needs, other), *this; }
    Describe& excludes(std::string_view other) { return relate(Relation::Kind::excludes, other), *this; }

    // Fields, options and rules that several ops have: `part` is a function of this description.
    template <class Part, class... Arguments>
    Describe& with(Part part, Arguments... arguments) {
        part(*this, arguments...);
        return *this;
    }

    Describe& option(std::string_view name, float Op::* member, double low, double high,
                     std::string_view meaning, std::initializer_list<double> samples = {}) {
        return add_number(name, offset_of(member), Option::Kind::real, low, high, meaning, samples);
    }
    Describe& option(std::string_view name, std::int64_t Op::* member, std::int64_t low, std::int64_t high,
                     std::string_view meaning, std::initializer_list<double> samples = {}) {
        return add_number(name, offset_of(member), Option::Kind::integer, static_cast<double>(low),
                          static_cast<double>(high), meaning, samples);
    }
    Describe& option(std::string_view name, bool Op::* member, std::string_view meaning) {
        return add_number(name, offset_of(member), Option::Kind::boolean, 0, 1, meaning, {0, 1});
    }
    // The enumerators of an op's own enumeration, in order.
    template <class Enum>
        requires std::is_enum_v<Enum>
    Describe& option(std::string_view name, Enum Op::* member,
                     std::initializer_list<std::string_view> choices, std::string_view meaning) {
        static_assert(sizeof(Enum) == sizeof(std::int32_t), "declare the enum class without a narrower base");
        const Op op{};
        return add_choice(name, offset_of(member), meaning, choices, &op), *this;
    }
    // Those enumerators of an enumeration that several ops share which this op takes; its function name() has the words.
    template <class Enum>
        requires std::is_enum_v<Enum>
    Describe& option(std::string_view option, Enum Op::* member, std::initializer_list<Enum> choices,
                     std::string_view meaning) {
        static_assert(sizeof(Enum) == sizeof(std::int32_t), "declare the enum class without a narrower base");
        const Op op{};
        Choices words;
        for (const Enum choice : choices) words.emplace_back(name(choice), static_cast<std::int32_t>(choice));
        return add_choice(option, offset_of(member), meaning, std::move(words), &op), *this;
    }

    // A rule beyond shapes, dtypes and relations; return the field at fault and the message, or nothing.
    Describe& require(std::optional<Violation> (*rule)(const Op&)) { return add_rule(rule), *this; }
    // The arithmetic. Default: none. It runs on the matrix units, at the rate of `operand`'s dtype, where an
    // operand is named.
    Describe& flops(double (*flops)(const Op&)) { return set_flops(flops), *this; }
    Describe& flops(double (*flops)(const Op&), Tensor Op::* operand) {
        return set_flops(flops, offset_of(operand)), *this;
    }
    // Where an operand is not moved exactly once. Default: every present operand once (in-out twice), and
    // `flops`.
    Describe& work(Work (*work)(const Op&)) { return set_work(work), *this; }
    Describe& sizes(std::string_view axis, std::initializer_list<std::int64_t> sizes) {
        return set_sizes(axis, sizes), *this;
    }
    // Each index of these axes ("..." for the leading ones) is a problem of its own, so that long calls can
    // be checked in parts. Where an output lacks the axis (a scale of the whole tensor), it does not count.
    Describe& independent(std::initializer_list<std::string_view> axes) {
        return set_independent(axes), *this;
    }
    Describe& tolerance(std::string_view rule) { return set_tolerance(rule), *this; }
    Describe& source(std::string_view source) { return set_source(source), *this; }
    operator Contract() { return finish(); }

   private:
    template <class T>
    static std::size_t offset_of(T Op::* member) {
        const Op op{};
        return static_cast<std::size_t>(reinterpret_cast<const char*>(&(op.*member)) -
                                        reinterpret_cast<const char*>(&op));
    }
    Describe& add_number(std::string_view name, std::size_t offset, Option::Kind kind, double low,
                         double high, std::string_view meaning, std::initializer_list<double> samples) {
        const Op op{};
        return add_option(name, offset, kind, low, high, meaning, samples, &op), *this;
    }
};

}  // namespace weft
