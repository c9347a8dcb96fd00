// weft make-checkpoint: a random Gemma checkpoint.
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/progress.h"
#include "io/gemma_checkpoint.h"

namespace weft::cli {
namespace {

struct Arguments {
    std::string path, dtype = "bf16";
    GemmaConfig config;
    RandomCheckpointOptions options;
    double shard_gib = 0;
};

int make(Arguments a) {
    const auto dtype = parse_dtype(a.dtype);
    if (!dtype || !kFloat.contains(*dtype)) {
        throw Failure(kUsage, fmt::format("--dtype {}: expected bf16, fp16 or fp32", a.dtype));
    }
    a.options.dtype = *dtype;
    a.options.shard_bytes = static_cast<std::uint64_t>(a.shard_gib * 0x1p30);
    std::unique_ptr<Progress> bar;
    a.options.progress = [&](std::uint64_t done, std::uint64_t total) {
        if (!bar) bar = std::make_unique<Progress>("writing MiB", static_cast<std::int64_t>(total >> 20));
        bar->at(static_cast<std::int64_t>(done >> 20));
    };
    write_random_checkpoint(a.path, a.config, a.options);
    bar.reset();
    fmt::print("wrote {} ({} layers, {}, seed {})\n", a.path, a.config.layers, a.dtype, a.options.seed);
    return kPassed;
}

}  // namespace

Command make_checkpoint_command() {
    return {
        "make-checkpoint", "Write a random Gemma checkpoint in transformers' names",
        "Weights are damped random numbers that depend on the seed, the tensor's name and the element alone: "
        "the same\n"
        "file on every machine. A PATH ending in .safetensors is one file; any other a folder with a "
        "config.json.\n"
        "The defaults are the Gemma-2B of Pi0.5's prefix encoder: 5 GB in bf16.\n\n"
        "Examples:\n  weft make-checkpoint gemma --layers 18\n"
        "  weft make-checkpoint small.safetensors --layers 2 --vocab 1000 --dtype fp32 --seed 1\n"
        "  weft make-checkpoint sharded --shard-gib 2\n",
        [](CommandLine& line) -> std::function<int()> {
            auto a = std::make_shared<Arguments>();
            line.add("path", &a->path, "the file or folder to write").required();
            constexpr double kMost = 1 << 24;
            GemmaConfig& c = a->config;
            line.add("--layers", &c.layers, "").between(1, kMost).with_default();
            line.add("--width", &c.width, "of the residual stream").between(1, kMost).with_default();
            line.add("--query-heads", &c.query_heads, "").between(1, kMost).with_default();
            line.add("--kv-heads", &c.kv_heads, "").between(1, kMost).with_default();
            line.add("--head-dim", &c.head_dim, "").between(1, kMost).with_default();
            line.add("--ffn", &c.ffn, "width between the two halves of a layer's FFN")
                .between(1, kMost)
                .with_default();
            line.add("--rope-base", &c.rope_base, "of the rotary angles").positive().with_default();
            line.add("--norm-eps", &c.norm_eps, "added to a row's mean square")
                .between(0.0, 1.0)
                .with_default();
            line.add("--vocab", &c.vocab, "tokens").between(1, kMost).with_default();
            line.add("--dtype", &a->dtype, "bf16, fp16 or fp32").with_default();
            line.add("--seed", &a->options.seed, "").with_default();
            line.add("--shard-gib", &a->shard_gib, "most GiB of a file; 0: all in one").with_default();
            return [a] { return make(*a); };
        }};
}

}  // namespace weft::cli
