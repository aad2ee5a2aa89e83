#include "bench/many_tenants.h"

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/call_figures.h"
#include "bench/caller.h"
#include "bench/child_process.h"
#include "bench/node_process.h"
#include "bench/plain_space.h"
#include "client/client.h"
#include "core/status_macros.h"

namespace kvtier::bench {
namespace {

constexpr size_t kTenants = 64;
constexpr size_t kBlocksOfEach = 16;
constexpr uint64_t kBlockBytes = 4096;
// The measured tenant has 160 MiB of blocks and those of its commits.
constexpr char kSettings[] = "tenant-0 host_guaranteed=512MiB\n";

std::string NameOf(size_t tenant) { return absl::StrCat("tenant-", tenant); }
std::string SecretOf(size_t tenant) { return absl::StrCat("the secret of tenant ", tenant); }

// TenantFolder is a directory with a secret of each tenant, and their settings beside it; removed
// with the object.
class TenantFolder {
 public:
  TenantFolder() : directory_(MakeScratchDirectory()) {
    std::filesystem::create_directory(secrets());
    for (size_t i = 0; i < kTenants; ++i) {
      const std::string path = absl::StrCat(secrets(), "/", NameOf(i));
      std::ofstream(path) << SecretOf(i);
      chmod(path.c_str(), 0600);
    }
    std::ofstream(settings()) << kSettings;
  }
  TenantFolder(const TenantFolder&) = delete;
  TenantFolder& operator=(const TenantFolder&) = delete;
  ~TenantFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  std::string secrets() const { return directory_ + "/secrets"; }
  std::string settings() const { return directory_ + "/settings"; }

 private:
  const std::string directory_;
};

ClientOptions OptionsFor(const NodeProcess& node, size_t tenant) {
  return {
      .socket_dir = node.socket_dir(), .tenant = NameOf(tenant), .tenant_secret = SecretOf(tenant)};
}

// Opens a session of the tenant, and puts some blocks.
absl::StatusOr<std::unique_ptr<Client>> OpenWithBlocks(const NodeProcess& node, size_t tenant) {
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<Client> client, Client::Open(OptionsFor(node, tenant)));
  KVT_ASSIGN_OR_RETURN(const SpaceHandle space,
                       client->RegisterSpace(PlainSpace("others", kBlockBytes)));
  const std::vector<EngineKey> keys = KeysOfSet(tenant, kBlocksOfEach);
  KVT_ASSIGN_OR_RETURN(ReservedBlocks reserved, client->Reserve(space, keys));
  const std::vector<std::byte> bytes(kBlockBytes, std::byte{3});
  const ConstPiece piece{bytes.data(), bytes.size()};
  for (size_t i = 0; i < reserved.size(); ++i) {
    KVT_RETURN_IF_ERROR(reserved.CopyIn(i, {&piece, 1}));
  }
  if (reserved.Commit() == keys.size()) return client;
  return absl::UnavailableError(absl::StrCat(NameOf(tenant), " has no room for its blocks"));
}

}  // namespace

absl::Status PrintManyTenantsFigures() {
  const TenantFolder folder;
  const std::vector<std::string> memory = {"--host_bytes=1GiB", "--slab_bytes=4MiB"};
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<NodeProcess> lone,
                       NodeProcess::StartAgent("one", memory));
  std::vector<std::string> flags = memory;
  flags.push_back(absl::StrCat("--tenants_dir=", folder.secrets()));
  flags.push_back(absl::StrCat("--tenant_settings=", folder.settings()));
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<NodeProcess> shared,
                       NodeProcess::StartAgent("many", flags));
  std::vector<std::unique_ptr<Client>> others;
  for (size_t i = 1; i < kTenants; ++i) {
    KVT_ASSIGN_OR_RETURN(std::unique_ptr<Client> client, OpenWithBlocks(*shared, i));
    others.push_back(std::move(client));
  }
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<Caller> one,
                       Caller::Open({.socket_dir = lone->socket_dir()}));
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<Caller> many, Caller::Open(OptionsFor(*shared, 0)));
  return PrintTenantsFigures(absl::StrCat("node.tenants_", kTenants), many.get(), one.get());
}

}  // namespace kvtier::bench
