#include "cli/arguments.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kKeyHex[] = "00112233445566778899aabbccddeeff";
const std::string kSpaceHex(64, 'a');
constexpr char kGpu[] = "GPU-656d756c-6174-6564-0000-0000000000ab";

absl::StatusOr<Arguments> Parse(const std::string& line) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  return ParseArguments(words);
}

TEST(Arguments, AskTheAgentOfThisNodeWhenNothingIsNamed) {
  const auto arguments = Parse("status");
  ASSERT_TRUE(arguments.ok());
  EXPECT_EQ(arguments->verb, Verb::kStatus);
  EXPECT_THAT(arguments->agents, ElementsAre("unix:/run/kvtier/kvtier-admin.sock"));
  EXPECT_FALSE(arguments->coordinator.has_value());
  EXPECT_EQ(arguments->format, Format::kTable);
  EXPECT_EQ(arguments->timeout, absl::Seconds(2));
}

TEST(Arguments, AskNoAgentWhenOnlyACoordinatorIsNamed) {
  const auto arguments = Parse("status --coordinator 10.0.0.1:7300");
  ASSERT_TRUE(arguments.ok());
  EXPECT_THAT(arguments->agents, IsEmpty());
  EXPECT_EQ(arguments->coordinator, "10.0.0.1:7300");
}

TEST(Arguments, TakeSeveralAgentsAndBothFormsOfAnOption) {
  const auto arguments =
      Parse("tiers --agent /a.sock --agent=unix:/b.sock --agent h:1 -o json --timeout=500ms");
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_THAT(arguments->agents, ElementsAre("unix:/a.sock", "unix:/b.sock", "h:1"));
  EXPECT_EQ(arguments->format, Format::kJson);
  EXPECT_EQ(arguments->timeout, absl::Milliseconds(500));
}

TEST(Arguments, APathIsASocketAlsoFromHere) {
  for (const std::string path : {"s/kvtier-admin.sock", "./a.sock", "../a:1/b.sock"}) {
    EXPECT_THAT(Parse("status --agent " + path)->agents, ElementsAre("unix:" + path));
  }
  for (const std::string address : {"dns:///node:7301", "unix:s/a.sock", "[::1]:7301", "node"}) {
    EXPECT_THAT(Parse("status --agent " + address)->agents, ElementsAre(address));
  }
}

TEST(Arguments, NameABlockByItsKey) {
  const auto arguments = Parse(std::string("lookup --block-key ") + kKeyHex);
  ASSERT_TRUE(arguments.ok());
  EXPECT_EQ(arguments->block_key->ToHex(), kKeyHex);
  EXPECT_FALSE(arguments->engine_name.has_value());
}

TEST(Arguments, NameABlockAsItsEngineDoes) {
  const auto arguments =
      Parse("lookup --tenant t --engine-key 0102030405060708 --space-digest " + kSpaceHex);
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_EQ(arguments->engine_name->tenant, "t");
  EXPECT_EQ(arguments->engine_name->space.ToHex(), kSpaceHex);
  EXPECT_EQ(arguments->engine_name->key.bytes(),
            absl::string_view("\x01\x02\x03\x04\x05\x06\x07\x08"));
}

TEST(Arguments, ReadAndWriteSettings) {
  EXPECT_TRUE(Parse("settings")->setting_name.empty());
  EXPECT_EQ(Parse("settings get quota")->setting_name, "quota");
  const auto set = Parse("settings set quota=a=b");
  EXPECT_EQ(set->setting_name, "quota");
  EXPECT_EQ(set->setting_value, "a=b");
  EXPECT_EQ(Parse("settings set quota=")->setting_value, "");
}

TEST(Arguments, NameTheGpuThatIsResized) {
  EXPECT_EQ(Parse("gpu resize 1GiB")->gpu_device, "");
  const auto named = Parse(std::string("gpu resize 1GiB --device ") + kGpu);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->resize_bytes, uint64_t{1} << 30);
  EXPECT_EQ(named->gpu_device, kGpu);
}

