// `weft demo`: a checkpoint made here, the encoder run through weft's kernels, each result checked.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/pipeline.h"
#include "core/json_text.h"
#include "pipelines/pi05/session.h"
#include "pipelines/pi05/tool/report.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// The embedding table is cut to the ids that the demo's prompt uses; every other size is Gemma-2B's.
constexpr std::int64_t kVocab = 2048;
// Two bf16 paths, or bf16 and fp32, round differently at each of some ten places a layer, half an ulp (2^-9)
// each; the errors add like a random walk. fp8's bound is the one that users of static scales expect.
constexpr double kBf16Error = 0.03, kFp8Cosine = 0.998;

fs::path root() {
    const char* given = std::getenv("WEFT_ROOT");
    return given != nullptr ? fs::path(given) : fs::path(".");
}

void say(const std::string& phase) {
    fmt::print("  {}\n", phase);
    std::fflush(stdout);
}

fs::path folder() { return root() / ".weft" / "demo"; }

fs::path checkpoint(const std::string& name, const GemmaConfig& config) {
    const fs::path path = folder() / (name + ".safetensors");
    if (fs::exists(path)) return path;
    fs::create_directories(path.parent_path());
    fmt::print("  writing {} (random weights, seed 0) ", path.string());
    RandomCheckpointOptions options;
    int tenths = 0;
    options.progress = [&](std::uint64_t done, std::uint64_t total) {
        for (; tenths < static_cast<int>(10 * done / total); ++tenths) fmt::print(".");
        std::fflush(stdout);
    };
    write_random_checkpoint(path, config, options);
    fmt::print(" done\n");
    return path;
}

class Demo {
   public:
    int run() {
        const bool gpu = cuda_device_count() > 0;
        fmt::print("Pi0.5 prefix encoder (Gemma-2B layers) over a photograph and a prompt\n\n");
        gpu ? on_gpu() : on_cpu();
        fmt::print("\n{}\n",
                   failures_ == 0 ? "All checks passed." : fmt::format("{} checks FAILED.", failures_));
        return failures_ == 0 ? 0 : 1;
    }

   private:
    void check(const std::string& what, bool passed, const std::string& figure) {
        fmt::print("  {} {}: {}\n", passed ? "ok    " : "FAILED", what, figure);
        failures_ += passed ? 0 : 1;
    }
    void check_error(const std::string& what, const SessionResult& result, const SessionResult& reference) {
        const Closeness c = closeness(result.output, reference.output);
        check(what, c.relative_error <= kBf16Error,
              fmt::format("relative error {:.2e} (at most {})", c.relative_error, kBf16Error));
    }
    void check_cosine(const std::string& what, const SessionResult& result, const SessionResult& reference) {
        const Closeness c = closeness(result.output, reference.output);
        check(what, c.cosine >= kFp8Cosine, fmt::format("cosine {:.5f} (at least {})", c.cosine, kFp8Cosine));
    }

    void on_gpu() {
        fmt::print("On {}, full size:\n", device_info(kCuda).name);
        GemmaConfig config;
        config.vocab = kVocab;
        SessionOptions o = options(checkpoint("gemma-2b", config), kCuda);
        o.views = 3;
        o.prompt = made_up_prompt(200);
        o.repeats = 100;
        o.out = folder() / "bf16.safetensors";
        const SessionResult bf16 = run_session(o, say);
        o.precision = Precision::fp8;
        o.out = folder() / "fp8.safetensors";
        const SessionResult fp8 = run_session(o, say);
        o.precision = Precision::full;
        o.repeats = 0;
        o.out.clear();
        o.avoid = {"cublaslt"};
        const SessionResult reference = run_session(o, say);
        fmt::print("\nbf16: ");
        print_report(bf16);
        fmt::print("\nfp8: ");
        print_report(fp8);
        fmt::print("\n");
        check_error("bf16 against the path of weft's own GEMMs", bf16, reference);
        check_cosine("fp8 against bf16", fp8, bf16);
        beside_torch(o.checkpoint);
    }

