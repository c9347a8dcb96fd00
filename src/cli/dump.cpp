// Writing a trial's inputs and reference results.
#include "cli/dump.h"

#include <fmt/format.h>

#include <bit>
#include <fstream>

#include "core/describe.h"
#include "core/json_text.h"
#include "io/safetensors.h"
#include "verify/instance.h"

namespace weft::cli {
namespace {

// Tensors on their way into a file, with the memory of those that were made here.
class Bundle {
   public:
    // A dtype that the file format lacks is written as its codes.
    void add(const std::string& name, const Tensor& t) {
        if (safetensors_name(t.dtype)) return tensors_.push_back({name, t});
        std::vector<std::int64_t> codes;
        for_each_offset(t, [&](std::int64_t i) {
            codes.push_back(static_cast<std::int64_t>(encode(t.dtype, load_element(t.dtype, t.data, i))));
        });
        add(name, t, DType::uint8, codes);
    }
    // `values` in the shape of `like`, stored as dtype.
    void add(const std::string& name, const Tensor& like, DType dtype,
             const std::vector<std::int64_t>& values) {
        owned_.push_back(allocate(dtype, std::span(like.shape, static_cast<std::size_t>(like.rank)), kCpu));
        for (std::size_t i = 0; i < values.size(); ++i) {
            store_integer(dtype, owned_.back().view.data, static_cast<std::int64_t>(i), values[i]);
        }
        tensors_.push_back({name, owned_.back().view});
    }
    void write(const std::filesystem::path& path) const { write_safetensors(path, tensors_); }

   private:
    std::vector<NamedTensor> tensors_;
    std::vector<OwnedTensor> owned_;
};

void add_result(Bundle& bundle, const std::string& name, const Tensor& t, const Oracle::Record* record) {
    std::vector<std::int64_t> exact, error, written;
    for_each_offset(t, [&](std::int64_t offset) {
        const auto i = static_cast<std::size_t>(offset);
        const bool stored = record != nullptr && record->written[i];
        exact.push_back(std::bit_cast<std::int64_t>(stored ? record->value[i] : 0.0));
        error.push_back(std::bit_cast<std::int64_t>(stored ? record->error[i] : 0.0));
        written.push_back(stored ? 1 : 0);
    });
    bundle.add(name, t);
    bundle.add(name + ".exact", t, DType::int64, exact);
    bundle.add(name + ".error", t, DType::int64, error);
    bundle.add(name + ".written", t, DType::uint8, written);
}

void dump_trial(const std::filesystem::path& folder, const Trial& trial) {
    std::filesystem::create_directories(folder);
    const auto& fields = trial.c.contract().fields();
    const Instance instance(trial.c, kCpu, trial.seed, trial.values);
    Bundle inputs, results;
    for (const Field& f : fields) {
        const Tensor& t = Contract::tensor(instance.call(), f);
        if (t && f.reads()) inputs.add(f.name, t);
    }
    inputs.write(folder /
                 "inputs.safetensors");  // before the reference runs: outputs may be the memory of inputs
    Oracle oracle(true);
    trial.c.op().reference(instance.call(), oracle);
    for (const Field& f : fields) {
        const Tensor& t = Contract::tensor(instance.call(), f);
        if (t && f.writes()) add_result(results, f.name, t, oracle.find(t.data));
    }
    results.write(folder / "reference.safetensors");
    nlohmann::json description = describe(trial.c);
    description["seed"] = trial.seed;
    description["values"] = name(trial.values);
    std::ofstream(folder / "case.json") << json_text(description, 2) << "\n";
}

}  // namespace

void dump_trials(const std::filesystem::path& folder, const std::vector<Line>& lines) {
    for (std::size_t i = 0; i < lines.size(); ++i) {
        dump_trial(lines.size() == 1 ? folder : folder / fmt::format("{:04}", i), lines[i].trial);
    }
}

}  // namespace weft::cli
