// Where cuBLASLt is looked for.
#if WEFT_HAS_CUBLASLT
#include <gmock/gmock.h>

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "ops/gemm/cublaslt.h"
#include "ops/gemm/cublaslt_library.h"
#include "weft/device_info.h"
#include "weft/error.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using gemm::CublasLt;
using testing::HasSubstr;
using Places = std::vector<std::string>;

// An environment variable while it lives; null: none.
class Variable {
   public:
    Variable(const char* name, const char* value) : name_(name) {
        if (const char* before = std::getenv(name)) before_ = before;
        value != nullptr ? setenv(name, value, 1) : unsetenv(name);
    }
    ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;

   private:
    const char* name_;
    std::optional<std::string> before_;
};

struct GemmCublasltLibrary : testing::Test {
    GemmCublasltLibrary() {
        fs::remove_all(folder);
        for (const char* name : {"one/lib/python3.9", "one/lib/python3.11", "one/lib/ruby", "two/lib",
                                 "three/lib/python3.12", "one/bin", "two/bin", "three/bin"})
            fs::create_directories(folder / name);
        for (const char* name : {"one/bin/python3", "three/bin/python3"})
            std::ofstream(folder / name) << "python";
    }
    ~GemmCublasltLibrary() override { fs::remove_all(folder); }

    // Of pip, in a site-packages folder.
    void add_site(Places& to, const fs::path& site) const {
        to.push_back(site / "nvidia" / ("cu" + major) / "lib" / soname);
        to.push_back(site / "nvidia/cublas/lib" / soname);
    }
    void add_python(Places& to, const fs::path& lib) const {
        add_site(to, lib / "site-packages");
        add_site(to, lib / "dist-packages");
    }
    // Beside libweft and in the three folders above it.
    Places own() const {
        Places expected = {soname};
        Dl_info self{};
        EXPECT_NE(dladdr(reinterpret_cast<const void*>(&CublasLt::find), &self), 0);
        fs::path at = fs::absolute(self.dli_fname).parent_path();
        for (int up = 0; up < 4 && at != at.root_path(); ++up, at = at.parent_path()) {
            expected.push_back(at / soname);
            add_site(expected, at);
            expected.push_back(at / ".weft/cublas/lib" / soname);
        }
        return expected;
    }

    const std::string major = std::to_string(CUBLAS_VER_MAJOR), soname = "libcublasLt.so." + major;
    const fs::path folder = fs::temp_directory_path() / ("weft_test_cublaslt_" + std::to_string(getpid()));
    Variable chosen{"WEFT_CUBLASLT", nullptr}, venv{"VIRTUAL_ENV", nullptr}, conda{"CONDA_PREFIX", nullptr},
        path{"PATH", ""}, home{"CUDA_HOME", nullptr}, toolkit{"CUDA_PATH", nullptr};
};

TEST_F(GemmCublasltLibrary, IsTheOneThatTheEnvironmentNames) {
    const Variable file("WEFT_CUBLASLT", "/nowhere/lib.so");
    EXPECT_EQ(CublasLt::places(), Places{"/nowhere/lib.so"});
    const Variable in("WEFT_CUBLASLT", folder.c_str());
    EXPECT_EQ(CublasLt::places(), Places{folder / soname});
}

TEST_F(GemmCublasltLibrary, IsLookedForBesideWeftAndInPythonsAndToolkits) {
    Places expected = own();
    const std::string last = "/usr/local/cuda/lib64/" + soname;
    expected.push_back(last);
    EXPECT_EQ(CublasLt::places(), expected);
    const std::string on_path = (folder / "two/bin").string() + ":" + (folder / "three/bin").string();
    const Variable environment("VIRTUAL_ENV", (folder / "one").c_str()),
        other("CONDA_PREFIX", (folder / "two").c_str()), all("PATH", on_path.c_str()),
        cuda("CUDA_HOME", "/a"), more("CUDA_PATH", "/b");
    expected.pop_back();
    add_python(expected, folder / "one/lib/python3.11");
    add_python(expected, folder / "one/lib/python3.9");
    add_python(expected, folder / "three/lib/python3.12");
    expected.insert(expected.end(), {"/a/lib64/" + soname, "/b/lib64/" + soname, last});
    EXPECT_EQ(CublasLt::places(), expected);
}

TEST_F(GemmCublasltLibrary, WhatLacksAFunctionIsNone) {
    CublasLt library;
    EXPECT_FALSE(library.load({}));
    EXPECT_FALSE(library.load({"/nowhere/lib.so"}));
    EXPECT_FALSE(library.load({"/nowhere/lib.so", "libm.so.6"}));
}

TEST_F(GemmCublasltLibrary, SaysThatItIsNotThere) {
    CublasLt::replace(nullptr);
    if (CublasLt::find() != nullptr) GTEST_SKIP() << "it is";
    try {
        CublasLt::get();
        FAIL();
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::unsupported);
        EXPECT_EQ(std::string(e.what()), "gemm: " + soname + " was not found");
    }
    Gemm op{};
    op.a = op.b = op.out = Tensor(nullptr, DType::bf16, {16, 16});
    EXPECT_THAT(gemm::cublaslt_decline(op, *find_device("h200")), HasSubstr("libcublasLt was not found"));
    op.activation = Gemm::Activation::silu;
    EXPECT_THAT(gemm::cublaslt_decline(op, *find_device("h200")), HasSubstr("SiLU"));
}

}  // namespace
}  // namespace weft
#endif