    // PyTorch, where it is here with a GPU, computes and times the same layers, by turns with weft.
    static void beside_torch(const fs::path& checkpoint) {
        if (std::system(
                "python3 -c 'import safetensors, torch; assert torch.cuda.is_available()' 2>/dev/null") !=
            0) {
            fmt::print("\nNo PyTorch with CUDA is here: nothing to compare times with.\n");
            return;
        }
        say("timing PyTorch beside weft (torch.compile takes a minute)");
        std::error_code ignored;
        const std::string tool = fs::read_symlink("/proc/self/exe", ignored).string();
        const std::string run = fmt::format(
            "{} run pi05-encoder --checkpoint {} --image {} --device cuda --views 3 --prompt-tokens 200 "
            "--repeats 60 "
            "--json",
            tool, checkpoint.string(), (root() / "assets" / "coffee.ppm").string());
        const fs::path report = folder() / "torch.json";
        const std::string command = fmt::format(
            "python3 {} --checkpoint {} --input {} --input {} --weft 'weft bf16={}' --weft 'weft fp8={} "
            "--precision "
            "fp8' >{} 2>{}",
            (root() / "pipelines" / "pi05" / "torch_baseline.py").string(), checkpoint.string(),
            (folder() / "bf16.safetensors").string(), (folder() / "fp8.safetensors").string(), run, run,
            report.string(), (folder() / "torch.log").string());
        std::ifstream file;
        if (std::system(command.c_str()) == 0) file.open(report);
        const auto found = parse_json(file);
        if (found.is_discarded()) {
            fmt::print("  PyTorch's side failed: see {}\n", (folder() / "torch.log").string());
        } else {
            fmt::print("\nBeside PyTorch {}, by turns in one session of the card:\n{}",
                       found.value("torch", ""), baseline_table(found));
        }
    }

    void on_cpu() {
        fmt::print(
            "There is no NVIDIA GPU here: two layers of full width on the CPU, then one small layer of the "
            "GPU\n"
            "kernels themselves in the emulator.\n\nOn the CPU:\n");
        GemmaConfig config;
        config.vocab = kVocab;
        config.layers = 2;
        SessionOptions o = options(checkpoint("gemma-2b-2-layers", config), kCpu);
        o.crop = 56;
        const SessionResult bf16 = run_session(o, say);
        o.precision = Precision::fp8;
        const SessionResult fp8 = run_session(o, say);
        o.precision = Precision::full;
        o.dtype = DType::fp32;
        const SessionResult fp32 = run_session(o, say);
        check_error("bf16 against fp32", bf16, fp32);
        check_cosine("fp8 against bf16", fp8, bf16);

        fmt::print("\nIn the emulator:\n");
        const GemmaConfig small{.layers = 1,
                                .width = 64,
                                .query_heads = 4,
                                .kv_heads = 1,
                                .head_dim = 16,
                                .ffn = 128,
                                .vocab = kVocab};
        SessionOptions e = options(checkpoint("gemma-small", small), kEmulator);
        e.crop = 28;
        const SessionResult emulated = run_session(e, say);
        e.precision = Precision::fp8;
        const SessionResult emulated8 = run_session(e, say);
        e.device = kCpu;
        const SessionResult cpu8 = run_session(e, say);
        e.precision = Precision::full;
        const SessionResult cpu = run_session(e, say);
        check_error("bf16 kernels against the CPU", emulated, cpu);
        check_cosine("fp8 kernels against the CPU", emulated8, cpu8);
        on_h100(o.checkpoint, bf16, emulated);
    }

    // The policies are functions of a call and a device's description, so they answer without the device.
    static void on_h100(const fs::path& checkpoint, const SessionResult& cpu, const SessionResult& emulated) {
        const DeviceInfo& h100 = *find_device("h100");
        SessionOptions o = options(checkpoint, kEmulator);
        o.views = 3;
        o.prompt = made_up_prompt(200);
        const std::vector<LabelTime> plan = plan_session(o, h100);
        fmt::print(
            "\nWhat {} would run of weft's kernels at full size (3 views, 968 tokens, bf16), the time below "
            "which\n"
            "no call of that work can be, and which implementations computed the step in the checks "
            "above:\n\n{}",
            h100.name, plan_table(plan, {{"CHECKED: CPU", &cpu}, {"CHECKED: EMULATOR", &emulated}}));
    }

    static SessionOptions options(const fs::path& path, Device device) {
        SessionOptions o;
        o.checkpoint = path;
        o.image = root() / "assets" / "coffee.ppm";
        o.device = device;
        o.prompt = made_up_prompt(16);
        return o;
    }

    int failures_ = 0;
};

const cli::RegisterPipeline kDemo{{
    .name = "demo",
    .description = "run a real transformer through weft's kernels, checked",
    .options = nullptr,
    .run = [] { return Demo().run(); },
    .help = "With an NVIDIA GPU: 18 layers, 968 tokens, bf16 and fp8, in one CUDA Graph, with a table by op, "
            "and\n"
            "beside PyTorch where that is here.\n"
            "Without one: two layers on the CPU, and one small layer of the GPU kernels in the emulator.\n",
}};

}  // namespace
}  // namespace weft
