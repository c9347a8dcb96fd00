// Offsets beyond 2^31 elements, for every op and every operand that may have strides: on the host reserved address space
// of which pages exist only where rows lie, on a GPU all of the memory.
// g++ 12 takes the sparse memory of a view for a vector's.
#pragma GCC diagnostic ignored "-Wfree-nonheap-object"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <optional>

#include "core/elements.h"
#include "core/sanitizer.h"
#include "verify/comparison.h"
#include "verify/fuzz.h"
#include "verify/guided.h"
#include "verify/verify.h"

namespace weft {
namespace {

// Who accesses what next to whom does not depend on how far apart rows lie: ThreadSanitizer gets each form once.
constexpr bool kOnce = kSeesRaces;

constexpr std::int64_t kFar = (std::int64_t{1} << 31) + (1 << 20);  // elements

// A view's memory. On the host as much before and after it as an offset cut to 32 bits may reach: it reads zeros there.
class Far {
   public:
    Far(const Tensor& view, Device device) : far_(static_cast<std::size_t>(bytes(view.dtype, kFar))) {
        const auto size = static_cast<std::size_t>(bytes(view.dtype, view.span()));
        if (device.type == DeviceType::cuda) {
            try {
                buffer_ = Buffer(device, size);
            } catch (const Error&) {  // a card with less memory
            }
            return;
        }
        size_ = size + 2 * far_;
        memory_ =
            mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    ~Far() {
        if (memory_ != MAP_FAILED) munmap(memory_, size_);
    }
    Far(const Far&) = delete;
    Far& operator=(const Far&) = delete;

    // Null where the machine has no such memory.
    void* data() const {
        if (memory_ == MAP_FAILED) return buffer_.data();
        return static_cast<char*>(memory_) + far_ / 4096 * 4096;
    }

   private:
    std::size_t far_, size_ = 0;
    void* memory_ = MAP_FAILED;
    Buffer buffer_;
};

// Row by row, where the last axes of both are dense, else element by element.
void copy_view(const Tensor& to, const Tensor& from) {
    Tensor to_runs = to, from_runs = from;
    std::int64_t run = 1;
    if (to.stride[to.rank - 1] == 1 && from.stride[from.rank - 1] == 1) {
        run = to.dim(-1);
        --to_runs.rank;
        --from_runs.rank;
    }
    std::vector<std::int64_t> places;
    for_each_offset(to_runs, [&](std::int64_t i) { places.push_back(i); });
    const auto size = static_cast<std::size_t>(bytes(to.dtype, run));
    std::size_t next = 0;
    for_each_offset(from_runs, [&](std::int64_t i) {
        copy_bytes(to.at(places[next++]), to.device, from.at(i), from.device, size);
    });
}

// What rows of a field are: those of its own axes, or those of a table that another field picks. A kernel finds either
// in its own way. The last row lies far, or each from the one before it: then a stride alone has more than 32 bits.
// Turned: what lies far apart is the last axis, as in a transposed view.
struct Form {
    std::size_t field = 0;
    bool picked = false, each = false, turned = false;
    std::map<std::string, int> trials{};  // by the way in which a kernel takes them
};

bool is_picked(const Contract& contract, const Field& field, const Case& c) {
    return !field.picked_by.empty() &&
           c.tensors[static_cast<std::size_t>(contract.find_field(field.picked_by))].present;
}

// May its rows lie apart? Packed dtypes are dense in the cases that are generated.
bool may_be_far(const Field& field, const AxisPattern& pattern) {
    bool bytes = false;
    for (int i = 0; i < kDTypeCount; ++i) {
        const auto dtype = static_cast<DType>(i);
        bytes = bytes || (field.dtypes.contains(dtype) && bits(dtype) >= 8);
    }
    return bytes && field.layout != Layout::dense && (pattern.axes.size() > 1 || pattern.ellipsis);
}

// `apart`: also those whose rows each lie far from the next.
std::vector<Form> forms(const Contract& contract, bool apart) {
    std::vector<Form> all;
    for (std::size_t i = 0; i < contract.fields().size(); ++i) {
        const Field& field = contract.fields()[i];
        for (const bool each : {false, true}) {
            if (each && !apart) continue;
            if (may_be_far(field, field.pattern)) {
                all.push_back({i, false, each});
                if (field.layout == Layout::strided) all.push_back({i, false, each, true});
            }
            if (!field.picked_by.empty() && may_be_far(field, field.picked_pattern))
                all.push_back({i, true, each});
        }
    }
    return all;
}

// Strides that take the last row beyond 2^31 elements, or each row that far from the one before, and fold as those of a
// dense tensor do; empty where the view has no two rows, or more than there are addresses for.
std::vector<std::int64_t> far_strides(const TensorSpec& spec, const Form& form) {
    constexpr std::int64_t kMostRows = 64;
    const auto rank = spec.shape.size();
    if (!spec.present || spec.alias >= 0 || bits(spec.dtype) < 8 || rank < 2) return {};
    const std::size_t last = rank - 1;
    std::int64_t outer = 1;  // of all axes but the last
    for (std::size_t i = 0; i < last; ++i) outer *= spec.shape[i];
    const std::int64_t rows = form.turned ? spec.shape[last] : outer,
                       inside = form.turned ? outer : spec.shape[last];
    if (inside == 0 || rows < 2 || (form.each && rows > kMostRows)) return {};
    const std::int64_t far = form.each ? kFar : (kFar / (rows - 1) + 256) / 256 * 256;
    std::vector<std::int64_t> stride(rank, form.turned ? far : 1);
    std::int64_t next = form.turned ? 1 : far;
    for (std::size_t i = last; i-- > 0; next *= spec.shape[i]) stride[i] = next;
    return stride;
}

// Which kernel takes the case, and how, but for the numbers.
std::string way_of(const Case& c, Device device) {
    std::string way;
    Context context(device);
    c.with_call(device, [&](const void* call) { way = taken_by(c, call, context); });
    std::erase_if(way, [](unsigned char letter) { return std::isdigit(letter) != 0; });
    return way;
}

Case with_strides(const Case& near, std::size_t field, const std::vector<std::int64_t>& stride) {
    Case far = near;
    for (std::size_t i = 0; i < far.tensors.size(); ++i) {
        if (i == field || far.tensors[i].alias == static_cast<int>(field)) far.tensors[i].stride = stride;
    }
    return far;
}

// Runs the case with one operand far apart, and compares with the reference of the same values close together.
void expect_right_with(std::size_t field, const Case& near, const Case& far, Device device) {
    const Instance instance(near, device, 3, Values::usual);
    const auto view = [&](const Case& c, void* base) { return c.tensors[field].over(base, device); };
    const Far memory(view(far, nullptr), device);
    if (memory.data() == nullptr) GTEST_SKIP() << "no room for " << far.line() << " on " << name(device.type);
    std::vector<void*> bases;
    for (std::size_t i = 0; i < near.tensors.size(); ++i) {
        auto* base = static_cast<char*>(instance.memory(i));
        const std::int64_t offset = bytes(near.tensors[i].dtype, near.tensors[i].offset);
        bases.push_back(base == nullptr ? nullptr : base + instance.first_byte(i) - offset);
    }
    const Tensor together = view(near, bases[field]), apart = view(far, memory.data());
    copy_view(apart, together);
    bases[field] = memory.data();
    std::vector<std::max_align_t> call(near.contract().size() / sizeof(std::max_align_t) + 1);
    far.bind(call.data(), bases, device);
    Context context(device);
    detail::run(near.op(), call.data(), context);
    synchronize(device, context.stream());
    copy_view(together, apart);
    const Outcome outcome =
        Reference(Instance(near, kCpu, 3, Drawing{Values::usual, device.type != DeviceType::cpu}))
            .compare(instance);
    EXPECT_TRUE(outcome.passed) << far.line() << " on " << name(device.type) << "\n" << outcome.why;
}

class FarApart : public testing::TestWithParam<const OpEntry*> {};

// The case with the form's operand far apart, where it has one; others that share its memory go along.
std::optional<std::pair<Case, Case>> near_and_far(const Case& drawn, const Form& form) {
    if (is_picked(drawn.contract(), drawn.contract().fields()[form.field], drawn) != form.picked) return {};
    Case near = drawn;
    for (TensorSpec& spec : near.tensors) {  // whose memory is near
        if (&spec == &near.tensors[form.field] || spec.alias == static_cast<int>(form.field))
            spec.stride.clear();
    }
    const auto stride = far_strides(near.tensors[form.field], form);
    if (stride.empty()) return {};
    return std::pair(near, with_strides(near, form.field, stride));
}

// Those of the corpus, which go every way through the kernels that a case is known for, but for the large ones.
std::vector<Case> corpus_of(const OpEntry& op) {
    constexpr double kMost = 100'000;  // elements
    std::vector<Case> cases;
    const std::string path = WEFT_SOURCE_DIR "/tests/ops/corpus/" + op.contract().name() + ".txt";
    if (!std::filesystem::exists(path)) return cases;
    for (const Trial& trial : read_corpus(path)) {
        double elements = 0;
        for (const TensorSpec& spec : trial.c.tensors) elements += static_cast<double>(spec.span());
        if (elements <= kMost) cases.push_back(trial.c);
    }
    return cases;
}

TEST_P(FarApart, RowsBeyondTwoToThe31) {
    const OpEntry& op = *GetParam();
    constexpr int kTrials = 2, kLeast = kOnce ? 0 : 200, kMost = 3000;  // of each form and way; drawn cases
    const std::vector<Case> corpus = corpus_of(op);
    const Contract& contract = op.contract();
    for (const Device device : devices_here()) {
        if (op.implementations[static_cast<int>(device.type)].empty()) continue;
        // A GPU has no addresses without memory.
        std::vector<Form> all = forms(contract, device.type != DeviceType::cuda && !kOnce);
        const auto untried = [](const Form& form) { return form.trials.empty(); };
        Random random(31);
        for (std::size_t i = 0; i < kLeast || (i < kMost && std::ranges::any_of(all, untried)); ++i) {
            const auto drawn = i < corpus.size() ? std::optional(corpus[i])
                                                 : generate(op, device_info(device), random,
                                                            {.elements = 6000, .flops = 400'000});
            ASSERT_TRUE(drawn.has_value());
            for (Form& form : all) {
                if (kOnce && !untried(form)) continue;
                const auto cases = near_and_far(*drawn, form);
                if (!cases) continue;
                int& trials = form.trials[way_of(cases->second, device)];
                if (trials++ < kTrials) expect_right_with(form.field, cases->first, cases->second, device);
            }
        }
        for (const Form& form : all) {
            EXPECT_FALSE(form.trials.empty())
                << contract.fields()[form.field].name << (form.picked ? ", picked," : "")
                << (form.turned ? ", turned," : "")
                << (form.each ? " had never all rows far on " : " was never far on ") << name(device.type);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Ops, FarApart, testing::ValuesIn(all_ops()),
                         [](const auto& info) { return info.param->contract().name(); });

}  // namespace
}  // namespace weft
