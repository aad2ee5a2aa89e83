#include "coordinator/settings_store.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/coordinator_config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"

namespace kvtier {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class SettingsStoreTest : public ::testing::Test {
 protected:
  SettingsStoreTest() {
    std::string name = ::testing::TempDir() + "kvtier-settings-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no directory " << name;
    directory_ = name;
  }
  ~SettingsStoreTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  std::unique_ptr<SettingsStore> Open() {
    auto store = SettingsStore::Open({.directory = directory_});
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  // Opens a store in which an operator has begun settings.
  std::unique_ptr<SettingsStore> Begun() {
    auto store = Open();
    EXPECT_TRUE(store->tenants().version > 0 || store->Init(0).ok());
    return store;
  }
  std::string directory_;
};

TEST_F(SettingsStoreTest, StartsWithTheDefaultsItWasGiven) {
  const auto store = SettingsStore::Open(
      {.directory = directory_, .defaults = {.node_timeout = absl::Seconds(9)}});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->current().node_timeout, absl::Seconds(9));
  EXPECT_THAT((*store)->All(),
              ElementsAre(Pair("forget_after_ms", "300000"), Pair("node_timeout_ms", "9000")));
}

TEST_F(SettingsStoreTest, WhatWasSetIsThereAfterAReopenAndOverridesTheDefault) {
  ASSERT_TRUE(Begun()->Set("node_timeout_ms", "2500").ok());
  const auto store = Open();
  EXPECT_EQ(store->current().node_timeout, absl::Milliseconds(2500));
  EXPECT_EQ(store->current().forget_after, absl::Minutes(5));
}

TEST_F(SettingsStoreTest, AnUnknownNameIsRefusedNamingTheKnownOnes) {
  const absl::Status status = Begun()->Set("node_timeout", "1000");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("\"node_timeout\"; there are node_timeout_ms, forget_after_ms"));
}

TEST_F(SettingsStoreTest, EachLimitHoldsAndOneBeyondIsRefused) {
  const auto store = Begun();
  for (const char* value : {"100", "3600000"}) {
    ASSERT_TRUE(store->Set("forget_after_ms", "604800000").ok());
    EXPECT_TRUE(store->Set("node_timeout_ms", value).ok()) << value;
  }
  ASSERT_TRUE(store->Set("node_timeout_ms", "5000").ok());
  for (const char* value : {"99", "3600001", "", "-1", "5s", "99999999999"}) {
    const absl::Status status = store->Set("node_timeout_ms", value);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << value;
    EXPECT_THAT(std::string(status.message()), HasSubstr("node_timeout_ms")) << value;
  }
  EXPECT_TRUE(store->Set("forget_after_ms", "5000").ok());
  // Refused in either order of setting, because a node would be forgotten before it is silent.
  EXPECT_FALSE(store->Set("forget_after_ms", "4999").ok());
  EXPECT_FALSE(store->Set("node_timeout_ms", "5001").ok());
  EXPECT_FALSE(store->Set("forget_after_ms", "604800001").ok());
  EXPECT_EQ(store->current().node_timeout, absl::Seconds(5));
}

TEST_F(SettingsStoreTest, OneProcessAtATimeHasTheDirectory) {
  const auto store = Open();
  const auto second = SettingsStore::Open({.directory = directory_});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(directory_));
}

TenantChange HostWeight(const std::string& name, std::optional<uint64_t> weight) {
  return {.name = name,
          .values = {{.tier = Tier::kHost, .field = ShareField::kWeight, .value = weight}}};
}

