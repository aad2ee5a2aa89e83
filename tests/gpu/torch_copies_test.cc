// What the benchmark makes of a python3 that has a torch, and of those that have none. They
// are scripts of these tests; only the syntax of ours is looked at by the real one.
#include "bench/torch_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace kvtier::bench {
namespace {

using ::testing::HasSubstr;

constexpr TorchCell kCells[] = {{8192, 256}, {1024, 4096}};

class TorchCopiesTest : public ::testing::Test {
 protected:
  TorchCopiesTest() {
    std::string name = ::testing::TempDir() + "pythonXXXXXX";
    folder_ = mkdtemp(name.data());
    setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);
  }
  ~TorchCopiesTest() override {
    setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  void WritePython(const std::string& body) {
    const std::filesystem::path python = folder_ / "python3";
    std::ofstream(python) << "#!/bin/sh\n" << body;
    ASSERT_EQ(chmod(python.c_str(), 0700), 0);
  }
  const std::string path_ = std::getenv("PATH");
  std::filesystem::path folder_;
};

TEST_F(TorchCopiesTest, SpeedsAreOfTheCellsThatWereAsked) {
  // What it is called with: -c, the script, the GPU, the cells.
  WritePython(
      "test \"$3 $4 $5\" = '2 8192x256 1024x4096' || exit 1\n"
      "echo speeds 8192 256 1.5e10 2e10\necho speeds 1024 4096 3e9 4e9\n");
  const auto speeds = MeasureTorch(2, kCells);
  ASSERT_TRUE(speeds.ok()) << speeds.status();
  ASSERT_EQ(speeds->size(), 2u);
  EXPECT_EQ(speeds->at(kCells[0]).in, 1.5e10);
  EXPECT_EQ(speeds->at(kCells[1]).out, 4e9);
}

TEST_F(TorchCopiesTest, APythonWithoutTorchSaysSo) {
  WritePython("echo \"No module named 'torch'\"\nexit 1\n");
  const auto speeds = MeasureTorch(0, kCells);
  EXPECT_EQ(speeds.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(speeds.status().message()), HasSubstr("No module named 'torch'"));
}

TEST_F(TorchCopiesTest, WhatIsNoSpeedIsUnavailable) {
  WritePython("echo speeds 8192 256 fast slow\n");
  EXPECT_EQ(MeasureTorch(0, kCells).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(TorchCopiesTest, NoPythonIsNotFound) {
  setenv("PATH", folder_.c_str(), 1);
  EXPECT_EQ(MeasureTorch(0, kCells).status().code(), absl::StatusCode::kNotFound);
}

// The script itself, on a torch that is a file of this test: it asks it for a GPU.
TEST_F(TorchCopiesTest, OurScriptIsPythonAndLooksForAGpuFirst) {
  std::ofstream(folder_ / "torch.py") << "class cuda:\n  is_available = lambda: False\n";
  setenv("PYTHONPATH", folder_.c_str(), 1);
  const auto speeds = MeasureTorch(0, kCells);
  unsetenv("PYTHONPATH");
  EXPECT_THAT(std::string(speeds.status().message()), HasSubstr("torch sees no GPU"));
}

}  // namespace
}  // namespace kvtier::bench
