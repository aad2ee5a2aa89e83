// Tests the files in which tenants outlast the agent.
#include "agent/flows/tenant_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "core/check.h"
#include "core/task_scope.h"
#include "tests/testing/sim_executor.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;
using testing::InlineByteThreads;
using testing::SimExecutor;
using testing::SimTime;

class TenantFilesTest : public ::testing::Test {
 protected:
  TenantFilesTest() {
    TenantSettings acme{.name = "acme"};
    acme.Of(Tier::kHost, ShareField::kGuaranteed) = 10;
    acme.Of(Tier::kGpu, ShareField::kWeight) = 1000;
    kept_.node.emplace("acme", acme);
    kept_.cluster = {.store = 5, .version = 9, .replaced = {3, 4}};
    kept_.cluster.settings.emplace(
        "zeta", TenantSettings{.name = "zeta", .members = {{"acme", GroupAccess::kRead}}});
  }
  ~TenantFilesTest() override {
    std::error_code ignored;  // A directory left in /tmp fails no test.
    std::filesystem::remove_all(directory_, ignored);
  }
  static std::string MakeDirectory() {
    char pattern[] = "/tmp/kvtier-tenant-files-XXXXXX";
    KVT_CHECK(mkdtemp(pattern) != nullptr);
    return pattern;
  }
  template <typename T>
  T Run(Task<T> task) {
    T result;
    scope_.Spawn([](Task<T> of, T* to) -> Task<void> { *to = co_await std::move(of); }(
                                           std::move(task), &result));
    return result;
  }
  std::string path() const { return directory_ + "/" + kTenantSettingsFileName; }
  std::string Content() const {
    std::ostringstream text;
    text << std::ifstream(path()).rdbuf();
    return text.str();
  }
  void Write(const std::string& text) const { std::ofstream(path()) << text; }

  KeptTenantSettings kept_;
  const std::string directory_ = MakeDirectory();
  SimTime time_;
  SimExecutor executor_{&time_};
  InlineByteThreads byte_threads_;
  TaskScope scope_{&executor_};
  TenantFiles files_{&byte_threads_, {.settings = directory_, .secrets = directory_}};
};

TEST_F(TenantFilesTest, WhatIsSavedIsLoaded) {
  EXPECT_EQ(Run(files_.LoadSettings()).value(), KeptTenantSettings()) << "no file yet";
  ASSERT_EQ(Run(files_.SaveSettings({})), absl::OkStatus());
  ASSERT_EQ(Run(files_.SaveSettings(kept_)), absl::OkStatus());
  EXPECT_EQ(Run(files_.LoadSettings()).value(), kept_);
}

// An older build wrote no members.
TEST_F(TenantFilesTest, TheFirstVersionOfTheFileIsRead) {
  SummedWriter out;
  out.Put(uint64_t{0x73746e616e65746b});
  out.Put(uint32_t{1});
  out.Put(uint64_t{9});
  out.Put(uint32_t{0});
  out.Put(uint32_t{0});
  Write(std::move(out).End());
  EXPECT_EQ(Run(files_.LoadSettings()).value(), KeptTenantSettings{.cluster = {.version = 9}});
}

// The next build wrote members, and no store.
TEST_F(TenantFilesTest, TheSecondVersionOfTheFileIsRead) {
  kept_.cluster.store = 0;
  kept_.cluster.replaced.clear();
  SummedWriter out;
  out.Put(uint64_t{0x73746e616e65746b});
  out.Put(uint32_t{2});
  out.Put(kept_.cluster.version);
  PutTenantSettings(kept_.node, &out);
  PutTenantSettings(kept_.cluster.settings, &out);
  Write(std::move(out).End());
  EXPECT_EQ(Run(files_.LoadSettings()).value(), kept_);
}

// A crash in the middle of a write leaves the new file unfinished under its other name.
TEST_F(TenantFilesTest, AnUnfinishedWriteIsNotSeen) {
  ASSERT_EQ(Run(files_.SaveSettings(kept_)), absl::OkStatus());
  std::ofstream(path() + ".new") << "half of";
  EXPECT_EQ(Run(files_.LoadSettings()).value(), kept_);
}

// Kills a child between any two of its system calls. Afterwards the file has the settings that the
// child acknowledged last, or the next ones.
TEST_F(TenantFilesTest, AKillLeavesTheOldSettingsOrTheNew) {
  for (int round = 0; round < 20; ++round) {
    int acknowledged[2];
    ASSERT_EQ(pipe(acknowledged), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (uint64_t number = 1;; ++number) {
        TenantSettings acme{.name = "acme"};
        acme.Of(Tier::kHost, ShareField::kGuaranteed) = number;
        const absl::Status saved =
            Run(files_.SaveSettings({.node = {{"acme", acme}}, .cluster = {.version = number}}));
        if (!saved.ok() || write(acknowledged[1], &number, sizeof(number)) < 0) _exit(1);
      }
    }
    close(acknowledged[1]);
    uint64_t last = 0;
    for (int i = 0; i < 5 + round; ++i) {
      ASSERT_EQ(read(acknowledged[0], &last, sizeof(last)), static_cast<ssize_t>(sizeof(last)));
    }
    kill(child, SIGKILL);
    uint64_t later = 0;  // Last number that was acknowledged before the kill arrived.
    while (read(acknowledged[0], &later, sizeof(later)) == sizeof(later)) last = later;
    close(acknowledged[0]);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    const auto loaded = Run(files_.LoadSettings());
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_GE(loaded->cluster.version, last);
    EXPECT_LE(loaded->cluster.version, last + 1);
    EXPECT_EQ(loaded->node.at("acme").Of(Tier::kHost, ShareField::kGuaranteed),
              loaded->cluster.version);
  }
}