// Once, settings were acknowledged in a directory that was gone, and lost at the next start.
TEST_F(SettingsStoreTest, NoSettingIsAcknowledgedThatTheNextStartWouldNotFind) {
  namespace fs = std::filesystem;
  const std::string moved = directory_ + "-moved";
  const auto file = [this](const std::string& begin, const std::string& end) {
    for (const auto& entry : fs::directory_iterator(directory_)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(begin) && name.ends_with(end)) return entry.path();
    }
    return fs::path();
  };
  const std::pair<const char*, std::function<void()>> losses[] = {
      {"directory moved", [&] { fs::rename(directory_, moved); }},
      {"directory removed", [&] { fs::remove_all(directory_); }},
      {"directory is a copy",
       [&] {
         fs::rename(directory_, moved);
         fs::copy(moved, directory_);
       }},
      {"MANIFEST removed", [&] { fs::remove(file("MANIFEST", "")); }},
      {"CURRENT removed", [&] { fs::remove(file("CURRENT", "")); }},
      {"log removed", [&] { fs::remove(file("", ".log")); }}};
  for (const auto& [what, lose] : losses) {
    SCOPED_TRACE(what);
    fs::create_directories(directory_);
    auto store = Begun();
    ASSERT_TRUE(store->Set("node_timeout_ms", "2500").ok());
    ASSERT_TRUE(store->ChangeTenant(HostWeight("acme", 3)).ok());
    lose();
    const absl::Status set = store->Set("node_timeout_ms", "2600");
    EXPECT_EQ(set.code(), absl::StatusCode::kUnavailable) << set;
    EXPECT_THAT(std::string(set.message()), HasSubstr(directory_));
    EXPECT_EQ(store->current().node_timeout, absl::Milliseconds(2500));
    EXPECT_EQ(store->ChangeTenant(HostWeight("acme", 4)).status().code(),
              absl::StatusCode::kUnavailable);
    EXPECT_EQ(store->tenants().version, 2);
    store.reset();
    fs::remove_all(moved);
    fs::remove_all(directory_);
  }
}

TEST_F(SettingsStoreTest, ADamagedDirectoryIsDataLossNotDefaults) {
  ASSERT_TRUE(Begun()->Set("node_timeout_ms", "2500").ok());
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    if (entry.path().filename().string().starts_with("MANIFEST")) {
      std::filesystem::resize_file(entry.path(), 10);
    }
  }
  EXPECT_EQ(SettingsStore::Open({.directory = directory_}).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(SettingsStoreTest, InANewDirectoryNothingCanBeSetBeforeAnOperatorBeginsOrImportsSettings) {
  const auto store = Open();
  EXPECT_EQ(store->tenants(), ClusterTenants());
  for (const absl::Status& refused :
       {store->ChangeTenant(HostWeight("acme", 3)).status(), store->DropTenant("acme").status(),
        store->Set("node_timeout_ms", "2500")}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr("--data_dir was empty"), HasSubstr("kvtier tenants init"),
                      HasSubstr("kvtier tenants import FILE")));
  }
}

TEST_F(SettingsStoreTest, SettingsBeginOnceWithAnIdThatStays) {
  const uint64_t id = Open()->Init(0)->store;
  EXPECT_NE(id, 0);
  const auto store = Open();
  EXPECT_EQ(store->tenants(), (ClusterTenants{.store = id, .version = 1}));
  const absl::Status again = store->Init(0).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(again)) << again;
  EXPECT_THAT(std::string(again.message()), HasSubstr(StoreIdText(id)));
  EXPECT_TRUE(store->ChangeTenant(HostWeight("acme", 3)).ok()) << "a refusal ends the change";
  EXPECT_EQ(store->tenants().store, id);
}