TEST(Arguments, NameThePinsAndThePrefixThatAreDropped) {
  EXPECT_EQ(Parse("pins list")->pins_tenant, "");
  EXPECT_EQ(Parse("pins list --tenant acme")->pins_tenant, "acme");
  EXPECT_EQ(Parse("pins drop --tenant acme")->pin, 0u);
  EXPECT_EQ(Parse("pins drop --tenant acme --pin 7")->pin, 7u);
  const auto drop = Parse(
      "prefix drop --yes --tenant t --engine-key 0102030405060708 --space-digest " + kSpaceHex);
  ASSERT_TRUE(drop.ok()) << drop.status();
  EXPECT_EQ(drop->engine_name->space.ToHex(), kSpaceHex);
  EXPECT_EQ(drop->timeout, absl::Seconds(60));
}

TEST(Arguments, SayWhatIsToChangeOfATenant) {
  EXPECT_EQ(Parse("tenants")->verb, Verb::kTenants);
  EXPECT_EQ(Parse("tenants list")->verb, Verb::kTenants);
  EXPECT_EQ(Parse("tenants describe acme")->tenant.change.name, "acme");
  const auto set = Parse(
      "tenants set acme --host_guaranteed 10GiB --disk_weight=3 --gpu_maximum=default "
      "--secret_file /f");
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->verb, Verb::kTenantSet);
  EXPECT_EQ(set->tenant.secret_file, "/f");
  ASSERT_EQ(set->tenant.change.values.size(), 3);
  EXPECT_EQ(set->tenant.change.values[0].tier, Tier::kHost);
  EXPECT_EQ(set->tenant.change.values[0].value, uint64_t{10} << 30);
  EXPECT_EQ(set->tenant.change.values[1].value, 3);
  EXPECT_EQ(set->tenant.change.values[2].value, std::nullopt);
  const auto group = Parse("tenants set prompts --read acme,beta --write=gamma --no_member zeta");
  ASSERT_TRUE(group.ok()) << group.status();
  const std::vector<TenantChange::Member>& members = group->tenant.change.members;
  ASSERT_EQ(members.size(), 4);
  EXPECT_EQ(members[0].tenant, "acme");
  EXPECT_EQ(members[1].access, GroupAccess::kRead);
  EXPECT_EQ(members[2].access, GroupAccess::kWrite);
  EXPECT_EQ(members[3].tenant, "zeta");
  EXPECT_EQ(members[3].access, std::nullopt);
  EXPECT_TRUE(Parse("tenants drop acme --yes")->yes);
  EXPECT_EQ(Parse("tenants drop acme --yes")->timeout, absl::Seconds(60));
  EXPECT_EQ(Parse("tenants list --coordinator /c.sock")->coordinator, "unix:/c.sock");
}

TEST(Arguments, RefuseWhatIsNoChangeOfATenant) {
  const auto refusal = [](const std::string& line) {
    return std::string(Parse(line).status().message());
  };
  EXPECT_THAT(refusal("tenants describe"), HasSubstr("needs the name of one tenant"));
  EXPECT_THAT(refusal("tenants set acme"), HasSubstr("needs a setting"));
  EXPECT_THAT(refusal("tenants set -"), HasSubstr("-"));
  EXPECT_THAT(refusal("tenants set a/b --host_weight 1"), HasSubstr("not 'a/b'"));
  EXPECT_THAT(refusal("tenants set acme --host_weight much"), HasSubstr("--host_weight: 'much'"));
  EXPECT_THAT(refusal("tenants set acme --host_maximum 1XB"), HasSubstr("--host_maximum: '1XB'"));
  EXPECT_THAT(refusal("tenants set acme --read a,-"), HasSubstr("--read: '-' is no tenant's name"));
  EXPECT_THAT(refusal("tenants set acme --read a,"), HasSubstr("--read: '' is no tenant's name"));
  EXPECT_THAT(refusal("tenants set acme --write acme"), HasSubstr("the share group itself"));
  EXPECT_THAT(refusal("tenants set acme --read a --write a"), HasSubstr("'a' is named twice"));
  EXPECT_THAT(refusal("tenants drop acme"),
              HasSubstr("ends the sessions of acme and erases its blocks, secret and settings; add "
                        "--yes to confirm"));
  EXPECT_THAT(refusal("tenants drop acme --coordinator /c"),
              HasSubstr("removes the settings of acme that hold on all nodes, and no tenant; add "
                        "--yes to confirm"));
  EXPECT_THAT(refusal("tenants make acme"), HasSubstr("unknown verb 'tenants make'"));
  EXPECT_THAT(refusal("tenants list acme"), HasSubstr("does not take 'acme'"));
  EXPECT_THAT(refusal("tenants --agent /a --coordinator /c"), HasSubstr("one of the two"));
  EXPECT_THAT(refusal("tenants set acme --coordinator /c --secret_file /f"),
              HasSubstr("takes no secret"));
  EXPECT_THAT(refusal("status --host_weight 1"), HasSubstr("does not take --host_weight"));
}