TEST_F(TenantFilesTest, EveryDamagedByteIsSeenAndTheFileIsSetAside) {
  ASSERT_EQ(Run(files_.SaveSettings(kept_)), absl::OkStatus());
  const std::string whole = Content();
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] ^= 1;
    Write(damaged);
    const absl::Status status = Run(files_.LoadSettings()).status();
    ASSERT_TRUE(absl::IsDataLoss(status)) << i << " " << status;
    ASSERT_THAT(std::string(status.message()),
                HasSubstr("the file was renamed to " + path() + ".set_aside"));
    ASSERT_FALSE(std::filesystem::exists(path()));
    ASSERT_TRUE(std::filesystem::exists(path() + ".set_aside"));
  }
  for (const size_t length : {size_t{0}, whole.size() - 1}) {
    Write(whole.substr(0, length));
    EXPECT_TRUE(absl::IsDataLoss(Run(files_.LoadSettings()).status())) << length;
  }
}

TEST_F(TenantFilesTest, SecretsAreWrittenForTheAgentAloneAndRead) {
  ASSERT_EQ(Run(files_.WriteSecret("acme", "sixteen bytes or more")), absl::OkStatus());
  struct stat file{};
  ASSERT_EQ(stat((directory_ + "/acme").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  const auto secrets = Run(files_.ReadSecrets());
  ASSERT_TRUE(secrets.ok());
  ASSERT_EQ(secrets->size(), 1);
  EXPECT_EQ(secrets->front().name, "acme");
  EXPECT_EQ(secrets->front().secret.value(), "sixteen bytes or more");
  EXPECT_EQ(Run(files_.RemoveSecret("acme")), absl::OkStatus());
  EXPECT_EQ(Run(files_.RemoveSecret("acme")), absl::OkStatus()) << "it is removed already";
  EXPECT_TRUE(Run(files_.ReadSecrets())->empty());
}

// The newline at the end of a secret's file is no part of the secret, so a secret that ends in one
// was another secret after a restart.
TEST_F(TenantFilesTest, ASecretThatEndsInANewlineIsTheSameAfterwards) {
  ASSERT_EQ(Run(files_.WriteSecret("acme", "sixteen bytes or more\n")), absl::OkStatus());
  EXPECT_EQ(Run(files_.ReadSecrets())->front().secret.value(), "sixteen bytes or more\n");
}

// A file that somebody else writes is taken when it has stayed the same.
TEST_F(TenantFilesTest, AFileIsTakenWhenALaterLookFindsItUnchanged) {
  const auto write = [this](const std::string& text) {
    std::ofstream(directory_ + "/acme", std::ios::app) << text;
    ASSERT_EQ(chmod((directory_ + "/acme").c_str(), 0600), 0);
  };
  const auto look = [this] { return Run(files_.ReadSecrets())->at(0).secret; };
  write("the first half,");
  EXPECT_TRUE(absl::IsUnavailable(look().status()));
  EXPECT_TRUE(absl::IsUnavailable(look().status())) << "too soon";
  absl::SleepFor(kSecretSettleTime);
  write(" and the second");
  EXPECT_TRUE(absl::IsUnavailable(look().status())) << "it has changed";
  absl::SleepFor(kSecretSettleTime);
  EXPECT_EQ(look().value(), "the first half, and the second");
  EXPECT_EQ(look().value(), "the first half, and the second");
  std::ofstream(directory_ + "/README.md") << "sixteen bytes or more";
  const auto secrets = Run(files_.ReadSecrets());
  ASSERT_EQ(secrets->size(), 2);
  EXPECT_TRUE(absl::IsFailedPrecondition(secrets->front().secret.status()));
}

TEST_F(TenantFilesTest, ADirectoryThatIsReadOnlySaysWhatToDo) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  ASSERT_EQ(chmod(directory_.c_str(), 0500), 0);
  const absl::Status refused = Run(files_.WriteSecret("acme", "sixteen bytes or more"));
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--tenants_dir=" + directory_));
  ASSERT_EQ(chmod(directory_.c_str(), 0700), 0);
}

TEST_F(TenantFilesTest, WithoutADirectoryThereIsTheOneOpenTenant) {
  TenantFiles open(&byte_threads_, {.settings = directory_});
  EXPECT_TRUE(absl::IsFailedPrecondition(Run(open.ReadSecrets()).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(Run(open.WriteSecret("acme", "sixteen bytes or more"))));
}

}  // namespace
}  // namespace kvtier