TEST_F(SettingsStoreTest, AStoreMayReplaceOthersAlsoLater) {
  const uint64_t id = Open()->Init(9)->store;
  EXPECT_EQ(Open()->tenants().replaced, (std::set<uint64_t>{9}));
  const auto store = Open();
  ASSERT_TRUE(store->ChangeTenant(HostWeight("acme", 3)).ok());
  ASSERT_TRUE(store->Init(10).ok());
  ASSERT_TRUE(store->Init(10).ok()) << "a second time";
  EXPECT_EQ(store->tenants().replaced, (std::set<uint64_t>{9, 10}));
  EXPECT_TRUE(store->tenants().settings.contains("acme"));
  EXPECT_TRUE(absl::IsFailedPrecondition(store->Init(id).status())) << "it cannot replace itself";
  for (uint64_t other = 11; store->tenants().replaced.size() < kMaxReplacedStores; ++other) {
    ASSERT_TRUE(store->Init(other).ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(store->Init(9999).status()));
}

TEST_F(SettingsStoreTest, TenantsThatWereSetAreThereAfterAReopen) {
  ASSERT_TRUE(Begun()->ChangeTenant(HostWeight("acme", 3)).ok());
  ASSERT_TRUE(Begun()->ChangeTenant(HostWeight("beta", 4)).ok());
  const auto store = Open();
  EXPECT_EQ(store->tenants().version, 3);
  ASSERT_EQ(store->tenants().settings.size(), 2);
  EXPECT_EQ(store->tenants().settings.at("acme").Of(Tier::kHost, ShareField::kWeight), 3);
  ASSERT_TRUE(store->ChangeTenant(HostWeight("acme", std::nullopt)).ok());
  EXPECT_FALSE(store->tenants().settings.contains("acme")) << "all default is none";
  ASSERT_TRUE(store->DropTenant("beta").ok());
  EXPECT_TRUE(store->tenants().settings.empty());
  EXPECT_EQ(store->tenants().version, 5) << "nodes learn that nothing is set";
}

TEST_F(SettingsStoreTest, MembersOfAShareGroupAreThereAfterAReopen) {
  const auto change = [](std::optional<GroupAccess> access) {
    return TenantChange{.name = "prompts", .members = {{.tenant = "acme", .access = access}}};
  };
  ASSERT_TRUE(Begun()->ChangeTenant(change(GroupAccess::kWrite)).ok());
  EXPECT_EQ(Open()->tenants().settings.at("prompts").members,
            (GroupMembers{{"acme", GroupAccess::kWrite}}));
  ASSERT_TRUE(Open()->ChangeTenant(change(std::nullopt)).ok());
  EXPECT_TRUE(Open()->tenants().settings.empty()) << "a group without members is none";
}

TEST_F(SettingsStoreTest, AChangeOfATenantThatCannotBeKeepsWhatIsThere) {
  const auto store = Begun();
  ASSERT_TRUE(store->ChangeTenant(HostWeight("acme", 3)).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(store->ChangeTenant(HostWeight("acme", 1001)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(store->ChangeTenant(HostWeight("-", 1)).status()));
  EXPECT_TRUE(absl::IsNotFound(store->DropTenant("beta").status()));
  EXPECT_EQ(store->tenants().version, 2);
  ClusterTenants full = store->tenants();
  for (size_t i = 1; i < kMaxTenantSettings; ++i) {
    const std::string name = absl::StrCat("t", i);
    full.settings.emplace(name, HostWeight(name, 1).In({}).value());
  }
  ASSERT_TRUE(store->Import(full, SettingsStore::Existing::kGiveWay).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(store->ChangeTenant(HostWeight("more", 1)).status()));
  EXPECT_EQ(store->tenants().settings.size(), kMaxTenantSettings);
  EXPECT_TRUE(store->Set("node_timeout_ms", "2500").ok()) << "a refusal ends the change";
}

ClusterTenants Exported(uint64_t store, uint64_t version, uint64_t weight = 7) {
  return {.store = store,
          .version = version,
          .settings = {{"beta", HostWeight("beta", weight).In({}).value()}}};
}

TEST_F(SettingsStoreTest, ImportedSettingsKeepTheirStoreAndVersionAndChangesGoOnTop) {
  ASSERT_TRUE(Open()->Import(Exported(5, 9), SettingsStore::Existing::kStay).ok());
  const auto store = Open();
  EXPECT_EQ(store->tenants(), Exported(5, 9));
  EXPECT_TRUE(store->Import(Exported(5, 9), SettingsStore::Existing::kStay).ok()) << "the same";
  ASSERT_TRUE(store->ChangeTenant(HostWeight("acme", 3)).ok());
  EXPECT_EQ(store->tenants().version, 10);
  EXPECT_EQ(store->tenants().store, 5);
  EXPECT_TRUE(store->tenants().settings.contains("beta"));
}

TEST_F(SettingsStoreTest, AnImportReplacesKnownSettingsOnlyWhereItIsConfirmed) {
  const uint64_t own = Open()->Init(8)->store;
  const auto store = Open();
  const absl::Status refused =
      store->Import(Exported(5, 9), SettingsStore::Existing::kStay).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("--yes"), HasSubstr(StoreIdText(own))));
  EXPECT_EQ(store->tenants().store, own);
  ASSERT_TRUE(store->Import(Exported(5, 9), SettingsStore::Existing::kGiveWay).ok());
  ClusterTenants expected = Exported(5, 9);
  expected.replaced = {8, own};
  EXPECT_EQ(store->tenants(), expected) << "nodes that follow the one before change over";
  ASSERT_TRUE(store->Import(Exported(5, 9), SettingsStore::Existing::kStay).ok());
  EXPECT_EQ(store->tenants(), expected) << "a second time";
  const absl::Status older =
      store->Import(Exported(5, 8), SettingsStore::Existing::kGiveWay).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(older)) << older;
  EXPECT_THAT(std::string(older.message()), HasSubstr("8 is older"));
  ASSERT_TRUE(store->Import(Exported(5, 9, 6), SettingsStore::Existing::kGiveWay).ok());
  EXPECT_TRUE(Takes(expected.Stamp(), store->tenants().Stamp(), {})) << "nodes learn what differs";
  EXPECT_FALSE(store->Import(Exported(5, 12), SettingsStore::Existing::kStay).ok());
  EXPECT_TRUE(store->Import(Exported(5, 12), SettingsStore::Existing::kGiveWay).ok());
}