TEST(Arguments, TheStoreOfSettingsIsExportedImportedAndBegun) {
  EXPECT_THAT(Parse("tenants export")->agents, ::testing::SizeIs(1));
  EXPECT_EQ(Parse("tenants export --coordinator /c")->coordinator, "unix:/c");
  const auto import = Parse("tenants import f --coordinator /c --yes");
  ASSERT_TRUE(import.ok()) << import.status();
  EXPECT_EQ(import->import_file, "f");
  EXPECT_TRUE(import->yes);
  EXPECT_EQ(Parse("tenants init --coordinator /c")->replaced_store, 0u);
  EXPECT_EQ(Parse("tenants init --coordinator /c --replace 00000000000000a0")->replaced_store,
            0xa0u);
  for (const auto& [line, words] : std::map<std::string, std::string>{
           {"tenants export --agent /a --agent /b", "name one --agent"},
           {"tenants export --agent /a --coordinator /c", "one of the two"},
           {"tenants export -o json", "does not take --output"},
           {"tenants import f", "needs --coordinator"},
           {"tenants import --coordinator /c", "needs one file"},
           {"tenants init", "needs --coordinator"},
           {"tenants init now --coordinator /c", "does not take 'now'"},
           {"tenants init --coordinator /c --replace a0", "--replace: 'a0' is no id of a store"}}) {
    EXPECT_THAT(std::string(Parse(line).status().message()), HasSubstr(words)) << line;
  }
}

TEST(Arguments, HelpWinsOverWhatStandsBesideIt) {
  EXPECT_EQ(Parse("evict --help")->verb, Verb::kHelp);
  EXPECT_EQ(Parse("evict --tier tape --help")->helped->verb, Verb::kEvict);
  EXPECT_EQ(Parse("tenants set acme --help")->helped->verb, Verb::kTenantSet);
  EXPECT_EQ(Parse("help disk verify")->helped->verb, Verb::kDiskVerify);
  EXPECT_EQ(Parse("help")->helped, nullptr);
  EXPECT_EQ(Parse("-h")->verb, Verb::kHelp);
}

struct Mistake {
  std::string line;
  std::string complaint;
};