TEST_F(SettingsStoreTest, AnExportOfABuildWithoutStoresGetsOne) {
  ASSERT_TRUE(Open()->Import(Exported(0, 9), SettingsStore::Existing::kStay).ok());
  const auto store = Open();
  EXPECT_NE(store->tenants().store, 0);
  EXPECT_EQ(store->tenants().version, 9);
  EXPECT_TRUE(Takes(Exported(0, 9).Stamp(), store->tenants().Stamp(), {})) << "nodes follow";
}

// Such a build wrote form 2, and no row at all where only the coordinator's own settings were set.
TEST_F(SettingsStoreTest, SettingsOfABuildWithoutStoresAreKnownAndGetAnIdThatStays) {
  const auto write = [&](const std::string& key, const std::string& value) {
    rocksdb::DB* opened = nullptr;
    rocksdb::Options options;
    options.create_if_missing = true;
    ASSERT_TRUE(rocksdb::DB::Open(options, directory_, &opened).ok());
    const std::unique_ptr<rocksdb::DB> db(opened);
    ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), key, value).ok());
  };
  write("setting/node_timeout_ms", "2500");
  const ClusterTenants begun = Open()->tenants();
  EXPECT_NE(begun.store, 0);
  EXPECT_EQ(Open()->tenants(), begun);
  SummedWriter row;
  row.Put(uint32_t{2});
  row.Put(uint64_t{9});
  PutTenantSettings(Exported(0, 9).settings, &row);
  write("tenants", std::move(row).End());
  const ClusterTenants known = Open()->tenants();
  EXPECT_NE(known.store, 0);
  EXPECT_EQ(known.version, 9);
  EXPECT_EQ(known.settings, Exported(0, 9).settings);
  EXPECT_EQ(Open()->tenants(), known);
}

// Child of the test below: acknowledges each Set() on a descriptor until it is killed. It is a
// program of its own, since RocksDB's threads do not survive a fork.
TEST(SettingsStoreChild, DISABLED_SetsUntilItIsKilled) {
  const char* const directory = std::getenv("KVTIER_CHILD_DIRECTORY");
  const char* const descriptor = std::getenv("KVTIER_CHILD_DESCRIPTOR");
  ASSERT_TRUE(directory != nullptr && descriptor != nullptr);
  const auto store = SettingsStore::Open({.directory = directory});
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE((*store)->tenants().version > 0 || (*store)->Init(0).ok());
  for (uint32_t value = 1000; value < 1000000; ++value) {
    ASSERT_TRUE((*store)->Set("node_timeout_ms", absl::StrCat(value)).ok());
    ASSERT_EQ(write(std::atoi(descriptor), &value, sizeof(value)),
              static_cast<ssize_t>(sizeof(value)));
  }
}

// The child is killed in the middle of its work; every value acknowledged, or a later one, must be
// there.
TEST_F(SettingsStoreTest, WhatWasAcknowledgedSurvivesKill) {
  for (int round = 0; round < 5; ++round) {
    int acknowledged[2];
    ASSERT_EQ(pipe(acknowledged), 0);
    setenv("KVTIER_CHILD_DIRECTORY", directory_.c_str(), 1);
    setenv("KVTIER_CHILD_DESCRIPTOR", absl::StrCat(acknowledged[1]).c_str(), 1);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      execl("/proc/self/exe", "child", "--gtest_also_run_disabled_tests",
            "--gtest_filter=SettingsStoreChild.*", "--gtest_brief=1", nullptr);
      _exit(1);
    }
    close(acknowledged[1]);
    uint32_t last = 0;
    for (int i = 0; i < 20 + 7 * round; ++i) {
      ASSERT_EQ(read(acknowledged[0], &last, sizeof(last)), static_cast<ssize_t>(sizeof(last)));
    }
    kill(child, SIGKILL);
    uint32_t value = 0;  // Last value acknowledged before the kill.
    while (read(acknowledged[0], &value, sizeof(value)) == sizeof(value)) last = value;
    close(acknowledged[0]);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << status;
    const int64_t stored = absl::ToInt64Milliseconds(Open()->current().node_timeout);
    EXPECT_GE(stored, last);
    EXPECT_LE(stored, last + 1);  // One more change may have been written and not acknowledged.
  }
}

TEST(CoordinatorConfig, BeyondLoopbackNeedsLeave) {
  CoordinatorConfig config{.data_dir = "d"};
  for (const char* listen : {"127.0.0.1:7300", "127.9.9.9:0", "localhost:7300", "[::1]:7300"}) {
    config.listen = listen;
    EXPECT_TRUE(config.Validate().ok()) << listen;
  }
  for (const char* listen : {"0.0.0.0:7300", "[::]:7300", "10.0.0.1:7300", "127.example.com:1"}) {
    config.insecure_listen = false;
    config.listen = listen;
    EXPECT_THAT(std::string(config.Validate().message()),
                ::testing::AllOf(HasSubstr(listen), HasSubstr("--insecure_listen")));
    config.insecure_listen = true;
    EXPECT_TRUE(config.Validate().ok()) << listen;
  }
}

TEST(CoordinatorConfig, NamesTheFlagThatIsWrong) {
  CoordinatorConfig config{.data_dir = "d"};
  config.listen = "7300";
  EXPECT_THAT(std::string(config.Validate().message()), HasSubstr("--listen"));
  config = {};
  EXPECT_THAT(std::string(config.Validate().message()), HasSubstr("--data_dir"));
  config = {.data_dir = "d", .node_timeout = absl::Milliseconds(99)};
  EXPECT_THAT(std::string(config.Validate().message()), HasSubstr("--node_timeout=99ms"));
  config.node_timeout = absl::Hours(1);  // Longer than the usual forget_after.
  EXPECT_TRUE(config.Validate().ok());
}

}  // namespace
}  // namespace kvtier