TEST(Arguments, SayWhatIsWrong) {
  const std::vector<Mistake> mistakes = {
      {"", "a verb is missing"},
      {"help explode", "unknown verb 'explode'"},
      {"help -o json", "help does not take --output"},
      {"man", "man needs one directory"},
      {"completion", "completion needs the name of a shell"},
      {"completion fish", "completion needs the name of a shell: bash"},
      {"explode", "unknown verb 'explode'"},
      {"status now", "status does not take 'now'"},
      {"status --bogus", "unknown option --bogus"},
      {"status -x", "unknown option -x"},
      {"status --yes", "status does not take --yes"},
      {"version --agent a", "version does not take --agent"},
      {"nodes --tier host", "nodes does not take --tier"},
      {"status --agent", "--agent needs a value"},
      {"status --agent=", "--agent is empty"},
      {"status --coordinator a --coordinator b", "--coordinator is given twice"},
      {"status -o yaml", "--output must be table or json, not 'yaml'"},
      {"status --timeout 5", "--timeout must be 1ms to 60s"},
      {"status --timeout 0s", "--timeout must be 1ms to 60s"},
      {"status --timeout 61s", "--timeout must be 1ms to 60s"},
      {"status --timeout -1s", "--timeout must be 1ms to 60s"},
      {"disk info now", "disk info does not take 'now'"},
      {"disk info --coordinator c", "disk info does not take --coordinator"},
      {"lookup", "lookup needs --block-key"},
      {"lookup --block-key 0011", "--block-key"},
      {"lookup --tenant t", "lookup needs --block-key, or all of"},
      {std::string("lookup --tenant t --block-key ") + kKeyHex, "not both"},
      {"lookup --tenant t --engine-key 0102030405060708 --space-digest 00", "--space-digest"},
      {"lookup --tenant t --engine-key xy --space-digest " + kSpaceHex,
       "hexadecimal digits, not 'xy'"},
      {"lookup --tenant t --engine-key 0102 --space-digest " + kSpaceHex, "--engine-key"},
      {"lookup --coordinator c --tenant t --engine-key 0102030405060708 --space-digest " +
           kSpaceHex,
       "needs an --agent"},
      {"evict --yes", "evict needs --tier"},
      {"disk", "disk needs a second word"},
      {"disk polish", "unknown verb 'disk polish'"},
      {"disk verify now", "disk verify does not take 'now'"},
      {"disk verify --rate 0", "--rate must be bytes a second"},
      {"disk verify --rate fast", "--rate must be bytes a second"},
      {"disk verify --tier host", "disk verify does not take --tier"},
      {"evict --tier tape --yes", "evict needs --tier"},
      {"evict --tier host", "add --yes"},
      {"tenant", "needs a second word: erase"},
      {"tenant burn acme", "unknown verb 'tenant burn'"},
      {"tenant erase --yes", "the name of one tenant"},
      {"tenant erase acme other --yes", "the name of one tenant"},
      {"tenant erase acme", "add --yes"},
      {"pins", "needs a second word: list or drop"},
      {"pins drop", "pins drop needs --tenant"},
      {"pins list --pin 3", "pins list does not take --pin"},
      {"pins drop --tenant t --pin 0", "that kvtier pins list shows, not '0'"},
      {"pins drop --tenant t --pin all", "that kvtier pins list shows, not 'all'"},
      {"prefix drop --tenant t --yes", "prefix drop needs all of --tenant, --space-digest"},
      {"prefix drop --tenant t --engine-key 0102030405060708 --space-digest " + kSpaceHex,
       "add --yes to confirm"},
      {"gpu", "needs a second word: resize"},
      {"gpu resize", "needs one size"},
      {"gpu resize 1GiB 2GiB", "needs one size"},
      {"gpu resize 0", "not '0'"},
      {"gpu resize much", "not 'much'"},
      {"host", "needs a second word: resize"},
      {"host resize", "host resize needs one size"},
      {"host resize some", "not 'some'"},
      {"host resize 1GiB --device cuda:1", "host resize does not take --device"},
      {"gpu resize 1GiB --yes", "gpu resize does not take --yes"},
      {"gpu resize 1GiB --device cuda:1", "that kvtier tiers shows, not 'cuda:1'"},
      {std::string("gpu resize 1GiB --device G") + kGpu, "--device must be the UUID of a GPU"},
      {std::string("gpu resize 1GiB --agent a --agent b --device ") + kGpu, "name one --agent"},
      {std::string("tiers --device ") + kGpu, "tiers does not take --device"},
      {"evict --tier host --yes=1", "--yes takes no value"},
      {"settings put a=b", "settings takes no other word than get [NAME] or set NAME=VALUE"},
      {"settings set quota", "NAME=VALUE, not 'quota'"},
      {"settings set =1", "NAME=VALUE, not '=1'"},
  };
  for (const Mistake& mistake : mistakes) {
    const auto arguments = Parse(mistake.line);
    EXPECT_TRUE(absl::IsInvalidArgument(arguments.status())) << mistake.line;
    EXPECT_THAT(std::string(arguments.status().message()), HasSubstr(mistake.complaint))
        << mistake.line;
  }
}

TEST(Arguments, TheDoctorIsToldWhereToLookAndForWhom) {
  const auto usual = Parse("doctor");
  ASSERT_TRUE(usual.ok());
  EXPECT_EQ(usual->verb, Verb::kDoctor);
  EXPECT_EQ(usual->socket_dir, "/run/kvtier");
  EXPECT_THAT(usual->disk_dirs, IsEmpty());
  EXPECT_FALSE(usual->uid.has_value());
  const auto told = Parse("doctor --socket-dir /s --disk-dir /a --disk-dir=/b --uid 1000");
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_EQ(told->socket_dir, "/s");
  EXPECT_THAT(told->disk_dirs, ElementsAre("/a", "/b"));
  EXPECT_EQ(told->uid, 1000);
  for (const char* uid : {"root", "-1", "4294967296"}) {
    EXPECT_THAT(std::string(Parse(std::string("doctor --uid=") + uid).status().message()),
                HasSubstr(uid));
  }
  EXPECT_FALSE(Parse("doctor --agent h:1").ok());
}

}  // namespace
}  // namespace kvtier::cli
